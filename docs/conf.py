"""Sphinx configuration."""

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
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_title = "EnvHub"

_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def _mark_code(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    """Docstrings mark code with one backquote, as Markdown does; reStructuredText needs two."""
    lines[:] = _CODE.sub(r"``\1``", "\n".join(lines)).split("\n")


def setup(app: Any) -> None:
    """Connect to Sphinx."""
    app.connect("autodoc-process-docstring", _mark_code, priority=400)  # before napoleon
