"""The page on reliability is what its script makes of the kept results, and these prove what the page claims."""

from __future__ import annotations

from benchmarks.long_run import next_task
from benchmarks.reliability import (
    DATA,
    PAGE,
    condensed,
    grouped,
    how_busy,
    how_long,
    load,
    page_of,
    struck,
    summed,
    waited,
)


def test_the_page_is_written_from_the_data() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_of(load())


def test_a_line_of_the_data_is_a_run() -> None:
    lines = DATA.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(load()) + 2


def test_our_long_runs_are_long_and_each_fault_met_something() -> None:
    ours = [run for run in load() if run["plan"]["peer"] == "embedbroker"]
    met = {
        (ha, fault): [
            outage
            for run in ours
            for outage in struck([run])
            if run["plan"]["ha"] == ha and run["plan"]["faults"] == [fault]
        ]
        for ha in ("shared-store", "replication")
        for fault in ("kill", "freeze")
    }
    for fault, of_each, together in (("kill", 80, 200), ("freeze", 25, 50)):
        counts = [len(outages) for (_, each), outages in met.items() if each == fault]
        assert min(counts) >= of_each
        assert sum(counts) >= together
    for outages in met.values():
        assert all(outage["sends_waiting_outside_transactions"] for outage in outages)
        assert all(outage["transactions_before_their_commit"] for outage in outages)
    assert [run["objections"] for run in ours if not run["passed"]] == []


def test_what_is_kept_of_a_run_tells_how_long_the_last_producer_waited() -> None:
    outage = {
        **dict.fromkeys(("unconfirmed_sends", "open_transactions", "prepared_branches"), 1),
        **dict.fromkeys(("sends_waiting_outside_transactions", "transactions_before_their_commit"), 1),
        "after": "kill",
        "serving_s": 0.1,
        "first_confirmed_s": 0.2,
        "first_delivery_s": 0.2,
        "producers_s": [0.2, 0.3],
    }
    run = {**load()[0], "rounds": [{"fault": "kill", "outages": [outage]}], "roles": [[0.1, "broker", "live"]]}
    kept = condensed(run)
    assert kept["rounds"][0]["outages"][0]["all_confirmed_s"] == 0.3
    assert "roles" not in kept


def test_a_freeze_counts_from_its_end_and_a_kill_from_its_beginning() -> None:
    outage = {"serving_s": 2.0, "first_confirmed_s": 2.5, "first_delivery_s": None}
    assert waited({**outage, "after": "freeze"}, "first_confirmed_s") == 0.5
    assert waited({**outage, "after": "kill"}, "first_confirmed_s") == 2.5
    assert waited({**outage, "after": "freeze"}, "first_delivery_s") is None


def test_times_of_a_drill_in_which_the_whole_machine_stood_still_are_left_out() -> None:
    run = next(run for run in load() if run["plan"]["peer"] == "embedbroker")
    halted = {**run, "halted_s": 30.0}
    (alone,) = grouped([run]).keys()
    assert how_long(grouped([run, halted])) == how_long(grouped([run]))
    assert summed([run, halted], "confirmed") == 2 * run["confirmed"]
    assert how_busy(grouped([run, halted]))[-1].startswith(f"| {alone[0]} | {alone[1]} | 2 |")
    assert how_busy(grouped([run, halted]))[-1].endswith("| 1 |")


def test_clusters_count_apart_and_show_when_a_node_was_back_among_the_others() -> None:
    run = next(run for run in load() if run["plan"]["peer"] == "embedbroker" and run["plan"]["ha"] == "shared-store")
    outage = {**run["rounds"][0]["outages"][0], "joined_s": 1.25}
    clustered = {
        **run,
        "plan": {**run["plan"], "nodes": 2},
        "note": "",
        "rounds": [{**run["rounds"][0], "outages": [outage]}],
    }
    groups = grouped([run, clustered])
    assert [brokers for brokers, _ in groups][1] == "embedbroker, cluster of 2 pairs, shared-store"
    joined = [row for row in how_long(groups) if "messages go to the node" in row]
    assert [row.split(" | ")[3:] for row in joined] == [["1", "1,250", "1,250", "1,250", "1,250 |"]]
    kind = (run["plan"]["ha"], run["plan"]["faults"][0])
    task = next_task([clustered], {kind: 1})
    assert task is not None and task.seed == 1
