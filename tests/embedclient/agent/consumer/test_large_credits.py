"""Credits that a broker needs to go on with a large message: without them it would stop in the middle for ever."""

from __future__ import annotations

from typing import cast

import pytest

from embedclient.agent.consumer._credits import ConsumerCredits
from embedclient.agent.producer._credits import AddressCredits
from embedclient.agent.session._channel import SessionChannel
from embedclient.wire.core import SessionConsumerFlowCredit, decode_packet


class SentCredits:
    """A channel that keeps the credits that leave over it."""

    def __init__(self) -> None:
        self.channel_id = 10
        self.closed_error = None
        self.credits: list[int] = []

    def post_frame(self, frame: bytes) -> None:
        packet = decode_packet(frame, 0, len(frame), 136, from_client=True)
        assert isinstance(packet, SessionConsumerFlowCredit)
        self.credits.append(packet.credits)


def credits_of(window: int) -> tuple[ConsumerCredits, list[int]]:
    channel = SentCredits()
    return ConsumerCredits(0, cast(SessionChannel, channel), window), channel.credits


def test_each_packet_is_paid_at_once_behind_messages_that_are_not() -> None:
    """A message of 800 bytes waits behind a large one of a higher priority: 200 of 1,000 credits are left."""
    credits, sent = credits_of(1_000)
    credits.is_pressed = True
    credits.pay_for_header(280)
    credits.pay_for_chunk(120, False)
    assert sent == [280, 120]
    credits.pay_for_chunk(120, True)
    assert sent == [280, 120]


def test_packets_are_paid_together_where_the_window_is_free() -> None:
    credits, sent = credits_of(1_000)
    credits.pay_for_header(280)
    assert sent == []
    credits.pay_for_chunk(300, False)
    assert sent == [580]


@pytest.mark.parametrize(("cost", "sent"), [(190, [190]), (1, [0, 1])])
def test_with_window_0_the_balance_is_set_if_it_is_unknown(cost: int, sent: list[int]) -> None:
    """Headers that crossed the end of an earlier wait cost 1: the broker's balance may be below zero."""
    credits, granted = credits_of(0)
    credits.pay_for_header(cost)
    assert granted == sent


def test_no_producer_asks_for_less_than_nothing() -> None:
    asked: list[int] = []
    credits = AddressCredits("q", 1_500, lambda amount, _address: asked.append(amount), balance=1_351)
    credits.charge(2_042)
    credits.charge(10)
    assert all(amount > 0 for amount in asked)
    assert credits.arriving == sum(asked)
