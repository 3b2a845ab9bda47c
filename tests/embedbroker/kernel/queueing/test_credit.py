"""Credit in bytes, in messages, and drained."""

from __future__ import annotations

import pytest

from embedbroker.kernel import ByteCredit, Consumer, CountCredit, Credit
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import Stage, Taker


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.queue("q")
    return stage


def counting(stage: Stage, *, browse: bool = False) -> tuple[Consumer, Taker, CountCredit]:
    """A consumer that counts messages."""
    taker, credit = Taker(), CountCredit()
    session = stage.session()
    consumer = session.create_consumer(1, "q", None, taker, browse=browse, priority=0, credit=credit)
    assert isinstance(consumer, Consumer)
    return consumer, taker, credit


def drain(consumer: Consumer, credit: CountCredit, amount: int) -> None:
    """What a flow with drain requests."""
    credit.drains = True
    consumer.add_credit(amount)
    consumer.queue.force_delivery(consumer, 0)


@pytest.mark.parametrize("credit", [ByteCredit(), CountCredit()], ids=["bytes", "messages"])
def test_any_credit_takes_a_message_of_any_size_and_none_takes_nothing(credit: Credit) -> None:
    assert not credit.can_take(0) and not credit.can_take(1)
    credit.grant(1)
    assert credit.can_take(0) and credit.can_take(1_000_000)
    credit.left -= 1
    assert not credit.can_take(1)
    credit.grant(5)
    credit.grant(0)
    assert not credit.can_take(1)


def test_bytes_add_up_and_messages_are_said_anew() -> None:
    of_bytes, of_messages = ByteCredit(), CountCredit()
    for credit in (of_bytes, of_messages):
        credit.grant(10)
        credit.grant(5)
    assert (of_bytes.left, of_messages.left) == (15, 5)


def test_as_many_messages_come_as_were_asked_for(stage: Stage) -> None:
    consumer, taker, credit = counting(stage)
    consumer.add_credit(2)
    stage.send(*[letter(text, "q") for text in "abc"])
    stage.run_all()
    assert (taker.texts, credit.left) == (["a", "b"], 0)
    consumer.add_credit(1)
    stage.run_all()
    assert taker.texts == ["a", "b", "c"]


@pytest.mark.parametrize("browse", [False, True])
def test_a_drain_delivers_what_there_is_and_uses_the_rest_up(stage: Stage, browse: bool) -> None:
    stage.send(letter("a", "q"), letter("b", "q"))
    consumer, taker, credit = counting(stage, browse=browse)
    drain(consumer, credit, 10)
    stage.run_all()
    assert taker.got == [("a", 1 - browse), ("b", 1 - browse), 0]
    assert credit.left == 0
    stage.send(letter("c", "q"))
    stage.run_all()
    assert taker.texts == ["a", "b"]


def test_a_drain_with_nothing_to_deliver_is_over_at_once(stage: Stage) -> None:
    consumer, taker, credit = counting(stage)
    drain(consumer, credit, 10)
    assert (taker.got, credit.left) == ([0], 0)
    stage.send(letter("a", "q"))
    stage.run_all()
    assert taker.texts == []


def test_a_drain_is_over_when_its_credit_is(stage: Stage) -> None:
    stage.send(*[letter(text, "q") for text in "abc"])
    consumer, taker, credit = counting(stage)
    drain(consumer, credit, 2)
    stage.run_all()
    assert taker.got == [("a", 1), ("b", 1), 0]
    credit.drains = False
    consumer.add_credit(5)
    stage.run_all()
    assert (taker.texts, credit.left) == (["a", "b", "c"], 4)


def test_a_marker_leaves_credit_that_is_not_drained(stage: Stage) -> None:
    counted, _taker, credit = counting(stage)
    counted.add_credit(3)
    in_bytes, _other = stage.consumer(stage.session(), "q", credit=100)
    for consumer in (counted, in_bytes):
        consumer.queue.force_delivery(consumer, 1)
    stage.run_all()
    assert (credit.left, in_bytes.credit.left) == (3, 100)
