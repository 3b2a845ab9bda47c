"""What one broker more costs a cluster: bytes and packets on the wires between its brokers, and memory.

All brokers are in this process, in virtual time, and their connections are pipes in memory on which frames are counted.
So the figures are exact, and those of packets are the same in each run.
"""

from __future__ import annotations

import gc
import logging
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

import trio
from attrs import Factory, asdict, define, frozen
from trio.testing import MockClock

from benchmarks.report import Row
from embedbroker import AddressConfiguration, EmbeddedBroker, QueueConfiguration
from embedbroker.config import BrokerConfig, ClusterConnection
from embedbroker.runtime._embedded import life_of
from embedclient.model import TransportConfiguration
from embedclient.transport import ByteStream, Listener, vm_connect, vm_listen
from embedclient.transport._stream import Buffer
from embedclient.wire.core import FrameSplitter
from embedclient.wire.core._packet_type import PacketType

TOPOLOGY, NOTIFICATIONS, CONNECTIONS = "topology", "notifications", "connections"
KINDS = (TOPOLOGY, NOTIFICATIONS, CONNECTIONS)
_KIND_OF = {
    PacketType.NODE_ANNOUNCE: TOPOLOGY,
    PacketType.SUBSCRIBE_TOPOLOGY: TOPOLOGY,
    PacketType.SUBSCRIBE_TOPOLOGY_V2: TOPOLOGY,
    PacketType.CLUSTER_TOPOLOGY: TOPOLOGY,
    PacketType.CLUSTER_TOPOLOGY_V2: TOPOLOGY,
    PacketType.CLUSTER_TOPOLOGY_V3: TOPOLOGY,
    PacketType.CLUSTER_TOPOLOGY_V4: TOPOLOGY,
    # Nothing else is sent and received between brokers without clients.
    PacketType.SESS_SEND: NOTIFICATIONS,
    PacketType.SESS_RECEIVE_MSG: NOTIFICATIONS,
}
# Long enough for all attempts and repetitions.
_SETTLED_S = 4.0
_ALL_PING_S = 65.0
#: Growth per member that still counts as none.
LINEAR_MAX = 1.2


@define
class Traffic:
    """Packets and bytes by what they are for."""

    packets: Counter[str] = Factory(Counter)
    size: Counter[str] = Factory(Counter)

    def clear(self) -> None:
        """Begin to count anew."""
        self.packets.clear()
        self.size.clear()


class _Direction:
    """Count the frames that go one way on one pipe. Brokers send each other no handshake before the first."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._splitter = FrameSplitter()

    def count(self, data: bytes) -> None:
        for length, kind, _ in self._splitter.feed(data)[1]:
            what = _KIND_OF.get(PacketType(kind), CONNECTIONS)
            self._traffic.packets[what] += 1
            self._traffic.size[what] += length + 4


class _CountedStream:
    """The end of a pipe at the broker that dialled, where what goes either way is counted."""

    def __init__(self, stream: ByteStream, traffic: Traffic) -> None:
        self.peer = stream.peer
        self._stream = stream
        self._sent = _Direction(traffic)
        self._received = _Direction(traffic)

    def send_nowait(self, data: Buffer) -> int:
        count = self._stream.send_nowait(data)
        self._sent.count(bytes(memoryview(data)[:count]))
        return count

    async def wait_writable(self) -> None:
        await self._stream.wait_writable()

    async def receive(self, max_bytes: int) -> bytes:
        data = await self._stream.receive(max_bytes)
        self._received.count(data)
        return data

    def close(self) -> None:
        self._stream.close()


class _CountedNetwork:
    """The network of one broker: names of this trio run."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    async def listen(self, config: BrokerConfig) -> list[Listener]:
        await trio.lowlevel.checkpoint()
        return [vm_listen(config.name)]

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        await trio.lowlevel.checkpoint()
        return _CountedStream(vm_connect(str(connector.parameters["serverId"])), self._traffic)


@frozen
class Join:
    """What the last of ``members`` brokers cost when it joined.

    Attributes:
        members: Brokers of the cluster with it.
        packets: Packets between all brokers, by what they are for.
        size: Bytes of those packets.
        memory_per_member: Bytes that one broker needs for one other, of both directions.
    """

    members: int
    packets: dict[str, int]
    size: dict[str, int]
    memory_per_member: float


