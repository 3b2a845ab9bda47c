"""Draws the plan of a scenario with a group of brokers: that of one broker, with the group in its place.

It chooses; it runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from attrs import evolve, frozen

from embedclient.agent import LocatorSettings

from .draw import draw_plan
from .fault_kinds import FaultKind, draw_group_faults, draw_replica_faults, draw_vote_faults
from .plan import FaultStrike, GroupMode, GroupPlan, HostPlan, ScenarioPlan

__all__ = ["draw_group_plan"]

_FAULTS_MIN, _FAULTS_MAX = 4, 9
#: The kinds of users change with each seed, and the mode after all of them.
_SEEDS_PER_MODE = 4
#: Pairs that vote are chosen by name.
_CHOSEN = (GroupMode.SHARED_STORE, GroupMode.REPLICATION)


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


def _pairs(random: Random) -> GroupPlan:
    pairs = random.choice((2, 3, 3, 3, 5))
    return GroupPlan(
        backups=random.choice((1, 1, 1, 1, 2)),
        allow_failback=random.random() < 0.8,
        restart_backups=random.random() < 0.8,
        mode=GroupMode.VOTES,
        retry_ms=random.choice((100, 500, 2_000)),
        pairs=pairs,
        # Of two pairs one broker is asked, and the quorum must be set; of more, it may depend on what is seen.
        quorum_size=pairs if pairs == 2 or random.random() < 0.5 else -1,
        voters_ask=pairs == 3 and random.random() < 0.4,
        vote_retries=random.choice((1, 3, 12)),
        vote_retry_ms=random.choice((200, 500, 2_000)),
    )


@frozen
class _Draw:
    """How the plans of one mode are drawn."""

    seed_name: str
    group: Callable[[Random], GroupPlan]
    faults: Callable[[Random, int], list[FaultKind]]
    spans_s: tuple[float, ...]
    #: Copies and votes take seconds, and a user with nothing left to do meanwhile finds no fault with them.
    think_factor: int = 1
    #: A lease takes seconds to run out, and so does a vote: frequent attempts find out nothing, and take most steps.
    pause_ms: int = 0


_DRAWS = {
    GroupMode.SHARED_STORE: _Draw("group", _sharers, draw_group_faults, (0.5, 1.5, 3.0, 8.0)),
    GroupMode.REPLICATION: _Draw("replicas", _replicas, draw_replica_faults, (0.5, 1.5, 3.0, 5.0), 4, 100),
    GroupMode.VOTES: _Draw("votes", _pairs, draw_vote_faults, (2.0, 6.0, 12.0), 6, 200),
}


def draw_group_plan(seed: int, mode: GroupMode | None = None) -> ScenarioPlan:
    """Draw the plan of a seed for a group: users, topics and settings are those of `draw_plan`.

    The seed chooses a mode that is not given.
    """
    if mode is None:
        mode = _CHOSEN[seed // _SEEDS_PER_MODE % len(_CHOSEN)]
    draw, plan = _DRAWS[mode], draw_plan(seed)
    random = Random(f"{draw.seed_name} {seed}")
    votes = mode is GroupMode.VOTES
    # Plans of seeds must stay what they are: in which order they are drawn is a part of that.
    group = draw.group(random) if votes else None
    kinds = draw.faults(random, random.randint(_FAULTS_MIN, _FAULTS_MAX))
    span_s = random.choice(draw.spans_s)
    producers = plan.producers
    factor = draw.think_factor
    if factor > 1:
        producers = tuple(
            [evolve(role, plan=evolve(role.plan, think_s=factor * role.plan.think_s)) for role in producers]
        )
    if FaultKind.CLOCK_JUMP in kinds:
        # When a message expires or is due depends on a broker's clock, and the live broker may be any.
        producers = tuple(
            [evolve(role, plan=evolve(role.plan, expire_chance=0.0, delay_chance=0.0)) for role in producers]
        )
    browser = plan.browser
    return evolve(
        plan,
        group=group or draw.group(random),
        hosts=tuple([_with_failover(host, random, draw.pause_ms, votes) for host in plan.hosts]),
        visitors=tuple([evolve(each, settings=_with_brokers(each.settings, votes)) for each in plan.visitors]),
        browser=browser and evolve(browser, settings=_with_brokers(browser.settings, votes)),
        producers=producers,
        faults=tuple([FaultStrike(kind, random.random() * span_s) for kind in kinds]),
    )


def _with_failover(host: HostPlan, random: Random, pause_ms: int, votes: bool) -> HostPlan:
    """Give its client all brokers; its patience was drawn before, and one that never waits gets a way out."""
    settings = _with_brokers(host.settings, votes)
    attempts = settings.reconnect_attempts or random.choice((0, -1))
    pause_ms = max(settings.retry_interval_ms, pause_ms)
    return evolve(host, settings=evolve(settings, reconnect_attempts=attempts, retry_interval_ms=pause_ms))


def _with_brokers(settings: LocatorSettings, votes: bool) -> LocatorSettings:
    """Let a client fail over. Where pairs vote, it connects to the brokers of the first pair alone."""
    topology = settings.use_topology_for_load_balancing and not votes
    return evolve(settings, ha=True, use_topology_for_load_balancing=topology)
