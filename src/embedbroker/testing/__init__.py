"""The deterministic simulator: real brokers and clients in virtual time, with faults from a seed.

``run_seed`` runs one scenario, ``Campaign`` sums up many; ``python -m embedbroker.testing`` is the command line.
``draw_plan`` shows what a seed stands for, ``run_plan`` runs it, ``values_of`` and ``plan_of`` write and read it.
``SimulatedDisk`` is the disk that forgets what was not synced.
"""

from ._campaign import Campaign
from ._disk import SimulatedDisk
from ._draw import draw_plan
from ._plan import ScenarioPlan, plan_of, values_of
from ._scenario import ScenarioFailed, SeedResult, run_plan, run_seed
from ._scene import Moment

__all__ = [
    "Campaign",
    "Moment",
    "ScenarioFailed",
    "ScenarioPlan",
    "SeedResult",
    "SimulatedDisk",
    "draw_plan",
    "plan_of",
    "run_plan",
    "run_seed",
    "values_of",
]
