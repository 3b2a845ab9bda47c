"""The next message's consumer: turns, priorities, exclusive consumers, filters, credit, forced delivery, slow peers."""

from __future__ import annotations

import pytest

from embedbroker.kernel import Refused
from embedclient.errors import ErrorCode
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()


def send_all(stage: Stage, texts: str, **options: int) -> None:
    stage.send(*[letter(text, "q", **options) for text in texts])  # type: ignore[arg-type]  # int options only


def test_consumers_take_turns(stage: Stage) -> None:
    stage.queue("q")
    takers = [stage.consumer(stage.session(), "q")[1] for _ in range(3)]
    send_all(stage, "abcdefg")
    assert [taker.texts for taker in takers] == [["a", "d", "g"], ["b", "e"], ["c", "f"]]


def test_consumers_take_turns_on_what_waited(stage: Stage) -> None:
    stage.queue("q")
    send_all(stage, "abcdefg")
    takers = [stage.consumer(stage.session(), "q")[1] for _ in range(3)]
    stage.run()
    assert [taker.texts for taker in takers] == [["a", "d", "g"], ["b", "e"], ["c", "f"]]


@pytest.mark.parametrize("first", ["send", "consume"])
def test_a_higher_priority_takes_all_it_can(stage: Stage, first: str) -> None:
    stage.queue("q")
    if first == "send":
        send_all(stage, "abcdef")
    _low, low = stage.consumer(stage.session(), "q", priority=0)
    _high, high = stage.consumer(stage.session(), "q", priority=5, credit=4)
    _other, other = stage.consumer(stage.session(), "q", priority=-3)
    if first == "consume":
        send_all(stage, "abcdef")
    stage.run()
    assert (high.texts, low.texts, other.texts) == (list("abcd"), ["e", "f"], [])


def test_consumers_of_the_highest_priority_alternate(stage: Stage) -> None:
    """Artemis' ConsumerPriorityTest.testConsumerPriorityQueueConsumerRoundRobin."""
    stage.queue("q")
    send_all(stage, "abcd")
    stage.consumer(stage.session(), "q", priority=1)
    takers = [stage.consumer(stage.session(), "q", priority=9)[1] for _ in range(2)]
    stage.run()
    assert [taker.texts for taker in takers] == [["a", "c"], ["b", "d"]]


def test_the_next_priority_takes_over(stage: Stage) -> None:
    """Artemis' ConsumerPriorityTest.testConsumerPriorityQueueConsumerFailover."""
    stage.queue("q")
    top = stage.session()
    stage.consumer(top, "q", priority=9)
    _consumer, taker = stage.consumer(stage.session(), "q", priority=1)
    top.close(failed=False)
    send_all(stage, "a")
    assert taker.texts == ["a"]


def test_priorities_leave_no_trace(stage: Stage) -> None:
    queue = stage.queue("q")
    for priority in range(50):
        session = stage.session()
        stage.consumer(session, "q", priority=priority)
        session.close(failed=False)
    assert queue.statistics().consumer_priorities == ()


def test_idle_queues_forget_consumers_that_come_and_go(stage: Stage) -> None:
    queue = stage.queue("q")
    stage.consumer(stage.session(), "q")
    for _ in range(100):
        session = stage.session()
        stage.consumer(session, "q")
        session.close(failed=False)
    assert queue.statistics().turns <= 3


def test_an_exclusive_queue_has_one_consumer_and_hands_over_in_order(stage: Stage) -> None:
    """Artemis' ExclusiveTest.testExclusiveQueueConsumerFailover."""
    stage.queue("q", exclusive=True)
    first, second = stage.session(), stage.session()
    _one, taker_one = stage.consumer(first, "q")
    _two, taker_two = stage.consumer(second, "q")
    send_all(stage, "abc")
    assert (taker_one.texts, taker_two.texts) == (["a", "b", "c"], [])
    first.close(failed=False)
    stage.run()
    assert taker_two.texts == ["a", "b", "c"]
    send_all(stage, "d")
    assert taker_two.texts == ["a", "b", "c", "d"]


