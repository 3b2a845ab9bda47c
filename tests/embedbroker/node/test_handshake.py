"""Opening a connection: what is detected, versions, topology, time-outs and limits."""

from __future__ import annotations

import pytest

from embedbroker.config import AcceptorConfig, BrokerConfig
from embedbroker.node import Level, MakeRoom
from embedclient.errors import ErrorCode
from embedclient.wire.core import (
    CheckForFailover,
    CheckForFailoverReply,
    ClusterTopology,
    ClusterTopologyV2,
    ClusterTopologyV4,
    CreateSession,
    CreateSessionResponse,
    CreateSessionV2,
    ExceptionResponse,
    Packet,
    Ping,
    SubscribeTopology,
    SubscribeTopologyV2,
    encode_packet,
)

from .scripted import Stage, fields_of


@pytest.fixture
def stage() -> Stage:
    return Stage()


PING = encode_packet(Ping(60_000), 0, 0)


def create(version: int, name: str = "s", channel: int = 10) -> CreateSession:
    return CreateSession(name, channel, version, None, None, 102_400, False, True, True, -1, False, None)


@pytest.mark.parametrize("hello", [b"ARTEMIS", b"HORNETQ", b""], ids=["artemis", "hornetq", "none"])
def test_core_clients_shake_hands_in_three_ways(stage: Stage, hello: bytes) -> None:
    peer = stage.accept()
    peer.send_bytes(hello + PING)
    assert peer.clear() == [Ping(60_000)]


def test_the_handshake_may_come_byte_by_byte(stage: Stage) -> None:
    peer = stage.accept()
    for byte in b"ARTEMIS" + PING:
        peer.send_bytes(bytes([byte]))
    assert peer.clear() == [Ping(60_000)]


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"POST / HTTP/1.1\r\n", "HTTP"),
        (b"AMQP\x00\x01\x00\x00", "AMQP"),
        (b"AMQP\x03\x01\x00\x00", "AMQP"),
        (b"CONNECT\naccept-version:1.2\n", "STOMP"),
        (b"STOMP\naccept-version", "STOMP"),
        (b"\x10\x10\x00\x04MQTT\x04\x02\x00", "MQTT"),
        (b"\x10\x10\x00\x06MQIsdp\x03", "MQTT"),
        (b"\x00\x00\x00\xf0\x01ActiveMQ", "OPENWIRE"),
        (b"PROXY TCP4 1.2.3.4", "PROXY"),
        (b"\r\n\r\n\x00\r\nQUIT\n", "PROXY"),
    ],
)
def test_other_protocols_are_closed_with_one_line(stage: Stage, head: bytes, name: str) -> None:
    peer = stage.accept()
    peer.send_bytes(head)
    assert peer.state() != "open" and peer.received == []
    assert stage.warnings() == [f"{'peer-1'}: closed, {name} is not served here"]


def test_a_topology_answer_comes_for_every_version(stage: Stage) -> None:
    kinds: dict[int, type[Packet]] = {
        136: ClusterTopologyV4,
        131: ClusterTopologyV4,
        130: ClusterTopologyV2,
        126: ClusterTopologyV2,
        122: ClusterTopologyV2,
        121: ClusterTopology,
    }
    for version, kind in kinds.items():
        peer = stage.accept(version)
        peer.send_bytes(b"ARTEMIS" + encode_packet(SubscribeTopologyV2(False, version), 0, version))
        (packet,) = peer.clear()
        assert type(packet) is kind
        expected = {"exit": False, "last": True, "primary": None, "backup": None, "node_id": stage.node.core.node_id}
        assert expected.items() <= fields_of(packet).items()
        if isinstance(packet, ClusterTopologyV4):
            assert packet.server_version == 136
            assert packet.unique_event_id == stage.now.wall_ms


def test_the_oldest_topology_question_is_answered(stage: Stage) -> None:
    peer = stage.accept(121)
    peer.send_bytes(b"HORNETQ" + encode_packet(SubscribeTopology(False), 0, 0))
    (packet,) = peer.clear()
    assert isinstance(packet, ClusterTopology) and packet.last


