"""A node on a stage: scripted peers that speak packets, a clock by hand, a disk that works on request.

Responsible for turning a node's outputs into what each peer has seen. Refuses to check anything itself.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from attrs import Factory, define

from embedbroker.config import BrokerConfig, Role
from embedbroker.locks import LockFault, Locks, LockSession, LockWork, called
from embedbroker.node import (
    Accepted,
    BytesReceived,
    CheckPassword,
    CloseConnection,
    Command,
    CommandKind,
    DiskDone,
    DiskFailed,
    HostTask,
    Input,
    Level,
    LockDone,
    LockFailed,
    Node,
    Notice,
    Output,
    PasswordChecked,
    PeerClosed,
    Ready,
    RoleChanged,
    SendBytes,
    Stopped,
    TaskDone,
    TaskKind,
    Tick,
    Written,
)
from embedbroker.security import PasswordCheck
from embedbroker.storage import DiskFault, DiskWork, JournalSettings
from embedbroker.testing._disk import SimulatedDisk
from embedclient.model import Instant, Properties, PropertyType
from embedclient.wire.core import (
    CoreMessage,
    CreateQueueV2,
    CreateSession,
    CreateSessionResponse,
    ExceptionResponse,
    FrameSplitter,
    NullResponse,
    Packet,
    PacketsConfirmed,
    Ping,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionReceiveMessage,
    SessionSend,
    SessionStart,
    SubscribeTopologyV2,
    decode_packet,
    encode_packet,
    frame_spans,
)

__all__ = ["CHANNEL", "Peer", "Stage", "fields_of", "letter", "text_of"]

CHANNEL = 10
WALL_MS = 1_700_000_000_000
MEMORY_LIMIT_BYTES = 64 * 1024 * 1024

P = TypeVar("P", bound=Packet)


def letter(text: str, address: str = "q", *, durable: bool = False, anycast: bool = True) -> CoreMessage:
    """A message as JMS clients send it."""
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", int(anycast), PropertyType.BYTE)
    return CoreMessage.build(address=address, durable=durable, properties=properties, body=text.encode())


def fields_of(packet: Packet) -> dict[str, object]:
    """The fields of a packet of any kind."""
    return dict(zip(packet.__match_args__, packet, strict=True))


def text_of(message: CoreMessage) -> str:
    return bytes(message.body).decode()


class SeededEntropy:
    """Random bytes from a seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def random(self) -> float:
        return self._random.random()


