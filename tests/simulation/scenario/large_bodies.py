"""Turns a plan into one with large messages: some bodies of each producer go in chunks, and lie in files of their own.

It changes values; it runs nothing. What a seed stands for without it stays what it is.
"""

from __future__ import annotations

from random import Random

from attrs import evolve

from .plan import ScenarioPlan

__all__ = ["with_large_bodies"]

_LARGE_CHANCE = 0.2
_SIZE_MAX = 12_000


def with_large_bodies(plan: ScenarioPlan) -> ScenarioPlan:
    """The plan with large messages. Chunks are small, so that much can happen between two of them.

    Cursors read whole messages only: a plan with one stays unchanged.
    """
    if plan.readers:
        return plan
    random = Random(f"large bodies {plan.seed}")
    return evolve(
        plan,
        hosts=tuple(
            [
                evolve(host, settings=evolve(host.settings, min_large_message_size=random.choice((500, 1_000, 2_500))))
                for host in plan.hosts
            ]
        ),
        producers=tuple(
            [
                evolve(role, plan=evolve(role.plan, large_chance=_LARGE_CHANCE, large_size_max=_SIZE_MAX))
                for role in plan.producers
            ]
        ),
    )