@pytest.mark.parametrize("version", [122, 124, 126, 128, 129, 130, 131, 134, 135, 136])
def test_versions_we_speak_get_a_session(stage: Stage, version: int) -> None:
    peer = stage.connect(version)
    peer.send(create(version), channel=1)
    assert peer.clear() == [CreateSessionResponse(136)]


@pytest.mark.parametrize("version", [122, 124, 125])
def test_clients_older_than_artemis_come_only_where_they_are_let_in(version: int) -> None:
    stage = Stage(client_version_min=BrokerConfig().client_version_min)
    peer = stage.connect(126)
    peer.send(create(version), channel=1)
    refusal = peer.refusal()
    assert refusal.code == ErrorCode.INCOMPATIBLE_CLIENT_SERVER_VERSIONS
    advice = "upgrade the client, or lower client_version_min of the broker"
    assert refusal.message == f"client version {version} is not served, only 126 to 136; {advice}"
    peer.send(create(126), channel=1)
    assert peer.clear() == [CreateSessionResponse(136)]


@pytest.mark.parametrize("version", [120, 121, 137, 999, 0, -1])
def test_other_versions_are_refused_and_may_try_again(stage: Stage, version: int) -> None:
    peer = stage.accept()
    peer.send_bytes(b"ARTEMIS" + PING)
    peer.clear()
    peer.send(create(version), channel=1)
    (refusal,) = peer.clear()
    assert isinstance(refusal, ExceptionResponse)
    assert refusal.code == ErrorCode.INCOMPATIBLE_CLIENT_SERVER_VERSIONS
    assert peer.state() == "open"
    peer.send(create(136), channel=1)
    assert peer.clear() == [CreateSessionResponse(136)]


def test_both_forms_of_the_request_are_understood(stage: Stage) -> None:
    peer = stage.connect()
    peer.send(create(136, "one", 10), channel=1)
    second = CreateSessionV2("two", 11, 136, None, None, 1, False, True, True, -1, False, None, "client-7")
    peer.send(second, channel=1)
    assert peer.clear() == [CreateSessionResponse(136)] * 2


def test_a_session_name_or_channel_used_twice_is_accepted_and_leaves_nothing(stage: Stage) -> None:
    peer = stage.connect()
    for name, channel in (("a", 10), ("a", 11), ("b", 10), ("b", 10)):
        peer.send(create(136, name, channel), channel=1)
    assert peer.clear() == [CreateSessionResponse(136)] * 4
    peer.lose()
    assert stage.node.core.sessions == {}


def test_what_was_consumed_on_a_channel_that_is_taken_over_comes_back(stage: Stage) -> None:
    peer = stage.connect().open_session("old")
    peer.create_queue()
    peer.post("m")
    peer.consume()
    stage.run()
    assert peer.texts == ["m"]
    peer.open_session("new")
    peer.consume()
    stage.run()
    assert peer.texts == ["m", "m"]


def test_reserved_channels_are_not_for_sessions(stage: Stage) -> None:
    peer = stage.connect()
    peer.send(create(136, "s", 9), channel=1)
    assert peer.state() != "open"
    assert len(stage.warnings()) == 1


def test_failover_checks_are_answered_with_yes(stage: Stage) -> None:
    peer = stage.connect()
    peer.send(CheckForFailover(None), CheckForFailover("another node"), channel=1)
    assert peer.clear() == [CheckForFailoverReply(True)] * 2


def test_a_ping_is_echoed_whatever_it_says(stage: Stage) -> None:
    peer = stage.connect()
    for ttl in (60_000, -1, 1500):
        peer.send(Ping(ttl), channel=0)
        assert peer.clear() == [Ping(ttl)]


def test_silence_beyond_the_time_to_live_ends_the_connection(stage: Stage) -> None:
    peer = stage.connect()
    peer.send(Ping(1500), channel=0)
    stage.advance(1.4)
    peer.send(CheckForFailover(None), channel=1)  # any frame counts
    stage.advance(1.4)
    assert peer.state() == "open"
    stage.advance(2.1)
    assert peer.closed == "nothing was received for 1.5 s"
    assert stage.warnings() == ["peer-1: connection closed: nothing was received for 1.5 s"]


def test_a_time_to_live_of_minus_one_never_ends(stage: Stage) -> None:
    peer = stage.connect()
    peer.send(Ping(-1), channel=0)
    stage.advance(100_000)
    assert peer.state() == "open"


