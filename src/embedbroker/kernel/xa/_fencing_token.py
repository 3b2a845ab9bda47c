"""Fencing tokens: numbers that clients keep at the broker. A change must name the current value.

Responsible for compare and set, and for what is recorded of it. Does not depend on the meaning of the numbers: each
states the progress of some work, such as the last batch that was published.

A decision made here is recorded at once, so records stand in the order of decisions. A caller on behalf of a client
must run in its turn (`DeferredWork.in_turn`). Otherwise a token could state that work is done whose records are still
to come.

History of the fault that this avoids: decisions were made at once, and their records were deferred work.

1. A token is 3. A commit set waits among the deferred work; it will expect 4.
2. A client sets the token to 4. That holds, and its record stands behind the set.
3. The set finds 4, and is recorded with 5. Behind it stands the record with 4, which is what a restart finds.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

from embedclient.errors import ErrorCode

from .._facts import FencingToken, FencingTokenRemoved
from .._ids import Ids
from .._refusal import Refused
from .._store import Store

__all__ = [
    "FENCING_TOKENS_MAX",
    "FENCING_TOKEN_NAME_BYTES_MAX",
    "FencingTokenMoved",
    "FencingTokens",
]

FENCING_TOKENS_MAX = 10_000
"""Fencing tokens of one broker."""

FENCING_TOKEN_NAME_BYTES_MAX = 1024
"""UTF-8 bytes of a token's name."""


@frozen
class FencingTokenMoved:
    """State that a token does not have the expected value.

    ``value`` is its current value, None if it does not exist.
    """

    value: int | None


class FencingTokens:
    """Hold all tokens, by name."""

    __slots__ = ("_by_name", "_ids", "_store")

    def __init__(self, store: Store, ids: Ids) -> None:
        self._store = store
        self._ids = ids
        self._by_name: dict[str, FencingToken] = {}

    def get(self, name: str) -> int | None:
        """Return the value of a token; None if it does not exist."""
        marker = self._by_name.get(name)
        return None if marker is None else marker.value

    def list(self, prefix: str) -> dict[str, int]:
        """Return the tokens whose names begin with ``prefix``, by name."""
        return {name: self._by_name[name].value for name in sorted(self._by_name) if name.startswith(prefix)}

    def set(self, name: str, expected: int | None, value: int) -> FencingTokenMoved | Refused | None:
        """Set a token that still has the expected value; None: it does not exist yet."""
        marker = self.move(name, expected, value)
        if not isinstance(marker, FencingToken):
            return marker
        self._store.note(marker)
        return None

    def move(self, name: str, expected: int | None, value: int) -> FencingToken | FencingTokenMoved | Refused:
        """Like `set`, for a caller that records the token together with other facts."""
        marker = self._by_name.get(name)
        if (None if marker is None else marker.value) != expected:
            return FencingTokenMoved(None if marker is None else marker.value)
        if marker is not None:
            marker = evolve(marker, value=value)
        elif len(self._by_name) >= FENCING_TOKENS_MAX:
            return Refused(ErrorCode.ILLEGAL_STATE, f"the broker has {FENCING_TOKENS_MAX} markers")
        else:
            assert len(name.encode()) <= FENCING_TOKEN_NAME_BYTES_MAX, len(name)
            marker = FencingToken(self._ids.take(), name, value)
        self._by_name[name] = marker
        return marker

    def remove(self, name: str) -> int | None:
        """Forget a token; return its value."""
        marker = self._by_name.pop(name, None)
        if marker is None:
            return None
        self._store.note(FencingTokenRemoved(marker.id))
        return marker.value

    def restore(self, fencing_tokens: Iterable[FencingToken]) -> None:
        """Restore tokens after a restart, without writing them again."""
        self._by_name.update((marker.name, marker) for marker in fencing_tokens)
