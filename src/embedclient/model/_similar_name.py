"""Suggestions for an unknown name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

__all__ = ["did_you_mean", "hints_at_names"]

T = TypeVar("T")

SIMILARITY_MIN = 0.6


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'this'?`, or nothing when no known name is similar: a wild guess misleads."""
    from difflib import get_close_matches  # loaded only after a typing error

    by_lower = {candidate.lower(): candidate for candidate in known}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=SIMILARITY_MIN)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""


def hints_at_names(cls: type[T]) -> type[T]:
    """Let the TypeError for an unknown keyword of an attrs class suggest the field that was meant."""
    plain: Callable[..., None] = cls.__init__

    @wraps(plain)
    def init(self: T, *values: Any, **named: Any) -> None:
        try:
            plain(self, *values, **named)
        except TypeError:
            known = [field.alias for field in cls.__attrs_attrs__]  # type: ignore[attr-defined]  # attrs
            for name in named:
                if name not in known:
                    hint = did_you_mean(name, known)
                    raise TypeError(f"{cls.__name__} has no value {name!r}{hint}") from None
            raise

    cls.__init__ = init  # type: ignore[assignment]  # the same arguments
    return cls
