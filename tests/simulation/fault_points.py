"""Places of the broker at which mutation checks put a bug in, by name.

A check names a point and not a private method: what moves in a refactoring is corrected here, once.
`test_fault_points.py` proves that ordinary seeds come past each point, so that no refactoring switches a check off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from embedbroker.kernel import Queue, Schedule, Session, Settlement, Transaction
from embedbroker.kernel._housekeeping import Housekeeping
from embedbroker.kernel._memory import MemoryAccount
from embedbroker.kernel.queueing._dispatcher import Dispatcher
from embedbroker.kernel.queueing._groups import GroupDispatcher
from embedbroker.kernel.settling._delivery_count import PersistedDeliveryCount
from embedbroker.storage import RecoveredState
from embedbroker.storage.recovery._replay import Replay

__all__ = ["FAULT_POINTS", "fault_point", "replace"]

FAULT_POINTS: dict[str, tuple[type, str]] = {
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
}


def fault_point(name: str) -> Callable[..., Any]:
    """Return what happens at a point, for a bug that changes it."""
    place, attribute = FAULT_POINTS[name]
    found: Callable[..., Any] = place.__dict__[attribute]
    return found


def replace(patch: pytest.MonkeyPatch, name: str, bug: Callable[..., Any]) -> None:
    """Put a bug in at a point."""
    place, attribute = FAULT_POINTS[name]
    patch.setattr(place, attribute, bug)
