"""Packets against worked bytes, in every version, from both directions, cut short and overlong."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
import tracemalloc

import pytest

from embedclient.errors import LocalProtocolError, RemoteProtocolError
from embedclient.model import Xid
from embedclient.wire.core import (
    FRAME_HEADER,
    HANDSHAKE,
    ClusterTopology,
    ClusterTopologyV2,
    ClusterTopologyV3,
    ClusterTopologyV4,
    CoreMessage,
    CreateQueueV2,
    CreateSession,
    CreateSessionResponse,
    CreateSessionV2,
    ExceptionResponse,
    NullResponse,
    Packet,
    PacketType,
    Ping,
    SessionAcknowledge,
    SessionAddMetadataV2,
    SessionCommit,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionIndividualAcknowledge,
    SessionQueueQuery,
    SessionReceiveMessage,
    SessionSend,
    SessionSendContinuation,
    SessionStart,
    SessionXaInDoubtXidsResponse,
    SubscribeTopologyV2,
    decode_packet,
    encode_acknowledge,
    encode_consumer_credit,
    encode_null_response,
    encode_packet,
    encode_receive,
    encode_send,
    encode_text,
    is_confirmed,
    send_trailer_size,
)
from embedclient.wire.core._packet_type import FROM_CLIENT_ONLY, FROM_SERVER_ONLY
from tests.fuzz.rare_packets import FEDERATION, RARE

HELLO = CoreMessage.build(type=3, address="q", body=encode_text("hi"))
DELIVERED = CoreMessage.parse(
    bytearray.fromhex(
        "00000016 01 00000004 6800 6900 0000000000000007 01 00000002 7100 00 03 01 0000000000000000"
        "0000000000000000 04 01 00000001 00000022"
    )
    + "_AMQ_ROUTING_TYPE".encode("utf-16-le")
    + b"\x03\x01"
)

# Frames worked out by hand from the layouts, at version 136.
WORKED: list[tuple[int, Packet, str]] = [
    (0, Ping(60000), "00000011 0A 0000000000000000 000000000000EA60"),
    (0, SubscribeTopologyV2(False, 136), "0000000E 71 0000000000000000 00 00000088"),
    (
        0,
        ClusterTopologyV4(False, "n1", 1, None, None, True, None, None, 136),
        "00000023 EF 0000000000000000 00 00000002 006E 0031 0000000000000001 00 00 FF 00 00 00000088",
    ),
    (
        1,
        CreateSessionV2("s1", 10, 136, "admin", None, 102400, False, True, True, -1, False, None, None),
        "0000003B EE 0000000000000001 00000002 0073 0031 000000000000000A 00000088 01 00000005 0061 0064 006D 0069"
        "006E 00 00019000 00 FF FF FFFFFFFF 00 00 00",
    ),
    (1, CreateSessionResponse(136), "0000000D 1F 0000000000000001 00000088"),
    (
        10,
        SessionSend(HELLO, True, -2, 1),
        "00000047 47 000000000000000A 00000016 01 00000004 6800 6900 0000000000000000 01 00000002 7100 00 03 01"
        "0000000000000000 0000000000000000 04 00 FF FFFFFFFFFFFFFFFE 00000001",
    ),
    (10, NullResponse(-2), "00000011 15 000000000000000A FFFFFFFFFFFFFFFE"),
    (
        10,
        SessionReceiveMessage(DELIVERED, 0, 1),
        "00000072 4B 000000000000000A" + DELIVERED.raw.hex() + "0000000000000000 00000001",
    ),
]

# Beyond the rare packets of the fuzzing corpus: a node that is gone has no connectors.
GONE: list[tuple[Packet, bool]] = [
    (ClusterTopology(True, "n1"), False),
    (ClusterTopologyV2(True, "n1", 7, backup_group_name="g"), False),
    (ClusterTopologyV3(True, "n1", 7, backup_group_name=None, scale_down_group_name="s"), False),
]


def decode(frame: bytes, version: int = 136, *, from_client: bool = True) -> Packet:
    return decode_packet(frame, 0, len(frame), version, from_client)


@pytest.mark.parametrize(("channel", "packet", "data"), WORKED, ids=lambda value: type(value).__name__)
def test_worked_examples(channel: int, packet: Packet, data: str) -> None:
    frame = bytes.fromhex(data)
    assert encode_packet(packet, channel, 136) == frame
    from_client = packet.TYPE not in FROM_SERVER_ONLY
    assert decode(frame, from_client=from_client) == packet


def test_the_handshake_is_the_name() -> None:
    assert bytes.fromhex("41 52 54 45 4D 49 53") == HANDSHAKE


@pytest.mark.parametrize(("packet", "from_client"), [*RARE, *GONE], ids=lambda value: type(value).__name__)
def test_packets_without_a_capture_come_back(packet: Packet, from_client: bool) -> None:
    assert decode(encode_packet(packet, 3, 136), from_client=from_client) == packet


def test_a_federation_policy_of_another_class_is_refused() -> None:
    frame = encode_packet(FEDERATION, 4, 136).replace(b"FederationPolicySet", b"FederationPolicyBag")
    with pytest.raises(RemoteProtocolError, match="federation policy"):
        decode(frame)


@pytest.mark.parametrize(
    ("version", "size"), [(122, 1), (128, 1), (129, 1), (130, 9), (133, 9), (134, 13), (136, 13), (0, 9)]
)
def test_what_follows_a_sent_message_grows_with_the_version(version: int, size: int) -> None:
    packet = SessionSend(HELLO, True, -2, 1)
    frame = encode_packet(packet, 10, version)
    extra_of_1x = 4 if 0 < version < 129 else 0
    assert len(frame) == 13 + len(HELLO.raw) + extra_of_1x + size
    assert send_trailer_size(version) == size
    expected = SessionSend(HELLO, True, -2 if size >= 9 else 0, 1 if size == 13 else 0)
    assert decode(frame, version) == expected
    assert b"".join(encode_send(HELLO.raw, 10, version, True, -2, 1)) == frame


@pytest.mark.parametrize("version", [0, 122, 128, 129, 136])
def test_the_receive_lane_writes_what_the_packet_does(version: int) -> None:
    packet = SessionReceiveMessage(HELLO, 3, 2)
    frame = b"".join(encode_receive(HELLO.raw, 10, version, 3, 2))
    assert frame == encode_packet(packet, 10, version)
    assert decode(frame, version, from_client=False) == packet


@pytest.mark.parametrize("version", [0, 126, 129, 130, 136])
def test_the_other_lanes_write_what_the_packets_do(version: int) -> None:
    assert encode_null_response(10, version, -5) == encode_packet(NullResponse(-5), 10, version)
    assert encode_acknowledge(10, 1, 2, True) == encode_packet(SessionAcknowledge(1, 2, True), 10, version)
    individual = SessionIndividualAcknowledge(1, 2, False)
    assert encode_acknowledge(10, 1, 2, False, individual=True) == encode_packet(individual, 10, version)
    assert encode_consumer_credit(10, 1, -1) == encode_packet(SessionConsumerFlowCredit(1, -1), 10, version)


@pytest.mark.parametrize(
    ("packet", "version", "body"),
    [
        (NullResponse(-5), 129, ""),
        (NullResponse(-5), 130, "FFFFFFFFFFFFFFFB"),
        (ExceptionResponse(100, None, 7), 129, "00000064 00"),
        (ExceptionResponse(100, None, 7), 130, "00000064 00 0000000000000007"),
        (ExceptionResponse(100, None), 136, "00000064 00"),
        (SessionCommit(-3), 131, ""),
        (SessionCommit(-3), 132, "FFFFFFFFFFFFFFFD"),
        (SessionCommit(), 136, ""),
        (SessionCreateConsumer(0, "", None, False, False, 5), 129, "0000000000000000 00000000 00 00 00"),
        (SessionCreateConsumer(0, "", None, False, False, 5), 130, "0000000000000000 00000000 00 00 00 00000005"),
        (SessionSendContinuation(b"ab", True, -1, False, 0, 1), 129, "00000002 6162 FF 00"),
        (SessionSendContinuation(b"ab", True, -1, False, 9, 1), 130, "00000002 6162 FF 00 0000000000000009"),
        (
            SessionSendContinuation(b"", False, 2, True, -9, 1),
            134,
            "00000000 00 0000000000000002 FF FFFFFFFFFFFFFFF7 00000001",
        ),
    ],
)
def test_gated_fields(packet: Packet, version: int, body: str) -> None:
    data = bytes.fromhex(body)
    frame = FRAME_HEADER.pack(9 + len(data), packet.TYPE, 10) + data
    assert encode_packet(packet, 10, version) == frame
    again = decode(frame, version, from_client=packet.TYPE not in FROM_SERVER_ONLY)
    assert encode_packet(again, 10, version) == frame


def test_absent_fields_read_as_the_protocol_says() -> None:
    def empty(packet_type: PacketType, body: str = "") -> bytes:
        data = bytes.fromhex(body)
        return FRAME_HEADER.pack(9 + len(data), packet_type, 10) + data

    assert decode(empty(PacketType.NULL_RESPONSE), from_client=False) == NullResponse(-1)
    assert decode(empty(PacketType.EXCEPTION, "00000064 00"), from_client=False) == ExceptionResponse(100, None, None)
    assert decode(empty(PacketType.SESS_COMMIT)) == SessionCommit(None)
    consumer = decode(empty(PacketType.SESS_CREATECONSUMER, "0000000000000001 00000000 00 00 00"))
    assert consumer == SessionCreateConsumer(1, "", None, False, False, 0)
    last = decode(
        empty(PacketType.CLUSTER_TOPOLOGY_V4, "FF 00000000 0000000000000001 00 00 00000088"), from_client=False
    )
    assert last == ClusterTopologyV4(True, "", 1, None, None, False, None, None, 136)


def test_claimed_versions_leave_nothing_behind() -> None:
    frame = encode_packet(SessionCommit(-3), 10, 136)
    for version in (-(2**31), -1, *range(1, 2000), 2**31 - 1):
        decode(frame, version)
    assert decode(frame, 2**31 - 1) == SessionCommit(-3)
    plans = [SessionCommit.plan(version) for version in range(-1, 2000)]
    assert len({id(plan) for plan in plans}) == 17  # of the known versions, and of none


def test_packets_are_not_sent_to_versions_that_do_not_know_them() -> None:
    with pytest.raises(LocalProtocolError, match="version 130"):
        encode_packet(WORKED[2][1], 0, 130)
    assert encode_packet(WORKED[2][1], 0, 131)


def test_values_that_do_not_fit_are_our_error() -> None:
    wrong: list[Packet] = [Ping(2**63), SessionAcknowledge(1, 2**64, True), CreateSessionResponse(-(2**31) - 1)]
    wrong += [Ping("x"), SessionQueueQuery(5), CreateQueueV2("a", "q", None, True, False, True, False, 500)]  # type: ignore[arg-type]
    for packet in wrong:
        with pytest.raises(LocalProtocolError):
            encode_packet(packet, 10, 136)


def test_a_packet_is_shown_without_its_password() -> None:
    packet = CreateSession(
        name="s",
        session_channel_id=10,
        version=136,
        username="me",
        password="hunter2",
        min_large_message_size=2**40,
        xa=False,
        auto_commit_sends=True,
        auto_commit_acks=True,
        window_size=-1,
        pre_acknowledge=False,
    )
    with pytest.raises(LocalProtocolError, match="username='me', password='\\*\\*\\*'") as caught:
        encode_packet(packet, 1, 136)
    assert "hunter2" not in str(caught.value) + repr(packet)


@pytest.mark.parametrize("packet_type", [0, 1, 9, 14, 33 + 4, 47, 83, 90, 102, 107, 123, -9, -23, -128])
def test_unknown_types_are_refused(packet_type: int) -> None:
    frame = FRAME_HEADER.pack(9, packet_type, 10)
    with pytest.raises(RemoteProtocolError):
        decode(frame, from_client=True)
    with pytest.raises(RemoteProtocolError):
        decode(frame, from_client=False)


def test_every_type_has_a_class_and_an_owner() -> None:
    """Whatever is in the body: a type is known, and refused for its sender from one side at most."""
    for packet_type in PacketType:
        frame = FRAME_HEADER.pack(9 + 4096, packet_type, 10) + bytes(4096)
        senders = []
        for from_client in (True, False):
            try:
                decode(frame, from_client=from_client)
            except RemoteProtocolError as error:
                assert "unknown" not in str(error)
                if re.search("from a (client|server)", str(error)):
                    continue
            senders.append(from_client)
        expected = [True] * (packet_type not in FROM_SERVER_ONLY) + [False] * (packet_type not in FROM_CLIENT_ONLY)
        assert senders == expected != [], packet_type
    assert not FROM_CLIENT_ONLY & FROM_SERVER_ONLY


def test_a_packet_from_the_wrong_side_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="from a server"):
        decode(encode_packet(SessionAcknowledge(1, 2, True), 10, 136), from_client=False)
    with pytest.raises(RemoteProtocolError, match="from a client"):
        decode(encode_packet(NullResponse(1), 10, 136), from_client=True)


def test_what_is_counted_for_confirmation() -> None:
    assert is_confirmed(PacketType.SESS_SEND)
    assert is_confirmed(PacketType.NULL_RESPONSE)
    assert not is_confirmed(PacketType.PING)
    assert not is_confirmed(PacketType.PACKETS_CONFIRMED)
    assert not is_confirmed(PacketType.SESS_ADD_METADATA)
    assert is_confirmed(SessionAddMetadataV2.TYPE, requires_response=True)
    assert not is_confirmed(SessionAddMetadataV2.TYPE, requires_response=False)


@pytest.mark.parametrize("packet_type", [int(packet_type) for packet_type in PacketType])
def test_promised_lengths_allocate_nothing(packet_type: int) -> None:
    promises = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x40\x00\x00\x00", b"\x00\x00\x10\x00"]
    frames = []
    for promise in promises:
        for padding in range(24):
            body = (bytes(padding) + promise * 8) if padding % 2 else (b"\1" * padding + promise * 8)
            frames.append(FRAME_HEADER.pack(9 + len(body), packet_type, 10) + body)
    decode_all(frames)  # loads the family
    tracemalloc.start()
    try:
        decode_all(frames)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def decode_all(frames: list[bytes]) -> None:
    for frame in frames:
        for from_client in (True, False):
            try:
                decode(frame, from_client=from_client)
            except RemoteProtocolError:
                continue


def test_packets_are_values() -> None:
    packet = SessionAcknowledge(1, message_id=2, requires_response=True)
    assert packet == SessionAcknowledge(1, 2, True) != SessionIndividualAcknowledge(1, 2, True)
    assert packet != (1, 2, True)
    assert hash(packet) == hash(SessionAcknowledge(1, 2, True))
    assert repr(packet) == "SessionAcknowledge(consumer_id=1, message_id=2, requires_response=True)"
    assert packet.replace(message_id=5) == SessionAcknowledge(1, 5, True)
    assert pickle.loads(pickle.dumps(packet)) == copy.copy(packet) == copy.deepcopy(packet) == packet
    assert bool(SessionStart())
    with pytest.raises(AttributeError):
        packet.message_id = 3  # type: ignore[misc]
    match packet:
        case SessionAcknowledge(consumer_id, message_id):
            assert (consumer_id, message_id) == (1, 2)


def test_packets_are_complete_or_not_made() -> None:
    with pytest.raises(TypeError, match="requires_response"):
        SessionAcknowledge(1, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="3 fields"):
        SessionAcknowledge(1, 2, True, 4)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nonsense"):
        SessionAcknowledge(1, 2, True, nonsense=4)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="consumer_id"):
        SessionAcknowledge(1, 2, True, consumer_id=4)  # type: ignore[misc]


def test_xids_travel_in_lists() -> None:
    packet = SessionXaInDoubtXidsResponse((Xid(1, b"b", b"g"), Xid(-1, b"", b"")))
    assert decode(encode_packet(packet, 10, 136), from_client=False) == packet


def test_sessions_of_both_forms_have_the_same_fields() -> None:
    first = CreateSession("s", 10, 130, None, None, 1, True, False, False, 0, True)
    assert CreateSessionV2.__match_args__[:-1] == CreateSession.__match_args__
    assert decode(encode_packet(first, 1, 130), 130) == first


def test_importing_the_package_loads_no_packet_family() -> None:
    code = (
        "import sys, embedclient.wire.core as core\n"
        "loaded = lambda: {name.split('.')[-1] for name in sys.modules if name.endswith('_packets')}\n"
        "assert loaded() == set(), loaded()\n"
        "core.Ping\n"
        "assert loaded() == {'_connection_packets'}, loaded()\n"
        "assert all(hasattr(core, name) for name in core.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
