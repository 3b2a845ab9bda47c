"""Bugs of a broker that an administrator works on, put in one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from embedbroker.kernel import Leaving, Queue, Reference, Settlement
from embedbroker.kernel.settling._removal import Removal
from embedbroker.management._registry import Call, Work

from .fault_points import fault_point, replace
from .hunting import Bug, every

__all__ = ["ADMINISTRATION_BUGS"]


def forget_a_pause_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "record a pause", lambda self, queue, paused: None)


def take_a_later_message_with_a_purge(patch: pytest.MonkeyPatch) -> None:
    """A purge does not end: now and then it removes what came later."""
    each, publish, is_lost = fault_point("visit the messages of a queue"), fault_point("publish"), every(10)
    purged: dict[Queue, Removal] = {}

    def greedy(call: Call, queue: Queue, *how: Any) -> Work:
        count = yield from each(call, queue, *how)
        purged[queue] = call.kernel.removal
        return count

    def losing(self: Queue, reference: Reference) -> None:
        removal = purged.get(self)
        if removal is not None and is_lost():
            for waiting in self.backlog.remove_if(lambda other: True):
                if waiting is not None:
                    removal.leave(self, (waiting,), Leaving.REMOVED)
        publish(self, reference)

    replace(patch, "visit the messages of a queue", greedy)
    replace(patch, "publish", losing)


def take_what_is_in_delivery_with_a_purge(patch: pytest.MonkeyPatch) -> None:
    """A purge removes one message that a consumer has; when it comes back, it is gone."""
    each, give_back = fault_point("visit the messages of a queue"), fault_point("give back")
    doomed: set[tuple[str, int]] = set()

    def greedy(call: Call, queue: Queue, *how: Any) -> Work:
        count = yield from each(call, queue, *how)
        for consumer in queue.consumers:
            doomed.update([(queue.name, reference.message.message_id) for reference in consumer.unsettled.values()])
        return count

    def losing(self: Settlement, queue: Queue, reference: Reference, *how: Any) -> None:
        if (queue.name, reference.message.message_id) in doomed:
            self._removal.leave(queue, (reference,), Leaving.REMOVED)
        else:
            give_back(self, queue, reference, *how)

    replace(patch, "visit the messages of a queue", greedy)
    replace(patch, "give back", losing)


def leave_messages_behind_a_purge(patch: pytest.MonkeyPatch) -> None:
    each = fault_point("visit the messages of a queue")

    def careless(call: Call, queue: Queue, act: Callable[[Queue, Reference], None], *how: Any) -> Any:
        return each(call, queue, act, lambda reference: reference.message.message_id % 5 != 0)

    replace(patch, "visit the messages of a queue", careless)


def deliver_what_arrives_at_a_paused_queue(patch: pytest.MonkeyPatch) -> None:
    publish = fault_point("publish")

    def eager(self: Queue, reference: Reference) -> None:
        holds = self._holds
        self._holds -= self.is_paused
        publish(self, reference)
        self._holds = holds

    replace(patch, "publish", eager)


ADMINISTRATION_BUGS: list[Bug] = [
    forget_a_pause_in_a_restart,
    deliver_what_arrives_at_a_paused_queue,
    take_a_later_message_with_a_purge,
    take_what_is_in_delivery_with_a_purge,
    leave_messages_behind_a_purge,
]
