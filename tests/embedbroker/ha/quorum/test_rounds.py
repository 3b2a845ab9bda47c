"""Ballots that are lost: what an asker takes back, what a voter makes of it, and answers that come too late."""

from __future__ import annotations

from typing import cast

from embedbroker.cluster import ControlLink, Member, Membership, Topology
from embedbroker.ha.quorum import VoteRequest, VoteRound, connector_text
from embedclient.model import Instant
from embedclient.wire.core import LiveVote, QuorumVote, QuorumVoteReply, decode_vote, encode_vote
from tests.embedbroker.ha.quorum.test_voter import Booth, place, town

LOOKS_FOR_S = 5.0

# -- a voter -------------------------------------------------------------------------------------------------------


def question(activation: int, by: str, vote_round: int, *, withdrawn: bool = False) -> LiveVote:
    """A backup wants to take over from "p", or does so no more."""
    return LiveVote(
        False, "p", str(VoteRequest(activation, connector_text(place(by)), withdrawn=withdrawn, attempt=vote_round))
    )


def booth() -> Booth:
    """A voter that has seen that "p" is not live any more."""
    topology = town("p", "q")
    topology.drop("p", 10)
    return Booth(topology)


def withdraw(voter: Booth, activation: int, by: str, vote_round: int) -> None:
    assert not voter.answer(question(activation, by, vote_round, withdrawn=True)).vote


def test_a_word_that_was_given_back_is_free_for_that_activation_and_not_for_an_earlier_one() -> None:
    voter = booth()
    assert voter.answer(question(4, "b", 1)).vote and not voter.answer(question(4, "c", 2)).vote
    withdraw(voter, 4, "b", 1)
    assert not voter.answer(question(3, "c", 3)).vote
    assert voter.answer(question(4, "c", 4)).vote and not voter.answer(question(4, "b", 5)).vote


def test_a_word_that_was_given_back_is_so_after_a_restart() -> None:
    voter = booth()
    assert voter.answer(question(4, "b", 1)).vote
    withdraw(voter, 4, "b", 1)
    again = booth()
    again.shelf.text = voter.shelf.text
    assert not again.answer(question(3, "c", 2)).vote and again.answer(question(4, "c", 3)).vote


def test_a_withdrawal_that_comes_late_does_not_take_the_word_of_a_later_ballot() -> None:
    """1. b votes, and loses. 2. Its withdrawal is held up in a connection it gives up. 3. b votes again, and wins."""
    voter = booth()
    assert voter.answer(question(4, "b", 1)).vote and voter.answer(question(4, "b", 2)).vote
    withdraw(voter, 4, "b", 1)
    assert not voter.answer(question(4, "c", 3)).vote
    again = booth()
    again.shelf.text = voter.shelf.text
    withdraw(again, 4, "b", 1)
    assert not again.answer(question(4, "c", 3)).vote


def test_a_question_that_comes_late_does_not_make_a_late_withdrawal_of_it_good() -> None:
    voter = booth()
    assert voter.answer(question(4, "b", 2)).vote and voter.answer(question(4, "b", 1)).vote
    withdraw(voter, 4, "b", 1)
    assert not voter.answer(question(4, "c", 3)).vote


def test_nobody_withdraws_for_others_and_who_has_no_word_withdraws_nothing() -> None:
    voter = booth()
    withdraw(voter, 4, "b", 1)
    assert voter.shelf.text is None
    assert voter.answer(question(4, "b", 1)).vote
    for activation, by in ((4, "c"), (3, "b"), (5, "b")):
        withdraw(voter, activation, by, 1)
    assert not voter.answer(question(4, "c", 2)).vote and not voter.answer(question(3, "b", 2)).vote