@define(eq=False)
class Peer:
    """One connection as its client sees it.

    A peer that does not read leaves what it is sent unreported; one that does not listen throws it away.
    """

    stage: Stage
    number: int
    version: int
    reads: bool = True
    listens: bool = True
    received: list[tuple[int, Packet]] = Factory(list)
    received_bytes: int = 0
    unread_bytes: int = 0
    closed: str | None = None
    _splitter: FrameSplitter = Factory(FrameSplitter)

    def send(self, *packets: Packet, channel: int = CHANNEL) -> None:
        """Send packets in one read."""
        self.send_bytes(b"".join(encode_packet(packet, channel, self.version) for packet in packets))

    def send_bytes(self, data: bytes) -> None:
        self.stage.step(BytesReceived(self.number, data))

    def lose(self) -> None:
        """The socket breaks."""
        self.stage.step(PeerClosed(self.number, "connection reset"))

    def take(self, data: bytes) -> None:
        """What the node sent."""
        self.received_bytes += len(data)
        buffer, headers = self._splitter.feed(data) if self.listens else (b"", [])
        for (_length, _type, channel), (start, end) in zip(headers, frame_spans(headers), strict=True):
            self.received.append((channel, decode_packet(buffer, start, end, self.version, False)))
        if not self.reads:
            self.unread_bytes += len(data)

    def read(self) -> None:
        """Begin to read again, and report everything at once."""
        self.reads = True
        count, self.unread_bytes = self.unread_bytes, 0
        self.stage.step(Written(self.number, count))

    def state(self) -> str:
        """``open``, or why the node closed the connection."""
        return "open" if self.closed is None else self.closed

    # -- looking at what came ------------------------------------------------------------------------------------

    def packets(self, kind: type[P]) -> list[P]:
        return [packet for _channel, packet in self.received if isinstance(packet, kind)]

    def last(self, kind: type[P]) -> P:
        """The last packet, which must be of this kind."""
        packet = self.received[-1][1]
        assert isinstance(packet, kind), packet
        return packet

    def clear(self) -> list[Packet]:
        """Everything that came since the last time."""
        packets = [packet for _channel, packet in self.received]
        self.received.clear()
        return packets

    def refusal(self) -> ExceptionResponse:
        """The only answer since the last time, an EXCEPTION; the connection lives on."""
        (packet,) = self.clear()
        assert isinstance(packet, ExceptionResponse), packet
        assert packet.message is not None and self.closed is None
        return packet

    def names(self) -> list[str]:
        return [type(packet).__name__ for packet in self.clear()]

    @property
    def texts(self) -> list[str]:
        """The bodies of all deliveries."""
        return [text_of(packet.message) for packet in self.packets(SessionReceiveMessage)]

    # -- shorthands ----------------------------------------------------------------------------------------------

    def open_session(
        self,
        name: str | None = None,
        *,
        channel: int = CHANNEL,
        window: int = -1,
        transacted: bool = False,
        client: bool = False,
        pre_acknowledge: bool = False,
        xa: bool = False,
        user: str | None = None,
        password: str | None = None,
        answered: bool = True,
    ) -> Peer:
        """Open and start a session; returns the peer. ``answered`` False leaves the answer to the caller."""
        commits = not transacted
        self.send(
            CreateSession(
                name or f"session-{self.number}-{channel}",
                channel,
                self.version,
                user,
                password,
                102_400,
                xa,
                commits,
                commits and not client,
                window,
                pre_acknowledge,
                None,
            ),
            channel=1,
        )
        if not answered:
            return self
        self.last(CreateSessionResponse)
        self.received.pop()
        self.send(SessionStart(), channel=channel)
        return self

    def create_queue(self, name: str = "q", *, channel: int = CHANNEL, temporary: bool = False) -> None:
        durable, before = not temporary, len(self.received)
        self.send(CreateQueueV2(name, name, None, durable, temporary, True, False, 1), channel=channel)
        self.stage.settle_disk()
        answers = [index for index in range(before, len(self.received)) if self.received[index][1] == NullResponse(-1)]
        del self.received[answers[0]]

    def consume(
        self, queue: str = "q", consumer: int = 0, *, credit: int = -1, channel: int = CHANNEL, browse: bool = False
    ) -> None:
        self.send(
            SessionCreateConsumer(consumer, queue, None, browse, False),
            SessionConsumerFlowCredit(consumer, credit),
            channel=channel,
        )

    def post(self, *texts: str, durable: bool = False, blocking: bool = False, channel: int = CHANNEL) -> None:
        """Send messages to ``q``; blocking ones carry correlation ids -1, -2 and so on."""
        self.send(
            *(
                SessionSend(letter(text, durable=durable), blocking, -1 - index if blocking else 0)
                for index, text in enumerate(texts)
            ),
            channel=channel,
        )

    def confirmed(self) -> list[int]:
        """Command ids of all confirmations."""
        return [packet.command_id for packet in self.packets(PacketsConfirmed)]


