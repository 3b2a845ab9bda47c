"""``python -m tests.simulation.find_again [KIND...]``: which seed finds each bug, for ``found_by``; it takes minutes.

Prints a line for each bug that its known seed does not find.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from tests.simulation.scenario import ScenarioFailed, SeedResult, run_seed
from tests.simulation.scenario.plan import GroupMode
from tests.simulation.scenario.scenario import run_group_seed

from . import test_checkers_catch_bugs as one_broker
from . import test_groups_catch_bugs as groups
from . import test_readers as readers
from .administration_bugs import ADMINISTRATION_BUGS
from .body_bugs import BODY_BUGS
from .bridge_bugs import BRIDGE_BUGS
from .cluster_bugs import CLUSTER_BUGS
from .divert_bugs import DIVERT_BUGS
from .hunting import Bug, failed_by_itself, known_seed, seeds_for
from .permission_bugs import PERMISSION_BUGS
from .replica_bugs import REPLICA_BUGS
from .set_bugs import SET_BUGS
from .sites import run_bridge_seed, run_cluster_seed
from .test_diverts import seed_with_diverts
from .test_permissions import seed_with_visitors
from .test_sets_catch_bugs import seed_with_sets
from .vote_bugs import VOTE_BUGS

Hunt = tuple[str, Bug, Callable[[int], SeedResult]]


def _seed_with_sets(number: int) -> SeedResult:
    return run_seed(seed_with_sets(number))


def _seed_with_diverts(number: int) -> SeedResult:
    return run_seed(seed_with_diverts(number))


def _seed_with_visitors(number: int) -> SeedResult:
    return run_seed(seed_with_visitors(number))


def hunts() -> list[Hunt]:
    """The kind of seeds, the bug, and how one of them runs."""
    of_groups = {GroupMode.SHARED_STORE: groups.BUGS, GroupMode.REPLICATION: REPLICA_BUGS, GroupMode.VOTES: VOTE_BUGS}
    return [
        *((mode.name, bug, partial(run_group_seed, mode=mode)) for mode, bugs in of_groups.items() for bug in bugs),
        *(("ONE_BROKER", bug, run_seed) for bug in one_broker.BUGS),
        *(("READERS", bug, readers.run) for bug in readers.BUGS),
        *(("COMMIT_SETS", bug, _seed_with_sets) for bug in SET_BUGS),
        *(("DIVERTS", bug, _seed_with_diverts) for bug in DIVERT_BUGS),
        *(("PERMISSIONS", bug, _seed_with_visitors) for bug in PERMISSION_BUGS),
        *(("ADMINISTRATION", bug, partial(run_seed, administrator=True)) for bug in ADMINISTRATION_BUGS),
        *(("BRIDGES", bug, run_bridge_seed) for bug in BRIDGE_BUGS),
        *(("CLUSTERS", bug, run_cluster_seed) for bug in CLUSTER_BUGS),
        *(("LARGE_BODIES", bug, partial(run_seed, large_bodies=True)) for bug in BODY_BUGS),
    ]


def _finder(number: int) -> int | None:
    """The known seed if it finds the bug by itself, or else the first: what a bug skips, it counts anew."""
    kind, bug, run = hunts()[number]
    for seed in seeds_for(kind, bug):
        with pytest.MonkeyPatch.context() as patch:
            bug(patch)
            try:
                run(seed)
            except ScenarioFailed as failure:
                if not failed_by_itself(bug, failure):
                    return seed
    return None


def main() -> None:
    """Hunt on all processors, for the bugs of all kinds or of those that are named."""
    every_hunt, kinds = hunts(), sys.argv[1:]
    chosen = [number for number, (kind, _, _) in enumerate(every_hunt) if not kinds or kind in kinds]
    with ProcessPoolExecutor(os.cpu_count(), initializer=partial(gc.set_threshold, 50_000)) as pool:
        for number, seed in zip(chosen, pool.map(_finder, chosen), strict=True):
            kind, bug, _ = every_hunt[number]
            if seed != known_seed(kind, bug):
                sys.stdout.write(f"{kind}: {bug.__name__}: {seed}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
