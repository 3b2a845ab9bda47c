"""Some brokers in one simulated world, and visitors that speak packets to them.

Responsible for starting brokers in a role and for keeping what visitors receive. Does not check anything itself.
"""

from __future__ import annotations

from typing import TypeVar

from attrs import evolve

from embedbroker.cluster import Member, Membership
from embedbroker.config import BrokerConfig, ClusterConnection, PrimaryOnly
from embedbroker.node import Node, Tick
from embedbroker.storage import JournalSettings
from embedbroker.testing._datagrams import SimulatedMulticast
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._locks import SimulatedLocks
from embedbroker.testing._network import Dialer, Network, SimulatedLink
from embedbroker.testing._node_host import MEMORY_LIMIT_BYTES, NodeHost
from embedbroker.testing._world import World
from embedclient.model import TransportConfiguration
from embedclient.wire.core import (
    HANDSHAKE,
    ClusterConnect,
    ClusterTopology,
    ClusterTopologyV2,
    ClusterTopologyV3,
    ClusterTopologyV4,
    FrameSplitter,
    Packet,
    SubscribeTopology,
    SubscribeTopologyV2,
    decode_packet,
    encode_packet,
    frame_spans,
)

__all__ = ["CREDENTIALS", "PORT", "Town", "Visitor", "connector"]

PORT = "61616"
CREDENTIALS = ClusterConnect("cluster", "secret")
TOPOLOGY = (ClusterTopology, ClusterTopologyV2, ClusterTopologyV3, ClusterTopologyV4)

P = TypeVar("P", bound=Packet)


def connector(name: str) -> TransportConfiguration:
    return TransportConfiguration(name, parameters={"host": name, "port": PORT})


class Visitor:
    """A client, or a peer that pretends to be a broker."""

    def __init__(self, network: Network, name: str, version: int, beginning: bytes = HANDSHAKE) -> None:
        self.name = name
        self.version = version
        self.received: list[tuple[int, Packet]] = []
        self.closed: str | None = None
        self._network = network
        self._link: SimulatedLink | None = None
        self._splitter = FrameSplitter()
        self._waiting = beginning

    # The network's side

    def on_dialed(self, connection: int, link: SimulatedLink) -> None:
        self._link = link
        link.send(self, self._waiting)

    def on_dial_failed(self, connection: int, reason: str) -> None:
        self.closed = reason

    def on_written(self, connection: int, count: int) -> None:
        pass

    def on_bytes(self, connection: int, data: bytes) -> None:
        buffer, headers = self._splitter.feed(data)
        for (_length, _type, channel), (start, end) in zip(headers, frame_spans(headers), strict=True):
            self.received.append((channel, decode_packet(buffer, start, end, self.version, False)))

    def on_closed(self, connection: int, reason: str) -> None:
        self.closed = reason

    # What it does and sees

    def send(self, packet: Packet, channel: int) -> None:
        self.send_bytes(encode_packet(packet, channel, self.version))

    def send_bytes(self, data: bytes) -> None:
        if self._link is None:
            self._waiting += data
        else:
            self._link.send(self, data)

    def leave(self) -> None:
        assert self._link is not None
        self._link.close(self)

    def packets(self, kind: type[P]) -> list[P]:
        return [packet for _, packet in self.received if isinstance(packet, kind)]

    def news(self) -> list[Packet]:
        """Every topology packet since the last time."""
        told: list[Packet] = [packet for _, packet in self.received if isinstance(packet, TOPOLOGY)]
        self.received = [entry for entry in self.received if not isinstance(entry[1], TOPOLOGY)]
        return told


class _Network(Network):
    """Record which broker dialled which other one."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.dialled: list[tuple[str, str]] = []

    def dial(self, dialer: Dialer, connection: int, name: str, timeout_s: float) -> None:
        self.dialled.append((dialer.name, name))
        super().dial(dialer, connection, name, timeout_s)


class Town:
    """Brokers named by single letters; each static list is a word of names."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.network = _Network(self.world)
        self.multicast = SimulatedMulticast(self.network)
        self.hosts: dict[str, NodeHost] = {}
        # Of brokers with a policy that shares them.
        self.disk = SimulatedDisk()
        self.locks = SimulatedLocks()

    def build(self, name: str, static: str = "", **changes: object) -> NodeHost:
        """A broker that is not started. ``topics``: with a second cluster connection, at the same acceptor."""
        # Bridges have tests of their own.
        said = {"max_hops": 0} | {key: changes.pop(key) for key in list(changes) if hasattr(ClusterConnection, key)}
        connection = ClusterConnection(connector=name, static_connectors=list(static), **said)  # type: ignore[arg-type]  # tests name real fields
        connections = [connection]
        if changes.pop("topics", False):
            connections = [
                evolve(connection, addresses=["orders"]),
                evolve(connection, name="topics", addresses=["news"]),
            ]
        values: dict[str, object] = {"cluster_user": "cluster", "cluster_password": "secret", **changes}
        config = BrokerConfig(
            name=name,
            connectors={each: f"tcp://{each}:{PORT}" for each in {name: 0, **dict.fromkeys(static)}},
            cluster_connections=connections,
            **values,  # type: ignore[arg-type]  # tests name real fields
        )
        shared = config.ha_policy != PrimaryOnly()
        disk, locks = (self.disk, self.locks) if shared else (SimulatedDisk(), None)
        settings = JournalSettings(identity=7, segment_size_bytes=64 * 1024)
        host = NodeHost(self.network, config, disk, settings, locks)
        host.multicast = self.multicast
        self.hosts[name] = host
        return host

    def start(self, name: str, static: str = "", **changes: object) -> NodeHost:
        """A live broker; returns when it serves."""
        host = self.hosts.get(name) or self.build(name, static, **changes)
        host.start()
        while not host.ready:
            assert self.world.step()
        return host

    def stand_by(self, name: str, static: str, node_id: str, **changes: object) -> NodeHost:
        """A broker that is the backup of a node id, and nothing else yet."""
        host = self.build(name, static, **changes)
        host.life += 1
        host.node = Node(host.config, self.world.entropy(), MEMORY_LIMIT_BYTES, host.settings)
        self.membership(name).now = self.world.instant
        self.membership(name).become_backup(node_id)
        host.step(Tick())
        return host

    def visit(self, name: str, *, version: int = 136, subscribe: bool = True) -> Visitor:
        """A peer of a broker, connected and with the members received."""
        visitor = Visitor(self.network, f"visitor {len(self.network.links)} of {name}", version)
        if subscribe:
            packet = SubscribeTopologyV2(False, version) if version >= 122 else SubscribeTopology(False)
            visitor.send(packet, 0)
        self.network.dial(visitor, 1, name, 1.0)
        self.run(0.1)
        return visitor

    def dials(self, name: str, to: str | None = None) -> int:
        """Return how often a broker has dialled another one, or any broker."""
        return sum(one == name and to in (None, other) for one, other in self.network.dialled)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def membership(self, name: str) -> Membership:
        node = self.hosts[name].node
        assert node is not None and node.cluster is not None
        return node.cluster

    def node_id(self, name: str) -> str:
        node = self.hosts[name].node
        assert node is not None
        return node.node_id

    def member(self, name: str, of: str) -> Member:
        """The entry of another broker in the topology of one, by its node id."""
        return self.membership(name).topology.members[self.node_id(of)]

    def known(self, name: str) -> dict[str | None, str | None]:
        """The members in the topology of a broker: names of lives, with the names of their backups."""
        members = self.membership(name).topology.members.values()
        return {
            member.live.name if member.live else None: member.backup.name if member.backup else None
            for member in members
        }
