"""Every captured frame decodes to its last byte and encodes to the same bytes again."""

from __future__ import annotations

import pytest

from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import (
    ROUTING_TYPE_KEY,
    ClusterTopologyV4,
    CoreMessage,
    CreateQueueV2,
    FrameSplitter,
    NodeAnnounce,
    Packet,
    PacketType,
    Ping,
    SessionReceiveMessage,
    SessionSend,
    decode_packet,
    encode_packet,
    frame_spans,
)
from tests.vectors.captures import CapturedFrame, all_frames, core_files, frames_of

# Frames that differ after a round trip, and why.
EXCEPTIONS = {
    # Written by hand with three bytes behind the body, which a reader has to ignore.
    ("raw-odd-frames.jsonl", "PING"): 3,
    # Release 2.6 ends the body after its first optional group; we write every group, as nulls.
    ("old-client-2.6.4.jsonl", "CREATE_QUEUE_V2"): -13,
}
# Broken on purpose: an unknown type, and a body that ends early.
UNDECODABLE = {("raw-odd-frames.jsonl", 119), ("raw-odd-frames.jsonl", int(PacketType.CREATESESSION))}


def decode(frame: CapturedFrame) -> Packet:
    return decode_packet(frame.data, 0, len(frame.data), frame.version, frame.from_client)


def frames_in(file: str) -> list[CapturedFrame]:
    return [frame for frame in all_frames() if frame.file == file]


def test_every_frame_decodes_and_encodes_to_the_same_bytes() -> None:
    for frame in all_frames():
        if (frame.file, frame.type) in UNDECODABLE:
            continue
        packet = decode(frame)
        again = encode_packet(packet, frame.channel, frame.version)
        surplus = EXCEPTIONS.get((frame.file, frame.name), 0)
        if again == frame.data:
            continue
        assert len(frame.data) - len(again) == surplus != 0, str(frame)
        shorter = min(len(again), len(frame.data))
        assert again[4:shorter] == frame.data[4:shorter], str(frame)
        assert surplus > 0 or not any(again[shorter:]), str(frame)


@pytest.mark.parametrize(("file", "packet_type"), sorted(UNDECODABLE))
def test_frames_that_were_broken_on_purpose_are_refused(file: str, packet_type: int) -> None:
    broken = [frame for frame in frames_in(file) if frame.type == packet_type]
    assert broken
    for frame in broken:
        with pytest.raises(RemoteProtocolError):
            decode(frame)


def test_every_exception_is_still_needed() -> None:
    for file, name in EXCEPTIONS:
        frames = [frame for frame in frames_in(file) if frame.name == name]
        assert any(encode_packet(decode(frame), frame.channel, frame.version) != frame.data for frame in frames)


def test_decoding_leaves_no_byte_unread() -> None:
    for frame in all_frames():
        if frame.file == "raw-odd-frames.jsonl":
            continue
        longer = frame.data + b"\xff" * 40
        assert decode_packet(longer, 0, len(frame.data), frame.version, frame.from_client) == decode(frame)


def test_names_in_the_captures_are_names_of_packet_types() -> None:
    known = {int(packet_type): packet_type.name for packet_type in PacketType}
    named = [frame for frame in all_frames() if frame.name != "?"]
    assert [str(frame) for frame in named if known.get(frame.type) != frame.name] == []


def test_properties_of_captured_messages_agree_with_the_fast_scan() -> None:
    for frame in all_frames():
        if frame.type not in (PacketType.SESS_SEND, PacketType.SESS_RECEIVE_MSG):
            continue
        packet = decode(frame)
        assert isinstance(packet, SessionSend | SessionReceiveMessage)
        message = packet.message
        expected = message.properties.get("_AMQ_ROUTING_TYPE")
        assert CoreMessage.parse(message.raw).property_byte(ROUTING_TYPE_KEY) == expected, str(frame)


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_stream_in_pieces_gives_the_same_frames(piece: int) -> None:
    for path in core_files():
        frames = [frame.data for frame in frames_in(path.name)]
        frames = [data for data in frames if len(data) == int.from_bytes(data[:4], "big") + 4]
        stream = b"".join(frames)
        assert cut(stream, piece) == cut(stream, len(stream) or 1) == frames, path.name


def cut(stream: bytes, piece: int) -> list[bytes]:
    splitter = FrameSplitter()
    found = []
    for position in range(0, len(stream), piece):
        buffer, headers = splitter.feed(stream[position : position + piece])
        found += [bytes(buffer[start:end]) for start, end in frame_spans(headers)]
    return found


def test_versions_of_the_captures_are_followed() -> None:
    versions = {frame.version for frame in all_frames()}
    assert {0, 122, 124, 126, 128, 129, 130, 134, 136} <= versions


def test_a_queue_of_release_2_6_reads_as_the_client_meant_it() -> None:
    frames = [frame for frame in frames_in("old-client-2.6.4.jsonl") if frame.type == PacketType.CREATE_QUEUE_V2]
    packets = [decode(frame) for frame in frames]
    assert packets
    for packet in packets:
        assert isinstance(packet, CreateQueueV2)
        assert (packet.exclusive, packet.last_value) in ((False, False), (None, None))
        assert packet.ring_size is None and packet.enabled is None


def test_surplus_bytes_behind_a_body_are_ignored() -> None:
    pings = [frame for frame in frames_in("raw-odd-frames.jsonl") if frame.data[-3:] == b"xyz"]
    assert [decode(frame) for frame in pings] == [Ping(60000)]


def test_brokers_announce_themselves_with_connectors() -> None:
    packets = [decode(frame) for frame in frames_in("cluster-packets.jsonl")]
    announce = next(packet for packet in packets if isinstance(packet, NodeAnnounce))
    connector = announce.connector or announce.backup_connector
    assert connector is not None and connector.port > 0
    pairs = [packet for packet in packets if isinstance(packet, ClusterTopologyV4) and packet.backup is not None]
    assert pairs and all(pair.primary is not None and pair.server_version == 136 for pair in pairs)


def test_the_reader_of_captures_yields_frames_in_order() -> None:
    frames = list(frames_of(core_files()[0]))
    assert [frame.line for frame in frames] == sorted(frame.line for frame in frames)
