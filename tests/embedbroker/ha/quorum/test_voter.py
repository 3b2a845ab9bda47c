"""Votes among live brokers: the recorded ones, the answers, and what an asker makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from attrs import frozen

from embedbroker.cluster import Member, Topology
from embedbroker.config import Role
from embedbroker.ha.quorum import DamagedGrants, VoteGrants, Voter, VoteRequest, connector_text, leads_to, votes_needed
from embedbroker.storage import AtomicFileOwner
from embedclient.errors import RemoteProtocolError
from embedclient.model import TransportConfiguration
from embedclient.wire.core import (
    LIVE_VOTE_HANDLER,
    PRIMARY_VOTE_HANDLER,
    BackupRegistration,
    BackupRegistrationFailed,
    LiveVote,
    QuorumVote,
    QuorumVoteReply,
    decode_packet,
    decode_vote,
    encode_packet,
    encode_vote,
)
from tests.embedbroker.cluster.town import CREDENTIALS, Town, connector
from tests.vectors.captures import FOLDER


@frozen
class Recorded:
    run: str
    packet: QuorumVote | QuorumVoteReply


def recorded() -> list[Recorded]:
    found = []
    for line in (FOLDER / "quorum-votes.jsonl").read_text().splitlines()[1:]:
        entry = json.loads(line)
        data = bytes.fromhex(entry["hex"])
        packet = decode_packet(data, 0, len(data), 136, True)
        assert isinstance(packet, QuorumVote | QuorumVoteReply)
        assert encode_packet(packet, entry["channel"], 136) == data
        found.append(Recorded(entry["run"], packet))
    return found


def place(name: str, port: int = 61616) -> TransportConfiguration:
    return TransportConfiguration(name, parameters={"host": f"{name}.example", "port": str(port)})


def town(*names: str) -> Topology:
    """The topology of a broker that has seen these live."""
    topology = Topology()
    for number, name in enumerate(names, 1):
        topology.update(Member(name, number, place(name)))
    return topology


class Shelf:
    """A store of votes: each request takes effect when `turn` is called, and survives its caller."""

    def __init__(self, text: bytes | None = None) -> None:
        self.text = text
        self.failure: str | None = None
        self.owner: AtomicFileOwner | None = None
        self.asked: list[Callable[[], None]] = []

    def read(self, then: Callable[[bytes | None], None]) -> None:
        self.asked.append(lambda: then(self.text))

    def replace(self, text: bytes, then: Callable[[], None]) -> None:
        def do() -> None:
            self.text = text
            then()

        self.asked.append(do)

    def turn(self) -> None:
        self.asked.pop(0)()

    def fail(self) -> None:
        self.asked.clear()
        self.failure = "the disk is full"
        assert self.owner is not None
        self.owner.on_failure()

    def forget_who_asked(self) -> None:
        """Its process was killed."""
        self.asked.clear()


class Booth:
    """A voter and its store, with everything that it logged."""

    def __init__(self, topology: Topology, shelf: Shelf | None = None) -> None:
        self.shelf = shelf or Shelf()
        self.is_live = True
        self.said: list[str] = []
        self.is_informed = True
        self.voter = Voter(topology, self.shelf, self, self.said.append)

    @property
    def role(self) -> Role:
        return Role.LIVE if self.is_live else Role.BACKUP

    def sees(self, member: Member) -> bool:
        return True

    def answer_question(self, question: LiveVote) -> list[LiveVote]:
        """The answer comes when the store has done what it has to."""
        answers: list[LiveVote] = []
        self.voter.answer_question(question, answers.append)
        return answers

    def answer(self, question: LiveVote) -> LiveVote:
        answers = self.answer_question(question)
        while not answers:
            self.shelf.turn()
        return answers[0]


def stay(name: str, activation: int, attempt: int = 0, *, withdrawn: bool = False) -> LiveVote:
    """The question of a live broker that lost its backup."""
    request = VoteRequest(activation, connector_text(place(name)), attempt=attempt, withdrawn=withdrawn)
    return LiveVote(True, name, str(request))


def take_over(name: str, activation: int, by: str, attempt: int = 0) -> LiveVote:
    """The question of a backup that lost its live broker."""
    return LiveVote(False, name, str(VoteRequest(activation, connector_text(place(by)), attempt=attempt)))


def test_recorded_votes_are_read_and_written_byte_for_byte() -> None:
    votes = recorded()
    assert len(votes) == 6
    for vote in votes:
        body = vote.packet.vote
        assert encode_vote(decode_vote(body)) == body
        for end in range(len(body)):
            with pytest.raises(RemoteProtocolError):
                decode_vote(body[:end])


def test_a_recorded_question_gets_the_recorded_answer() -> None:
    question, answer = [vote.packet for vote in recorded() if vote.run == "replication-quorum-vote"]
    asked = decode_vote(question.vote)
    assert (question.handler, asked.vote, asked.text) == (PRIMARY_VOTE_HANDLER, False, None)
    voter = Booth(town("c"))
    assert encode_vote(voter.answer(asked)) == answer.vote


def test_nobody_answered_for_35_seconds_and_was_asked_by_both_names_in_turn() -> None:
    handlers = [vote.packet.handler for vote in recorded() if vote.run == "replication-quorum-vote-unanswered"]
    assert handlers == [PRIMARY_VOTE_HANDLER, PRIMARY_VOTE_HANDLER, LIVE_VOTE_HANDLER, PRIMARY_VOTE_HANDLER]


@pytest.mark.parametrize(("size", "needed"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (5, 3), (6, 4)])
def test_how_many_votes_are_needed(size: int, needed: int) -> None:
    assert votes_needed(size) == needed


def test_artemis_is_answered_from_the_topology() -> None:
    voter = Booth(town("p", "q"))
    there = connector_text(place("p"))
    assert voter.answer(LiveVote(False, "p")) == LiveVote(False, "p", there)
    assert voter.answer(LiveVote(True, "p")) == LiveVote(True, "p", there)
    assert voter.answer(LiveVote(False, "x")) == LiveVote(True, "x", None)
    assert voter.answer(LiveVote(True, "x")) == LiveVote(False, "x", None)


def test_a_live_broker_that_was_told_to_go_on_is_not_replaced_by_the_backup_that_it_left_behind() -> None:
    topology = town("p", "q")
    voter = Booth(topology)
    assert voter.answer(stay("p", 4)).vote
    topology.drop("p", 10)
    assert not voter.answer(take_over("p", 4, by="b")).vote
    # A later backup was in sync with what came after.
    assert voter.answer(take_over("p", 5, by="b")).vote


def test_a_backup_that_was_told_to_take_over_is_the_only_one_even_when_its_primary_comes_back() -> None:
    topology = town("p", "q")
    voter = Booth(topology)
    assert not voter.answer(take_over("p", 4, by="b")).vote
    topology.drop("p", 10)
    assert voter.answer(take_over("p", 4, by="b")).vote
    assert voter.answer(take_over("p", 4, by="b")).vote
    assert not voter.answer(take_over("p", 4, by="c")).vote
    topology.update(Member("p", 20, place("p")))
    assert not voter.answer(stay("p", 4)).vote


def test_a_voter_that_has_just_begun_and_not_known_the_live_broker_gives_no_word_for_it() -> None:
    booth = Booth(town("q"))
    booth.is_informed = False
    assert not booth.answer(take_over("p", 4, by="b")).vote
    booth.is_informed = True
    assert booth.answer(take_over("p", 4, by="b")).vote


def test_a_primary_that_starts_with_its_cluster_needs_not_be_known_but_no_word_is_broken_for_it() -> None:
    request = VoteRequest(4, connector_text(place("p")), starts=True)
    assert Booth(town("q")).answer(LiveVote(False, "p", str(request))).vote
    topology = town("p", "q")
    voter = Booth(topology)
    topology.drop("p", 10)
    assert voter.answer(take_over("p", 4, by="b")).vote
    assert not voter.answer(LiveVote(False, "p", str(request))).vote


def test_a_word_is_kept_before_anybody_hears_of_it() -> None:
    topology = town("p", "q")
    booth = Booth(topology)
    answers = booth.answer_question(stay("p", 4))
    booth.shelf.turn()
    assert (answers, booth.shelf.text) == ([], None), "it has read that there is nothing"
    booth.shelf.turn()
    assert answers == [LiveVote(True, "p", connector_text(place("p")))] and booth.shelf.text is not None
    assert booth.answer(stay("p", 4)).vote and booth.shelf.asked == []


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_voter_that_is_killed_between_two_requests_does_not_give_its_word_twice(turns: int) -> None:
    """A broker without an answer requests again; one with an answer must be the only one."""
    topology = town("p", "q")
    booth = Booth(topology)
    answers = booth.answer_question(stay("p", 4))
    for _ in range(turns):
        booth.shelf.turn()
    booth.shelf.forget_who_asked()
    topology.drop("p", 10)
    again = Booth(topology, booth.shelf)
    other = again.answer(take_over("p", 4, by="b"))
    assert [answer.vote for answer in (*answers, other)].count(True) <= 1
    assert other.vote is (turns < 2)
    topology.update(Member("p", 20, place("p")))
    assert again.answer(stay("p", 4)).vote is (turns == 2)


def test_a_question_that_was_withdrawn_leaves_its_word_to_others_and_that_is_kept_as_well() -> None:
    topology = town("p", "q")
    booth = Booth(topology)
    assert booth.answer(stay("p", 4)).vote
    topology.drop("p", 10)
    assert not booth.answer(take_over("p", 4, by="b")).vote
    assert not booth.answer(stay("p", 4, withdrawn=True)).vote
    again = Booth(topology, booth.shelf)
    assert again.answer(take_over("p", 4, by="b")).vote
    assert not again.answer(stay("p", 4, withdrawn=True)).vote and again.shelf.asked == []
    assert not again.answer(take_over("p", 4, by="c")).vote


def test_what_was_withdrawn_before_takes_nothing_that_was_given_since() -> None:
    topology = town("p", "q")
    booth = Booth(topology)
    assert booth.answer(stay("p", 4, attempt=1)).vote and booth.answer(stay("p", 4, attempt=2)).vote
    assert booth.answer(stay("p", 4, attempt=1)).vote, "it comes late, and the word is this asker's"
    booth.answer(stay("p", 4, attempt=1, withdrawn=True))
    topology.drop("p", 10)
    assert not booth.answer(take_over("p", 4, by="b")).vote
    assert not Booth(topology, booth.shelf).answer(take_over("p", 4, by="b")).vote


def test_questions_wait_for_each_other_and_see_what_has_changed_meanwhile() -> None:
    topology = town("p", "q", "r")
    booth = Booth(topology)
    first, second = booth.answer_question(stay("p", 4)), booth.answer_question(stay("p", 4))
    third, artemis = booth.answer_question(stay("q", 1)), booth.answer_question(LiveVote(True, "q"))
    assert artemis == [LiveVote(True, "q", connector_text(place("q")))], "it takes no word"
    topology.drop("q", 10)
    booth.shelf.turn()
    booth.shelf.turn()
    assert [answers[0].vote for answers in (first, second, third)] == [True, True, False]
    assert booth.shelf.asked == []


def test_a_voter_gives_only_the_word_of_the_node_that_it_is_live_for() -> None:
    booth = Booth(town("p", "q"))
    booth.is_live = False
    assert not booth.answer(stay("p", 4)).vote
    booth.is_live = True
    answers = booth.answer_question(stay("p", 4))
    booth.shelf.turn()
    booth.is_live = False
    booth.shelf.turn()
    assert [answer.vote for answer in answers] == [False], "it has stopped meanwhile, and handed over"


def test_a_voter_without_a_disk_gives_no_word_and_says_so_once() -> None:
    said: list[str] = []
    voter = Voter(town("p"), None, Booth(town("p")), said.append)
    answers: list[LiveVote] = []
    for _ in range(2):
        voter.answer_question(stay("p", 4), answers.append)
    voter.answer_question(LiveVote(True, "p"), answers.append)
    assert [answer.vote for answer in answers] == [False, False, True]
    assert said == [
        "does not vote for other brokers of the cluster that want to be live: it has no data_directory, and could"
        " not keep a vote that it grants"
    ]


def test_a_voter_whose_disk_fails_gives_no_word_any_more() -> None:
    booth = Booth(town("p", "q"))
    answers = [booth.answer_question(stay("p", 4)), booth.answer_question(stay("q", 1))]
    booth.shelf.fail()
    assert [answer.vote for (answer,) in answers] == [False, False] and not booth.answer(stay("p", 4)).vote
    assert booth.said == ["does not vote for other brokers of the cluster that want to be live: the disk is full"]


@pytest.mark.parametrize("cut", [0, 1, -1, -10])
def test_words_that_are_damaged_are_not_taken_for_none(cut: int) -> None:
    booth = Booth(town("p", "q"))
    assert booth.answer(stay("p", 4)).vote
    assert booth.shelf.text is not None
    damaged = Booth(town("p", "q"), Shelf(booth.shelf.text[:cut]))
    assert not damaged.answer(stay("p", 4)).vote and not damaged.answer(stay("p", 4)).vote
    assert len(damaged.said) == 1 and "votes.state" in damaged.said[0] and "remove that file" in damaged.said[0]


def test_words_are_read_as_they_were_written_whatever_peers_call_themselves() -> None:
    words = VoteGrants()
    for number, name in enumerate(["p", "", "a b\tc\nwords: 3", "\\n", "żółw"]):
        words = words.with_grant(name, VoteRequest(number, f"{name}?host={name}", starts=number % 2 == 0))
    again = VoteGrants.read(words.text())
    assert again == words and [request.starts for request in again.given.values()] == [True, False, True, False, True]
    assert VoteGrants.read(VoteGrants().text()) == VoteGrants()
    for text in (b"", b"\n", b"words: 1\n", b"p\twords: 0\n", b"p\tnothing\nwords: 1\n", b"\\x\tq\nwords: 1\n"):
        with pytest.raises(DamagedGrants):
            VoteGrants.read(text)


def test_the_oldest_of_a_thousand_words_makes_room() -> None:
    words = VoteGrants()
    for number in range(1_001):
        words = words.with_grant(f"node {number}", VoteRequest(1, "b"))
    assert (
        len(words.given) == 1_000
        and not words.has("node 0", VoteRequest(1, "b"))
        and words.has("node 1", VoteRequest(1, "b"))
    )
    assert len(words.text()) < 1024 * 1024


def test_the_text_of_a_vote_is_what_artemis_writes_and_hides_passwords() -> None:
    there = TransportConfiguration("c", parameters={"port": "1", "host": "a.b", "keyStorePassword": "secret"})
    text = connector_text(there)
    assert text == (
        "TransportConfiguration(name=c, factory=org-apache-activemq-artemis-core-remoting-impl-netty-"
        "NettyConnectorFactory)?host=a-b&keyStorePassword=****&port=1"
    )
    assert leads_to(text, there)
    assert leads_to(text.replace("host=a-b", "x=y&host=a-b"), there)
    assert not leads_to(text.replace("a-b", "a-c"), there)
    assert not leads_to(text.replace("port=1", "port=2"), there)
    assert not leads_to(None, there)


def test_a_bid_travels_as_text_and_texts_of_others_are_none() -> None:
    request = VoteRequest(7, connector_text(place("p")), attempt=3)
    again = VoteRequest.read(str(request))
    assert again is not None and again == request and (again.attempt, again.withdrawn) == (3, False)
    start = VoteRequest.read(str(VoteRequest(7, request.asker, starts=True)))
    assert start is not None and start.starts and not request.starts
    assert VoteRequest.read(None) is None
    assert VoteRequest.read(connector_text(place("p"))) is None


def test_a_backup_of_another_make_is_refused_at_once_and_the_operator_told_once() -> None:
    brokers = Town()
    host = brokers.start("a")
    visitor = brokers.visit("a")
    registration = BackupRegistration("cluster", "secret", False, connector("b"))
    visitor.send(registration, 3)
    brokers.run(0.1)
    assert visitor.packets(BackupRegistrationFailed) == []
    visitor.send(CREDENTIALS, 3)
    for _ in range(2):
        visitor.send(registration, 3)
    brokers.run(0.1)
    assert visitor.packets(BackupRegistrationFailed) == [BackupRegistrationFailed(0)] * 2
    summary = [notice for notice in host.notices if "replication is between embedbrokers" in notice]
    assert len(summary) == 1