def test_the_configured_time_to_live_holds_until_the_first_ping() -> None:
    stage = Stage(connection_ttl_ms=3000)
    peer = stage.accept()
    peer.send_bytes(b"ARTEMIS\x00")
    stage.advance(6)
    assert peer.state() != "open"


def test_no_handshake_in_time_ends_the_connection(stage: Stage) -> None:
    silent, slow, quick = stage.accept(), stage.accept(), stage.accept()
    slow.send_bytes(b"ARTEMIS")
    quick.send_bytes(b"ARTEMIS\x00")
    stage.advance(9.9)
    assert silent.state() == "open"
    stage.advance(2.2)
    assert (silent.state(), slow.state(), quick.state()) == ("no handshake", "no handshake", "open")
    assert [level for level, _text in stage.notices] == [Level.INFO, Level.INFO]


def test_a_handshake_timeout_of_zero_waits_for_ever() -> None:
    stage = Stage(handshake_timeout_ms=0)
    peer = stage.accept()
    stage.advance(100_000)
    assert peer.state() == "open"


def test_connections_beyond_the_limit_are_refused() -> None:
    stage = Stage(connections_max=2)
    first, second, third = stage.connect(), stage.connect(), stage.accept()
    assert (first.state(), second.state(), third.state()) == ("open", "open", "too many connections")
    assert len(stage.warnings()) == 1
    first.lose()
    assert stage.connect().state() == "open"


@pytest.mark.parametrize("said", [b"", b"ART", b"ARTEMIS\0"], ids=["nothing", "a bit", "half a request"])
def test_the_oldest_connection_that_has_sent_no_request_makes_room(said: bytes) -> None:
    stage = Stage(connections_max=4)
    first, *silent = stage.connect(), stage.accept(), stage.accept(), stage.accept()
    for peer in silent:
        peer.send_bytes(said)
    next_ones = stage.connect(), stage.connect()
    assert [peer.state() for peer in silent] == ["no request", "no request", "open"]
    assert {peer.state() for peer in (first, *next_ones)} == {"open"}
    silent[2].send_bytes(b"ARTEMIS"[len(said) :] + PING if len(said) < 8 else PING[1:])
    assert stage.accept().state() == "too many connections" and silent[2].state() == "open"


def test_a_silent_connection_makes_room_at_its_own_acceptor_alone() -> None:
    stage = Stage(acceptors=[AcceptorConfig("large"), AcceptorConfig("small", connections_max=1)])
    elsewhere, silent = stage.accept(), stage.accept(acceptor=1)
    used = stage.accept(acceptor=1)
    assert (elsewhere.state(), silent.state(), used.state()) == ("open", "no request", "open")
    used.send_bytes(b"ARTEMIS" + PING)
    stage.warnings()
    assert stage.accept(acceptor=1).state() == "too many connections" and elsewhere.state() == "open"
    assert stage.warnings()[0].endswith("refused, 1 connections are open at acceptor 'small'")
    used.lose()
    assert stage.accept(acceptor=1).state() == "open"


def test_the_host_asks_for_room_and_the_log_says_so_once_a_minute() -> None:
    stage = Stage()
    used, *silent = stage.connect(), *[stage.accept() for _number in range(4)]
    for _number in range(2):
        stage.step(MakeRoom())
    assert [peer.state() for peer in silent] == ["no request", "no request", "open", "open"]
    text = "closed, it has sent no request and another connection needs its room"
    first, second = (f"peer-{peer.number}: {text}" for peer in silent[:2])
    assert stage.notices == [(Level.WARNING, first), (Level.INFO, second)]
    for _number in range(3):
        stage.step(MakeRoom())
    assert [used.state(), *[peer.state() for peer in silent]] == ["open"] + 4 * ["no request"]
    stage.advance(61)
    late = stage.accept()
    stage.step(MakeRoom())
    assert late.state() == "no request" and stage.notices[-1][0] is Level.WARNING


def test_bytes_behind_a_close_are_ignored(stage: Stage) -> None:
    peer = stage.accept()
    peer.send_bytes(b"GET / HTTP/1.1\r\n")
    peer.send_bytes(b"ARTEMIS" + PING)
    assert peer.received == [] and len(stage.warnings()) == 1
