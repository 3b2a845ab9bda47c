"""Replays the client's half of a recorded scenario against a node, and lays both brokers' answers side by side.

Responsible for feeding frames in recorded order and time, for translating message ids (every broker has its own), and
for reducing packets to what does not vary between runs. Refuses to judge: a test compares the two lists.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from attrs import define, field, frozen

from embedbroker.config import AddressSettings, User
from embedbroker.node import Command, CommandKind
from embedclient.errors import ErrorCode, RemoteProtocolError
from embedclient.wire.core import (
    ClusterTopologyV4,
    CoreMessage,
    CreateSession,
    CreateSessionV2,
    Disconnect,
    DisconnectV2,
    DisconnectV3,
    ExceptionResponse,
    NullResponse,
    Packet,
    PacketsConfirmed,
    Ping,
    SessionAcknowledge,
    SessionCommit,
    SessionExpire,
    SessionIndividualAcknowledge,
    SessionProducerCredits,
    SessionProducerCreditsFail,
    SessionReceiveContinuation,
    SessionReceiveLarge,
    SessionReceiveMessage,
    SessionXaInDoubtXidsResponse,
    SessionXaResponse,
    SubscribeTopologyV2,
    decode_packet,
    encode_packet,
)

from .earlier import provide_what_was_there
from .recording import Line, read
from .scripted import WALL_MS, Peer, Stage, fields_of

__all__ = ["Conversation", "Lane", "Transcript", "TranscriptReplay", "replay"]

_SERVER_VERSION = 136
# What no two runs have in common.
# Of logins, permissions, and limits of users.
_SECURITY_NUMBERS = tuple(f"AMQ229{number}: " for number in ("031", "032", "099", "110", "111", "213", "225"))
_VOLATILE_FIELDS = {"node_id", "unique_event_id", "message_id", "min_large_message_size", "configuration_managed"}
_VOLATILE_PROPERTIES = {
    "_AMQ_ORIG_MESSAGE_ID",
    "_AMQ_ACTUAL_EXPIRY",
    # Of notifications: times, ids and addresses, and a user that our broker without security does not know.
    "_AMQ_NotifTimestamp",
    "_AMQ_Binding_ID",
    "_AMQ_ClusterName",
    "_AMQ_ConnectionName",
    "_AMQ_RemoteAddress",
    "_AMQ_ValidatedUser",
}


@frozen
class Lane:
    """Packets whose order is exact: answers of a channel, deliveries of a consumer, credits of a channel."""

    connection: int
    channel: int
    name: str


@frozen
class Said:
    """One packet without what varies between runs."""

    packet: str
    fields: dict[str, object]


@define(eq=False)
class Transcript:
    """What both brokers sent, lane by lane; and which connections they closed themselves."""

    recorded: dict[Lane, list[Said]] = field(factory=lambda: defaultdict(list))
    ours: dict[Lane, list[Said]] = field(factory=lambda: defaultdict(list))
    recorded_closed: set[int] = field(factory=set)
    closed: set[int] = field(factory=set)
    log: list[str] = field(factory=list)

    def differences(self, ignored: Collection[str] = ()) -> list[str]:
        """One line for each lane's first difference.

        ``ignored`` names lanes, and fields as ``Packet.field``. ``refusals`` in there lets an answer that something is
        not supported yet stand for any other, ``the last answer`` may be missing in the recording.
        """
        found = [
            f"{lane.name} of connection {lane.connection}, channel {lane.channel}: {difference}"
            for lane in sorted(
                {*self.recorded, *self.ours}, key=lambda lane: (lane.connection, lane.channel, lane.name)
            )
            if lane.name not in ignored
            if (difference := _first_difference(self.recorded[lane], self.ours[lane], ignored)) is not None
        ]
        if self.recorded_closed != self.closed:
            found.append(f"closed by the broker: recorded {self.recorded_closed}, ours {self.closed}")
        return found

    def difference_in(self, connection: int, channel: int) -> str | None:
        """The first difference of one channel."""
        for lane in sorted({*self.recorded, *self.ours}, key=lambda lane: lane.name):
            if (lane.connection, lane.channel) == (connection, channel):
                difference = _first_difference(self.recorded[lane], self.ours[lane], ())
                if difference is not None:
                    return f"{lane.name}: {difference}"
        return None


def _first_difference(recorded: list[Said], ours: list[Said], ignored: Collection[str]) -> str | None:
    for index in range(max(len(recorded), len(ours))):
        one = recorded[index] if index < len(recorded) else Said("nothing", {})
        other = ours[index] if index < len(ours) else Said("nothing", {})
        if "the last answer" in ignored and one.packet == "nothing" and index == len(ours) - 1:
            continue
        if "refusals" in ignored and other.fields.get("code") == ErrorCode.NOT_IMPLEMTNED_EXCEPTION:
            continue
        if one.packet != other.packet:
            return f"{index} is {other.packet} {other.fields}, recorded was {one.packet} {one.fields}"
        for name, value in one.fields.items():
            if other.fields[name] != value and f"{one.packet}.{name}" not in ignored:
                return f"{index} is {other.packet} with {name} {other.fields[name]!r}, recorded was {value!r}"
    return None


class Conversation:
    """One connection: what was recorded, and our peer in its place."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.client_version = 0
        # Recorded answers to commits without a waiting client; our broker sends none (pitfall 12.24).
        self.unwanted: dict[int, int] = defaultdict(int)
        self.is_told_to_go = False
        self.recorded_ids: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.our_ids: dict[tuple[int, int], list[int]] = defaultdict(list)

    @property
    def version(self) -> int:
        return min(self.client_version or _SERVER_VERSION, _SERVER_VERSION)


