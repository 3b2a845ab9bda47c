"""The modes of groups: the policy of each, and its faults."""

from __future__ import annotations

from collections.abc import Mapping

from embedbroker.config import BrokerConfig
from embedbroker.storage import JournalSettings
from embedbroker.testing._network import Network
from embedbroker.testing._scene import Scene

from .fault_schedule import FaultSchedule
from .group import Group, GroupPolicy
from .group_faults import OwnFaults
from .plan import GroupMode, GroupPlan
from .replica_faults import ReplicaFaults
from .replica_policy import ReplicaPolicy
from .store_faults import StoreFaults
from .store_policy import StorePolicy
from .vote_faults import VoteFaults
from .vote_policy import VotePolicy

__all__ = ["faults_of", "group_of"]

_POLICIES: Mapping[GroupMode, type[StorePolicy] | type[ReplicaPolicy] | type[VotePolicy]] = {
    GroupMode.SHARED_STORE: StorePolicy,
    GroupMode.REPLICATION: ReplicaPolicy,
    GroupMode.VOTES: VotePolicy,
}


def group_of(scene: Scene, network: Network, plan: GroupPlan, config: BrokerConfig, settings: JournalSettings) -> Group:
    """Return a group of the mode that its plan names; its brokers have not started."""
    return Group(_POLICIES[plan.mode].of(scene, network, plan, config, settings))


def faults_of(group: Group, schedule: FaultSchedule) -> OwnFaults:
    """Return the faults that only the mode of a group has."""
    policy: GroupPolicy = group.policy
    if isinstance(policy, StorePolicy):
        return StoreFaults(group, policy, schedule)
    if isinstance(policy, ReplicaPolicy):
        return ReplicaFaults(group, schedule, policy)
    assert isinstance(policy, VotePolicy)
    return VoteFaults(group, schedule, policy)
