"""Sphinx configuration."""

import envhub

project = "EnvHub"
copyright = "the EnvHub authors"  # noqa: A001
release = envhub.__version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_title = "EnvHub"
