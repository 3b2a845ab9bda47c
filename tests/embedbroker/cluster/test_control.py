"""The control channel: which peers it accepts, what it receives, and what a peer may send without harm."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from attrs import define

from embedbroker.cluster import ControlLink, InboundPeer
from embedbroker.testing._network import SimulatedLink
from embedclient.errors import ErrorCode
from embedclient.model import IN_VM_CONNECTOR_FACTORY, TransportConfiguration
from embedclient.wire.core import (
    BackupRegistration,
    ClusterConnect,
    ClusterConnectReply,
    ClusterTopologyV2,
    ClusterTopologyV3,
    ClusterTopologyV4,
    CreateSession,
    CreateSessionResponse,
    DisconnectV3,
    ExceptionResponse,
    NodeAnnounce,
    QuorumVote,
    QuorumVoteReply,
    SubscribeTopologyV2,
    encode_packet,
)

from .town import CREDENTIALS, PORT, Town, Visitor, connector

SETTLED_S = 5.0


# -- the control channel -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [ClusterConnect("cluster", "guess"), ClusterConnect("other", "secret")])
def test_a_wrong_cluster_password_is_refused_and_the_channel_stays_deaf(wrong: ClusterConnect) -> None:
    town = Town()
    town.start("A")
    stranger = town.visit("A", subscribe=False)
    stranger.send(wrong, 3)
    stranger.send(NodeAnnounce("b-id", None, False, 2**62, connector("B"), None, None), 3)
    stranger.send(NodeAnnounce(town.node_id("A"), None, True, 2**62, connector("B"), None, None), 3)
    stranger.send(SubscribeTopologyV2(True, 136), 0)
    town.run(0.2)
    assert stranger.packets(ClusterConnectReply) == [ClusterConnectReply(False)]
    assert stranger.closed is None
    assert town.known("A") == {"A": None}
    assert len(stranger.news()) == 1
    (said,) = town.hosts["A"].notices
    assert "cluster_user and cluster_password must be the same on all brokers of a cluster" in said
    assert "secret" not in said and "guess" not in said


def test_no_record_is_taken_from_a_peer_that_did_not_log_in() -> None:
    town = Town()
    town.start("A")
    stranger = town.visit("A")
    stranger.send_bytes(encode_packet(NodeAnnounce("x", None, True, 1, connector("B")), 2, 136))
    town.run(1.0)
    assert stranger.closed == "closed by peer"
    assert town.hosts["A"].notices == [
        f"{stranger.name}: connection closed: a stream of records from a peer that did not give the cluster user and "
        "password"
    ]


def test_a_broker_that_is_refused_says_so_once_and_asks_again_every_half_minute() -> None:
    town = Town()
    town.start("A")
    town.start("B", "A", cluster_password="wrong")
    town.run(100.0)
    said = [text for text in town.hosts["B"].notices if "refuses" in text]
    assert said == [
        "A (A:61616) refuses the cluster user and password: cluster_user and cluster_password must be the same on all "
        "brokers of a cluster"
    ]
    assert len(town.hosts["A"].notices) == 4
    assert town.known("A") == {"A": None}
    assert town.known("B") == {"B": None}


def test_the_default_cluster_password_is_warned_about_at_each_start() -> None:
    town = Town()
    host = town.start("A", cluster_password="CHANGE ME!!")
    host.stop()
    town.run(1.0)
    town.start("A")
    warning = "the cluster password is the default, which is public: set cluster_user and cluster_password"
    assert host.notices == [warning, warning]


def test_a_session_of_the_cluster_user_needs_the_cluster_password() -> None:
    town = Town()
    town.start("A")
    answers = []
    for password in ("wrong", None, "secret"):
        peer = town.visit("A")
        peer.send(CreateSession("s", 10, 136, "cluster", password, 1, False, True, True, -1, True, None), 1)
        town.run(0.1)
        packet = peer.received[-1][1]
        answers.append(packet.code if isinstance(packet, ExceptionResponse) else type(packet))
    assert answers == [ErrorCode.CLUSTER_SECURITY_EXCEPTION] * 2 + [CreateSessionResponse]


@pytest.mark.parametrize(
    ("version", "kind"), [(124, ClusterTopologyV2), (130, ClusterTopologyV3), (131, ClusterTopologyV4)]
)
def test_each_version_is_told_in_its_own_packet(version: int, kind: type) -> None:
    town = Town()
    town.start("A")
    town.start("B", "A")
    town.run(SETTLED_S)
    client = town.visit("A", version=version)
    assert [type(packet) for packet in client.news()] == [kind, kind]
    town.hosts["B"].crash()
    town.run(1.0)
    assert [type(packet) for packet in client.news()] == [ClusterTopologyV2]


class Watching:
    """Calls a function for each link."""

    def __init__(self, watch: Callable[[ControlLink], None]) -> None:
        self.on_link = watch


def test_packets_of_others_go_to_whoever_registered_for_them_and_answers_come_back() -> None:
    town = Town()
    town.start("A")
    town.start("B", "A")
    heard: list[object] = []
    asked = town.membership("A")
    asked.inbound_peers.handlers[QuorumVote] = lambda inbound, packet: inbound.peer.send(
        QuorumVoteReply("h", b"yes"), 3
    )
    asking = town.membership("B")
    asking.handlers[QuorumVoteReply] = lambda link, packet: heard.append((link.name, packet))
    asking.observer = Watching(lambda link: link.send(QuorumVote("h", b"?"), 3))
    town.run(SETTLED_S)
    assert heard == [("A (A:61616)", QuorumVoteReply("h", b"yes"))]


def test_a_packet_that_nobody_registered_for_does_no_harm() -> None:
    town = Town()
    town.start("A")
    peer = town.visit("A")
    peer.send(CREDENTIALS, 3)
    peer.send(BackupRegistration("cluster", "secret", False, connector("B")), 3)
    peer.send(CREDENTIALS, 3)
    town.run(1.0)
    assert peer.packets(ClusterConnectReply) == [ClusterConnectReply(True)] * 2


@define
class NotedStream:
    """Notes what comes on the stream channel."""

    name: str
    events: list[str]

    def on_frame(self, packet_type: int, _buffer: bytes | bytearray, start: int, end: int) -> None:
        self.events.append(f"frame {packet_type} of {end - start} bytes")

    def on_gone(self) -> None:
        self.events.append(f"{self.name} gone")


def test_the_stream_channel_has_a_receiver() -> None:
    town = Town()
    town.start("A")
    town.start("B", "A")
    events: list[str] = []

    def register(inbound: InboundPeer, _packet: object) -> None:
        inbound.receiver = NotedStream("guest", events)

    town.membership("A").inbound_peers.handlers[BackupRegistration] = register

    def begin(link: ControlLink) -> None:
        link.send(BackupRegistration("cluster", "secret", False, connector("B")), 3)
        link.send(ClusterConnectReply(True), 2)
        link.receiver = NotedStream("link", events)

    town.membership("B").observer = Watching(begin)
    town.run(SETTLED_S)
    assert events == ["frame 126 of 14 bytes"]
    town.hosts["A"].crash()
    town.run(1.0)
    assert events == ["frame 126 of 14 bytes", "link gone"]
    town.start("A")
    town.membership("A").inbound_peers.handlers[BackupRegistration] = register
    town.run(SETTLED_S)
    town.hosts["B"].crash()
    town.run(1.0)
    assert events[2:] == ["frame 126 of 14 bytes", "guest gone"]


# -- what peers may say ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        TransportConfiguration("X", parameters={"host": "X", "port": "port"}),
        TransportConfiguration("X", parameters={"host": "X", "port": "٣"}),
        TransportConfiguration("X", parameters={"host": "X", "port": 65_536}),
        TransportConfiguration("X", IN_VM_CONNECTOR_FACTORY),
        TransportConfiguration("X", "java.lang.String", {"host": "X", "port": PORT}),
    ],
)
def test_a_member_that_nobody_here_can_dial_is_told_of_and_left_alone(odd: TransportConfiguration) -> None:
    town = Town()
    town.start("A")
    client = town.visit("A")
    client.news()
    peer = town.visit("A", subscribe=False)
    peer.send(CREDENTIALS, 3)
    peer.send(NodeAnnounce("x", None, False, 2**62, odd, None, None), 3)
    town.run(0.5)
    (told,) = client.news()
    assert isinstance(told, ClusterTopologyV4) and told.primary == odd
    assert town.dials("A") == 0
    (said,) = town.hosts["A"].notices
    assert said.endswith("its connector names no way that is known here")


@pytest.mark.parametrize("seed", range(20))
def test_damaged_frames_of_a_broker_end_its_connection_at_most(seed: int) -> None:
    chance = Random(seed)
    town = Town(seed)
    town.start("A")
    client = town.visit("A")
    packets = [
        NodeAnnounce("x", "g", False, 2**62, connector("X"), connector("Y"), "s"),
        NodeAnnounce(town.node_id("A"), None, True, 1, connector("X")),
        BackupRegistration("cluster", "secret", False, connector("B")),
        QuorumVote("h", b"?"),
    ]
    for _ in range(30):
        peer = town.visit("A", subscribe=chance.random() < 0.5)
        peer.send(CREDENTIALS, 3)
        frame = bytearray(encode_packet(chance.choice(packets), chance.choice((2, 3)), 136))
        for _ in range(chance.randint(1, 3)):
            frame[chance.randrange(4, len(frame))] = chance.randrange(256)
        peer.send_bytes(bytes(frame))
        town.run(0.2)
    assert town.hosts["A"].ready
    assert client.closed is None


@pytest.mark.parametrize("seed", range(20))
def test_whatever_a_dialled_peer_says_ends_that_link_at_most(seed: int) -> None:
    chance = Random(seed)
    town = Town(seed)

    class Liar(Visitor):
        def accept(self, dialer: str) -> int | None:
            return 1

        def on_accepted(self, _connection: int, link: SimulatedLink) -> None:
            self.on_dialed(1, link)
            self.send(ClusterConnectReply(True), 3)
            for packet in (
                ClusterTopologyV4(False, "x", 2**62, connector("X"), connector("Y"), True, "g", "s", 136),
                ClusterTopologyV2(True, town.node_id("A"), 2**62),
                DisconnectV3("x", 2, None, connector("X")),
                QuorumVoteReply("h", b"?"),
            ):
                frame = bytearray(encode_packet(packet, chance.choice((0, 3)), 136))
                frame[chance.randrange(4, len(frame))] = chance.randrange(256)
                self.send_bytes(bytes(frame))

        def on_bytes(self, connection: int, data: bytes) -> None:
            pass

    liar = Liar(town.network, "B", 136, b"")
    town.network.listen(liar)
    town.start("A", "B", retry_interval_ms=100)
    town.run(10.0)
    assert town.hosts["A"].ready
    town.visit("A")


def test_a_broker_denies_older_news_of_its_end_on_a_way_without_repetitions() -> None:
    """A broker that is not dialled back gets announcements alone: what it removed between two of them stays away."""
    town = Town()
    town.start("B", allow_direct_connections_only=True)
    town.start("A", "B", allow_direct_connections_only=True)
    town.run(5.0)
    node_id, of_a = town.node_id("A"), town.membership("A").topology
    town.membership("B").topology.drop(node_id, 0)
    of_a.repeat(node_id, town.member("A", "A").event_id + 1_000)
    town.run(61.0)
    assert town.known("B") == town.known("A")
    assert town.member("B", "A").event_id == town.member("A", "A").event_id


def test_a_broker_denies_news_of_its_end_until_it_retires() -> None:
    """A scale-down has links to others after its clients are gone; an announcement would undo that it left."""
    town = Town()
    town.start("B")
    town.start("A", "B")
    town.run(5.0)
    node_id, of_b = town.node_id("A"), town.membership("B").topology
    of_b.drop(node_id, 0)
    town.run(61.0)
    assert town.known("B") == town.known("A")
    town.membership("A").retire()
    of_b.drop(node_id, 0)
    town.run(61.0)
    assert node_id not in of_b.members
