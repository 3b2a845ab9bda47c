"""Scenarios of several brokers that forward messages to each other: over bridges, and in clusters.

Of each kind there is a function that shows what a seed stands for (`draw_bridge_plan`, `draw_cluster_plan`), and one
that runs it. Minima are what a campaign must meet.
"""

from .bridge_plan import BridgeScenarioPlan
from .bridge_scenario import run_bridge_plan, run_bridge_seed
from .cluster_plan import ClusterPlan
from .cluster_scenario import form_cluster, run_cluster_plan, run_cluster_seed, run_failover_seed
from .draw_bridges import draw_bridge_plan
from .draw_clusters import draw_cluster_plan, draw_failover_plan
from .minima import BRIDGE_MINIMA_PER_1000, CLUSTER_MINIMA_PER_1000, FAILOVER_MINIMA_PER_1000

__all__ = [
    "BRIDGE_MINIMA_PER_1000",
    "CLUSTER_MINIMA_PER_1000",
    "FAILOVER_MINIMA_PER_1000",
    "BridgeScenarioPlan",
    "ClusterPlan",
    "draw_bridge_plan",
    "draw_cluster_plan",
    "draw_failover_plan",
    "form_cluster",
    "run_bridge_plan",
    "run_bridge_seed",
    "run_cluster_plan",
    "run_cluster_seed",
    "run_failover_seed",
]
