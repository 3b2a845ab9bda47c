"""The driver of one node on trio: moves bytes, queries the lock store, keeps one timer. It decides nothing.

A step never awaits, so cancellation falls between steps. Ctrl-C is delivered outside of all of this, into the program's
main task: a step that ends in its middle would leave records half gathered. Inputs that arise while outputs are
delivered (such as the bytes that a write took) wait in a list and are stepped right after.
"""

from __future__ import annotations

import logging
import math
import shutil
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import trio
from attrs import frozen
from trio.lowlevel import enable_ki_protection

from embedbroker import locks, storage
from embedbroker.config import (
    AddressConfiguration,
    AddressSettings,
    DivertConfiguration,
    Role,
    SecuritySetting,
    UserChange,
    UserSource,
)
from embedbroker.node import (
    Accepted,
    BackupChanged,
    BranchDecided,
    BytesReceived,
    CertificateReceived,
    CheckPassword,
    CloseConnection,
    Command,
    CommandKind,
    DecideBranch,
    Dial,
    Dialed,
    DialFailed,
    HostTask,
    Input,
    JoinGroup,
    LeaveGroup,
    LetBrokersIn,
    Level,
    MakeRoom,
    Manage,
    Managed,
    Node,
    Notice,
    PasswordChecked,
    PauseReading,
    PeerClosed,
    Ready,
    ReloadConfiguration,
    ReplaceUsers,
    ResumeReading,
    RoleChanged,
    ScaleDownTo,
    SendBytes,
    SendDatagram,
    StartBackup,
    StopListening,
    Stopped,
    TaskDone,
    TaskKind,
    Tick,
    Written,
)
from embedclient.errors import ResourceAllocationException
from embedclient.model import TransportConfiguration, Xid
from embedclient.transport import ByteStream, Listener, TLSFailed, TLSStream, TransportLost, dial

from ._clock import EdgeClock
from ._collector import CollectorPaused
from ._disk_lanes import DiskLanes
from ._pending_answers import PendingAnswers
from ._threads import Threads

if TYPE_CHECKING:
    from embedclient.transport import Datagrams

    from ._audit_lane import AuditLane
    from ._datagram_lane import DatagramLane
    from ._lock_lane import LockLane
    from ._role_watch import Observer

__all__ = ["Host", "HostStatistics"]

T = TypeVar("T")

READ_BYTES = 256 * 1024
# The bytes that writes took are reported in sums of this size: a step per write would cost as much as a small message.
REPORT_WRITTEN_BYTES = 128 * 1024
# Each lane of the disk, and the lock store, has one batch at a time. Not threads of trio's default limiter: a program
# that keeps all of those busy, waiting for this broker perhaps, would stop its journal.
THREADS = 5

# Hashes at the same time; others wait.
HASH_THREADS = 2

# A peer that is refused often tries again, twice a second.
_TLS_WARNED_EVERY_S = 60.0
_TLS_WARNED_MAX = 1_000

_OF_ACCEPTOR = (
    TaskKind.LOOK_AT_ACCEPTOR,
    TaskKind.START_ACCEPTOR,
    TaskKind.STOP_ACCEPTOR,
    TaskKind.RELOAD_ACCEPTOR,
)
_LEVELS = {Level.INFO: logging.INFO, Level.WARNING: logging.WARNING, Level.ERROR: logging.ERROR}


class _Peer:
    """One connection at the edge: its pipe, and the bytes that the pipe did not take yet.

    ``paused`` is set while the peer is not read; the event is set when it is read again.
    """

    __slots__ = ("closing", "listener", "number", "paused", "stream", "unreported", "unsent")

    def __init__(self, number: int, stream: ByteStream, listener: Listener | None = None) -> None:
        self.number = number
        self.stream = stream
        #: What accepted it; None for a connection that was dialed here.
        self.listener = listener
        self.unsent: deque[memoryview] = deque()
        self.unreported = 0
        self.closing = False
        self.paused: trio.Event | None = None

    def read_on(self) -> None:
        """Let the peer be read again, or its end be noticed."""
        paused, self.paused = self.paused, None
        if paused is not None:
            paused.set()


