"""One broker as a synchronous machine: inputs in, outputs out, and the next moment it wants to be woken.

Responsible for putting kernel, protocols and journal together, for the order of work inside a step, and for the node's
life: recovering, running, stopping, stopped. Refuses to await, to read a clock, to open a file, to draw a random
number.

A step never raises for what a peer or a disk does. An assertion that fails is a bug: the host stops the node as
`crash` would.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, assert_never

from attrs import evolve

from embedbroker import storage
from embedbroker.config import BrokerConfig, Role
from embedbroker.ha import Activation, LockDone, LockFailed, RoleChanged
from embedbroker.kernel import Kernel
from embedbroker.protocols import CoreService, ResendAccount, restore_message
from embedclient.model import Entropy, Instant, make_uuid, uuid_text

from ._admission import Admission
from ._assembly import make_activation, make_grants_file, make_membership, warn_of_policy
from ._audit_recording import AuditRecording
from ._branch_decisions import BranchDecisions
from ._connections import Connections
from ._disk_completions import DiskCompletions
from ._gate import DurabilityGate
from ._inputs import (
    OF_TRAFFIC,
    Accepted,
    AuditFailed,
    BytesReceived,
    Command,
    CommandKind,
    DecideBranch,
    Dialed,
    DialFailed,
    DiskDone,
    DiskFailed,
    Input,
    MakeRoom,
    PeerClosed,
    Tick,
    Written,
)
from ._node_state import BEFORE, ROLES, NodeState
from ._outgoing_connections import OutgoingConnections
from ._outputs import Level, Notice, Output, Ready, StopListening, Stopped
from ._restoration import Restoration
from ._stopping import OrderlyStop

if TYPE_CHECKING:
    from embedbroker.ha.replication import ReplicaDisk

__all__ = ["Node"]


# Members by themselves: looking one up in its enumeration costs more than the comparison, and each step compares.
_RUNNING, _STOPPED = NodeState.RUNNING, NodeState.STOPPED


class Node:
    """A broker. ``journal_settings`` None keeps everything in memory.

    With ``has_locks`` its host has a lock store for it, and it is live only while that says so. ``audit_log``: what it
    does while it is live is written there."""

    def __init__(
        self,
        config: BrokerConfig,
        entropy: Entropy,
        memory_limit_bytes: int,
        journal_settings: storage.JournalSettings | None = None,
        *,
        has_locks: bool = False,
        audit_log: storage.AuditLog | None = None,
    ) -> None:
        self.config = config
        self.entropy = entropy
        self.state = NodeState.NEW
        self.journal = storage.Journal(journal_settings) if journal_settings is not None else None
        self.kernel = Kernel(config, restore_message, self._log, memory_limit_bytes, self.journal, self._inform)
        self.audit = AuditRecording(audit_log, self.kernel, self._log_at)
        self.gate = DurabilityGate()
        self._branch_decisions = BranchDecisions(self.kernel)
        resend = ResendAccount(config.memory_shares(memory_limit_bytes).resend, config.output_bytes_max)
        self.core = CoreService(self.kernel, self.gate, entropy, "", resend)
        self.connections = Connections(config, self.core, memory_limit_bytes, self._log, self._log_at)
        self._now = Instant(0.0, 0)
        self._outputs: list[Output] = []
        self.dials = OutgoingConnections(config, self._log_at)
        grants = make_grants_file(config, self.journal)
        self.cluster = self.core.cluster = make_membership(config, self.dials, self._log, grants)
        self._check_due: float | None = None
        self._activation_due: float | None = None
        # When the next thing is due that has its time, as the host was told last.
        self._told_due = 0.0
        self._work_left = False
        self._orderly_stop = OrderlyStop(self.kernel, self.journal)
        self._failure: str | None = None
        self._restoration: Restoration | None = None
        # The journal that is read, while it is found out whether there is room to go on with it.
        self._needs_room_for: int | None = None
        tell = lambda output: self._outputs.append(output)  # noqa: E731 - the list is another one in each step
        self._admission = Admission(self.core, self.connections, self.cluster, tell)
        parts = config, self.journal, self.cluster
        self.activation: Activation | None = make_activation(
            *parts, self._make_node_id, tell, entropy, has_locks=has_locks
        )
        #: The disk of a broker that replicates: its own copy, or that of its backup.
        self.replica_disk: ReplicaDisk | None = self.activation.replica_disk if self.activation is not None else None
        self._disk_completions = DiskCompletions(self.journal, self.replica_disk, grants)
        self._fails_over = self._said_stopped = False
        # Where the journal began its newest segment, as the record was told last.
        self._rotated_at = 0

    @property
    def is_running(self) -> bool:
        """Whether clients are served."""
        return self.state is _RUNNING

    @property
    def node_id(self) -> str:
        """The identity that a primary and its backups share, as text; empty until it is known."""
        return self.core.node_id

    @property
    def role(self) -> Role:
        """What it is to its group at this moment."""
        return ROLES[self.state]

    # -- the contract --------------------------------------------------------------------------------------------

    def step(self, input: Input, now: Instant) -> list[Output]:
        """Take one input and return everything there is to do because of it."""
        self._now = now
        self.core.now = now
        self.kernel.now_ms = now.wall_ms
        self.kernel.monotonic = now.monotonic
        if self.journal is not None:
            self.journal.wall_ms = now.wall_ms
        if self.cluster is not None:
            self.cluster.now = now
        if self.replica_disk is not None:
            self.replica_disk.set_now(now)
        match input:
            case BytesReceived():
                if input.connection < 0:
                    self.dials.on_bytes(input, now)
                # What clients send while an orderly stop waits for the disk is not looked at.
                elif not self._orderly_stop.is_under_way or self._is_of_backup(input.connection):
                    self.connections.on_bytes(input, now)
            case DiskDone():
                if self._disk_completions.on_done(input, now) and self.state is not _RUNNING:
                    self._after_disk()
            case Written():
                if input.connection < 0:
                    self.dials.on_written(input)
                else:
                    self.connections.on_written(input)
            case DiskFailed():
                if self._disk_completions.on_failed(input, now):
                    self._after_disk()
            case LockDone() | LockFailed():
                assert self.activation is not None
                self.activation.on_answer(input, now)
                self._follow_activation()
            case Tick():
                pass
            case Accepted():
                self.connections.on_accepted(input, now, serving=self._admission.lets_in(self.state))
            case MakeRoom():
                self.connections.make_room(now)
            case PeerClosed():
                if input.connection < 0:
                    self.dials.on_peer_closed(input, now)
                else:
                    self.connections.on_peer_closed(input)
            case Dialed():
                self.dials.on_dialed(input, now)
            case DialFailed():
                self.dials.on_dial_failed(input, now)
            case DecideBranch():
                self._branch_decisions.take(input)
            case AuditFailed():
                self.audit.on_failed(input, self._outputs)
            case Command():
                self._on_command(input)
            case _:
                assert_never(input)
        timely = now.monotonic >= self._told_due or type(input) not in OF_TRAFFIC or not self._is_calm
        return self._finish_step(now, timely=timely)

    def next_deadline(self) -> float | None:
        """When a Tick is due, in monotonic seconds; the present moment means: at once."""
        now = self._now.monotonic
        if self._work_left:
            return now
        earliest = self._check_due
        if self.state is _RUNNING:
            earliest = self.kernel.housekeeping.next_deadline(now)
            if self._check_due is not None and self._check_due < earliest:
                earliest = self._check_due
        journal = self.journal if self.state is not _STOPPED else None
        for part in (journal, self.cluster, self.replica_disk):
            due = part.next_deadline() if part is not None else None
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        due = self._activation_due
        if due is not None and (earliest is None or due < earliest):
            earliest = due
        self._told_due = earliest if earliest is not None else math.inf
        return earliest

    # -- life ----------------------------------------------------------------------------------------------------

    def _on_command(self, command: Command) -> None:
        if command.kind is not CommandKind.START:
            self._fails_over |= command.kind is CommandKind.FAIL_OVER
            self._stop()
            return
        assert self.state is NodeState.NEW, self.state
        warn_of_policy(self.config, self._log)
        if self.activation is None:
            self._become_activating()
        else:
            self.activation.begin(self._now)

    # The only places where the role changes: a broker without a lock store begins with the second.

    def _become_backup(self) -> None:
        self.state = NodeState.WAITING
        self._outputs.append(RoleChanged(Role.BACKUP))

    def _become_activating(self) -> None:
        self.state = NodeState.RECOVERING
        self._check_due = self.connections.next_check(self._now)
        self._outputs.append(RoleChanged(Role.ACTIVATING))
        if self.journal is None:
            self._settle(None)
            return
        known = self.activation.journal_identity if self.activation is not None else None
        if known is not None:
            self.journal.settings = evolve(self.journal.settings, identity=known)
        self.journal.open(self._now)

    def _become_live(self) -> None:
        self.state = NodeState.RUNNING
        self.core.started = True
        self.audit.begin(self.core.node_id, self._now.wall_ms)
        self.kernel.housekeeping.at_start()
        self.kernel.housekeeping.start(self._now.monotonic)
        if self.cluster is not None:
            self.cluster.become_live(self.core.node_id, getattr(self.config.ha_policy, "group_name", None))
        self._outputs += [RoleChanged(Role.LIVE), Ready()]

    def _become_stopped(self, failure: str | None) -> None:
        self.state = NodeState.STOPPED
        self._failure = failure
        self._check_due = None
        self._orderly_stop.is_under_way = False
        self._restoration = self._needs_room_for = None
        self._disk_completions.drop()
        self.audit.end()
        if self.activation is not None:
            self.activation.end()

    def _settle(self, journal_identity: int | None) -> None:
        """The kernel is ready to serve: be live, as soon as the lock store has heard of it."""
        self.audit.journal_identity = journal_identity or 0
        activation = self.activation
        if activation is None:
            self.core.node_id = self._make_node_id()
            self._become_live()
            return
        if self.journal is None:
            activation.meet_journal(None, None)
        if activation.failure is None:
            self.core.node_id = activation.node_id or self._make_node_id()
            activation.settle(self.core.node_id, journal_identity, self._last_batch)
        self._follow_activation()

    @property
    def _last_batch(self) -> int | None:
        """Where the journal ends on disk."""
        return self.journal.reached if self.journal is not None else None

    def _note_rotation(self, journal: storage.Journal) -> bool:
        """Have the record follow a journal that began a segment; return True if the lock store has work from that."""
        self._rotated_at = journal.rotated_at
        return self.activation is not None and self.activation.note_last_batch(journal.reached)

    def _settle_with_room(self, journal_identity: int) -> None:
        """The same for who may have to wait on: clients that come are to find a broker that can write."""
        activation, journal = self.activation, self.journal
        assert journal is not None
        self._needs_room_for = None
        has_room = journal.has_room if activation is not None and activation.needs_room else True
        if has_room:
            self._settle(journal_identity)
        elif has_room is None:
            self._needs_room_for = journal_identity
        elif activation is not None:
            activation.note_shortage(lacks_room=True)
            self._fail_stop("there is no space for the next segment of the journal")

    def _make_node_id(self) -> str:
        return uuid_text(make_uuid(self.entropy, self._now))

    def _follow_activation(self) -> None:
        """The lock store answered: be what that makes of this broker."""
        activation = self.activation
        assert activation is not None
        stopping = self.state is NodeState.STOPPING
        role = Role.LIVE if stopping and not activation.is_over else activation.role_after(self._now)
        for note in activation.take_log_entries():
            self._log_at(Level.WARNING if note.warning else Level.INFO, note.text)
        match role:
            case Role.BACKUP if self.state in BEFORE:
                self.core.node_id = activation.node_id
                if self.state is NodeState.NEW and not activation.is_undecided:
                    self._become_backup()
            case Role.ACTIVATING if self.state in BEFORE:
                self._become_activating()
            case Role.LIVE if self.state is NodeState.RECOVERING:
                self._become_live()
            case Role.STOPPED if activation.failure is not None:
                self._fail_stop(activation.failure)
            case Role.STOPPED if stopping:
                self._become_stopped(None)
            case Role.STOPPED:
                self._stop()
        self._disk_completions.sure_until = activation.sure_until
        if self._disk_completions.release(self._now):
            self._after_disk()

    def _stop(self) -> None:
        if self.state in (NodeState.STOPPING, NodeState.STOPPED):
            return
        was, self.state = self.state, NodeState.STOPPING
        self._check_due = None
        self._outputs.append(StopListening())
        if self.activation is not None:
            self.activation.begin_stop(fails_over=self._fails_over)
        if was is not NodeState.RUNNING:
            self._restoration = self._needs_room_for = None
            self._leave(seal=False)
        else:
            self._check_due = self._orderly_stop.begin(self._now.monotonic)

    def _leave(self, *, seal: bool = True) -> None:
        """Say good-bye to everybody, and seal the journal if it is to be sealed."""
        self._orderly_stop.is_under_way = False
        self._check_due = None
        self.connections.say_goodbye(self.activation.backup_connection if self.activation is not None else None)
        if self.cluster is not None:
            self.cluster.leave("the broker stops")
        if self.journal is None or not seal or self.journal.state is not storage.JournalState.READY:
            self._depart()
        else:
            self.journal.close(self._now)
            self._after_disk()  # one that was sealed before closes at once

    def _depart(self) -> None:
        """Nothing is written any more: the lock store hears how this life ended, and then it is over."""
        if self.activation is None:
            self._become_stopped(None)
        else:
            self.activation.leave(fails_over=self._fails_over, last_batch=self._last_batch)
            self._follow_activation()

    def _after_disk(self) -> None:
        """The journal moved on: recovered, more durable, failed or closed."""
        journal = self.journal
        assert journal is not None
        if journal.state is storage.JournalState.FAILED:
            if self.activation is not None:
                self.activation.note_shortage(lacks_room=journal.lacks_room)
            self._fail_stop(journal.failure or "the journal failed")
        elif journal.state is storage.JournalState.CLOSED:
            if self.state is NodeState.STOPPING:
                self._depart()
        elif journal.recovered is not None and self.state is NodeState.RECOVERING and self._restoration is None:
            # Once: background work of the journal is done while messages are still being brought back.
            self._restore(journal, journal.recovered)

    def _restore(self, journal: storage.Journal, recovered: storage.RecoveredState) -> None:
        """The journal is read: begin with what it holds, unless the record of the node shows that it lost something."""
        activation, is_new = self.activation, recovered.last_batch == 0
        if activation is not None:
            activation.meet_journal(None if is_new else recovered.identity, recovered.last_batch)
            if activation.failure is not None:
                self._follow_activation()
                return
        if is_new and self.config.data_directory is not None:
            self._log_at(Level.INFO, f"begins with an empty journal in {self.config.data_directory}")
        self._restoration = Restoration(self.kernel, journal, marks=activation is not None)

    def _fail_stop(self, reason: str) -> None:
        """Durable work is over for this life: nothing is confirmed any more, clients lose their connections."""
        if self.state is NodeState.STOPPED:
            return
        waits = self.activation is not None and self.activation.waits_for_room
        self._log_at(Level.ERROR, f"{'waits as backup until there is room' if waits else 'the broker stops'}: {reason}")
        if self.state is not NodeState.STOPPING:
            self._outputs.append(StopListening())
        self.connections.cut(reason)
        if self.cluster is not None:
            self.cluster.leave("the broker stops")
        self._become_stopped(reason)

    def _is_of_backup(self, connection: int) -> bool:
        """Whether the backup is at the far end: the disk work waits for its answers."""
        activation, served = self.activation, self.connections.served.get(connection)
        return activation is not None and served is not None and served is activation.backup_connection

    @property
    def _is_calm(self) -> bool:
        """Whether traffic has no decisions to make."""
        activation, state = self.activation, self.state
        if self.replica_disk is None or activation is None:
            return state is _RUNNING
        return activation.is_calm and state in (_RUNNING, NodeState.WAITING)

    def _attend(self, activation: Activation, now: Instant) -> None:
        """Follow what the disk, the peers and the time decide about the journal and about the role."""
        activation.on_time(now)
        if self.state is NodeState.STOPPING and activation.is_blocked:
            self.connections.cut("the broker stops, and its backup is lost")
            self.gate.shut()
            activation.release_disk_work()
        if self.replica_disk is not None and self.replica_disk.settle(now):
            self._after_disk()
        while activation.has_changed and self.state is not NodeState.STOPPED:
            activation.has_changed = False
            self._follow_activation()
        if self._admission.follow(self.state, wanted=activation.admits_peers):
            self._check_due = self.connections.next_check(now) if self._admission.lets_in(self.state) else None

    def _finish_step(self, now: Instant, *, timely: bool) -> list[Output]:
        """What follows from an input, and with ``timely`` what the time has come for."""
        kernel, journal, replica_disk = self.kernel, self.journal, self.replica_disk
        if timely:
            self._check(now)
        elif replica_disk is not None and replica_disk.settle(now):
            self._after_disk()
        has_changed = timely  # or anything else happened that may have left the kernel more to do
        if self.state is _RUNNING:
            if timely and now.monotonic >= kernel.housekeeping.next_deadline(now.monotonic):
                kernel.housekeeping.run(now.monotonic)
            if kernel.has_work and now.monotonic <= self._disk_completions.sure_until:
                has_changed = True
                kernel.run(self.config.work_per_step_max)
        else:
            self._go_on()
        if journal is not None:
            if self.gate.reached != journal.reached:
                has_changed = True
                self.gate.open(journal.reached)
                if journal.rotated_at != self._rotated_at:
                    timely |= self._note_rotation(journal)
            if timely:
                journal.on_tick(now)
            while journal.notes:
                self._log_at(Level.WARNING, journal.notes.pop(0))
        if self._orderly_stop.is_under_way and self._orderly_stop.is_done(now.monotonic):
            self._leave()
        # Before what was gathered for peers is collected: a backup does work while the disk here does.
        works = replica_disk.take_work(now) if replica_disk is not None else None
        if self.cluster is not None:
            has_changed |= self._attend_cluster(now)
        self._outputs += self._branch_decisions.answers(self.gate.confirmed) if self._branch_decisions.waiting else ()
        if self.connections.dirty:
            has_changed = True
            self.connections.collect(self._outputs)
        # Looked at last: peers that were given up on the way leave messages to others.
        sure = now.monotonic <= self._disk_completions.sure_until
        self._work_left = has_changed and (
            (self._restoration is not None and not self._restoration.waits)
            or (self.state is _RUNNING and kernel.has_work and sure)
            or (self._orderly_stop.is_under_way and bool(kernel.deferred.waiting))
        )
        outputs, self._outputs = self._outputs, []
        outputs = outputs if self.audit.log is None else self.audit.collect(outputs, now.wall_ms, self.gate.confirmed)
        if works is not None and replica_disk is not None and journal is not None:
            outputs += works
            if timely or replica_disk.has_late_work or not (self.activation is None or self.activation.is_calm):
                outputs += replica_disk.take_work(now)
            self._work_left |= self.gate.reached != journal.reached
        elif journal is not None and sure and self.state is not _STOPPED:
            outputs += journal.take_work()
        if timely and self.activation is not None:
            if (question := self.activation.take_work(now)) is not None:
                outputs.append(question)
            self._activation_due = self.activation.next_deadline()
        if self.state is _STOPPED and not self._said_stopped:
            self._said_stopped = True
            outputs.append(Stopped(self._failure, self.activation is not None and self.activation.restarts))
        return outputs

    def _attend_cluster(self, now: Instant) -> bool:
        assert self.cluster is not None
        due = self.cluster.next_deadline()
        if is_due := due is not None and now.monotonic >= due:
            self.cluster.on_time()
        self.dials.collect(self._outputs, now)
        self._disk_completions.collect_grants(self._outputs, now)
        return is_due

    def _go_on(self) -> None:
        """A slice of what comes before serving clients, or behind it."""
        if self._orderly_stop.is_under_way:
            self.kernel.deferred.run(self.config.work_per_step_max)
        elif self._restoration is not None and self._restoration.advance(self.config.work_per_step_max):
            identity, self._restoration = self._restoration.identity, None
            self._settle_with_room(identity)
        elif self._needs_room_for is not None:
            self._settle_with_room(self._needs_room_for)

    def _check(self, now: Instant) -> None:
        """What a replicating broker is by now, and who is silent for too long: the lock store, and peers."""
        if self.activation is not None:
            self._attend(self.activation, now)
        if self._check_due is not None and now.monotonic >= self._check_due and self._admission.lets_in(self.state):
            self.connections.check(now)
            self._check_due = self.connections.next_check(now)

    def _log(self, text: str) -> None:
        self._log_at(Level.WARNING, text)

    def _inform(self, text: str) -> None:
        self._log_at(Level.INFO, text)

    def _log_at(self, level: Level, text: str) -> None:
        self._outputs.append(Notice(level, text))
