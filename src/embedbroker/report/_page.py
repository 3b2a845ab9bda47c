"""Pages of reports from the templates of this package.

Responsible for the template engine. The content of a page is in its template, and in the values of its caller.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["load_templates", "page"]


def page(template: str, **values: object) -> str:
    """Return the page of a template with these values. Texts among them are escaped.

    Raises:
        ImportError: jinja2 is not installed.
    """
    return load_templates().get_template(template).render(values)


@cache
def load_templates() -> Environment:
    """Return the template engine. A command calls this first, to find a missing library before the work.

    Raises:
        ImportError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        message = "jinja2 is missing; install the extra: pip install 'embedbroker[cli]' or 'embedbroker[spark]'"
        raise ImportError(message, name="jinja2") from None
    environment = Environment(
        loader=PackageLoader("embedbroker.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["px"] = _pixels
    environment.filters["number"] = _number
    return environment


def _pixels(value: float) -> str:
    return f"{value:.1f}"


def _number(value: float) -> str:
    """Return an axis number: thousands are separated, zeros at the end are left out."""
    return f"{value:,g}"
