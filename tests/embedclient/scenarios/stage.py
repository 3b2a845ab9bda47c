"""A simulated pair and one client that a test moves by hand: a call at a time, a crash where the test has one."""

from __future__ import annotations

from typing import TypeVar

from embedclient.agent import Agent, Call, Consumer, LocatorSettings, Producer, Session, SessionMode
from embedclient.errors import JMSException
from embedclient.model import Properties, PropertyType, RoutingType
from embedclient.wire.core import CoreMessage, MessageType, encode_text
from tests.embedclient.agent.node_pair import text_of
from tests.embedclient.agent.simulated_pair import FAILING_OVER, PairClient, SimulatedPair

PATIENCE_S = 60.0
QUEUE = "queue"

T = TypeVar("T")


def message(text: str, *, durable: bool = True, identity: str | None = None, address: str = QUEUE) -> CoreMessage:
    properties = Properties({} if identity is None else {"_AMQ_DUPL_ID": identity})
    properties.set("_AMQ_ROUTING_TYPE", RoutingType.ANYCAST, PropertyType.BYTE)
    return CoreMessage.build(
        type=MessageType.TEXT, address=address, durable=durable, properties=properties, body=encode_text(text)
    )


class Stage(SimulatedPair):
    """What the scenarios of the catalogue begin with: a live broker, its backup, a client and a queue."""

    def __init__(self, settings: LocatorSettings = FAILING_OVER, seed: int = 1) -> None:
        super().__init__(seed)
        self.settings = settings
        self.host = PairClient(self.network, "client", settings)

    @property
    def agent(self) -> Agent:
        return self.host.agent()

    def go(self, seconds: float) -> None:
        """Time passes."""
        self.host.flush()
        self.run(seconds)

    def finish(self, call: Call[T]) -> T:
        """The outcome of a call, when it is there."""
        end = self.world.now + PATIENCE_S
        while not call.done:
            assert self.world.now < end, "the call does not end"
            self.go(0.005)
        return call.value()

    def failure(self, call: Call[T]) -> JMSException:
        """The error of a call that has to fail."""
        try:
            self.finish(call)
        except JMSException as error:
            return error
        raise AssertionError("the call succeeded")

    def crash(self) -> None:
        """The live broker is gone, the backup takes over, and the client has followed it when this returns."""
        failovers = self.host.failovers + self.host.reattachments
        self.fail_over()
        while self.host.failovers + self.host.reattachments == failovers:
            self.go(0.005)

    def session(self, mode: SessionMode = SessionMode.AUTO, *, xa: bool = False) -> Session:
        session = self.finish(self.agent.create_session_for(mode, xa=xa))
        self.finish(session.start())
        self.finish(session.destinations.prepare_destination(QUEUE, RoutingType.ANYCAST))
        return session

    def consumer(self, session: Session, queue: str = QUEUE) -> Consumer:
        return self.finish(session.destinations.open_queue_consumer(queue))

    def send(self, producer: Producer, *texts: str) -> None:
        for text in texts:
            self.finish(producer.send(message(text, address=producer.address or QUEUE)))

    def receive(self, session: Session, consumer: Consumer) -> list[str | None]:
        """Everything there is for the consumer, taken as its mode does."""
        texts: list[str | None] = []
        while True:
            delivery = consumer.next(self.world.instant)
            if delivery is None:
                consumer.want()
                self.finish(consumer.force_delivery())
                delivery = consumer.next(self.world.instant)
                if delivery is None:
                    consumer.give_up()
                    return texts
            texts.append(text_of(delivery))
            self.finish(session.consumed(delivery))

    def left(self, queue: str = QUEUE) -> list[str | None]:
        """What another client finds in the queue, and takes."""
        reader = PairClient(self.network, f"reader at {self.world.now}", self.settings)
        mine, self.host = self.host, reader
        session = self.session()
        texts = self.receive(session, self.consumer(session, queue))
        self.finish(session.close())
        self.host = mine
        return texts


def numbered(first: int, behind: int) -> list[str]:
    return [str(number) for number in range(first, behind)]
