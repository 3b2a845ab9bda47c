"""The broker, sync and protocol-blind."""

from ._address import Address
from ._audit_trail import AuditTrail, Leaving
from ._backlog import Reference, Restore
from ._branch import Branch, HeuristicOutcome, XaRefused, xid_bytes, xid_of
from ._branches import BranchTable, name_of
from ._catalog import Catalog, split_fqqn
from ._commit_set import COMMIT_SET_BRANCHES_MAX, BranchMissing, CommitSet, SetDone
from ._consumer import Consumer, ConsumerPort
from ._credit import UNLIMITED_CREDIT, ByteCredit, CountCredit, Credit
from ._cursors import CursorRefused, Cursors, Pin, Reading, Standing
from ._definitions import SERVICES_ADDRESS, AddressDefinition, CursorDefinition, CursorRemoved, QueueDefinition
from ._duplicate_ids import DuplicateId
from ._events import Events
from ._kernel import Kernel
from ._marker import MARKER_NAME_BYTES_MAX, MARKERS_MAX, Marker, MarkerMoved, MarkerRemoved
from ._outcome import Outcome
from ._queue import Queue
from ._recovery import Recovery, StoredMessage, StoredTransaction
from ._refusal import Refused, Scope
from ._selector import InvalidSelector, Selector, SelectorCache, parse_selector
from ._session import Session
from ._settlement import Settlement
from ._store import Fact, MemoryStore, Store
from ._transaction import Transaction, TransactionState
from ._valve import Valve
from ._views import AddressView, QueueRequest, QueueView

__all__ = [
    "COMMIT_SET_BRANCHES_MAX",
    "MARKERS_MAX",
    "MARKER_NAME_BYTES_MAX",
    "SERVICES_ADDRESS",
    "UNLIMITED_CREDIT",
    "Address",
    "AddressDefinition",
    "AddressView",
    "AuditTrail",
    "Branch",
    "BranchMissing",
    "BranchTable",
    "ByteCredit",
    "Catalog",
    "CommitSet",
    "Consumer",
    "ConsumerPort",
    "CountCredit",
    "Credit",
    "CursorDefinition",
    "CursorRefused",
    "CursorRemoved",
    "Cursors",
    "DuplicateId",
    "Events",
    "Fact",
    "HeuristicOutcome",
    "InvalidSelector",
    "Kernel",
    "Leaving",
    "Marker",
    "MarkerMoved",
    "MarkerRemoved",
    "MemoryStore",
    "Outcome",
    "Pin",
    "Queue",
    "QueueDefinition",
    "QueueRequest",
    "QueueView",
    "Reading",
    "Recovery",
    "Reference",
    "Refused",
    "Restore",
    "Scope",
    "Selector",
    "SelectorCache",
    "Session",
    "SetDone",
    "Settlement",
    "Standing",
    "Store",
    "StoredMessage",
    "StoredTransaction",
    "Transaction",
    "TransactionState",
    "Valve",
    "XaRefused",
    "name_of",
    "parse_selector",
    "split_fqqn",
    "xid_bytes",
    "xid_of",
]
