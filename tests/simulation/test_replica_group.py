"""A simulated group that replicates: which host counts as live, what is seen of its copies, and what checkers catch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedbroker.config import BrokerConfig
from embedbroker.ha.replication._stages import Event
from embedbroker.ledger import Ledger
from embedbroker.storage import JournalSettings
from embedbroker.testing._network import Network
from embedbroker.testing._scene import Moment, Scene, SimulationFailure
from embedbroker.testing._world import World
from tests.simulation.scenario.copy_view import copy_state_of, stream_of
from tests.simulation.scenario.modes import group_of
from tests.simulation.scenario.plan import PRIMARY, GroupMode, GroupPlan
from tests.simulation.scenario.replica_policy import ReplicaPolicy

from .fault_points import replace


class Stage:
    """A group without users."""

    def __init__(self, **policies: object) -> None:
        plan = GroupPlan(backups=1, mode=GroupMode.REPLICATION, **policies)  # type: ignore[arg-type]  # real fields
        self.world = World(1)
        self.scene = Scene(self.world, Ledger())
        self.network = Network(self.world)
        settings = JournalSettings(identity=7, segment_size_bytes=16 * 1024)
        self.group = group_of(self.scene, self.network, plan, BrokerConfig(name="broker"), settings)
        assert isinstance(self.group.policy, ReplicaPolicy)
        self.policy = self.group.policy
        self.members = self.group.members
        self.primary, self.backup = self.members.hosts[PRIMARY], self.members.hosts["backup1"]
        self.members.start()

    def until(self, condition: Callable[[], bool], within_s: float = 30.0) -> None:
        end = self.world.now + within_s
        while not condition():
            assert self.world.now <= end and self.world.step(), "it does not come to that"

    @property
    def live(self) -> str:
        active = self.members.active
        return active.name if active is not None and active.ready else ""


def test_a_group_is_in_order_when_its_backup_is_in_sync() -> None:
    stage = Stage()
    stage.until(lambda: stage.primary.ready)
    assert not stage.group.in_order and stage.group.twin is None
    stage.until(lambda: stage.group.in_order)
    stream = stream_of(stage.primary)
    assert stream is not None and stream.is_in_sync and stream.to == "backup1" and not stream.fails_back
    assert stage.scene.hits[Moment.BACKUP_IN_SYNC] == 1
    stage.until(lambda: stage.group.twin is stage.backup.disk)


def test_a_crash_makes_the_backup_live_and_the_primary_fails_back() -> None:
    stage = Stage()
    stage.until(lambda: stage.group.in_order)
    stage.primary.crash()
    stage.members.ended(stage.primary)
    stage.until(lambda: stage.live == "backup1")
    assert stage.scene.hits[Moment.FAILOVER] == 1 and stage.members.life == 2
    stage.primary.start()
    stage.until(lambda: stage.group.in_order)
    assert stage.live == PRIMARY and stage.scene.hits[Moment.FAILBACK] == 1


def test_without_failback_the_group_is_in_order_as_it_is() -> None:
    stage = Stage(allow_failback=False)
    stage.until(lambda: stage.group.in_order)
    stage.primary.crash()
    stage.members.ended(stage.primary)
    stage.until(lambda: stage.live == "backup1")
    stage.primary.start()
    stage.until(lambda: stage.group.in_order)
    assert stage.live == "backup1"


def test_whoever_was_replaced_while_it_was_frozen_ends_when_it_wakes_up() -> None:
    stage = Stage(lease_s=2.0)
    stage.until(lambda: stage.group.in_order)
    stage.primary.freeze()
    stage.until(lambda: stage.live == "backup1")
    assert stage.primary.superseded and stage.scene.hits[Moment.REPLACED_WHILE_FROZEN] == 1
    stage.primary.thaw()
    assert stage.primary.node is None


def test_a_lease_that_ends_with_its_process_stays_with_one_that_is_frozen() -> None:
    stage = Stage(lease_s=None)
    stage.until(lambda: stage.group.in_order)
    stage.primary.freeze()
    stage.world.run(stage.world.now + 20.0)
    assert stage.members.active is stage.primary
    stage.primary.thaw()
    stage.until(lambda: stage.group.in_order)
    assert stage.live == PRIMARY and stage.members.life == 1


def test_an_activation_that_another_one_still_has_is_found_when_something_is_confirmed_alone() -> None:
    stage = Stage()
    stage.until(lambda: stage.group.in_order)
    stage.backup.crash()
    stage.until(lambda: stage.scene.hits[Moment.WENT_ON_ALONE] == 1)
    standing = copy_state_of(stage.primary)
    assert standing is not None and standing.in_sync
    stage.policy.manager.sequences[standing.node_id] -= 1  # as if it had claimed none
    with pytest.raises(SimulationFailure, match="may still be live"):
        stage.backup.start()
        stage.until(lambda: stage.group.in_order)


def test_nobody_serving_for_long_is_found_when_somebody_could(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.until(lambda: stage.group.in_order)
    replace(
        monkeypatch,
        "request the lease",
        lambda self: self._stand_by(Event.NOT_ACCEPTED),
    )
    stage.primary.crash()
    stage.members.ended(stage.primary)
    with pytest.raises(SimulationFailure, match="nobody serves"):
        stage.world.run(stage.world.now + 60.0)
