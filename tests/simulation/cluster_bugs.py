"""Bugs of clusters, put in one at a time: in what nodes know of each other, in routing, and in the bridges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from embedbroker.cluster import RemoteBindings
from embedbroker.kernel import RemoteBinding
from embedbroker.kernel.settling._forwarding import Forwarding

from .bridge_bugs import (
    acknowledge_before_the_confirmation,
    drop_a_message_that_was_not_sent,
    give_a_repeated_message_another_id,
    keep_messages_when_the_connection_is_lost,
    never_try_again,
)
from .fault_points import fault_point, replace
from .hunting import Bug, forget_duplicate_ids

__all__ = ["CLUSTER_BUGS"]


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


CLUSTER_BUGS: list[Bug] = [
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
]
