"""The templates of pages: everything that is foreign in them is escaped."""

import base64
import hashlib
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from envhub.results.report.drawing import AXIS

if TYPE_CHECKING:
    from markupsafe import Markup


def render_page(
    template: str,
    *,
    script: str = "",
    connects: bool = False,
    pictures: bool = False,
    **context: Any,
) -> str:
    """Return a page. It needs no network; its own script and style are the only ones allowed.

    Args:
        template: The name of its file.
        script: The name of the file with its script; empty: it has none.
        connects: Whether its script may ask the place that it came from.
        pictures: Whether it shows pictures that lie beside it.
        context: What the template shows.
    """
    style, code = _read("page.css"), _read(script) if script else ""
    policy = _policy(style, code, connects=connects, pictures=pictures)
    return render_part(template, style=style, script=code, policy_of_page=policy, **context)


def render_part(template: str, **context: Any) -> str:
    """Return what a template makes, without a style and a script of its own."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # commands must start fast

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_read),
    )
    environment.filters["percent"] = lambda value: "-" if value is None else f"{value:.1%}"
    environment.filters["breakable"] = _breakable
    environment.globals.update(axis_width=AXIS)
    return environment.get_template(template).render(context)


def _breakable(name: str) -> "Markup":
    """Return a name that a browser may break after an underscore, a slash or a dot."""
    from markupsafe import Markup

    parts = re.split(r"(?<=[_/.:])", name)
    return Markup("<wbr>").join(parts)


def _read(name: str) -> str:
    return files("envhub.results.report").joinpath(name).read_text("utf-8")


def _policy(style: str, script: str, *, connects: bool, pictures: bool) -> str:
    """The page's content security policy: nothing but its own style, script and videos."""
    allowed = "; ".join(
        f"{kind}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for kind, text in (("style", style), ("script", script))
        if text
    )
    asked = "connect-src 'self'; " if connects else ""
    asked += "img-src 'self' file:; " if pictures else ""
    return (
        f"default-src 'none'; {allowed}; {asked}media-src 'self' file:; base-uri 'none'; "
        "form-action 'none'"
    )
