"""Replay what one broker of a recorded pair or cluster received against a node in its place.

Responsible for putting the node where that broker was: its connector, the moment at which it became live; and for
translating the node id, as every broker has its own.
Does not judge: a test compares what both sent.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from embedbroker.cluster import CONTROL_CHANNEL, STREAM_CHANNEL
from embedbroker.config import ClusterConnection
from embedbroker.kernel import QueueRequest
from embedbroker.node import Command, CommandKind, Tick
from embedclient.model import TransportConfiguration
from embedclient.wire.core import (
    HANDSHAKE,
    ClusterConnect,
    ClusterTopologyV4,
    NodeAnnounce,
    PacketType,
    decode_packet,
    encode_packet,
)
from tests.embedbroker.node.earlier import provide_what_was_there
from tests.embedbroker.node.recording import Line, read
from tests.embedbroker.node.scripted import Stage
from tests.embedbroker.node.transcript import Conversation, Transcript, TranscriptReplay

__all__ = ["Scene", "replay"]

PORTS = {"A": "64617", "B": "64717", "C": "64817"}


@frozen
class Heard:
    """What the broker received on a connection that is not in the file: an announcement, or the loss of a member."""

    at_s: float
    member: str
    backup: bool = False
    gone: bool = False


@frozen
class Scene:
    """Whose place the node takes, and when that broker became live (seconds)."""

    broker: str
    live_at_s: float
    heard: tuple[Heard, ...] = ()


class _ClusterReplay(TranscriptReplay):
    def __init__(self, scene: Scene, lines: list[Line]) -> None:
        super().__init__(None)
        own = _connector(scene.broker)
        self._broker = scene.broker
        self._heard = list(scene.heard)
        self.stage = Stage(
            durable=True,
            start=False,
            connectors={scene.broker: own},
            # It looks for no broker: how many links one broker opens to another is its own affair.
            cluster_connections=ClusterConnection(connector=scene.broker),
            cluster_user="clusterUser",
            cluster_password="clusterPass",
        )
        self.start_s = self.stage.seconds
        self._recorded_id = _node_id(lines)
        self.stage.advance(scene.live_at_s)
        self.stage.step(Command(CommandKind.START))
        self.stage.settle_disk()
        # Every recorded broker had it.
        for name in ("q1", "q2"):
            queue = QueueRequest(name, name, durable=True, routing_type=1, auto_created=False)
            self.stage.node.kernel.address_manager.create_queue(queue)
        self.stage.settle_disk()

    def run(self, lines: list[Line]) -> Transcript:
        provide_what_was_there(self.stage, lines)
        for line in lines:
            while self._heard and self._heard[0].at_s <= line.at_s:
                heard = self._heard.pop(0)
                self._advance(heard.at_s)
                self._hear(heard)
                self._collect_all()
            self._advance(line.at_s)
            if line.kind != "mark":
                self._on_line(line)
            self._collect_all()
            # It is always the primary.
            if self._broker == "A" and line.kind == "mark" and "kill -9" in line.text:
                break
        return self.transcript

    def _advance(self, at_s: float) -> None:
        if self.start_s + at_s > self.stage.seconds:
            self.stage.advance(self.start_s + at_s - self.stage.seconds)

    def _hear(self, heard: Heard) -> None:
        node = self.stage.node
        now_ms = self.stage.now.wall_ms
        if heard.gone:
            assert node.cluster is not None
            node.cluster.topology.remove(f"node of {heard.member}", now_ms)
            # Seen at the end of the next step, as whatever a step does.
            self.stage.step(Tick())
            return
        peer = self.stage.accept()
        node_id = node.node_id if heard.backup else f"node of {heard.member}"
        announce = NodeAnnounce(node_id, None, heard.backup, now_ms, _connector(heard.member))
        peer.send_bytes(HANDSHAKE)
        peer.send(ClusterConnect("clusterUser", "clusterPass"), announce, channel=3)

    def _on_client_frame(self, conversation: Conversation, data: bytes) -> None:
        if data[4] == PacketType.NODE_ANNOUNCE:
            packet = decode_packet(data, 0, len(data), 136, True)
            assert isinstance(packet, NodeAnnounce)
            if packet.node_id == self._recorded_id:
                data = encode_packet(packet.replace(node_id=self.stage.node.node_id), CONTROL_CHANNEL, 136)
        super()._on_client_frame(conversation, data)

    def _on_line(self, line: Line) -> None:
        # The records of a replicating pair are between brokers of one kind.
        if line.kind != "frame" or line.data[12] != STREAM_CHANNEL:
            super()._on_line(line)


def _connector(broker: str) -> TransportConfiguration:
    return TransportConfiguration(broker, parameters={"host": "127.0.0.1", "port": PORTS[broker]})


def _node_id(lines: list[Line]) -> str:
    """The node id of the recorded broker, from its first topology packet."""
    for line in lines:
        if line.kind == "frame" and not line.from_client and line.data[4] == 0xEF:
            packet = decode_packet(line.data, 0, len(line.data), 136, False)
            assert isinstance(packet, ClusterTopologyV4)
            return packet.node_id
    raise AssertionError("the broker said nothing")


def replay(path: Path, scene: Scene) -> Transcript:
    """What the recorded broker sent, and what a node in its place sends."""
    lines = read(path, scene.broker)
    return _ClusterReplay(scene, lines).run(lines)
