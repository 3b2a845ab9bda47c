"""What becomes of the votes that a broker requests from its cluster: which broker may go on, and which may take over.

Responsible for counting the moments of votes. Refuses to change anything, and to judge an outcome.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Protocol

from attrs import define

from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

__all__ = ["VoteWatch", "has_granted_votes", "is_voting"]


class _Question(Protocol):
    @property
    def vote(self) -> bool: ...


class _Ballot(Protocol):
    """The part of a broker's ballot that is looked at."""

    @property
    def won(self) -> bool | None: ...
    @property
    def summary(self) -> str: ...
    @property
    def _question(self) -> _Question: ...
    @property
    def _voters(self) -> Sized: ...
    @property
    def _answers(self) -> Sized: ...


def _ballot_of(host: NodeHost) -> _Ballot | None:
    found: _Ballot | None = getattr(host.node.activation, "vote_round", None) if host.node is not None else None
    return found


def is_voting(host: NodeHost) -> bool:
    """Whether others have been asked, and their answers decide."""
    vote_round = _ballot_of(host)
    return vote_round is not None and vote_round.won is None and len(vote_round._voters) > len(vote_round._answers)


def has_granted_votes(host: NodeHost) -> bool:
    """Whether there is anything on its disk that it promised to others."""
    return b"embedbroker" in host.disk.contents().get("votes.state", b"")


@define(eq=False)
class VoteWatch:
    """Of one broker. ``others`` is how many could be asked, were all of them there."""

    scene: Scene
    host: NodeHost
    others: int
    _vote_round: _Ballot | None = None
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

    def _on_round(self, vote_round: _Ballot) -> None:
        """One round is over."""
        self._result_text = vote_round.summary
        if len(vote_round._voters) < self.others or len(vote_round._answers) < len(vote_round._voters):
            self.scene.hit(Moment.VOTER_SILENT)
        if self._starts and not vote_round._voters:
            self.scene.hit(Moment.STARTED_CUT_OFF)
        if not vote_round.won:
            self.scene.hit(Moment.VOTE_LOST)
        elif vote_round._question.vote:
            self.scene.hit(Moment.WENT_ON_BY_VOTE)
        else:
            self.scene.hit(Moment.BEGAN_BY_VOTE if self._starts else Moment.TOOK_OVER_BY_VOTE)

    def _on_stopped(self, failure: str | None) -> None:
        self._vote_round = None
