"""What the benchmarks of pairs make of their figures: which row is compared with what, and with which bounds."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import CASES
from benchmarks.copy_cases import Copies, p99
from benchmarks.copy_cases import rows_of as copy_rows
from benchmarks.failover_cases import FULL
from benchmarks.failover_cases import rows_of as failover_rows
from benchmarks.fixture_cases import KINDS, REFERENCE
from benchmarks.fixture_cases import rows_of as fixture_rows
from benchmarks.java_load import ProducerResult
from benchmarks.replicated_cases import rows_of as replicated_rows
from benchmarks.report import Row


def judged(rows: list[Row]) -> list[tuple[float, float | None, float | None]]:
    """Of the rows with bounds: what is compared, with what must be and what is aimed at."""
    return [(round(row.judged, 2), row.must, row.aim) for row in rows if row.must is not None]


def test_failovers_are_judged_by_their_median_beside_artemis_and_by_the_worst() -> None:
    rows = failover_rows("replication", {"ours": [100.0, 200.0, 900.0], "artemis": [1000.0]})
    assert judged(rows) == [(0.2, 0.5, None), (200.0, 400, 200), (900.0, 1_000, 500)]
    assert "worst of 3" in rows[2].metric
    assert FULL.count * FULL.ours >= 50


def test_replicated_sends_are_compared_with_artemis_and_with_sends_to_one_broker() -> None:
    results = {
        name: [ProducerResult(rate, 1e-4), ProducerResult(rate, 2e-4)]
        for name, rate in (("ours", 600.0), ("artemis", 400.0), ("alone", 1000.0))
    }
    rows = replicated_rows(results)
    assert judged(rows) == [(1.5, 1.0, 1.5), (0.6, 0.45, 0.7)]
    assert rows[2].ours == pytest.approx(150)


def test_a_copy_is_judged_by_its_speed_and_by_what_the_traffic_notices() -> None:
    ours = Copies([90.0, 120.0, 130.0], quiet_s=[0.001] * 99 + [0.9], copying_s=[0.002] * 200, size_mib=1024.0)
    rows = copy_rows({"ours": ours, "artemis": Copies([60.0], [0.001], [0.004])})
    assert judged(rows) == [(120.0, 100, None), (2.0, 3.0, None)]
    assert [row.judged for row in rows if row.must is None] == [2.0, 0.5]


def test_a_copy_of_ours_is_judged_when_the_reference_did_not_get_through() -> None:
    rows = copy_rows({"ours": Copies([120.0], quiet_s=[0.001], copying_s=[0.002], size_mib=1024.0)})
    assert judged(rows) == [(120.0, 100, None), (2.0, 3.0, None)]
    assert [row.reference for row in rows if row.must is None] == [None, None]


def test_the_99th_of_a_hundred() -> None:
    assert p99([float(number) for number in range(100, 0, -1)]) == 99.0
    assert p99([1.0]) == 1.0


def test_failover_tests_are_judged_by_processor_time_and_by_how_many_fit_into_a_minute() -> None:
    costs = {kind: [8.0, 15.0, 16.0] for kind in KINDS} | {REFERENCE: [5.0]}
    rows = fixture_rows(costs, {key: [3000.0] for key in KINDS}, 200)
    assert judged(rows) == [(15.0, 20, 10), (4000.0, 1_000, None)] * len(KINDS)
    assert [row.judged for row in rows if row.reference is not None] == [3.0] * len(KINDS)


def test_every_case_says_what_it_measures() -> None:
    assert {"failover", "failover-replication", "replicated", "copy", "failover-test"} <= set(CASES)
    assert all(case.__doc__ for case in CASES.values())
