"""The broker, sync and protocol-blind."""

from ._address import Address
from ._backlog import Reference, Restore
from ._catalog import Catalog, split_fqqn
from ._consumer import UNLIMITED_CREDIT, Consumer, ConsumerPort
from ._definitions import AddressDefinition, QueueDefinition
from ._duplicate_ids import DuplicateId
from ._kernel import Kernel
from ._queue import Queue
from ._recovery import Recovery, StoredMessage
from ._refusal import Refused, Scope
from ._selector import InvalidSelector, Selector, SelectorCache, parse_selector
from ._session import Session
from ._store import MemoryStore, Store
from ._transaction import Transaction, TransactionState
from ._valve import Valve
from ._views import AddressView, QueueRequest, QueueView

__all__ = [
    "UNLIMITED_CREDIT",
    "Address",
    "AddressDefinition",
    "AddressView",
    "Catalog",
    "Consumer",
    "ConsumerPort",
    "DuplicateId",
    "InvalidSelector",
    "Kernel",
    "MemoryStore",
    "Queue",
    "QueueDefinition",
    "QueueRequest",
    "QueueView",
    "Recovery",
    "Reference",
    "Refused",
    "Restore",
    "Scope",
    "Selector",
    "SelectorCache",
    "Session",
    "Store",
    "StoredMessage",
    "Transaction",
    "TransactionState",
    "Valve",
    "parse_selector",
    "split_fqqn",
]
