"""A cluster of two real Artemis nodes and one of ours: whatever is sent at one of them reaches consumers at all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from embedbroker import AddressConfiguration, ClusterConnection, EmbeddedBroker, QueueConfiguration, ThreadedBroker
from embedbroker.config import MessageLoadBalancing
from embedclient import ConnectionFactory, MessageConsumer, Queue, Session, TextMessage, Topic
from tests.interop.artemis import READY, ArtemisBroker, free_port

SECONDS_MAX = 30
pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
USER, PASSWORD = "cluster-user", "cluster-password"
QUEUES = ("strict",)
NOTES = Topic("activemq.notifications")


@attrs.define
class Three:
    """Two Artemis nodes, and ours, which knows them by static connectors."""

    artemis: dict[str, ArtemisBroker]
    ours: ThreadedBroker

    @property
    def urls(self) -> Mapping[str, str]:
        """Places of all nodes by their names."""
        return {name: broker.url for name, broker in self.artemis.items()} | {"ours": self.ours.url}


def artemis_node(directory: Path, name: str, how: str, ports: Mapping[str, int]) -> ArtemisBroker:
    others = ",".join(f"tcp://127.0.0.1:{port}" for other, port in ports.items() if other != name)
    words = f"--name {name} --static-cluster {others} --max-hops 1 --message-load-balancing {how}"
    words += f" --clustered --cluster-user {USER} --cluster-password {PASSWORD} --queues {','.join(QUEUES)}"
    return ArtemisBroker(directory / name, memory="256M", port=ports[name], options=words.split())


def our_node(directory: Path, how: str, ports: Mapping[str, int]) -> ThreadedBroker:
    others = {name: f"tcp://127.0.0.1:{port}" for name, port in ports.items() if name != "ours"}
    return EmbeddedBroker.in_thread(
        name="ours",
        port=ports["ours"],
        data_directory=directory / "ours",
        addresses={name: AddressConfiguration(anycast={name: QueueConfiguration()}) for name in QUEUES},
        connectors=others,
        cluster_connections=ClusterConnection(
            static_connectors=tuple(others), message_load_balancing=MessageLoadBalancing(how), retry_interval_ms=100
        ),
        cluster_user=USER,
        cluster_password=PASSWORD,
    )


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    directory = tmp_path_factory.mktemp("three")
    ports = {name: free_port() for name in ("a", "b", "ours")}
    nodes = {"a": artemis_node(directory, "a", "STRICT", ports), "b": artemis_node(directory, "b", "STRICT", ports)}
    try:
        with our_node(directory, "STRICT", ports) as broker:
            for node in nodes.values():
                node.launch()
            for node in nodes.values():
                node.wait_for(READY)
            yield Three(nodes, broker)
    finally:
        for node in nodes.values():
            node.kill()


# -- what a test asks the nodes ----------------------------------------------------------------------------------------


@asynccontextmanager
async def sessions(urls: Mapping[str, str]) -> AsyncIterator[Mapping[str, Session]]:
    """One session of each node."""
    async with AsyncExitStack() as open_ones:
        found = {}
        for name, url in urls.items():
            factory = ConnectionFactory(url, user="admin", password="admin")
            connection = await open_ones.enter_async_context(factory.connect())
            found[name] = await open_ones.enter_async_context(connection.session())
        yield found


async def attribute(session: Session, resource: str, name: str) -> Any:
    """Read an attribute over management."""
    replies = await session.create_temporary_queue()
    async with session.create_consumer(replies) as consumer:
        properties = {"_AMQ_ResourceName": resource, "_AMQ_Attribute": name}
        request = TextMessage("[]", reply_to=replies, properties=properties)
        await session.create_producer(Queue("activemq.management")).send(request)
        reply = await consumer.receive(timeout=SECONDS_MAX)
    assert isinstance(reply, TextMessage)
    return (json.loads(reply.text) if reply.text else [None])[0]


async def formed(nodes: Mapping[str, Session], queue: str) -> None:
    """Wait until each node has a remote queue of each other one."""
    for session in nodes.values():
        async with session.create_consumer(NOTES, "_AMQ_NotifType = 'BINDING_ADDED'") as added:
            while len(await attribute(session, f"address.{queue}", "RemoteQueueNames")) != len(nodes) - 1:
                assert await added.receive(timeout=SECONDS_MAX) is not None


async def send(session: Session, queue: str, texts: Sequence[str]) -> None:
    producer = session.create_producer(Queue(queue))
    for text in texts:
        await producer.send(text)


async def texts_of(consumer: MessageConsumer, count: int) -> list[str]:
    """Receive that many messages."""
    found: list[str] = []
    for _ in range(count):
        message = await consumer.receive(timeout=SECONDS_MAX)
        assert isinstance(message, TextMessage), found
        found.append(message.text or "")
    return found


# -- tests -------------------------------------------------------------------------------------------------------------


async def test_each_node_spreads_what_it_gets_evenly_over_all(three: Three) -> None:
    async with sessions(three.urls) as nodes, AsyncExitStack() as consumers:
        await formed(nodes, "strict")
        for name, session in nodes.items():
            await send(session, "strict", [f"{name} {number}" for number in range(30)])
        for session in nodes.values():
            consumer = await consumers.enter_async_context(session.create_consumer(Queue("strict")))
            found = await texts_of(consumer, 30)
            assert Counter(text.split()[0] for text in found) == {"a": 10, "b": 10, "ours": 10}
            for name in nodes:
                numbers = [int(text.split()[1]) for text in found if text.startswith(f"{name} ")]
                assert numbers == sorted(numbers)
            assert await consumer.receive(timeout=0.1) is None