def test_an_exclusive_queue_waits_for_its_consumer(stage: Stage) -> None:
    stage.queue("q", exclusive=True)
    holder, taker = stage.consumer(stage.session(), "q", credit=1)
    _other, idle = stage.consumer(stage.session(), "q", priority=9)
    send_all(stage, "a")
    assert idle.texts == ["a"]
    send_all(stage, "b")
    stage.run()
    assert (taker.texts, idle.texts) == ([], ["a", "b"])
    holder.add_credit(10)
    stage.run()
    assert taker.texts == []


def test_filters_pass_messages_by(stage: Stage) -> None:
    stage.queue("q")
    _red, red = stage.consumer(stage.session(), "q", filter="colour = 'red'")
    _blue, blue = stage.consumer(stage.session(), "q", filter="colour = 'blue'")
    for text, colour in (("a", "red"), ("b", "blue"), ("c", "green"), ("d", "red")):
        stage.send(letter(text, "q", colour=colour))
    stage.run()
    assert (red.texts, blue.texts, stage.waiting("q")) == (["a", "d"], ["b"], ["c"])


def test_a_filter_without_match_blocks_nobody(stage: Stage) -> None:
    stage.queue("q")
    stage.consumer(stage.session(), "q", filter="colour = 'none'", priority=9)
    _all, everything = stage.consumer(stage.session(), "q")
    send_all(stage, "abc")
    stage.run()
    assert everything.texts == ["a", "b", "c"]


def test_a_wrong_filter_and_a_missing_queue_are_refused(stage: Stage) -> None:
    stage.queue("q")
    session = stage.session()

    def attempt(queue: str, text: str | None) -> int:
        taker = stage.consumer(stage.session(), "q")[1]
        refused = session.create_consumer(1, queue, text, taker, browse=False, priority=0)
        assert isinstance(refused, Refused)
        return refused.code

    assert attempt("q", "colour = ") == ErrorCode.INVALID_FILTER_EXPRESSION
    assert attempt("nowhere", None) == ErrorCode.QUEUE_DOES_NOT_EXIST
    assert session.consumers == {}


def test_a_full_queue_refuses_consumers_but_not_browsers(stage: Stage) -> None:
    """Artemis' AddressingTest.testLimitOnMaxConsumers."""
    stage.queue("q", max_consumers=1)
    session = stage.session()
    stage.consumer(session, "q")
    taker = stage.consumer(session, "q", browse=True)[1]
    refused = session.create_consumer(99, "q", None, taker, browse=False, priority=0)
    assert isinstance(refused, Refused) and refused.code == ErrorCode.MAX_CONSUMER_LIMIT_EXCEEDED


def test_credit_is_charged_and_the_last_message_may_exceed_it(stage: Stage) -> None:
    stage.queue("q")
    consumer, taker = stage.consumer(stage.session(), "q", credit=150, cost=100)
    send_all(stage, "abcd")
    assert (taker.texts, consumer.credit.left) == (["a", "b"], -50)
    consumer.add_credit(50)
    stage.run()
    assert taker.texts == ["a", "b"]
    consumer.add_credit(1)
    stage.run()
    assert (taker.texts, consumer.credit.left) == (["a", "b", "c"], -99)


def test_credit_zero_takes_everything_away_and_minus_one_switches_it_off(stage: Stage) -> None:
    stage.queue("q")
    consumer, taker = stage.consumer(stage.session(), "q", credit=100)
    consumer.add_credit(0)
    send_all(stage, "abc")
    stage.run()
    assert taker.texts == []
    consumer.add_credit(-1)
    stage.run()
    assert taker.texts == ["a", "b", "c"]
    consumer.add_credit(-1)
    consumer.add_credit(0)
    send_all(stage, "d")
    stage.run()
    assert taker.texts == ["a", "b", "c"]


