"""What a stream has read so far, as Spark keeps it in the checkpoint.

Responsible for texts that are equal when offsets are: Spark compares them as JSON. Each offset says by itself which
rows belong to the batch that it ends, so a queue that appears in the middle needs no entry in the offset before.
Refuses to know brokers.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

__all__ = ["BY_CURSOR", "BY_LOG", "NOTHING_YET", "Offset", "OffsetError", "Range"]

BY_CURSOR, BY_LOG = "cursor", "log"
_VERSION = 1
# In front of the first batch.
NOTHING_YET: Mapping[str, object] = {"version": _VERSION, "mode": "new"}


class OffsetError(ValueError):
    """The checkpoint has an offset that this source did not write, or that was written in another mode."""


@frozen
class Range:
    """What a batch has of one queue: `rows` messages in `(after, until]`."""

    after: int
    until: int
    rows: int

    def ended(self) -> Range:
        """Nothing behind it."""
        return Range(self.until, self.until, 0)


@frozen
class Offset:
    """The end of a batch. `query` is an id of ours, made for a new checkpoint: sources are not told Spark's own.

    `broker` is the node id of who gave the positions, empty where they are numbers of ours. To another broker, or to
    one that has lost its journal, they mean nothing.
    """

    mode: str
    query: str
    subscription: str | None
    ranges: Mapping[str, Range]
    broker: str = ""

    @property
    def value(self) -> dict[str, object]:
        """As Spark takes it."""
        ranges = {queue: [each.after, each.until, each.rows] for queue, each in sorted(self.ranges.items())}
        return {
            "version": _VERSION,
            "mode": self.mode,
            "query": self.query,
            "subscription": self.subscription or "",
            "broker": self.broker,
            "ranges": ranges,
        }

    @classmethod
    def parse(cls, value: object) -> Offset:
        """Raises OffsetError."""
        if not isinstance(value, dict) or value.get("version") != _VERSION:
            raise OffsetError(f"the checkpoint has the offset {value!r}, which this source did not write")
        try:
            ranges = {str(queue): Range(*map(int, numbers)) for queue, numbers in value["ranges"].items()}
            subscription, broker = str(value["subscription"]) or None, str(value.get("broker", ""))
            return cls(str(value["mode"]), str(value["query"]), subscription, ranges, broker)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OffsetError(f"the checkpoint has the malformed offset {value!r}") from error

    def with_ranges(self, ranges: Mapping[str, Range], broker: str = "") -> Offset:
        """The same for other ranges."""
        return evolve(self, ranges=ranges, broker=broker)
