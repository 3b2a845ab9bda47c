"""The progress of a stream, in the form that Spark keeps in the checkpoint.

Responsible for texts that are equal when offsets are: Spark compares them as JSON. Each offset alone determines the
rows of the batch that it ends. So a queue that appears in the middle needs no entry in the previous offset. Does not
depend on brokers.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

__all__ = ["BY_CURSOR", "BY_LOG", "NOTHING_YET", "Offset", "OffsetError", "Range"]

BY_CURSOR, BY_LOG = "cursor", "log"
_VERSION = 1
# Before the first batch.
NOTHING_YET: Mapping[str, object] = {"version": _VERSION, "mode": "new"}


class OffsetError(ValueError):
    """The checkpoint has an offset that this source did not write, or that was written in another mode."""


@frozen
class Range:
    """Hold a batch's part of one queue: `rows` messages in `(after, until]`."""

    after: int
    until: int
    rows: int

    def ended(self) -> Range:
        """Return the empty range at the end of this one."""
        return Range(self.until, self.until, 0)


@frozen
class Offset:
    """Hold the end of a batch.

    `query` is an id of this source, made for a new checkpoint: Spark does not pass its own id to sources. `broker` is
    the node id of the broker that assigned the positions, or empty where they are this source's own numbers. To another
    broker, or to one that has lost its journal, they are meaningless.
    """

    mode: str
    query: str
    subscription: str | None
    ranges: Mapping[str, Range]
    broker: str = ""

    @property
    def value(self) -> dict[str, object]:
        """Return the value in the form that Spark takes."""
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
        """Return the offset of a value of Spark. Raises OffsetError."""
        if not isinstance(value, dict) or value.get("version") != _VERSION:
            raise OffsetError(f"the checkpoint has the offset {value!r}, which this source did not write")
        try:
            ranges = {str(queue): Range(*map(int, numbers)) for queue, numbers in value["ranges"].items()}
            subscription, broker = str(value["subscription"]) or None, str(value.get("broker", ""))
            return cls(str(value["mode"]), str(value["query"]), subscription, ranges, broker)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OffsetError(f"the checkpoint has the malformed offset {value!r}") from error

    def with_ranges(self, ranges: Mapping[str, Range], broker: str = "") -> Offset:
        """Return a copy with other ranges."""
        return evolve(self, ranges=ranges, broker=broker)
