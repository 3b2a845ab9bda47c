"""A few seeds run clean, twice alike, and a failure shows what it takes to repeat it. ``nox -s simulate`` runs many."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from tests.simulation.scenario import (
    Campaign,
    Moment,
    ScenarioFailed,
    ScenarioPlan,
    draw_plan,
    plan_of,
    run_plan,
    run_seed,
)
from tests.simulation.scenario.branch_habits import PLAIN
from tests.simulation.scenario.campaign import group_minima
from tests.simulation.scenario.closing_round import OPERATIONS_MIN
from tests.simulation.scenario.draw_group import draw_group_plan
from tests.simulation.scenario.plan import GroupMode
from tests.simulation.scenario.scenario import run_group_seed

from .fault_points import replace

FIRST_SEED = 10_001
SEEDS = range(FIRST_SEED, FIRST_SEED + 10)
# A crash while a backup is in sync comes about once in eight seeds.
REPLICATION_SEEDS = range(FIRST_SEED, FIRST_SEED + 20)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_seeds_run_clean_and_do_enough() -> None:
    campaign = Campaign()
    for seed in SEEDS:
        campaign.add(run_seed(seed))
    assert campaign.passed, campaign.shortcomings()
    assert campaign.operations >= 200 * len(SEEDS)
    assert campaign.hits[Moment.CRASH] > 0
    assert campaign.hits[Moment.REPLAY_COMPARED] >= len(SEEDS)


def test_a_seed_whose_users_do_little_goes_on_until_it_counts() -> None:
    result = run_seed(3_050_558)  # its faults and expirations leave 198 operations to its users
    assert result.operations >= OPERATIONS_MIN
    assert result.verdict.clean


def test_whoever_plans_little_still_does_enough() -> None:
    plan = draw_plan(FIRST_SEED)
    few = evolve(plan, producers=(evolve(plan.producers[0], plan=evolve(plan.producers[0].plan, count=1)),))
    assert OPERATIONS_MIN <= run_plan(few).operations <= OPERATIONS_MIN + 1  # what was sent is taken, too


def test_only_seeds_with_branches_draw_habits_for_them_and_operators() -> None:
    for seed in SEEDS:
        plan = draw_plan(seed)
        producers, consumers = [role.plan for role in plan.producers], [role.plan for role in plan.consumers]
        assert all(user.branches or user.habits == PLAIN for user in producers)
        assert all(user.branches or user.habits == PLAIN for user in consumers)
        if seed % 4 != 1:
            assert not plan.operator_pause_s and not any(user.branches for user in producers)


@pytest.mark.search
def test_users_of_branches_and_operators_do_everything_that_there_is_to_do() -> None:
    campaign = Campaign()
    for seed in (1, 5, 17, 21, 25, 29):
        campaign.add(run_seed(seed))
    met = {moment for moment in Moment if campaign.hits[moment]}
    assert {Moment.BRANCH_JOINED, Moment.BRANCH_RESUMED, Moment.COMMITTED_IN_ONE_PHASE, Moment.BRANCH_TIMED_OUT} <= met
    assert {Moment.HEURISTIC_COMMIT, Moment.HEURISTIC_ROLLBACK, Moment.OUTCOME_FORGOTTEN} <= met


@pytest.mark.search
def test_one_seed_gives_one_trace_whatever_the_hash_seed() -> None:
    arguments = ("--digest", "--seeds", "3", "--first-seed", str(FIRST_SEED))
    first, second = (run(*arguments, PYTHONHASHSEED=hash_seed) for hash_seed in ("0", "12345"))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert first.stdout == second.stdout
    assert len(set(first.stdout.split())) == 6  # three seeds and three digests, all different


def test_a_seed_run_again_in_the_same_process_gives_the_same_trace() -> None:
    assert run_seed(FIRST_SEED).digest == run_seed(FIRST_SEED).digest


def test_a_failure_carries_its_seed_its_reason_and_the_end_of_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    replace(monkeypatch, "expire", lambda self, queue, reference: False)
    with pytest.raises(ScenarioFailed, match=r"seed \d+: \S+") as caught:
        for seed in SEEDS:
            run_seed(seed, trace_tail_lines=30)
    failure = caught.value
    assert failure.seed in SEEDS
    assert failure.text in str(failure)
    assert 0 < len(failure.trace) <= 30


@pytest.mark.search
def test_the_command_line_ends_with_a_summary_and_exit_code_0() -> None:
    done = run("--seeds", "2", "--first-seed", str(FIRST_SEED), "--hash-check", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"passed": true' in done.stdout
    assert "2/2 seeds, 0 failed" in done.stderr
    assert "compared under two other hash seeds: equal" in done.stderr


def test_a_campaign_that_meets_too_little_does_not_pass() -> None:
    campaign = Campaign(seeds=1000)
    assert not campaign.passed
    assert any(line.startswith("crash_during_segment_switch: 0 hits") for line in campaign.shortcomings())


@pytest.mark.search
def test_workers_change_nothing() -> None:
    arguments = ("--seeds", "4", "--first-seed", str(FIRST_SEED), "--hash-check", "0")
    digests = {run(*arguments, "--jobs", jobs).stdout.partition('"digest": ')[2].split(",")[0] for jobs in ("1", "2")}
    assert len(digests) == 1


# -- groups ----------------------------------------------------------------------------------------------------------

MODES = list(GroupMode)


def campaign_of(mode: GroupMode, seeds: range = SEEDS) -> Campaign:
    campaign = Campaign.of_groups(mode)
    for seed in seeds:
        campaign.add(run_group_seed(seed, mode))
    return campaign


@pytest.mark.search
@pytest.mark.timeout(900)  # seconds on a machine that does nothing else
def test_seeds_of_groups_that_share_a_store_run_clean_and_meet_what_those_meet() -> None:
    campaign = campaign_of(GroupMode.SHARED_STORE)
    assert campaign.passed, campaign.shortcomings()
    assert campaign.hits[Moment.FAILOVER] > 0 and campaign.hits[Moment.FAILBACK] > 0
    assert campaign.hits[Moment.FROZEN_LIVE] > 0 and campaign.hits[Moment.REPLAY_COMPARED] >= len(SEEDS)


@pytest.mark.search
@pytest.mark.timeout(900)
def test_seeds_of_groups_that_replicate_run_clean_and_meet_what_those_meet() -> None:
    campaign = campaign_of(GroupMode.REPLICATION, REPLICATION_SEEDS)
    assert campaign.passed, campaign.shortcomings()
    assert campaign.hits[Moment.FAILOVER] > 0 and campaign.hits[Moment.BACKUP_IN_SYNC] >= len(REPLICATION_SEEDS)
    assert campaign.hits[Moment.CRASH_IN_SYNC] > 0 and campaign.hits[Moment.COPY_COMPARED] >= len(REPLICATION_SEEDS)


@pytest.mark.search
@pytest.mark.timeout(900)
def test_seeds_of_pairs_that_vote_run_clean_and_meet_what_those_meet() -> None:
    campaign = campaign_of(GroupMode.VOTES)
    assert campaign.passed, campaign.shortcomings()
    assert campaign.hits[Moment.VOTES_REQUESTED] >= len(SEEDS) and campaign.hits[Moment.TOOK_OVER_BY_VOTE] > 0
    assert campaign.hits[Moment.WENT_ON_BY_VOTE] > 0 and campaign.hits[Moment.COPY_COMPARED] >= len(SEEDS)


@pytest.mark.search
@pytest.mark.parametrize("mode", ["shared-store", "replication", "votes"])
def test_one_seed_of_a_group_gives_one_trace_whatever_the_hash_seed(mode: str) -> None:
    arguments = ("--mode", mode, "--digest", "--seeds", "2", "--first-seed", str(FIRST_SEED))
    first, second = (run(*arguments, PYTHONHASHSEED=hash_seed) for hash_seed in ("0", "12345"))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert first.stdout == second.stdout


@pytest.mark.search
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_the_plan_of_a_group_comes_back_from_its_file_as_it_was(mode: GroupMode, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    name = mode.name.lower().replace("_", "-")
    assert run("--mode", name, "--keep", str(kept), "--first-seed", "7").returncode == 0
    plan = plan_of(ScenarioPlan, json.loads(kept.read_text()))
    assert plan == draw_group_plan(7, mode) and plan.group is not None and plan.group.mode is mode
    assert run_plan(plan).digest == run_group_seed(7, mode).digest


def test_without_a_mode_seeds_choose_two_of_them_for_each_kind_of_users() -> None:
    plans = [draw_group_plan(seed) for seed in range(8)]
    assert [plan.group and plan.group.mode for plan in plans] == [*[MODES[0]] * 4, *[MODES[1]] * 4]


def test_a_campaign_of_both_modes_must_meet_half_as_much_of_each() -> None:
    store, replica_disk, both = (group_minima(mode) for mode in (*MODES[:2], None))
    assert Moment.VOTES_REQUESTED not in both
    assert both[Moment.FAILOVER] == (store[Moment.FAILOVER] + replica_disk[Moment.FAILOVER]) // 2
    assert both[Moment.PASSED_OVER] == store[Moment.PASSED_OVER] // 2
    assert both[Moment.CRASH_IN_SYNC] == replica_disk[Moment.CRASH_IN_SYNC] // 2


BETWEEN = {Moment.PARTED_BOTH_WAYS, Moment.PARTED_ONE_WAY, Moment.LINK_SLOWED}
ONE_SIDE = {Moment.SLOW_DISK, Moment.FULL_ON_ONE_SIDE, Moment.CLOCK_JUMPED}
CRASHES = {Moment.ALL_CRASHED, Moment.CRASH_WITH_PREPARED_BRANCHES, Moment.CRASH_WITH_OPEN_TRANSACTIONS}


@pytest.mark.parametrize("mode", [None, *MODES], ids=lambda mode: mode.name if mode is not None else "both")
def test_each_fault_of_groups_has_a_minimum_that_an_ordinary_run_has_to_meet(mode: GroupMode | None) -> None:
    wanted = ONE_SIDE | CRASHES | (BETWEEN if mode is not GroupMode.SHARED_STORE else set())
    wanted = wanted | ({Moment.STARTED_CUT_OFF} if mode is GroupMode.VOTES else set())
    seeds = 60 if mode is GroupMode.VOTES else 250
    campaign = Campaign.of_groups(mode)
    campaign.seeds = seeds
    missing = "\n".join(campaign.shortcomings())
    assert [moment.name for moment in wanted if f"{moment.name.lower()}: 0 hits" not in missing] == []
