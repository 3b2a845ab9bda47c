"""A group of brokers: the primary that users work on, its backups, and what such a group promises in every mode.

Responsible for what the modes have in common: following the brokers, stopping the live one, outages, and whether all is
in order in the end. A `GroupPolicy` has what only one mode has. Does not depend on faults and users.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from attrs import define, field

from embedbroker.config import Role
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Scene

from .copy_view import stream_of
from .copy_watch import CopyWatch
from .members import Members, Span
from .plan import PRIMARY, GroupPlan

__all__ = ["Group", "GroupPolicy"]


@define(eq=False)
class GroupPolicy:
    """One mode of groups. `copies` is present where each broker has its own disk."""

    scene: Scene
    network: Network
    plan: GroupPlan
    members: Members
    copies: CopyWatch | None = field(default=None, init=False)

    def watch_all(self) -> None:
        """Follow the brokers, before the group does."""

    def watch(self, host: NodeHost) -> None:
        """Follow a member, after the group has begun to."""

    def watch_other(self, host: NodeHost) -> None:
        """Follow a broker of another pair."""

    def on_role(self, host: NodeHost, role: Role) -> None:
        """Tell the members that a host takes over, and check its right to."""
        raise AssertionError("each mode has rules for roles")

    def check(self, host: NodeHost) -> None:
        """Check a member after each of its steps."""

    def outages(self) -> Iterator[tuple[str, bool, float, str]]:
        """Give (name, whether it lasts, seconds that it may last, complaint) of each outage."""
        raise AssertionError("each mode has rules for outages")

    @property
    def all_run(self) -> bool:
        """True if every broker runs and sees the others."""
        return len(self.members.awake) == len(self.members.hosts)

    def on_stop(self, host: NodeHost, *, fails_over: bool) -> None:
        """Note an orderly stop of the live broker."""

    def set_full(self, host: NodeHost, full: bool) -> None:
        """Take the room on its disk from a host, or give it back."""
        host.full = full

    def check_losses(self) -> None:
        """Check what is left at the end. Nothing of the scenario changes."""


@define(eq=False)
class Group:
    """A primary and its backups, as the policy of their mode made them."""

    policy: GroupPolicy
    _spans: defaultdict[str, Span] = field(factory=lambda: defaultdict(Span), init=False)

    def __attrs_post_init__(self) -> None:
        policy, members = self.policy, self.members
        policy.watch_all()
        for host in members.hosts.values():
            self._watch(host)
            members.watch(host)
            policy.watch(host)
        for host in members.others.values():
            policy.watch_other(host)
            host.after_step.append(self._look_for_outage)
        if policy.copies is not None:
            members.after_step.append(policy.copies.look)

    def _watch(self, host: NodeHost) -> None:
        host.on_role.append(lambda role: self.policy.on_role(host, role))
        host.after_step.append(lambda: self.policy.check(host))
        host.after_step.append(self._look_for_outage)

    @property
    def members(self) -> Members:
        return self.policy.members

    @property
    def twin(self) -> SimulatedDisk | None:
        """The disk of a backup that has everything the live broker has."""
        return None if self.policy.copies is None else self.policy.copies.twin

    @property
    def on_in_sync(self) -> list[Callable[[], None]]:
        """Called when a backup is in sync; never, where there are no copies."""
        return [] if self.policy.copies is None else self.policy.copies.on_in_sync

    @property
    def in_order(self) -> bool:
        """True if all run, a backup is in sync where there are copies, and the roles are what the plan requires."""
        members, to = self.members, PRIMARY
        if not self.policy.all_run or not members.ready or members.active is None:
            return False
        if self.policy.copies is not None:
            stream = stream_of(members.active)
            if stream is None or not stream.is_in_sync:
                return False
            to = stream.to
        # A live broker has one backup. If another one came first, the primary waits.
        return members.primary.ready or not self.policy.plan.allow_failback or to != PRIMARY

    def stop(self, *, fails_over: bool) -> None:
        """Stop the live broker in order."""
        active = self.members.active
        assert active is not None, "only a live broker is stopped"
        self.policy.on_stop(active, fails_over=fails_over)
        active.stop(fails_over=fails_over)

    def set_full(self, host: NodeHost, full: bool) -> None:
        """Take the room from a host, or give it back."""
        self.policy.set_full(host, full)

    def disturbed(self) -> None:
        """Give each outage its time again: something came from outside."""
        for span in self._spans.values():
            span.begin_anew()

    def _look_for_outage(self) -> None:
        now = self.policy.scene.world.now
        for name, lasts, limit_s, complaint in self.policy.outages():
            if self._spans[name].lasts_s(now, lasts) > limit_s:
                self.policy.scene.fail(complaint)
