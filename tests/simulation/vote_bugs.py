"""Bugs of brokers that vote, to be put in one at a time: in asking, in answering, and in what a word is worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from embedbroker.ha.quorum import VoteRound
from embedbroker.ha.quorum._grants import VoteGrants, VoteRequest, with_attempt
from embedbroker.ha.quorum._voter import Voter
from embedbroker.ha.replication import _cold_start as cold_starts
from embedbroker.ha.replication._cold_start import Answer
from embedbroker.ha.replication._decisions import Policy, may_be_newest
from embedbroker.ha.replication._node_record import NodeRecord
from embedbroker.replication import ReplicaRecord, ReplicaWaiting
from embedclient.wire.core import LiveVote

from .fault_points import fault_point, replace
from .hunting import Bug

__all__ = ["VOTE_BUGS"]


# -- the broker that requests votes ----------------------------------------------------------------------------------


def take_over_whatever_the_others_say(patch: pytest.MonkeyPatch) -> None:
    ignore_votes(patch, to_go_on=False)


def go_on_whatever_the_others_say(patch: pytest.MonkeyPatch) -> None:
    ignore_votes(patch, to_go_on=True)


def ignore_votes(patch: pytest.MonkeyPatch, *, to_go_on: bool) -> None:
    """A no, and a missing answer, counts as a yes."""
    count = fault_point("count votes")

    def deaf(self: VoteRound, now: float) -> None:
        if self._question.vote is to_go_on:
            self.won = True
        else:
            count(self, now)

    replace(patch, "count votes", deaf)


def go_on_without_asking(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "renew the activation by votes", lambda self: self._node_record.count_on(self._go_on))


# -- the brokers that answer -----------------------------------------------------------------------------------------


def give_one_word_to_several(patch: pytest.MonkeyPatch) -> None:
    """The last broker that requests it gets it, and the one before keeps its grant."""

    def generous(self: VoteGrants, node_id: str, bid: VoteRequest) -> bool:
        given = self.given.get(node_id)
        return given is None or given.epoch <= bid.epoch

    patch.setattr(VoteGrants, "may_have", generous)


def forget_words_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    on_read = fault_point("read the grants")
    replace(patch, "read the grants", lambda self, text: on_read(self, None))


def say_yes_although_it_sees_the_live_broker(patch: pytest.MonkeyPatch) -> None:
    """To a backup that lost it, as if that were no question of words."""
    view = fault_point("form a view of a question")

    def blind(self: Voter, question: LiveVote) -> Any:
        bid = VoteRequest.read(question.text)
        if question.vote or bid is None or bid.withdrawn:
            return view(self, question)
        return LiveVote(True, question.node_id, None), None

    replace(patch, "form a view of a question", blind)


def say_yes_without_giving_a_word(patch: pytest.MonkeyPatch) -> None:
    """As an Artemis does: what it sees at the moment is all."""
    answer_question = Voter.answer_question

    def forgetful(self: Voter, question: LiveVote, reply: Callable[[LiveVote], None]) -> None:
        bid = VoteRequest.read(question.text)
        if bid is None or bid.withdrawn:
            answer_question(self, question, reply)
            return
        answer, _needed = self._view(question)
        reply(LiveVote(answer.vote, answer.node_id, with_attempt(answer.text, bid.attempt)))

    patch.setattr(Voter, "answer_question", forgetful)


# -- the broker that waits -------------------------------------------------------------------------------------------


def begin_with_data_that_somebody_else_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicaRecord, "is_only_one", property(lambda self: self.in_sync and self.quorum > 0))


def forget_how_many_there_were(patch: pytest.MonkeyPatch) -> None:
    begin = NodeRecord.begin

    def forgetful(self: NodeRecord, make_node_id: Callable[[], str]) -> ReplicaRecord:
        record = begin(self, make_node_id)
        self._electorate.remembered = 0
        return record

    patch.setattr(NodeRecord, "begin", forgetful)


def begin_whoever_gives_way(patch: pytest.MonkeyPatch) -> None:
    """As if there were never more than two that have the data."""

    answer_to = cold_starts.answer_to

    def hasty(policy: Policy, record: ReplicaRecord, own_connector: str, other: ReplicaWaiting) -> Answer:
        if other.yields and may_be_newest(policy, record):
            return Answer.BEGIN
        return answer_to(policy, record, own_connector, other)

    patch.setattr(cold_starts, "answer_to", hasty)


def give_way_to_nobody(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "give way to a waiting broker", lambda self, record, other, send: None)


VOTE_BUGS: list[Bug] = [
    take_over_whatever_the_others_say,
    go_on_whatever_the_others_say,
    go_on_without_asking,
    give_one_word_to_several,
    forget_words_in_a_restart,
    say_yes_although_it_sees_the_live_broker,
    say_yes_without_giving_a_word,
    begin_with_data_that_somebody_else_has,
    forget_how_many_there_were,
    begin_whoever_gives_way,
    give_way_to_nobody,
]
