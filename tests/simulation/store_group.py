"""A live and backup group on one simulated disk and one simulated lock store, with a client that keeps on sending.

Responsible for the world, for faults of the kind a shared store must survive, and for its checkers: one broker at a
time has the journal, what was confirmed is there at the broker that serves, and roles follow the policies. Does not
depend on how a role comes about.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from embedbroker.config import BrokerConfig, HAPolicy, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.locks import Lock
from embedbroker.storage import JournalSettings
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._locks import SimulatedLocks
from embedbroker.testing._network import Network, SimulatedLink
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._world import World
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import (
    HANDSHAKE,
    CoreMessage,
    CreateQueueV2,
    CreateSession,
    CreateSessionResponse,
    ExceptionResponse,
    FrameSplitter,
    NullResponse,
    Packet,
    SessionSend,
    SessionStart,
    decode_packet,
    encode_packet,
    frame_spans,
)

__all__ = ["PRIMARY", "StoreGroup", "Writer"]

PRIMARY = "primary"
_CHANNEL = 10
_VERSION = 136
_RETRY_S = 0.05
_PAUSE_S = 0.01
_CORRELATION = -7


def _letter(number: int) -> CoreMessage:
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    return CoreMessage.build(address="orders", durable=True, properties=properties, body=number.to_bytes(200, "big"))


class Writer:
    """Sends numbered durable messages, each when the last one is confirmed, to whichever broker lets it in."""

    def __init__(self, network: Network, brokers: Sequence[str]) -> None:
        self.name = "writer"
        self.network = network
        self.world = network.world
        self.brokers = brokers
        self.confirmed: list[int] = []
        self._last = 0
        self._turn = 0
        self._connections = 0
        self._link: SimulatedLink | None = None
        self._has_session = False
        self._splitter = FrameSplitter()
        network.world.after(0.0, self, "dial")

    # The network's side

    def on_event(self, event: object) -> None:
        if event == "write":
            if self._has_session:
                self._write()
            return
        self._connections += 1
        self.network.dial(self, self._connections, self.brokers[self._turn % len(self.brokers)], 1.0)
        self._turn += 1

    def on_dialed(self, connection: int, link: SimulatedLink) -> None:
        self._link, self._splitter = link, FrameSplitter()
        link.send(self, HANDSHAKE)
        session = f"session-{connection}"
        self._send(
            CreateSession(session, _CHANNEL, _VERSION, None, None, 102_400, False, True, True, -1, False, None), 1
        )

    def on_dial_failed(self, connection: int, reason: str) -> None:
        self.world.after(_RETRY_S, self, "dial")

    def on_written(self, connection: int, count: int) -> None:
        pass

    def on_closed(self, connection: int, reason: str) -> None:
        self._link = None
        self._has_session = False
        self.world.after(_RETRY_S, self, "dial")

    def on_bytes(self, connection: int, data: bytes) -> None:
        buffer, headers = self._splitter.feed(data)
        for start, end in frame_spans(headers):
            self._on_packet(decode_packet(buffer, start, end, _VERSION, False))

    # What it sends

    def _send(self, packet: Packet, channel: int = _CHANNEL) -> None:
        if self._link is not None:
            self._link.send(self, encode_packet(packet, channel, _VERSION))

    def _on_packet(self, packet: Packet) -> None:
        match packet:
            case CreateSessionResponse():
                self._has_session = True
                self._send(SessionStart())
                self._send(CreateQueueV2("orders", "orders", None, True, False, True, False, 1))
            case NullResponse(correlation):
                if correlation == _CORRELATION:
                    self.confirmed.append(self._last)
                self.world.after(_PAUSE_S, self, "write")
            case ExceptionResponse() if self._has_session:  # the queue is there already
                self._write()
            case ExceptionResponse():  # the journal is still being read
                if self._link is not None:
                    self._link.close(self)
                self.on_closed(0, "come back later")

    def _write(self) -> None:
        self._last += 1
        self._send(SessionSend(_letter(self._last), True, _CORRELATION))


class StoreGroup:
    """A primary and its backups. A run that breaks a promise ends in an AssertionError that names it."""

    def __init__(self, seed: int, backups: int = 1, **policies: HAPolicy) -> None:
        self.world = World(seed)
        self.random = Random(seed)
        self.network = Network(self.world)
        self.disk = SimulatedDisk()
        self.locks = SimulatedLocks()
        self.hosts: dict[str, NodeHost] = {}
        self.failovers: list[float] = []
        self.hits: dict[str, int] = {}
        names = [PRIMARY, *(f"backup-{number}" for number in range(1, backups + 1))]
        for name in names:
            policy = policies.get(
                name.replace("-", "_"), SharedStorePrimary() if name == PRIMARY else SharedStoreBackup()
            )
            config = BrokerConfig(name=name, ha_policy=policy, segment_size_bytes=64 * 1024)
            settings = JournalSettings(identity=7, segment_size_bytes=64 * 1024)
            host = self.hosts[name] = NodeHost(self.network, config, self.disk, settings, self.locks)
            host.after_step.append(self._check_one_has_the_journal)
            host.on_ready.append(lambda host=host: self._check_confirmed(host))  # type: ignore[misc]  # bound here
        self.writer = Writer(self.network, names)
        self._left_at: float | None = None

    # -- looking -------------------------------------------------------------------------------------------------

    def role(self, name: str) -> Role:
        node = self.hosts[name].node
        return node.role if node is not None else Role.STOPPED

    @property
    def roles(self) -> list[Role]:
        return [self.role(name) for name in self.hosts]

    @property
    def live(self) -> NodeHost | None:
        """The host that serves."""
        return next((host for host in self.hosts.values() if host.ready), None)

    def numbers_at(self, host: NodeHost) -> list[int]:
        """What the queue holds."""
        assert host.node is not None
        queue = host.node.kernel.address_manager.queues.get("orders")
        messages = [reference.message for reference in queue.backlog] if queue is not None else []
        return [int.from_bytes(message.body, "big") for message in messages if isinstance(message, CoreMessage)]

    # -- checkers ------------------------------------------------------------------------------------------------

    def _check_one_has_the_journal(self) -> None:
        having = [name for name in self.hosts if self.role(name) in (Role.ACTIVATING, Role.LIVE)]
        assert len(having) <= 1, f"{' and '.join(having)} have the journal at {self.world.now:.3f}"
        for name, host in self.hosts.items():
            assert not host.under_way or name in having, f"{name} works on the disk and is {self.role(name).value}"

    def _check_confirmed(self, host: NodeHost) -> None:
        numbers = self.numbers_at(host)
        missing = set(self.writer.confirmed) - set(numbers)
        assert not missing, f"{host.name} misses {sorted(missing)[:5]} of {len(self.writer.confirmed)} confirmed"
        assert numbers == sorted(set(numbers)), f"{host.name} has messages twice or out of order"
        if self._left_at is not None:
            self.failovers.append(self.world.now - self._left_at)
            self._left_at = None

    # -- driving -------------------------------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        for name in names:
            self.hosts[name].start()

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def run_until(self, name: str, role: Role, within_s: float = 10.0) -> None:
        end = self.world.now + within_s
        while self.role(name) is not role:
            assert self.world.now <= end, f"{name} is not {role.value} within {within_s} s but {self.role(name).value}"
            assert self.world.step()

    def crash(self, host: NodeHost) -> None:
        self._count("crash of the live" if host.ready else f"crash when {self.role(host.name).value}")
        if host.ready and any(self.role(name) is Role.BACKUP for name in self.hosts):
            self._left_at = self.world.now
        host.crash()

    def _count(self, what: str) -> None:
        self.hits[what] = self.hits.get(what, 0) + 1

    def disturb(self) -> None:
        """One fault, or one repair."""
        random = self.random
        host = random.choice(list(self.hosts.values()))
        if host.node is None:
            host.start()
        elif random.random() < 0.15:
            self._count("lock store away")
            self.locks.reachable = False
            self.run(random.uniform(0.0, 4.0))
            self.locks.reachable = True
        elif random.random() < 0.5:
            self.crash(self.live or host if random.random() < 0.5 else host)
            if random.random() < 0.3:
                self._crash_heir()
        else:
            fails_over = random.random() < 0.5
            self._count("stop that fails over" if fails_over else "orderly stop")
            host.stop(fails_over=fails_over)

    def _crash_heir(self) -> None:
        """The broker that takes over dies, too, while it reads the journal."""
        end = self.world.now + 0.2
        while self.world.now < end and self.world.step():
            for host in self.hosts.values():
                if host.recovering:
                    self.crash(host)
                    return

    def run_seed(self, disturbances: int = 25) -> None:
        """Faults in random order, then everything is repaired, and the primary must serve."""
        for _ in range(disturbances):
            self.run(self.random.choice((0.01, 0.1, 0.5, 2.0)))
            if self.live is not None and self.locks.holder(Lock.FAILBACK) is not None:
                self._count("a primary waits")
            self.disturb()
        self.run(6.0)  # every broker that is about to stop has stopped
        self.start(*(name for name, host in self.hosts.items() if host.node is None))
        self.run(5.0)
        assert self.roles == [Role.LIVE, *[Role.BACKUP] * (len(self.hosts) - 1)], self.roles
        before = len(self.writer.confirmed)
        self.run(1.0)
        assert len(self.writer.confirmed) > before, "the writer gets on"
        live = self.hosts[PRIMARY]
        self._check_confirmed(live)
