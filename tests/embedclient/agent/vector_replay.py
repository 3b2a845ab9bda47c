"""Plays a recorded conversation against an agent: the broker's frames go in, the client's frames are compared.

The recorded client frames have to come out, channel by channel, with equal fields. Left out of the comparison is what
the recordings say varies: pings, session names, confirmations, and the order of packets that no reply separates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

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
    DialFailed,
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
from embedclient.model import Instant, Properties, RoutingType, TransportConfiguration
from embedclient.wire.core import (
    HANDSHAKE,
    ClusterTopologyV4,
    CoreMessage,
    CreateSession,
    CreateSessionV2,
    FrameSplitter,
    NullResponse,
    Packet,
    PacketsConfirmed,
    Ping,
    ReattachSession,
    SessionCommit,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
    decode_packet,
    encode_packet,
    frame_spans,
)
from tests.embedclient.agent.node_pair import SeededEntropy

VECTORS = Path(__file__).parents[2] / "vectors"
CONNECTOR = TransportConfiguration("recorded", parameters={"host": "127.0.0.1", "port": 62700})
# The servers of recorded pairs, by their ports.
SERVERS = {64617: "A", 64717: "B"}
UNORDERED_MAX = 8
_IDENTIFIED = (SessionCommit, SessionSend, SessionSendContinuation)

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
    server: str


def _without_names(packet: Packet) -> Packet:
    return packet.replace(name="") if isinstance(packet, (CreateSession, CreateSessionV2, ReattachSession)) else packet


def _without_id(packet: Packet) -> Packet:
    return packet.replace(correlation_id=0) if isinstance(packet, _IDENTIFIED) else packet


def _comparable(packet: Packet) -> Packet:
    """Without ids, and with the properties in one order: Java has them in that of a hash table."""
    packet = _without_id(packet)
    message: CoreMessage | None = getattr(packet, "message", None)
    if message is None:
        return packet
    ordered = Properties.of_entries(dict(sorted(message.properties.typed_items())))
    bare = message.copy_for(
        message.address, changes={}, removals=list(message.properties), expiration=message.expiration
    )
    return packet.replace(message=bare.with_body(message.body, dict(ordered.typed_items())))


def load(lines: list[dict[str, Any]], only: Collection[int]) -> list[Recorded]:
    """The recording, or `only` some of its connections. Of several, each ends where it was lost."""
    lines = [line for line in lines if "conn" in line and (not only or line["conn"] in only)]
    last = max(line["conn"] for line in lines)
    recorded = []
    for line in lines:
        if line.get("event") == "close" and (line["by"] != "client" or line["conn"] != last):
            recorded.append(Recorded(line["conn"], False, 0, None, b"", False, ""))
        if "hex" not in line or line.get("raw"):
            continue
        frame = bytes.fromhex(line["hex"])
        from_client = line["from"] == "client"
        server = str(line.get("to" if from_client else "from"))
        packet = decode_packet(frame, 0, len(frame), 136, from_client)
        if isinstance(packet, Ping) or (from_client and isinstance(packet, PacketsConfirmed)):
            continue
        recorded.append(
            Recorded(line["conn"], from_client, line["channel"], _without_names(packet), frame, "lost" in line, server)
        )
    return recorded


def story(folder: str, name: str, then: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The lines of a recording, and of those in which its client goes on instead of looking whether that was all."""
    told: list[dict[str, Any]] = []
    for part in (name, *then):
        lines = [json.loads(line) for line in (VECTORS / folder / f"{part}.jsonl").read_text().splitlines()]
        if told:
            told += _translated(lines, _node_id(told))
        else:
            told = _without_the_end(lines) if then else lines
    return told


