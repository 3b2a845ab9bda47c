"""Reports as self-contained HTML pages, written from packaged templates.

The templates need jinja2, which the extras `cli` and `spark` bring; it loads with the first page.
"""

from ._chart import Band, Chart, Lane, Series, Stretch, lanes_of
from ._page import load_templates, page

__all__ = ["Band", "Chart", "Lane", "Series", "Stretch", "lanes_of", "load_templates", "page"]
