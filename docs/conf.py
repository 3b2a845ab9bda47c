"""Sphinx settings; `nox -s docs` builds with warnings as errors."""

from __future__ import annotations

from importlib.metadata import version as installed

project = "embedbroker"
author = "The embedbroker authors"
project_copyright = author
release = installed("embedbroker")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
nitpicky = False
html_theme = "alabaster"
html_theme_options = {"description": "A message broker inside a Python process", "page_width": "1100px"}
