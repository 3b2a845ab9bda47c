"""Where the body of a stored message is."""

from __future__ import annotations

from attrs import frozen

__all__ = ["LARGE", "RESIDENT", "Body"]

LARGE = 1
"""The kind of a body in the store of large bodies."""


@frozen
class Body:
    """State where the part of a message is that its stored bytes do not hold."""

    #: Kind of the place, 0 if the stored bytes hold everything. Stored in records: never renumber.
    kind: int
    #: Number of the body in its place; 0 if the stored bytes hold everything.
    number: int
    #: Bytes of the encoded message that are there.
    size: int
    #: CRC-32 of these bytes; None for those that an earlier version of the broker stored.
    checksum: int | None = None


RESIDENT = Body(0, 0, 0)
"""The stored bytes hold the whole message."""
