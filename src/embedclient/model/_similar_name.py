"""Suggestions for an unknown name."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean"]

SIMILARITY_MIN = 0.6


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'this'?`, or nothing when no known name is similar: a wild guess misleads."""
    from difflib import get_close_matches  # loaded only after a typing error

    by_lower = {candidate.lower(): candidate for candidate in known}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=SIMILARITY_MIN)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""
