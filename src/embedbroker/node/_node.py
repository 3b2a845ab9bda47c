"""One broker as a synchronous machine: inputs in, outputs out, and the next moment it wants to be woken.

Responsible for putting kernel, protocols and journal together, for the order of work inside a step, and for the node's
life: recovering, running, stopping, stopped. Refuses to await, to read a clock, to open a file, to draw a random
number.

A step never raises for what a peer or a disk does. An assertion that fails is a bug: the host stops the node as
`crash` would.
"""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from embedbroker import storage
from embedbroker.config import BrokerConfig
from embedbroker.kernel import Kernel, Recovery
from embedbroker.protocols import (
    DETECT_BYTES,
    CoreConnection,
    CoreService,
    Detected,
    Link,
    ResendAccount,
    detect,
    restore_message,
)
from embedclient.model import Entropy, Instant, make_uuid, uuid_text

from ._decisions import Decisions
from ._gate import DurabilityGate
from ._hoards import Hoards
from ._inputs import (
    Accepted,
    BytesReceived,
    Command,
    CommandKind,
    DecideBranch,
    DiskDone,
    DiskFailed,
    Input,
    PeerClosed,
    Tick,
    Written,
)
from ._outputs import CloseConnection, Level, Notice, Output, Ready, SendBytes, Stopped

__all__ = ["Node", "NodeState"]

# How long an orderly stop waits for the disk before it tells the clients. A sync takes milliseconds.
FLUSH_SECONDS_MAX = 5.0

_OUTPUT_COUNTED_FROM_BYTES = 64 * 1024


