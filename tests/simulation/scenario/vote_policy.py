"""Pairs that vote: each broker has its own disk, and the live brokers of the other pairs decide which of a pair may be
live.

Users work on the first pair; the others are pairs of the same kind, or live brokers that only answer. Responsible for
what such a cluster promises. A live broker has everything that was ever confirmed, and no two of a pair confirm one
without the other. Every pair of which all run and see each other has a live broker before long. Does not depend on
faults and users.

A broker that was replaced learns of it when the others do not see it: until then it is live, and confirms nothing. Its
clients lose it when it is replaced. (What it could send them is no more than what they had, but its time is unknown.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, evolve

from embedbroker.config import BrokerConfig, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.storage import JournalSettings
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

from .clustered import clustered
from .copy_watch import CopyWatch
from .group import GroupPolicy
from .members import Members
from .plan import PRIMARY, GroupPlan
from .split_brain_checker import SplitBrainChecker
from .vote_watch import VoteWatch, has_granted_votes

__all__ = ["VotePolicy"]

#: How long a pair may be without a live broker although nothing is wrong any more: a primary looks for its substitute,
#: lost links are found, voters are asked one round after the other, and what was lost last is asked for again.
OUTAGE_S_MAX = 40.0


def _policy(plan: GroupPlan, name: str, group_name: str) -> ReplicationPrimary | ReplicationBackup:
    if group_name != PRIMARY and not plan.voters_ask:
        return ReplicationPrimary(group_name=group_name)
    if name == group_name:
        return ReplicationPrimary(
            group_name=group_name,
            check_for_active_server=True,
            vote_on_replication_failure=True,
            quorum_size=plan.quorum_size,
            vote_retries=plan.vote_retries,
            vote_retry_wait_ms=plan.vote_retry_ms,
            retry_replication_wait_ms=plan.retry_ms,
        )
    return ReplicationBackup(
        group_name=group_name,
        allow_failback=plan.allow_failback,
        restart_backup=plan.restart_backups,
        vote_on_replication_failure=True,
        quorum_size=plan.quorum_size,
        vote_retries=plan.vote_retries,
        vote_retry_wait_ms=plan.vote_retry_ms,
        retry_replication_wait_ms=plan.retry_ms,
    )


@define(eq=False)
class VotePolicy(GroupPolicy):
    """Of all pairs. `split_brain_checkers` are in the order of the pairs, the first one that of the users."""

    split_brain_checkers: Sequence[SplitBrainChecker]

    def __attrs_post_init__(self) -> None:
        self.copies = CopyWatch(self.scene, self.members, lambda host: None)

    @classmethod
    def of(
        cls, scene: Scene, network: Network, plan: GroupPlan, config: BrokerConfig, settings: JournalSettings
    ) -> VotePolicy:
        pairs = [plan.names, *plan.voters]
        names = [name for pair in pairs for name in pair]
        hosts: dict[str, NodeHost] = {}
        for number, (name, group_name) in enumerate((name, pair[0]) for pair in pairs for name in pair):
            own = clustered(config, _policy(plan, name, group_name), name, names)
            journal = evolve(settings, identity=settings.identity + number)
            hosts[name] = NodeHost(network, own, SimulatedDisk(), journal)
        first = {name: hosts[name] for name in plan.names}
        others = {name: host for name, host in hosts.items() if name not in first}
        members = Members(scene, config, settings, first, others=others)
        return cls(
            scene, network, plan, members, [SplitBrainChecker(scene, [hosts[name] for name in pair]) for pair in pairs]
        )

    def watch_all(self) -> None:
        for split_brain_checker in self.split_brain_checkers:
            split_brain_checker.watch()
        self.network.refuses = self._refuses

    def watch(self, host: NodeHost) -> None:
        VoteWatch(self.scene, host, len(self.split_brain_checkers) - 1).watch()

    def watch_other(self, host: NodeHost) -> None:
        host.on_ready.append(lambda: self._on_voter(host))

    def _on_voter(self, host: NodeHost) -> None:
        if has_granted_votes(host):
            self.scene.hit(Moment.VOTER_RESTARTED)

    # Which broker is live

    def on_role(self, host: NodeHost, role: Role) -> None:
        if role is not Role.ACTIVATING:
            return
        members, before = self.members, self.members.active
        members.take_over(host, may_stop=True, unnoticed=True)
        if before is not None and before is not host and before.superseded:
            for link in [link for link in self.network.links if before in (link.near, link.far)]:
                peer = link.far if link.near is before else link.near
                if not members.has(peer.name):
                    link.vanish(before, "connection reset")

    def _refuses(self, dialer: str, listener: str) -> bool:
        """Whether nothing listens: one of a pair does when it serves, or waits with data that may be the newest, and
        clients have lost a broker that was replaced."""
        members = self.members
        host = members.hosts.get(listener) or members.others.get(listener)
        if host is None:
            return False
        listens = host.ready or host.lets_brokers_in
        return not listens or (host.superseded and not members.has(dialer))

    # Whether a broker serves

    @property
    def all_run(self) -> bool:
        return self._everybody_runs and all(checker.live for checker in self.split_brain_checkers)

    @property
    def _everybody_runs(self) -> bool:
        return all(host.node is not None and not host.frozen and not host.stopping for host in self.members.everybody)

    @property
    def are_parted(self) -> bool:
        """Whether the network keeps something from one broker to another one."""
        held, has = self.network.held, self.members.has
        return any(has(sender) and has(receiver) for sender, receiver in held)

    def outages(self) -> Iterator[tuple[str, bool, float, str]]:
        full = any(host.full for host in self.members.everybody)
        is_well = self._everybody_runs and not full and not self.are_parted
        for checker in self.split_brain_checkers:
            names = " or ".join([host.name for host in checker.hosts])
            complaint = f"neither {names} is live for {OUTAGE_S_MAX} s, although all brokers see each other"
            yield checker.hosts[0].name, is_well and checker.live is None, OUTAGE_S_MAX, complaint
