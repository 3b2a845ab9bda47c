"""Match texts of address settings and security settings: their grammar, and which of them an address matches.

Responsible for wildcards and for the order from the most to the least specific match. Does not depend on what a match
stands for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Generic, TypeVar

__all__ = ["Matches", "check_match"]

T = TypeVar("T")


def check_match(match: str, kind: str = "address-setting") -> None:
    """Refuse a text that is not a match.

    Raises:
        ValueError: The text has a ``#`` in the middle, or is empty.
    """
    if not match:
        article = "an" if kind[0] in "aeiou" else "a"
        raise ValueError(f"{article} {kind} match must not be empty; '#' matches every address")
    if "#" in match[:-1]:
        raise ValueError(f"{kind} match {match!r}: '#' is allowed at the end only")


class Matches(Generic[T]):
    """Find the entries that match an address.

    Raises:
        ValueError: A text is not a match.
    """

    def __init__(self, entries: Mapping[str, T]) -> None:
        for match in entries:
            check_match(match)
        wild = sorted((match for match in entries if "*" in match or "#" in match), key=_rank)
        self._wildcards = [(_pattern(match), entries[match]) for match in wild]
        self._exact = {match: entry for match, entry in entries.items() if "*" not in match and "#" not in match}

    def exact(self, text: str) -> T | None:
        """Return the entry whose match is this text, without wildcards."""
        return self._exact.get(text)

    def of(self, address: str) -> list[T]:
        """Return the entries that match an address, the most specific first."""
        matching = [entry for pattern, entry in self._wildcards if pattern.fullmatch(address)]
        exact = self._exact.get(address)
        if exact is not None:
            matching.insert(0, exact)
        return matching


def _pattern(match: str) -> re.Pattern[str]:
    """Return the pattern of a match.

    ``*`` is one or more characters without a dot, ``#`` (at the end) any further words; ``a#`` equals ``a.#``.
    """
    if match == "#":
        return re.compile(r".*", re.DOTALL)
    open_ended = match.endswith("#")
    stem = match[:-1].removesuffix(".") if open_ended else match
    text = "".join("[^.]+" if character == "*" else re.escape(character) for character in stem)
    return re.compile(text + (r"(\..+)*" if open_ended else ""), re.DOTALL)


def _rank(match: str) -> tuple[object, ...]:
    """Return a sort key, most specific first: without ``#`` before with; longer before shorter among ``#``."""
    if "#" in match:
        return (1, -len(match), match)
    return (0, tuple(word == "*" for word in match.split(".")), len(match), match)
