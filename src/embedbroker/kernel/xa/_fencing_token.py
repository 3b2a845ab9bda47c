"""FencingTokens: numbers that clients keep at the broker, which changes them only for those who know what they are.

Responsible for compare and set, and for what is recorded of it. Refuses to know what the numbers mean: they say how far
somebody's work has come, such as the last batch that was published.

What is decided here is recorded at once, so records stand in the order of decisions. Who asks on behalf of a client
does so in its turn (`DeferredWork.in_turn`), or a marker could say that something is done whose records are still to
come.

History of the fault that this avoids: decisions were made at once, and their records were chores.

1. A marker is 3. A commit set waits among the chores; it will expect 4.
2. A client sets the marker to 4. That holds, and its record stands behind the set.
3. The set finds 4, and is recorded with 5. Behind it stands the record that says 4, which is what a restart finds.
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
"""FencingTokens of one broker."""

FENCING_TOKEN_NAME_BYTES_MAX = 1024
"""UTF-8 bytes of a marker's name."""


@frozen
class FencingTokenMoved:
    """A marker is not what somebody took it for; ``value`` is what it is, None where there is none."""

    value: int | None


class FencingTokens:
    """All markers, by name."""

    __slots__ = ("_by_name", "_ids", "_store")

    def __init__(self, store: Store, ids: Ids) -> None:
        self._store = store
        self._ids = ids
        self._by_name: dict[str, FencingToken] = {}

    def get(self, name: str) -> int | None:
        """What a marker is; None where there is none."""
        marker = self._by_name.get(name)
        return None if marker is None else marker.value

    def list(self, prefix: str) -> dict[str, int]:
        """Those whose names begin with this, by name."""
        return {name: self._by_name[name].value for name in sorted(self._by_name) if name.startswith(prefix)}

    def set(self, name: str, expected: int | None, value: int) -> FencingTokenMoved | Refused | None:
        """Set a marker that is still what the caller takes it for; None: it is not there yet."""
        marker = self.move(name, expected, value)
        if not isinstance(marker, FencingToken):
            return marker
        self._store.note(marker)
        return None

    def move(self, name: str, expected: int | None, value: int) -> FencingToken | FencingTokenMoved | Refused:
        """The same for who records it together with something else."""
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
        """Forget a marker; returns what it was."""
        marker = self._by_name.pop(name, None)
        if marker is None:
            return None
        self._store.note(FencingTokenRemoved(marker.id))
        return marker.value

    def restore(self, fencing_tokens: Iterable[FencingToken]) -> None:
        """Bring them back after a restart, without writing them again."""
        self._by_name.update((marker.name, marker) for marker in fencing_tokens)
