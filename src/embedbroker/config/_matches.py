"""Match texts of address settings and security settings: their grammar, and which of them an address matches.

Responsible for wildcards and for the order from the most to the least specific match. Does not depend on what a match
stands for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Generic, TypeVar

from ._wildcards import WildcardConfiguration

__all__ = ["Matches", "check_markers", "check_match"]

T = TypeVar("T")

_USUAL = WildcardConfiguration()
# The names of temporary destinations of JMS clients.
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def check_markers(markers: str) -> None:
    """Refuse a text that is neither empty nor the two characters around a literal match.

    Raises:
        ValueError: The text has another length.
    """
    if len(markers) not in (0, 2):
        raise ValueError(f"must be the first and the last character of a literal match, such as '()', not {markers!r}")


def check_match(
    match: str, kind: str = "address-setting", wildcards: WildcardConfiguration = _USUAL, literal_markers: str = ""
) -> None:
    """Refuse a text that is not a match.

    Raises:
        ValueError: The text has a ``#`` in the middle, or is empty.
    """
    if not match:
        article = "an" if kind[0] in "aeiou" else "a"
        raise ValueError(f"{article} {kind} match must not be empty; {wildcards.any_words!r} matches every address")
    literal = _literal(match, literal_markers)
    if wildcards.any_words in (match if literal is None else literal)[:-1]:
        raise ValueError(f"{kind} match {match!r}: {wildcards.any_words!r} is allowed at the end only")


class Matches(Generic[T]):
    """Find the entries that match an address.

    Args:
        entries: The entries by match text.
        wildcards: Characters of wildcards.
        uuid_namespace: First words of the texts that stand for addresses whose name is a UUID; empty: their names.
        literal_markers: First and last character of a match without wildcards; empty: no match is literal.

    Raises:
        ValueError: A text is not a match.
    """

    def __init__(
        self,
        entries: Mapping[str, T],
        wildcards: WildcardConfiguration = _USUAL,
        uuid_namespace: str = "",
        literal_markers: str = "",
    ) -> None:
        self._literal: dict[str, T] = {}
        others: dict[str, T] = {}
        for match, entry in entries.items():
            check_match(match, wildcards=wildcards, literal_markers=literal_markers)
            literal = _literal(match, literal_markers)
            if literal is None:
                others[match] = entry
            else:
                self._literal[literal] = entry
        entries = others
        characters = wildcards.any_words, wildcards.single_word
        wild = [match for match in entries if any(each in match for each in characters)]
        are_wild = frozenset(wild)
        wild.sort(key=lambda match: _rank(match, wildcards))
        self._wildcards = [(_pattern(match, wildcards), entries[match]) for match in wild]
        self._exact = {match: entry for match, entry in entries.items() if match not in are_wild}
        self._uuid_prefix = f"{uuid_namespace}{wildcards.delimiter}" if uuid_namespace else ""

    def exact(self, text: str) -> T | None:
        """Return the entry whose match is this text, without wildcards."""
        return self._exact.get(text)

    def of(self, address: str) -> list[T]:
        """Return the entries that match an address, the most specific first."""
        if self._uuid_prefix and _UUID.fullmatch(address):
            address = self._uuid_prefix + address
        matching = [entry for pattern, entry in self._wildcards if pattern.fullmatch(address)]
        for exact in (self._literal.get(address), self._exact.get(address)):
            if exact is not None:
                matching.insert(0, exact)
        return matching


def _literal(match: str, markers: str) -> str | None:
    """Return the text between the markers of a literal match; None for another match."""
    if not markers or len(match) < 2 or (match[0], match[-1]) != (markers[0], markers[1]):
        return None
    return match[1:-1]


def _pattern(match: str, wildcards: WildcardConfiguration) -> re.Pattern[str]:
    """Return the pattern of a match.

    ``*`` is one or more characters without a dot, ``#`` (at the end) any further words; ``a#`` equals ``a.#``.
    """
    if match == wildcards.any_words:
        return re.compile(r".*", re.DOTALL)
    delimiter = re.escape(wildcards.delimiter)
    open_ended = match.endswith(wildcards.any_words)
    stem = match[:-1].removesuffix(wildcards.delimiter) if open_ended else match
    word = f"[^{delimiter}]+"
    text = "".join(word if character == wildcards.single_word else re.escape(character) for character in stem)
    return re.compile(text + (rf"({delimiter}.+)*" if open_ended else ""), re.DOTALL)


def _rank(match: str, wildcards: WildcardConfiguration) -> tuple[object, ...]:
    """Return a sort key, most specific first: without ``#`` before with; longer before shorter among ``#``."""
    if wildcards.any_words in match:
        return (1, -len(match), match)
    words = match.split(wildcards.delimiter)
    return (0, tuple(word == wildcards.single_word for word in words), len(match), match)
