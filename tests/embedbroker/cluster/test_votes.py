"""Votes among live brokers: the recorded ones, the answers, and what an asker makes of them."""

from __future__ import annotations

import json

import pytest
from attrs import frozen

from embedbroker.cluster import Bid, Member, Topology, Voter, connector_text, leads_to, votes_needed
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
from tests.vectors.captures import FOLDER

from .town import CREDENTIALS, Town, connector


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
    """What a broker knows that has seen these live."""
    topology = Topology()
    for number, name in enumerate(names, 1):
        topology.update(Member(name, number, place(name)))
    return topology


def stay(name: str, activation: int) -> LiveVote:
    """The question of a live broker that lost its backup."""
    return LiveVote(True, name, str(Bid(activation, connector_text(place(name)))))


def take_over(name: str, activation: int, by: str) -> LiveVote:
    """The question of a backup that lost its live broker."""
    return LiveVote(False, name, str(Bid(activation, connector_text(place(by)))))


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
    voter = Voter(town("c"))
    assert encode_vote(voter.answer(asked)) == answer.vote


def test_nobody_answered_for_35_seconds_and_was_asked_by_both_names_in_turn() -> None:
    handlers = [vote.packet.handler for vote in recorded() if vote.run == "replication-quorum-vote-unanswered"]
    assert handlers == [PRIMARY_VOTE_HANDLER, PRIMARY_VOTE_HANDLER, LIVE_VOTE_HANDLER, PRIMARY_VOTE_HANDLER]


@pytest.mark.parametrize(("size", "needed"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (5, 3), (6, 4)])
def test_how_many_votes_are_needed(size: int, needed: int) -> None:
    assert votes_needed(size) == needed


def test_artemis_is_answered_from_the_topology() -> None:
    voter = Voter(town("p", "q"))
    there = connector_text(place("p"))
    assert voter.answer(LiveVote(False, "p")) == LiveVote(False, "p", there)
    assert voter.answer(LiveVote(True, "p")) == LiveVote(True, "p", there)
    assert voter.answer(LiveVote(False, "x")) == LiveVote(True, "x", None)
    assert voter.answer(LiveVote(True, "x")) == LiveVote(False, "x", None)


def test_a_live_broker_that_was_told_to_go_on_is_not_replaced_by_the_backup_that_it_left_behind() -> None:
    topology = town("p", "q")
    voter = Voter(topology)
    assert voter.answer(stay("p", 4)).vote
    topology.drop("p", 10)
    assert not voter.answer(take_over("p", 4, by="b")).vote
    # A later backup was in sync with what came after.
    assert voter.answer(take_over("p", 5, by="b")).vote


def test_a_backup_that_was_told_to_take_over_is_the_only_one_even_when_its_primary_comes_back() -> None:
    topology = town("p", "q")
    voter = Voter(topology)
    assert not voter.answer(take_over("p", 4, by="b")).vote
    topology.drop("p", 10)
    assert voter.answer(take_over("p", 4, by="b")).vote
    assert voter.answer(take_over("p", 4, by="b")).vote
    assert not voter.answer(take_over("p", 4, by="c")).vote
    topology.update(Member("p", 20, place("p")))
    assert not voter.answer(stay("p", 4)).vote


def test_a_voter_that_has_not_known_the_live_broker_gives_no_word_for_it() -> None:
    assert not Voter(town("q")).answer(take_over("p", 4, by="b")).vote


def test_a_primary_that_starts_with_its_cluster_needs_not_be_known_but_no_word_is_broken_for_it() -> None:
    bid = Bid(4, connector_text(place("p")), starts=True)
    assert Voter(town("q")).answer(LiveVote(False, "p", str(bid))).vote
    topology = town("p", "q")
    voter = Voter(topology)
    topology.drop("p", 10)
    assert voter.answer(take_over("p", 4, by="b")).vote
    assert not voter.answer(LiveVote(False, "p", str(bid))).vote


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
    bid = Bid(7, connector_text(place("p")))
    assert Bid.read(str(bid)) == bid
    start = Bid.read(str(Bid(7, bid.asker, starts=True)))
    assert start is not None and start.starts and not bid.starts
    assert Bid.read(None) is None
    assert Bid.read(connector_text(place("p"))) is None


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
    told = [notice for notice in host.notices if "replication is between embedbrokers" in notice]
    assert len(told) == 1
