"""One broker as a synchronous machine: inputs in, outputs out, and the next moment it wants to be woken.

Responsible for putting kernel, protocols and journal together, for the order of work inside a step, and for the node's
life: recovering, running, stopping, stopped. Refuses to await, to read a clock, to open a file, to draw a random
number.

A step never raises for what a peer or a disk does. An assertion that fails is a bug: the host stops the node as
`crash` would.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, assert_never

from attrs import evolve

from embedbroker import storage
from embedbroker.config import BrokerConfig, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.kernel import Kernel
from embedbroker.protocols import SERVER_VERSION, CoreService, ResendAccount, restore_message
from embedclient.model import Entropy, Instant, make_uuid, uuid_text

from ._connections import Connections
from ._decisions import Decisions
from ._dials import Dials
from ._gate import DurabilityGate
from ._inputs import (
    Accepted,
    BytesReceived,
    Command,
    CommandKind,
    DecideBranch,
    Dialed,
    DialFailed,
    DiskDone,
    DiskFailed,
    Input,
    LockDone,
    LockFailed,
    PeerClosed,
    Tick,
    Written,
)
from ._outputs import Level, Notice, Output, Ready, RoleChanged, Stopped
from ._restoration import Restoration
from ._tenure import Tenure

if TYPE_CHECKING:
    from embedbroker.cluster import Membership

__all__ = ["Node", "NodeState"]

# How long an orderly stop waits for the disk before it tells the clients. A sync takes milliseconds.
FLUSH_SECONDS_MAX = 5.0


class NodeState(Enum):
    """The life of a node."""

    NEW = "new"
    WAITING = "waiting"
    RECOVERING = "recovering"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


_ROLES = {
    NodeState.NEW: Role.BACKUP,
    NodeState.WAITING: Role.BACKUP,
    NodeState.RECOVERING: Role.ACTIVATING,
    NodeState.RUNNING: Role.LIVE,
    NodeState.STOPPING: Role.LIVE,
    NodeState.STOPPED: Role.STOPPED,
}


class Node:
    """A broker. ``journal_settings`` None keeps everything in memory.

    With ``has_locks`` its host has a lock store for it, and it is live only while that says so.
    """

    def __init__(
        self,
        config: BrokerConfig,
        entropy: Entropy,
        memory_limit_bytes: int,
        journal_settings: storage.JournalSettings | None = None,
        *,
        has_locks: bool = False,
    ) -> None:
        self.config = config
        self.entropy = entropy
        self.state = NodeState.NEW
        self.journal = storage.Journal(journal_settings) if journal_settings is not None else None
        self.kernel = Kernel(config, restore_message, self._log, memory_limit_bytes, self.journal)
        self.gate = DurabilityGate()
        self._decisions = Decisions(self.kernel)
        resend = ResendAccount(config.memory_shares(memory_limit_bytes).resend, config.output_bytes_max)
        self.core = CoreService(self.kernel, self.gate, entropy, "", resend)
        self.connections = Connections(config, self.core, memory_limit_bytes, self._log, self._notice)
        self._now = Instant(0.0, 0)
        self._outputs: list[Output] = []
        self.dials = Dials(config, self._notice)
        self.cluster = self._join_cluster()
        self._check_due: float | None = None
        self._work_left = False
        # An orderly stop has begun, clients still wait for the disk.
        self._flushing = False
        self._failure: str | None = None
        self._restoration: Restoration | None = None
        self._tenure = Tenure(config, self.cluster) if has_locks else None
        self._fails_over = False
        self._said_stopped = False

    def _join_cluster(self) -> Membership | None:
        if self.config.cluster_connection is None:
            return None
        # Loaded by those who need it: a broker of its own starts without.
        from embedbroker.cluster import Membership

        membership = Membership(self.config, SERVER_VERSION, self.dials, self._log)
        self.core.cluster = membership
        return membership

    @property
    def is_running(self) -> bool:
        """Whether clients are served."""
        return self.state is NodeState.RUNNING

    @property
    def node_id(self) -> str:
        """The identity that a primary and its backups share, as text; empty until it is known."""
        return self.core.node_id

    @property
    def role(self) -> Role:
        """What it is to its group at this moment."""
        return _ROLES[self.state]

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
        match input:
            case BytesReceived():
                if input.connection < 0:
                    self.dials.on_bytes(input, now)
                # What clients send while an orderly stop waits for the disk is not looked at.
                elif not self._flushing:
                    self.connections.on_bytes(input, now)
            case Written():
                if input.connection < 0:
                    self.dials.on_written(input)
                else:
                    self.connections.on_written(input)
            case DiskDone():
                assert self.journal is not None
                self.journal.on_disk_done(input.batch, input.results, now)
                self._after_disk()
            case DiskFailed():
                assert self.journal is not None
                self.journal.on_disk_failed(input.batch, input.fault, now)
                self._after_disk()
            case LockDone() | LockFailed():
                assert self._tenure is not None
                self._tenure.on_answer(input, now)
                self._follow_tenure()
            case Tick():
                pass
            case Accepted():
                serving = self.state in (NodeState.RUNNING, NodeState.RECOVERING)
                self.connections.on_accepted(input, now, serving=serving)
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
                self._decisions.take(input)
            case Command():
                self._on_command(input)
            case _:
                assert_never(input)
        return self._finish_step(now)

    def next_deadline(self) -> float | None:
        """When a Tick is due, in monotonic seconds; the present moment means: at once."""
        now = self._now.monotonic
        if self._work_left:
            return now
        earliest = self._check_due
        if self.state is NodeState.RUNNING:
            earliest = self.kernel.housekeeping.next_deadline(now)
            if self._check_due is not None and self._check_due < earliest:
                earliest = self._check_due
        if self.journal is not None and self.state is not NodeState.STOPPED:
            due = self.journal.next_deadline()
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        if self.cluster is not None:
            due = self.cluster.next_deadline()
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        if self._tenure is not None:
            due = self._tenure.next_deadline()
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    # -- life ----------------------------------------------------------------------------------------------------

    def _on_command(self, command: Command) -> None:
        match command.kind:
            case CommandKind.START:
                assert self.state is NodeState.NEW, self.state
                self._warn_of_scale_down()
                if self._tenure is None:
                    self._become_activating()
                else:
                    self._tenure.begin(self._now)
            case CommandKind.STOP:
                self._stop()
            case CommandKind.FAIL_OVER:
                self._fails_over = True
                self._stop()
            case _:
                assert_never(command.kind)

    def _warn_of_scale_down(self) -> None:
        wanted = getattr(self.config.ha_policy, "scale_down", None)
        if wanted is not None and wanted.enabled:
            self._notice(Level.WARNING, "scale-down is not available yet: messages stay here when the broker stops")

    # The only places where the role changes: backup, activating, live, stopped. A broker without a lock store begins
    # with the second.

    def _become_backup(self) -> None:
        self.state = NodeState.WAITING
        self._outputs.append(RoleChanged(Role.BACKUP))

    def _become_activating(self) -> None:
        self.state = NodeState.RECOVERING
        self._schedule_check()
        self._outputs.append(RoleChanged(Role.ACTIVATING))
        if self.journal is None:
            self._settle(None)
            return
        known = self._tenure.journal_identity if self._tenure is not None else None
        if known is not None:
            self.journal.settings = evolve(self.journal.settings, identity=known)
        self.journal.open(self._now)

    def _become_live(self) -> None:
        self.state = NodeState.RUNNING
        self.core.started = True
        self.kernel.housekeeping.at_start()
        self.kernel.housekeeping.start(self._now.monotonic)
        if self.cluster is not None:
            policy = self.config.ha_policy
            group = policy.group_name if isinstance(policy, ReplicationPrimary | ReplicationBackup) else None
            self.cluster.become_live(self.core.node_id, group)
        self._outputs += [RoleChanged(Role.LIVE), Ready()]

    def _become_stopped(self, failure: str | None) -> None:
        self.state = NodeState.STOPPED
        self._failure = failure
        self._check_due = None
        self._flushing = False
        self._restoration = None
        if self._tenure is not None:
            self._tenure.end()

    def _settle(self, journal_identity: int | None) -> None:
        """The kernel is ready to serve: be live, as soon as the lock store has heard of it."""
        tenure = self._tenure
        if tenure is None:
            self.core.node_id = self._make_node_id()
            self._become_live()
            return
        tenure.meet_journal(journal_identity)
        if tenure.failure is None:
            self.core.node_id = tenure.node_id or self._make_node_id()
            tenure.settle(self.core.node_id, journal_identity)
        self._follow_tenure()

    def _make_node_id(self) -> str:
        return uuid_text(make_uuid(self.entropy, self._now))

    def _follow_tenure(self) -> None:
        """The lock store answered: be what that makes of this broker."""
        tenure = self._tenure
        assert tenure is not None
        stopping = self.state is NodeState.STOPPING
        role = Role.LIVE if stopping and not tenure.is_over else tenure.role_after(self.role, self._now)
        for note in tenure.take_notes():
            self._notice(Level.WARNING if note.warning else Level.INFO, note.text)
        match role:
            case Role.BACKUP if self.state in (NodeState.NEW, NodeState.WAITING):
                self.core.node_id = tenure.node_id
                if self.state is NodeState.NEW:
                    self._become_backup()
            case Role.ACTIVATING if self.state in (NodeState.NEW, NodeState.WAITING):
                self._become_activating()
            case Role.LIVE if self.state is NodeState.RECOVERING:
                self._become_live()
            case Role.STOPPED if tenure.failure is not None:
                self._fail_stop(tenure.failure)
            case Role.STOPPED if stopping:
                self._become_stopped(None)
            case Role.STOPPED:
                self._stop()

    def _stop(self) -> None:
        if self.state in (NodeState.STOPPING, NodeState.STOPPED):
            return
        was, self.state = self.state, NodeState.STOPPING
        self._check_due = None
        if was is not NodeState.RUNNING:
            self._restoration = None
            self._leave(seal=False)
        else:
            # What clients asked for by now is answered before they are told: calls that wait for the disk would be in
            # doubt for nothing. What they send from now on is not looked at.
            self._flushing = True
            self._check_due = self._now.monotonic + FLUSH_SECONDS_MAX

    def _is_flushed(self) -> bool:
        """Whether everything that was accepted is carried out and durable, or took too long."""
        journal = self.journal
        if not self.kernel.chores.waiting and (journal is None or journal.point() <= journal.reached):
            return True
        return self._check_due is not None and self._now.monotonic >= self._check_due

    def _leave(self, *, seal: bool = True) -> None:
        """Say good-bye to everybody, and seal the journal if it is to be sealed."""
        self._flushing = False
        self._check_due = None
        self.connections.say_goodbye()
        self._leave_cluster()
        if self.journal is None or not seal or self.journal.state is not storage.JournalState.READY:
            self._depart()
        else:
            self.journal.close(self._now)
            self._depart_if_sealed()

    def _leave_cluster(self) -> None:
        if self.cluster is not None:
            self.cluster.leave("the broker stops")

    def _depart_if_sealed(self) -> None:
        """A journal that was sealed before closes at once: no disk work will tell."""
        if self.journal is not None and self.journal.state is storage.JournalState.CLOSED:
            self._depart()

    def _depart(self) -> None:
        """Nothing is written any more: the lock store hears how this life ended, and then it is over."""
        if self._tenure is None:
            self._become_stopped(None)
        else:
            self._tenure.leave(fails_over=self._fails_over)
            self._follow_tenure()

    def _after_disk(self) -> None:
        """The journal moved on: recovered, more durable, failed or closed."""
        journal = self.journal
        assert journal is not None
        if journal.state is storage.JournalState.FAILED:
            self._fail_stop(journal.failure or "the journal failed")
        elif journal.state is storage.JournalState.CLOSED:
            if self.state is NodeState.STOPPING:
                self._depart()
        elif journal.recovered is not None and self.state is NodeState.RECOVERING and self._restoration is None:
            # Once: background work of the journal is done while messages are still being brought back.
            self._restoration = Restoration(self.kernel, journal)

    def _fail_stop(self, reason: str) -> None:
        """Durable work is over for this life: nothing is confirmed any more, clients lose their connections."""
        if self.state is NodeState.STOPPED:
            return
        self._notice(Level.ERROR, f"the broker stops: {reason}")
        self.connections.cut(reason)
        self._leave_cluster()
        self._become_stopped(reason)

    # -- the end of a step ---------------------------------------------------------------------------------------

    def _finish_step(self, now: Instant) -> list[Output]:
        kernel, journal = self.kernel, self.journal
        alive = self.state in (NodeState.RUNNING, NodeState.RECOVERING)
        if alive and self._check_due is not None and now.monotonic >= self._check_due:
            self.connections.check(now)
            self._schedule_check()
        if self.state is NodeState.RUNNING:
            if now.monotonic >= kernel.housekeeping.next_deadline(now.monotonic):
                kernel.housekeeping.run(now.monotonic)
            if kernel.has_work:
                kernel.run(self.config.work_per_step_max)
        elif self._flushing:
            kernel.chores.run(self.config.work_per_step_max)
        elif self._restoration is not None and self._restoration.advance(self.config.work_per_step_max):
            identity, self._restoration = self._restoration.identity, None
            self._settle(identity)
        if journal is not None:
            if self.gate.reached != journal.reached:
                self.gate.open(journal.reached)
            due = journal.next_deadline()
            if due is not None and now.monotonic >= due:
                journal.on_tick(now)
            if journal.notes:
                self._say_notes(journal.notes)
        if self._flushing and self._is_flushed():
            self._leave()
        if self.cluster is not None:
            due = self.cluster.next_deadline()
            if due is not None and now.monotonic >= due:
                self.cluster.on_time()
            self.dials.collect(self._outputs, now)
        if self._decisions.waiting:
            self._outputs.extend(self._decisions.answers())
        if self.connections.dirty:
            self.connections.collect(self._outputs)
        # Looked at last: peers that were given up on the way leave messages to others.
        self._work_left = (
            self._restoration is not None
            or (self.state is NodeState.RUNNING and kernel.has_work)
            or (self._flushing and bool(kernel.chores.waiting))
        )
        outputs, self._outputs = self._outputs, []
        if journal is not None:
            outputs.extend(journal.take_work())
        if self._tenure is not None:
            work = self._tenure.take_work(now)
            if work is not None:
                outputs.append(work)
        if self.state is NodeState.STOPPED and not self._said_stopped:
            self._said_stopped = True
            outputs.append(Stopped(self._failure, self._tenure is not None and self._tenure.restarts))
        return outputs

    def _say_notes(self, notes: list[str]) -> None:
        for note in notes:
            self._notice(Level.WARNING, note)
        notes.clear()

    def _schedule_check(self) -> None:
        self._check_due = self._now.monotonic + self.config.connection_check_interval_ms / 1000

    def _log(self, text: str) -> None:
        self._notice(Level.WARNING, text)

    def _notice(self, level: Level, text: str) -> None:
        self._outputs.append(Notice(level, text))
