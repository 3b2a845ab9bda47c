"""The state of a CORE connection: two ends against each other, broken bytes, and captured traffic."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedclient.engine.core import AnyDisconnect, ConnectionState, Role
from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import (
    ClusterTopologyV4,
    CreateSession,
    CreateSessionResponse,
    CreateSessionV2,
    Disconnect,
    DisconnectReason,
    DisconnectV2,
    DisconnectV3,
    Packet,
    PacketsConfirmed,
    Ping,
    SubscribeTopologyV2,
    encode_packet,
)
from tests.embedclient.engine.core.connection_pair import ConnectionPair, at, other
from tests.vectors.captures import CapturedFrame, core_files, frames_of


def topology(version: int = 136) -> ClusterTopologyV4:
    return ClusterTopologyV4(False, "node", 1, None, None, True, None, None, version)


def initiator(version: int = 136, *, ttl_ms: int = 60_000, ping_period_ms: int = 30_000) -> ConnectionState:
    return ConnectionState(Role.INITIATOR, version, ttl_ms=ttl_ms, ping_period_ms=ping_period_ms)


def acceptor(version: int = 136, *, ttl_ms: int = 60_000) -> ConnectionState:
    return ConnectionState(Role.ACCEPTOR, version, ttl_ms=ttl_ms)


# -- opening and versions ---------------------------------------------------------------------------------------------


def test_an_initiator_begins_with_handshake_and_ping_and_an_acceptor_answers_with_that_ping() -> None:
    pair = ConnectionPair()
    first = pair.initiator.open(at(0))
    assert first == b"ARTEMIS" + encode_packet(Ping(60_000), 0, 0)
    assert pair.acceptor.open(at(0)) == b""
    pair.deliver(Role.INITIATOR, first)
    assert pair.received == {Role.ACCEPTOR: [(0, Ping(60_000))], Role.INITIATOR: [(0, Ping(60_000))]}


@pytest.mark.parametrize("word", [b"ARTEMIS", b"HORNETQ", b""])
@pytest.mark.parametrize("read_size", [1, 3, 7, 8, 1000])
def test_an_acceptor_takes_either_handshake_or_none_however_it_is_cut(word: bytes, read_size: int) -> None:
    pair = ConnectionPair(read_size=read_size)
    pair.deliver(Role.INITIATOR, word + pair.initiator.open(at(0), handshake=False))
    assert pair.received[Role.ACCEPTOR] == [(0, Ping(60_000))]
    assert pair.acceptor.pending_size == 0


def test_a_handshake_that_is_not_whole_is_pending_until_it_is_dropped() -> None:
    state = acceptor()
    assert state.receive(b"ARTE", at(0)) == (b"", [])
    assert state.pending_size == 4
    state.drop_pending()
    assert state.pending_size == 0


def test_a_second_handshake_is_a_frame_that_is_too_long() -> None:
    state = acceptor()
    with pytest.raises(RemoteProtocolError, match="frame length"):
        state.receive(b"ARTEMISARTEMIS", at(0))


def test_an_initiator_takes_no_handshake() -> None:
    with pytest.raises(RemoteProtocolError, match="frame length"):
        initiator().receive(b"ARTEMIS", at(0))


@pytest.mark.parametrize(
    ("ours", "theirs", "both"), [(136, 136, 136), (136, 131, 131), (131, 136, 131), (136, 200, 136), (200, 136, 136)]
)
def test_both_ends_speak_the_smaller_version(ours: int, theirs: int, both: int) -> None:
    pair = ConnectionPair(initiator(ours), acceptor(theirs))
    pair.open()
    assert (pair.initiator.version, pair.acceptor.version) == (0, 0)
    pair.send(Role.INITIATOR, SubscribeTopologyV2(False, ours))
    assert (pair.acceptor.version, pair.acceptor.peer_version) == (both, ours)
    assert pair.send(Role.ACCEPTOR, topology(theirs)) == topology(theirs)
    assert (pair.initiator.version, pair.initiator.peer_version) == (both, theirs)


@pytest.mark.parametrize("old", [122, 130])
def test_versions_in_which_topology_names_none_come_from_the_owner(old: int) -> None:
    pair = ConnectionPair(initiator(old))
    pair.send(Role.INITIATOR, SubscribeTopologyV2(False, old))
    response = pair.send(Role.ACCEPTOR, CreateSessionResponse(136), 1)
    assert isinstance(response, CreateSessionResponse)
    assert pair.initiator.version == 0
    pair.initiator.learn_version(response.server_version)
    assert pair.initiator.version == pair.acceptor.version == old


def test_an_acceptor_keeps_the_version_that_its_client_named_first() -> None:
    pair = ConnectionPair()
    pair.send(Role.INITIATOR, SubscribeTopologyV2(False, 130))
    pair.send(Role.INITIATOR, SubscribeTopologyV2(False, 136))
    assert pair.acceptor.version == 130


def test_an_initiator_takes_each_version_that_its_broker_names() -> None:
    pair = ConnectionPair()
    pair.send(Role.ACCEPTOR, topology(136))
    pair.send(Role.ACCEPTOR, topology(129))
    assert pair.initiator.version == 129


@pytest.mark.parametrize("named", [-1, 0])
def test_a_version_that_is_none_leaves_an_acceptor_without(named: int) -> None:
    pair = ConnectionPair()
    pair.send(Role.INITIATOR, SubscribeTopologyV2(False, named))
    assert (pair.acceptor.version, pair.acceptor.peer_version) == (0, 0)


def test_a_link_between_brokers_assumes_its_own_version_until_the_peer_has_named_one() -> None:
    state = ConnectionState(Role.INITIATOR, 136, ttl_ms=-1, assumed_version=136)
    assert (state.version, state.peer_version) == (136, 0)
    state.learn_version(131)
    assert state.version == 131
    state.learn_version(0)
    assert state.version == 136


# -- pings and time to live -------------------------------------------------------------------------------------------


def test_pings_leave_each_period_and_are_answered() -> None:
    pair = ConnectionPair(initiator(ping_period_ms=500))
    pair.open()
    assert pair.initiator.next_ping == 0.5
    assert not pair.initiator.is_ping_due(at(0.4))
    assert pair.initiator.is_ping_due(at(0.5))
    pair.now = at(0.6)
    pair.deliver(Role.INITIATOR, pair.initiator.ping(pair.now))
    assert pair.initiator.next_ping == pytest.approx(1.1)
    assert len(pair.received[Role.INITIATOR]) == 2
    pair.initiator.close()
    assert not pair.initiator.is_ping_due(at(1000))


def test_an_acceptor_takes_the_time_to_live_of_each_ping_instead_of_its_own() -> None:
    pair = ConnectionPair(initiator(ttl_ms=1500), acceptor(ttl_ms=60_000))
    assert pair.acceptor.time_to_live == 60
    pair.open()
    assert pair.acceptor.time_to_live == 1.5
    pair.send(Role.INITIATOR, Ping(-1))
    assert pair.acceptor.silent_at() is None


def test_an_initiator_keeps_its_time_to_live() -> None:
    pair = ConnectionPair(initiator(ttl_ms=1500))
    pair.open()
    pair.send(Role.ACCEPTOR, Ping(7))
    assert pair.initiator.time_to_live == 1.5


@pytest.mark.parametrize("role", list(Role))
def test_either_end_counts_silence_from_the_last_read(role: Role) -> None:
    pair = ConnectionPair(initiator(ttl_ms=2000), acceptor(ttl_ms=2000))
    pair.open()
    state = pair.end(role)
    pair.now = at(1)
    pair.send(other(role), PacketsConfirmed(1), 10)
    assert state.silent_at() == 3
    assert not state.is_silent(at(2.9))
    assert state.is_silent(at(3))


def test_one_byte_ends_the_silence() -> None:
    state = acceptor(ttl_ms=2000)
    state.open(at(0))
    state.receive(b"\x00", at(1))
    assert state.silent_at() == 3


def test_without_pings_an_initiator_takes_no_silence_for_a_loss() -> None:
    state = initiator(ttl_ms=2000, ping_period_ms=-1)
    assert state.open(at(0)).endswith(encode_packet(Ping(2000), 0, 0))
    assert (state.next_ping, state.silent_at()) == (None, None)
    assert not state.is_silent(at(1000))


def test_checks_of_silence_count_once_per_time_to_live() -> None:
    state = initiator(ttl_ms=2000, ping_period_ms=500)
    state.open(at(0))
    assert not state.check_silence(at(1.9))
    assert not state.check_silence(at(2))  # the connection began in this time
    state.receive(b"\x00", at(2.5))
    assert not state.check_silence(at(3.9))
    assert not state.check_silence(at(4))
    assert not state.check_silence(at(5.9))
    assert state.check_silence(at(6))


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (136, DisconnectV3("node", DisconnectReason.SCALE_DOWN)),
        (131, DisconnectV3("node", DisconnectReason.SCALE_DOWN)),
        (130, DisconnectV2("node")),
        (125, DisconnectV2("node")),
        (124, Disconnect("node")),
        (0, Disconnect("node")),
    ],
)
def test_an_acceptor_takes_leave_in_the_version_of_its_client(version: int, expected: Packet) -> None:
    pair = ConnectionPair()
    pair.open()
    pair.acceptor.learn_version(version)
    pair.deliver(Role.ACCEPTOR, pair.acceptor.disconnect("node"))
    assert pair.received[Role.INITIATOR][-1] == (0, expected)
    assert isinstance(expected, AnyDisconnect)


def test_packets_of_the_other_role_are_refused() -> None:
    pair = ConnectionPair()
    with pytest.raises(RemoteProtocolError, match="from a client"):
        pair.send(Role.INITIATOR, Disconnect("node"))
    with pytest.raises(RemoteProtocolError, match="from a server"):
        pair.send(Role.ACCEPTOR, SubscribeTopologyV2(False, 136))


# -- cut and broken bytes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read_size", range(1, 80))
def test_a_conversation_is_the_same_however_it_is_cut(read_size: int) -> None:
    def converse(pair: ConnectionPair) -> ConnectionPair:
        pair.open()
        pair.send(Role.INITIATOR, SubscribeTopologyV2(False, 135))
        pair.send(Role.ACCEPTOR, topology())
        pair.deliver(Role.INITIATOR, pair.initiator.ping(pair.now) * 3)
        pair.send(Role.INITIATOR, PacketsConfirmed(7), 10)
        pair.deliver(Role.ACCEPTOR, pair.acceptor.disconnect("node"))
        return pair

    whole, cut = converse(ConnectionPair()), converse(ConnectionPair(read_size=read_size))
    assert cut.received == whole.received
    assert (cut.initiator.version, cut.acceptor.version) == (136, 135)
    assert (cut.initiator.pending_size, cut.acceptor.pending_size) == (0, 0)


def read_all(state: ConnectionState, data: bytes) -> None:
    buffer, headers = state.receive(data, at(0))
    start = 0
    for length, _, _ in headers:
        end = start + 4 + length
        state.read(buffer, start, end)
        start = end


GARBAGE = st.one_of(
    st.binary(max_size=200),
    # Frames of the right length with any type, channel and body.
    st.lists(
        st.tuples(st.integers(-128, 127), st.integers(-2, 20), st.binary(max_size=40)).map(
            lambda parts: (
                (9 + len(parts[2])).to_bytes(4, "big")
                + parts[0].to_bytes(1, "big", signed=True)
                + parts[1].to_bytes(8, "big", signed=True)
                + parts[2]
            )
        ),
        max_size=4,
    ).map(b"".join),
)


@given(role=st.sampled_from(Role), handshake=st.booleans(), reads=st.lists(GARBAGE, max_size=4))
def test_garbage_is_a_mistake_of_the_peer_and_nothing_else(role: Role, handshake: bool, reads: list[bytes]) -> None:
    state = ConnectionState(role, 136, ttl_ms=60_000, frame_size_bytes_max=1000)
    state.open(at(0))
    if handshake and role is Role.ACCEPTOR:
        read_all(state, b"ARTEMIS")
    for data in reads:
        try:
            read_all(state, data)
        except RemoteProtocolError:
            pass
        assert state.pending_size <= 1000
        assert state.version in range(137)


# -- captured traffic -------------------------------------------------------------------------------------------------

# Written by hand, with errors in them.
ODD = {"raw-odd-frames.jsonl"}


def own_version_of(frames: list[CapturedFrame]) -> int:
    """The version of the client, which it names in one of its first packets."""
    for frame in frames:
        if frame.from_client and frame.type in (SubscribeTopologyV2.TYPE, CreateSession.TYPE, CreateSessionV2.TYPE):
            packet = acceptor().read(frame.data, 0, len(frame.data))
            if isinstance(packet, SubscribeTopologyV2):
                return packet.client_version
            assert isinstance(packet, (CreateSession, CreateSessionV2))
            return packet.version
    return 136


@pytest.mark.parametrize("path", [path for path in core_files() if path.name not in ODD], ids=lambda path: path.stem)
def test_captured_connections_are_read_and_written_alike(path: Path) -> None:
    connections: dict[int, list[CapturedFrame]] = {}
    for frame in frames_of(path):
        connections.setdefault(frame.connection, []).append(frame)
    for frames in connections.values():
        pair = ConnectionPair(initiator(own_version_of(frames)), acceptor())
        pings = 0
        for frame in frames:
            sender = Role.INITIATOR if frame.from_client else Role.ACCEPTOR
            if frame.channel >= 10 or frame.lost:
                continue
            receiver = pair.end(other(sender))
            buffer, headers = receiver.receive(frame.data, at(0))
            assert [channel_id for _, _, channel_id in headers] == [frame.channel], str(frame)
            packet = receiver.read(buffer, 0, len(frame.data))
            # What an owner does with the packets of channel 1.
            if isinstance(packet, (CreateSession, CreateSessionV2)) and not pair.acceptor.peer_version:
                pair.acceptor.learn_version(packet.version)
            elif isinstance(packet, CreateSessionResponse):
                pair.initiator.learn_version(packet.server_version)
            assert pair.end(sender).send(packet, frame.channel) == frame.data, str(frame)
            if isinstance(packet, Ping) and frame.from_client:
                pings += 1
                assert pair.acceptor.answer(packet) == frame.data
                ttl = packet.connection_ttl
                assert pair.acceptor.time_to_live == (ttl / 1000 if ttl >= 0 else None)
            if frame.version and pair.initiator.version and pair.acceptor.version:
                assert pair.initiator.version == pair.acceptor.version == frame.version, str(frame)