class Stage:
    """One node. With ``durable`` it has a simulated disk; `settle_disk` does the work of that, and of ``locks``.

    It lets HornetQ clients in, so that the forms for them are tested, too.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        start: bool = True,
        locks: Locks | None = None,
        client_version_min: int = 122,
        segment_size_bytes: int = 64 * 1024,
        memory_limit_bytes: int = MEMORY_LIMIT_BYTES,
        **config: object,
    ) -> None:
        self._segment_size_bytes = segment_size_bytes
        self._memory_limit_bytes = memory_limit_bytes
        self.config = BrokerConfig(client_version_min=client_version_min, **config)  # type: ignore[arg-type]  # real fields
        self.disk = SimulatedDisk() if durable else None
        self.peers: dict[int, Peer] = {}
        self._numbers = 0
        self.work: list[DiskWork] = []
        # Checks of passwords that were ordered; with `checks_passwords` False they wait for `finish_password_checks`.
        self.password_checks: list[PasswordCheck] = []
        self.checks_passwords = True
        # Tasks of management that are not done, and what does others.
        self.host_tasks: list[HostTask] = []
        self.on_task: Callable[[HostTask], object] | None = None
        self.locks = locks
        self.session: LockSession | None = None
        self.lock_work: LockWork | None = None
        self.roles: list[Role] = []
        self.seconds = 100.0
        self.wall_offset_ms = 0
        self.boot(start=start)

    def boot(self, *, start: bool = True) -> None:
        """A new life on the same disk."""
        size = self._segment_size_bytes
        settings = JournalSettings(identity=7, segment_size_bytes=size) if self.disk is not None else None
        if self.session is not None:
            self.session.close()
        if self.locks is not None:
            self.session = self.locks.open(called(self.config.ha_policy, self.config.name))
        has_locks = self.session is not None
        limit = self._memory_limit_bytes
        self.node = Node(self.config, SeededEntropy(), limit, settings, has_locks=has_locks)
        self.notices: list[tuple[Level, str]] = []
        self.outputs: list[Output] = []
        self.ready = False
        self.stopped: Stopped | None = None
        self.work.clear()
        self.lock_work = None
        self.roles.clear()
        for peer in self.peers.values():
            peer.closed = peer.closed or "the broker is gone"
        self.peers.clear()
        if start:
            self.step(Command(CommandKind.START))
            self.settle_disk()
            assert self.ready or self.roles == [Role.BACKUP]

    @property
    def now(self) -> Instant:
        return Instant(self.seconds, WALL_MS + self.wall_offset_ms + round(self.seconds * 1000))

    def step(self, input: Input) -> list[Output]:
        """One step, and those that its outputs cause by being delivered."""
        outputs = self.take_step(input)
        self.outputs.extend(outputs)
        for output in outputs:
            self._deliver(output)
        return outputs

    def take_step(self, input: Input) -> list[Output]:
        """The node's part of a step: one write at most for each connection."""
        outputs = self.node.step(input, self.now)
        written = [output.connection for output in outputs if isinstance(output, SendBytes)]
        assert len(written) == len(set(written)), "a connection is written to twice in one step"
        return outputs

    def _deliver(self, output: Output) -> None:
        match output:
            case SendBytes():
                peer = self.peers[output.connection]
                assert peer.closed is None, "bytes for a closed connection"
                peer.take(output.data)
                if peer.reads:
                    self.step(Written(peer.number, len(output.data)))
            case CloseConnection():
                self.peers[output.connection].closed = output.reason
            case CheckPassword():
                self.password_checks.append(output.check)
                if self.checks_passwords:
                    self.finish_password_checks()
            case HostTask():
                if self.on_task is not None:
                    self.on_task(output)
                    return
                self.host_tasks.append(output)
                if output.kind is TaskKind.COMPUTE and self.checks_passwords:
                    self.finish_computations()
            case DiskWork():
                self.work.append(output)
            case LockWork():
                self.lock_work = output
            case RoleChanged():
                self.roles.append(output.role)
            case Notice():
                self.notices.append((output.level, output.text))
            case Ready():
                self.ready = True
            case Stopped():
                self.stopped = output

    def finish_password_checks(self) -> None:
        """Let the host answer the checks of passwords that were ordered."""
        checks, self.password_checks = self.password_checks, []
        for check in checks:
            self.step(PasswordChecked(check.number, check.run()))

    def finish_computations(self) -> None:
        """Let the host answer the computations that were ordered."""
        for task in [task for task in self.host_tasks if task.kind is TaskKind.COMPUTE]:
            self.host_tasks.remove(task)
            assert callable(task.argument)
            self.step(TaskDone(task.number, task.argument(), None))

    def run(self) -> int:
        """Tick while the node wants to go on at once; returns how often."""
        ticks = 0
        while (deadline := self.node.next_deadline()) is not None and deadline <= self.seconds:
            self.step(Tick())
            ticks += 1
            assert ticks < 100_000, "the node never rests"
        return ticks

    def advance(self, seconds: float) -> None:
        """Let time pass, with every tick that falls due."""
        end = self.seconds + seconds
        while (deadline := self.node.next_deadline()) is not None and deadline <= end:
            self.seconds = max(deadline, self.seconds)
            self.step(Tick())
        self.seconds = end

    # -- disk ----------------------------------------------------------------------------------------------------

    def finish_work(self, work: DiskWork) -> None:
        assert self.disk is not None
        self.work.remove(work)
        try:
            results = self.disk.run(work.operations)
        except DiskFault as fault:
            self.step(DiskFailed(work.batch, fault))
        else:
            self.step(DiskDone(work.batch, results))

    def fail_work(self, work: DiskWork, fault: DiskFault) -> None:
        """Do none of a piece of work."""
        self.work.remove(work)
        self.step(DiskFailed(work.batch, fault))

    def settle_disk(self) -> None:
        """Do all disk work and what follows from it."""
        self.run()
        while self.work or self.lock_work is not None:
            if self.work:
                self.finish_work(self.work[0])
            else:
                self.finish_lock_work()
            self.run()

    def finish_lock_work(self) -> None:
        """The lock store answers."""
        work, self.lock_work = self.lock_work, None
        assert work is not None and self.session is not None
        try:
            results = self.session.run(work.operations)
        except LockFault as fault:
            self.step(LockFailed(work.batch, fault))
        else:
            self.step(LockDone(work.batch, results))

    # -- peers ---------------------------------------------------------------------------------------------------

    def accept(self, version: int = 136, acceptor: int = 0) -> Peer:
        """A connection that has sent nothing."""
        self._numbers += 1
        peer = self.peers[self._numbers] = Peer(self, self._numbers, version)
        self.step(Accepted(peer.number, f"peer-{peer.number}", acceptor))
        return peer

    def connect(self, version: int = 136) -> Peer:
        """A connection that has shaken hands and has the topology."""
        peer = self.accept(version)
        hello = encode_packet(Ping(60_000), 0, version) + encode_packet(SubscribeTopologyV2(False, version), 0, version)
        peer.send_bytes(b"ARTEMIS" + hello)
        peer.received.clear()
        return peer

    def warnings(self) -> list[str]:
        """Log lines since the last time, whatever their level."""
        lines = [text for _level, text in self.notices]
        self.notices.clear()
        return lines