class TranscriptReplay:
    def __init__(self, settings: dict[str, AddressSettings] | None, users: Sequence[User] = ()) -> None:
        self.stage = Stage(durable=True, address_settings=settings, users=users)
        self.transcript = Transcript()
        self.conversations: dict[int, Conversation] = {}
        self.start_s = self.stage.seconds
        self.is_killed = False

    def run(self, lines: list[Line]) -> Transcript:
        self._set_clock(lines)
        provide_what_was_there(self.stage, lines)
        for line in lines:
            ends_here = line.kind == "close" and not line.from_client
            if (line.from_client or ends_here) and self.start_s + line.at_s > self.stage.seconds:
                self.stage.advance(self.start_s + line.at_s - self.stage.seconds)
            self._on_line(line)
            self._collect_all()
        return self.transcript

    def _collect_all(self) -> None:
        self.stage.settle_disk()
        for number, conversation in self.conversations.items():
            self._collect(number, conversation)
        self.transcript.log.extend(self.stage.warnings())

    def _boot(self) -> None:
        """The broker was killed or stopped: another life on the same disk."""
        self._collect_all()
        self.is_killed = False
        self.stage.boot()

    def _set_clock(self, lines: list[Line]) -> None:
        """Let the wall clock show what it showed then: the first topology packet carries it."""
        for line in lines:
            if line.kind == "frame" and not line.from_client and line.data[4] == 0xEF:
                packet = decode_packet(line.data, 0, len(line.data), _SERVER_VERSION, False)
                assert isinstance(packet, ClusterTopologyV4)
                self.stage.wall_offset_ms = round(packet.unique_event_id - WALL_MS - (self.start_s + line.at_s) * 1000)
                return

    def _on_line(self, line: Line) -> None:
        if line.kind == "mark":
            self.is_killed = self.is_killed or "killed" in line.text
            return
        if line.kind == "open":
            if self.stage.stopped is not None:
                self._boot()
            self.conversations[line.connection] = Conversation(self.stage.accept())
            return
        conversation = self.conversations[line.connection]
        if line.kind == "close":
            if not line.from_client and self.is_killed:
                self._boot()
            elif not line.from_client and not conversation.is_told_to_go:
                self.transcript.recorded_closed.add(line.connection)
                # When a connection has been silent for too long is seen by a periodic look, and so by chance.
                self.stage.advance(self.stage.config.connection_check_interval_ms / 1000)
            elif conversation.peer.closed is None:
                conversation.peer.lose()
                conversation.peer.closed = "by the client"
        elif line.kind == "handshake":
            conversation.peer.send_bytes(line.data)
        elif line.from_client:
            if not line.lost:
                self._on_client_frame(conversation, line.data)
        else:
            self._on_recorded(line, conversation)

    def _on_client_frame(self, conversation: Conversation, data: bytes) -> None:
        if conversation.peer.closed is not None:
            return
        channel = int.from_bytes(data[5:13], "big", signed=True)
        try:
            packet = decode_packet(data, 0, len(data), conversation.version, True)
        except RemoteProtocolError:
            conversation.peer.send_bytes(data)
            return
        match packet:
            case SubscribeTopologyV2():
                conversation.client_version = packet.client_version
            case CreateSession() | CreateSessionV2():
                conversation.client_version = packet.version
            case SessionAcknowledge() | SessionIndividualAcknowledge() | SessionExpire():
                data = self._translated(conversation, channel, packet)
            case SessionCommit(None) if conversation.version >= 132:
                conversation.unwanted[channel] += 1
        conversation.peer.send_bytes(data)

    def _translated(self, conversation: Conversation, channel: int, packet: Packet) -> bytes:
        """The same settlement with the message id that our broker gave."""
        assert isinstance(packet, SessionAcknowledge | SessionIndividualAcknowledge | SessionExpire)
        key = (channel, packet.consumer_id)
        message_id, recorded = packet.message_id, conversation.recorded_ids[key]
        if message_id in recorded:
            place = len(recorded) - 1 - recorded[::-1].index(message_id)
            ours = conversation.our_ids[key]
            message_id = ours[place] if place < len(ours) else -1
        return encode_packet(packet.replace(message_id=message_id), channel, conversation.version)

    def _on_recorded(self, line: Line, conversation: Conversation) -> None:
        channel = int.from_bytes(line.data[5:13], "big", signed=True)
        packet = decode_packet(line.data, 0, len(line.data), conversation.version, False)
        if isinstance(packet, SessionReceiveMessage | SessionReceiveLarge):
            conversation.recorded_ids[channel, packet.consumer_id].append(packet.message.message_id)
        elif isinstance(packet, Disconnect | DisconnectV2 | DisconnectV3):
            conversation.is_told_to_go = True
            if self.stage.stopped is None:
                self.stage.step(Command(CommandKind.STOP))
        elif packet == NullResponse(-1) and conversation.unwanted[channel]:
            conversation.unwanted[channel] -= 1
            return
        self._note(self.transcript.recorded, line.connection, channel, packet)

    def _collect(self, number: int, conversation: Conversation) -> None:
        peer = conversation.peer
        peer.version = conversation.version
        for channel, packet in peer.received:
            if isinstance(packet, SessionReceiveMessage | SessionReceiveLarge):
                conversation.our_ids[channel, packet.consumer_id].append(packet.message.message_id)
            self._note(self.transcript.ours, number, channel, packet)
        peer.received.clear()
        if peer.closed not in (None, "by the client", "the broker is gone", "the broker stops"):
            self.transcript.closed.add(number)

    def _note(self, lanes: dict[Lane, list[Said]], connection: int, channel: int, packet: Packet) -> None:
        match packet:
            case Ping() | PacketsConfirmed():
                return
            case SessionReceiveMessage():
                name = f"deliveries to consumer {packet.consumer_id}"
            case SessionProducerCredits() | SessionProducerCreditsFail():
                name = f"credits for {packet.address}"
            case SessionReceiveLarge() | SessionReceiveContinuation():
                name = "large deliveries"
            case _:
                name = "answers"
        lanes[Lane(connection, channel, name)].append(_said(packet))


