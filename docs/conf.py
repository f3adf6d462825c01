"""Sphinx configuration. The pages are plain Markdown; what only a site needs is added here."""

import importlib
import inspect
import re
from typing import Any

import envhub

project = "EnvHub"
copyright = "the EnvHub authors"  # noqa: A001
release = envhub.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_default_options = {"undoc-members": False}
python_display_short_literal_types = True
python_maximum_signature_line_length = 88
myst_heading_anchors = 4
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_title = "EnvHub"

_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_SECTION = re.compile(r"^## (.+)\n\n((?:- \[.*\n(?:  .*\n)*)+)", re.MULTILINE)
_ROW = re.compile(r"(?:^\| `(envhub[\w.]*)` \| .* \|\n)+", re.MULTILINE)


def _mark_code(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    """Docstrings mark code with one backquote, as Markdown does; reStructuredText needs two."""
    lines[:] = _CODE.sub(r"``\1``", "\n".join(lines)).split("\n")


def _add_directives(_app: Any, page: str, source: list[str]) -> None:
    """Make a table of contents of the index's lists, and document what the API's tables name."""
    if page == "index":
        for title, links in _SECTION.findall(source[0]):
            pages = re.findall(r"\]\((\w[\w-]*)\.md\)", links)
            options = f":maxdepth: 1\n:hidden:\n:caption: {title}\n"
            source[0] += f"\n```{{toctree}}\n{options}\n" + "\n".join(pages) + "\n```\n"
    if page == "api":
        source[0] = _ROW.sub(lambda rows: rows[0] + _documented(rows[0]), source[0])


def _documented(rows: str) -> str:
    """Return a directive for each name in the rows of a table."""
    lines = []
    for name in re.findall(r"^\| `([\w.]+)`", rows, re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        is_class = inspect.isclass(getattr(importlib.import_module(module), attribute))
        lines.append(f".. auto{'class' if is_class else 'function'}:: {name}")
        if is_class and not issubclass(
            getattr(importlib.import_module(module), attribute), Exception
        ):
            lines.append("   :members:")
    return "\n```{eval-rst}\n" + "\n".join(lines) + "\n```\n"


def setup(app: Any) -> None:
    """Connect to Sphinx."""
    app.connect("source-read", _add_directives)
    app.connect("autodoc-process-docstring", _mark_code, priority=400)  # before napoleon
