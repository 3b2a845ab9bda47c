"""What becomes of the votes that a broker requests from its cluster: which broker may go on, and which may take over.

Responsible for counting the moments of votes. Refuses to change anything, and to judge an outcome.
"""

from __future__ import annotations

from attrs import define

from embedbroker.ha.quorum import VoteRound
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

__all__ = ["VoteWatch", "has_granted_votes", "is_voting"]


def _ballot_of(host: NodeHost) -> VoteRound | None:
    found: VoteRound | None = getattr(host.node.activation, "vote_round", None) if host.node is not None else None
    return found


def is_voting(host: NodeHost) -> bool:
    """Whether others have been asked, and their answers decide."""
    vote_round = _ballot_of(host)
    if vote_round is None or vote_round.won is not None:
        return False
    figures = vote_round.statistics()
    return figures.voters > figures.answers


def has_granted_votes(host: NodeHost) -> bool:
    """Whether there is anything on its disk that it promised to others."""
    return b"embedbroker" in host.disk.contents().get("votes.state", b"")


@define(eq=False)
class VoteWatch:
    """Of one broker. ``others`` is how many could be asked, were all of them there."""

    scene: Scene
    host: NodeHost
    others: int
    _vote_round: VoteRound | None = None
    _result_text: str = ""
    _starts: bool = False

    def watch(self) -> None:
        """Follows it from now on."""
        self.host.after_step.append(self._look)
        self.host.on_stopped.append(self._on_stopped)

    def _look(self) -> None:
        found, before = _ballot_of(self.host), self._vote_round
        if before is not None and before.summary != self._result_text:
            self._on_round(before)
        if found is before:
            return
        self._vote_round = found
        if found is not None:
            activation = self.host.node.activation if self.host.node is not None else None
            self._result_text, self._starts = found.summary, getattr(activation, "vote_is_for_start", False)
            self.scene.hit(Moment.VOTES_REQUESTED)

    def _on_round(self, vote_round: VoteRound) -> None:
        """One round is over."""
        self._result_text = vote_round.summary
        figures = vote_round.statistics()
        if figures.voters < self.others or figures.answers < figures.voters:
            self.scene.hit(Moment.VOTER_SILENT)
        if self._starts and not figures.voters:
            self.scene.hit(Moment.STARTED_CUT_OFF)
        if not vote_round.won:
            self.scene.hit(Moment.VOTE_LOST)
        elif figures.is_to_go_on:
            self.scene.hit(Moment.WENT_ON_BY_VOTE)
        else:
            self.scene.hit(Moment.BEGAN_BY_VOTE if self._starts else Moment.TOOK_OVER_BY_VOTE)

    def _on_stopped(self, failure: str | None) -> None:
        self._vote_round = None
