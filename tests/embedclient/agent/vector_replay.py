"""Plays a recorded conversation against an agent: the broker's frames go in, the client's frames are compared.

The recorded client frames have to come out, channel by channel, with equal fields. Left out of the comparison is what
the recordings say varies: pings, session names, confirmations, and the order of packets that no reply separates.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from attrs import frozen

from embedclient.agent import (
    Agent,
    BytesReceived,
    Call,
    CloseConnection,
    Consumer,
    Delivery,
    Dial,
    Dialed,
    FirstElementPolicy,
    LocatorSettings,
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
from embedclient.wire.core import (
    HANDSHAKE,
    CoreMessage,
    CreateSession,
    CreateSessionV2,
    FrameSplitter,
    Packet,
    PacketsConfirmed,
    Ping,
    ReattachSession,
    SessionSend,
    decode_packet,
)
from tests.embedclient.agent.node_pair import SeededEntropy

VECTORS = Path(__file__).parents[2] / "vectors" / "core"
CONNECTOR = TransportConfiguration("recorded", parameters={"host": "127.0.0.1", "port": 62700})
UNORDERED_MAX = 8

T = TypeVar("T")


@frozen
class Recorded:
    """One line of a recording that matters here: a frame, or the end of a connection."""

    connection: int
    from_client: bool
    channel_id: int
    packet: Packet | None
    frame: bytes
    lost: bool


def _without_names(packet: Packet) -> Packet:
    return packet.replace(name="") if isinstance(packet, (CreateSession, CreateSessionV2, ReattachSession)) else packet


def load(name: str, only: int | None = None) -> list[Recorded]:
    """The recording, or `only` one of its connections."""
    lines = [json.loads(line) for line in (VECTORS / f"{name}.jsonl").read_text().splitlines()]
    recorded = []
    for line in lines:
        if only not in (None, line.get("conn")):
            continue
        if line.get("event") == "close" and line["by"] != "client":
            recorded.append(Recorded(line["conn"], False, 0, None, b"", False))
        if "hex" not in line or line.get("raw"):
            continue
        frame = bytes.fromhex(line["hex"])
        from_client = line["from"] == "client"
        packet = decode_packet(frame, 0, len(frame), 136, from_client)
        if isinstance(packet, Ping) or (from_client and isinstance(packet, PacketsConfirmed)):
            continue
        recorded.append(
            Recorded(line["conn"], from_client, line["channel"], _without_names(packet), frame, "lost" in line)
        )
    return recorded


class VectorReplay:
    """An agent whose broker is a recording."""

    def __init__(self, name: str, settings: LocatorSettings, *, only: int | None = None) -> None:
        self._recorded = load(name, only)
        self._sends = [
            item.packet.message
            for item in self._recorded
            if item.from_client and isinstance(item.packet, SessionSend) and not _repeated(self._recorded, item)
        ]
        self.seconds = 1.0
        self.agent = Agent(settings, [CONNECTOR], FirstElementPolicy(), SeededEntropy(7))
        self._position = 0
        self._produced: list[tuple[int, Packet]] = []
        self._splitter = FrameSplitter()
        self._connection = 0
        self._live = False

    @property
    def now(self) -> Instant:
        return Instant(self.seconds, 1_700_000_000_000)

    def message(self) -> CoreMessage:
        """The message of the next recorded send."""
        return self._sends.pop(0)

    @property
    def sends_left(self) -> int:
        return len(self._sends)

    def play(self) -> None:
        """Goes on in the recording until the client has to say something that it has not said."""
        self._take(self.agent.take_outputs(self.now))
        while self._position < len(self._recorded):
            item = self._recorded[self._position]
            if item.connection != self._connection and not self._live:
                self._dial_due()
            if item.from_client:
                assert item.packet is not None
                if (item.channel_id, item.packet) not in self._produced:
                    return
                self._produced.remove((item.channel_id, item.packet))
            elif item.packet is None:
                self._live = False
                self._take(self.agent.step(PeerClosed(self._connection, "recorded"), self.now))
            elif not item.lost:
                self._take(self.agent.step(BytesReceived(self._connection, item.frame), self.now))
            self._position += 1

    def _dial_due(self) -> None:
        """A pause between two attempts is over before the recording goes on with a new connection."""
        deadline = self.agent.next_deadline()
        if deadline is not None:
            self.seconds = max(self.seconds, deadline)
            self._take(self.agent.step(Tick(), self.now))

    def _take(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Dial(number, _, _):
                    self._connection = number
                    self._splitter = FrameSplitter()
                    self._live = True
                    self._take(self.agent.step(Dialed(number), self.now))
                case SendBytes(number, data):
                    self._take(self.agent.step(Written(number, len(data)), self.now))
                    self._produce(data)
                case CloseConnection():
                    pass

    def _produce(self, data: bytes) -> None:
        buffer, ends = self._splitter.feed(data.removeprefix(HANDSHAKE))
        start = 0
        for end in ends:
            packet = decode_packet(buffer, start, end, 136, True)
            channel_id = int.from_bytes(buffer[start + 5 : start + 13], "big")
            if not isinstance(packet, (Ping, PacketsConfirmed)):
                self._produced.append((channel_id, _without_names(packet)))
            start = end
        assert len(self._produced) <= UNORDERED_MAX, self._produced

    def finish(self, call: Call[T]) -> T:
        self.play()
        assert call.done, f"still waiting for {self.expected}"
        return call.value()

    @property
    def expected(self) -> str:
        return repr(self._recorded[self._position : self._position + 1]) + f", said {self._produced}"

    def end(self) -> None:
        """The recording is through, and the client said nothing else."""
        self.play()
        assert self._position == len(self._recorded), f"not said: {self.expected}"
        assert self._produced == []

    # --- what nearly all recordings begin and end with ---

    def open(self, mode: SessionMode, *, xa: bool = False, start: bool = True) -> tuple[Session, Session]:
        """A JMS connection, and one session: gives the connection's own session and that one."""
        agent = self.agent
        creation = agent.create_session(auto_commit_sends=False, auto_commit_acks=False, pre_acknowledge=False)
        initial = self.finish(creation)
        self.finish(initial.add_metadata("jms-session", ""))
        session = self.finish(agent.create_session_for(mode, xa=xa))
        if start:
            self.finish(session.start())
        return initial, session

    def open_producer(self, session: Session, queue: str) -> Producer:
        """createQueue and createProducer."""
        self.finish(session.query_queue(queue))
        self.finish(session.prepare_destination(queue, RoutingType.ANYCAST))
        producer = session.create_producer(queue)
        self.play()
        return producer

    def close(self, *sessions: Session) -> None:
        for closing in [session.close() for session in sessions]:
            self.finish(closing)
        self.end()

    def forgive(self, packet: Packet) -> None:
        """Takes a packet out of what the client said: the recorded one did not come to say it."""
        self._produced = [(channel_id, said) for channel_id, said in self._produced if said != packet]

    def leave_out(self, packet: Packet) -> None:
        """Takes the next recorded packet like this one out: this client has no reason to send it."""
        index = next(
            index
            for index, item in enumerate(self._recorded)
            if index >= self._position and item.from_client and item.packet == packet
        )
        del self._recorded[index]

    def receive(self, session: Session, consumer: Consumer) -> Delivery | None:
        """receive: what is there or comes, acknowledged as the mode does."""
        delivery = consumer.next(self.now)
        if delivery is None:
            consumer.want()
            self.play()
            delivery = consumer.next(self.now)
        if delivery is None:
            consumer.give_up()
        else:
            session.consumed(delivery)
        self.play()
        return delivery

    def receive_nowait(self, session: Session, consumer: Consumer) -> Delivery | None:
        delivery = consumer.next(self.now)
        if delivery is None:
            consumer.want()
            self.finish(consumer.force_delivery())
            delivery = consumer.next(self.now)
            if delivery is None:
                consumer.give_up()
        if delivery is not None:
            session.consumed(delivery)
        self.play()
        return delivery


def _repeated(recorded: list[Recorded], item: Recorded) -> bool:
    """Whether a send is one of before, on a new connection."""
    first = next(other for other in recorded if other.frame == item.frame)
    return first is not item
