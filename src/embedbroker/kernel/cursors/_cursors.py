"""Read a queue by ranges of positions, repeatedly, before they are acknowledged: cursors.

Responsible for leases, for the pinned range, for acknowledging by position, and for restoring all that after a restart.
Messages of the pinned range are not delivered elsewhere and do not expire. Does not depend on how requests arrive and
answers leave.

Why nothing at or below the end that `Cursors.pin` chooses becomes visible later. The end is the position of a message
that is visible, and:

1. A message without a transaction has its id as its position. Producer A's message 5 is durable and waits for its sync.
   Producer B's message 6 is not durable and could be visible at once. As long as anything of the queue waits, B's waits
   behind it (`Placement.place`), and `VisibilityQueue` shows one queue's messages in the order of their arrival.
2. Producer A sends in a transaction, B's message 7 becomes visible, A commits. A's message has no position before the
   commit. At the commit it takes the next positions of the same counter, 8, and stands in `VisibilityQueue` before any
   later id is assigned.
3. While A commits, followers are notified and send messages. Or deliveries return whose last attempt it was, and move
   to a dead letter queue that A sent to as well. These take higher positions, and A's places are taken before
   (`Transaction.commit`; `Placement.place` does the same without a transaction).
4. A commit of 100,000 messages becomes visible over many steps, and B pins in between. It becomes visible in order, so
   B's end is the position of the last visible message, and the rest is behind it.
5. A consumer had message 9 and closes, its transaction rolls back, or its prepared branch does so a week later. Then 9
   is visible again, while 10 was visible all the time. So a cursor is opened only while nothing of its queue is in
   delivery or held by a transaction. Consumers are refused while its lease is in force. A later consumer ends the lease
   for good: the cursor must be opened again.
6. The broker crashes. Positions continue above the limit that was reserved. A prepared branch that sent gets its
   positions at its commit, as in 2. A prepared branch that acknowledged keeps its messages out of the queue: then the
   lease does not begin again, as in 5.
7. A scheduled message has the position of its send, and becomes visible when it is due. So a range ends in front of the
   first message that is scheduled. A cursor is not opened while one is scheduled at or below its end, and after a crash
   its lease does not begin again, as in 5.

Acknowledging is one record: that of the cursor, with its new position. The messages leave behind it, over some steps if
they are many; their records follow. A restart that finds the first record without the others continues with them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeAlias

from attrs import evolve, frozen

from embedclient.errors import ErrorCode
from embedclient.model import Encoding

from .._clock import Clock
from .._deferred import DeferredWork
from .._definitions import CursorDefinition, CursorRemoved
from .._ids import Ids
from .._observer import Leaving
from .._refusal import Refused
from .._store import Store
from ..addressing._addresses import AddressManager
from ..message._stored import body_of
from ..queueing._backlog import PackedReference
from ..queueing._cursor import Cursor
from ..queueing._queue import Queue
from ..settling._removal import Removal

__all__ = ["CursorRefused", "CursorState", "Cursors", "Pin", "Reading"]

ROWS_PER_READ_MAX = 5_000
"""Maximum number of messages that one `Cursors.read` returns: they are put into one answer, in one step."""

LARGE_BODY_BYTES_MAX = 64 * 1024 * 1024
"""Maximum bytes of a large body that `Cursors.read` returns: it is in memory as a whole."""

# Messages examined between two pauses, and the share of a step's work that examining them takes.
_PORTION = 1_024
_PORTION_COST = 128
# Messages that leave for the cost of one message of a step's work.
_LEAVING_AT_ONE_COST = 2
_EXACT_SPLIT_ROWS = 16_384
_CORE = int(Encoding.CORE)


@frozen
class CursorRefused:
    """State that an operation was not carried out.

    ``reason`` is one word; ``owner`` and ``lease_ms`` describe the lease that prevents it. ``messages`` would have been
    discarded.
    """

    reason: str
    text: str
    owner: str = ""
    lease_ms: int = 0
    messages: int = 0


@frozen
class CursorState:
    """Describe a lease.

    All up to ``position`` is acknowledged, ``(position, end]`` is pinned for ``lease_ms`` milliseconds.

    ``before`` is as in `Cursor`, and does not change when the same owner repeats the request. ``start`` is the
    requested position; ``discarded`` messages up to there leave the queue unread, or will when the cursor is moved
    there.
    """

    position: int
    end: int
    lease_ms: int
    before: str | None = None
    start: int = 0
    discarded: int = 0


@frozen
class Pin:
    """Describe a pinned range: ``(start, end]`` holds ``rows`` messages of together ``size_bytes``.

    ``lost`` messages were pinned before, and are gone without acknowledgement. `lost == 0` for a range that ``start``
    acknowledges as a whole. A repeated pin from the same start returns the same count.
    """

    end: int
    rows: int
    size_bytes: int
    lost: int


@frozen
class Reading:
    """Hold all ``rows`` in ``(after, next_position]``, in order of position."""

    rows: list[PackedReference]
    next_position: int


Answer: TypeAlias = Callable[[Pin | CursorRefused], None]


class Cursors:
    """Carry out all operations on cursors; a queue has at most one."""

    __slots__ = ("_addresses", "_clock", "_deferred", "_ids", "_removal", "_store")

    def __init__(
        self,
        addresses: AddressManager,
        store: Store,
        ids: Ids,
        deferred: DeferredWork,
        removal: Removal,
        clock: Clock,
    ) -> None:
        self._addresses = addresses
        self._store = store
        self._ids = ids
        self._deferred = deferred
        self._removal = removal
        self._clock = clock

    # -- for code that must not touch a leased queue ----------------------------------------------------------------

    def holds(self, queue: Queue) -> bool:
        """Return True if a lease on this queue is in force."""
        return queue.cursor is not None and queue.cursor.is_held(self._clock.monotonic)

    def exempt_through(self, queue: Queue) -> int:
        """Return the position up to which messages must not be touched.

        They are pinned, or acknowledged and about to leave.
        """
        cursor = queue.cursor
        if cursor is None:
            return -1
        return cursor.definition.end if cursor.is_held(self._clock.monotonic) else cursor.definition.position

    def refusal(self, queue: Queue) -> Refused | None:
        """Return why a queue cannot be consumed from or deleted now."""
        cursor = queue.cursor
        if cursor is None or not self.holds(queue):
            return None
        left_s = cursor.left_ms(self._clock.monotonic) / 1000
        text = (
            f"queue {queue.name!r} is read by cursor {cursor.definition.name!r} of {cursor.definition.owner!r}, "
            f"for {left_s:.1f} seconds more"
        )
        return Refused(ErrorCode.ILLEGAL_STATE, text)

    def give_way(self, queue: Queue) -> Refused | None:
        """Admit a consumer: refuse it while a lease is in force, and end a lease that has run out."""
        refused = self.refusal(queue)
        if refused is None and queue.cursor is not None and queue.cursor.definition.owner:
            self._change(queue, queue.cursor, evolve(queue.cursor.definition, owner=""))
        return refused

    def forget(self, queue: Queue) -> None:
        """Forget the cursor of a queue, because the queue or its cursor is removed."""
        if queue.cursor is not None:
            if queue.durable:
                self._store.note(CursorRemoved(queue.cursor.definition.id))
            queue.cursor = None

    # -- a restart ---------------------------------------------------------------------------------------------------

    def restore(self, definition: CursorDefinition, queue: Queue) -> None:
        """Restore a cursor from the journal, without writing it again."""
        queue.cursor = Cursor(definition)

    def on_restored(self) -> None:
        """Begin leases again once the queues are restored; what was acknowledged continues to leave."""
        for queue in self._addresses.queues.values():
            cursor = queue.cursor
            if cursor is None:
                continue
            if queue.delivering_count or queue.lowest_scheduled <= cursor.definition.end:
                self._change(queue, cursor, evolve(cursor.definition, owner=""))
            cursor.renew(self._clock.monotonic)
            self._let_leave(queue, cursor.definition.position)

    # -- leases ------------------------------------------------------------------------------------------------------

    def open(
        self,
        queue_name: str,
        name: str,
        owner: str,
        lease_ms: int,
        *,
        take_over: bool,
        start: int | None,
        discards: bool = False,
    ) -> CursorState | CursorRefused:
        """Grant a lease to an owner, and create the cursor if it does not exist.

        A new cursor begins at ``start``. Messages up to there leave the queue. There must be no such messages unless
        ``discards``. The same holds for a cursor that another owner left in front of ``start``, which stays at its
        position. Refusals: ``no-such-queue``, ``held``, ``in-use``, ``bad-request``, ``backlog``.

        Args:
            queue_name: Name of the queue.
            name: Name of the cursor.
            owner: Name of the holder of the lease.
            lease_ms: Term of the lease in milliseconds, counted from its last use.
            take_over: Whether a lease of another owner is ended.
            start: Position at which a new cursor begins; None for the end of what is visible.
            discards: Whether messages up to ``start`` may leave the queue unread.
        """
        queue = self._addresses.queues.get(queue_name)
        if queue is None:
            return CursorRefused("no-such-queue", f"queue {queue_name!r} does not exist")
        cursor = queue.cursor
        refused = self._refuse_to_open(queue, name, owner, take_over=take_over)
        if refused is not None:
            return refused
        begin = queue.backlog.last_position if start is None else start
        if cursor is None:
            last = queue.backlog.last_position
            if begin >= max(self._ids.next_id, 1):
                return CursorRefused("bad-request", f"from: position {begin} was not given to any message yet")
            if queue.lowest_scheduled <= begin:
                text = f"from: messages of queue {queue.name!r} in front of position {begin} are scheduled for later"
                return CursorRefused("in-use", text)
            if begin > last and queue.waiting_visible:
                # Some of them may stand up to there, and would become visible below the position of this cursor.
                text = f"from: messages of queue {queue.name!r} up to position {begin} may not be durable yet"
                return CursorRefused("in-use", text)
        after = -1 if cursor is None else cursor.definition.position
        # A repeated request of the same owner returns what the first one returned.
        is_new = cursor is None or cursor.definition.owner != owner
        discarded = queue.backlog.count(after, begin) if is_new and after < begin else 0
        if discarded and not discards:
            return _backlog(queue, begin, discarded)
        if cursor is None:
            definition = CursorDefinition(self._ids.take(), queue.id, name, begin, begin, 0, owner, lease_ms)
            cursor = queue.cursor = Cursor(definition)
            cursor.before = None
            self._change(queue, cursor, definition)
            self._let_leave(queue, begin)
        else:
            if owner != cursor.definition.owner:
                cursor.before = cursor.definition.owner
            definition = evolve(cursor.definition, owner=owner, lease_ms=lease_ms)
            if definition != cursor.definition:
                self._change(queue, cursor, definition)
        self._renew(queue, cursor)
        start = begin if is_new else definition.position
        return CursorState(definition.position, definition.end, lease_ms, cursor.before, start, discarded)

    def _refuse_to_open(self, queue: Queue, name: str, owner: str, *, take_over: bool) -> CursorRefused | None:
        cursor, now = queue.cursor, self._clock.monotonic
        if cursor is not None:
            other = cursor.definition
            if other.name != name:
                text = f"queue {queue.name!r} has another cursor, {other.name!r}, which is to be removed first"
                return CursorRefused("held", text, other.owner, cursor.left_ms(now))
            if cursor.is_held(now) and other.owner != owner and not take_over:
                text = f"cursor {name!r} of queue {queue.name!r} is {other.owner!r}'s"
                return CursorRefused("held", text, other.owner, cursor.left_ms(now))
        if queue.definition.purge_on_no_consumers:
            return CursorRefused("bad-request", f"queue: {queue.name!r} keeps nothing while it has no consumers")
        if cursor is not None and not cursor.is_held(now) and queue.lowest_scheduled <= cursor.definition.end:
            text = f"queue {queue.name!r} has messages up to position {cursor.definition.end} that are scheduled"
            return CursorRefused("in-use", text)
        if queue.consumers or queue.delivering_count:
            text = (
                f"queue {queue.name!r} has {queue.consumer_count} consumers, and {queue.delivering_count} messages "
                f"of it are in delivery or held by transactions"
            )
            return CursorRefused("in-use", text)
        return None

    def renew(self, queue_name: str, name: str, owner: str) -> int | CursorRefused:
        """Restart the term of the lease; return the position. Refusals: ``no-such-cursor``, ``lost-lease``."""
        found = self._owned(queue_name, name, owner)
        return found if isinstance(found, CursorRefused) else found[1].definition.position

    def release(self, queue_name: str, name: str, owner: str) -> int | CursorRefused:
        """Release the lease; without effect if the owner no longer holds it. Refusal: ``no-such-cursor``."""
        found = self._find(queue_name, name)
        if isinstance(found, CursorRefused):
            return found
        queue, cursor = found
        if cursor.definition.owner == owner:
            queue.idle_since_ms = self._clock.now_ms
            self._change(queue, cursor, evolve(cursor.definition, owner=""))
        return cursor.definition.position

    def remove(self, queue_name: str, name: str, owner: str, finished: Callable[[int], None]) -> CursorRefused | None:
        """Forget the cursor once what it acknowledged has left; unacknowledged messages stay. Refusals as `renew`."""
        found = self._find(queue_name, name)
        if isinstance(found, CursorRefused):
            return found
        queue, cursor = found
        if cursor.is_held(self._clock.monotonic) and cursor.definition.owner != owner:
            return self._lost(queue, cursor)

        def remove() -> None:
            if queue.cursor is cursor:
                self.forget(queue)
                queue.idle_since_ms = self._clock.now_ms
            finished(cursor.definition.position)

        self._deferred.in_turn(remove)
        return None

    def _find(self, queue_name: str, name: str) -> tuple[Queue, Cursor] | CursorRefused:
        queue = self._addresses.queues.get(queue_name)
        cursor = queue.cursor if queue is not None else None
        if queue is None or cursor is None or cursor.definition.name != name:
            return CursorRefused("no-such-cursor", f"queue {queue_name!r} has no cursor {name!r}")
        return queue, cursor

    def _owned(self, queue_name: str, name: str, owner: str) -> tuple[Queue, Cursor] | CursorRefused:
        """Return the cursor, renewed.

        A lease that has run out returns to its owner unless a consumer or owner came since.
        """
        found = self._find(queue_name, name)
        if not isinstance(found, CursorRefused):
            if found[1].definition.owner != owner:
                return self._lost(*found)
            self._renew(*found)
        return found

    def _renew(self, queue: Queue, cursor: Cursor) -> None:
        assert not queue.consumers, queue.name
        assert not queue.delivering_count, queue.name
        cursor.renew(self._clock.monotonic)
        queue.idle_since_ms = self._clock.now_ms

    def _lost(self, queue: Queue, cursor: Cursor) -> CursorRefused:
        owner = cursor.definition.owner
        text = f"cursor {cursor.definition.name!r} of queue {queue.name!r}: "
        text += f"the lease is {owner!r}'s" if owner else "the lease was given back, or a consumer came after its end"
        return CursorRefused("lost-lease", text, owner, cursor.left_ms(self._clock.monotonic))

    # -- acknowledging -----------------------------------------------------------------------------------------------

    def acknowledge(self, queue_name: str, name: str, owner: str, until: int) -> int | CursorRefused:
        """Acknowledge everything up to ``until``; return the position, which never decreases. Refusals as `pin`."""
        found = self._owned(queue_name, name, owner)
        if isinstance(found, CursorRefused):
            return found
        queue, cursor = found
        if until > cursor.definition.end:
            return _outside("until", until, cursor.definition)
        self._advance(queue, cursor, until)
        return cursor.definition.position

    def _advance(self, queue: Queue, cursor: Cursor, until: int) -> None:
        definition = cursor.definition
        if until > definition.position:
            left = definition.rows - queue.backlog.count(definition.position, until)
            self._change(queue, cursor, evolve(definition, position=until, rows=max(left, 0)))
            self._let_leave(queue, until)

    def _let_leave(self, queue: Queue, until: int) -> None:
        backlog, removal, deferred = queue.backlog, self._removal, self._deferred

        def leave() -> Iterator[None]:
            # The messages of a deleted queue leave together with all else of it.
            while not queue.deleted and (taken := backlog.take_through(until)):
                removal.leave_packed(queue, taken, Leaving.READ)
                for _ in range(0, len(taken), _LEAVING_AT_ONE_COST):
                    yield

        count = backlog.count(-1, until)
        if count > _PORTION // 4:
            deferred.add_holding((queue,), leave())
        elif count:
            deque(leave(), maxlen=0)

    # -- pinning -----------------------------------------------------------------------------------------------------

    def pin(
        self,
        queue_name: str,
        name: str,
        owner: str,
        start: int,
        finished: Answer,
        *,
        rows_max: int = 0,
        bytes_max: int = 0,
    ) -> None:
        """Acknowledge everything up to ``start``, pin what is behind it, and pass the result to ``finished``.

        The end of the range never decreases. A long range is examined over the next steps. Refusals:
        ``no-such-cursor``, ``lost-lease``, ``bad-request``.

        Args:
            queue_name: Name of the queue.
            name: Name of the cursor.
            owner: Holder of the lease.
            start: Position within the present range, both ends included.
            finished: Receives the pinned range, or the refusal.
            rows_max: Maximum number of messages in the range; 0: all that are visible.
            bytes_max: Maximum bytes of messages in the range, at least one message; 0: all that are visible.
        """
        found = self._owned(queue_name, name, owner)
        if isinstance(found, CursorRefused):
            finished(found)
            return
        queue, cursor = found
        before = cursor.definition
        if not before.position <= start <= before.end:
            finished(_outside("start", start, before))
            return
        # For a range that is acknowledged as a whole, it does not matter what has left it since it was read.
        lost = max(before.rows - queue.backlog.count(before.position, before.end), 0) if start < before.end else 0
        if before.lost_start == start:
            # It was reported before, and is requested again: the answer may have been lost, too.
            lost += before.lost
        self._advance(queue, cursor, start)
        walk = self._pin(queue, cursor, start, lost, finished, rows_max or math.inf, bytes_max or math.inf)
        if min(queue.backlog.size, rows_max or math.inf) > _PORTION:
            self._deferred.add(walk)
        else:
            deque(walk, maxlen=0)

    def _pin(
        self,
        queue: Queue,
        cursor: Cursor,
        start: int,
        lost: int,
        finished: Answer,
        rows_max: float,
        bytes_max: float,
    ) -> Iterator[None]:
        owner, pinned, backlog = cursor.definition.owner, cursor.definition.end, queue.backlog
        end, size, rows, is_full = start, 0, 0, False
        until = int(min(backlog.last_position, queue.lowest_scheduled - 1))
        while not is_full and (portion := backlog.behind(end, until, _PORTION)):
            for entry in portion:
                length = len(entry[4])
                if entry[0] > pinned and rows and (rows >= rows_max or size + length > bytes_max):
                    is_full = True
                    break
                end, rows, size = entry[0], rows + 1, size + length
            for _ in range(_PORTION_COST):
                yield
        if queue.cursor is not cursor:
            finished(CursorRefused("no-such-cursor", f"queue {queue.name!r}: the cursor was removed meanwhile"))
        elif cursor.definition.owner != owner:
            finished(self._lost(queue, cursor))
        else:
            end = max(end, cursor.definition.end)
            present = backlog.count(cursor.definition.position, end)
            definition = evolve(cursor.definition, end=end, rows=present, lost=lost, lost_start=start if lost else 0)
            if definition != cursor.definition:
                self._change(queue, cursor, definition)
            finished(Pin(end, backlog.count(start, end), size, lost))

    def _change(self, queue: Queue, cursor: Cursor, definition: CursorDefinition) -> None:
        cursor.definition = definition
        if queue.durable:
            self._store.note(definition)

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(
        self,
        queue_name: str,
        name: str,
        after: int,
        until: int,
        bytes_max: int,
        finished: Callable[[Reading | CursorRefused], None],
    ) -> CursorRefused | None:
        """Read what is in ``(after, until]``.

        Refusals: ``no-such-cursor``, ``not-pinned``.

        Args:
            queue_name: Name of the queue.
            name: Name of the cursor.
            after: Position in front of the range.
            until: Last position of the range, which must be pinned.
            bytes_max: Approximate maximum bytes of messages in the result, at least one message.
            finished: Receives the result, in its turn behind the deferred work of large requests.
        """
        found = self._pinned(queue_name, name, after, until)
        if isinstance(found, CursorRefused):
            return found

        def look() -> Iterator[None]:
            found = self._pinned(queue_name, name, after, until)
            if isinstance(found, CursorRefused):
                finished(found)
                return
            reading = _read(found[0], after, until, bytes_max)
            row = reading.rows[0] if reading.rows else None
            if row is not None and row[3] != _CORE:
                self._read_large(queue_name, row, finished)
                return
            finished(reading)
            for _ in range(len(reading.rows) // _LEAVING_AT_ONE_COST):
                yield

        self._deferred.add(look())
        return None

    def _read_large(
        self, queue_name: str, row: PackedReference, finished: Callable[[Reading | CursorRefused], None]
    ) -> None:
        """Read one message whose body may be elsewhere, and return it in the CORE encoding."""
        position, delivery_count, expiration, encoding, stored, message_id, durable = row
        message, body = self._addresses.restore(encoding, stored), body_of(stored)
        place = f"message {message_id} at position {position} of queue {queue_name!r}"
        if body.size > LARGE_BODY_BYTES_MAX:
            text = f"{place} has a body of {body.size} bytes, and a cursor reads at most {LARGE_BODY_BYTES_MAX}"
            finished(CursorRefused("too-large", f"{text}: receive it with a consumer, or move it to another queue"))
            return

        def on_read(data: bytes | None, checksum: int) -> None:
            if data is None or len(data) < body.size:
                finished(CursorRefused("unreadable", f"the body of {place} cannot be read"))
                return
            if body.checksum not in (None, checksum):
                text = f"the body of {place} is damaged: its bytes do not fit its checksum"
                finished(CursorRefused("unreadable", text))
                return
            core = message.to_core(data)
            whole = (position, delivery_count, expiration, core.encoding, core.stored_bytes(), message_id, durable)
            finished(Reading([whole], position))

        if body.number:
            self._store.bodies.read(body.number, 0, body.size, on_read)
        else:
            on_read(b"", 0)

    def split(
        self, queue_name: str, name: str, after: int, until: int, parts: int
    ) -> tuple[list[int], list[int]] | CursorRefused:
        """Split ``(after, until]`` into ranges of about equal numbers of messages.

        Args:
            queue_name: Name of the queue.
            name: Name of the cursor.
            after: Position in front of the range.
            until: Last position of the range, which must be pinned.
            parts: Maximum number of ranges.

        Returns:
            The bounds of the ranges, and the number of messages in each.
        """
        found = self._pinned(queue_name, name, after, until)
        if isinstance(found, CursorRefused):
            return found
        backlog = found[0].backlog
        # In a long range, only every few messages are examined: the ends of chunks.
        marks = backlog.marks(after, until, _EXACT_SPLIT_ROWS)
        inner = {marks[len(marks) * part // parts - 1] for part in range(1, parts) if len(marks) * part // parts}
        bounds = [after, *sorted(inner - {until}), until]
        return bounds, [backlog.count(low, high) for low, high in zip(bounds, islice(bounds, 1, None), strict=False)]

    def _pinned(self, queue_name: str, name: str, after: int, until: int) -> tuple[Queue, Cursor] | CursorRefused:
        found = self._find(queue_name, name)
        if isinstance(found, CursorRefused):
            return found
        queue, cursor = found
        definition = cursor.definition
        if not cursor.is_held(self._clock.monotonic):
            return CursorRefused(
                "not-pinned", f"cursor {name!r} of queue {queue_name!r} is not leased: pin the range again"
            )
        if not definition.position <= after <= until <= definition.end:
            text = f"({after}, {until}] is not inside the pinned range ({definition.position}, {definition.end}]"
            return CursorRefused("not-pinned", text)
        return queue, cursor


def _read(queue: Queue, after: int, until: int, bytes_max: int) -> Reading:
    rows: list[PackedReference] = []
    left, end = bytes_max, after
    while len(rows) < ROWS_PER_READ_MAX and (portion := queue.backlog.behind(end, until, 512)):
        for entry in islice(portion, ROWS_PER_READ_MAX - len(rows)):
            left -= len(entry[4])
            if rows and (left < 0 or entry[3] != _CORE):
                return Reading(rows, end)
            rows.append(entry)
            end = entry[0]
            if entry[3] != _CORE:
                # Its body may be large, and is not here: it is read alone.
                return Reading(rows, end)
    return Reading(rows, end if len(rows) >= ROWS_PER_READ_MAX else until)


def _backlog(queue: Queue, start: int, messages: int) -> CursorRefused:
    text = (
        f"from: beginning at position {start} would discard {messages} messages of queue {queue.name!r} unread; begin "
        'at "earliest" to read them, or set "discard" to true'
    )
    return CursorRefused("backlog", text, messages=messages)


def _outside(field: str, value: int, definition: CursorDefinition) -> CursorRefused:
    text = f"{field}: {value} is not between position {definition.position} and end {definition.end}"
    return CursorRefused("bad-request", text)
