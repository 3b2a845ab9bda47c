"""The broker, sync and protocol-blind."""

from ._authority import ALLOW_ALL, ANONYMOUS, Authority, Permission, Principal
from ._bridge_table import BridgeHost, BridgeTable
from ._bridge_view import BridgeView, BroadcastGroupView, ClusterConnectionView
from ._client_view import ClientConnection, SessionView
from ._clients import Clients
from ._clock import Clock
from ._deferred import AT_ONCE_MAX, DeferredWork
from ._definitions import (
    AddressDefinition,
    CursorDefinition,
    CursorRemoved,
    DivertDefinition,
    DivertRemoved,
    GroupDecision,
    GroupDecisionRemoved,
    QueueDefinition,
    SettingsDefinition,
    SettingsRemoved,
)
from ._facts import CommitSet, DuplicateId, FencingToken, FencingTokenRemoved, HeuristicOutcome
from ._group_notices import GroupNotice, GroupNoticeKind
from ._host_tasks import HostTask, TaskKind
from ._kernel import Kernel
from ._large_bodies import LargeBodies
from ._log_once import LineBudget, LogOnce
from ._message_counters import MessageCounters, QueueCounter
from ._observer import CommitObserver, CommittedWork, DecisionObserver, Leaving, Observers, Service, When
from ._partial_match import is_decided_by, may_match
from ._recovery import MessageRecord, Recovery, StoredTransaction
from ._refusal import Refused, Scope, name_in_text
from ._router import Router
from ._schedule import Schedule
from ._session import Session
from ._statistics import BacklogStatistics, KernelStatistics, QueueStatistics
from ._store import Fact, MemoryStore, Store
from .addressing._address import Address
from .addressing._addresses import AddressManager, split_fqqn
from .addressing._cluster_groups import ClusterGroups, GroupingHandler, RoutingUndecided
from .addressing._divert_table import DivertTable
from .addressing._diverts import Divert, DivertedMessage
from .addressing._internal_bindings import InternalBinding
from .addressing._remote_binding import RemoteBinding, common_routing_type
from .addressing._views import AddressView, QueueRequest, QueueUpdate, QueueView
from .cursors._cursors import CursorRefused, Cursors, CursorState, Pin, Reading
from .message._body import LARGE, RESIDENT, Body
from .message._body_store import BodyStore, MemoryBodies, OnFinished, OnRead
from .message._message import Message
from .message._stored import Codec, StoredMessage
from .queueing._backlog import Bookmark, Reference, Restore
from .queueing._backpressure import Backpressure
from .queueing._credit import UNLIMITED_CREDIT, ByteCredit, CountCredit, Credit
from .queueing._queue import Consumer, ConsumerPort, Queue
from .queueing._temporary_queues import TemporaryQueues
from .selector._selector import InvalidSelector, Selector, SelectorCache, parse_condition_on, parse_selector
from .settling._forwarding import RouteCopier, copiers_by
from .settling._outcome import Outcome
from .settling._settlement import Settlement
from .transactions._duplicate_ids import BRIDGE_ID_PREFIX, sender_of, split_id_with_address
from .transactions._transaction import Transaction, TransactionState
from .xa._branch import Branch, XaRefused, xid_bytes, xid_of
from .xa._branches import XaBranches, name_of
from .xa._commit_set import COMMIT_SET_BRANCHES_MAX, BranchMissing, CommitSetDone, CommitSets
from .xa._fencing_token import (
    FENCING_TOKEN_NAME_BYTES_MAX,
    FENCING_TOKENS_MAX,
    FencingTokenMoved,
    FencingTokens,
)

__all__ = [
    "ALLOW_ALL",
    "ANONYMOUS",
    "AT_ONCE_MAX",
    "BRIDGE_ID_PREFIX",
    "COMMIT_SET_BRANCHES_MAX",
    "FENCING_TOKENS_MAX",
    "FENCING_TOKEN_NAME_BYTES_MAX",
    "LARGE",
    "RESIDENT",
    "UNLIMITED_CREDIT",
    "Address",
    "AddressDefinition",
    "AddressManager",
    "AddressView",
    "Authority",
    "BacklogStatistics",
    "Backpressure",
    "Body",
    "BodyStore",
    "Bookmark",
    "Branch",
    "BranchMissing",
    "BridgeHost",
    "BridgeTable",
    "BridgeView",
    "BroadcastGroupView",
    "ByteCredit",
    "ClientConnection",
    "Clients",
    "Clock",
    "ClusterConnectionView",
    "ClusterGroups",
    "Codec",
    "CommitObserver",
    "CommitSet",
    "CommitSetDone",
    "CommitSets",
    "CommittedWork",
    "Consumer",
    "ConsumerPort",
    "CountCredit",
    "Credit",
    "CursorDefinition",
    "CursorRefused",
    "CursorRemoved",
    "CursorState",
    "Cursors",
    "DecisionObserver",
    "DeferredWork",
    "Divert",
    "DivertDefinition",
    "DivertRemoved",
    "DivertTable",
    "DivertedMessage",
    "DuplicateId",
    "Fact",
    "FencingToken",
    "FencingTokenMoved",
    "FencingTokenRemoved",
    "FencingTokens",
    "GroupDecision",
    "GroupDecisionRemoved",
    "GroupNotice",
    "GroupNoticeKind",
    "GroupingHandler",
    "HeuristicOutcome",
    "HostTask",
    "InternalBinding",
    "InvalidSelector",
    "Kernel",
    "KernelStatistics",
    "LargeBodies",
    "Leaving",
    "LineBudget",
    "LogOnce",
    "MemoryBodies",
    "MemoryStore",
    "Message",
    "MessageCounters",
    "MessageRecord",
    "Observers",
    "OnFinished",
    "OnRead",
    "Outcome",
    "Permission",
    "Pin",
    "Principal",
    "Queue",
    "QueueCounter",
    "QueueDefinition",
    "QueueRequest",
    "QueueStatistics",
    "QueueUpdate",
    "QueueView",
    "Reading",
    "Recovery",
    "Reference",
    "Refused",
    "RemoteBinding",
    "Restore",
    "RouteCopier",
    "Router",
    "RoutingUndecided",
    "Schedule",
    "Scope",
    "Selector",
    "SelectorCache",
    "Service",
    "Session",
    "SessionView",
    "SettingsDefinition",
    "SettingsRemoved",
    "Settlement",
    "Store",
    "StoredMessage",
    "StoredTransaction",
    "TaskKind",
    "TemporaryQueues",
    "Transaction",
    "TransactionState",
    "When",
    "XaBranches",
    "XaRefused",
    "common_routing_type",
    "copiers_by",
    "is_decided_by",
    "may_match",
    "name_in_text",
    "name_of",
    "parse_condition_on",
    "parse_selector",
    "sender_of",
    "split_fqqn",
    "split_id_with_address",
    "xid_bytes",
    "xid_of",
]
