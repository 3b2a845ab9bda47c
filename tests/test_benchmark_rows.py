"""What the benchmarks of pairs make of their figures: which row is compared with what, and with which bounds."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import CASES
from benchmarks.cluster_cases import (
    ALONE,
    AMONG_OTHERS,
    ON_ALL,
    durable_rows,
    formed_rows,
    forwarded_rows,
    local_rows,
    redistributed_rows,
)
from benchmarks.cluster_growth import KINDS as TRAFFIC
from benchmarks.cluster_growth import Join, join
from benchmarks.cluster_growth import rows_of as growth_rows
from benchmarks.copy_cases import Copies, p99
from benchmarks.copy_cases import rows_of as copy_rows
from benchmarks.failover_cases import FULL
from benchmarks.failover_cases import rows_of as failover_rows
from benchmarks.fixture_cases import KINDS, REFERENCE, cluster_rows
from benchmarks.fixture_cases import rows_of as fixture_rows
from benchmarks.java_load import ProducerResult
from benchmarks.replicated_cases import rows_of as replicated_rows
from benchmarks.report import Row
from benchmarks.request_cases import rows_of as request_rows


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


def test_requests_of_many_tasks_are_compared_with_one_session_and_judged_by_their_time() -> None:
    rows = request_rows({"many tasks": [0.001, 0.0008, 0.01], "one session": [0.0009], "a session each": [0.008]})
    assert judged(rows) == [(0.9, 0.8, 1.0), (1.0, 1.5, 1.0)]


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


def test_a_test_with_a_cluster_is_judged_by_processor_time() -> None:
    assert judged(cluster_rows([50.0, 58.0, 90.0])) == [(58.0, 60, None)]


def test_messages_over_a_link_are_judged_by_the_processor_time_of_both_nodes() -> None:
    rows = forwarded_rows({"ours": [40.0, 50.0, 90.0], "artemis": [100.0]}, {"ours": [9.0], "artemis": [10.0]})
    assert judged(rows) == [(0.5, 0.7, 0.5)]


def test_local_messages_of_a_cluster_are_compared_with_those_of_a_node_alone() -> None:
    rows = local_rows({ALONE: [10.0], AMONG_OTHERS: [10.4, 10.2], ON_ALL: [12.0]})
    assert judged(rows) == [(1.03, 1.05, 1.0)]
    assert rows[1].judged == 1.2


def test_durable_messages_are_judged_by_what_arrives_and_the_rest_by_time() -> None:
    both = {"ours": [300.0], "artemis": [200.0]}
    assert judged(durable_rows({"ours": [1.0], "artemis": [9.0]}, both, both)) == [(1.5, 1.0, 1.5)]
    assert judged(redistributed_rows({"ours": [1.0, 3.0], "artemis": [10.0]}, both, 100)) == [(0.2, 0.5, 0.2)]
    assert judged(formed_rows({"ours": [1.0], "artemis": [10.0]}, both)) == [(0.1, 0.2, 0.1)]


def test_growth_is_judged_for_each_broker_beside_the_size_of_the_cluster() -> None:
    few = Join(8, dict.fromkeys(TRAFFIC, 640), dict.fromkeys(TRAFFIC, 6_400), 1_000.0)
    many = Join(32, dict.fromkeys(TRAFFIC, 10_240), dict.fromkeys(TRAFFIC, 102_400), 1_100.0)
    assert judged(growth_rows([few, many])) == [(1.0, 1.2, None)] * 4 + [(1.1, 1.2, None)]


def test_a_join_is_counted() -> None:
    found = join(3)
    assert all(found.packets[kind] > 0 and found.size[kind] > 0 for kind in TRAFFIC) and found.memory_per_member > 0
    # The new broker announces itself to two others.
    assert found.packets["topology"] >= 2 * 2


def test_every_case_says_what_it_measures() -> None:
    assert {"failover", "failover-replication", "replicated", "copy", "failover-test", "cluster"} <= set(CASES)
    assert all(case.__doc__ for case in CASES.values())