def test_a_withdrawal_behind_a_question_that_waits_for_the_disk_is_done_after_it() -> None:
    voter = booth()
    answers = voter.answer_question(question(4, "b", 1))
    voter.answer_question(question(4, "b", 1, withdrawn=True))
    others = voter.answer_question(question(4, "c", 2))
    while voter.shelf.asked:
        voter.shelf.turn()
    assert [answer.vote for answer in (*answers, *others)] == [True, True]
    assert not voter.answer(question(4, "b", 3)).vote


def test_an_answer_says_which_ballot_it_is_for_and_none_to_a_question_of_artemis() -> None:
    voter = booth()
    assert voter.answer(question(4, "b", 17)) == LiveVote(True, "p", "embedbroker attempt=17 ")
    there = connector_text(place("q"))
    stay = LiveVote(True, "q", str(VoteRequest(4, there, attempt=18)))
    assert voter.answer(stay) == LiveVote(True, "q", f"embedbroker attempt=18 {there}")
    assert voter.answer(LiveVote(True, "q")) == LiveVote(True, "q", there)


def test_who_is_told_to_be_somewhere_else_gets_no_yes() -> None:
    voter = Booth(town("p", "q"))
    elsewhere = LiveVote(True, "q", str(VoteRequest(4, connector_text(place("other")))))
    assert voter.answer(elsewhere) == LiveVote(False, "q", connector_text(place("q")))


# -- an asker ------------------------------------------------------------------------------------------------------


class Peer:
    """The link to a voter."""

    peer_version = 136

    def __init__(self) -> None:
        self.asked: list[LiveVote] = []

    def send(self, packet: object, channel: int) -> None:
        assert isinstance(packet, QuorumVote) and channel == 3
        self.asked.append(decode_vote(packet.vote))

    def bids(self) -> list[VoteRequest]:
        found = [VoteRequest.read(vote.text) for vote in self.asked]
        return [request for request in found if request is not None]


class Others:
    """The membership of broker "self" beside three others."""

    node_id = "self"

    def __init__(self) -> None:
        self.now = Instant(0.0, 1_000)
        self.topology = Topology()
        self.peers = {name: Peer() for name in "abc"}
        for name in self.peers:
            self.topology.update(Member(name, 1, place(name)))

    def link_to(self, connector: object) -> Peer | None:
        return next((peer for name, peer in self.peers.items() if place(name) == connector), None)


class Asker:
    """Of two rounds, a second apart, in a cluster of four: three have to say yes. ``insists_for_s``: of one."""

    def __init__(self, insists_for_s: float = 0.0) -> None:
        self.others = Others()
        asked = LiveVote(False, "p", str(VoteRequest(4, "self")))
        membership = cast(Membership, self.others)
        rounds = 1 if insists_for_s else 2
        self.vote_round = VoteRound(membership, asked, 4, rounds, 30.0, 1.0, lambda answer: answer.vote)
        self.vote_round.begin(0.0, 0.0, LOOKS_FOR_S if insists_for_s else 0.0, insists_for_s)
        self.go_on(0.0)

    def won(self) -> bool | None:
        return self.vote_round.won

    def go_on(self, now: float) -> None:
        self.others.now = Instant(now, 1_000 + int(now * 1_000))
        self.vote_round.on_time(now)

    def pass_time(self, until: float) -> None:
        """Whatever is due in its turn."""
        due = self.vote_round.next_deadline()
        while due is not None and due <= until:
            self.go_on(due)
            due = self.vote_round.next_deadline()

    def hears(self, voter: str, yes: bool, number: int) -> None:
        text = f"embedbroker attempt={number} " if number else None
        reply = QuorumVoteReply("handler", encode_vote(LiveVote(yes, "p", text)))
        self.vote_round.on_reply(cast(ControlLink, self.others.peers[voter]), reply, self.others.now.monotonic)

    def number(self) -> int:
        """Of the ballot that "a" was asked in last."""
        return [request for request in self.others.peers["a"].bids() if not request.withdrawn][-1].attempt


