"""An agent and a real broker node back to back: no sockets, virtual time, cuts at any byte."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Protocol, TypeVar

from embedbroker.config import BrokerConfig
from embedbroker.node import Accepted, Command, CommandKind, Node
from embedbroker.node import BytesReceived as NodeBytesReceived
from embedbroker.node import CloseConnection as NodeCloseConnection
from embedbroker.node import Input as NodeInput
from embedbroker.node import Output as NodeOutput
from embedbroker.node import PeerClosed as NodePeerClosed
from embedbroker.node import SendBytes as NodeSendBytes
from embedbroker.node import Tick as NodeTick
from embedbroker.node import Written as NodeWritten
from embedclient.agent import (
    Agent,
    BytesReceived,
    Call,
    CloseConnection,
    Consumer,
    Delivery,
    Dial,
    Dialed,
    DialFailed,
    FirstElementPolicy,
    Input,
    LocatorSettings,
    Notification,
    Output,
    PeerClosed,
    Producer,
    SendBytes,
    Session,
    SessionMode,
    Tick,
    Written,
)
from embedclient.model import Instant, RoutingType, TransportConfiguration
from embedclient.wire.core import CoreMessage, MessageType, decode_text, encode_text

CONNECTOR = TransportConfiguration("main", parameters={"host": "localhost", "port": 61616})
STEPS_MAX = 20_000

T = TypeVar("T")


class SeededEntropy:
    """Random bytes from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def random(self) -> float:
        return self._random.random()


class Broker(Protocol):
    """A node, or a double with the same step."""

    def step(self, input: NodeInput, now: Instant) -> list[NodeOutput]: ...

    def next_deadline(self) -> float | None: ...


