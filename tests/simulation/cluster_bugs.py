"""Bugs of clusters, put in one at a time: in what nodes know of each other, in routing, and in the bridges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from embedbroker.cluster import (
    LocalGrouping,
    Member,
    RemoteBindings,
    RemoteGrouping,
    notification_filter,
    snapshot_request,
)
from embedbroker.cluster._discovery import Announcer
from embedbroker.kernel import GroupNotice, GroupNoticeKind, Message, Queue, RemoteBinding
from embedbroker.kernel.settling._forwarding import Forwarding
from embedbroker.kernel.transactions._transaction import Transaction, TransactionState
from embedbroker.outbound import _binding_subscription, _member_bridge
from embedbroker.outbound._address_move import AddressMove, ToSameQueues
from embedbroker.outbound._member_bridge import MemberBridge
from embedbroker.outbound._target import MemberTarget
from embedclient.agent import Call, CoreMessage
from embedclient.model import Instant
from tests.simulation.scenario.fault_kinds import FaultKind

from .bridge_bugs import (
    acknowledge_before_the_confirmation,
    drop_a_message_that_was_not_sent,
    give_a_repeated_message_another_id,
    keep_messages_when_the_connection_is_lost,
    lose_a_part_of_a_body,
    never_try_again,
    return_messages_at_the_end_of_the_queue,
)
from .fault_points import fault_point, replace
from .hunting import Bug, forget_duplicate_ids, needs
from .replica_bugs import drop_a_write_on_the_way
from .sites import draw_cluster_plan

__all__ = ["CLUSTER_BUGS"]


def has_groups(seed: int) -> bool:
    return bool(draw_cluster_plan(seed).arbiter)


def has_scale_downs(seed: int) -> bool:
    return any(node.scales_down_to for node in draw_cluster_plan(seed).nodes)


def has_crashes_in_scale_downs(seed: int) -> bool:
    return any(strike.kind is FaultKind.CRASH_WHILE_SCALING_DOWN for strike in draw_cluster_plan(seed).faults)


def forget_the_end_of_a_consumer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RemoteBinding, "remove_consumer", lambda self, filter: True)


def forget_a_consumer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RemoteBinding, "add_consumer", lambda self, filter: None)


def count_consumers_again_after_a_reconnect(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RemoteBindings, "begin", lambda self: [])


def keep_the_bindings_of_a_node_that_left(patch: pytest.MonkeyPatch) -> None:
    remove = fault_point("remove bindings")

    def forgetful(self: RemoteBindings, bindings: Any) -> list[Any]:
        remove(self, bindings)
        return []

    replace(patch, "remove bindings", forgetful)


def raise_no_distance(patch: pytest.MonkeyPatch) -> None:
    distance = fault_point("read the distance of a queue")
    replace(patch, "read the distance of a queue", staticmethod(lambda properties: distance(properties) - 1))


def route_a_forwarded_message_again(patch: pytest.MonkeyPatch) -> None:
    """It goes on to other nodes, and comes back."""
    from_bridge = fault_point("read what a bridge added")

    def forgetful(*arguments: Any) -> Any:
        return (*from_bridge(*arguments)[:2], frozenset())

    replace(patch, "read what a bridge added", forgetful)


def keep_a_copy_at_home(patch: pytest.MonkeyPatch) -> None:
    choose = Forwarding.choose

    def generous(self: Forwarding, message: Any, address: Any, routing_type: Any) -> Any:
        queues, remote = choose(self, message, address, routing_type)
        return queues or self.local(message, address, routing_type), remote

    patch.setattr(Forwarding, "choose", generous)


def name_one_queue_of_each_node(patch: pytest.MonkeyPatch) -> None:
    copies = Forwarding.copies

    def careless(self: Forwarding, message: Any, remote: Sequence[RemoteBinding]) -> Any:
        last = {binding.store_and_forward: binding for binding in remote}
        return copies(self, message, list(last.values()))

    patch.setattr(Forwarding, "copies", careless)


@needs(has_groups)
def decide_at_each_node(patch: pytest.MonkeyPatch) -> None:
    """A node takes its own proposal for the decision."""

    def hasty(self: RemoteGrouping, key: str, queue: str, now_s: float) -> str:
        return self.find(key, now_s) or queue

    patch.setattr(RemoteGrouping, "propose", hasty)


@needs(has_groups)
def forget_decisions_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    begin = LocalGrouping.begin
    patch.setattr(LocalGrouping, "begin", lambda self, restored, now_s: begin(self, (), now_s))


@needs(has_groups)
def decide_again_for_each_proposal(patch: pytest.MonkeyPatch) -> None:
    on_notice = LocalGrouping.on_notice

    def fickle(self: LocalGrouping, notice: GroupNotice, now_s: float) -> None:
        if notice.kind is GroupNoticeKind.PROPOSAL:
            self.drop(notice.key, notice.queue)
        on_notice(self, notice, now_s)

    patch.setattr(LocalGrouping, "on_notice", fickle)


def stay_at_the_first_place(patch: pytest.MonkeyPatch) -> None:
    """A bridge does not follow to the backup."""
    follow = MemberBridge.follow

    def stubborn(self: MemberBridge, member: Member) -> None:
        follow(self, evolve(self.member, event_id=member.event_id))

    patch.setattr(MemberBridge, "follow", stubborn)
    patch.setattr(MemberTarget, "connectors", property(lambda self: self.places()[:1]))


@needs(has_scale_downs)
def move_to_one_of_several_queues(patch: pytest.MonkeyPatch) -> None:
    copy = ToSameQueues.copy
    patch.setattr(ToSameQueues, "copy", lambda self, message, queues: copy(self, message, queues[:1]))


@needs(has_crashes_in_scale_downs)
def move_without_ids(patch: pytest.MonkeyPatch) -> None:
    copy = ToSameQueues.copy

    def careless(self: ToSameQueues, message: Message, queues: list[Queue]) -> CoreMessage:
        found = copy(self, message, queues)
        return found.copy_for(found.address, changes={}, removals=("_AMQ_BRIDGE_DUP",), expiration=found.expiration)

    patch.setattr(ToSameQueues, "copy", careless)


@needs(has_crashes_in_scale_downs)
def remove_what_moves_before_the_confirmation(patch: pytest.MonkeyPatch) -> None:
    expect = fault_point("wait for the confirmation of a move")

    def hasty(self: AddressMove, call: Call[None], group: Any) -> None:
        expect(self, call, group)
        self._commit([group])
        self._pending.pop(call, None)

    replace(patch, "wait for the confirmation of a move", hasty)


@needs(has_scale_downs)
def drop_what_was_chosen_and_is_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Forwarding, "chosen", lambda self, message, address, ids, sender=None: address.chosen(ids))


def forward_what_is_rolled_back(patch: pytest.MonkeyPatch) -> None:
    rollback = Transaction.rollback

    def careless(self: Transaction) -> None:
        is_forwarded = any(queue.name.startswith("$.artemis.internal.sf.") for queue in self.counts)
        if is_forwarded and self.state is TransactionState.ACTIVE and not self.acknowledged:
            self.commit()
        else:
            rollback(self)

    patch.setattr(Transaction, "rollback", careless)


def keep_the_binding_of_a_deleted_queue(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "remove the binding of a queue", lambda self, properties: [])


def announce_a_node_once(patch: pytest.MonkeyPatch) -> None:
    on_time = Announcer.on_time

    def lazy(self: Announcer, now: Instant) -> None:
        sent = len(self._orders)
        on_time(self, now)
        if len(self._orders) > sent:
            self._schedule = None

    patch.setattr(Announcer, "on_time", lazy)


def learn_of_all_addresses_over_each_connection(patch: pytest.MonkeyPatch) -> None:
    collected, request = notification_filter, snapshot_request
    patch.setattr(_member_bridge, "notification_filter", lambda addresses, *rest, **more: collected("", *rest, **more))
    patch.setattr(
        _binding_subscription, "snapshot_request", lambda address, queue, addresses: request(address, queue, "")
    )


CLUSTER_BUGS: list[Bug] = [
    drop_what_was_chosen_and_is_gone,
    forget_the_end_of_a_consumer,
    forget_a_consumer,
    count_consumers_again_after_a_reconnect,
    keep_the_bindings_of_a_node_that_left,
    raise_no_distance,
    route_a_forwarded_message_again,
    keep_a_copy_at_home,
    name_one_queue_of_each_node,
    give_a_repeated_message_another_id,
    acknowledge_before_the_confirmation,
    drop_a_message_that_was_not_sent,
    keep_messages_when_the_connection_is_lost,
    never_try_again,
    forget_duplicate_ids,
    decide_at_each_node,
    forget_decisions_in_a_restart,
    decide_again_for_each_proposal,
    stay_at_the_first_place,
    move_to_one_of_several_queues,
    move_without_ids,
    remove_what_moves_before_the_confirmation,
    forward_what_is_rolled_back,
    keep_the_binding_of_a_deleted_queue,
    announce_a_node_once,
    learn_of_all_addresses_over_each_connection,
    drop_a_write_on_the_way,
    return_messages_at_the_end_of_the_queue,
    lose_a_part_of_a_body,
]
