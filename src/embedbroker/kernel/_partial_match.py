"""Whether a filter may match a message of which a few properties are known, decided once for each combination.

Responsible for that decision, so that no message is made which all filters refuse. Does not depend on which properties
these are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from attrs import frozen

from embedclient.model import PropertyValue

from .message._message import Message
from .selector._selector import parse_condition_on, reads_only

__all__ = ["is_decided_by", "may_match"]

# Texts in properties are named by clients.
_DECISIONS_MAX = 1_000


@frozen
class _Outline:
    """A message of which nothing else is known, as far as the condition of a filter reads it."""

    values: dict[str, PropertyValue]

    def property(self, name: str) -> PropertyValue:
        return self.values[name]


@lru_cache(_DECISIONS_MAX)
def may_match(filter: str, *known: tuple[str, PropertyValue]) -> bool:
    """Return False if a filter refuses each message with these properties, whatever else the message has.

    Args:
        filter: Text of the filter.
        known: Names and values of properties; the value None stands for a message without the property.
    """
    outline = _Outline(dict(known))
    return parse_condition_on(filter, frozenset(outline.values)).matches(cast(Message, outline))


def is_decided_by(filter: str, names: frozenset[str]) -> bool:
    """Return True if some properties decide about each message, so that `may_match` with all of them is the decision.

    Args:
        filter: Text of the filter.
        names: Names of the properties.
    """
    return reads_only(filter, names)
