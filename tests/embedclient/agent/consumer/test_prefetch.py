"""The buffer of a consumer."""

from __future__ import annotations

from typing import cast

from embedclient.agent import Delivery
from embedclient.agent.consumer._prefetch import DeliveryAcknowledger, Prefetch
from tests.embedclient.agent.node_pair import text_message


def delivery(number: int, priority: int) -> Delivery:
    return Delivery(text_message("x", "q", priority=priority), 1, cast(DeliveryAcknowledger, None), 10, number)


def test_highest_priority_first_and_in_order_within_one() -> None:
    prefetch = Prefetch()
    for number, priority in enumerate((4, 9, 0, 4, 9, 5)):
        prefetch.put(delivery(number, priority), priority)
    assert [prefetch.take().sequence for _ in range(6)] == [1, 4, 5, 0, 3, 2]
    assert (len(prefetch), prefetch.highest) == (0, -1)


def test_clearing_gives_back_what_was_in_it() -> None:
    prefetch = Prefetch()
    for number in range(3):
        prefetch.put(delivery(number, number), number)
    assert [taken.sequence for taken in prefetch.clear()] == [2, 1, 0]
    assert prefetch.highest == -1
