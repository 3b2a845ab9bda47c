"""What a consumer holds, in portions: the same as one ordered dictionary would say, whatever is taken out."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.kernel.queueing._backlog import Reference
from embedbroker.kernel.queueing._deliveries import CHUNK_ENTRIES, Bundle, Deliveries
from tests.embedbroker.kernel.letters import letter


def filled(count: int) -> tuple[Deliveries, list[Reference]]:
    deliveries, message = Deliveries(), letter("m", "q")
    references = [Reference(message, number) for number in range(count)]
    for reference in references:
        deliveries[reference.position] = reference
    return deliveries, references


@pytest.mark.parametrize("count", [1, CHUNK_ENTRIES, CHUNK_ENTRIES + 1, 3 * CHUNK_ENTRIES + 5])
def test_everything_up_to_a_message_is_taken_in_order(count: int) -> None:
    for last in {0, count // 2, count - 1}:
        deliveries, references = filled(count)
        taken = deliveries.take_through(last)
        assert len(taken) == last + 1 and list(taken) == references[: last + 1]
        assert list(deliveries.values()) == references[last + 1 :] and len(deliveries) == count - last - 1
        assert references[last] in taken and last not in deliveries


def test_taking_all_leaves_a_place_for_more() -> None:
    deliveries, references = filled(2 * CHUNK_ENTRIES + 1)
    assert list(deliveries.take_all()) == references
    assert len(deliveries) == 0
    deliveries[7] = references[7]
    assert list(deliveries) == [7]


def test_a_bundle_that_was_drained_is_empty() -> None:
    _deliveries, references = filled(10)
    bundle = Bundle([references[:3], tuple(references[3:])])
    drain = bundle.drain()
    assert [next(drain) for _ in range(4)] == references[:4] and len(bundle) == 7
    assert list(drain) == references[4:] and len(bundle) == 0 and list(bundle) == []


@pytest.mark.parametrize("seed", range(10))
def test_single_ones_may_go_in_any_order(seed: int) -> None:
    random, count = Random(seed), 3 * CHUNK_ENTRIES
    deliveries, references = filled(count)
    order = random.sample(range(count), count)
    for number, message_id in enumerate(order[:-1]):
        assert deliveries.pop(message_id) is references[message_id]
        if not number % 500:
            assert list(deliveries) == sorted(order[number + 1 :])
    assert list(deliveries.oldest) == list(deliveries.newest) == order[-1:]
    with pytest.raises(KeyError):
        deliveries.pop(order[0])
