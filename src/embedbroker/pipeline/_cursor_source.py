"""A stream of queues that are read by cursors: exactly once.

Reading never consumes. A cursor pins the range of a batch, so repeated reads return the same rows. Everything up to the
start of a batch is acknowledged when the next batch is planned, because it is then in the sink. Does not depend on
Spark beyond `InputPartition`.

1. `latestOffset(start)` is the first call for a new batch. It is also the first call after a restart whose last batch
   was finished. Everything up to `start` was processed, and no other call reports that: it is acknowledged here.
2. `commit(end)` comes while the batch after it is planned: a second occasion, which changes nothing more.
3. After a restart in the middle of a batch `partitions` comes first. The lease of the previous run may still be in
   force: it belongs to the same query, and is taken over.
4. A stopped query keeps its lease, because the batch under way must find its rows again. Without a restart the lease
   expires, and the queue becomes an ordinary queue again.
5. The broker may return without its journal, or another broker may take its place. Its positions then start over, and
   those of the checkpoint may be ahead of it, or amid unread messages. The node id in the offset reveals this, or the
   broker refuses a position that it has not assigned yet. The cursor is then opened at the beginning, and nothing is
   pinned until an offset with the new beginning is in the checkpoint. A run that finds this cursor with the old offset
   detects the mismatch by the missing pin. So the first batch after it is empty.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from uuid import uuid4

from attrs import frozen
from pyspark.sql.datasource import InputPartition

from embedclient.errors import JMSException
from embedclient.model import describe_url, start_thread

from ._broker_connection import BrokerConnection
from ._frames import Block
from ._offsets import BY_CURSOR, Offset, Range
from ._option_reader import OptionError
from ._options import SourceOptions
from ._queues import listed_queues
from ._services import ServiceRefused, Services

__all__ = ["CURSOR", "CursorPartition", "CursorSource", "DataLost", "read_range"]

# One cursor per queue; its owner identifies the query.
CURSOR = "spark"
READ_BYTES = 4 << 20
_RENEWALS_PER_LEASE = 3
_BEHIND_A_LEASE_S = 0.1
_log = logging.getLogger("embedbroker.pipeline")


class DataLost(RuntimeError):
    """Messages of a planned batch are gone, and `failOnDataLoss` is true. The text names the queue."""


@frozen
class CursorPartition(InputPartition):
    """A part of the range of one queue: `rows` messages in `(after, until]`."""

    queue: str
    after: int
    until: int
    rows: int


class CursorSource:
    """Plan the batches of one run of one query, in the planning process."""

    def __init__(self, options: SourceOptions, query: str, subscription: str | None) -> None:
        self._options = options
        self.owner = f"{query}/{uuid4()}"
        self._query = query
        self._subscription = subscription
        self._services = Services(BrokerConnection.shared(options.connection))
        # Queue: the position up to which everything is acknowledged.
        self._positions: dict[str, int] = {}
        # Queue: the end of its pinned range. It is before an offset's end where the queue was recreated, or the broker.
        self._ends: dict[str, int] = {}
        # Queue: the place where reading had to begin when the queue was opened.
        self._starts: dict[str, int] = {}
        # Number of messages before that place in the queue that was opened last.
        self._discarded = 0
        # Queue: reason why messages may be gone that the broker does not count as lost.
        self._interruptions: dict[str, str] = {}
        # Node ids: the broker that assigns positions now, and the broker that assigned those of the current offset.
        self._broker = self._origin = ""
        self._targets: dict[str, int] | None = None
        self._turn = 0
        self._stopped = threading.Event()
        self._renewing: threading.Thread | None = None

    def initial(self) -> Offset:
        """Return the offset at which a new query begins.

        Raises:
            ServiceRefused: a queue does not exist, has consumers, or belongs to another query.
            OptionError: `startingOffsets` would discard messages, and `discardBacklog` is not true.
        """
        is_latest = self._options.starting == "latest"
        try:
            ranges = {queue: self._first(queue, is_latest=is_latest) for queue in self._queues()}
        except OptionError:  # otherwise consumers would wait until the leases on the other queues expire
            self._release()
            raise
        return Offset(BY_CURSOR, self._query, self._subscription, ranges, self._broker)

    def fix_targets(self) -> None:
        """Limit reading to the messages present now: for the trigger availableNow."""
        self._targets = {queue: last for queue, last in self._listed().items() if last is not None}

    def latest(self, start: Offset, rows_max: int, bytes_max: int) -> Offset:
        """Return the end of the next batch, or `start` itself if there are no new messages.

        Args:
            rows_max: messages per batch; 0 means no limit.
            bytes_max: bytes per batch; 0 means no limit.

        Raises:
            DataLost: pinned messages are gone.
            ServiceRefused: the queue belongs to another query by now.
        """
        broker, self._origin = self._broker, start.broker
        queues = self._in_turn(start)
        rows_left, bytes_left = rows_max, bytes_max
        ranges: dict[str, Range] = {}
        for index, queue in enumerate(queues):
            left = len(queues) - index
            before = start.ranges.get(queue) or self._first(queue, is_latest=False)
            is_used_up = (rows_max and rows_left <= 0) or (bytes_max and bytes_left <= 0)
            if is_used_up:
                self._acknowledge(queue, before.until)
                ranges[queue] = self._beginning(queue) if self._is_anew(queue, before.until) else before.ended()
                continue
            rows_share = max(1, rows_left // left) if rows_max else 0
            bytes_share = max(1, bytes_left // left) if bytes_max else 0
            found, size = self._pinned(queue, before.until, rows_share, bytes_share)
            ranges[queue] = found
            rows_left, bytes_left = rows_left - found.rows, bytes_left - size
        # The broker was replaced meanwhile, and some ranges are from the previous one.
        if broker not in ("", self._broker):
            return self.latest(start, rows_max, bytes_max)
        is_new = any(each.until > each.after for each in ranges.values())
        is_new |= any(self._is_anew(queue, each.until) for queue, each in start.ranges.items() if queue in ranges)
        return start.with_ranges(ranges, self._broker) if is_new else start

    def commit(self, end: Offset) -> None:
        """Acknowledge the messages that are in the sink. Idempotent."""
        self._origin = end.broker
        for queue, each in end.ranges.items():
            self._acknowledge(queue, each.until)

    def partitions(self, end: Offset) -> list[CursorPartition]:
        """Return the parts of the batch that ends there. Raises the errors of `latest`."""
        self._origin = end.broker
        ranges = {queue: each for queue, each in end.ranges.items() if each.until > each.after}
        parts = -(-self._options.partitions // max(1, len(ranges)))
        found: list[CursorPartition] = []
        for queue, each in ranges.items():
            until = self._pinned_again(queue, each)
            # While the range had no lease, other consumers may have acknowledged a part of it, or all.
            after, bounds, rows = max(each.after, self._positions[queue]), [0], [0]
            if after < until:
                split = self._services.call(
                    "cursor.split", queue=queue, cursor=CURSOR, after=after, until=until, parts=parts
                )
                bounds, rows = _numbers(split, "bounds"), _numbers(split, "rows")
            if sum(rows) != each.rows:
                self._lost(queue, f"{each.rows - sum(rows)} of {each.rows} messages of a batch are gone")
            self._report_interruption(queue)
            found += [
                CursorPartition(queue, lower, upper, count)
                for lower, upper, count in zip(bounds, bounds[1:], rows, strict=False)
                if count
            ]
        return found

    def close(self) -> None:
        """End the run; leases stay until they expire."""
        self._stopped.set()
        self._services.close()

    # Queues

    def _queues(self) -> list[str]:
        name = self._subscription or self._options.queue
        assert name is not None
        return sorted(self._listed()) if self._options.has_pattern else [name]

    def _listed(self) -> dict[str, int | None]:
        """Return each queue that the options match, with the position of its last message."""
        return listed_queues(self._services, self._subscription or self._options.queue or "")

    def _in_turn(self, start: Offset) -> list[str]:
        """Return the queues, starting with a different one each time, so that limits never starve a queue."""
        queues = self._queues()
        if self._targets is not None:
            queues = [queue for queue in queues if queue in self._targets or queue in start.ranges]
        for queue in sorted(set(start.ranges) - set(queues)):
            self._lost(queue, "the queue was deleted")
        self._turn += 1
        turn = self._turn % max(1, len(queues))
        return queues[turn:] + queues[:turn]

    # Cursors

    def _first(self, queue: str, *, is_latest: bool) -> Range:
        """Return the beginning for a queue without a range in the offset.

        A queue that appears after the first offset was created since then, so all its messages are newer than "latest".
        """
        starting = self._options.starting
        wanted: str | int = "latest" if is_latest else "earliest"
        if isinstance(starting, dict):
            wanted = starting.get(queue, wanted)
        if not self._broker:
            self._meet_broker()
        is_open = queue in self._positions
        self._discarded = 0
        position = self._open(queue, wanted, discards=self._options.discards_backlog)
        self._interruptions.pop(queue, None)
        if self._discarded and not is_open:
            _log.warning(
                "queue %r: discardBacklog is true, so %d messages up to %s are deleted unread",
                queue,
                self._discarded,
                _place(wanted),
            )
        position = self._skipped(queue, position, self._starts[queue])
        return Range(position, position, 0)

    def _skipped(self, queue: str, position: int, wanted: int) -> int:
        """Move a cursor that is before the place where this query begins; return its new position.

        It moves in steps of a batch, because messages pinned after that place are in the first batch whatever its
        limit.
        """
        rows_max, bytes_max = self._options.rows_per_trigger or 0, self._options.bytes_per_trigger or 0
        while position < wanted:
            end, _, _, _ = self._pin(queue, position, rows_max, bytes_max)
            if end == position:
                break
            position = min(end, wanted)
        return position

    def _open(self, queue: str, wanted: str | int, *, discards: bool) -> int:
        """Acquire the lease; return the position up to which everything is acknowledged.

        Args:
            discards: messages up to `wanted` may leave the queue, and the log counts them. Otherwise such an opening
                fails.
        """
        if queue not in self._positions:
            try:
                found = self._opened(queue, wanted, discards=discards)
            except ServiceRefused as refused:
                if refused.status != "backlog":
                    raise
                raise self._keeps_backlog(queue, wanted, refused) from None
            # Before the queue counts as open: the next attempt opens it again.
            self._keep_renewing()
            self._positions[queue], self._ends[queue] = _number(found, "position"), _number(found, "end")
            self._starts[queue], self._discarded = _number(found, "start"), _number(found, "discarded")
            self._note_interruption(queue, found)
        return self._positions[queue]

    def _opened(self, queue: str, wanted: str | int, *, discards: bool) -> Mapping[str, object]:
        fields: dict[str, object] = {"queue": queue, "cursor": CURSOR, "owner": self.owner}
        fields |= {"lease_ms": self._options.lease_ms, "from": wanted, "discard": discards}
        try:
            return self._services.call("cursor.open", **fields)
        except ServiceRefused as refused:
            if refused.status != "held":
                raise
            # The previous run of the same query has this id; no other owner has.
            is_own = str(refused.body.get("owner")).startswith(f"{self._query}/")
            if not is_own:
                self._outwait(queue, refused)
            return self._services.call("cursor.open", **fields, take_over=is_own)

    def _keeps_backlog(self, queue: str, wanted: str | int, refused: ServiceRefused) -> OptionError:
        messages = _number(refused.body, "messages")
        return OptionError(
            f"option 'startingOffsets': beginning at {_place(wanted)} would delete {messages} messages of "
            f"queue {queue!r} at {describe_url(self._options.connection.url)} unread, because "
            "what is in front of a query's beginning leaves its queue; use startingOffsets=earliest to read them, or "
            "discardBacklog=true to delete them"
        )

    def _release(self) -> None:
        for queue in self._positions:
            try:
                self._services.call("cursor.release", queue=queue, cursor=CURSOR, owner=self.owner)
            except (ServiceRefused, JMSException) as error:
                _log.warning("the lease on queue %r was not given back: %s", queue, error)
        self._positions.clear()

    def _open_again(self, queue: str, place: int) -> int:
        """Open a queue as `_open` does, at a place of the current offset, which may be meaningless to this broker."""
        if queue in self._positions:
            return self._positions[queue]
        self._meet_broker()
        try:
            # Opening acknowledges everything up to there: allowed only at the broker that assigned that place.
            wanted = place if self._origin in ("", self._broker) else "earliest"
            return self._open(queue, wanted, discards=True)
        except ServiceRefused as refused:
            if refused.status != "bad-request":
                raise
            # The same broker may have lost it: it has not assigned this position yet.
            return self._open(queue, "earliest", discards=False)

    def _meet_broker(self) -> None:
        broker = str(self._services.call("capabilities").get("node_id", ""))
        if self._broker not in ("", broker):
            self._positions.clear()
        self._broker = broker

    def _is_anew(self, queue: str, place: int) -> bool:
        """Return True if a place of the current offset is meaningless to this cursor, which never reached it."""
        return self._ends[queue] < place and self._origin != self._broker

    def _beginning(self, queue: str) -> Range:
        """Return an empty range before the messages that are present."""
        return Range(self._positions[queue], self._positions[queue], 0)

    def _note_interruption(self, queue: str, found: Mapping[str, object]) -> None:
        """Record why messages may be gone after the pinned range.

        The broker counts losses within the pinned range. It has no record of messages after it that others took.
        """
        before = found.get("before", self.owner)  # a broker that omits it has no interruption to report
        if before is None and self._origin != self._broker:
            self._interruptions[queue] = "this broker has lost its journal since then, or is another one"
        elif before is None:
            self._interruptions[queue] = "the cursor was not there any more: the queue was deleted, and made again"
        elif not before:
            self._interruptions[queue] = (
                "consumers were let in after the lease had run out, and may have taken messages"
            )
        elif not str(before).startswith(f"{self._query}/"):
            self._interruptions[queue] = f"another query had the lease in between: {before!r}"

    def _report_interruption(self, queue: str) -> None:
        if queue in self._interruptions:
            self._lost(queue, self._interruptions[queue])

    def _outwait(self, queue: str, refused: ServiceRefused) -> None:
        """Wait until a lease expires that is not renewed: of a query that died before it recorded its first offset."""
        left_ms = _number(refused.body, "lease_ms")
        _log.warning("queue %r: %s; this waits until the lease is over", queue, refused)
        self._stopped.wait(left_ms / 1000 + _BEHIND_A_LEASE_S)

    def _pinned(self, queue: str, after: int, rows_max: int, bytes_max: int) -> tuple[Range, int]:
        """Return the next range of a queue, and its bytes."""
        position = self._open_again(queue, after)
        if self._is_anew(queue, after):
            self._report_interruption(queue)
            return self._beginning(queue), 0
        if position > after:
            self._lost(queue, f"messages were acknowledged up to {position}, and the checkpoint stands at {after}")
            after = position
        until, rows, size, lost = self._pin(queue, min(after, self._ends[queue]), rows_max, bytes_max)
        after = self._positions[queue]
        if lost:
            self._lost(queue, f"{lost} messages are gone that were not acknowledged")
        self._report_interruption(queue)
        target = until if self._targets is None else max(after, self._targets.get(queue, after))
        if target < until:
            until, rows = target, sum(_numbers(self._split_in_one(queue, after, target), "rows"))
        return Range(after, until, rows), size

    def _split_in_one(self, queue: str, after: int, until: int) -> Mapping[str, object]:
        if after == until:
            return {"rows": []}
        return self._services.call("cursor.split", queue=queue, cursor=CURSOR, after=after, until=until, parts=1)

    def _pin(self, queue: str, start: int, rows_max: int, bytes_max: int) -> tuple[int, int, int, int]:
        """Pin a range from `start`, or from a later place if `start` is too early; `_positions` then has that place."""
        found, self._positions[queue] = self._held(
            queue, "cursor.pin", "start", start, max_rows=rows_max, max_bytes=bytes_max
        )
        self._ends[queue] = _number(found, "end")
        return self._ends[queue], _number(found, "rows"), _number(found, "bytes"), _number(found, "lost")

    def _pinned_again(self, queue: str, each: Range) -> int:
        """Return the end of the range of a batch of the previous run: still pinned, or pinned again.

        It is pinned again if messages may have got lost. The end is before the batch's end only if no message is left
        after it. A pinned range never shrinks and is in the next batch whatever its limit: so this pins no more
        messages than the batch has.
        """
        if queue in self._positions:
            return min(each.until, self._ends[queue])
        position = self._open_again(queue, each.after)
        if self._is_anew(queue, each.until):
            return each.after  # none of it is here
        if position > each.after:
            self._lost(queue, f"messages were acknowledged up to {position}, and a batch begins at {each.after}")
        end, _, _, _ = self._pin(queue, max(position, each.after), max(each.rows, 1), 0)
        return min(each.until, end)

    def _acknowledge(self, queue: str, until: int) -> None:
        position = self._open_again(queue, until)
        if not self._is_anew(queue, until) and position < (place := min(until, self._ends[queue])):
            found, _ = self._held(queue, "cursor.acknowledge", "until", place)
            self._positions[queue] = _number(found, "position")
        self._report_interruption(queue)

    def _held(
        self, queue: str, operation: str, bound: str, place: int, **numbers: int
    ) -> tuple[Mapping[str, object], int]:
        """Send a request as the owner of the lease; return the response and the place that was finally requested.

        A lost lease is acquired again if the loss of data may be ignored. Other consumers may have acknowledged more by
        then, so the place can be a later one.
        """
        fields = {"queue": queue, "cursor": CURSOR, "owner": self.owner, **numbers}
        try:
            return self._services.call(operation, **{**fields, bound: place}), place
        except ServiceRefused as refused:
            if refused.status not in ("lost-lease", "no-such-cursor"):
                raise
            self._lost(queue, str(refused))
            del self._positions[queue]
            position = self._open_again(queue, place)
            self._interruptions.pop(queue, None)  # it was reported above
            if self._is_anew(queue, place):
                return {"position": position, "end": position, "rows": 0, "bytes": 0, "lost": 0}, position
            place = max(place, position)
            return self._services.call(operation, **{**fields, bound: place}), place

    def _lost(self, queue: str, text: str) -> None:
        self._interruptions.pop(queue, None)
        if self._options.fail_on_data_loss:
            raise DataLost(f"queue {queue!r}: {text}; failOnDataLoss=false goes on with what is there")
        _log.warning("queue %r: %s; failOnDataLoss is false, so the query goes on", queue, text)

    # Leases

    def _keep_renewing(self) -> None:
        """Start the renewal of leases: a batch may take longer than a lease, and Spark makes no call meanwhile."""
        if self._renewing is None:
            renewing = threading.Thread(target=self._renew, name="embedbroker leases", daemon=True)
            start_thread(renewing.start, "the renewal of leases")
            self._renewing = renewing

    def _renew(self) -> None:
        pause_s = self._options.lease_ms / 1000 / _RENEWALS_PER_LEASE
        while not self._stopped.wait(pause_s):
            for queue in list(self._positions):
                if self._stopped.is_set():
                    return
                try:
                    self._services.call("cursor.renew", queue=queue, cursor=CURSOR, owner=self.owner)
                except (ServiceRefused, JMSException) as error:  # the next batch detects the consequence
                    _log.warning("the lease on queue %r was not renewed: %s", queue, error)


def read_range(options: SourceOptions, partition: CursorPartition) -> Iterator[Block]:
    """Yield the messages of a partition, in blocks, in any process. The next block is requested in advance.

    Raises:
        DataLost: fewer messages are there than when the batch was planned.
        ServiceRefused: the range is not pinned any more: the task's result is not needed, or the lease was lost.
    """
    services = Services(BrokerConnection.shared(options.connection))
    after, rows = partition.after, 0
    fields = {"queue": partition.queue, "cursor": CURSOR, "until": partition.until, "max_bytes": READ_BYTES}
    try:
        pending = services.begin("cursor.read", after=after, **fields)
        while True:
            block = Block(services.received_bytes(pending))
            after, rows = block.complete_until, rows + block.count
            if after < partition.until:
                pending = services.begin("cursor.read", after=after, **fields)
            yield block
            if after >= partition.until:
                break
    finally:
        services.close()
    if rows != partition.rows and options.fail_on_data_loss:
        raise DataLost(f"queue {partition.queue!r}: {partition.rows - rows} messages went while they were read")


def _place(wanted: str | int) -> str:
    return wanted if isinstance(wanted, str) else f"position {wanted}"


def _number(found: Mapping[str, object], name: str) -> int:
    value = found.get(name)
    assert isinstance(value, int), (name, found)
    return value


def _numbers(found: Mapping[str, object], name: str) -> list[int]:
    value = found.get(name)
    assert isinstance(value, list), (name, found)
    return [int(each) for each in value]
