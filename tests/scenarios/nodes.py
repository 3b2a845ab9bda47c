"""What clients do at the nodes of a cluster again and again: queues, consumers, and numbered messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeAlias

import trio

from embedbroker.pytest_plugin import BrokerCluster
from embedclient import ClientConsumer, ClientSession, RoutingType, ServerLocator
from embedclient.errors import UnblockedException
from embedclient.model import PropertyType

__all__ = ["ADDRESS", "Client", "MakeCluster", "clients_of", "drained", "forwarded", "pass_time", "received", "turns"]

MakeCluster: TypeAlias = Callable[..., BrokerCluster]

ADDRESS = "queues.testaddress"
#: Of virtual time: no message takes so long from one node to another.
_LONG_S = 0.5


class Client:
    """A client of one node, with a core session."""

    def __init__(self, session: ClientSession, body_bytes: int = 0) -> None:
        self.session = session
        self._body_bytes = body_bytes

    async def queues(
        self,
        *names: str,
        filter: str | None = None,
        address: str = ADDRESS,
        routing_type: RoutingType = RoutingType.MULTICAST,
        durable: bool = True,
    ) -> None:
        """Create queues of one address."""
        for name in names:
            await self.session.create_queue(address, name, routing_type, filter=filter, durable=durable)

    async def consumer(self, queue: str, filter: str | None = None) -> ClientConsumer:
        return await self.session.create_consumer(queue, filter=filter)

    async def send(
        self, first: int, end: int, *, address: str = ADDRESS, is_multicast: bool = False, **properties: str | int
    ) -> None:
        """Send numbered messages, each when the one before it is confirmed."""
        producer = self.session.create_producer(address)
        for number in range(first, end):
            message = self.session.create_message(str(number).encode().ljust(self._body_bytes), durable=True)
            message.properties["n"] = number
            for name, value in properties.items():
                message.properties[name] = value
            if is_multicast:
                message.properties.set("_AMQ_ROUTING_TYPE", RoutingType.MULTICAST.value, PropertyType.BYTE)
            await producer.send(message)
        await producer.close()


@asynccontextmanager
async def clients_of(
    cluster: BrokerCluster, nodes: Sequence[int] | None = None, *, large: bool = False
) -> AsyncIterator[list[Client]]:
    """A client at each node, or at some; perhaps one whose messages are large, with bodies in chunks."""
    options = f"blockOnAcknowledge=true{'&minLargeMessageSize=400' if large else ''}"
    async with AsyncExitStack() as stack:
        clients = []
        for index in range(len(cluster.nodes)) if nodes is None else nodes:
            url = (cluster.pairs or cluster.nodes)[index].url
            locator = ServerLocator(f"{url}{'&' if '?' in url else '?'}{options}")
            factory = await stack.enter_async_context(locator.create_session_factory())
            session = await stack.enter_async_context(factory.create_session(ack_batch_size=0))
            await session.start()
            clients.append(Client(session, 1_000 if large else 0))
        yield clients


async def received(consumer: ClientConsumer) -> list[int]:
    """The numbers of all messages that a consumer gets, until none comes any more."""
    found = []
    while (message := await consumer.receive(timeout=_LONG_S)) is not None:
        number = message.properties["n"]
        assert isinstance(number, int)
        found.append(number)
        # After a failover the acknowledgement of what the broker before delivered has no answer.
        with suppress(UnblockedException):
            await message.acknowledge()
    return found


async def drained(client: Client, queue: str, filter: str | None = None) -> list[int]:
    """The numbers of all messages that a new consumer of a queue gets."""
    consumer = await client.consumer(queue, filter)
    found = await received(consumer)
    await consumer.close()
    return found


async def forwarded(cluster: BrokerCluster, node: int) -> int:
    """The number of messages that a node forwarded to others, all of them confirmed."""
    management = cluster.nodes[node].broker.management
    assert await management.get("clusterconnection.cluster", "MessagesPendingAcknowledgement") == 0
    found = await management.get("clusterconnection.cluster", "MessagesAcknowledged")
    assert isinstance(found, int)
    return found


async def pass_time(seconds: float) -> None:
    """Let virtual time pass, with everything that is due in it."""
    await trio.sleep_until(trio.current_time() + seconds)


def turns(count: int, of: int) -> list[list[int]]:
    """The numbers 0 to ``count`` dealt out in turn, in order of the first of each."""
    return [list(range(first, count, of)) for first in range(of)]
