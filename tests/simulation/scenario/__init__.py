"""Scenarios from seeds: users, plans, faults and groups of brokers in the simulated world, and campaigns of many.

`run_seed` runs one scenario, `Campaign` sums up many; `python -m tests.simulation` is the command line. `draw_plan`
shows what a seed stands for, `run_plan` runs it, `values_of` and `plan_of` write and read it.
"""

from embedbroker.testing._scene import Moment

from .campaign import Campaign
from .draw import draw_plan
from .plan import ScenarioPlan, plan_of, values_of
from .scenario import ScenarioFailed, SeedResult, run_plan, run_seed

__all__ = [
    "Campaign",
    "Moment",
    "ScenarioFailed",
    "ScenarioPlan",
    "SeedResult",
    "draw_plan",
    "plan_of",
    "run_plan",
    "run_seed",
    "values_of",
]
