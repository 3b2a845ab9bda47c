"""Scenarios of several brokers that forward messages to each other.

`run_bridge_seed` runs one scenario of bridges, `draw_bridge_plan` shows what a seed stands for, and
`run_bridge_plan` runs it. `BRIDGE_MINIMA_PER_1000` is what a campaign must meet.
"""

from .bridge_plan import BridgeScenarioPlan
from .bridge_scenario import run_bridge_plan, run_bridge_seed
from .draw_bridges import draw_bridge_plan
from .minima import BRIDGE_MINIMA_PER_1000

__all__ = ["BRIDGE_MINIMA_PER_1000", "BridgeScenarioPlan", "draw_bridge_plan", "run_bridge_plan", "run_bridge_seed"]
