"""Selectors: which messages a consumer or a queue wants.

Responsible for turning a text into a ``Selector`` once per distinct text. The grammar and the meaning live in
``_grammar`` and ``_evaluation``, which load with the first text; this module does not depend on either.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from embedclient.errors import RemoteProtocolError

from ..message._message import Message
from ._errors import InvalidSelector, NoResult

if TYPE_CHECKING:
    from ._evaluation import Condition

__all__ = [
    "NOTHING",
    "InvalidSelector",
    "Selector",
    "SelectorCache",
    "parse_condition_on",
    "parse_selector",
    "reads_only",
]

SELECTORS_CACHED_MAX = 1024
# Of all brokers of this process: those of a cluster have one text in common, which is long.
_COMPILED_MAX = 64


class Selector:
    """Hold one compiled selector. Immutable; equal texts share one through ``SelectorCache``."""

    __slots__ = ("_condition", "text")

    text: str
    _condition: Condition

    def __init__(self, text: str, condition: Condition) -> None:
        self.text = text
        self._condition = condition

    def matches(self, message: Message) -> bool:
        """Return True if the condition is true of this message; false and unknown both return False.

        Properties are decoded only here, long after the message was taken in. When they turn out to be malformed the
        message matches nothing, and no connection is to blame any more.
        """
        try:
            return self._condition(message) is True
        except (NoResult, RemoteProtocolError):
            return False

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"


NOTHING = Selector("FALSE", lambda _message: False)
"""The selector of a queue that takes no message."""


@lru_cache(_COMPILED_MAX)
def parse_selector(text: str) -> Selector:
    """Compile one selector.

    Raises:
        InvalidSelector: the text is not a selector, an empty one included (``SelectorCache.find`` takes that for none).
    """
    from ._evaluation import compile_selector
    from ._grammar import parse

    return Selector(text, compile_selector(parse(text)))


@lru_cache(_COMPILED_MAX)
def parse_condition_on(text: str, names: frozenset[str]) -> Selector:
    """Compile the part of a selector that depends on some properties alone. What it does not match, none matches.

    Args:
        text: The selector.
        names: Names of the properties.

    Raises:
        InvalidSelector: the text is not a selector.
    """
    from ._evaluation import compile_condition_on
    from ._grammar import parse

    return Selector(text, compile_condition_on(parse(text), names))


@lru_cache(_COMPILED_MAX)
def reads_only(text: str, names: frozenset[str]) -> bool:
    """Return True if a selector depends on some properties alone.

    Args:
        text: The selector.
        names: Names of the properties.

    Raises:
        InvalidSelector: the text is not a selector.
    """
    from ._evaluation import names_in
    from ._grammar import parse

    return names_in(parse(text).condition) <= names


class SelectorCache:
    """Hold compiled selectors by text; the least recently used is forgotten first.

    Queues and consumers hold their selectors; the cache only saves compiling a text again when thousands of consumers
    come with the same one.
    """

    __slots__ = ("_selectors", "_selectors_max")

    def __init__(self, selectors_max: int = SELECTORS_CACHED_MAX) -> None:
        assert selectors_max > 0
        self._selectors: dict[str, Selector] = {}
        self._selectors_max = selectors_max

    def __len__(self) -> int:
        return len(self._selectors)

    def find(self, text: str | None) -> Selector | None:
        """Return the selector for a text; ``None`` for no text or a blank one, which select everything.

        Raises:
            InvalidSelector: the text is not a selector. Such a text is not cached.
        """
        if text is None:
            return None
        selector = self._selectors.pop(text, None)
        if selector is None:
            if not text or text.isspace():
                return None
            selector = parse_selector(text)
            if len(self._selectors) >= self._selectors_max:
                del self._selectors[next(iter(self._selectors))]
        self._selectors[text] = selector
        return selector
