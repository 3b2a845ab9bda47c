"""The deterministic simulator: real brokers and clients in virtual time, with faults from a seed.

``run_seed`` runs one scenario, ``Campaign`` sums up many; ``python -m embedbroker.testing`` is the command line.
``SimulatedDisk`` is the disk that forgets what was not synced.
"""

from embedbroker.testing._campaign import Campaign
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._scenario import ScenarioFailed, SeedResult, run_seed
from embedbroker.testing._scene import Moment

__all__ = ["Campaign", "Moment", "ScenarioFailed", "SeedResult", "SimulatedDisk", "run_seed"]
