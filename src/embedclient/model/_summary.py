"""Short texts of objects for `__repr__`: what a debugger, a notebook and an error text show.

Does not depend on the objects. No text has a password.
"""

from __future__ import annotations

__all__ = ["summary"]


def summary(thing: object, *parts: object) -> str:
    """Return `<Class part part>`, without the parts that are None or empty."""
    texts = [text for text in (str(part) for part in parts if part is not None) if text]
    return f"<{' '.join([type(thing).__name__, *texts])}>"
