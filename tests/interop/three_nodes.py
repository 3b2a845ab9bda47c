"""Clusters of two real Artemis nodes and one of ours: their configuration, and what tests read from each node alike.

It does not depend on what is sent through them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import define

from embedbroker import (
    AddressConfiguration,
    AddressSettings,
    EmbeddedBroker,
    GroupingHandlerConfig,
    GroupingHandlerType,
    QueueConfiguration,
    ThreadedBroker,
)
from embedclient import ConnectionFactory, MessageConsumer, Queue, Session, TextMessage, Topic
from tests.interop.artemis import READY, ArtemisBroker

SECONDS_MAX = 45
USER, PASSWORD = "cluster-user", "cluster-password"
NOTES = Topic("activemq.notifications")
#: Queues of every node. Messages of those called "moved" leave a node as soon as consumers are elsewhere only.
QUEUES = ("orders", "moved", "moved.java", "grouped")
_MOVES = "<address-setting match='moved.#'><redistribution-delay>0</redistribution-delay></address-setting>"
_HANDLER = "<grouping-handler name='groups'><type>{}</type><timeout>5000</timeout></grouping-handler>"


@define
class Three:
    """The nodes by name; the one of ours is `ours`."""

    artemis: Mapping[str, ArtemisBroker]
    ours: ThreadedBroker
    ports: Mapping[str, int]

    @property
    def urls(self) -> dict[str, str]:
        """Places of all nodes by their names."""
        return {name: f"tcp://127.0.0.1:{port}" for name, port in self.ports.items()}

    def replace_ours(self, broker: ThreadedBroker) -> None:
        """Stop ours, and start another one in its place."""
        self.ours.__exit__(None, None, None)
        self.ours = broker
        self.ours.__enter__()


def artemis_node(
    directory: Path, name: str, port: int, words: str, *, groups: str, changes: Mapping[str, str]
) -> ArtemisBroker:
    """A node that is not started yet; `words` are further ones of `artemis create`, `groups` is its part in groups."""
    words = f"--name {name} --max-hops 1 --queues {','.join(QUEUES)} {words}"
    words += f" --clustered --cluster-user {USER} --cluster-password {PASSWORD}"
    handler = _HANDLER.format(groups)
    changes = {
        "<address-settings>": f"<address-settings>{_MOVES}",
        "</cluster-connections>": f"</cluster-connections>{handler}",
        **changes,
    }
    return ArtemisBroker(directory / name, memory="256M", port=port, options=words.split(), changes=changes)


def our_node(
    directory: Path, port: int, *, groups: GroupingHandlerType, name: str = "ours", **settings: Any
) -> ThreadedBroker:
    """A node that is not started yet."""
    return EmbeddedBroker.in_thread(
        name=name,
        port=port,
        data_directory=directory / "ours",
        addresses={name: AddressConfiguration(anycast={name: QueueConfiguration()}) for name in QUEUES},
        address_settings={"moved.#": AddressSettings(redistribution_delay_ms=0)},
        grouping_handler=GroupingHandlerConfig("groups", groups),
        cluster_user=USER,
        cluster_password=PASSWORD,
        **settings,
    )


@contextmanager
def running(three: Three) -> Iterator[Three]:
    """Start all nodes, of Artemis both at once."""
    try:
        three.ours.__enter__()
        for node in three.artemis.values():
            node.launch()
        for node in three.artemis.values():
            node.wait_for(READY)
        yield three
    finally:
        three.ours.__exit__(None, None, None)
        for node in three.artemis.values():
            node.kill()


# -- what a test reads and sends ---------------------------------------------------------------------------------------


@asynccontextmanager
async def sessions(urls: Mapping[str, str]) -> AsyncIterator[dict[str, Session]]:
    """One session of each node."""
    async with AsyncExitStack() as stack:
        found: dict[str, Session] = {}
        for name, url in urls.items():
            factory = ConnectionFactory(url, user="admin", password="admin")
            connection = await stack.enter_async_context(factory.connect())
            found[name] = await stack.enter_async_context(connection.session())
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


async def formed(nodes: Mapping[str, Session], queues: Sequence[str] = QUEUES) -> None:
    """Wait until each node has the queues of each other one, and of no more."""
    wanted = len(nodes) - 1
    addresses = ", ".join(f"'{queue}'" for queue in queues)
    for name, session in nodes.items():
        # Without the selector, each request would be followed by notes about the queue for its reply.
        selector = f"_AMQ_NotifType LIKE 'BINDING_%' AND _AMQ_Address IN ({addresses})"
        async with session.create_consumer(NOTES, selector) as changes:
            for queue in queues:
                deadline = trio.current_time() + SECONDS_MAX
                while len(found := await attribute(session, f"address.{queue}", "RemoteQueueNames")) != wanted:
                    await changes.receive(timeout=max(0.0, deadline - trio.current_time()))
                    assert trio.current_time() < deadline, f"{name} has not {wanted} other queues {queue}, but {found}"


@asynccontextmanager
async def consumers(
    nodes: Mapping[str, Session], queue: str, at: Collection[str]
) -> AsyncIterator[dict[str, MessageConsumer]]:
    """Consumers at some nodes, of which all nodes know; all of them know of their end afterwards."""
    kinds = "_AMQ_NotifType IN ('CONSUMER_CREATED', 'CONSUMER_CLOSED')"
    selector = f"{kinds} AND _AMQ_Distance = 1 AND _AMQ_RoutingName = '{queue}'"
    async with AsyncExitStack() as stack:
        notes = {
            name: await stack.enter_async_context(session.create_consumer(NOTES, selector))
            for name, session in nodes.items()
        }
        async with AsyncExitStack() as open_ones:
            found = {
                name: await open_ones.enter_async_context(nodes[name].create_consumer(Queue(queue))) for name in at
            }
            await _heard(notes, "CONSUMER_CREATED", at)
            yield found
        await _heard(notes, "CONSUMER_CLOSED", at)


async def _heard(notes: Mapping[str, MessageConsumer], kind: str, at: Collection[str]) -> None:
    for name, consumer in notes.items():
        for _ in set(at) - {name}:
            note = await consumer.receive(timeout=SECONDS_MAX)
            assert note is not None, (name, kind)
            assert note.properties["_AMQ_NotifType"] == kind


async def send(session: Session, queue: str, texts: Sequence[str], group: str | None = None) -> None:
    """Send durable messages, all of one group if one is given."""
    producer = session.create_producer(Queue(queue))
    for text in texts:
        await producer.send(TextMessage(text, properties={"JMSXGroupID": group} if group else {}))


async def texts_of(consumer: MessageConsumer, count: int) -> list[str]:
    """Receive that many messages."""
    found: list[str] = []
    for _ in range(count):
        message = await consumer.receive(timeout=SECONDS_MAX)
        assert isinstance(message, TextMessage), found
        found.append(message.text or "")
    return found


async def received(at: Mapping[str, MessageConsumer], count: int) -> dict[str, list[str]]:
    """Receive that many messages, from wherever they come, and no more."""
    found: dict[str, list[str]] = {name: [] for name in at}
    complete = trio.Event()

    async def take(name: str) -> None:
        while True:
            message = await at[name].receive()
            assert isinstance(message, TextMessage)
            found[name].append(message.text or "")
            if sum(map(len, found.values())) == count:
                complete.set()

    async with trio.open_nursery() as nursery:
        for name in at:
            nursery.start_soon(take, name)
        with trio.move_on_after(SECONDS_MAX):
            await complete.wait()
        nursery.cancel_scope.cancel()
    assert complete.is_set(), found
    for name, consumer in at.items():
        assert await consumer.receive(timeout=0.05) is None, name
    return found


async def large_messages_go(nodes: Mapping[str, Session], source: str, target: str) -> None:
    """Send large messages of both types with a small one among them: to a consumer elsewhere, and before it is there.

    The source forwards with ON_DEMAND.
    """
    bodies: list[str | bytes] = [bytes([65 + number]) * 350_000 for number in range(3)]
    bodies += [b"small", "é" * 300_000, "t" * 200_000]
    for queue, is_first in (("orders", False), ("moved", True)):
        producer = nodes[source].create_producer(Queue(queue))
        for body in bodies if is_first else ():
            await producer.send(body)
        async with consumers(nodes, queue, [target]) as found:
            for body in () if is_first else bodies:
                await producer.send(body)
            for body in bodies:
                message = await found[target].receive(timeout=SECONDS_MAX)
                assert message is not None and message.body == body, (source, target, queue)


async def each_group_on_one_node(three: Three) -> None:
    """Send messages of groups at every node, and find those of a group in one place; all nodes have some."""
    groups = [f"g{number}" for number in range(9)]
    async with sessions(three.urls) as nodes:
        await formed(nodes)
        for name, session in [*nodes.items(), *reversed(nodes.items())]:
            for group in groups:
                await send(session, "grouped", [f"{group} {name}"], group)
        async with consumers(nodes, "grouped", nodes) as found:
            got = await received(found, len(groups) * len(nodes) * 2)
    places = {
        group: {name for name, texts in got.items() if any(text.startswith(f"{group} ") for text in texts)}
        for group in groups
    }
    assert all(len(names) == 1 for names in places.values()), places
    assert set.union(*places.values()) == set(nodes), places
