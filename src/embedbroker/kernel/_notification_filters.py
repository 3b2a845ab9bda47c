"""Which notifications a filter may select, decided by three of their properties alone, and once for each combination.

Responsible for that decision. Does not depend on which events there are, and on what becomes a notification.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from attrs import frozen

from embedclient.model import PropertyValue

from .message._message import Message
from .selector._selector import Selector, parse_condition_on

__all__ = ["may_select"]

_KIND, _ADDRESS, _DISTANCE = "_AMQ_NotifType", "_AMQ_Address", "_AMQ_Distance"
_KNOWN = frozenset((_KIND, _ADDRESS, _DISTANCE))
# Addresses are named by clients.
_DECISIONS_MAX = 1_000


@frozen
class _Outline:
    """A notification of which nothing else is known, as far as the condition of a filter reads it."""

    values: dict[str, PropertyValue]

    def property(self, name: str) -> PropertyValue:
        return self.values[name]


def may_select(filter: Selector, kind: str, address: str | None, distance: int | None) -> bool:
    """Return False if a filter refuses each notification of a kind, about an address, with a distance."""
    return _may_select(filter.text, kind, address, distance)


@lru_cache(_DECISIONS_MAX)
def _may_select(filter: str, kind: str, address: str | None, distance: int | None) -> bool:
    outline = _Outline({_KIND: kind, _ADDRESS: address, _DISTANCE: distance})
    return parse_condition_on(filter, _KNOWN).matches(cast(Message, outline))
