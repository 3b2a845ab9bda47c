"""A simulated broker process: one host that drives the real Node over the simulated network and disk.

It is the counterpart of the broker's trio edge, with a power switch. It can crash, with the disk losing unsynced data,
be stopped in order, and start again on the same disk. It decides nothing about messages.

It can be frozen, too: events then wait, and the process continues later without noticing that time has passed. Of its
disk work only what was under way continues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from attrs import frozen

from embedbroker.config import BrokerConfig, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.locks import LeaseSession, LeaseWork, LockFault, LockManagers, Locks, LockSession, LockWork, called
from embedbroker.node import (
    Accepted,
    BranchDecided,
    BytesReceived,
    CheckPassword,
    CloseConnection,
    Command,
    CommandKind,
    DatagramReceived,
    DecideBranch,
    Dial,
    Dialed,
    DialFailed,
    DiskDone,
    DiskFailed,
    HostTask,
    Input,
    JoinGroup,
    LeaveGroup,
    LetBrokersIn,
    Level,
    LockDone,
    LockFailed,
    Node,
    NodeState,
    Notice,
    Output,
    PasswordChecked,
    PeerClosed,
    Ready,
    RoleChanged,
    SendBytes,
    SendDatagram,
    Stopped,
    TaskDone,
    TaskKind,
    Tick,
    Written,
)
from embedbroker.storage import AuditWork, DiskWork, JournalSettings, Lane
from embedclient.model import Instant, Xid, received_at, sent_to

from ._audit_files import AuditFiles
from ._datagrams import SimulatedMulticast
from ._disk import DiskSpeed, SimulatedDisk
from ._disk_works import DiskWorks
from ._network import Network, SimulatedLink

__all__ = ["ACCEPTOR_STOPPED", "NodeHost"]

MEMORY_LIMIT_BYTES = 8 * 1024 * 1024
ACCEPTOR_STOPPED = "the acceptor was stopped"
"""Why a connection ends that came over an acceptor which management stops."""

_DIALS_PER_LIFE = 1_000_000
_PORT = 61616
LOCK_ANSWER_S = 0.0002
#: Bytes that connections took are reported in sums of this size, or of a part of the high-water mark, as a real host
#: does.
REPORT_WRITTEN_BYTES = 128 * 1024

#: What is reported to the node after all outputs of a step.
_Answer = Written | PasswordChecked | TaskDone | PeerClosed


@frozen(eq=False)
class _DiskCompletion:
    """The disk has done a piece of work that a life of the broker requested."""

    life: int
    work: DiskWork


@frozen(eq=False)
class _LockAnswer:
    """The lock store has done the work that a life of the broker requested."""

    life: int
    work: LockWork | LeaseWork


class NodeHost:
    """One broker, life after life, on one disk. With a lock store it may share the disk with others."""

    def __init__(
        self,
        network: Network,
        config: BrokerConfig,
        disk: SimulatedDisk,
        settings: JournalSettings,
        locks: Locks | LockManagers | None = None,
    ) -> None:
        self.name = config.name
        self.network = network
        self.world = network.world
        self.config = config
        self.settings = settings
        self.locks = locks
        self.node: Node | None = None
        self.life = 0
        #: Where it writes an audit log, if it does.
        self.audit: AuditFiles | None = None
        self._works = DiskWorks(config.name, network.world, disk)
        #: Called when a life begins, after every step, when recovery is over, and with what the node sends to a peer.
        self.on_start: list[Callable[[], None]] = []
        self.after_step: list[Callable[[], None]] = []
        self.on_ready: list[Callable[[], None]] = []
        self.on_stopped: list[Callable[[str | None], None]] = []
        self.on_send: list[Callable[[int, str, bytes], None]] = []
        self.on_role: list[Callable[[Role], None]] = []
        self.on_decided: list[Callable[[BranchDecided], None]] = []
        self.notices: list[str] = []
        #: The notices that are more than information.
        self.warnings: list[str] = []
        self.frozen = False
        #: True while it listens for other brokers that also wait.
        self.lets_brokers_in = False
        #: True if another broker of its group has been granted the journal while this life was frozen.
        self.superseded = False
        #: How far its wall clock is from that of the world.
        self.clock_offset_ms = 0
        #: True while it accepts connections over its network, as management controls it. A life begins so.
        self.is_accepting = True
        #: Clients that live in its process: they connect although its acceptor is stopped.
        self.local_clients: frozenset[str] = frozenset()
        #: Carries the datagrams of its multicast groups; None: there are none in this world.
        self.multicast: SimulatedMulticast | None = None
        # By endpoint: the group that this life has joined.
        self._groups: dict[str, frozenset[str]] = {}
        self._missed: list[Callable[[], None]] = []
        self._backlog: list[SimulatedLink] = []
        self.requested: LockWork | LeaseWork | None = None
        self._session: LockSession | LeaseSession | None = None
        self._links: dict[int, SimulatedLink] = {}
        self._dialing: dict[int, None] = {}
        self._unreported: dict[int, int] = {}
        self._report_bytes = min(REPORT_WRITTEN_BYTES, config.output_high_water_bytes // 4)
        self._connections = 0
        self._armed: float | None = None
        network.listen(self)

    # The power switch

    def start(self) -> None:
        """Start a new life on the content of the disk."""
        assert self.node is None, "a broker runs once at a time"
        self.life += 1
        self.is_accepting = True
        self.world.note(self.name, "starts", self.life)
        limit_bytes = self.config.global_max_size_bytes
        limit_bytes = MEMORY_LIMIT_BYTES if limit_bytes is None else limit_bytes
        if self.locks is not None:
            self._session = self.locks.open(called(self.config.own_policy, self.name))
        log, has_locks = self.audit.new_log() if self.audit is not None else None, self._session is not None
        entropy = self.world.entropy()
        self.node = Node(self.config, entropy, limit_bytes, self.settings, has_locks=has_locks, audit_log=log)
        for look in self.on_start:
            look()
        self.step(Command(CommandKind.START))

    def crash(self) -> None:
        """Cut the power: work under way happens in part, the disk loses what was not synced, every link breaks."""
        assert self.node is not None, "only a running broker crashes"
        self.world.note(self.name, "crashes")
        # A backup has not touched the disk that it shares: the writes of the live broker are not lost with it.
        replicates = isinstance(self.config.own_policy, ReplicationPrimary | ReplicationBackup)
        had_disk = replicates or (self.node.role is not Role.BACKUP and not self.superseded)
        self.node = None
        self._works.end()
        if had_disk:
            self.disk.crash(self.world.random)
        if self.requested is not None and self._session is not None:
            # Its request to the lock store may have been carried out, and the answer is lost.
            done = self.world.random.randint(0, len(self.requested.operations))
            with suppress(LockFault):
                self._session.run(self.requested.operations[:done])  # type: ignore[arg-type]  # see `_answer`
        self._give_locks_back()
        self._forget_links("connection reset")

    def stop(self, *, fails_over: bool = False) -> None:
        """Begin an orderly stop; ``node`` becomes None at its end."""
        self.world.note(self.name, "is asked to stop")
        self.step(Command(CommandKind.FAIL_OVER if fails_over else CommandKind.STOP))

    def decide(self, request: int, xid: Xid, *, commit: bool) -> None:
        """Send an operator's decision about a prepared branch; ``on_decided`` is called when it is done."""
        self.step(DecideBranch(request, xid, commit))

    def freeze(self) -> None:
        """Stop the process as if frozen; nothing is released, and no peer is notified.

        Writes that the system has accepted are carried out: no lock keeps that from happening at any later time.
        """
        assert self.node is not None and not self.frozen, "only what runs is frozen"
        self.world.note(self.name, "is frozen")
        self._works.write_through()
        self.frozen = True

    def thaw(self) -> None:
        """Continue: events that came meanwhile are there at once, and the timer may be first."""
        self.world.note(self.name, "goes on")
        self.frozen = False
        missed, self._missed = self._missed, []
        self._backlog.clear()
        if self.world.random.random() < 0.5:
            self.step(Tick())
        for happen in missed:
            happen()
        self.step(Tick())

    @property
    def names(self) -> tuple[str, ...]:
        """The names that clients connect to."""
        return (self.name,)

    # What goes on inside, for faults that wait for their moment, and for checkers

    @property
    def ready(self) -> bool:
        """True while it serves clients."""
        return self.node is not None and self.node.state is NodeState.RUNNING

    @property
    def recovering(self) -> bool:
        """True while it reads its journal."""
        return self.node is not None and self.node.state is NodeState.RECOVERING

    def writing(self) -> bool:
        """Return True while a batch of the journal is on its way to the disk."""
        return self._works.writes()

    @property
    def peers(self) -> list[str]:
        """The far end of each open connection."""
        return [(link.far if link.near is self else link.near).name for link in self._links.values()]

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._links)

    @property
    def stopping(self) -> bool:
        """True while an orderly stop is under way."""
        return self.node is not None and self.node.state is NodeState.STOPPING

    def compacting(self) -> bool:
        """Return True while the journal rewrites a segment beside traffic."""
        return self._works.reads_beside()

    def has_session(self, name: str) -> bool:
        """Return True if this life of the broker has a session of that name."""
        return self.node is not None and name in self.node.core.sessions

    def switching_segments(self) -> bool:
        """Return True while segments are made, reused or renamed."""
        return self._works.changes_files()

    # The disk

    @property
    def disk(self) -> SimulatedDisk:
        """The disk of its journal."""
        return self._works.disk

    @disk.setter
    def disk(self, disk: SimulatedDisk) -> None:
        self._works.disk = disk

    @property
    def speed(self) -> DiskSpeed:
        """The speed of its disk."""
        return self._works.speed

    @property
    def full(self) -> bool:
        """True if its disk has no room for it, although others of its group may still write."""
        return self._works.full

    @full.setter
    def full(self, full: bool) -> None:
        self._works.full = full

    @property
    def under_way(self) -> Mapping[Lane, DiskWork]:
        """The work requested of the disk, by lane."""
        return self._works.under_way

    @property
    def written(self) -> Mapping[Lane, DiskDone | DiskFailed]:
        """The completed work that is not answered because this host is frozen."""
        return self._works.written

    # The network's side

    def accept(self, dialer: str) -> int | None:
        # A member of a group listens when it serves.
        if self.node is None or (self.locks is not None and not self.ready):
            return None
        if not self.is_accepting and dialer not in self.local_clients:
            return None
        self._connections += 1
        return self._connections

    def on_accepted(self, connection: int, link: SimulatedLink) -> None:
        if self._misses(lambda: self.on_accepted(connection, link)):
            self._backlog.append(link)
            return
        if self.node is None:
            link.vanish(self, "connection reset")
            return
        self._open(connection, link)
        self.step(Accepted(connection, link.near.name))

    def on_dialed(self, connection: int, link: SimulatedLink) -> None:
        if self._misses(lambda: self.on_dialed(connection, link)):
            return
        if connection not in self._dialing:
            link.vanish(self, "connection reset")
            return
        del self._dialing[connection]
        self._open(connection, link)
        self.step(Dialed(self._local(connection), link.far.name))

    def on_dial_failed(self, connection: int, reason: str) -> None:
        if self._misses(lambda: self.on_dial_failed(connection, reason)):
            return
        if connection in self._dialing:
            del self._dialing[connection]
            self.step(DialFailed(self._local(connection), reason))

    def _open(self, connection: int, link: SimulatedLink) -> None:
        self._links[connection] = link
        self._unreported[connection] = 0

    def _wide(self, connection: int) -> int:
        """Map a connection number to the network's.

        Each life counts its own connections down from -1, and the network may still dial for an earlier one.
        """
        return connection - self.life * _DIALS_PER_LIFE if connection < 0 else connection

    def _local(self, connection: int) -> int:
        return connection + self.life * _DIALS_PER_LIFE if connection < 0 else connection

    def on_bytes(self, connection: int, data: bytes) -> None:
        if self._misses(lambda: self.on_bytes(connection, data)):
            return
        if connection in self._links:
            self.world.trace.add_bytes(self.world.now, self.name, "receives", data)
            self.step(BytesReceived(self._local(connection), data))

    def on_closed(self, connection: int, reason: str) -> None:
        if self._misses(lambda: self.on_closed(connection, reason)):
            return
        if self._links.pop(connection, None) is not None:
            self.world.note(self.name, "connection lost", reason)
            self.step(PeerClosed(self._local(connection), reason))

    def on_written(self, connection: int, count: int) -> None:
        if self._misses(lambda: self.on_written(connection, count)):
            return
        if connection in self._links:
            count += self._unreported[connection]
            self._unreported[connection] = 0
            self.step(Written(self._local(connection), count))

    def on_datagram(self, group: str, data: bytes) -> None:
        if self._misses(lambda: self.on_datagram(group, data)):
            return
        for endpoint in [endpoint for endpoint, joined in self._groups.items() if group in joined]:
            self.step(DatagramReceived(endpoint, data))

    def _use_group(self, output: JoinGroup | SendDatagram | LeaveGroup) -> None:
        multicast = self.multicast
        assert multicast is not None, "a world with groups has a multicast network"
        match output:
            case JoinGroup(endpoint, group):
                for key in sorted(set(received_at(group)).difference(*self._groups.values())):
                    multicast.join(key, self)
                self._groups[endpoint] = frozenset(received_at(group))
            case SendDatagram(_, group, data):
                multicast.send(self.name, sent_to(group, self.name), data)
            case LeaveGroup(endpoint):
                left = self._groups.pop(endpoint, frozenset())
                for key in sorted(left.difference(*self._groups.values())):
                    multicast.leave(key, self)

    def _misses(self, happening: Callable[[], None]) -> bool:
        """Return True if the host is frozen; the event is then delivered when it continues."""
        if self.frozen:
            self._missed.append(happening)
        return self.frozen

    def on_event(self, event: object) -> None:
        """Handle the timer, or the disk."""
        if self._misses(lambda: self.on_event(event)):
            return
        if isinstance(event, _DiskCompletion):
            if event.life == self.life and self.node is not None:
                self.step(self._works.complete(event.work))
        elif isinstance(event, _LockAnswer):
            if event.life == self.life and self.node is not None:
                self._answer(event.work)
        elif event == self._armed:
            self._armed = None
            if self.node is not None:
                self.step(Tick())

    # Inside

    @property
    def _instant(self) -> Instant:
        now = self.world.instant
        return Instant(now.monotonic, now.wall_ms + self.clock_offset_ms) if self.clock_offset_ms else now

    def step(self, event: Input) -> None:
        """Run one step of the node, and everything it requests."""
        node = self.node
        if node is not None:
            outputs = node.step(event, self._instant)
            while outputs and self.node is node:
                written = self._carry_out(outputs)
                outputs = []
                for each in written:
                    if self.node is node:
                        outputs += node.step(each, self._instant)
            for check in self.after_step:
                check()
        self._arm()

    def _carry_out(self, outputs: list[Output]) -> list[_Answer]:
        """Carry out the node's outputs in order. Return what must be reported after all of them."""
        written: list[_Answer] = []
        for output in outputs:
            match output:
                case AuditWork() if self.audit is not None:
                    self.audit.write(output)
                case SendBytes(local, data):
                    connection = self._wide(local)
                    link = self._links.get(connection)
                    if link is not None:
                        for tap in self.on_send:
                            tap(connection, (link.far if link.near is self else link.near).name, data)
                        unreported = self._unreported[connection] + link.send(self, data)
                        if unreported >= self._report_bytes:
                            written.append(Written(local, unreported))
                            unreported = 0
                        self._unreported[connection] = unreported
                case CloseConnection(local, reason):
                    self.world.note(self.name, "closes connection", reason)
                    self._dialing.pop(self._wide(local), None)
                    link = self._links.pop(self._wide(local), None)
                    if link is not None:
                        link.close(self)
                case Dial(local, connector, timeout_s):
                    self.world.note(self.name, "dials", connector.host)
                    self._dialing[self._wide(local)] = None
                    self.network.dial(self, self._wide(local), connector.host, timeout_s)
                case JoinGroup() | SendDatagram() | LeaveGroup():
                    self._use_group(output)
                case DiskWork():
                    self.world.after(self._works.begin(output), self, _DiskCompletion(self.life, output))
                case LockWork() | LeaseWork():
                    self.requested = output
                    delay_s = LOCK_ANSWER_S * (0.5 + self.world.random.random())
                    self.world.after(delay_s, self, _LockAnswer(self.life, output))
                case RoleChanged(role):
                    self.world.note(self.name, "becomes", role.value)
                    for watch in self.on_role:
                        watch(role)
                case BranchDecided():
                    for answer in self.on_decided:
                        answer(output)
                case CheckPassword():
                    written.append(PasswordChecked(output.check.number, output.check.run()))
                case HostTask():
                    written += self._do_task(output)
                case Ready():
                    self.world.note(self.name, "is ready")
                    for look in self.on_ready:
                        look()
                case LetBrokersIn(wanted):
                    self.lets_brokers_in = wanted
                case Notice():
                    self.notices.append(output.text)
                    if output.level is not Level.INFO:
                        self.warnings.append(output.text)
                    self.world.note(self.name, "says", output.text)
                case Stopped():
                    self._end(output)
        return written

    def _do_task(self, task: HostTask) -> list[_Answer]:
        """Carry out a task of management. The simulated process has no files of users."""
        match task.kind:
            case TaskKind.COMPUTE:
                assert callable(task.argument)
                return [TaskDone(task.number, task.argument(), None)]
            case TaskKind.LOOK_AT_ACCEPTOR:
                return [TaskDone(task.number, self.is_accepting, None)]
            case TaskKind.START_ACCEPTOR | TaskKind.STOP_ACCEPTOR:
                accepts = task.kind is TaskKind.START_ACCEPTOR
                port = 0 if accepts is self.is_accepting else _PORT
                self.is_accepting = accepts
                closed = [] if accepts else self._drop_accepted()
                return [*closed, TaskDone(task.number, port, None)]
            case _:
                return [TaskDone(task.number, None, f"a simulated broker cannot {task.kind.value}")]

    def _drop_accepted(self) -> list[PeerClosed]:
        """Break each connection that came over the acceptor, without a notice of the broker to its peer."""
        closed: list[PeerClosed] = []
        for connection, link in list(self._links.items()):
            # Those that the broker has opened have numbers below zero.
            if connection > 0 and link.near.name not in self.local_clients:
                del self._links[connection]
                link.vanish(self, "connection reset")
                closed.append(PeerClosed(connection, ACCEPTOR_STOPPED))
        self.world.note(self.name, "stops its acceptor", len(closed))
        return closed

    def _end(self, stopped: Stopped) -> None:
        self.world.note(self.name, "has stopped", *([] if stopped.failure is None else [stopped.failure]))
        self.node = None
        # A life that ends by itself may leave work to a thread, which is through before its locks are free.
        self._works.end()
        self._give_locks_back()
        self._forget_links("closed by peer")
        for listener in self.on_stopped:
            listener(stopped.failure)
        if stopped.restarts:
            self._start_again()

    def _answer(self, work: LockWork | LeaseWork) -> None:
        assert self._session is not None
        self.requested = None
        try:
            results = self._session.run(work.operations)  # type: ignore[arg-type]  # a session gets its own kind of work
        except LockFault as fault:
            self.world.note(self.name, "lock fault", fault)
            self.step(LockFailed(work.batch, fault))
        else:
            self.step(LockDone(work.batch, results))

    def _start_again(self) -> None:
        """Start again as backup after giving way; without a lock store it cannot."""
        try:
            self.start()
        except LockFault as fault:
            self.world.note(self.name, "cannot start again", fault)
            for listener in self.on_stopped:
                listener(str(fault))

    def _give_locks_back(self) -> None:
        session, self._session = self._session, None
        self.requested = None
        self.frozen = self.superseded = self.lets_brokers_in = False
        self._missed.clear()
        if session is not None:
            session.close()

    def _arm(self) -> None:
        deadline = self.node.next_deadline() if self.node is not None else None
        if deadline is not None:
            armed, now = self._armed, self.world.now
            if armed is None or deadline < armed or armed <= now:
                self._armed = armed = deadline if deadline > now else now
                self.world.at(armed, self, armed)

    def _forget_links(self, reason: str) -> None:
        for link in (*self._links.values(), *self._backlog):
            link.vanish(self, reason)
        self._links.clear()
        self._backlog.clear()
        self._dialing.clear()
        for endpoint in list(self._groups):
            self._use_group(LeaveGroup(endpoint))