@frozen
class HostStatistics:
    """Hold counters of the edge of one broker."""

    connections: int
    unsent: int
    """Connections with bytes that their pipes did not take yet."""


class Acceptors(Protocol):
    """Control the places where a broker accepts connections over the network, by their names."""

    def is_accepting(self, name: str) -> bool:
        """Return True if connections are accepted."""

    async def start_acceptor(self, name: str) -> int:
        """Accept connections again; return the port, or 0 without a change.

        Raises:
            ResourceAllocationException: the address is not available.
        """

    def stop_acceptor(self, name: str) -> int:
        """Accept no more connections, and close those that were accepted; return the port, or 0 without a change."""

    def reload_acceptor(self, name: str) -> None:
        """Read the files of TLS again.

        Raises:
            ResourceAllocationException: the files cannot be used.
        """


class BackupRunner(Protocol):
    """Run backups of other brokers in this process."""

    def start(self, order: StartBackup, host: Host, nursery: trio.Nursery) -> None:
        """Start a backup in a task of its host, which receives each of its roles."""

    def adopt(self, parts: Mapping[str, Mapping[str, object]]) -> None:
        """Give backups from now on the parts of a configuration that their host has adopted."""


class Host:
    """Run a node until it stopped. Everything it starts lives in the given nursery."""

    def __init__(
        self,
        node: Node,
        nursery: trio.Nursery,
        disk: storage.Disk | None,
        lock_lane: LockLane | None,
        logger: logging.Logger,
        on_role: Callable[[Role, bool], None],
    ) -> None:
        self.node = node
        self.ready = trio.Event()
        self._is_starting = True  # until then; looked at with each read
        self.stopped = trio.Event()
        self.failure: str | None = None
        self.restarts = False
        self.observer: Observer | None = None
        #: Reads users again when their files change.
        self.user_source: UserSource | None = None
        # The reason why their files cannot be used now; empty if they can.
        self._users_problem = ""
        self._users_change = trio.Lock()  # one change of their files at a time
        #: What management starts and stops.
        self.acceptors: Acceptors | None = None
        #: Adopts the configuration file if it changed, and returns why it cannot; None without such a file.
        self.reload_file: Callable[[], Awaitable[str | None]] | None = None
        self.on_stop_listening: Callable[[], None] = lambda: None
        self.hosted: BackupRunner | None = None
        self.on_let_brokers_in: Callable[[bool], None] = lambda wanted: None
        self.dial: Callable[[TransportConfiguration, float], Awaitable[ByteStream]] = dial
        self._nursery = nursery
        self._logger = logger
        self._lock_lane = lock_lane
        self._on_role = on_role
        self._clock = EdgeClock()
        self._inputs: deque[Input] = deque()
        self._stepping = False
        self._peers: dict[int, _Peer] = {}
        # What accepts peers that are served, and the index of its acceptor.
        self._serving: dict[Listener, int] = {}
        self._dialing: dict[int, trio.CancelScope] = {}
        self._decisions = PendingAnswers[bool]()
        self._calls = PendingAnswers[tuple[object, str | None]]()
        # When the log had a warning last, by host of the peer and reason.
        self._tls_warned: dict[tuple[str, str], float] = {}
        self._next_number = 1
        self._armed = trio.CancelScope()
        self._armed_for = float("inf")
        self._given_up = False
        self._threads = Threads(THREADS, logger.warning)
        # Not those of the disk: guessed passwords must not delay records.
        self._hash_threads = Threads(HASH_THREADS, logger.warning)
        self._lanes: DiskLanes | None = None
        if disk is not None:
            self._lanes = DiskLanes(disk, node, nursery, self._threads, self._take, logger.warning)
        self._audit: AuditLane | None = None
        self._datagrams: DatagramLane | None = None
        #: Opens multicast groups; None is UDP.
        self.datagrams: Datagrams | None = None
        # The reported bytes decide whether a peer is slow: less than half a high-water mark may be on its way here.
        self._report_bytes = min(REPORT_WRITTEN_BYTES, node.config.output_high_water_bytes // 4)

    # -- life ----------------------------------------------------------------------------------------------------

    def audit_on(self, disk: storage.Disk) -> None:
        """Let the node write its audit log to ``disk``."""
        from ._audit_lane import AuditLane

        self._audit = AuditLane(disk, self._nursery, self._threads, self._take)

    def start(self) -> None:
        """Begin; `ready` is set when the node serves."""
        self._nursery.start_soon(self._keep_time)
        if self._lanes is not None:
            self._lanes.start()
        if self.user_source is not None:
            # The configuration has the users of the time at which it was loaded; this may be a later start.
            self._refresh_users(self.user_source, always=True)
        self.feed(Command(CommandKind.START))

    def stop(self, *, fails_over: bool = False) -> None:
        """Request an orderly stop of the node; `stopped` is set when it has stopped."""
        self.feed(Command(CommandKind.FAIL_OVER if fails_over else CommandKind.STOP))

    async def scale_down(self, connector: TransportConfiguration | None) -> tuple[object, str | None] | None:
        """Move everything to another broker; return how many messages moved, and a failure, as `manage` does."""
        number = self._next_number
        self._next_number += 1
        self._calls.expect(number)
        self.feed(ScaleDownTo(number, connector))
        return await self._calls.wait(number)

    async def decide(self, xid: Xid, *, commit: bool) -> bool | None:
        """Decide a prepared XA branch; return whether there was one, and None when the broker stopped meanwhile."""
        number = self._next_number
        self._next_number += 1
        self._decisions.expect(number)
        self.feed(DecideBranch(number, xid, commit))
        return await self._decisions.wait(number)

    async def manage(
        self,
        resource: str,
        *,
        attribute: str | None = None,
        operation: str | None = None,
        arguments: tuple[object, ...] = (),
    ) -> tuple[object, str | None] | None:
        """Return value and failure of a management call; None when the broker stopped meanwhile."""
        number = self._next_number
        self._next_number += 1
        self._calls.expect(number)
        self.feed(Manage(number, resource, attribute, operation, arguments))
        return await self._calls.wait(number)

    async def reload(
        self,
        *,
        address_settings: Mapping[str, AddressSettings] | None = None,
        security_settings: Mapping[str, SecuritySetting] | None = None,
        diverts: Mapping[str, DivertConfiguration] | None = None,
        addresses: Mapping[str, AddressConfiguration] | None = None,
    ) -> tuple[object, str | None] | None:
        """Adopt parts of a configuration; return the answer as `manage` does. None keeps a part."""
        number = self._next_number
        self._next_number += 1
        self._calls.expect(number)
        self.feed(ReloadConfiguration(number, address_settings, security_settings, diverts, addresses))
        answer = await self._calls.wait(number)
        if answer is not None and self.hosted is not None:
            parts = {
                "address_settings": address_settings,
                "security_settings": security_settings,
                "diverts": diverts,
                "addresses": addresses,
            }
            self.hosted.adopt({name: part for name, part in parts.items() if part is not None})
        return answer

    def backup_changed(self, change: BackupChanged) -> None:
        """Report the role of a hosted backup to the node, if there still is one."""
        if not self._given_up and not self.stopped.is_set():
            self.feed(change)

    def _abandon_requests(self) -> None:
        self._decisions.abandon()
        self._calls.abandon()

    def failed(self, reason: str) -> None:
        """End the node after a failed step: it does not continue, and every waiting task is woken."""
        if not self.stopped.is_set():
            self.failure = reason
            self._abandon_requests()
            self.stopped.set()
            self._end_start()

    @enable_ki_protection
    async def serve(self, listener: Listener, acceptor: int) -> None:
        """Accept peers for an acceptor, given by its index, until the listener is closed."""
        self._serving[listener] = acceptor
        while True:
            try:
                stream = await listener.accept()
            except TransportLost:
                return
            self._nursery.start_soon(self._receive, stream, listener)

    def drop_accepted(self, listeners: Collection[Listener]) -> None:
        """Close every connection that these listeners accepted, without a notice to its peer."""
        # Some may be accepted already, and not be among the peers yet.
        for listener in listeners:
            self._serving.pop(listener, None)
        for peer in [peer for peer in self._peers.values() if peer.listener in listeners]:
            self._lose(peer, "the acceptor was stopped")
        self._step_waiting()

    @enable_ki_protection
    def make_room(self) -> bool:
        """Close a peer that has sent no request, for one that waits; return False without such a peer."""
        before = len(self._peers)
        self._take(MakeRoom())
        return len(self._peers) < before

    def statistics(self) -> HostStatistics:
        """Return the counters of this moment."""
        peers = self._peers.values()
        return HostStatistics(len(peers), sum(bool(peer.unsent) for peer in peers))

    def give_up(self) -> None:
        """End at once: pipes close without notice, and further answers of the disk are ignored."""
        self._given_up = True
        if self._lanes is not None:
            self._lanes.give_up()
        self._abandon_requests()
        for peer in list(self._peers.values()):
            peer.stream.close()
            peer.read_on()
        self._peers.clear()

    # -- stepping ------------------------------------------------------------------------------------------------

    @enable_ki_protection
    def feed(self, input: Input) -> None:
        """Step the node with an input, and with every input that this causes."""
        self._take(input)

    def _take(self, input: Input) -> None:
        """Step the node with an input, for a task that is protected from Ctrl-C as a whole.

        Each read comes this way.
        """
        self._inputs.append(input)
        if self._stepping:
            return
        if self._is_starting:
            with CollectorPaused():
                self._step_inputs()
        else:
            self._step_inputs()

    def _end_start(self) -> None:
        self._is_starting = False
        self.ready.set()

    def _step_inputs(self) -> None:
        self._stepping = True
        inputs, node, clock, lanes = self._inputs, self.node, self._clock, self._lanes
        try:
            while inputs:
                input = inputs.popleft()
                for output in node.step(input, clock.now()):
                    if type(output) is SendBytes:
                        self._send(output.connection, output.data)
                    elif lanes is not None and type(output) is storage.DiskWork:
                        lanes.order(output)
                    elif self._audit is not None and type(output) is storage.AuditWork:
                        failed = self._audit.write(output)
                        if failed is not None:
                            inputs.append(failed)
                    else:
                        self._deliver(output)
                if lanes is not None and lanes.waiting:
                    answer = lanes.begin(input)
                    if answer is not None:
                        inputs.append(answer)
        finally:
            self._stepping = False
        if self.observer is not None:
            self.observer.stepped(node)
        deadline = node.next_deadline()
        if deadline is not None and deadline < self._armed_for:
            self._armed_for = deadline
            self._armed.deadline = deadline

    def _deliver(self, output: object) -> None:
        match output:
            case CloseConnection():
                self._close(output.connection)
            case Dial():
                scope = self._dialing[output.connection] = trio.CancelScope()
                self._nursery.start_soon(self._dial, output, scope)
            case PauseReading():
                if output.connection in self._peers:
                    self._peers[output.connection].paused = trio.Event()
            case ResumeReading():
                if output.connection in self._peers:
                    self._peers[output.connection].read_on()
            case Notice():
                self._logger.log(_LEVELS[output.level], "%s", output.text)
            case BranchDecided():
                self._decisions.make(output.request, output.found)
            case Managed():
                self._calls.make(output.request, (output.value, output.failure))
            case CheckPassword():
                self._nursery.start_soon(self._check_password, output.check.number, output.check.run)
            case HostTask():
                self._nursery.start_soon(self._do_task, output)
            case Ready():
                self._end_start()
            case RoleChanged():
                self._on_role(output.role, output.in_sync)
            case LetBrokersIn(wanted):
                self.on_let_brokers_in(wanted)
            case StopListening():
                self.on_stop_listening()
            case StartBackup():
                assert self.hosted is not None, "a colocated broker has them"
                self.hosted.start(output, self, self._nursery)
            case JoinGroup() | SendDatagram() | LeaveGroup():
                self._carry_group(output)
            case Stopped():
                self.failure = output.failure
                self.restarts = output.restarts
                self._abandon_requests()
                self.stopped.set()
                self._end_start()
                self._on_role(Role.STOPPED, False)
            # Last: without a journal nothing loads the lock types.
            case locks.LockWork() | locks.LeaseWork() if self._lock_lane is not None:
                self._run_lock_work(self._lock_lane, output)
            case _:
                raise AssertionError(output)

    @enable_ki_protection
    async def _keep_time(self) -> None:
        """Run the single timer: sleep until the earliest deadline, then tick."""
        while not self.stopped.is_set():
            with self._armed:
                await trio.sleep_forever()
            self._armed = trio.CancelScope()
            self._armed_for = float("inf")
            self.feed(Tick())

    # -- connections ---------------------------------------------------------------------------------------------

    @enable_ki_protection
    async def _receive(self, stream: ByteStream, listener: Listener) -> None:
        """Serve an accepted connection until its end."""
        acceptor = self._serving.get(listener)
        if acceptor is None:
            stream.close()
            return
        number = self._next_number
        self._next_number += 1
        if self.user_source is not None:
            self._refresh_users(self.user_source)
        await self._converse(_Peer(number, stream, listener), Accepted(number, stream.peer, acceptor))

    def _refresh_users(self, source: UserSource, *, always: bool = False) -> None:
        """Read users again if their files changed. Files that cannot be used leave the previous users in force."""
        try:
            changed = source.refresh(always=always)
            if changed is not None:
                self._users_problem = ""
                self.feed(ReplaceUsers(*changed))
        except ValueError as error:
            # Once for each reason: the next connection tries again.
            if str(error) != self._users_problem:
                self._users_problem = str(error)
                self._logger.warning("users stay as they are, their files cannot be used: %s", error)

    @enable_ki_protection
    async def _dial(self, order: Dial, scope: trio.CancelScope) -> None:
        """Open and serve a connection that the node requested."""
        number = order.connection
        with scope:
            try:
                stream = await self.dial(order.connector, order.timeout_s)
            except TransportLost as error:
                self.feed(DialFailed(number, error.reason))
                return
            finally:
                del self._dialing[number]
        if scope.cancelled_caught:
            return
        if scope.cancel_called:  # in the moment in which the connection opened
            stream.close()
            return
        await self._converse(_Peer(number, stream), Dialed(number, stream.peer))

    async def _converse(self, peer: _Peer, beginning: Input) -> None:
        """Step the node with one input for every read."""
        number, stream = peer.number, peer.stream
        self._peers[number] = peer
        try:
            self.feed(beginning)
            # The handshake of TLS is complete with the first bytes.
            is_new = isinstance(stream, TLSStream)
            while not peer.closing:
                if peer.paused is not None:
                    await peer.paused.wait()
                    continue
                data = await stream.receive(READ_BYTES)
                if not data:
                    self._forget(peer, "closed by the peer")
                    return
                if is_new:
                    is_new = False
                    self._identify(number, stream)
                self._take(BytesReceived(number, data))
        except TLSFailed as error:
            self._log_tls(stream.peer, error.detail)
            self._forget(peer, error.reason)
        except TransportLost as error:
            self._forget(peer, error.reason)
        finally:
            if not peer.closing:
                stream.close()

    def _identify(self, number: int, stream: ByteStream) -> None:
        """Report the subject of the certificate by which TLS has verified a client."""
        subject = stream.tls.peer_subject if isinstance(stream, TLSStream) and number > 0 else None
        if subject is not None:
            self.feed(CertificateReceived(number, subject))

    def _log_tls(self, peer: str, detail: str) -> None:
        """Warn of a peer that TLS refused. Its next attempts within a minute, for the same reason, are ordinary."""
        now, key = trio.current_time(), (peer.rpartition(":")[0], detail)
        is_new = now >= self._tls_warned.get(key, -math.inf) + _TLS_WARNED_EVERY_S
        if is_new:
            if len(self._tls_warned) >= _TLS_WARNED_MAX:
                self._tls_warned.clear()
            self._tls_warned[key] = now
        self._logger.log(logging.WARNING if is_new else logging.INFO, "%s: %s", peer, detail)

    def _forget(self, peer: _Peer, reason: str) -> None:
        if self._peers.pop(peer.number, None) is not None:
            peer.stream.close()
            if not peer.closing:
                self.feed(PeerClosed(peer.number, reason))

    def _send(self, number: int, data: bytes) -> None:
        peer = self._peers.get(number)
        if peer is None:
            return
        if peer.unsent:
            peer.unsent.append(memoryview(data))
            return
        try:
            taken = peer.stream.send_nowait(data)
        except TransportLost as error:
            self._lose(peer, error.reason)
            return
        peer.unreported += taken
        if peer.unreported >= self._report_bytes:
            self._report(peer)
        if taken < len(data):
            peer.unsent.append(memoryview(data)[taken:])
            self._nursery.start_soon(self._drain, peer)

    def _report(self, peer: _Peer) -> None:
        self._inputs.append(Written(peer.number, peer.unreported))
        peer.unreported = 0

    @enable_ki_protection
    async def _drain(self, peer: _Peer) -> None:
        """Write what the pipe did not take at once; runs only while something is unsent."""
        unsent = peer.unsent
        try:
            while unsent:
                await peer.stream.wait_writable()
                while unsent:
                    data = unsent[0]
                    taken = peer.stream.send_nowait(data)
                    if taken == len(data):
                        unsent.popleft()
                    else:
                        unsent[0] = data[taken:]
                    peer.unreported += taken
                    if peer.unreported:
                        self._report(peer)
                    if taken < len(data):
                        break
                self._step_waiting()
        except TransportLost as error:
            unsent.clear()
            self._lose(peer, error.reason)
            self._step_waiting()
        if peer.closing:
            peer.stream.close()

    def _step_waiting(self) -> None:
        """Step inputs that were noted outside `feed`."""
        if self._inputs and not self._stepping:
            self.feed(self._inputs.popleft())

    def _lose(self, peer: _Peer, reason: str) -> None:
        if self._peers.pop(peer.number, None) is not None:
            peer.stream.close()
            peer.read_on()
            self._inputs.append(PeerClosed(peer.number, reason))

    def _close(self, number: int) -> None:
        """Close after what was sent: at once, or when the writer is done."""
        peer = self._peers.pop(number, None)
        if peer is None:
            if number in self._dialing:
                self._dialing[number].cancel()
            return
        peer.closing = True
        peer.read_on()
        if not peer.unsent:
            peer.stream.close()
        else:
            self._nursery.start_soon(self._close_late, peer)

    @enable_ki_protection
    async def _close_late(self, peer: _Peer) -> None:
        """Close a peer that does not read after one second, in which it may take its last bytes."""
        try:
            await trio.sleep(1)
        finally:
            peer.stream.close()

    # -- datagrams -----------------------------------------------------------------------------------------------

    def _carry_group(self, output: JoinGroup | SendDatagram | LeaveGroup) -> None:
        """Use the multicast groups. Only a broker with one loads what that needs."""
        if self._datagrams is None:
            from ._datagram_lane import DatagramLane

            self._datagrams = DatagramLane(self.datagrams, self._nursery, self.feed)
        self._datagrams.carry_out(output)

    # -- passwords -----------------------------------------------------------------------------------------------

    @enable_ki_protection
    async def _check_password(self, number: int, check: Callable[[], bool]) -> None:
        """Compute a hash in a thread: it takes milliseconds, in which the broker serves other clients."""
        matches = await self._compute(check)
        if not self._given_up and not self.stopped.is_set():
            self.feed(PasswordChecked(number, matches))

    async def _compute(self, work: Callable[[], T]) -> T:
        """Return the result of a computation in a thread; wait for a shortage of memory to pass."""
        while (result := await self._hash_threads.run(_computed, work, abandon_on_cancel=True)) is None:
            await self._hash_threads.wait_out("no memory for the hash of a password")
        return result

    # -- tasks of management -------------------------------------------------------------------------------------

    @enable_ki_protection
    async def _do_task(self, task: HostTask) -> None:
        """Carry out a task, and step the node with the answer."""
        try:
            done = TaskDone(task.number, await self._carry_out(task), None)
        except ValueError as error:
            done = TaskDone(task.number, None, str(error))
        if not self._given_up and not self.stopped.is_set():
            self.feed(done)
            if task.kind is TaskKind.FAIL_OVER:
                self.stop(fails_over=True)

    async def _carry_out(self, task: HostTask) -> object:
        """Return the answer to a task.

        Raises:
            ValueError: The task cannot be carried out; the text is for the caller.
        """
        argument, source = task.argument, self.user_source
        if task.kind is TaskKind.COMPUTE:
            return await self._compute(cast(Callable[[], object], argument))
        if task.kind is TaskKind.MEASURE_DISK:
            return await self._hash_threads.run(_disk_usage, self.node.config.data_directory, abandon_on_cancel=True)
        if task.kind is TaskKind.FAIL_OVER:
            return None
        if task.kind is TaskKind.RELOAD_CONFIGURATION:
            await self._reload_file()
            return None
        if task.kind in _OF_ACCEPTOR:
            assert isinstance(argument, str)
            return await self._control_acceptor(task.kind, argument)
        assert source is not None, "without files the node changes its users itself"
        if task.kind is TaskKind.LIST_USERS:
            assert isinstance(argument, str | None)
            return await self._hash_threads.run(source.list_users, argument, abandon_on_cancel=True)
        assert task.kind is TaskKind.CHANGE_USERS and isinstance(argument, UserChange)
        async with self._users_change:
            await self._hash_threads.run(source.change, argument)
        changed = source.refresh(always=True)
        assert changed is not None, "they are read always"
        self._users_problem = ""
        self.feed(ReplaceUsers(*changed))
        return None

    async def _reload_file(self) -> None:
        if self.reload_file is None:
            raise ValueError("the broker has no configuration file")
        problem = await self.reload_file()
        if problem is not None:
            raise ValueError(f"the configuration is not changed, its file cannot be used: {problem}")

    async def _control_acceptor(self, kind: TaskKind, name: str) -> object:
        acceptors = self.acceptors
        assert acceptors is not None, "a broker that serves has one"
        try:
            match kind:
                case TaskKind.LOOK_AT_ACCEPTOR:
                    return acceptors.is_accepting(name)
                case TaskKind.START_ACCEPTOR:
                    return await acceptors.start_acceptor(name)
                case TaskKind.STOP_ACCEPTOR:
                    return acceptors.stop_acceptor(name)
                case _:
                    acceptors.reload_acceptor(name)
                    return None
        except ResourceAllocationException as error:
            raise ValueError(str(error)) from None

    # -- locks ---------------------------------------------------------------------------------------------------

    def _run_lock_work(self, lane: LockLane, work: locks.LockWork | locks.LeaseWork) -> None:
        if lane.is_quick(work):
            self._inputs.append(lane.run(work))
        else:
            self._nursery.start_soon(self._run_lock_work_in_thread, lane, work)

    @enable_ki_protection
    async def _run_lock_work_in_thread(self, lane: LockLane, work: locks.LockWork | locks.LeaseWork) -> None:
        # A store that hangs must not delay a life that has ended: its session is released when it answers.
        answer = await self._threads.run(lane.run, work, abandon_on_cancel=True)
        if not self._given_up:
            self.feed(answer)


def _disk_usage(directory: str | None) -> float:
    """Return the part of the disk of a directory that is in use.

    Raises:
        ValueError: The directory cannot be reached.
    """
    if directory is None:
        return 0.0
    try:
        found = shutil.disk_usage(directory)
    except OSError as error:
        raise ValueError(f"the disk of {directory} cannot be measured: {error.strerror or error}") from None
    # What is kept for the system's administrator is in use for a broker.
    return 1 - found.free / found.total if found.total else 1.0


def _computed(work: Callable[[], T]) -> T | None:
    """Return the result of a computation, or None if there was no memory for it."""
    try:
        return work()
    except MemoryError:
        return None