def test_nothing_is_delivered_before_the_session_starts_or_after_it_stops(stage: Stage) -> None:
    stage.queue("q")
    session = stage.session()
    session.stop()
    _consumer, taker = stage.consumer(session, "q")
    send_all(stage, "a")
    stage.run()
    assert taker.texts == []
    session.start()
    stage.run()
    assert taker.texts == ["a"]
    session.stop()
    send_all(stage, "b")
    stage.run()
    assert taker.texts == ["a"]


def test_browsers_need_no_start_and_take_nothing(stage: Stage) -> None:
    queue = stage.queue("q")
    session = stage.session()
    session.stop()
    send_all(stage, "ab")
    _consumer, taker = stage.consumer(session, "q", browse=True)
    stage.run()
    send_all(stage, "c")
    stage.run()
    assert taker.texts == ["a", "b", "c"]
    assert (queue.message_count, queue.delivering_count) == (3, 0)
    session.close(failed=False)
    assert stage.waiting("q") == ["a", "b", "c"]


def test_browsers_have_filters_and_credit(stage: Stage) -> None:
    stage.queue("q")
    for number in range(6):
        stage.send(letter(str(number), "q", even=number % 2 == 0))
    consumer, taker = stage.consumer(stage.session(), "q", browse=True, filter="even", credit=2)
    stage.run()
    assert taker.texts == ["0", "2"]
    consumer.add_credit(5)
    stage.run()
    assert taker.texts == ["0", "2", "4"]


def test_a_marker_comes_at_once_when_nothing_waits(stage: Stage) -> None:
    queue = stage.queue("q")
    consumer, taker = stage.consumer(stage.session(), "q")
    queue.force_delivery(consumer, 7)
    assert taker.got == [7]


def test_a_marker_comes_behind_everything_that_can_be_delivered(stage: Stage) -> None:
    queue = stage.queue("q")
    send_all(stage, "abc")
    consumer, taker = stage.consumer(stage.session(), "q", credit=2)
    queue.force_delivery(consumer, 3)
    stage.run()
    assert taker.got == [("a", 1), ("b", 1), 3]


def test_a_marker_ends_a_browse(stage: Stage) -> None:
    queue = stage.queue("q")
    send_all(stage, "ab")
    consumer, taker = stage.consumer(stage.session(), "q", browse=True)
    queue.force_delivery(consumer, 0)
    stage.run_all(budget=1)
    assert taker.got == [("a", 0), ("b", 0), 0]


def test_a_marker_comes_although_the_filter_matches_nothing(stage: Stage) -> None:
    queue = stage.queue("q")
    send_all(stage, "abc")
    consumer, taker = stage.consumer(stage.session(), "q", filter="colour = 'red'")
    queue.force_delivery(consumer, 5)
    stage.run_all(budget=2)
    assert taker.got == [5]


def test_markers_of_a_slow_peer_wait_for_its_messages(stage: Stage) -> None:
    queue = stage.queue("q")
    send_all(stage, "ab")
    browser, browsed = stage.consumer(stage.session(), "q", browse=True)
    consumer, taken = stage.consumer(stage.session(), "q")
    for each in (browser, consumer):
        each.backpressure.shut()
        queue.force_delivery(each, 1)
    stage.run_all()
    assert (browsed.got, taken.got) == ([], [])
    browser.backpressure.open()
    stage.run_all()
    assert browsed.got == [("a", 0), ("b", 0), 1]
    consumer.backpressure.open()
    stage.run_all()
    assert taken.got == [("a", 1), ("b", 1), 1]


def test_a_marker_of_a_slow_peer_comes_when_others_took_everything(stage: Stage) -> None:
    queue = stage.queue("q")
    send_all(stage, "ab")
    slow, taker = stage.consumer(stage.session(), "q")
    slow.backpressure.shut()
    queue.force_delivery(slow, 4)
    _fast, fast = stage.consumer(stage.session(), "q")
    stage.run_all()
    assert (fast.texts, taker.got) == (["a", "b"], [4])


