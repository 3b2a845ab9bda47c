"""Places of the broker at which mutation checks put a bug in, by name.

A check names a point and not a private method: what moves in a refactoring is corrected here, once.
`test_fault_points.py` proves that ordinary seeds come past each point, so that no refactoring switches a check off.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from embedbroker.cluster import RemoteBindings
from embedbroker.ha.quorum import VoteRound
from embedbroker.ha.quorum._voter import Voter
from embedbroker.ha.replication._activation import ReplicationActivation
from embedbroker.ha.replication._active import ActiveRole
from embedbroker.ha.replication._cold_start import ColdStartAgreement
from embedbroker.kernel import Cursors, Queue, Schedule, Session, Settlement, Transaction
from embedbroker.kernel._housekeeping import Housekeeping
from embedbroker.kernel._memory import MemoryAccount
from embedbroker.kernel._router import Router
from embedbroker.kernel.addressing._addresses import AddressManager
from embedbroker.kernel.queueing._dispatcher import Dispatcher
from embedbroker.kernel.queueing._groups import GroupDispatcher
from embedbroker.kernel.settling._delivery_count import PersistedDeliveryCount
from embedbroker.kernel.xa._commit_set import CommitSets
from embedbroker.locks import Claim, _lease_activation
from embedbroker.locks._memory import _MemorySession
from embedbroker.management import _acceptor_control, _queue_control
from embedbroker.outbound import Bridge, _bridged_message
from embedbroker.outbound._address_move import AddressMove
from embedbroker.outbound._bridge_consumer import BridgeConsumer
from embedbroker.outbound._bridged_upload import BridgedUpload
from embedbroker.protocols.core import _session
from embedbroker.protocols.core._connection import CoreConnection
from embedbroker.protocols.core._large_delivery import LargeDelivery
from embedbroker.replication import Replica, Replicator
from embedbroker.replication._initial_copy import InitialCopy
from embedbroker.storage import RecoveredState
from embedbroker.storage.recovery._replay import Replay
from embedbroker.testing._leases import _Session
from embedclient.agent.session._delivery_flow import DeliveryFlow

__all__ = ["FAULT_POINTS", "fault_point", "replace"]

Place = type | ModuleType

#: By kind of seeds, as the hunts name them, and by name.
FAULT_POINTS: dict[str, dict[str, tuple[Place, str]]] = {
    "ONE_BROKER": {
        "create a session": (CoreConnection, "_create_session"),
        "deliver": (Queue, "_hand"),
        "deliver behind its count": (PersistedDeliveryCount, "deliver"),
        "publish": (Queue, "publish"),
        "schedule": (Queue, "schedule"),
        "attach a consumer": (Queue, "add_consumer"),
        "give a turn": (Dispatcher, "enter"),
        "assign a group": (GroupDispatcher, "_assign"),
        "look at passed messages again": (GroupDispatcher, "_look_again"),
        "look at the expiration of a group": (Queue, "is_expired"),
        "wait for a rebalance": (Queue, "_begin_rebalance"),
        "end a rebalance": (Queue, "end_rebalance"),
        "look for acknowledged messages": (Session, "has_taken_from"),
        "expire": (Schedule, "expire"),
        "settle": (Settlement, "settle"),
        "settle what was delivered": (Schedule, "settle_delivered"),
        "give back": (Settlement, "_give_back"),
        "roll back": (Transaction, "rollback"),
        "look at an idle queue": (Housekeeping, "_look_at_queue"),
        "hold memory": (MemoryAccount, "hold"),
        "is memory full": (MemoryAccount, "is_full"),
        "grant waiting credit": (MemoryAccount, "grant_waiting"),
        "replay an acknowledgement": (Replay, "_settle"),
        "recover messages": (RecoveredState, "take_messages"),
        "look up the group of a message": (GroupDispatcher, "_key_of"),
        "give out what has come": (DeliveryFlow, "_run"),
    },
    "ADMINISTRATION": {
        "record a pause": (AddressManager, "_record_pause"),
        "visit the messages of a queue": (_queue_control, "_each"),
        "select messages": (_queue_control, "_selected"),
        "switch the acceptor": (_acceptor_control, "_switch"),
    },
    "SHARED_STORE": {
        "take the results of a look at the lock": (Claim, "_on_look"),
        "do a lock operation": (_MemorySession, "_do"),
        "claim the lock": (Claim, "_claim_it"),
        "may inherit the lock": (Claim, "_may_inherit"),
    },
    "REPLICATION": {
        "count a work as done": (Replicator, "_counts_as_done"),
        "issue a work": (Replicator, "_issue"),
        "renew the activation": (ActiveRole, "_renew"),
        "do a lease operation": (_Session, "_do"),
        "look whether the data is behind": (_lease_activation, "_behind"),
        "claim a number under the lease": (_lease_activation, "_under_lease"),
        "request the lease": (ReplicationActivation, "_request_lease"),
        "compare the copies": (InitialCopy, "_compare"),
        "gather works": (Replica, "_gather"),
        "receive a work": (Replica, "_on_work"),
        "answer a work": (Replica, "_answer"),
    },
    "VOTES": {
        "renew the activation by votes": (ActiveRole, "_renew"),
        "count votes": (VoteRound, "_count"),
        "read the grants": (Voter, "_on_read"),
        "form a view of a question": (Voter, "_view"),
        "take the offer of a waiting broker": (ColdStartAgreement, "_on_offer"),
        "give way to a waiting broker": (ColdStartAgreement, "_give_way"),
    },
    "READERS": {
        "pin a range": (Cursors, "_pin"),
        "change a cursor": (Cursors, "_change"),
        "advance a cursor": (Cursors, "_advance"),
    },
    "COMMIT_SETS": {
        "carry out a set": (CommitSets, "_carry_out"),
        "decide on a set": (CommitSets, "_decide"),
        "undo a set": (CommitSets, "_undo"),
        "replay a set": (Replay, "_commit_set"),
    },
    "DIVERTS": {
        "send to other addresses": (Router, "_send_to_others"),
    },
    "PERMISSIONS": {
        "permit": (Session, "_allow"),
    },
    "LARGE_BODIES": {
        "send a chunk": (LargeDelivery, "_send_chunk"),
    },
    "BRIDGES": {
        "identify a forwarded message": (_bridged_message, "bridge_id"),
        "confirm forwarded messages": (BridgeConsumer, "settle_confirmed"),
        "refuse a forwarded message": (BridgeConsumer, "on_failed"),
        "wait before the next attempt": (Bridge, "_pause_before_retry"),
        "read a part of a body": (BridgedUpload, "_on_read"),
    },
    "CLUSTERS": {
        "remove bindings": (RemoteBindings, "_remove"),
        "remove the binding of a queue": (RemoteBindings, "_on_removed"),
        "read the distance of a queue": (RemoteBindings, "_distance"),
        "read what a bridge added": (_session, "from_bridge"),
        "wait for the confirmation of a move": (AddressMove, "_expect"),
    },
}
_BY_NAME = {name: point for points in FAULT_POINTS.values() for name, point in points.items()}


def fault_point(name: str) -> Callable[..., Any]:
    """Return what happens at a point, for a bug that changes it."""
    place, attribute = _BY_NAME[name]
    found: Callable[..., Any] = place.__dict__[attribute]
    return found


def replace(patch: pytest.MonkeyPatch, name: str, bug: Callable[..., Any]) -> None:
    """Put a bug in at a point."""
    place, attribute = _BY_NAME[name]
    patch.setattr(place, attribute, bug)
