"""The drill of a cluster: files, faults of one node, the way back into the cluster, and a short one with processes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import attrs
import pytest
import trio.testing
from click.testing import CliRunner

from embedbroker import load_config
from embedbroker.cli._commands import commands
from embedbroker.cli.drill._options import plan_of
from embedbroker.cli.drill._outage import NewTime, Outage
from embedbroker.cli.drill._page import page_of
from embedbroker.cli.drill._pair_files import write_files
from embedbroker.cli.drill._plan import DrillPlan, Ha, Hit, NodeFigures, Round
from embedbroker.cli.drill._run import LOST_AFTER_S, QUEUE, Run
from embedbroker.cli.drill._stage import Stage
from embedbroker.cli.drill._tables import as_json
from tests.embedbroker.cli.test_drill import GOOD, OUTAGE

PLAN = DrillPlan(seconds=3, producers=1, consumers=1, size_bytes=200, rounds=1, seed=7, nodes=2)


@pytest.mark.search
def test_a_kill_of_one_of_two_nodes_loses_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    clients = ["--producers", "2", "--consumers", "2", "--size", "100", "--seed", "11"]
    options = ["--cluster", "2", "--seconds", "1", "--rounds", "1", *clients, "--json", "--report", str(report)]
    result = CliRunner().invoke(commands, ["drill", *options])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    (turn,) = figures["rounds"]
    assert turn["outages"][0]["joined_s"] > 0
    assert all(min(node["confirmed"], node["arrived"]) > 0 for node in figures["nodes"])
    for node in ("node1", "node2"):
        states = [standing for _, broker, standing in figures["roles"] if broker == node]
        assert states == ["starting", "live", *(["down", "starting", "live"] if node == turn["node"] else [])]
        assert f">{node}</text>" in report.read_text()


@pytest.mark.search
@pytest.mark.parametrize("ha", ["shared-store", "replication"])
def test_a_kill_of_one_of_two_pairs_loses_nothing(tmp_path: Path, ha: str) -> None:
    report = tmp_path / "report.html"
    clients = ["--producers", "1", "--consumers", "1", "--size", "100", "--seed", "11"]
    options = ["--cluster", "2", "--pairs", "--ha", ha, "--seconds", "1", "--rounds", "1", *clients]
    result = CliRunner().invoke(commands, ["drill", *options, "--json", "--report", str(report)])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    (turn,) = figures["rounds"]
    assert [outage["after"] for outage in turn["outages"]] == ["kill", "failback"]
    assert all(outage["joined_s"] > 0 for outage in turn["outages"])
    assert all(min(node["confirmed"], node["arrived"]) > 0 for node in figures["nodes"])
    page = report.read_text()
    for node in ("node1", "node2"):
        is_struck = node == turn["node"]
        # A primary that replicates is a backup of the one that stood in for it, before it is live again.
        again = ["down", *(["backup"] if ha == "replication" else []), "live"]
        expected = {"primary": ["live", *(again if is_struck else [])], "backup": ["backup"]}
        expected["backup"] += ["live", "backup"] if is_struck else []
        for part, standings in expected.items():
            name = f"{node}-{part}"
            states = [standing for _, broker, standing in figures["roles"] if broker == name and standing != "starting"]
            assert states == standings, name
            assert f">{name}</text>" in page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--pairs", "--pairs is of use only with --cluster"),
        ("--cluster 1", "1 is not in the range"),
        ("--cluster 2 --ha replication", "--ha replication needs --pairs"),
        ("--cluster 2 --config a.xml", "--config: a drill writes the files of a --cluster itself"),
        ("--cluster 2 --pairs --backup-config a.xml", "--backup-config: a drill writes"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: str, said: str) -> None:
    result = CliRunner().invoke(commands, ["drill", "--seconds", "600", *options.split()])
    assert result.exit_code == 2, result.output
    assert said in result.stderr


def test_pairs_share_a_store_or_replicate() -> None:
    common = {"cluster": 2, "faults": (), "fault_seconds": 1.0, "peer": "embedbroker", "seconds": 1.0}
    sizes = {"rounds": 1, "producers": 1, "consumers": 1, "size": 1, "seed": 1}
    kinds = [
        plan_of(pairs=pairs, ha=ha, **common, **sizes).ha  # type: ignore[arg-type]  # values of options
        for pairs, ha in ((False, "none"), (True, "none"), (True, "replication"))
    ]
    assert kinds == [Ha.NONE, Ha.SHARED_STORE, Ha.REPLICATION]


@pytest.mark.parametrize(
    ("ha", "brokers", "stores"), [(Ha.NONE, 3, 3), (Ha.SHARED_STORE, 6, 3), (Ha.REPLICATION, 6, 6)]
)
def test_each_broker_of_a_cluster_finds_all_others(tmp_path: Path, ha: Ha, brokers: int, stores: int) -> None:
    files = write_files(tmp_path, ha, range(5001, 5100), relayed=False, nodes=3)
    configs = [load_config(file.path, on_warning=lambda _: None) for file in files]
    assert len({config.port for config in configs}) == brokers
    assert len({config.data_directory for config in configs}) == stores
    assert [file.node for file in files] == sorted(["node1", "node2", "node3"] * (brokers // 3))
    if ha is Ha.REPLICATION:
        assert [getattr(config.ha_policy, "group_name", None) for config in configs] == [file.node for file in files]
    for config in configs:
        cluster = config.cluster_connection
        assert cluster is not None
        named = {config.connectors[name].parameters["port"] for name in cluster.static_connectors}
        assert len(named) == brokers - 1 and config.port not in named
        assert config.address_settings["#"].redistribution_delay_ms == 0


def test_a_node_is_back_when_messages_go_to_it_and_from_it() -> None:
    outage = Outage("kill", NewTime.AT_ONCE, 10.0, Hit(1, 1, 0, 0, 1, 0), 1, joins="node1-")
    outage.arrived("node2-p0-1", 10.5)  # lay there when it was struck
    outage.sent("node2-p0-2")
    outage.sent("node1-p0-7")
    outage.succeeded("node1-p0", began=10.1, now=11.0)
    outage.delivered(11.0)
    outage.arrived("node2-p0-2", 12.0)
    assert not outage.over.is_set()
    outage.left("node1-p0-7", 13.5)
    assert outage.over.is_set()
    assert outage.record().joined_s == 3.5


async def test_a_fault_of_one_node_hits_its_clients_alone() -> None:
    run = Run(PLAN)
    one, two = Stage(run, "node1"), Stage(run, "node2")
    stale: list[str] = []
    for stage in (one, two):
        stage.on_stale_buffers.append(lambda name=stage.name: stale.append(name))  # type: ignore[misc]  # bound early
    two.waiting_sends, two.open_transactions = 1, {"node2-p1#1"}
    assert two.fault_would_hit and not one.fault_would_hit
    two.delivered("node1-p0-1")
    assert not run.is_formed.is_set()
    one.delivered("node2-p0-1")
    assert run.is_formed.is_set()
    one.delivered("node1-p0-2")
    outage = two.strike("kill", NewTime.AT_ONCE, lambda: None, ends_life=True)
    assert (stale, run.outage, one.outage) == (["node2"], outage, None)
    run.sent("node1-p0-3")
    run.sent("node2-p0-3")
    two.delivered("node1-p0-3")
    one.delivered("node2-p0-3")
    assert outage.record().joined_s is not None
    figures = run.findings(interrupted=True).nodes
    assert [(node.name, node.delivered, node.arrived) for node in figures] == [("node1", 3, 2), ("node2", 2, 2)]


async def test_what_is_on_its_way_is_waited_for_until_nothing_moves(autojump_clock: trio.testing.MockClock) -> None:
    run = Run(PLAN)
    for key in ("a", "b"):
        run.ledger.sent(key, QUEUE, 0.0)
        run.ledger.confirmed(key, 0.0)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drained)
        with trio.move_on_after(LOST_AFTER_S - 1):
            await trio.Event().wait()
        run.ledger.delivered(QUEUE, "a", run.now())
        run.ledger.acknowledging(QUEUE, "a")
        run.ledger.acknowledged(QUEUE, "a", run.now())
        run.consumed(1)
    assert trio.current_time() - began == pytest.approx(2 * LOST_AFTER_S - 1, abs=0.3)
    assert run.findings().verdict.lost.keys == ("b",)


def test_a_report_has_the_nodes_and_a_node_that_stays_away_fails_the_drill() -> None:
    nodes = (NodeFigures("node1", 5, 4, 2, 1), NodeFigures("node2", 4, 5, 3, 0))
    joined = Round(GOOD.rounds[0].fault, attrs.evolve(OUTAGE, joined_s=0.9), node="node1")
    good = attrs.evolve(GOOD, plan=PLAN, nodes=nodes, rounds=(joined,))
    assert good.objections() == []
    page = page_of(good)
    assert re.search(r"<tr><td>node2</td><td>0</td><td>4</td><td>5</td><td>3</td></tr>", page)
    assert "round 1, kill of node1 at 1.00 s" in page
    away = attrs.evolve(good, rounds=(Round(joined.fault, OUTAGE, node="node1"),))
    assert away.objections() == ["round 1: no messages went both to node1 and from it after the kill"]


def test_a_drill_that_was_interrupted_judges_what_it_has_seen() -> None:
    stopped = attrs.evolve(GOOD, rounds=(), interrupted=True)
    assert stopped.objections() == []
    assert as_json(stopped)["passed"] is False
    assert '<span class="interrupted">INTERRUPTED</span>' in page_of(stopped)
