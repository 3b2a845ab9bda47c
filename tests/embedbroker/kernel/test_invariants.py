"""`Kernel.check` finds counters that do not agree with what is held; `statistics` describes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedbroker.kernel import BacklogStatistics, Kernel, Queue

from .letters import letter
from .stage import Stage


def queue_of(kernel: Kernel) -> Queue:
    return kernel.address_manager.queues["q"]


@pytest.fixture
def kernel() -> Kernel:
    """Three messages, of which one is in delivery and one came back."""
    stage = Stage()
    stage.queue("q")
    stage.send(*[letter(text, "q") for text in "abc"])
    gone = stage.session()
    stage.consumer(gone, "q", credit=1)
    stage.run()
    gone.close(failed=True)
    stage.consumer(stage.session(), "q", filter="JMSPriority > 9", priority=7)
    stage.consumer(stage.session(), "q", credit=1)
    stage.run()
    stage.kernel.check()
    return stage.kernel


def test_statistics_describe_queues_and_memory(kernel: Kernel) -> None:
    statistics = kernel.statistics()
    (queue,) = [queue for queue in statistics.queues if queue.name == "q"]
    assert queue.backlog == BacklogStatistics(size=2, returned=0, open_chunks=1, sealed_chunks=0, entries=3)
    assert (queue.name, queue.delivering, queue.waiting_visible, queue.added) == ("q", 1, 0, 3)
    assert (queue.consumers, queue.browsers, queue.consumer_priorities) == (2, 0, (7, 0))
    assert statistics.used_bytes == kernel.memory.used_bytes > 0
    assert (statistics.addresses_with_messages, statistics.shared_messages) == (("q",), 0)
    assert (statistics.pending_visibility, statistics.has_deferred_work) == (0, False)


def one_message_too_many(kernel: Kernel) -> None:
    queue_of(kernel).backlog.size += 1


def a_delivery_that_is_not_counted(kernel: Kernel) -> None:
    queue_of(kernel).delivering_count = 0


def a_byte_too_many(kernel: Kernel) -> None:
    kernel.memory.used_bytes += 1


def a_point_that_is_not_the_first(kernel: Kernel) -> None:
    kernel.visibility.next_point = 0


def a_consumer_with_two_turns(kernel: Kernel) -> None:
    level = queue_of(kernel).dispatcher.levels[0]
    level.ready.append(level.ready[0])


def priorities_in_the_wrong_order(kernel: Kernel) -> None:
    queue_of(kernel).dispatcher.levels.reverse()


def an_id_that_was_not_reserved(kernel: Kernel) -> None:
    kernel.ids.next_id = kernel.ids.limit + 1


@pytest.mark.parametrize(
    "break_it",
    [
        one_message_too_many,
        a_delivery_that_is_not_counted,
        a_byte_too_many,
        a_point_that_is_not_the_first,
        a_consumer_with_two_turns,
        priorities_in_the_wrong_order,
        an_id_that_was_not_reserved,
    ],
)
def test_a_violation_is_found(kernel: Kernel, break_it: Callable[[Kernel], None]) -> None:
    break_it(kernel)
    with pytest.raises(AssertionError):
        kernel.check()
