"""The buffer of a consumer, and large messages on their way in."""

from __future__ import annotations

from typing import cast

import pytest

from embedclient.agent import Delivery
from embedclient.agent.consumer._large_message import LargeDelivery
from embedclient.agent.consumer._prefetch import DeliveryAcknowledger, Prefetch
from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import CoreMessage
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


def test_a_large_message_is_joined_from_its_chunks() -> None:
    whole = CoreMessage.build(address="q", body=b"abcdefghij", priority=7)
    header = CoreMessage.parse_header(whole.header)
    large = LargeDelivery(header, 1, 100, 10)
    for chunk in (b"abcd", b"efgh", b"ij", b""):
        large.add(chunk)
    message = large.finish()
    assert message.raw == whole.raw
    assert (message.address, message.priority) == ("q", 7)


def test_a_large_message_beyond_the_limit_breaks_the_connection() -> None:
    large = LargeDelivery(CoreMessage.build(address="q"), 1, 100, 10)
    large.add(b"12345678")
    with pytest.raises(RemoteProtocolError, match="more than 10 bytes"):
        large.add(b"123")