def test_a_marker_of_a_slow_peer_comes_when_its_session_was_stopped(stage: Stage) -> None:
    queue = stage.queue("q")
    send_all(stage, "a")
    session = stage.session()
    slow, taker = stage.consumer(session, "q")
    slow.backpressure.shut()
    queue.force_delivery(slow, 4)
    session.stop()
    slow.backpressure.open()
    stage.run_all()
    assert taker.got == [4]


def test_a_slow_peer_is_passed_by(stage: Stage) -> None:
    stage.queue("q")
    slow, one = stage.consumer(stage.session(), "q")
    _fast, other = stage.consumer(stage.session(), "q")
    slow.backpressure.shut()
    send_all(stage, "abc")
    assert (one.texts, other.texts) == ([], ["a", "b", "c"])
    slow.backpressure.open()
    stage.run()
    send_all(stage, "de")
    assert len(one.texts) == len(other.texts) - 3 == 1


def test_a_small_budget_loses_and_reorders_nothing(stage: Stage) -> None:
    stage.queue("q")
    send_all(stage, "abcdefghij")
    _consumer, taker = stage.consumer(stage.session(), "q")
    steps = stage.run_all(budget=3)
    assert taker.texts == list("abcdefghij")
    assert steps >= 3


def test_an_id_used_twice_is_the_new_consumer(stage: Stage) -> None:
    stage.queue("q")
    session = stage.session()
    consumer, old = stage.consumer(session, "q")
    send_all(stage, "a")
    new = stage.consumer(stage.session(), "q", credit=0)[1]
    replaced = session.create_consumer(consumer.key, "q", None, new, browse=False, priority=0)
    assert not isinstance(replaced, Refused)
    replaced.add_credit(10)
    stage.run()
    assert (old.got, new.got) == ([("a", 1)], [("a", 1)])
    session.close(failed=False)


def test_pre_acknowledged_messages_are_gone_when_delivered(stage: Stage) -> None:
    stage.queue("q")
    session = stage.session(pre_acknowledge=True)
    _consumer, taker = stage.consumer(session, "q")
    send_all(stage, "ab")
    assert taker.texts == ["a", "b"]
    session.close(failed=True)
    stage.assert_empty()


def test_higher_message_priorities_are_delivered_first(stage: Stage) -> None:
    stage.queue("q")
    for text, priority in (("a", 4), ("b", 9), ("c", 0), ("d", 9)):
        stage.send(letter(text, "q", priority=priority))
    _consumer, taker = stage.consumer(stage.session(), "q")
    stage.run()
    assert taker.texts == ["b", "d", "a", "c"]


def test_a_consumer_that_ends_itself_while_it_takes_gives_everything_back(stage: Stage) -> None:
    stage.queue("q")
    session = stage.session()
    send_all(stage, "abc")
    consumer, taker = stage.consumer(session, "q")

    class Failing(type(taker)):  # type: ignore[misc]  # a Taker whose peer is lost with the second message
        def deliver(self, consumer: object, reference: object) -> int:
            cost: int = super().deliver(consumer, reference)
            if len(self.got) == 2:
                session.close(failed=True)
            return cost

    consumer.port = Failing()
    stage.run_all()
    assert stage.waiting("q") == ["a", "b", "c"]
    assert stage.kernel.address_manager.queues["q"].delivering_count == 0


def test_nothing_new_overtakes_messages_that_are_on_their_way_back(stage: Stage) -> None:
    stage.queue("q")
    closing, other = stage.session(), stage.session()
    consumer, _ = stage.consumer(closing, "q")
    texts = [str(number) for number in range(200)]
    stage.send(*[letter(text, "q") for text in texts])
    stage.run_all()
    _, taker = stage.consumer(other, "q")
    closing.close_consumer(consumer.key)  # so many return over several steps
    stage.send(letter("new", "q"))
    stage.run_all()
    assert taker.texts == [*texts, "new"]
