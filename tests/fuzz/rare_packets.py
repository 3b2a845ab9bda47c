"""Frames of packets that no capture holds, so that fuzzing reaches their decoders too."""

from __future__ import annotations

from embedclient.model import TransportConfiguration
from embedclient.wire.core import (
    BackupRequest,
    BackupRequestResponse,
    ClusterTopology,
    ClusterTopologyV3,
    CopiedFile,
    CopyBegin,
    CopyMark,
    CreateSharedQueue,
    Disconnect,
    DisconnectV2,
    DisconnectV3,
    FederationAddressPolicy,
    FederationConnection,
    FederationDownstreamConnect,
    FederationPolicySet,
    FederationProperty,
    FederationQueueMatch,
    FederationQueuePolicy,
    FederationStream,
    FederationTransformer,
    HeldFile,
    Packet,
    ReplicaAccepted,
    ReplicaInventory,
    ReplicaRefused,
    ReplicaRegistration,
    ReplicaWaiting,
    SessionAddMetadata,
    StreamAnswer,
    StreamFarewell,
    enclose,
    encode_packet,
)
from tests.vectors.captures import CapturedFrame

CONNECTOR = TransportConfiguration("a", "some.Factory", {"host": "h", "port": 61616, "sslEnabled": True}, {"x": "y"})

FEDERATION = FederationDownstreamConnect(
    "fed",
    True,
    "user",
    None,
    (
        FederationQueuePolicy("qp", True, -1, None, (FederationQueueMatch("a", "#"),), ()),
        FederationAddressPolicy("ap", True, 1, -1, 2, "t", ("a.#",), ("b", "c"), True),
        FederationPolicySet("set", ("qp", "ap")),
    ),
    (FederationTransformer("t", "some.Class", (FederationProperty("k", "v"),)),),
    FederationStream("up", FederationConnection("u", None, True, -1, 1, 2, 3, 1.5, 4, 5, 6, 7, 8), ("set",), CONNECTOR),
)

# Each with the side that may send it.
RARE: list[tuple[Packet, bool]] = [
    (ClusterTopology(False, "n1", CONNECTOR, None, True), False),
    (ClusterTopologyV3(False, "n1", 7, CONNECTOR, CONNECTOR, False, "g", "s"), False),
    (Disconnect("n1"), False),
    (DisconnectV2("n1", "n2"), False),
    (DisconnectV3("n1", 0, "n2", CONNECTOR), False),
    (CreateSharedQueue("a", "q", "x=1", True, True), True),
    (SessionAddMetadata("key", "value"), True),
    (BackupRequest(5, "j", "b", None, "p", "n1"), True),
    (BackupRequestResponse(True), False),
    (FEDERATION, True),
    (enclose(ReplicaRegistration(1, "n1", "g", True, CONNECTOR)), True),
    (enclose(ReplicaRegistration(1, "n1", "g", True, CONNECTOR, "cluster")), True),
    (enclose(ReplicaWaiting(1, "n1", 5, True, False, CONNECTOR, "b")), True),
    (enclose(ReplicaWaiting(1, "n1", 5, True, False, CONNECTOR, None)), False),
    (ReplicaAccepted(1, "n1", 2, 3, True), False),
    (ReplicaRefused(2, "it has one"), False),
    (ReplicaInventory(5, "b", (HeldFile("a", 9, b"digest"), HeldFile("b", 1 << 40, b""))), True),
    (CopyBegin(True, (CopiedFile("a", 1, 9), CopiedFile("b", 0, 16))), False),
    (CopyMark(2, 7), False),
    (StreamAnswer(1, 300), True),
    (StreamFarewell(3, "the disk failed"), False),
]


def rare_frames() -> list[CapturedFrame]:
    """Return the frames, in the form captured ones have."""
    return [
        CapturedFrame(
            file="",
            line=0,
            connection=0,
            from_client=from_client,
            channel=0,
            type=packet.TYPE,
            name=type(packet).__name__,
            data=encode_packet(packet, 0, 136),
            version=136,
            lost=False,
        )
        for packet, from_client in RARE
    ]
