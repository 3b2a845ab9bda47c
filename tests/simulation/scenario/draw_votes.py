"""Draws the plan of a scenario with pairs that vote: users as for one broker, the pairs, and what happens to them.

It chooses; it runs nothing.
"""

from __future__ import annotations

from random import Random

from attrs import evolve

from .draw import draw_plan
from .fault_kinds import FaultKind, draw_vote_faults
from .plan import FaultStrike, GroupMode, GroupPlan, HostPlan, ScenarioPlan

__all__ = ["draw_vote_plan"]

_FAULTS_MIN, _FAULTS_MAX = 4, 9
_PAUSE_MS = 200


def draw_vote_plan(seed: int) -> ScenarioPlan:
    """The plan of a seed: users, topics and settings are those of `draw_plan`."""
    random, plan = Random(f"votes {seed}"), draw_plan(seed)
    group = _pairs(random)
    kinds = draw_vote_faults(random, random.randint(_FAULTS_MIN, _FAULTS_MAX))
    span_s = random.choice((2.0, 6.0, 12.0))
    # It takes seconds to notice that somebody is gone, and to ask: users do not get everything done before.
    producers = tuple([evolve(role, plan=evolve(role.plan, think_s=6 * role.plan.think_s)) for role in plan.producers])
    if FaultKind.CLOCK_JUMP in kinds:
        producers = tuple([evolve(role, plan=evolve(role.plan, expire_chance=0.0)) for role in producers])
    browser = plan.browser
    return evolve(
        plan,
        group=group,
        hosts=tuple([_with_failover(host, random) for host in plan.hosts]),
        browser=browser
        and evolve(browser, settings=evolve(browser.settings, ha=True, use_topology_for_load_balancing=False)),
        producers=producers,
        faults=tuple([FaultStrike(kind, random.random() * span_s) for kind in kinds]),
    )


def _pairs(random: Random) -> GroupPlan:
    pairs = random.choice((2, 3, 3, 3, 5))
    return GroupPlan(
        backups=random.choice((1, 1, 1, 1, 2)),
        allow_failback=random.random() < 0.8,
        restart_backups=random.random() < 0.8,
        mode=GroupMode.VOTES,
        retry_ms=random.choice((100, 500, 2_000)),
        pairs=pairs,
        # Of two pairs one broker is asked, which has to be said; of more it may be left to what is seen.
        quorum_size=pairs if pairs == 2 or random.random() < 0.7 else -1,
        voters_ask=pairs == 3 and random.random() < 0.4,
        vote_retries=random.choice((1, 3, 12)),
        vote_retry_ms=random.choice((200, 500, 2_000)),
    )


def _with_failover(host: HostPlan, random: Random) -> HostPlan:
    """Its client knows the brokers of the first pair, and asks no others."""
    settings = host.settings
    attempts = settings.reconnect_attempts or random.choice((0, -1))
    pause_ms = max(settings.retry_interval_ms, _PAUSE_MS)
    return evolve(
        host,
        settings=evolve(
            settings,
            ha=True,
            reconnect_attempts=attempts,
            retry_interval_ms=pause_ms,
            use_topology_for_load_balancing=False,
        ),
    )
