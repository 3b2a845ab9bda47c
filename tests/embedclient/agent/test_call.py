"""Calls, their followers, and sequences of calls."""

from __future__ import annotations

import pytest

from embedclient.agent import DONE, Call
from embedclient.agent._call import DueCallbacks, Steps, done_call, failed_call, run_sequence, settled, wait
from embedclient.errors import JMSException


def test_the_callback_of_the_edge_waits_for_the_end_of_the_step_and_fires_once() -> None:
    due = DueCallbacks()
    call: Call[int] = Call(due)
    told: list[int] = []
    call.on_done = lambda call: told.append(call.result)
    call.succeed(5)
    assert told == []
    due.run()
    due.run()
    assert told == [5]


def test_a_call_keeps_its_first_outcome() -> None:
    call: Call[int] = Call(DueCallbacks())
    call.succeed(1)
    call.succeed(2)
    call.fail(JMSException("late"))
    assert call.value() == 1


def test_value_raises_the_error_of_a_failed_call() -> None:
    error = JMSException("no")
    call: Call[int] = failed_call(error)
    with pytest.raises(JMSException) as raised:
        call.value()
    assert raised.value is error
    assert DONE.done


def test_a_request_that_waits_can_be_taken_back() -> None:
    due = DueCallbacks()
    call: Call[int] = Call(due)
    told: list[Call[int]] = []
    call.on_done = told.append
    call.withdraw_with(lambda: True)
    assert call.cancel()
    assert call.done
    assert not call.cancel()
    due.run()
    assert told == []


def test_a_request_that_left_cannot_be_taken_back() -> None:
    call: Call[int] = Call(DueCallbacks())
    call.withdraw_with(lambda: False)
    assert not call.cancel()
    assert not call.done


def test_a_sequence_goes_on_as_its_calls_are_done() -> None:
    due = DueCallbacks()
    first: Call[int] = Call(due)
    second: Call[int] = Call(due)

    def steps() -> Steps[int]:
        one = yield from wait(first)
        two = yield from wait(second)
        return one + two + (yield from wait(done_call(100)))

    outcome = run_sequence(steps(), due)
    first.succeed(1)
    assert not outcome.done
    second.succeed(2)
    assert outcome.value() == 103


def test_an_error_ends_a_sequence_unless_it_is_asked_for() -> None:
    due = DueCallbacks()
    refused: Call[int] = failed_call(JMSException("refused"))

    def strict() -> Steps[int]:
        return (yield from wait(refused))

    def lenient() -> Steps[str]:
        error = yield from settled(refused)
        return f"{error}"

    assert run_sequence(strict(), due).error is refused.error
    assert run_sequence(lenient(), due).value() == "refused"


def test_callbacks_may_make_further_ones_due() -> None:
    due = DueCallbacks()
    told: list[str] = []

    def first() -> None:
        told.append("first")
        due.add(lambda: told.append("second"))

    due.add(first)
    due.run()
    assert told == ["first", "second"]
    assert not due
