"""Options of the form NAME=VALUE, such as the values of ${NAME} in a broker.xml and the properties of a bridge."""

from __future__ import annotations

import click

__all__ = ["as_properties"]


def as_properties(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Return the properties; the callback of the option."""
    for text in texts:
        if not text.partition("=")[0].strip() or "=" not in text:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    return {name.strip(): value for name, _, value in (text.partition("=") for text in texts)}
