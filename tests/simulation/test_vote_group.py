"""A simulated cluster that votes: which host counts as live in a partition, what is seen of it, what checkers catch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedbroker.config import BrokerConfig
from embedbroker.ledger import Ledger
from embedbroker.storage import JournalSettings
from embedbroker.testing._network import Network
from embedbroker.testing._scene import Moment, Scene, SimulationFailure
from embedbroker.testing._world import World
from tests.simulation.scenario.modes import group_of
from tests.simulation.scenario.plan import PRIMARY, GroupMode, GroupPlan
from tests.simulation.scenario.vote_policy import VotePolicy

from .fault_points import replace


class Stage:
    """Three pairs without users; the others only answer."""

    def __init__(self) -> None:
        plan = GroupPlan(
            backups=1, mode=GroupMode.VOTES, pairs=3, quorum_size=3, voters_ask=False, vote_retries=3, vote_retry_ms=500
        )
        self.world = World(1)
        self.scene = Scene(self.world, Ledger())
        self.network = Network(self.world)
        settings = JournalSettings(identity=7, segment_size_bytes=16 * 1024)
        self.group = group_of(self.scene, self.network, plan, BrokerConfig(name="broker"), settings)
        assert isinstance(self.group.policy, VotePolicy)
        self.policy = self.group.policy
        self.members = self.group.members
        self.primary, self.backup = self.members.hosts[PRIMARY], self.members.hosts["backup1"]
        self.members.start()
        self.until(lambda: self.group.in_order)
        self.run(1.0)

    def run(self, seconds: float) -> None:
        end = self.world.now + seconds
        self.until(lambda: self.world.now >= end)

    def until(self, condition: Callable[[], bool], within_s: float = 60.0) -> None:
        end = self.world.now + within_s
        while not condition():
            assert self.world.now <= end and self.world.step(), "it does not come to that"

    def cut_off_primary(self) -> None:
        for name in ("backup1", "voter1", "voter2"):
            self.network.hold(PRIMARY, name)
            self.network.hold(name, PRIMARY)


def test_a_primary_that_is_cut_off_is_replaced_and_learns_of_it_later() -> None:
    stage = Stage()
    stage.cut_off_primary()
    assert stage.policy.are_parted
    stage.until(lambda: stage.backup.ready)
    assert stage.members.active is stage.backup
    assert stage.scene.hits[Moment.REPLACED_UNNOTICED] == 1 and stage.scene.hits[Moment.TOOK_OVER_BY_VOTE] == 1
    assert stage.primary.ready
    assert stage.primary.superseded
    refuses = stage.network.refuses
    assert refuses is not None
    assert [refuses("client", name) for name in (PRIMARY, "backup1")] == [True, False]
    stage.until(lambda: stage.primary.node is None)
    stage.network.heal()
    stage.primary.start()
    stage.until(lambda: stage.group.in_order)
    assert [stage.primary.ready, stage.primary.superseded] == [True, False]


def test_two_of_a_pair_that_go_on_each_without_the_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    replace(monkeypatch, "renew the activation by votes", lambda self: self._node_record.count_on(self._go_on))
    stage = Stage()
    stage.cut_off_primary()
    with pytest.raises(SimulationFailure, match="primary is live and alone, beside backup1"):
        stage.until(lambda: stage.backup.ready)


def test_a_pair_that_has_no_live_broker_although_all_see_each_other_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    monkeypatch.setattr(stage.policy.split_brain_checkers[0], "newest", None)
    with pytest.raises(SimulationFailure, match=r"neither primary or backup1 is live for 40"):
        stage.run(45.0)
