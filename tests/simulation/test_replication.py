"""Seeds of faults on replicating pairs: the broker that serves has everything that was ever confirmed.

With a lock manager at most one broker of the pair confirms at a time, and the pair comes to rest with both; with votes
among three pairs the same, as long as a primary that starts again reaches the others.
"""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.config import ReplicationBackup, ReplicationPrimary, Role
from tests.embedbroker.ha.replication.replicating import Brokers
from tests.simulation.store_group import Writer

VOTES = {"vote_on_replication_failure": True, "vote_retry_wait_ms": 500, "vote_retries": 3}


class Chaos:
    """One seed. ``pair`` is disturbed, ``others`` vote."""

    def __init__(self, seed: int, *, manager: bool, voters_die: bool = False) -> None:
        self.random = Random(seed)
        self.votes = not manager
        self.voters_die = voters_die
        self.others = "" if manager else "xy"
        self.brokers = Brokers("pq" + self.others, manager=manager, lease_s=3.0 if manager else None, seed=seed)
        more = VOTES if self.votes else {}
        if voters_die:
            # A broker that starts while others are dead sees fewer than there are.
            more = {**more, "quorum_size": 3}
        policies: dict[str, ReplicationPrimary | ReplicationBackup] = {
            "p": ReplicationPrimary(check_for_active_server=True, group_name="g", **more),  # type: ignore[arg-type]
            "q": ReplicationBackup(allow_failback=True, group_name="g", **more),  # type: ignore[arg-type]
        }
        for name in self.others:
            policies[name] = ReplicationPrimary(group_name=name)
        for name, policy in policies.items():
            host = self.brokers.build(name, policy)
            host.on_ready.append(lambda name=name: self.check(name))  # type: ignore[misc]  # bound here
            host.start()
        self.brokers.until_in_sync("p")
        self.writer: Writer = self.brokers.writer("p", "q")
        self.takeovers = 0

    def check(self, name: str) -> None:
        if name in "pq" and self.brokers.world.now > 1.0:
            missing = set(self.writer.confirmed) - set(self.brokers.kept(name))
            assert not missing, f"{name} misses {sorted(missing)[:5]} of {len(self.writer.confirmed)} at {self.now:.3f}"
            self.takeovers += 1

    @property
    def now(self) -> float:
        return self.brokers.world.now

    def disturb_voters(self) -> None:
        """Their processes are killed and started again, and they see less than the others do."""
        brokers, random = self.brokers, self.random
        name = random.choice(self.others)
        host = brokers.hosts[name]
        if host.node is None:
            host.start()
        elif random.random() < 0.7:
            host.crash()
        else:
            brokers.part(random.choice("pq"), name)

    def disturb(self) -> None:
        brokers, random = self.brokers, self.random
        if self.voters_die and random.random() < 0.3:
            self.disturb_voters()
            return
        name = random.choice("pq")
        host = brokers.hosts[name]
        what = random.random()
        if what < 0.2:
            one, other = random.choice([("p", "q"), ("p", "q" + self.others), ("q", "p" + self.others)])
            if not self.votes or host.node is not None:
                brokers.part(one, other)
        elif what < 0.45:
            brokers.network.heal()
        elif what < 0.55 and brokers.manager is not None:
            brokers.manager.reachable = not brokers.manager.reachable
        elif what < 0.65 and brokers.manager is not None:
            brokers.manager.cut_off.clear()
            if random.random() < 0.5:
                brokers.manager.cut_off[random.choice(["primary 'p'", "backup 'q'"])] = None
        elif host.node is None:
            # A primary that starts while it reaches no other broker is live, which votes do not keep it from.
            if self.voters_die or not (self.votes and brokers.network.any_held):
                host.start()
        elif what < 0.9:
            host.crash()
        else:
            host.stop(fails_over=random.random() < 0.5)

    def run(self, disturbances: int = 25) -> None:
        for _ in range(disturbances):
            self.brokers.run(self.random.choice((0.01, 0.1, 0.5, 2.0, 4.0)))
            self.disturb()
        self.brokers.network.heal()
        if self.brokers.manager is not None:
            self.brokers.manager.reachable = True
            self.brokers.manager.cut_off.clear()
        for _ in range(4):
            self.brokers.run(8.0)
            for name in "pq" + self.others:
                if self.brokers.hosts[name].node is None:
                    self.brokers.hosts[name].start()
        self.brokers.run(10.0)
        roles = {name: self.brokers.role(name) for name in "pq"}
        assert sorted(role.value for role in roles.values()) == ["backup", "live"], self.told()
        live = next(name for name, role in roles.items() if role is Role.LIVE)
        assert self.brokers.in_sync(live), self.told()
        before = len(self.writer.confirmed)
        self.brokers.run(2.0)
        assert len(self.writer.confirmed) > before, "the writer gets on"
        self.check(live)

    def told(self) -> str:
        return "\n".join(f"{name} {self.brokers.role(name).value}:\n{self.brokers.said(name)[-1500:]}" for name in "pq")


# One of each is for every run of the tests.
SEEDS = pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.search) for seed in range(1, 8))])


@SEEDS
def test_with_a_lock_manager_nothing_confirmed_is_missing_at_whoever_is_live(seed: int) -> None:
    Chaos(seed, manager=True).run()


@SEEDS
def test_with_votes_of_three_pairs_nothing_confirmed_is_missing_at_whoever_is_live(seed: int) -> None:
    Chaos(seed, manager=False).run()


@SEEDS
def test_with_votes_of_voters_that_die_as_well_nothing_confirmed_is_missing_at_whoever_is_live(seed: int) -> None:
    Chaos(seed, manager=False, voters_die=True).run()
