"""Active and backup: a second broker that keeps the same files, and takes over."""

from embedclient.wire.core import ReplicaRegistration, ReplicaWaiting

from ._backup import Replica
from ._events import (
    STREAM_CHANNEL,
    STREAM_FORMAT,
    Ending,
    EndingKind,
    PrimaryStatus,
    Refusal,
    ReplicaOwner,
    ReplicaState,
    ReplicatorOwner,
    ReplicatorState,
    StreamConnection,
)
from ._files import NEW_VOTES_FILE, VOTES_FILE
from ._primary import Replicator
from ._primary_choice import PrimaryChoice
from ._record import NEW_NODE_RECORD_FILE, NODE_RECORD_FILE, DamagedRecord, ReplicaRecord, ScaleDownMark
from ._statistics import ReplicaStatistics, ReplicatorStatistics

__all__ = [
    "NEW_NODE_RECORD_FILE",
    "NEW_VOTES_FILE",
    "NODE_RECORD_FILE",
    "STREAM_CHANNEL",
    "STREAM_FORMAT",
    "VOTES_FILE",
    "DamagedRecord",
    "Ending",
    "EndingKind",
    "PrimaryChoice",
    "PrimaryStatus",
    "Refusal",
    "Replica",
    "ReplicaOwner",
    "ReplicaRecord",
    "ReplicaRegistration",
    "ReplicaState",
    "ReplicaStatistics",
    "ReplicaWaiting",
    "Replicator",
    "ReplicatorOwner",
    "ReplicatorState",
    "ReplicatorStatistics",
    "ScaleDownMark",
    "StreamConnection",
]