def _broker(number: int, traffic: Traffic, *, searches: bool = True) -> EmbeddedBroker:
    others = {"first": "vm://node-0"} if number and searches else {}
    return EmbeddedBroker(
        name=f"node-{number}",
        network=_CountedNetwork(traffic),
        connectors={"own": f"vm://node-{number}", **others},
        cluster_connections=(ClusterConnection(connector="own", static_connectors=tuple(others)),),
        cluster_user="user",
        cluster_password="password",
        addresses={"orders": AddressConfiguration(anycast={"orders": QueueConfiguration()})},
    )


async def _joined(members: int) -> Join:
    traffic = Traffic()
    async with AsyncExitStack() as stack:
        brokers = [await stack.enter_async_context(_broker(number, traffic)) for number in range(members - 1)]
        await trio.sleep(_SETTLED_S)
        # From here on: tracing slows everything down, and the other brokers are of no interest.
        tracemalloc.start()
        # A ping on each connection: what a wait allocates anew is no growth.
        await trio.sleep(_ALL_PING_S)
        gc.collect()
        idle = tracemalloc.get_traced_memory()[0]
        async with _broker(members, traffic, searches=False):
            gc.collect()
            alone = tracemalloc.get_traced_memory()[0] - idle
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        traffic.clear()
        brokers.append(await stack.enter_async_context(_broker(members - 1, traffic)))
        await trio.sleep(_SETTLED_S)
        packets, size = dict(traffic.packets), dict(traffic.size)
        gc.collect()
        # The new broker has all others, and each of them has the new one.
        per_member = (tracemalloc.get_traced_memory()[0] - before - alone) / (2 * (members - 1))
        tracemalloc.stop()
        assert all(_bindings(broker) == members - 1 for broker in brokers)
        return Join(members, packets, size, per_member)


def _bindings(broker: EmbeddedBroker) -> int:
    kernel = life_of(broker).host.node.kernel
    return sum(each.is_connected and each.queue_name == "orders" for each in kernel.address_manager.resolution.remote)


def join(members: int) -> Join:
    """Start a cluster, and return what its last broker cost."""
    clock = MockClock(autojump_threshold=0)
    return trio.run(_joined, members, clock=clock, restrict_keyboard_interrupt_to_checkpoints=True)


def rows_of(joins: Sequence[Join]) -> list[Row]:
    """Return, for each larger cluster, what one broker has to do with one member, beside the smallest cluster.

    Each broker sends news of the new one to all others, so what one broker sends and receives is linear in the members
    if this stays the same. The details have the sums over all brokers.
    """
    first = joins[0]
    details: dict[str, object] = {str(each.members): asdict(each) for each in joins}
    figures: list[tuple[str, Callable[[Join], float]]] = [
        (f"{what} of {kind} per join, broker and member", partial(_share, kind, what))
        for kind in KINDS
        for what in ("bytes", "packets")
    ]
    figures.append(("memory per member", lambda found: found.memory_per_member))
    return [
        Row(
            "cluster",
            f"{what}: {each.members} beside {first.members} members",
            "bytes" if "packets" not in what else "",
            figure(each),
            figure(first),
            "lower",
            None if CONNECTIONS in what else LINEAR_MAX,
            details=details,
        )
        for what, figure in figures
        for each in joins[1:]
    ]


def _share(kind: str, what: str, found: Join) -> float:
    return (found.size if what == "bytes" else found.packets)[kind] / found.members**2


def main(sizes: Sequence[int]) -> None:
    """Print a line of the table in docs/performance.md for each size."""
    logging.disable(logging.WARNING)  # each broker warns of the default password, and of those that it misses
    for members in sizes:
        begun = time.process_time()
        found = join(members)
        both = [f"{found.packets[kind]:,}; {found.size[kind] / 1024:,.0f}" for kind in (TOPOLOGY, NOTIFICATIONS)]
        share = _share(TOPOLOGY, "packets", found) + _share(NOTIFICATIONS, "packets", found)
        memory = f"{found.memory_per_member / 1000:.0f} KB"
        print(f"| {members} | {' | '.join(both)} | {share:.1f} | {memory} |", f"{time.process_time() - begun:.0f} s")


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]])