class NodePair:
    """Drives one agent and one node. `settle` runs until nothing is left to do; time moves with `advance` only."""

    def __init__(
        self,
        settings: LocatorSettings | None = None,
        broker: Broker | None = None,
        connectors: Sequence[TransportConfiguration] = (),
    ) -> None:
        self.seconds = 1000.0
        self.agent = Agent(
            settings or LocatorSettings(), connectors or [CONNECTOR], FirstElementPolicy(), SeededEntropy(1)
        )
        self.agent.on_notification = self._on_notification
        self.notifications: list[Notification] = []
        self.dials: list[Dial] = []
        self.refuse_dials = False
        self.client_bytes: list[bytes] = []
        self.server_bytes: list[bytes] = []
        # Decides which writes are lost: called with the sender and the data, returns what arrives.
        self.filter: Callable[[str, bytes], bytes] = _everything
        self._events: deque[Callable[[], None]] = deque()
        self._open: set[int] = set()
        self._closed_by_node: set[int] = set()
        self.generation = 0
        self.node: Broker = self._start_node() if broker is None else broker

    @property
    def now(self) -> Instant:
        return Instant(self.seconds, 1_700_000_000_000 + int(self.seconds * 1000))

    def _on_notification(self, notification: Notification) -> None:
        self.notifications.append(notification)

    def _start_node(self) -> Node:
        node = Node(BrokerConfig(), SeededEntropy(100 + self.generation), 1 << 28)
        node.step(Command(CommandKind.START), self.now)
        return node

    def restart_node(self) -> None:
        """The broker crashes with everything it had, and a new one takes its place."""
        self.cut()
        self.generation += 1
        self.node = self._start_node()

    def stop_node(self) -> None:
        self._to_node(Command(CommandKind.STOP))

    def cut(self) -> None:
        """The network ends every connection, seen by both sides."""
        for number in sorted(self._open):
            self._open.discard(number)
            self._to_node(NodePeerClosed(number, "cut"))
            self._to_agent(PeerClosed(number, "cut"))

    # --- pumping ---

    def settle(self) -> None:
        for _ in range(STEPS_MAX):
            self.handle(self.agent.take_outputs(self.now))
            if self._events:
                self._events.popleft()()
                continue
            node_due = self.node.next_deadline()
            if node_due is not None and node_due <= self.seconds:
                self._to_node(NodeTick())
                continue
            due = self.agent.next_deadline()
            if due is not None and due <= self.seconds:
                self._to_agent(Tick())
                continue
            return
        raise AssertionError("agent and node do not come to rest")

    def advance(self, seconds: float) -> None:
        """Lets time pass, with every deadline on the way."""
        end = self.seconds + seconds
        self.settle()
        while True:
            deadlines = [self.agent.next_deadline(), self.node.next_deadline()]
            due = min((deadline for deadline in deadlines if deadline is not None), default=None)
            if due is None or due > end:
                break
            self.seconds = max(self.seconds, due)
            self.settle()
        self.seconds = end
        self.settle()

    def finish(self, call: Call[T]) -> T:
        """Settles and returns the result of the call, which must be done then."""
        self.settle()
        assert call.done, "the call is still waiting"
        return call.value()

    def error_code(self, call: Call[T]) -> int:
        self.settle()
        assert call.error is not None
        return call.error.error_code

    def _to_agent(self, input: Input) -> None:
        self.handle(self.agent.step(input, self.now))

    def handle(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Dial():
                    self.dials.append(output)
                    self._events.append(partial(self._dial, output.connection))
                case SendBytes(number, data):
                    self.client_bytes.append(data)
                    self._events.append(partial(self._client_to_node, number, data))
                case CloseConnection(number, _):
                    self._events.append(partial(self._close, number))

    def _dial(self, number: int) -> None:
        if self.refuse_dials:
            self._to_agent(DialFailed(number, "connection refused"))
            return
        self._open.add(number)
        self._to_node(Accepted(number, "test"))
        self._to_agent(Dialed(number))

    def _client_to_node(self, number: int, data: bytes) -> None:
        self._to_agent(Written(number, len(data)))
        data = self.filter("client", data)
        if number in self._open and number not in self._closed_by_node and data:
            self._to_node(NodeBytesReceived(number, data))

    def _close(self, number: int) -> None:
        if number in self._open:
            self._open.discard(number)
            self._to_node(NodePeerClosed(number, "closed by client"))

    def _end(self, number: int, reason: str) -> None:
        if number in self._open:
            self._open.discard(number)
            self._to_agent(PeerClosed(number, reason))

    def _to_node(self, input: NodeInput) -> None:
        self.from_node(self.node.step(input, self.now))

    def from_node(self, outputs: list[NodeOutput]) -> None:
        for output in outputs:
            match output:
                case NodeSendBytes(number, data):
                    self.server_bytes.append(data)
                    self._events.append(partial(self._node_to_client, number, data))
                case NodeCloseConnection(number, reason):
                    self._closed_by_node.add(number)
                    self._events.append(partial(self._end, number, reason))

    def _node_to_client(self, number: int, data: bytes) -> None:
        if number not in self._open:
            return
        if number not in self._closed_by_node:
            self._to_node(NodeWritten(number, len(data)))
        data = self.filter("server", data)
        if data and number in self._open:
            self._to_agent(BytesReceived(number, data))


def _everything(sender: str, data: bytes) -> bytes:
    return data


def text_message(
    text: str, address: str, *, durable: bool = True, priority: int = 4, expiration: int = 0
) -> CoreMessage:
    return CoreMessage.build(
        type=MessageType.TEXT,
        address=address,
        durable=durable,
        priority=priority,
        expiration=expiration,
        body=encode_text(text),
    )


def text_of(delivery: Delivery) -> str | None:
    return decode_text(delivery.message.body)


def open_session(pair: NodePair, mode: SessionMode = SessionMode.AUTO) -> Session:
    session = pair.finish(pair.agent.create_session_for(mode))
    pair.finish(session.start())
    return session


def open_queue(pair: NodePair, session: Session, queue: str = "q") -> tuple[Producer, Consumer]:
    pair.finish(session.destinations.prepare_destination(queue, RoutingType.ANYCAST))
    return session.create_producer(queue), pair.finish(session.destinations.open_queue_consumer(queue))


def take(pair: NodePair, session: Session, consumer: Consumer) -> list[str | None]:
    """Everything the consumer has at hand, acknowledged as its mode does."""
    pair.settle()
    texts = []
    while (delivery := consumer.next(pair.now)) is not None:
        texts.append(text_of(delivery))
        session.consumed(delivery)
    pair.settle()
    return texts


def count_of(pair: NodePair, session: Session, queue: str = "q") -> int:
    return pair.finish(session.addressing.query_queue(queue)).message_count