def _without_the_end(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Up to where the client requests what its consumer could still get: the question stays with the consumer."""
    names = [line.get("name") for line in lines]
    lines = lines[: names.index("SESS_FORCE_CONSUMER_DELIVERY")]
    commands = [index for index, line in enumerate(lines) if line.get("mark", "").startswith("client: ")]
    del lines[commands[-1]]
    return lines


def _node_id(lines: list[dict[str, Any]]) -> str:
    """The pair's, as its first topology packet has it."""
    frame = bytes.fromhex(next(line["hex"] for line in lines if line.get("name") == "CLUSTER_TOPOLOGY_V4"))
    packet = decode_packet(frame, 0, len(frame), 136, False)
    assert isinstance(packet, ClusterTopologyV4)
    return packet.node_id


def _translated(lines: list[dict[str, Any]], node_id: str) -> list[dict[str, Any]]:
    """What another pair was recorded to say, with the node id of this one. It begins with something that is done."""
    first = next(index for index, line in enumerate(lines) if line.get("mark"))
    lines = [line for line in lines[first:] if line.get("from") != "client" or line["t"] > lines[first]["t"] + 100]
    before, after = (identity.encode().hex() for identity in (_node_id(lines), node_id))
    return [{**line, "hex": line["hex"].replace(before, after)} if "hex" in line else line for line in lines]


class VectorReplay:
    """An agent whose broker is a recording. `only` leaves out the connections of other clients."""

    def __init__(
        self,
        name: str,
        settings: LocatorSettings,
        *connectors: TransportConfiguration,
        folder: str = "core",
        only: Collection[int] = (),
        then: Sequence[str] = (),
    ) -> None:
        """`then` are recordings in which the same client goes on."""
        self._recorded = load(story(folder, name, then), only)
        self._sends = sent_messages([item for item in self._recorded if not _repeated(self._recorded, item)])
        self.seconds = 1.0
        # How many more connections break; -1: all that did.
        self.losses = -1
        self.on_frame: Callable[[], None] = lambda: None
        self._answer_ids: dict[int, int | None] = {}
        self.agent = Agent(settings, connectors or [CONNECTOR], FirstElementPolicy(), SeededEntropy(7))
        self._position = 0
        self._produced: list[tuple[int, Packet]] = []
        self._splitter = FrameSplitter()
        self._connection = 0
        self._live = False
        # The recorded connection that is played, and those that the agent left by itself.
        self._playing = -1
        self._left: set[int] = set()

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
        """Goes on in the recording until the client must send something that it has not sent."""
        self._take(self.agent.take_outputs(self.now))
        while self._position < len(self._recorded):
            item = self._recorded[self._position]
            if not self._live:
                self._dial_due()
            self._playing = item.connection
            if item.from_client:
                said = self._said(item)
                if said is None:
                    return
                self._produced.remove(said)
            elif item.packet is None and item.connection in self._left:
                pass
            elif item.packet is None:
                if self.losses == 0:
                    return
                self.losses -= 1
                self._live = False
                self._take(self.agent.step(PeerClosed(self._connection, "recorded"), self.now))
            elif not item.lost:
                self._take(self.agent.step(BytesReceived(self._connection, self._frame(item)), self.now))
                self.on_frame()
            self._position += 1

    def _said(self, item: Recorded) -> tuple[int, Packet] | None:
        """What the client sent with the same meaning as the recorded one."""
        for channel_id, packet in self._produced:
            if channel_id != item.channel_id:
                continue
            if packet == item.packet:
                return channel_id, packet
            if item.packet is not None and _comparable(packet) == _comparable(item.packet):
                # Here a commit has an id always, and what follows it other ones; the answers have to fit.
                if isinstance(packet, _IDENTIFIED):
                    self._answer_ids[channel_id] = packet.correlation_id
                return channel_id, packet
        return None

    def _frame(self, item: Recorded) -> bytes:
        if not isinstance(item.packet, NullResponse) or item.channel_id not in self._answer_ids:
            return item.frame
        answer_id = self._answer_ids.pop(item.channel_id)
        return encode_packet(item.packet.replace(correlation_id=answer_id), item.channel_id, 136)

    def _dial_due(self) -> None:
        """A pause between two attempts is over before the recording goes on with a new connection."""
        deadline = self.agent.next_deadline()
        if deadline is not None:
            self.seconds = max(self.seconds, deadline)
            self._take(self.agent.step(Tick(), self.now))

    def _take(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Dial(number, configuration, _) if not self._is_there(configuration):
                    self._take(self.agent.step(DialFailed(number, "connection refused"), self.now))
                case Dial(number, _, _):
                    self._connection = number
                    self._splitter = FrameSplitter()
                    self._live = True
                    self._take(self.agent.step(Dialed(number), self.now))
                case SendBytes(number, data):
                    self._take(self.agent.step(Written(number, len(data)), self.now))
                    self._produce(data)
                case CloseConnection(number):
                    if number == self._connection:
                        self._live = False
                        self._left.add(self._playing)

    def _is_there(self, configuration: TransportConfiguration) -> bool:
        """Whether the next recorded connection leads to this server."""
        later = (item for item in self._recorded[self._position :] if item.connection != self._playing)
        coming = next(item for item in later if item.server)
        return configuration.port not in SERVERS or SERVERS[configuration.port] == coming.server

    def _produce(self, data: bytes) -> None:
        buffer, headers = self._splitter.feed(data.removeprefix(HANDSHAKE))
        for (_length, _type, channel_id), (start, end) in zip(headers, frame_spans(headers), strict=True):
            packet = decode_packet(buffer, start, end, 136, True)
            if not isinstance(packet, (Ping, PacketsConfirmed)):
                self._produced.append((channel_id, _without_names(packet)))
        assert len(self._produced) <= UNORDERED_MAX, self._produced

    def finish(self, call: Call[T]) -> T:
        self.play()
        assert call.done, f"still waiting for {self.expected}"
        return call.value()

    @property
    def expected(self) -> str:
        return repr(self._recorded[self._position : self._position + 1]) + f", said {self._produced}"

    @property
    def through(self) -> bool:
        """Nothing follows."""
        return self._position == len(self._recorded)

    def end(self) -> None:
        """The recording is through, and the client sent nothing else."""
        self.play()
        assert self.through, f"not said: {self.expected}"
        assert self._produced == [], self._produced

    # --- what nearly all recordings begin and end with ---

    def open(self, mode: SessionMode, *, xa: bool = False, start: bool = True) -> tuple[Session, Session]:
        """A JMS connection, and one session: gives the connection's own session and that one."""
        agent = self.agent
        creation = agent.create_session(auto_commit_sends=False, auto_commit_acks=False, pre_acknowledge=False)
        initial = self.finish(creation)
        self.finish(initial.metadata.add("jms-session", ""))
        session = self.finish(agent.create_session_for(mode, xa=xa))
        if start:
            self.finish(session.start())
        return initial, session

    def open_producer(self, session: Session, queue: str) -> Producer:
        """createQueue and createProducer."""
        self.finish(session.addressing.query_queue(queue))
        self.finish(session.destinations.prepare_destination(queue, RoutingType.ANYCAST))
        producer = session.create_producer(queue)
        self.play()
        return producer

    def close(self, *sessions: Session) -> None:
        for closing in [session.close() for session in sessions]:
            self.finish(closing)
        self.end()

    def forgive(self, packet: Packet) -> None:
        """Takes a packet out of what the client sent: the recorded one did not come to send it."""
        self._produced = [(channel_id, said) for channel_id, said in self._produced if said != packet]

    def leave_out(self, packet: Packet) -> None:
        """Takes the next recorded packet like this one out: this client has no reason to send it."""
        index = next(
            index
            for index, item in enumerate(self._recorded)
            if index >= self._position and item.from_client and item.packet == packet
        )
        del self._recorded[index]

    def leave_out_with_answer(self, packet: Packet, answer: type[Packet]) -> None:
        """The same for a request."""
        coming = self._recorded[self._position :]
        request = next(
            item
            for item in coming
            if item.from_client and item.packet is not None and _without_id(item.packet) == _without_id(packet)
        )
        reply = next(
            item
            for item in coming[coming.index(request) :]
            if item.channel_id == request.channel_id and isinstance(item.packet, answer)
        )
        self._recorded.remove(request)
        self._recorded.remove(reply)

    def hear_before(self, heard: type[Packet], said: type[Packet]) -> None:
        """The last recorded packet of one kind comes before that of another, for which this client waits for it."""
        kinds = [type(item.packet) for item in self._recorded]
        last_heard, last_said = (len(kinds) - 1 - kinds[::-1].index(kind) for kind in (heard, said))
        assert last_said < last_heard
        self._recorded.insert(last_said, self._recorded.pop(last_heard))

    def channels_made_again(self) -> dict[int, int]:
        """The channels of sessions that the recorded client made again, each with its place in the order."""
        packets = [item.packet for item in self._recorded if item.from_client]
        again = [packet.session_channel_id for packet in packets if type(packet) is CreateSession]
        return {channel_id: place for place, channel_id in enumerate(again)}

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


def sent_messages(recorded: Sequence[Recorded]) -> list[CoreMessage]:
    """The messages of the recorded sends; a large one has its whole body."""
    messages: list[CoreMessage] = []
    body = bytearray()
    for item in recorded:
        match item.packet:
            case SessionSend() | SessionSendLarge():
                messages.append(item.packet.message)
                body = bytearray()
            case SessionSendContinuation():
                body += item.packet.chunk
                messages[-1] = messages[-1].with_body(body)
    return messages


def _repeated(recorded: list[Recorded], item: Recorded) -> bool:
    """Whether a send is one of before, on a new connection."""
    if not isinstance(item.packet, SessionSend | SessionSendContinuation) or not item.packet.requires_response:
        return False  # without an id, equal chunks of one body have equal frames
    return next(other for other in recorded if other.frame == item.frame) is not item
