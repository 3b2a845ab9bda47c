"""Pairs that vote: each broker has a disk of its own, and the live brokers of the other pairs say who of a pair may be
live.

Users work on the first pair; the others are pairs of the same kind, or live brokers that only answer. Responsible for
what such a cluster promises: whoever is live has everything that was ever confirmed, no two of a pair confirm one
without the other, and every pair of which all run and see each other has a live broker before long. Refuses to know
faults and users.

A broker that was replaced learns of it when the others do not see it: until then it is live, and confirms nothing. Its
clients lose it when it is replaced. (What it could tell them is no more than what they knew, but nobody can say when.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, evolve, field

from embedbroker.config import BrokerConfig, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.storage import JournalSettings
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

from .clustered import clustered
from .copy_view import stream_of
from .copy_watch import CopyWatch
from .members import Members, Span
from .plan import PRIMARY, GroupPlan
from .split_brain_checker import SplitBrainChecker
from .vote_watch import VoteWatch, has_granted_votes

__all__ = ["VoteGroup"]

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
class VoteGroup:
    """All pairs. ``split_brain_checkers`` are in the order of the pairs, the first one that of the users."""

    scene: Scene
    network: Network
    plan: GroupPlan
    members: Members
    split_brain_checkers: Sequence[SplitBrainChecker]
    _lives: dict[str, Span] = field(factory=dict, init=False)
    _copies: CopyWatch = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._copies = CopyWatch(self.scene, self.members, lambda host: None)
        self._lives = {split_brain_checker.hosts[0].name: Span() for split_brain_checker in self.split_brain_checkers}

    @classmethod
    def of(
        cls, scene: Scene, network: Network, plan: GroupPlan, config: BrokerConfig, settings: JournalSettings
    ) -> VoteGroup:
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
        split_brain_checkers = [SplitBrainChecker(scene, [hosts[name] for name in pair]) for pair in pairs]
        group = cls(scene, network, plan, members, split_brain_checkers)
        group._watch_all()
        return group

    def _watch_all(self) -> None:
        members, network = self.members, self.network
        for split_brain_checker in self.split_brain_checkers:
            split_brain_checker.watch()
        for host in members.hosts.values():
            self._watch(host)
            members.watch(host)
            VoteWatch(self.scene, host, len(self.split_brain_checkers) - 1).watch()
        for host in members.others.values():
            self._watch_voter(host)
        for host in members.everybody:
            host.after_step.append(self._look_for_outage)
        members.after_step.append(self._copies.look)
        network.refuses = self._refuses

    def _watch(self, host: NodeHost) -> None:
        host.on_role.append(lambda role: self._on_role(host, role))

    def _watch_voter(self, host: NodeHost) -> None:
        host.on_ready.append(lambda: self._on_voter(host))

    def _on_voter(self, host: NodeHost) -> None:
        if has_granted_votes(host):
            self.scene.hit(Moment.VOTER_RESTARTED)

    @property
    def on_in_sync(self) -> list[Callable[[], None]]:
        """Called when a backup of the first pair is in sync."""
        return self._copies.on_in_sync

    @property
    def twin(self) -> SimulatedDisk | None:
        """The disk of a backup that has everything the live broker of the first pair has."""
        return self._copies.twin

    @property
    def in_order(self) -> bool:
        """Whether everybody runs, each pair has a live broker, and the first one what its policies say."""
        members = self.members
        if not self._all_run or not all(split_brain_checker.live for split_brain_checker in self.split_brain_checkers):
            return False
        stream = stream_of(members.active) if members.active is not None and members.ready else None
        if stream is None or not stream.is_in_sync:
            return False
        return members.primary.ready or not self.plan.allow_failback or stream.to != PRIMARY

    def set_full(self, host: NodeHost, full: bool) -> None:
        """Whether there is room for a host on its disk."""
        host.full = full

    # Who is live

    def stop(self, *, fails_over: bool) -> None:
        """An orderly stop of who is live."""
        assert self.members.active is not None, "only who is live is stopped"
        self.members.active.stop(fails_over=fails_over)

    def disturbed(self) -> None:
        """Something happened to it from outside: it has its time again."""
        for span in self._lives.values():
            span.begin_anew()

    def _on_role(self, host: NodeHost, role: Role) -> None:
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
        clients have lost whoever was replaced."""
        members = self.members
        host = members.hosts.get(listener) or members.others.get(listener)
        if host is None:
            return False
        listens = host.ready or host.lets_brokers_in
        return not listens or (host.superseded and not members.has(dialer))

    # Whether somebody serves

    @property
    def _all_run(self) -> bool:
        return all(host.node is not None and not host.frozen and not host.stopping for host in self.members.everybody)

    @property
    def are_parted(self) -> bool:
        """Whether the network keeps something from one broker to another one."""
        held, has = self.network.held, self.members.has
        return any(has(sender) and has(receiver) for sender, receiver in held)

    def _look_for_outage(self) -> None:
        now, members = self.scene.world.now, self.members
        full = any(host.full for host in members.everybody)
        is_well = self._all_run and not full and not self.are_parted
        for split_brain_checker in self.split_brain_checkers:
            name = split_brain_checker.hosts[0].name
            if self._lives[name].lasts_s(now, is_well and split_brain_checker.live is None) > OUTAGE_S_MAX:
                names = " or ".join(host.name for host in split_brain_checker.hosts)
                self.scene.fail(f"neither {names} is live for {OUTAGE_S_MAX} s, although all brokers see each other")
