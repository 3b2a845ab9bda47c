"""Bugs of a broker that an administrator works on, put in one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest
from attrs import evolve

from embedbroker.kernel import (
    Consumer,
    Leaving,
    Outcome,
    Permission,
    Queue,
    QueueUpdate,
    Reference,
    Refused,
    Session,
    Settlement,
    TaskKind,
)
from embedbroker.kernel._definitions import QueueDefinition
from embedbroker.kernel._memory import MemoryAccount
from embedbroker.kernel._recovery import MessageRecord, Recovery
from embedbroker.kernel.addressing._address import Address
from embedbroker.kernel.addressing._addresses import AddressManager
from embedbroker.kernel.addressing._settings_table import SettingsTable
from embedbroker.kernel.selector import Selector
from embedbroker.kernel.selector._selector import NOTHING
from embedbroker.kernel.settling._removal import Removal
from embedbroker.management._registry import Call, Work
from embedbroker.node import PeerClosed
from embedbroker.node._connections import Connections
from embedbroker.security._permissions import Permissions
from embedbroker.testing._node_host import ACCEPTOR_STOPPED

from .fault_points import fault_point, replace
from .hunting import Bug, every

__all__ = ["ADMINISTRATION_BUGS"]


def forget_a_pause_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "record a pause", lambda self, queue, paused: None)


def record_every_pause(patch: pytest.MonkeyPatch) -> None:
    """A pause for one life survives it."""
    pause = AddressManager.pause_queue

    def lasting(self: AddressManager, queue: Queue, *, persist: bool) -> None:
        pause(self, queue, persist=True)

    patch.setattr(AddressManager, "pause_queue", lasting)


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


def remove_without_a_look_at_the_filter(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "select messages", lambda call, filter_text: None)


def end_a_removal_after_three_messages(patch: pytest.MonkeyPatch) -> None:
    each = fault_point("visit the messages of a queue")

    def lazy(call: Call, queue: Queue, act: Callable[[Queue, Reference], None], matches: Any) -> Any:
        if matches is None:
            return each(call, queue, act, matches)
        taken = count(1)
        return each(call, queue, act, lambda reference: matches(reference) and next(taken) <= 3)

    replace(patch, "visit the messages of a queue", lazy)


def deliver_what_arrives_at_a_paused_queue(patch: pytest.MonkeyPatch) -> None:
    publish = fault_point("publish")

    def eager(self: Queue, reference: Reference) -> None:
        holds = self._holds
        self._holds -= self.is_paused
        publish(self, reference)
        self._holds = holds

    replace(patch, "publish", eager)


def forget_the_filter_in_an_update(patch: pytest.MonkeyPatch) -> None:
    """An update without a filter removes it."""
    of = QueueUpdate.of

    def careless(self: QueueUpdate, definition: QueueDefinition) -> QueueDefinition:
        changed = of(self, definition)
        return changed if self.filter else evolve(changed, filter=None)

    patch.setattr(QueueUpdate, "of", careless)


def go_on_with_the_filter_before_an_update(patch: pytest.MonkeyPatch) -> None:
    update = Queue.update

    def late(self: Queue, definition: QueueDefinition, selector: Selector | None) -> None:
        update(self, definition, self.filter)

    patch.setattr(Queue, "update", late)


def lose_messages_in_an_update(patch: pytest.MonkeyPatch) -> None:
    """A new filter counts for what waits, too."""
    update = Queue.update

    def eager(self: Queue, definition: QueueDefinition, selector: Selector | None) -> None:
        update(self, definition, selector)
        if selector is not None:
            for reference in self.backlog.remove_if(lambda each: not selector.matches(each.message)):
                if reference is not None:
                    self.owner.expire(self, reference)

    patch.setattr(Queue, "update", eager)


def go_on_sharing_a_queue_that_becomes_exclusive(patch: pytest.MonkeyPatch) -> None:
    hand, update = fault_point("deliver"), Queue.update
    updated: dict[Queue, None] = {}

    def noting(self: Queue, definition: QueueDefinition, selector: Selector | None) -> None:
        if definition.exclusive and not self.definition.exclusive:
            updated[self] = None
        update(self, definition, selector)

    def sharing(self: Queue, consumer: Consumer, reference: Reference) -> None:
        hand(self, consumer, reference)
        if self in updated:
            self.dispatcher.holder = None

    patch.setattr(Queue, "update", noting)
    replace(patch, "deliver", sharing)


def leave_a_queue_to_one_consumer_that_is_not_exclusive_any_more(patch: pytest.MonkeyPatch) -> None:
    update = Queue.update

    def careless(self: Queue, definition: QueueDefinition, selector: Selector | None) -> None:
        holder = self.dispatcher.holder
        update(self, definition, selector)
        self.dispatcher.holder = holder

    patch.setattr(Queue, "update", careless)


def forget_how_a_queue_is_shared_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    update = AddressManager.update_queue

    def forgetful(self: AddressManager, queue: Queue, change: QueueUpdate) -> Refused | None:
        is_durable, queue.durable = queue.durable, queue.durable and change.exclusive is None
        refused = update(self, queue, change)
        queue.durable = is_durable
        return refused

    patch.setattr(AddressManager, "update_queue", forgetful)


def route_nothing_to_a_queue_with_a_new_routing_type(patch: pytest.MonkeyPatch) -> None:
    update = AddressManager.update_queue

    def careless(self: AddressManager, queue: Queue, change: QueueUpdate) -> Refused | None:
        before = queue.definition.routing_type
        refused = update(self, queue, change)
        if queue.definition.routing_type != before:
            queue.filter = NOTHING
        return refused

    patch.setattr(AddressManager, "update_queue", careless)


def take_any_routing_type(patch: pytest.MonkeyPatch) -> None:
    """A queue is given a routing type that its address does not have."""
    patch.setattr(Address, "serves", lambda self, routing_type: True)


def answer_a_stop_of_the_acceptor_and_do_nothing(patch: pytest.MonkeyPatch) -> None:
    switch = fault_point("switch the acceptor")

    def careless(call: Call, task: TaskKind, *how: Any) -> Any:
        return None if task is TaskKind.STOP_ACCEPTOR else switch(call, task, *how)

    replace(patch, "switch the acceptor", careless)


def acknowledge_for_clients_that_are_cut_off(patch: pytest.MonkeyPatch) -> None:
    """What the clients of a stopped acceptor were given counts as acknowledged."""
    on_closed = Connections.on_peer_closed

    def careless(self: Connections, closed: PeerClosed) -> None:
        connection = self.served.get(closed.connection)
        if connection is not None and closed.reason == ACCEPTOR_STOPPED:
            settlement = connection.service.kernel.settlement
            for session in connection.sessions.values():
                for consumer in session.kernel_session.consumers.values():
                    settlement.settle(consumer.queue, consumer.unsettled.take_all(), Outcome.ACCEPTED)
        on_closed(self, closed)

    patch.setattr(Connections, "on_peer_closed", careless)


def keep_grants_in_the_cache(patch: pytest.MonkeyPatch) -> None:
    """What was granted once stays granted."""
    allows = Permissions.allows
    known: set[tuple[frozenset[str], Permission, str, str | None]] = set()

    def stale(
        self: Permissions, roles: frozenset[str], permission: Permission, address: str, queue: str | None
    ) -> bool:
        question = roles, permission, address, queue
        if question not in known and allows(self, *question):
            known.add(question)
        return question in known

    patch.setattr(Permissions, "allows", stale)


def let_sessions_go_on_sending(patch: pytest.MonkeyPatch) -> None:
    """What a session was admitted to once, it may do until its end."""
    patch.setattr(Session, "forget_admitted", lambda self: None)


def forget_redelivery_delays_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    add = Recovery.add

    def impatient(self: Recovery, messages: Iterable[MessageRecord]) -> None:
        self._delayed = {}
        add(self, messages)

    patch.setattr(Recovery, "add", impatient)


def keep_settings_that_were_removed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SettingsTable, "remove_address", lambda self, match: self._forget("address", match))


def grant_credit_for_a_blocked_address(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryAccount, "is_blocked", lambda self, address: False)


ADMINISTRATION_BUGS: list[Bug] = [
    forget_a_pause_in_a_restart,
    record_every_pause,
    deliver_what_arrives_at_a_paused_queue,
    take_a_later_message_with_a_purge,
    take_what_is_in_delivery_with_a_purge,
    leave_messages_behind_a_purge,
    remove_without_a_look_at_the_filter,
    end_a_removal_after_three_messages,
    forget_the_filter_in_an_update,
    go_on_with_the_filter_before_an_update,
    lose_messages_in_an_update,
    go_on_sharing_a_queue_that_becomes_exclusive,
    leave_a_queue_to_one_consumer_that_is_not_exclusive_any_more,
    forget_how_a_queue_is_shared_in_a_restart,
    route_nothing_to_a_queue_with_a_new_routing_type,
    take_any_routing_type,
    answer_a_stop_of_the_acceptor_and_do_nothing,
    acknowledge_for_clients_that_are_cut_off,
    keep_grants_in_the_cache,
    let_sessions_go_on_sending,
    forget_redelivery_delays_in_a_restart,
    keep_settings_that_were_removed,
    grant_credit_for_a_blocked_address,
]