class NodeState(Enum):
    """The life of a node."""

    NEW = "new"
    RECOVERING = "recovering"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class _Newcomer:
    """A connection of which fewer than eight bytes are known."""

    __slots__ = ("deadline", "head", "link")

    def __init__(self, link: Link, deadline: float | None) -> None:
        self.link = link
        self.head = b""
        self.deadline = deadline


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
        shares = config.memory_shares(memory_limit_bytes)
        self.core = CoreService(
            self.kernel, self.gate, entropy, "", ResendAccount(shares.resend, config.output_bytes_max)
        )
        self._partial_frames = Hoards(
            shares.partial_frames, "partial_frames_bytes_max", "a frame that has not come whole"
        )
        self._output = Hoards(shares.output, "output_total_bytes_max", "output that its peer does not read")
        self._now = Instant(0.0, 0)
        self._outputs: list[Output] = []
        self._dirty: list[Link] = []
        self._newcomers: dict[int, _Newcomer] = {}
        self._connections: dict[int, CoreConnection] = {}
        # Connections without a socket whose sessions wait for a reattachment.
        self._lost: dict[CoreConnection, None] = {}
        self._check_due: float | None = None
        self._work_left = False
        # An orderly stop has begun, clients still wait for the disk.
        self._flushing = False
        self._failure: str | None = None
        self._recovery: Recovery | None = None
        self._said_stopped = False

    @property
    def is_running(self) -> bool:
        """Whether clients are served."""
        return self.state is NodeState.RUNNING

    # -- the contract --------------------------------------------------------------------------------------------

    def step(self, input: Input, now: Instant) -> list[Output]:
        """Take one input and return everything there is to do because of it."""
        self._now = now
        self.core.now = now
        self.kernel.now_ms = now.wall_ms
        self.kernel.monotonic = now.monotonic
        if self.journal is not None:
            self.journal.wall_ms = now.wall_ms
        match input:
            case BytesReceived():
                self._on_bytes(input)
            case Written():
                self._on_written(input)
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
                self._on_accepted(input)
            case PeerClosed():
                self._on_peer_closed(input)
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
        return earliest

    # -- connections ---------------------------------------------------------------------------------------------

    def _on_accepted(self, accepted: Accepted) -> None:
        link = Link(accepted.connection, accepted.peer, self.config.output_high_water_bytes, self._dirty)
        if self.state not in (NodeState.RUNNING, NodeState.RECOVERING):
            link.close("the broker is not running")
        elif len(self._connections) + len(self._newcomers) >= self.config.connections_max:
            self._notice(Level.WARNING, f"{accepted.peer}: refused, {self.config.connections_max} connections are open")
            link.close("too many connections")
        else:
            timeout = self.config.handshake_timeout_ms
            deadline = self._now.monotonic + timeout / 1000 if timeout else None
            self._newcomers[accepted.connection] = _Newcomer(link, deadline)

    def _on_bytes(self, received: BytesReceived) -> None:
        if self._flushing:
            return
        connection = self._connections.get(received.connection)
        if connection is not None:
            self._receive(connection, received.data)
            return
        newcomer = self._newcomers.get(received.connection)
        if newcomer is None:
            return
        newcomer.head += received.data
        if len(newcomer.head) >= DETECT_BYTES:
            del self._newcomers[received.connection]
            self._greet(newcomer)

    def _greet(self, newcomer: _Newcomer) -> None:
        """Eight bytes are there: hand the connection to its protocol."""
        link, head = newcomer.link, newcomer.head
        detected = detect(head[:DETECT_BYTES])
        match detected:
            case Detected.CORE_WITH_HANDSHAKE | Detected.HORNETQ:
                head = head[7:]
            case Detected.CORE:
                pass
            case _:
                self._notice(Level.WARNING, f"{link.peer}: closed, {detected.value} is not served here")
                link.close(f"{detected.value} is not served")
                return
        connection = CoreConnection(self.core, link, self._log)
        self._connections[link.id] = connection
        self._receive(connection, head)

    def _receive(self, connection: CoreConnection, data: bytes) -> None:
        connection.receive(data, self._now)
        self._partial_frames.count(connection, connection.partial_frame_size if connection.link.alive else 0)

    def _on_written(self, written: Written) -> None:
        connection = self._connections.get(written.connection)
        if connection is not None:
            connection.link.written(written.count)
            if self._output.total_bytes:
                self._count_output(connection)

    def _count_output(self, connection: CoreConnection) -> None:
        """Small amounts are on their way, and not looked at."""
        waiting = connection.link.high_water - connection.link.room
        self._output.count(connection, waiting if waiting > _OUTPUT_COUNTED_FROM_BYTES else 0)

    def _on_peer_closed(self, closed: PeerClosed) -> None:
        newcomer = self._newcomers.pop(closed.connection, None)
        if newcomer is not None:
            newcomer.link.alive = False
            self._notice(Level.INFO, f"{newcomer.link.peer}: gone without a handshake, {len(newcomer.head)} bytes came")
            return
        connection = self._connections.pop(closed.connection, None)
        if connection is not None:
            self._forget_hoards(connection)
            connection.closed()
            if connection.lost:
                self._keep_lost(connection)

    def _forget_hoards(self, connection: CoreConnection) -> None:
        self._partial_frames.forget(connection)
        self._output.forget(connection)

    def _keep_lost(self, connection: CoreConnection) -> None:
        """Its sessions wait for their client; the oldest give way when as many wait as may be connected."""
        if len(self._lost) >= max(self.config.connections_max, 1):
            oldest = next(iter(self._lost))
            del self._lost[oldest]
            oldest.log("given up, too many lost connections wait for a reattachment")
            oldest.abandon()
        self._lost[connection] = None

    def _check_connections(self, now: Instant) -> None:
        """Every check interval: time to live, handshake time-outs, peers that do not read."""
        for newcomer in [n for n in self._newcomers.values() if n.deadline is not None and now.monotonic >= n.deadline]:
            del self._newcomers[newcomer.link.id]
            self._notice(
                Level.INFO, f"{newcomer.link.peer}: closed, no handshake within {self.config.handshake_timeout_ms} ms"
            )
            newcomer.link.close("no handshake")
        for connection in [*self._connections.values(), *self._lost]:
            connection.check(now)
        for lost in [connection for connection in self._lost if not connection.lost]:
            del self._lost[lost]

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
        if not self.kernel.chores.waiting and (journal is None or journal.point() <= journal.reached):
            return True
        return self._check_due is not None and self._now.monotonic >= self._check_due

    def _leave(self, *, seal: bool = True) -> None:
        """Say good-bye to everybody, and seal the journal if it is to be sealed."""
        self._flushing = False
        self._check_due = None
        for connection in list(self._connections.values()):
            connection.disconnect()
            connection.abandon()
        for newcomer in list(self._newcomers.values()):
            newcomer.link.close("the broker stops")
        for lost in list(self._lost):
            lost.abandon()
        self._newcomers.clear()
        self._lost.clear()
        if self.journal is None or not seal or self.journal.state is not storage.JournalState.READY:
            self._become_stopped(None)
        else:
            self.journal.close(self._now)
            self._stop_if_sealed()

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
        for connection in list(self._connections.values()):
            connection.link.close(reason)
        for newcomer in list(self._newcomers.values()):
            newcomer.link.close(reason)
        self._become_stopped(reason)

    # -- the end of a step ---------------------------------------------------------------------------------------

    def _finish_step(self, now: Instant) -> list[Output]:
        kernel, journal = self.kernel, self.journal
        alive = self.state in (NodeState.RUNNING, NodeState.RECOVERING)
        if alive and self._check_due is not None and now.monotonic >= self._check_due:
            self._check_connections(now)
            self._schedule_check()
        if self.state is NodeState.RUNNING:
            if now.monotonic >= kernel.housekeeping.next_deadline(now.monotonic):
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
        self._outputs.extend(self._decisions.answers())
        self._collect()
        # Looked at last: peers that were given up on the way leave messages to others.
        self._work_left = (
            self._recovery is not None
            or (self.state is NodeState.RUNNING and kernel.has_work)
            or (self._flushing and bool(kernel.chores.waiting))
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

    def _collect(self) -> None:
        """Turn what connections gathered into one SendBytes each."""
        dirty = self._dirty
        if not dirty:
            return
        outputs = self._outputs
        bytes_max = self.config.output_bytes_max
        for link in dirty:
            if link.out:
                outputs.append(SendBytes(link.id, link.take()))
                if link.high_water - link.room > _OUTPUT_COUNTED_FROM_BYTES and link.alive:
                    self._count_output(self._connections[link.id])
            if link.room + link.excess < link.high_water - bytes_max and link.alive:
                self._notice(
                    Level.WARNING, f"{link.peer}: closed, it does not read: {bytes_max} bytes are waiting for it"
                )
                link.close("the peer does not read")
                dirty_connection = self._connections.get(link.id)
                if dirty_connection is not None:
                    dirty_connection.abandon()
            if not link.alive and link.close_reason is not None:
                outputs.append(CloseConnection(link.id, link.close_reason))
                link.close_reason = None
                connection = self._connections.pop(link.id, None)
                if connection is not None:
                    self._forget_hoards(connection)
        dirty.clear()

    def _log(self, text: str) -> None:
        self._notice(Level.WARNING, text)

    def _notice(self, level: Level, text: str) -> None:
        self._outputs.append(Notice(level, text))