def _said(packet: Packet) -> Said:
    fields = {name: value for name, value in fields_of(packet).items() if name not in _VOLATILE_FIELDS}
    message = fields.get("message")
    if "queue_names" in fields:
        fields["queue_names"] = sorted(packet.queue_names)  # type: ignore[attr-defined]  # the field is there
    if isinstance(packet, ExceptionResponse):
        fields["message"] = _text(message)
    elif isinstance(packet, SessionXaResponse):
        fields["message"] = bool(message)
    elif isinstance(packet, SessionXaInDoubtXidsResponse):
        fields["xids"] = set(packet.xids)
    elif isinstance(message, CoreMessage):
        del fields["message"]
        # As text: there are floats that are not equal to themselves.
        properties = {
            name: repr(value) for name, value in message.properties.typed_items() if name not in _VOLATILE_PROPERTIES
        }
        fields |= {
            "address": message.address,
            "body": bytes(message.body),
            "durable": message.durable,
            "priority": message.priority,
            "type": message.type,
            "timestamp": message.timestamp,
            "expiration": message.expiration,
            "user id": message.user_id,
            "properties": properties,
        }
    return Said(type(packet).__name__, fields)


def _text(message: object) -> object:
    """The text of a refusal for security's sake, without the client's port. Other texts are our own."""
    if not isinstance(message, str) or not message.startswith(_SECURITY_NUMBERS):
        return bool(message)
    return re.sub(r"from \S+\. Username", "from its client. Username", message)


def replay(
    path: Path,
    settings: dict[str, AddressSettings] | None = None,
    *,
    connections_max: int | None = None,
    users: Sequence[User] = (),
) -> Transcript:
    """Replay one file; ``settings`` replace the default address settings, ``users`` must log in.

    ``connections_max`` ends it before more connections than that are opened.
    """
    lines = read(path)
    for index, line in enumerate(lines):
        if line.kind == "open" and connections_max is not None and line.connection > connections_max:
            lines = lines[:index]
            break
    return TranscriptReplay(settings, users).run(lines)
