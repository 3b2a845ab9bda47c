"""The duplicate ids in force at one address, as data. `DuplicateIds` of ``transactions`` keeps them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

__all__ = ["IdCache", "IdCacheOwner"]


class IdCacheOwner(Protocol):
    """Keep all caches of a broker."""

    def clear(self, cache: IdCache) -> None:
        """Forget the ids of an address that is removed."""


class IdCache:
    """Hold the ids in force at one address, oldest first, with their numbers. ``used_bytes`` is the memory of all."""

    __slots__ = ("numbers", "owner", "used_bytes")

    def __init__(self, owner: IdCacheOwner) -> None:
        self.owner = owner
        self.numbers: OrderedDict[bytes, int] = OrderedDict()
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self.numbers)

    def __contains__(self, value: bytes) -> bool:
        return value in self.numbers
