"""The CORE protocol of Apache Artemis as bytes and values.

Packet families load when the first of their names is used, so that importing this package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._codec import decode_packet, encode_packet
from ._framing import FRAME_HEADER, FRAME_HEADER_SIZE, HANDSHAKE, FrameSplitter, frame_spans
from ._message import (
    DUPLICATE_ID_KEY,
    ROUTING_TYPE_KEY,
    CoreMessage,
    MessageTemplate,
    MessageType,
    from_1x,
    known_address,
    property_key,
    to_1x,
)
from ._message_lane import (
    ACKNOWLEDGE_BODY,
    ACKNOWLEDGE_RUN,
    CREDIT_BODY,
    RECEIVE_TRAILER,
    RECEIVE_TRAILER_SIZE,
    SEND_TRAILER,
    SEND_TRAILER_130,
    SEND_TRAILER_OLD,
    encode_acknowledge,
    encode_consumer_credit,
    encode_null_response,
    encode_receive,
    encode_send,
    message_raw,
    send_trailer,
    send_trailer_size,
)
from ._message_reader import MessageReader
from ._packet_table import Packet, Record
from ._packet_type import DisconnectReason, PacketType, is_confirmed

if TYPE_CHECKING:
    from ._bodies import (
        Reader,
        append_bytes_value,
        append_stream_item,
        decode_map,
        decode_object,
        decode_stream,
        decode_text,
        encode_map,
        encode_object,
        encode_stream,
        encode_text,
        read_bytes_value,
        read_stream_item,
    )
    from ._cluster_packets import (
        BackupRegistration,
        BackupRegistrationFailed,
        BackupRegistrationProblem,
        BackupRequest,
        BackupRequestResponse,
        ClusterConnect,
        ClusterConnectReply,
        NodeAnnounce,
        QuorumVote,
        QuorumVoteReply,
        ScaleDownAnnouncement,
    )
    from ._connection_packets import (
        CheckForFailover,
        CheckForFailoverReply,
        ClusterTopology,
        ClusterTopologyV2,
        ClusterTopologyV3,
        ClusterTopologyV4,
        CreateSession,
        CreateSessionResponse,
        CreateSessionV2,
        Disconnect,
        DisconnectV2,
        DisconnectV3,
        ExceptionResponse,
        NullResponse,
        PacketsConfirmed,
        Ping,
        ReattachSession,
        ReattachSessionResponse,
        SubscribeTopology,
        SubscribeTopologyV2,
    )
    from ._enclosed import ReplicaRegistration, ReplicaWaiting, enclose, enclosed_in
    from ._federation_packets import (
        FederationAddressPolicy,
        FederationConnection,
        FederationDownstreamConnect,
        FederationPolicy,
        FederationPolicySet,
        FederationProperty,
        FederationQueueMatch,
        FederationQueuePolicy,
        FederationStream,
        FederationTransformer,
    )
    from ._queue_packets import (
        CreateAddress,
        CreateQueue,
        CreateQueueV2,
        CreateSharedQueue,
        CreateSharedQueueV2,
        DeleteQueue,
        SessionAddMetadata,
        SessionAddMetadataV2,
        SessionBindingQuery,
        SessionBindingQueryResponse,
        SessionBindingQueryResponseV2,
        SessionBindingQueryResponseV3,
        SessionBindingQueryResponseV4,
        SessionBindingQueryResponseV5,
        SessionQueueQuery,
        SessionQueueQueryResponse,
        SessionQueueQueryResponseV2,
        SessionQueueQueryResponseV3,
        SessionUniqueAddMetadata,
    )
    from ._quorum_vote import (
        LIVE_VOTE_HANDLER,
        PRIMARY_VOTE_HANDLER,
        LiveVote,
        decode_vote,
        encode_vote,
    )
    from ._replication_packets import (
        CopiedFile,
        CopyBegin,
        CopyMark,
        Farewell,
        HeldFile,
        OperationCode,
        ReplicaAccepted,
        ReplicaInventory,
        ReplicaRefused,
        StreamAnswer,
        StreamChunk,
        StreamFarewell,
        StreamMark,
        StreamOperation,
        StreamType,
        StreamWork,
        decode_chunk,
        decode_work,
        encode_chunk,
        encode_work,
    )
    from ._session_packets import (
        CreateProducer,
        DisconnectConsumer,
        DisconnectConsumerKill,
        RemoveProducer,
        SessionAcknowledge,
        SessionClose,
        SessionCommit,
        SessionConsumerClose,
        SessionConsumerFlowCredit,
        SessionCreateConsumer,
        SessionExpire,
        SessionForceConsumerDelivery,
        SessionIndividualAcknowledge,
        SessionProducerCredits,
        SessionProducerCreditsFail,
        SessionReceiveContinuation,
        SessionReceiveLarge,
        SessionReceiveMessage,
        SessionRequestProducerCredits,
        SessionRollback,
        SessionSend,
        SessionSendContinuation,
        SessionSendLarge,
        SessionStart,
        SessionStop,
    )
    from ._xa_packets import (
        SessionXaCommit,
        SessionXaEnd,
        SessionXaFailed,
        SessionXaForget,
        SessionXaGetTimeout,
        SessionXaGetTimeoutResponse,
        SessionXaInDoubtXids,
        SessionXaInDoubtXidsResponse,
        SessionXaJoin,
        SessionXaPrepare,
        SessionXaResponse,
        SessionXaResume,
        SessionXaRollback,
        SessionXaSetTimeout,
        SessionXaSetTimeoutResponse,
        SessionXaStart,
        SessionXaSuspend,
    )

__all__ = [
    "ACKNOWLEDGE_BODY",
    "ACKNOWLEDGE_RUN",
    "CREDIT_BODY",
    "DUPLICATE_ID_KEY",
    "FRAME_HEADER",
    "FRAME_HEADER_SIZE",
    "HANDSHAKE",
    "LIVE_VOTE_HANDLER",
    "PRIMARY_VOTE_HANDLER",
    "RECEIVE_TRAILER",
    "RECEIVE_TRAILER_SIZE",
    "ROUTING_TYPE_KEY",
    "SEND_TRAILER",
    "SEND_TRAILER_130",
    "SEND_TRAILER_OLD",
    "BackupRegistration",
    "BackupRegistrationFailed",
    "BackupRegistrationProblem",
    "BackupRequest",
    "BackupRequestResponse",
    "CheckForFailover",
    "CheckForFailoverReply",
    "ClusterConnect",
    "ClusterConnectReply",
    "ClusterTopology",
    "ClusterTopologyV2",
    "ClusterTopologyV3",
    "ClusterTopologyV4",
    "CopiedFile",
    "CopyBegin",
    "CopyMark",
    "CoreMessage",
    "CreateAddress",
    "CreateProducer",
    "CreateQueue",
    "CreateQueueV2",
    "CreateSession",
    "CreateSessionResponse",
    "CreateSessionV2",
    "CreateSharedQueue",
    "CreateSharedQueueV2",
    "DeleteQueue",
    "Disconnect",
    "DisconnectConsumer",
    "DisconnectConsumerKill",
    "DisconnectReason",
    "DisconnectV2",
    "DisconnectV3",
    "ExceptionResponse",
    "Farewell",
    "FederationAddressPolicy",
    "FederationConnection",
    "FederationDownstreamConnect",
    "FederationPolicy",
    "FederationPolicySet",
    "FederationProperty",
    "FederationQueueMatch",
    "FederationQueuePolicy",
    "FederationStream",
    "FederationTransformer",
    "FrameSplitter",
    "HeldFile",
    "LiveVote",
    "MessageReader",
    "MessageTemplate",
    "MessageType",
    "NodeAnnounce",
    "NullResponse",
    "OperationCode",
    "Packet",
    "PacketType",
    "PacketsConfirmed",
    "Ping",
    "QuorumVote",
    "QuorumVoteReply",
    "Reader",
    "ReattachSession",
    "ReattachSessionResponse",
    "Record",
    "RemoveProducer",
    "ReplicaAccepted",
    "ReplicaInventory",
    "ReplicaRefused",
    "ReplicaRegistration",
    "ReplicaWaiting",
    "ScaleDownAnnouncement",
    "SessionAcknowledge",
    "SessionAddMetadata",
    "SessionAddMetadataV2",
    "SessionBindingQuery",
    "SessionBindingQueryResponse",
    "SessionBindingQueryResponseV2",
    "SessionBindingQueryResponseV3",
    "SessionBindingQueryResponseV4",
    "SessionBindingQueryResponseV5",
    "SessionClose",
    "SessionCommit",
    "SessionConsumerClose",
    "SessionConsumerFlowCredit",
    "SessionCreateConsumer",
    "SessionExpire",
    "SessionForceConsumerDelivery",
    "SessionIndividualAcknowledge",
    "SessionProducerCredits",
    "SessionProducerCreditsFail",
    "SessionQueueQuery",
    "SessionQueueQueryResponse",
    "SessionQueueQueryResponseV2",
    "SessionQueueQueryResponseV3",
    "SessionReceiveContinuation",
    "SessionReceiveLarge",
    "SessionReceiveMessage",
    "SessionRequestProducerCredits",
    "SessionRollback",
    "SessionSend",
    "SessionSendContinuation",
    "SessionSendLarge",
    "SessionStart",
    "SessionStop",
    "SessionUniqueAddMetadata",
    "SessionXaCommit",
    "SessionXaEnd",
    "SessionXaFailed",
    "SessionXaForget",
    "SessionXaGetTimeout",
    "SessionXaGetTimeoutResponse",
    "SessionXaInDoubtXids",
    "SessionXaInDoubtXidsResponse",
    "SessionXaJoin",
    "SessionXaPrepare",
    "SessionXaResponse",
    "SessionXaResume",
    "SessionXaRollback",
    "SessionXaSetTimeout",
    "SessionXaSetTimeoutResponse",
    "SessionXaStart",
    "SessionXaSuspend",
    "StreamAnswer",
    "StreamChunk",
    "StreamFarewell",
    "StreamMark",
    "StreamOperation",
    "StreamType",
    "StreamWork",
    "SubscribeTopology",
    "SubscribeTopologyV2",
    "append_bytes_value",
    "append_stream_item",
    "decode_chunk",
    "decode_map",
    "decode_object",
    "decode_packet",
    "decode_stream",
    "decode_text",
    "decode_vote",
    "decode_work",
    "enclose",
    "enclosed_in",
    "encode_acknowledge",
    "encode_chunk",
    "encode_consumer_credit",
    "encode_map",
    "encode_null_response",
    "encode_object",
    "encode_packet",
    "encode_receive",
    "encode_send",
    "encode_stream",
    "encode_text",
    "encode_vote",
    "encode_work",
    "frame_spans",
    "from_1x",
    "is_confirmed",
    "known_address",
    "message_raw",
    "property_key",
    "read_bytes_value",
    "read_stream_item",
    "send_trailer",
    "send_trailer_size",
    "to_1x",
]

_NAMES = {
    "_connection_packets": (
        "CheckForFailover CheckForFailoverReply ClusterTopology ClusterTopologyV2 ClusterTopologyV3 "
        "ClusterTopologyV4 CreateSession CreateSessionResponse CreateSessionV2 Disconnect DisconnectV2 "
        "DisconnectV3 ExceptionResponse NullResponse PacketsConfirmed Ping ReattachSession "
        "ReattachSessionResponse SubscribeTopology SubscribeTopologyV2"
    ),
    "_quorum_vote": "LIVE_VOTE_HANDLER PRIMARY_VOTE_HANDLER LiveVote decode_vote encode_vote",
    "_enclosed": "ReplicaRegistration ReplicaWaiting enclose enclosed_in",
    "_queue_packets": (
        "CreateAddress CreateQueue CreateQueueV2 CreateSharedQueue CreateSharedQueueV2 DeleteQueue "
        "SessionAddMetadata SessionAddMetadataV2 SessionBindingQuery SessionBindingQueryResponse "
        "SessionBindingQueryResponseV2 SessionBindingQueryResponseV3 SessionBindingQueryResponseV4 "
        "SessionBindingQueryResponseV5 SessionQueueQuery SessionQueueQueryResponse "
        "SessionQueueQueryResponseV2 SessionQueueQueryResponseV3 SessionUniqueAddMetadata"
    ),
    "_session_packets": (
        "CreateProducer DisconnectConsumer DisconnectConsumerKill RemoveProducer SessionAcknowledge "
        "SessionClose SessionCommit SessionConsumerClose SessionConsumerFlowCredit SessionCreateConsumer "
        "SessionExpire SessionForceConsumerDelivery SessionIndividualAcknowledge SessionProducerCredits "
        "SessionProducerCreditsFail SessionReceiveContinuation SessionReceiveLarge SessionReceiveMessage "
        "SessionRequestProducerCredits SessionRollback SessionSend SessionSendContinuation SessionSendLarge "
        "SessionStart SessionStop"
    ),
    "_xa_packets": (
        "SessionXaCommit SessionXaEnd SessionXaFailed SessionXaForget SessionXaGetTimeout "
        "SessionXaGetTimeoutResponse SessionXaInDoubtXids SessionXaInDoubtXidsResponse SessionXaJoin "
        "SessionXaPrepare SessionXaResponse SessionXaResume SessionXaRollback SessionXaSetTimeout "
        "SessionXaSetTimeoutResponse SessionXaStart SessionXaSuspend"
    ),
    "_cluster_packets": (
        "BackupRegistration BackupRegistrationFailed BackupRegistrationProblem BackupRequest "
        "BackupRequestResponse ClusterConnect ClusterConnectReply NodeAnnounce QuorumVote QuorumVoteReply "
        "ScaleDownAnnouncement"
    ),
    "_federation_packets": (
        "FederationAddressPolicy FederationConnection FederationDownstreamConnect FederationPolicySet "
        "FederationProperty FederationQueueMatch FederationQueuePolicy FederationStream FederationTransformer "
        "FederationPolicy"
    ),
    "_replication_packets": (
        "CopiedFile CopyBegin CopyMark Farewell HeldFile OperationCode ReplicaAccepted ReplicaInventory "
        "ReplicaRefused StreamAnswer StreamChunk StreamFarewell StreamMark "
        "StreamOperation StreamType StreamWork decode_chunk decode_work encode_chunk encode_work"
    ),
    "_bodies": (
        "Reader append_bytes_value append_stream_item decode_map decode_object decode_stream decode_text "
        "encode_map encode_object encode_stream encode_text read_bytes_value read_stream_item"
    ),
}
_FAMILIES = {family: tuple(names.split()) for family, names in _NAMES.items()}
_FAMILY_OF = {name: family for family, names in _FAMILIES.items() for name in names}


def __getattr__(name: str) -> object:
    family = _FAMILY_OF.get(name)
    if family is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{family}", __name__)
    for each in _FAMILIES[family]:
        globals()[each] = getattr(module, each)
    return globals()[name]
