"""The threshold of the garbage collector while a test runs in virtual time, and after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedbroker.pytest_plugin._bench import Bench, Surface
from embedbroker.pytest_plugin._collector import CollectedSeldom
from embedbroker.pytest_plugin._run import run_test
from tests.embedbroker.pytest_plugin.conftest import Inner

BEFORE = (700, 10, 10)


@pytest.fixture(autouse=True)
def _usual_threshold() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*BEFORE)
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("fails", [False, True])
def test_a_test_in_virtual_time_runs_with_another_threshold_and_leaves_that_of_before(fails: bool) -> None:
    found = []

    async def body() -> None:
        found.append(gc.get_threshold())
        if fails:
            raise LookupError

    try:
        run_test(Bench(Surface.VIRTUAL, 1, 600.0, lambda: Path("nowhere")), body)
    except LookupError:
        assert fails
    assert found[0][0] > 10 * BEFORE[0] and found[0][1:] == BEFORE[1:]
    assert gc.get_threshold() == BEFORE


def test_the_brokers_of_a_test_are_freed_by_the_first_collection_after_it(inner: Inner) -> None:
    """The threshold of before returns when pytest has let go of the test, so that no collection finds it alive."""
    inner(
        """
        import gc
        from weakref import ref

        brokers = []

        @pytest.mark.parametrize("number", range(2))
        async def test_first(embedded_broker, number):
            brokers.append(ref(embedded_broker))

        def test_second():
            assert gc.get_threshold()[0] == 700
            gc.collect(0)
            assert [each() for each in brokers] == [None, None]
        """
    ).assert_outcomes(passed=3)


def test_overlapping_runs_return_the_threshold_with_the_last_one() -> None:
    first, second = CollectedSeldom(), CollectedSeldom()
    first.__enter__()
    second.__enter__()
    raised = gc.get_threshold()
    first.__exit__()
    assert gc.get_threshold() == raised != BEFORE
    second.__exit__()
    assert gc.get_threshold() == BEFORE


@pytest.mark.parametrize("own", [(0, 10, 10), (100_000, 5, 5)])
def test_a_collector_that_is_off_or_seldom_runs_stays_as_it_is(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with CollectedSeldom():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_a_threshold_that_the_test_sets_stays() -> None:
    with CollectedSeldom():
        gc.set_threshold(1_234, 5, 6)
    assert gc.get_threshold() == (1_234, 5, 6)


def test_an_interrupt_while_it_is_entered_leaves_the_threshold_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    set_threshold, calls = gc.set_threshold, []

    def interrupted(*threshold: int) -> None:
        set_threshold(*threshold)
        calls.append(threshold)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(gc, "set_threshold", interrupted)
    with pytest.raises(KeyboardInterrupt):
        CollectedSeldom().__enter__()
    assert gc.get_threshold() == BEFORE
    with CollectedSeldom():
        assert gc.get_threshold() != BEFORE
    assert gc.get_threshold() == BEFORE
