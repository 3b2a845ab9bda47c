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

from embedbroker import storage
from embedbroker.config import BrokerConfig, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.kernel import Kernel, Recovery
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
    PeerClosed,
    Tick,
    Written,
)
from ._outputs import Level, Notice, Output, Ready, Stopped

if TYPE_CHECKING:
    from embedbroker.cluster import Membership

__all__ = ["Node", "NodeState"]

# How long an orderly stop waits for the disk before it tells the clients. A sync takes milliseconds.
FLUSH_SECONDS_MAX = 5.0


class NodeState(Enum):
    """The life of a node."""

    NEW = "new"
    RECOVERING = "recovering"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


_ROLES = {
    NodeState.NEW: Role.BACKUP,
    NodeState.RECOVERING: Role.ACTIVATING,
    NodeState.RUNNING: Role.LIVE,
    NodeState.STOPPING: Role.LIVE,
    NodeState.STOPPED: Role.STOPPED,
}


class Node:
    """A broker. ``journal_settings`` None keeps everything in memory."""

    def __init__(
        self,
        config: BrokerConfig,
        entropy: Entropy,
        memory_limit_bytes: int,
        journal_settings: storage.JournalSettings | None = None,
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
        self._recovery: Recovery | None = None
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
            due = self.kernel.housekeeping.next_deadline(now)
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        if self.journal is not None and self.state is not NodeState.STOPPED:
            due = self.journal.next_deadline()
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        if self.cluster is not None:
            due = self.cluster.next_deadline()
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    # -- life ----------------------------------------------------------------------------------------------------

    def _on_command(self, command: Command) -> None:
        match command.kind:
            case CommandKind.START:
                assert self.state is NodeState.NEW, self.state
                self._schedule_check()
                if self.journal is None:
                    self._become_running()
                else:
                    self.state = NodeState.RECOVERING
                    self.journal.open(self._now)
            case CommandKind.STOP:
                self._stop()
            case _:
                assert_never(command.kind)

    def _become_running(self) -> None:
        self.state = NodeState.RUNNING
        if not self.core.node_id:
            self.core.node_id = uuid_text(make_uuid(self.entropy, self._now))
        self.core.started = True
        self.kernel.housekeeping.at_start()
        self.kernel.housekeeping.start(self._now.monotonic)
        if self.cluster is not None:
            policy = self.config.ha_policy
            group = policy.group_name if isinstance(policy, ReplicationPrimary | ReplicationBackup) else None
            self.cluster.become_live(self.core.node_id, group)
        self._outputs.append(Ready())

    def _stop(self) -> None:
        if self.state in (NodeState.STOPPING, NodeState.STOPPED):
            return
        recovering = self.state is NodeState.RECOVERING
        self.state = NodeState.STOPPING
        self._check_due = None
        if recovering:
            self._recovery = None
            self._leave(seal=False)
        else:
            # What clients asked for by now is answered before they are told: calls that wait for the disk would be in
            # doubt for nothing. What they send from now on is not looked at.
            self._flushing = True
            self._check_due = self._now.monotonic + FLUSH_SECONDS_MAX

    def _is_flushed(self) -> bool:
        """Whether everything that was accepted is carried out and durable, or took too long."""
        journal = self.journal
        if not self.kernel.chores and (journal is None or journal.point() <= journal.reached):
            return True
        return self._check_due is not None and self._now.monotonic >= self._check_due

    def _leave(self, *, seal: bool = True) -> None:
        """Say good-bye to everybody, and seal the journal if it is to be sealed."""
        self._flushing = False
        self._check_due = None
        self.connections.say_goodbye()
        self._leave_cluster()
        if self.journal is None or not seal or self.journal.state is not storage.JournalState.READY:
            self._become_stopped(None)
        else:
            self.journal.close(self._now)
            self._stop_if_sealed()

    def _leave_cluster(self) -> None:
        if self.cluster is not None:
            self.cluster.leave("the broker stops")

    def _stop_if_sealed(self) -> None:
        """A journal that was sealed before closes at once: no disk work will tell."""
        if self.journal is not None and self.journal.state is storage.JournalState.CLOSED:
            self._become_stopped(None)

    def _become_stopped(self, failure: str | None) -> None:
        self.state = NodeState.STOPPED
        self._failure = failure
        self._check_due = None
        self._flushing = False

    def _after_disk(self) -> None:
        """The journal moved on: recovered, more durable, failed or closed."""
        journal = self.journal
        assert journal is not None
        if journal.state is storage.JournalState.FAILED:
            self._fail_stop(journal.failure or "the journal failed")
        elif journal.state is storage.JournalState.CLOSED:
            if self.state is NodeState.STOPPING:
                self._become_stopped(None)
        elif journal.recovered is not None and self.state is NodeState.RECOVERING and self._recovery is None:
            # Once: background work of the journal is done while messages are still being brought back.
            self._begin_recovery()

    def _begin_recovery(self) -> None:
        """The journal was read: bring definitions back at once, messages in slices."""
        assert self.journal is not None and self.journal.recovered is not None
        recovered = self.journal.recovered
        catalog = self.kernel.catalog
        for address in recovered.addresses:
            catalog.restore_address(address)
        for queue in recovered.queues:
            catalog.restore_queue(queue)
        self.kernel.ids.next_id = max(recovered.id_limit, 1)
        self.kernel.ids.limit = recovered.id_limit
        self._recovery = Recovery(self.kernel, recovered.transactions, recovered.outcomes)

    def _recover_slice(self) -> None:
        """One slice of messages or duplicate ids; with the last one the broker runs."""
        journal, recovery = self.journal, self._recovery
        assert journal is not None and journal.recovered is not None and recovery is not None
        limit = self.config.work_per_step_max
        if recovery.lock_some(limit):
            return
        messages = journal.recovered.take_messages(limit)
        recovery.add(messages)
        if messages:
            return
        entries = journal.recovered.take_duplicate_ids(limit)
        recovery.add_duplicate_ids(entries)
        if not entries and not recovery.send_some(limit):
            recovery.finish()
            self._recovery = None
            journal.recovered = None
            self._become_running()

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
            deadline = kernel.housekeeping.next_deadline(now.monotonic)
            if deadline is not None and now.monotonic >= deadline:
                kernel.housekeeping.run(now.monotonic)
            if kernel.has_work:
                kernel.run(self.config.work_per_step_max)
        elif self._flushing:
            kernel.chores.run(self.config.work_per_step_max)
        elif self._recovery is not None:
            self._recover_slice()
        if journal is not None:
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
        self._outputs.extend(self._decisions.answers())
        self.connections.collect(self._outputs)
        self.dials.collect(self._outputs, now)
        # Looked at last: peers that were given up on the way leave messages to others.
        self._work_left = (
            self._recovery is not None
            or (self.state is NodeState.RUNNING and kernel.has_work)
            or (self._flushing and bool(kernel.chores))
        )
        outputs, self._outputs = self._outputs, []
        if journal is not None:
            outputs.extend(journal.take_work())
        if self.state is NodeState.STOPPED and not self._said_stopped:
            self._said_stopped = True
            outputs.append(Stopped(self._failure))
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
