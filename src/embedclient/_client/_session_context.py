"""The state that a JMS session shares with its producers, consumers, browsers and listeners.

Responsible for requests that one task at a time makes, and for destinations that were looked up already. Does not
depend on the classes that use it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from embedclient.agent import Call, Delivery, LocatorSettings, SessionMode
from embedclient.agent import Consumer as AgentConsumer
from embedclient.agent import Session as AgentSession
from embedclient.errors import ConnectionClosedException, InvalidDestinationException
from embedclient.model import Destination, Entropy, RoutingType, TemporaryQueue, TemporaryTopic, make_uuid, uuid_text

from ._destinations import ResolvedDestination, place_of
from ._edge import Edge
from ._endings import Endings
from ._inbox import OneTask
from ._message_ids import MessageIds
from ._ownership import own

T = TypeVar("T")
_PREPARED_MAX = 1_000


class SessionContext:
    """A session's shared state. Its messages contain `connection_id`, by which `no_local` consumers leave them out."""

    def __init__(
        self,
        edge: Edge,
        agent_session: AgentSession,
        mode: SessionMode,
        settings: LocatorSettings,
        entropy: Entropy,
        connection_id: str,
        temporaries: set[str],
        delete_temporary: Callable[[TemporaryQueue | TemporaryTopic], Awaitable[None]],
    ) -> None:
        self.edge = edge
        self.agent_session = agent_session
        self.mode = mode
        self.settings = settings
        self.entropy = entropy
        self.connection_id = connection_id
        # Addresses of the temporary destinations that the connection made; all its sessions share this set.
        self.temporaries = temporaries
        self.delete_temporary = delete_temporary
        self.call_timeout_s = settings.call_timeout_ms / 1000
        self.endings = Endings(edge, self.call_timeout_s)
        self.one_task = OneTask("the session")
        self.message_ids = MessageIds(entropy)
        # Destinations that were looked up or created already; a dict, because it forgets the oldest first.
        self.prepared: dict[Destination, None] = {}

    def group_of_new_producer(self) -> str | None:
        """Return the group id for the messages of a new producer, from the settings."""
        if self.settings.auto_group and self.settings.group_id is None:
            return self.random_name()
        return self.settings.group_id

    def random_name(self) -> str:
        return uuid_text(make_uuid(self.entropy, self.edge.now()))

    async def request(self, send_request: Callable[[], Call[T]]) -> T:
        """Make one request and return its answer."""
        with self.one_task:
            await self.edge.pause()
            return await self.edge.wait(send_request())

    async def open_consumer(self, send_request: Callable[[], Call[AgentConsumer]]) -> AgentConsumer:
        """Request a consumer. It is closed again if the caller was cancelled."""
        with self.one_task:
            await self.edge.pause()
            return await own(self.edge, send_request())

    async def prepare(self, destination: Destination) -> None:
        """Look a destination up once, and create what is missing (core-protocol 8, createProducer).

        A temporary destination of another connection is never created.
        """
        if destination in self.prepared:
            return
        place = place_of(destination)
        if destination.is_temporary:
            own = place.address in self.temporaries
            await self.request(
                lambda: self.agent_session.destinations.prepare_temporary(
                    place.address, destination.routing_type, own=own
                )
            )
        else:
            await self.request(
                lambda: self.agent_session.destinations.prepare_destination(
                    place.address, destination.routing_type, place.attributes, queue=_queue_of(destination, place)
                )
            )
        while len(self.prepared) >= _PREPARED_MAX:
            del self.prepared[next(iter(self.prepared))]
        self.prepared[destination] = None

    def forget_temporaries(self) -> None:
        """Forget the temporary destinations, so that the next send looks them up again: one of them may be deleted."""
        for destination in [each for each in self.prepared if each.is_temporary]:
            del self.prepared[destination]

    def check_consumable(self, destination: Destination) -> None:
        """Raise InvalidDestinationException for a temporary destination of another connection.

        Only the connection that made it may consume from it; every connection may send to it. The broker does not
        enforce this: Artemis' client, too, checks the names that its connection made.
        """
        if destination.is_temporary and place_of(destination).address not in self.temporaries:
            raise InvalidDestinationException(f"{destination} is no temporary destination of this connection")

    def check_open(self) -> None:
        if self.agent_session.over:
            raise self.agent_session.closed_error or ConnectionClosedException("the session is closed")

    async def acknowledge(self, delivery: Delivery) -> None:
        """Perform `message.acknowledge()`. On a closed session it raises in every mode, as JMS requires."""
        with self.one_task:
            await self.edge.pause()
            self.check_open()
            if self.mode in (SessionMode.CLIENT, SessionMode.INDIVIDUAL):
                await self.endings.commit(lambda: self.agent_session.acknowledge(delivery))


def _queue_of(destination: Destination, place: ResolvedDestination) -> str | None:
    """Return the queue that must exist before a send: queues have one, topics only if fully qualified."""
    if destination.routing_type is RoutingType.ANYCAST:
        return place.queue or place.address
    return place.queue
