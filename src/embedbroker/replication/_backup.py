"""The backup's end of a replication, which repeats the primary's disk work on the files here.

Responsible for the order in which copied parts and work are done, for the answers, and for the state of the files at
the end. Does not depend on what the work means, and does not decide which broker is active.

Works of one lane are done in their order. Each is done behind those of the other lane that were done when the primary
issued it; the stream contains their numbers. A work is done behind all parts of the copy that came before it, so that
no older bytes come over newer ones. Parts that come after it hold nothing of what it wrote (see ``_initial_copy``).

While files are copied nothing in them counts, and syncs in works are left out. A mark syncs what was touched. The last
mark is the hand-over: when everything before it is synced, the files hold what the primary's did at that place of the
stream. From there on each answer means that a work is done with its syncs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable

from attrs import Factory, define, frozen

from embedbroker import storage
from embedbroker.storage import DiskFault, DiskOperation, DiskWork, JournalSettings, Lane
from embedclient.errors import RemoteProtocolError
from embedclient.model import Instant
from embedclient.wire.core import (
    CopiedFile,
    CopyBegin,
    CopyMark,
    Farewell,
    HeldFile,
    Packet,
    ReplicaAccepted,
    ReplicaInventory,
    ReplicaRefused,
    ReplicaRegistration,
    StreamChunk,
    StreamFarewell,
    StreamMark,
    StreamType,
    decode_chunk,
    decode_work,
)

from ._events import (
    STREAM_FORMAT,
    Ending,
    EndingKind,
    PrimaryStatus,
    Refusal,
    ReplicaOwner,
    ReplicaState,
    StreamConnection,
    other_format,
)
from ._files import is_copied
from ._lane import CopyLane, CopySteps, Numbers, Request
from ._operations import names_in, restored, size_of
from ._retired_journals import begin_copy, finish_copy, leave_doubt, take_stock
from ._statistics import ReplicaStatistics
from ._stream_packets import nonsense, sealed, sealed_answer, unsealed

__all__ = ["Replica"]

# The limits of one piece of disk work.
_GATHERED_BYTES = 1024 * 1024
_GATHERED_MAX = 64
_WORK_LANES = (Lane.JOURNAL, Lane.BACKGROUND)


@frozen
class _Item:
    """A work that was received: done when the numbers of ``after`` are, in their lanes."""

    number: int
    after: tuple[tuple[Lane, int], ...]
    operations: list[DiskOperation]
    size: int


@define(eq=False)
class _WorkLane:
    """The works of a lane. ``under_way`` is the batch that the disk does, 0 if none; ``doing`` the last work in that.

    `0 <= done <= doing <= received` holds for the numbers of works.
    """

    received: int = 0
    done: int = 0
    under_way: int = 0
    doing: int = 0
    items: deque[_Item] = Factory(deque)
    # The newest segment to which the work under way writes batches, 0 for none.
    segment: int = 0


# A mark comes with the numbers of works that came before it.
_Part = CopyBegin | StreamChunk | tuple[CopyMark, dict[Lane, int]]


class Replica:
    """One attempt at one primary, on a directory that no other component uses meanwhile.

    Args:
        line: The connection to the primary.
        settings: The settings of the journal in the directory.
        saved_max: How many journals that were in the way are kept, -1 for all.
        answer_timeout_s: Seconds after the registration after which a silent peer is given up.
        log: Receives warnings for the operator.
        inform: Receives lines about ordinary events; None: ``log`` receives them, too.
    """

    def __init__(
        self,
        line: StreamConnection,
        settings: JournalSettings,
        saved_max: int,
        answer_timeout_s: float,
        log: Callable[[str], None],
        inform: Callable[[str], None] | None = None,
    ) -> None:
        self.state = ReplicaState.JOINING
        self.status: PrimaryStatus | None = None
        self.owner: ReplicaOwner | None = None
        self._line = line
        self._settings = settings
        self._saved_max = saved_max
        self._answer_timeout_s = answer_timeout_s
        self._log = log
        self._inform = log if inform is None else inform
        self._due: float | None = None
        self._numbers = Numbers()
        self._lanes = {lane: _WorkLane() for lane in _WORK_LANES}
        self._copy = CopyLane(self._numbers)
        self._copy_received = 0
        self._copy_done = 0
        # Parts of the copy that are not done, with their numbers; the part under way stays until it is done.
        self._parts: deque[tuple[int, _Part]] = deque()
        self._files: tuple[CopiedFile, ...] = ()
        # The generations of all segments of the copy, and the newest that has batches on disk.
        self._segments: set[int] = set()
        self._newest_segment = 0
        # Files that were touched since the last sync, as an ordered set.
        self._dirty: dict[str, None] = {}
        self._stop_called = False
        self._hands_over = False
        self._in_sync = False
        # How it ended, and whether the owner was informed: that waits for the disk.
        self._over: tuple[EndingKind, str, Refusal | None] | None = None
        self._reported = False
        # The disk failed, and that is being noted on it.
        self._doubted = self._doubts = self._unusable = False

    @property
    def at_rest(self) -> bool:
        """Return True if the disk does nothing for it, and will not."""
        return self._reported

    def statistics(self) -> ReplicaStatistics:
        """Return the figures of this moment."""
        return ReplicaStatistics(copied_parts=self._copy_done)

    def begin(self, registration: ReplicaRegistration, now: Instant) -> None:
        """Begin to wait for the answer to the registration, which the owner sends over the control channel."""
        assert registration.format == STREAM_FORMAT
        self._due = now.monotonic + self._answer_timeout_s
        self._line.receiver = self

    # -- frames --------------------------------------------------------------------------------------------------

    def on_gone(self) -> None:
        """Handle that the connection to the primary is gone."""
        text = "the connection to the primary is gone: the backup joins again when the primary is reachable"
        self._end(EndingKind.LOST, text)

    def on_frame(self, packet_type: int, buffer: bytes | bytearray, start: int, end: int) -> None:
        """Handle a frame of the primary. One that cannot be read ends the attempt."""
        try:
            if packet_type == StreamType.WORK:
                self._on_work(buffer, start, end)
            elif packet_type == StreamType.CHUNK:
                self._on_chunk(decode_chunk(buffer, start, end))
            else:
                self._on_packet(unsealed(buffer, start, end, from_client=False))
        except RemoteProtocolError as error:
            self._break(nonsense("the primary", error))

    def _on_packet(self, packet: Packet) -> None:
        match packet:
            case ReplicaAccepted() if self.status is None:
                self._on_accepted(packet)
            case ReplicaRefused() if self.status is None:
                known = packet.problem in Refusal._value2member_map_
                refusal = Refusal(packet.problem) if known else Refusal.NOT_READY
                self._end(EndingKind.REFUSED, f"{self._line.name} takes no backup: {packet.text}", refusal)
            case CopyBegin() if self.state is ReplicaState.JOINING and self.status is not None:
                self._on_begin(packet)
            case CopyMark() if self.state is ReplicaState.COPYING:
                self._on_mark(packet)
            case StreamFarewell(kind=Farewell.STOP_CALLED):
                self._stop_called = True
            case StreamFarewell(kind=Farewell.FAIL_OVER):
                self._end(EndingKind.FAIL_OVER, "the primary stopped, and this one is to take over")
            case StreamFarewell(kind=Farewell.BROKEN):
                self._end(EndingKind.BROKEN, f"the primary cannot go on: {packet.text}")
            case _:
                text = f"{type(packet).__name__} from a primary, to a backup that is {self.state.value}"
                raise RemoteProtocolError(text)

    def _on_accepted(self, packet: ReplicaAccepted) -> None:
        if packet.format != STREAM_FORMAT:
            raise RemoteProtocolError(other_format(packet.format))
        self.status = PrimaryStatus(
            packet.node_id, packet.journal_identity, packet.activation_sequence, packet.allows_fail_back
        )
        self._due = None
        if self.owner is not None:
            self.owner.on_accepted(self.status)
        self._copy.begin(self._work_through())

    def _on_begin(self, begin: CopyBegin) -> None:
        for file in begin.files:
            if not is_copied(file.name) or not 0 <= file.kept <= file.size:
                raise RemoteProtocolError(f"a copy of {file.name!r} with {file.kept} of {file.size} bytes kept")
        self.state = ReplicaState.COPYING
        self._files = begin.files
        self._segments.update(_generations(file.name for file in begin.files))
        self._receive_part(1, begin)

    def _on_chunk(self, chunk: StreamChunk) -> None:
        if self.state is not ReplicaState.COPYING or self._hands_over or chunk.file >= len(self._files):
            raise RemoteProtocolError(f"a part of file {chunk.file}, to a backup that is {self.state.value}")
        if chunk.offset + len(chunk.data) > self._files[chunk.file].size:
            raise RemoteProtocolError(f"a part of {self._files[chunk.file].name} behind its end")
        self._receive_part(chunk.number, chunk)

    def _on_mark(self, mark: CopyMark) -> None:
        if mark.mark not in StreamMark._value2member_map_ or self._hands_over:
            raise RemoteProtocolError(f"mark {mark.mark}")
        self._hands_over = mark.mark == StreamMark.HAND_OVER
        self._receive_part(mark.number, (mark, {lane: flow.received for lane, flow in self._lanes.items()}))

    def _receive_part(self, number: int, part: _Part) -> None:
        if number != self._copy_received + 1:
            raise RemoteProtocolError(f"part {number} of the copy follows part {self._copy_received}")
        self._copy_received = number
        self._parts.append((number, part))

    def _on_work(self, buffer: bytes | bytearray, start: int, end: int) -> None:
        work = decode_work(buffer, start, end)
        if work.lane not in _WORK_LANES or self.state not in (ReplicaState.COPYING, ReplicaState.IN_SYNC):
            raise RemoteProtocolError(f"work in lane {work.lane}, to a backup that is {self.state.value}")
        flow = self._lanes[Lane(work.lane)]
        if work.number != flow.received + 1:
            raise RemoteProtocolError(f"work {work.number} of lane {work.lane} follows work {flow.received}")
        after = [(lane, number) for lane, number in zip(_WORK_LANES, work.after, strict=True) if lane != work.lane]
        for lane, number in after:
            if number > self._lanes[lane].received:
                raise RemoteProtocolError(f"work {work.number} of lane {work.lane} waits for {number}, to come later")
        operations = restored(work.operations)
        flow.received = work.number
        item = _Item(work.number, (*after, (Lane.COPY, self._copy_received)), operations, size_of(operations))
        flow.items.append(item)

    # -- the disk ------------------------------------------------------------------------------------------------

    def take_work(self) -> list[DiskWork]:
        """Return the work for the disk."""
        found = []
        copy = self._copy.take()
        if copy is not None:
            found.append(copy)
        for lane, flow in self._lanes.items():
            if not flow.under_way and flow.items:
                operations = self._gather(lane, flow)
                if operations:
                    flow.under_way = self._numbers.next()
                    found.append(DiskWork(lane, flow.under_way, tuple(operations)))
        self._come_to_rest()
        return found

    def _gather(self, lane: Lane, flow: _WorkLane) -> list[DiskOperation]:
        operations: list[DiskOperation] = []
        size = count = 0
        while flow.items and size < _GATHERED_BYTES and count < _GATHERED_MAX and self._may_begin(flow.items[0]):
            item = flow.items.popleft()
            flow.doing = item.number
            size += item.size
            count += 1
            operations += item.operations if self._in_sync else self._without_syncs(item.operations)
        self._look_for_segments(lane, flow, operations)
        if count and not operations:  # nothing but syncs: the next mark does those
            operations.append(storage.ListFiles())
        return operations

    def _may_begin(self, item: _Item) -> bool:
        return all(self._done_in(lane) >= number for lane, number in item.after)

    def _done_in(self, lane: Lane) -> int:
        return self._copy_done if lane is Lane.COPY else self._lanes[lane].done

    def _without_syncs(self, operations: list[DiskOperation]) -> list[DiskOperation]:
        dirty = self._dirty
        for operation in operations:
            match operation:
                case storage.Rename(file, new):
                    dirty.pop(new, None)
                    if file in dirty:
                        del dirty[file]
                        dirty[new] = None
                case storage.Remove(file):
                    dirty.pop(file, None)
                case _:
                    dirty.update(dict.fromkeys(names_in((operation,))))
        return [each for each in operations if not isinstance(each, storage.Sync | storage.SyncDirectory)]

    def on_disk_done(self, batch: int, results: tuple[object, ...]) -> None:
        """Handle the results of a piece of work."""
        if batch == self._copy.under_way:
            self._copy.done(results)
        for lane, flow in self._lanes.items():
            if flow.under_way == batch:
                flow.under_way = 0
                flow.done = flow.doing
                if flow.segment > self._newest_segment:
                    self._newest_segment = flow.segment
                    if self._in_sync:
                        self._report_segment()
                self._answer(lane, flow.done)
        self._come_to_rest()

    def on_disk_failed(self, batch: int, fault: DiskFault) -> None:
        """Handle a failure of the disk: what it did is unknown, and these files are no copy any more."""
        if batch == self._copy.under_way:
            self._copy.failed()
        for flow in self._lanes.values():
            if flow.under_way == batch:
                flow.under_way = 0
        self._in_sync = self._hands_over = False
        self._unusable = self._doubted
        self._doubts = self.status is not None and not self._doubted
        text = f"the backup's disk failed: {fault}"
        self._break(text)
        self._over = EndingKind.BROKEN, text, None
        self._drop()
        if self._doubts:
            self._doubted = True
            self._copy.begin(self._leave_doubt())
        self._come_to_rest()

    def _leave_doubt(self) -> CopySteps:
        yield from leave_doubt()
        self._doubts = False

    def _answer(self, lane: Lane, number: int) -> None:
        if self._over is None:
            self._line.write_pieces([sealed_answer(lane, number)])

    def _send(self, packet: Packet) -> None:
        self._line.write_pieces([sealed(packet)])

    # -- the copy ------------------------------------------------------------------------------------------------

    def _work_through(self) -> CopySteps:
        """Send what is there from before, then do the parts of the copy as they come."""
        yield from self._take_stock()
        while not self._in_sync:
            yield lambda: bool(self._parts)
            number, part = self._parts[0]
            match part:
                case CopyBegin():
                    yield from begin_copy(part, self._saved_max)
                    self._parts.popleft()
                case StreamChunk():
                    number = yield from self._write()
                case (mark, needed):
                    yield from self._sync(needed)
                    if mark.mark == StreamMark.HAND_OVER:
                        yield finish_copy()
                        self._become_in_sync()
                    self._parts.popleft()
            self._copy_done = number
            self._answer(Lane.COPY, number)

    def _take_stock(self) -> CopySteps:
        holdings = yield from take_stock(self._settings)
        files = tuple([HeldFile(name, size, digest) for name, size, digest in holdings.files])
        self._send(ReplicaInventory(holdings.identity, holdings.newest, files))

    def _write(self) -> Generator[Request, tuple[object, ...], int]:
        """Write the chunks that wait, as far as they make one piece of work; return the number of the last."""
        writes: list[DiskOperation] = []
        size = last = 0
        for number, part in self._parts:
            if not isinstance(part, StreamChunk) or size >= _GATHERED_BYTES:
                break
            name = self._files[part.file].name
            writes.append(storage.WriteAt(name, part.offset, (bytes(part.data),)))
            self._dirty[name] = None
            size += len(part.data)
            last = number
        yield tuple(writes)
        for _ in writes:
            self._parts.popleft()
        return last

    def _sync(self, needed: dict[Lane, int]) -> CopySteps:
        yield lambda: all(self._lanes[lane].done >= number for lane, number in needed.items())
        dirty, self._dirty = self._dirty, {}
        yield (*[storage.Sync(name) for name in dirty], storage.SyncDirectory())

    def _become_in_sync(self) -> None:
        self._in_sync = True
        if self._over is not None:
            return
        self.state = ReplicaState.IN_SYNC
        self._inform(f"in sync with {self._line.name}")
        # The newest file may be prepared, and have no batches yet. The one before it has: it was written before that.
        self._newest_segment = max([self._newest_segment, *sorted(self._segments)[:-1]])
        self._report_segment()
        if self.owner is not None:
            assert self.status is not None
            self.owner.on_in_sync(self.status)

    def _look_for_segments(self, lane: Lane, flow: _WorkLane, operations: list[DiskOperation]) -> None:
        """Note which segments a work makes or writes. Batches are written in the lane of the journal only."""
        made = _generations(each.new for each in operations if isinstance(each, storage.Rename))
        if not self._in_sync:
            self._segments.update(made)
        flow.segment = 0
        if lane is Lane.JOURNAL:
            written = _generations(each.file for each in operations if isinstance(each, storage.WriteAt))
            flow.segment = max([*made, *written], default=0)

    def _report_segment(self) -> None:
        if self.owner is not None:
            self.owner.on_segment(self._newest_segment)

    # -- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the attempt from this side."""
        self._end(EndingKind.CLOSED, "this broker ended it")

    def _break(self, text: str) -> None:
        """End the attempt and the connection, because this side cannot go on; send the reason to the primary."""
        if self._over is None:
            # A stream that makes no sense brings nothing into sync; what already is remains so.
            self._hands_over = self._in_sync
            self._send(StreamFarewell(Farewell.BROKEN, text))
            self._end(EndingKind.BROKEN, text)
            self._line.fail(f"replication: {text}")

    def _end(self, kind: EndingKind, text: str, refusal: Refusal | None = None) -> None:
        if self._over is not None:
            return
        if kind is EndingKind.LOST and self._stop_called:
            kind = EndingKind.STOP_CALLED
        self._line.receiver = None
        self._due = None
        self._over = kind, text, refusal
        self.state = ReplicaState.OVER
        # Received work is done, if it makes sense: perhaps the primary is gone with the only other copy of it.
        if kind is EndingKind.CLOSED or not (self._in_sync or self._hands_over):
            self._drop()
        self._come_to_rest()

    def _drop(self) -> None:
        """Drop all work that was not begun."""
        self._parts.clear()
        self._copy.abandon()
        for flow in self._lanes.values():
            flow.items.clear()

    def _come_to_rest(self) -> None:
        """Report the end when the disk has done its work."""
        if self._over is None or self._reported or self._parts or self._doubts or self._copy.under_way:
            return
        if any(flow.under_way or flow.items for flow in self._lanes.values()):
            return
        self._reported = True
        kind, text, refusal = self._over
        # A primary that hands over in order, and a backup that stops, are ordinary events.
        write = self._inform if kind in (EndingKind.FAIL_OVER, EndingKind.CLOSED) else self._log
        write(f"replication is over, {'in sync' if self._in_sync else 'not in sync'}: {text}")
        if self.owner is not None:
            self.owner.on_over(Ending(kind, text, self._in_sync, refusal, self._unusable), self.status)

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds; None if it never is."""
        return self._due

    def on_time(self, now: Instant) -> None:
        """Give up a silent peer: one without this kind of replication ignores a registration."""
        if self._due is not None and now.monotonic >= self._due:
            text = (
                f"{self._line.name} did not answer for {self._answer_timeout_s:g} s: is it an embedbroker? Replication"
                " is between embedbrokers only"
            )
            self._end(EndingKind.BROKEN, text)


def _generations(names: Iterable[str]) -> list[int]:
    """Return the last generations of the segments among some files."""
    return [found[1] for found in map(storage.segment_range, names) if found is not None]
