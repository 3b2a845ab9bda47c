"""Draws the plan of a scenario with a group of brokers: that of one broker, with the group in its place.

It chooses; it runs nothing.
"""

from __future__ import annotations

from random import Random

from attrs import evolve

from .draw import draw_plan
from .draw_votes import draw_vote_plan
from .fault_kinds import FaultKind, draw_group_faults, draw_replica_faults
from .plan import FaultStrike, GroupMode, GroupPlan, HostPlan, ScenarioPlan

__all__ = ["draw_group_plan"]

_FAULTS_MIN, _FAULTS_MAX = 4, 9
_LONG_PAUSE_MS = 100


#: The kinds of users change with each seed, and the mode after all of them.
_SEEDS_PER_MODE = 4
#: Pairs that vote are chosen by name.
_CHOSEN = (GroupMode.SHARED_STORE, GroupMode.REPLICATION)


def draw_group_plan(seed: int, mode: GroupMode | None = None) -> ScenarioPlan:
    """The plan of a seed for a group: users, topics and settings are those of `draw_plan`. It may choose the mode."""
    if mode is None:
        mode = _CHOSEN[seed // _SEEDS_PER_MODE % len(_CHOSEN)]
    if mode is GroupMode.VOTES:
        return draw_vote_plan(seed)
    replicates = mode is GroupMode.REPLICATION
    random, plan = Random(f"replicas {seed}" if replicates else f"group {seed}"), draw_plan(seed)
    draw_faults = draw_replica_faults if replicates else draw_group_faults
    kinds = draw_faults(random, random.randint(_FAULTS_MIN, _FAULTS_MAX))
    span_s = random.choice((0.5, 1.5, 3.0, 5.0) if replicates else (0.5, 1.5, 3.0, 8.0))
    producers = plan.producers
    if replicates:
        # Copies come and go for seconds, and who has nothing to do meanwhile finds no fault with them.
        producers = tuple([evolve(role, plan=evolve(role.plan, think_s=4 * role.plan.think_s)) for role in producers])
    if FaultKind.CLOCK_JUMP in kinds:
        # When a message expires is a matter of a broker's clock, and of which broker's nobody can say.
        producers = tuple([evolve(role, plan=evolve(role.plan, expire_chance=0.0)) for role in producers])
    browser = plan.browser
    return evolve(
        plan,
        group=_replicas(random) if replicates else _sharers(random),
        hosts=tuple([_with_failover(host, random, replicates) for host in plan.hosts]),
        browser=browser and evolve(browser, settings=evolve(browser.settings, ha=True)),
        producers=producers,
        faults=tuple([FaultStrike(kind, random.random() * span_s) for kind in kinds]),
    )


def _sharers(random: Random) -> GroupPlan:
    return GroupPlan(
        backups=random.choice((1, 1, 1, 2, 3)),
        primary_hands_over=random.random() < 0.3,
        backups_hand_over=random.random() < 0.3,
        allow_failback=random.random() < 0.8,
        restart_backups=random.random() < 0.8,
    )


def _replicas(random: Random) -> GroupPlan:
    return GroupPlan(
        backups=random.choice((1, 1, 1, 2)),
        allow_failback=random.random() < 0.8,
        restart_backups=random.random() < 0.8,
        mode=GroupMode.REPLICATION,
        lease_s=random.choice((None, 2.0, 3.0)),
        retry_ms=random.choice((100, 500, 2_000)),
    )


def _with_failover(host: HostPlan, random: Random, replicates: bool) -> HostPlan:
    """Its client knows all brokers; how patient it is was drawn before, with a way out for those who never were."""
    settings = host.settings
    attempts = settings.reconnect_attempts or random.choice((0, -1))
    # A lease takes seconds to run out: asking more often finds out nothing, and is most of what happens then.
    pause_ms = max(settings.retry_interval_ms, _LONG_PAUSE_MS) if replicates else settings.retry_interval_ms
    return evolve(host, settings=evolve(settings, ha=True, reconnect_attempts=attempts, retry_interval_ms=pause_ms))
