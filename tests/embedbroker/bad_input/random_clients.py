"""Clients that send any request at any moment, with arguments that are right, wrong or another client's.

Responsible for choosing requests from a seed. Does not depend on the right answers: a test looks at the node.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from embedclient.errors import LocalProtocolError
from embedclient.model import Properties, PropertyType, PropertyValue
from embedclient.wire.core import (
    CoreMessage,
    CreateAddress,
    CreateQueueV2,
    CreateSession,
    CreateSharedQueueV2,
    DeleteQueue,
    Packet,
    PacketsConfirmed,
    Ping,
    ReattachSession,
    SessionAcknowledge,
    SessionAddMetadataV2,
    SessionBindingQuery,
    SessionClose,
    SessionCommit,
    SessionConsumerClose,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionExpire,
    SessionForceConsumerDelivery,
    SessionIndividualAcknowledge,
    SessionQueueQuery,
    SessionReceiveMessage,
    SessionRequestProducerCredits,
    SessionRollback,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
    SessionStart,
    SessionStop,
    SessionUniqueAddMetadata,
    encode_packet,
)
from tests.embedbroker.node.scripted import Peer, Stage

__all__ = ["RandomClients"]

NAMES = ("a", "b", "c", "a::x", "b::y", "x", "y", "DLQ", "ExpiryQueue", "", "t#*", "é😀")
FILTERS = (None, "", "colour = 'red'", "n > 3", "broken =", "AMQDurable = 'DURABLE'")
VERSIONS = (122, 126, 128, 129, 130, 134, 136)
CHANNELS = (10, 11, 12)


class RandomClients:
    """A few connections, and one random action after the other."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.random = Random(seed)
        self.peers: list[Peer] = []
        self.sessions: list[str] = []
        self.ids: list[int] = [0]
        self._seen: dict[int, int] = {}

    def act(self) -> None:
        """Do one thing."""
        random = self.random
        self.peers = [peer for peer in self.peers if peer.closed is None]
        kind = random.random()
        if not self.peers or (kind < 0.03 and len(self.peers) < 4):
            self.peers.append(self.stage.connect(random.choice(VERSIONS)))
            self._open(self.peers[-1])
            return
        peer = random.choice(self.peers)
        if kind < 0.06:
            peer.lose()
            peer.closed = "by the client"
        elif kind < 0.1:
            self._open(peer)
        elif kind < 0.12:
            peer.send(ReattachSession(random.choice(self.sessions), random.randrange(-1, 20)), channel=1)
        elif kind < 0.14:
            self.stage.advance(random.choice([0.001, 1, 40]))
        elif kind < 0.16:
            peer.reads = not peer.reads
            if peer.reads:
                peer.read()
        else:
            peer.send_bytes(b"".join(self._frame(peer.version) for _ in range(random.randrange(1, 5))))
        self._learn_ids(peer)

    def _learn_ids(self, peer: Peer) -> None:
        for packet in peer.packets(SessionReceiveMessage):
            self.ids.append(packet.message.message_id)
        del self.ids[:-30]
        peer.received.clear()

    def _frame(self, version: int) -> bytes:
        while True:
            try:
                return encode_packet(self._request(), self.random.choice(CHANNELS), version)
            except LocalProtocolError:
                continue  # older than this packet

    def _open(self, peer: Peer) -> None:
        random = self.random
        name = random.choice(["s1", "s2", "s3", f"s{random.randrange(1000)}"])
        self.sessions.append(name)
        create = CreateSession(
            name,
            random.choice(CHANNELS),
            peer.version,
            None,
            None,
            1,
            False,
            random.random() < 0.6,
            random.random() < 0.6,
            random.choice([-1, -1, 0, 100, 100_000]),
            random.random() < 0.2,
            random.choice([None, "a"]),
        )
        peer.send(create, channel=1)
        peer.send(SessionStart(), channel=create.session_channel_id)
        peer.send(SessionCreateConsumer(0, random.choice(NAMES), None, False, False), channel=create.session_channel_id)
        peer.send(SessionConsumerFlowCredit(0, -1), channel=create.session_channel_id)

    def _message(self) -> CoreMessage:
        random = self.random
        properties = Properties()
        values: list[tuple[str, PropertyValue, PropertyType]] = [
            ("_AMQ_ROUTING_TYPE", random.choice([0, 1, 1, 1, 7]), PropertyType.BYTE),
            ("colour", random.choice(["red", "blue"]), PropertyType.STRING),
            ("n", random.randrange(6), PropertyType.INT),
            ("_AMQ_DUPL_ID", "same", PropertyType.STRING),
            ("_AMQ_SCHED_DELIVERY", self.stage.now.wall_ms + 50, PropertyType.LONG),
        ]
        for index, (name, value, kind) in enumerate(values):
            if random.random() < (0.8 if index < 3 else 0.02):
                properties.set(name, value, kind)
        return CoreMessage.build(
            address=random.choice(NAMES),
            durable=random.random() < 0.5,
            priority=random.choice([0, 4, 4, 9]),
            expiration=random.choice([0, 0, 0, self.stage.now.wall_ms + 500, 1]),
            properties=properties,
            body=bytes(random.choice([0, 10, 500, 30_000])),
        )

    def _request(self) -> Packet:
        random = self.random
        name, consumer, flag = random.choice(NAMES), random.randrange(4), random.random() < 0.5
        message_id = random.choice(self.ids)
        requests: list[Callable[[], Packet]] = [
            lambda: SessionSend(self._message(), flag, random.randrange(-9, 9)),
            lambda: SessionAcknowledge(consumer, message_id, flag),
            lambda: SessionIndividualAcknowledge(consumer, message_id, flag),
            lambda: SessionExpire(consumer, message_id),
            lambda: SessionConsumerFlowCredit(consumer, random.choice([-1, 0, 1, 1000, -5, 100_000])),
            lambda: SessionCreateConsumer(
                consumer, name, random.choice(FILTERS), random.random() < 0.2, flag, random.randrange(3)
            ),
            lambda: SessionConsumerClose(consumer),
            lambda: SessionForceConsumerDelivery(consumer, random.randrange(5)),
            lambda: SessionCommit(random.choice([None, -4])),
            lambda: SessionRollback(flag),
            lambda: SessionStart(),
            lambda: SessionStop(),
            lambda: CreateQueueV2(
                random.choice(NAMES),
                name,
                random.choice(FILTERS),
                random.random() < 0.7,
                random.random() < 0.2,
                flag,
                random.random() < 0.5,
                random.choice([0, 1, -1]),
                max_consumers=random.choice([-1, -1, 0, 1]),
                purge_on_no_consumers=random.random() < 0.2,
                exclusive=random.choice([None, True]),
                ring_size=random.choice([None, None, None, 3]),
            ),
            lambda: CreateSharedQueueV2(random.choice(NAMES), name, None, random.random() < 0.5, 0, flag),
            lambda: DeleteQueue(name),
            lambda: CreateAddress(name, random.choice([(0,), (1,), (0, 1), ()]), flag, random.random() < 0.5),
            lambda: SessionQueueQuery(name),
            lambda: SessionBindingQuery(name),
            lambda: SessionRequestProducerCredits(random.choice([0, 1, 1000, -1]), name),
            lambda: SessionAddMetadataV2("k", "v", flag),
            lambda: SessionUniqueAddMetadata("jms-client-id", random.choice("ab"), flag),
            lambda: SessionSendLarge(self._message()),
            lambda: SessionSendContinuation(b"x", flag, 1, flag, 3),
            lambda: PacketsConfirmed(random.randrange(-1, 50)),
            lambda: Ping(1000),
        ]
        weights = [12, 6, 6, 1, 6, 6, 2, 3, 3, 3, 2, 1, 4, 2, 2, 2, 1, 1, 2, 1, 1, 1, 1, 2, 1]
        if random.random() < 0.02:
            return SessionClose()
        return random.choices(requests, weights)[0]()