def test_a_lost_round_is_withdrawn_where_the_word_may_have_been_given() -> None:
    asker = Asker()
    number = asker.number()
    asker.hears("a", True, number)
    asker.hears("b", False, number)
    assert [[request.withdrawn for request in asker.others.peers[name].bids()] for name in "abc"] == [
        [False, True],
        [False],
        [False, True],
    ]
    assert asker.others.peers["a"].bids()[-1].attempt == number


def test_an_artemis_that_said_yes_is_not_asked_again_by_a_withdrawal() -> None:
    asker = Asker()
    asker.hears("a", True, 0)
    asker.hears("b", False, asker.number())
    asker.hears("c", False, asker.number())
    assert [request.withdrawn for request in asker.others.peers["a"].bids()] == [False]


def test_a_late_answer_to_an_earlier_round_does_not_count() -> None:
    """The vote that it names was given back."""
    asker = Asker()
    first = asker.number()
    asker.hears("b", False, first)
    asker.go_on(1.0)
    second = asker.number()
    assert second != first
    for name in "abc":
        asker.hears(name, True, first)
    assert asker.won() is None
    for name in "abc":
        asker.hears(name, True, second)
    assert asker.won() is True
    assert not asker.others.peers["a"].bids()[-1].withdrawn


def test_a_vote_that_is_won_but_of_no_use_is_withdrawn() -> None:
    asker = Asker()
    for name in "abc":
        asker.hears(name, True, asker.number())
    assert asker.won() is True
    asker.vote_round.withdraw()
    assert all(asker.others.peers[name].bids()[-1].withdrawn for name in "abc")
    assert asker.vote_round.next_deadline() is None


def test_rounds_of_one_moment_are_different_ballots() -> None:
    asker = Asker()
    first = asker.number()
    asker.hears("b", False, first)
    asker.others.now = Instant(1.0, 1_000)
    asker.vote_round.on_time(1.0)
    assert asker.number() == first + 1


# -- an asker that insists -----------------------------------------------------------------------------------------


def test_silence_is_asked_again_until_it_says_yes() -> None:
    asker = Asker(insists_for_s=60.0)
    for name in "ab":
        asker.hears(name, True, asker.number())
    asker.pass_time(41.5)
    assert asker.won() is None
    assert [request.withdrawn for request in asker.others.peers["c"].bids()[-4:]] == [False, True, False, False]
    for name in "abc":
        asker.hears(name, True, asker.number())
    assert asker.won() is True


def test_a_word_of_an_earlier_round_does_not_count_beside_those_of_a_later_one() -> None:
    """It was given back, and another asker may have it."""
    asker = Asker(insists_for_s=60.0)
    first = asker.number()
    for name in "ab":
        asker.hears(name, True, first)
    asker.pass_time(2.5)
    for name in "ab":
        asker.hears(name, True, asker.number())
    asker.hears("c", True, first)
    assert asker.won() is None


def test_who_insists_hears_a_no() -> None:
    asker = Asker(insists_for_s=60.0)
    asker.pass_time(10.5)
    asker.hears("b", False, asker.number())
    assert asker.won() is False and asker.vote_round.next_deadline() is None
    assert all(asker.others.peers[name].bids()[-1].withdrawn for name in "ac")


def test_nobody_insists_for_ever() -> None:
    asker = Asker(insists_for_s=60.0)
    asker.pass_time(59.0)
    assert asker.won() is None
    asker.pass_time(63.0)
    assert asker.won() is False and asker.others.peers["a"].bids()[-1].withdrawn


def test_who_insists_gives_up_when_too_few_are_left_to_be_asked_and_do_not_come_back() -> None:
    asker = Asker(insists_for_s=60.0)
    asker.pass_time(30.5)
    lost = asker.others.peers.pop("c")
    asker.pass_time(30.5 + LOOKS_FOR_S - 1.0)
    asker.others.peers["c"] = lost
    asker.pass_time(40.5)
    assert asker.won() is None
    del asker.others.peers["c"]
    asker.pass_time(40.5 + 2.0 + LOOKS_FOR_S + 0.5)
    assert asker.won() is False
