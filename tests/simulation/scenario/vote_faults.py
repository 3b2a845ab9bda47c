"""Faults of pairs that vote: those of the first pair's members, of the others, and of what is between all of them.

Responsible for when each strikes and for its end. Every fault heals by itself. Does not depend on messages, or on
what a broker should do about any of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, field

from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment

from .copy_faults import CopyFaults
from .copy_view import stream_of
from .crashes import Trap
from .fault_kinds import FaultKind
from .member_faults import MemberFaults
from .split_brain_checker import SplitBrainChecker
from .vote_policy import VotePolicy
from .vote_watch import has_granted_votes, is_voting

__all__ = ["VoteFaults"]

_OF_VOTERS = (FaultKind.CRASH_VOTER, FaultKind.STOP_VOTER, FaultKind.FREEZE_VOTER)
_NOT_SEEN = ("not enough of the cluster",)
_Ways = list[tuple[str, str]]


@define(eq=False)
class VoteFaults(CopyFaults):
    """The faults of one scenario of pairs."""

    policy: VotePolicy
    #: A crash does not wait longer for a copy or a vote that begins.
    patience_s: float = field(default=8.0, init=False)
    _copying: Trap = field(factory=Trap, init=False)
    _voting: Trap = field(factory=Trap, init=False)

    def __attrs_post_init__(self) -> None:
        self.scene, self.network = self.policy.scene, self.policy.network
        self.traps = {FaultKind.CRASH_WHILE_COPYING: self._copying, FaultKind.CRASH_WHILE_VOTING: self._voting}
        parts = self.scene, self.schedule, self.group
        self.members = MemberFaults(*parts, _NOT_SEEN, self._copied_to)
        for host in self.group.members.hosts.values():
            host.on_stopped.append(self._on_stopped)

    def _on_stopped(self, failure: str | None) -> None:
        if failure is not None and _NOT_SEEN[0] in failure:
            self.scene.hit(Moment.VOTE_LOST)

    def strike(self, kind: FaultKind) -> bool:
        """Strike with one fault; return False if it is not one of these."""
        match kind:
            case _ if kind in _OF_VOTERS:
                self._strike_voter(kind)
            case FaultKind.PART_MEMBERS | FaultKind.HOLD_MEMBERS_ONE_WAY:
                one, other = self._two()
                ways = [(one, other), (other, one)]
                self._hold(ways if kind is FaultKind.PART_MEMBERS else [self.scene.world.random.choice(ways)])
            case FaultKind.SPLIT_MEMBERS | FaultKind.CUT_OFF_MEMBER:
                self._split(self._side(alone=kind is FaultKind.CUT_OFF_MEMBER))
            case FaultKind.START_CUT_OFF:
                self._start_cut_off()
            case _:
                return CopyFaults.strike(self, kind)
        return True

    # Moments

    def look(self) -> None:
        """After each step of the live broker: crash if a backup gets its copy and a crash waits for that."""
        active = self.group.members.active
        if not self._copying.is_set or active is None:
            return
        stream = stream_of(active)
        if stream is not None and stream.is_copying and self.scene.chance(0.1):
            self._copying.spring()
            backup = self.group.members.hosts.get(stream.to)
            self.members.crash(active if backup is None or self.scene.chance(0.5) else backup)

    def look_at(self, host: NodeHost) -> None:
        """After each step: does it wait for votes, and a crash for that? Then either it dies or one that was asked."""
        if not self._voting.is_set or not is_voting(host) or not self.scene.chance(0.3):
            return
        self._voting.spring()
        self.scene.hit(Moment.CRASH_WHILE_VOTING)
        voter, plan = self._split_brain_checker().live, self.policy.plan
        asks = voter is None or plan.voters_ask or plan.quorum_size < 0 or self.scene.chance(0.4)
        self.members.crash(host if asks or voter is None else voter)

    # Other pairs

    def _split_brain_checker(self) -> SplitBrainChecker:
        """One of those that vote."""
        return self.scene.world.random.choice(self.policy.split_brain_checkers[1:])

    def _strike_voter(self, kind: FaultKind) -> None:
        split_brain_checker = self._split_brain_checker()
        live = split_brain_checker.live or split_brain_checker.hosts[0]
        match kind:
            case FaultKind.CRASH_VOTER:
                self._crash_voter(live)
            case FaultKind.STOP_VOTER:
                self.members.stop(live, fails_over=self.scene.chance(0.5))
            case _:
                self.members.freeze(live, (1.0, 4.0, 10.0))

    def _crash_voter(self, live: NodeHost) -> None:
        """Crash one voter; or part the active broker and its backup, and crash all voters behind their votes.

        Then the active broker dies. Its backup requests votes from voters that have just started: they must have
        kept their votes.
        """
        active, backup = self.group.members.active, self._copied_to()
        if active is None or backup is None or self.scene.chance(0.5):
            self._crash_voters(live)
            self.schedule.healed()
            return
        self._hold(self._around(active, [backup]), at_least_s=12.0)
        self.schedule.expect()
        crash_s = 3.0 + self.scene.world.random.random() * 3.0
        self.schedule.later(crash_s, lambda: self._crash_voters(live))
        self.schedule.expect()
        self.schedule.later(crash_s + 0.5 + self.scene.world.random.random(), lambda: self._crash_and_cut_off(active))

    def _crash_and_cut_off(self, host: NodeHost) -> None:
        """Crash a broker that starts without reaching any other."""
        self.members.crash(host)
        self.schedule.expect()
        self._hold(self._around(host, self.group.members.everybody), counts=True, at_least_s=8.0)

    def _around(self, host: NodeHost, others: Iterable[NodeHost]) -> _Ways:
        """Return the ways between a broker and others, in both directions."""
        names = [other.name for other in others if other is not host]
        return [way for name in names for way in ((host.name, name), (name, host.name))]

    def _crash_voters(self, live: NodeHost) -> None:
        """Crash one voter, or all at once if it has granted votes: an asker needs those of several."""
        checkers = self.policy.split_brain_checkers[1:]
        for voter in [checker.live for checker in checkers] if has_granted_votes(live) else [live]:
            if voter is not None:
                self.members.crash(voter)

    # Between members

    def _two(self) -> tuple[str, str]:
        """Rather the live broker of the users and its backup, or a member of the pair and a voter."""
        members, backup, random = self.group.members, self._copied_to(), self.scene.world.random
        if members.active is not None and backup is not None and self.scene.chance(0.6):
            return members.active.name, backup.name
        return random.choice(list(members.hosts)), random.choice(list(members.others))

    def _duration_s(self) -> float:
        random = self.scene.world.random
        return 0.01 + random.random() * random.choice((0.1, 1.0, 6.0, 6.0, 12.0))

    def _side(self, *, alone: bool) -> list[str]:
        """The hosts parted from the rest: one of the users' pair, perhaps with some other pairs, or one other pair."""
        random, plan = self.scene.world.random, self.policy.plan
        if alone and self.scene.chance(0.5):
            return list(random.choice(plan.voters))
        side = [random.choice(plan.names)]
        for pair in () if alone else plan.voters:
            side += pair if self.scene.chance(0.4) else ()
        return side

    def _split(self, side: Sequence[str]) -> None:
        """Two sides, which do not hear each other, or of which one does not hear the other."""
        everybody = [host.name for host in self.group.members.everybody]
        outwards = [(one, other) for one in side for other in everybody if other not in side]
        inwards = [(other, one) for one, other in outwards]
        both = outwards + inwards
        self._hold(self.scene.world.random.choice((both, both, both, outwards, inwards)), counts=True)

    def _start_cut_off(self) -> None:
        """Crash a member of a pair, all of its pair, or the cluster. That member then starts without reaching a broker.

        A broker that starts as primary searches for the others first, and it is the one that may begin by mistake. The
        cut lasts longer than that search.
        """
        random, members = self.scene.world.random, self.group.members
        pair = random.choice([checker.hosts for checker in self.policy.split_brain_checkers if len(checker.hosts) > 1])
        starting = pair[0] if self.scene.chance(0.8) else random.choice(pair)
        for host in random.choice(([starting], list(pair), members.everybody)):
            self.members.crash(host)
        self._hold(self._around(starting, members.everybody), counts=True, at_least_s=8.0)

    def _hold(self, ways: _Ways, *, counts: bool = False, at_least_s: float = 0.0) -> None:
        self.scene.hit(Moment.MEMBERS_PARTED)
        both_ways = all((other, one) in ways for one, other in ways)
        self.scene.hit(Moment.PARTED_BOTH_WAYS if both_ways else Moment.PARTED_ONE_WAY)
        lives = self._lives()
        for way in ways:
            self.network.hold(*way)
        self.schedule.later(at_least_s + self._duration_s(), lambda: self._release(ways, lives if counts else 0))

    def _lives(self) -> int:
        """How many of the first pair have served up to now."""
        return self.group.members.life

    def _release(self, ways: _Ways, lives: int) -> None:
        members = self.group.members
        serving = [host for host in members.hosts.values() if host.ready and not host.superseded]
        if 0 < lives < members.life and len(serving) == 1:
            self.scene.hit(Moment.ONE_SURVIVED_PARTITION)
        for way in ways:
            self.network.release(*way)
