"""The primary's end of a replication: disk work is done here and by a backup, and the journal waits for both.

Responsible for the journal's disk work that goes to the backup, and for when it counts as done. Leads a joining backup
to one in sync. Does not depend on what the work means, and does not decide which broker is active. It reports when a
backup is in sync, and when one is lost, and waits for `go_on_alone`.

When a piece of work counts as done:

=============  ================================================================
ALONE          it is done here
COPYING        it is done here, and the backup is not too far behind
HANDING_OVER   it is done here and by the backup, if it was issued since then
SYNCHRONISED   it is done here and by the backup
HELD           not before `go_on_alone`
=============  ================================================================

Why a hand-over counts for both from its mark on:

1. The primary sends the mark. The backup has everything up to it, and is in sync as soon as it has synced that.
2. The primary confirms what was issued behind the mark, because its own disk has it. It dies.
3. The backup has found itself in sync, and takes over without what was confirmed.

So nothing behind the mark is confirmed before the backup has it. A backup that is lost behind the mark may believe that
it is in sync, whatever it managed to answer: that is HELD.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define

from embedbroker.storage import DiskFault, DiskWork, Lane
from embedclient.errors import RemoteProtocolError
from embedclient.model import Instant
from embedclient.wire.core import (
    Farewell,
    Packet,
    ReplicaAccepted,
    ReplicaInventory,
    ReplicaRefused,
    ReplicaRegistration,
    StreamFarewell,
    StreamMark,
    StreamType,
)

from ._events import (
    STREAM_FORMAT,
    PrimaryStatus,
    Refusal,
    ReplicatorOwner,
    ReplicatorState,
    StreamConnection,
    other_format,
)
from ._initial_copy import InitialCopy
from ._lane import CopyLane, Numbers
from ._operations import carried, structural_names
from ._send_window import SendWindow
from ._statistics import ReplicatorStatistics
from ._stream_packets import nonsense, sealed, unsealed, unsealed_answer

__all__ = ["Replicator"]

# How far the backup may be behind while it is not in sync. Beyond, the journal waits for it.
BACKLOG_BYTES_MAX = 16 * 1024 * 1024
# The same once everything is copied: a hand-over waits for it.
LAST_BACKLOG_BYTES_MAX = 1024 * 1024
# How many call time-outs a backup has to read all its files before it sends its inventory. The size of its files is not
# known here, and each attempt reads all of them again. So each next attempt may take twice as long, up to
# `_DOUBLED_MAX` times.
_JOIN_CALLS_MAX = 20
_DOUBLED_MAX = 6
_ANSWER = int(StreamType.ANSWER)


@define(eq=False)
class _Issued:
    """A piece of work: ``number`` in the stream, 0 when it does not go there."""

    work: DiskWork
    number: int = 0
    for_both: bool = False
    results: tuple[object, ...] | None = None


class Replicator:
    """The replication of one start of an active broker. The owner keeps ``now`` current.

    Args:
        call_timeout_s: Seconds after which a backup that owes an answer is lost.
        sync_timeout_s: The bound of the hand-over, in seconds.
        log: Receives warnings for the operator.
        inform: Receives lines about ordinary events; None: ``log`` receives them, too.
    """

    def __init__(
        self,
        call_timeout_s: float,
        sync_timeout_s: float,
        log: Callable[[str], None],
        inform: Callable[[str], None] | None = None,
    ) -> None:
        self.state = ReplicatorState.ALONE
        self.now = Instant(0.0, 0)
        self.registration: ReplicaRegistration | None = None
        self.owner: ReplicatorOwner | None = None
        self._call_timeout_s = call_timeout_s
        self._sync_timeout_s = sync_timeout_s
        self._log = log
        # For ordinary events; without it, `log` takes them, too.
        self._inform = log if inform is None else inform
        self._identity = 0
        self._issued: dict[Lane, _Issued] = {}
        self._withheld: dict[Lane, DiskWork] = {}
        # Work that does not belong to the journal, before and after it was given to the disk.
        self._beside: DiskWork | None = None
        self._issued_beside: _Issued | None = None
        self._done: dict[Lane, int] = {}
        self._completed: list[tuple[int, tuple[object, ...]]] = []
        self._lane = CopyLane(Numbers())
        self._flow: SendWindow | None = None
        self._copying: InitialCopy | None = None
        # Behind this number of the copy lane the backup is in sync; 0 before the hand-over.
        self._hand_over = 0
        self._due: float | None = None
        # How many times in a row, without a backup in sync, one took too long to send its inventory.
        self._slow_joins = 0

    @property
    def replica_name(self) -> str:
        """Return where the backup is, for the operator; empty without one."""
        return self._flow.line.name if self._flow is not None else ""

    @property
    def is_steady(self) -> bool:
        """Return True if only works and their answers pass: one by one they change nothing but what is done."""
        if self.state is ReplicatorState.SYNCHRONISED:
            return True
        return self.state is ReplicatorState.ALONE and self._flow is None

    @property
    def is_owed(self) -> bool:
        """Return True if an answer of the backup is outstanding."""
        return self._flow is not None and self._flow.owes

    @property
    def catches_up(self) -> bool:
        """Return True if a backup receives its copy, and has a part of it from before."""
        return self._copying is not None and self._copying.catches_up

    def statistics(self) -> ReplicatorStatistics:
        """Return the figures of this moment."""
        copying, issued = self._copying, self._issued
        return ReplicatorStatistics(
            copy_begun=copying is not None and copying.begun,
            uncopied_files=len(copying.uncopied) if copying is not None and copying.begun else 0,
            withheld=tuple(self._withheld),
            waiting_for_backup=tuple(
                [lane for lane, one in issued.items() if one.for_both and one.results is not None]
            ),
            sent=tuple([one.work for one in issued.values() if one.number]),
        )

    # -- joining -------------------------------------------------------------------------------------------------

    def refuse(self, line: StreamConnection, refusal: Refusal, text: str) -> None:
        """Send a refusal to a backup. The connection does not change."""
        line.write_pieces([sealed(ReplicaRefused(refusal, text))])

    def register(self, line: StreamConnection, registration: ReplicaRegistration, status: PrimaryStatus) -> None:
        """Accept a backup that registers, or refuse it with a reason."""
        if registration.format != STREAM_FORMAT:
            self.refuse(line, Refusal.OTHER_FORMAT, other_format(registration.format))
        elif registration.node_id not in ("", status.node_id):
            self.refuse(line, Refusal.OTHER_NODE, f"this broker is {status.node_id}")
        elif self._flow is not None or self.state is not ReplicatorState.ALONE:
            self.refuse(line, Refusal.ALREADY_REPLICATING, f"it has a backup, {self.replica_name or 'just lost'}")
        else:
            self._take(line, registration, status)

    def _take(self, line: StreamConnection, registration: ReplicaRegistration, status: PrimaryStatus) -> None:
        self.registration = registration
        self._identity = status.journal_identity
        self._flow = SendWindow(line, self.now.monotonic)
        self._done = {Lane.JOURNAL: 0, Lane.BACKGROUND: 0}
        self._due = self.now.monotonic + (_JOIN_CALLS_MAX << self._slow_joins) * self._call_timeout_s
        line.receiver = self
        accepted = ReplicaAccepted(
            STREAM_FORMAT,
            status.node_id,
            status.journal_identity,
            status.epoch,
            status.allows_fail_back,
        )
        self._flow.send(accepted)
        self._inform(f"{line.name} joins as backup")

    def _on_inventory(self, inventory: ReplicaInventory) -> None:
        if self._copying is not None or self._flow is None:
            raise RemoteProtocolError("an inventory that was not asked for")
        self._due = None
        self._flow.quiet_since = self.now.monotonic
        self.state = ReplicatorState.COPYING
        self._copying = InitialCopy(self._flow, self._clock, self._inform, self._is_quiet)
        self._lane.abandon()
        self._lane.begin(self._copying.run(inventory, self._identity))

    def _clock(self) -> float:
        return self.now.monotonic

    def _is_quiet(self) -> bool:
        """Return True if the disk does nothing for the journal: the moment to list the files."""
        return not self._issued and self._issued_beside is None

    # -- disk work -----------------------------------------------------------------------------------------------

    def take_work(self, works: list[DiskWork]) -> list[DiskWork]:
        """Return the work for the disk, from the work that the journal issued."""
        for work in works:
            assert work.lane not in self._withheld
            self._withheld[work.lane] = work
        if self._copying is None:
            # Most steps, and the copy lane is idle: the remains of a lost backup there are not needed.
            return self._release()
        copy = self._lane.take()
        found = self._release()
        if copy is not None:
            found.append(copy)
        self._advance()
        return found

    def do_beside(self, work: DiskWork) -> None:
        """Do work that does not belong to the journal, in one of its lanes, one at a time.

        It must not wait for a right to be renewed: others may need its result to renew theirs. So it does not wait for
        the journal's work in that lane to count as done, which needs that right, but for the disk alone:

        1. The backups of two voters are lost while their journals work in the background, and both are held.
        2. Each requests the vote of the other. The grant would wait for that work, and so for the grant of the first.
        """
        assert self._beside is None and self._issued_beside is None
        self._beside = work

    def _release(self) -> list[DiskWork]:
        if not self._withheld and self._beside is None:
            return []
        works = []
        beside = self._beside
        if beside is not None and not self._must_wait(beside):
            self._beside = None
            self._issue(beside, is_beside=True)
            works.append(beside)
        for work in list(self._withheld.values()):
            if work.lane not in self._issued and not self._must_wait(work):
                del self._withheld[work.lane]
                self._issue(work)
                works.append(work)
        return works

    def _all_issued(self) -> list[_Issued]:
        beside = self._issued_beside
        return [*self._issued.values()] if beside is None else [*self._issued.values(), beside]

    def _must_wait(self, work: DiskWork) -> bool:
        if any(issued.work.lane == work.lane and issued.results is None for issued in self._all_issued()):
            return True
        copying = self._copying
        if copying is None:
            return False
        return copying.listing or bool(copying.uncopied.keys() & structural_names(work.operations))

    def _issue(self, work: DiskWork, *, is_beside: bool = False) -> None:
        issued = _Issued(work)
        if is_beside:
            self._issued_beside = issued
        else:
            self._issued[work.lane] = issued
        copying, flow = self._copying, self._flow
        if copying is not None and not copying.begun:
            return
        if self.state is ReplicatorState.ALONE:
            return
        parts = carried(work.operations)
        if not parts:
            return
        issued.for_both = self.state is not ReplicatorState.COPYING
        if flow is None:
            issued.for_both = not is_beside
            return  # HELD: there is no backup to send it to
        if copying is not None:
            copying.note_writes(work.operations)
        issued.number = flow.send_work(work.lane, work.operations, parts, self._done, self.now.monotonic)

    def on_disk_done(self, batch: int, results: tuple[object, ...]) -> None:
        """Handle the results of a piece of work."""
        if batch == self._lane.under_way:
            self._lane.done(results)
            return
        for issued in self._all_issued():
            if issued.work.batch == batch:
                issued.results = results
        self._complete()

    def on_disk_failed(self, batch: int, fault: DiskFault) -> bool:
        """Handle a failure of the disk; return False if the work was the journal's, which must receive it now."""
        if batch == self._lane.under_way:
            if self._lane.failed():
                self._give_up(f"the copy failed: {fault}")
            return True
        for issued in self._all_issued():
            if issued.work.batch == batch:
                # The backup does it, perhaps later: whatever follows here must come behind it there.
                self._forget(issued)
        return False

    def _forget(self, issued: _Issued) -> None:
        lane = issued.work.lane
        if issued is self._issued_beside:
            self._issued_beside = None
        else:
            del self._issued[lane]
        if issued.number:
            # Of two in one lane the later one may be done before the earlier one counts.
            self._done[lane] = max(self._done[lane], issued.number)

    def take_completed(self) -> Sequence[tuple[int, tuple[object, ...]]]:
        """Return the work that is done by the journal's rules: (batch, results)."""
        if not self._completed:
            return ()
        completed, self._completed = self._completed, []
        return completed

    def _complete(self) -> None:
        for issued in self._all_issued():
            if issued.results is not None and self._counts_as_done(issued.work.lane, issued):
                self._forget(issued)
                self._completed.append((issued.work.batch, issued.results))

    def _counts_as_done(self, lane: Lane, issued: _Issued) -> bool:
        flow = self._flow
        if issued.for_both:
            return flow is not None and flow.answered(lane) >= issued.number > 0
        if issued.number and flow is not None and self._copying is not None:
            limit = LAST_BACKLOG_BYTES_MAX if self._copying.copied else BACKLOG_BYTES_MAX
            return flow.backlog_bytes <= limit
        return True

    # -- the way to being in sync --------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Hand over if everything is copied and synced, and the backup is not far behind."""
        flow, copying = self._flow, self._copying
        if self.state is not ReplicatorState.COPYING or flow is None or copying is None:
            return
        is_near = copying.copied and self._lane.idle and flow.backlog_bytes <= LAST_BACKLOG_BYTES_MAX
        if is_near and (self.owner is None or self.owner.may_hand_over()):
            self.state = ReplicatorState.HANDING_OVER
            self._hand_over = flow.send_mark(StreamMark.HAND_OVER, self.now.monotonic)
            self._due = self.now.monotonic + self._sync_timeout_s
            for issued in self._all_issued():
                # A backup that is in sync has it; once that is lost, it waits as everything does.
                issued.for_both |= issued.number > 0

    def on_gone(self) -> None:
        """Handle that the connection to the backup is gone."""
        self._lose("the connection is gone")

    def on_frame(self, packet_type: int, buffer: bytes | bytearray, start: int, end: int) -> None:
        """Handle a frame of the backup. One that cannot be read ends the replication."""
        try:
            if packet_type == _ANSWER:
                self._on_answer(*unsealed_answer(buffer, start, end))
            else:
                self._on_packet(unsealed(buffer, start, end, from_client=True))
        except RemoteProtocolError as error:
            self._give_up(nonsense("it", error))

    def _on_answer(self, lane: int, number: int) -> None:
        flow = self._flow
        if flow is None:
            return
        flow.on_answer(lane, number, self.now.monotonic)
        if self._hand_over and flow.answered(Lane.COPY) >= self._hand_over:
            self._become_synchronised()
        self._complete()

    def _on_packet(self, packet: Packet) -> None:
        if self._flow is None:
            return
        match packet:
            case ReplicaInventory():
                self._on_inventory(packet)
            case StreamFarewell():
                self._give_up(f"it cannot go on: {packet.text}")
            case _:
                raise RemoteProtocolError(f"{type(packet).__name__} from a backup")

    def _become_synchronised(self) -> None:
        self.state = ReplicatorState.SYNCHRONISED
        self._hand_over = 0
        self._copying = None
        self._due = None
        self._slow_joins = 0
        self._inform(f"backup {self.replica_name} is in sync")
        if self.owner is not None:
            self.owner.on_synchronised()

    # -- the end of a backup -------------------------------------------------------------------------------------

    def _give_up(self, reason: str) -> None:
        """End the replication from this side, because it makes no sense to go on, and send the reason."""
        line = self._detach()
        if line is not None:
            farewell = StreamFarewell(Farewell.BROKEN, reason)
            line.write_pieces([sealed(farewell)])
            line.fail(f"replication: {reason}")
            self._lost(line.name, reason)

    def _lose(self, reason: str) -> None:
        line = self._detach()
        if line is not None:
            self._lost(line.name, reason)

    def _detach(self) -> StreamConnection | None:
        flow, self._flow = self._flow, None
        self._copying = None
        self._lane.abandon()
        self._due = None
        self._hand_over = 0
        self.registration = None
        if flow is None:
            return None
        for issued in self._all_issued():
            issued.number = 0  # of a stream that is over: it has no meaning for the next backup
        flow.line.receiver = None
        return flow.line

    def _lost(self, name: str, reason: str) -> None:
        held = self.state in (ReplicatorState.HANDING_OVER, ReplicatorState.SYNCHRONISED)
        if held:
            self.state = ReplicatorState.HELD
            if self._issued_beside is not None:
                self._issued_beside.for_both = False
            self._log(f"lost backup {name}, which was in sync: {reason}")
        else:
            self.state = ReplicatorState.ALONE
            self._log(f"lost backup {name}, which was not in sync: {reason}")
        self._complete()
        if self.owner is not None:
            self.owner.on_lost(reason, held)

    def go_on_alone(self) -> None:
        """Confirm what waits: the right to be active was renewed, and no backup will take over."""
        assert self.state is ReplicatorState.HELD, self.state
        self._become_alone()

    def _become_alone(self) -> None:
        self.state = ReplicatorState.ALONE
        for issued in self._all_issued():
            issued.for_both = False
        self._complete()

    def announce_stop(self) -> None:
        """Announce an orderly stop, after which the backup must take over."""
        if self._flow is not None:
            self._flow.send(StreamFarewell(Farewell.STOP_CALLED, ""))

    def announce_failover(self) -> None:
        """Announce that everything is written: the backup must take over as soon as it has done all of it."""
        if self._flow is not None:
            self._flow.send(StreamFarewell(Farewell.FAIL_OVER, ""))

    def close(self, reason: str) -> None:
        """Dismiss the backup, for a broker that stops. What waits for it counts when it is done here."""
        line = self._detach()
        if line is not None:
            self._inform(f"backup {line.name} is let go: {reason}")
        self._become_alone()

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds; None if it never is."""
        flow = self._flow
        if flow is None or not flow.owes:
            return self._due
        due = flow.quiet_since + self._call_timeout_s + flow.extra_s
        return due if self._due is None else min(due, self._due)

    def on_time(self, now: Instant) -> None:
        """Give up a backup that takes too long."""
        self.now = now
        flow = self._flow
        if flow is None:
            return
        if self._due is not None and now.monotonic >= self._due:
            if self._hand_over:
                self._give_up(f"the hand-over took {self._sync_timeout_s:g} s")
            else:
                self._slow_joins = min(self._slow_joins + 1, _DOUBLED_MAX)
                self._give_up("it did not say what it has; the next time it may take twice as long")
        elif flow.owes and now.monotonic >= flow.quiet_since + self._call_timeout_s + flow.extra_s:
            self._give_up(f"it did not answer for {self._call_timeout_s + flow.extra_s:g} s")
