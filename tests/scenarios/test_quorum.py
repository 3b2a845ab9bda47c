"""2.7: the others of a cluster decide which broker of a pair is live."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from attrs import evolve

from embedbroker import ReplicationBackup, ReplicationPrimary, Role
from embedbroker.cluster import ControlLink, Member, Membership, Topology
from embedbroker.config import ClusterConnection
from embedbroker.ha.quorum import Electorate, VoteRequest, VoteRound, connector_text
from embedbroker.ha.quorum._vote_requests import round_to_go_on
from embedclient.model import Instant, TransportConfiguration
from embedclient.wire.core import LiveVote, QuorumVoteReply, encode_vote
from tests.embedbroker.configfile.config_files import load
from tests.embedbroker.ha.replication.replicating import Brokers, goes_on
from tests.embedbroker.ha.replication.test_replicating_rights import VOTING_BACKUP, VOTING_PRIMARY

PAIRS = (("p", "q"), ("r", "s"), ("t", "u"))

# -- several pairs -------------------------------------------------------------------------------------------------


def three_voting_pairs() -> Brokers:
    """All of them in sync."""
    brokers = Brokers("pqrstu")
    for primary, backup in PAIRS:
        brokers.primary(primary, evolve(VOTING_PRIMARY, group_name=primary))
        brokers.backup(backup, evolve(VOTING_BACKUP, group_name=primary))
    for primary, _backup in PAIRS:
        brokers.until_in_sync(primary)
    brokers.run(3.0)
    return brokers


def test_quorum_voting() -> None:
    """2.7.1

    Given three replicating pairs, when one primary fails, then its backup takes over by vote; when the next one fails,
    its backup does, and the broker that took over before is asked, too.
    """
    brokers = three_voting_pairs()
    for primary, backup in PAIRS[:2]:
        brokers.crash(primary)
        assert brokers.until_role(backup, Role.LIVE) < 1.0
        assert "may take over: 2 of 2 votes that are needed" in brokers.said(backup)
        brokers.run(3.0)
    assert [name for name, role in brokers.roles.items() if role == "live"] == ["q", "s", "t"]


def test_primary_vote_succeeds_after_backup_failure() -> None:
    """2.7.10

    Given three replicating pairs that vote when they lose a backup, when a backup stops, then its primary wins the
    vote, stays live, and confirms more.
    """
    brokers = three_voting_pairs()
    writer = brokers.writer("p")
    brokers.until(lambda: len(writer.confirmed) > 10)
    brokers.hosts["q"].stop()
    brokers.until(lambda: "the others see this broker: 2 of 2 votes that are needed" in brokers.said("p"))
    goes_on(brokers, writer, "p")
    assert brokers.role("p") is Role.LIVE


# -- one pair ------------------------------------------------------------------------------------------------------


def one_pair(quorum_size: int) -> Brokers:
    brokers = Brokers("pq")
    values = {"vote_on_replication_failure": True, "quorum_size": quorum_size, "vote_retry_wait_ms": 100}
    brokers.primary("p", ReplicationPrimary(**values))  # type: ignore[arg-type]  # real fields
    brokers.backup("q", ReplicationBackup(**values))  # type: ignore[arg-type]  # real fields
    brokers.until_in_sync("p")
    brokers.run(0.5)
    return brokers


def test_backup_fails_vote_success() -> None:
    """2.7.11

    Given a single pair that votes, whose quorum is as large as the cluster was, when the backup stops, then the primary
    stays live and takes messages.
    """
    brokers = one_pair(quorum_size=-1)
    brokers.hosts["q"].stop()
    brokers.until_role("q", Role.STOPPED)
    writer = brokers.writer("p")
    brokers.until(lambda: len(writer.confirmed) > 10)
    goes_on(brokers, writer, "p")


def test_backup_fails_vote_fails() -> None:
    """2.7.12

    Given a quorum of two and no broker that could vote, when the backup stops, then the primary stops itself.
    """
    brokers = one_pair(quorum_size=2)
    brokers.hosts["q"].stop()
    writer = brokers.writer("p")
    brokers.until_role("p", Role.STOPPED)
    assert "not enough of the cluster sees this broker" in (brokers.failures["p"] or "")
    assert writer.confirmed == []


def test_quorum_voting_result_wait(tmp_path: Path) -> None:
    """2.7.4

    Given a file with a time for votes, which is in seconds, and one without, when they are read, then the backup has
    its time, and the primary the default of half a minute.
    """
    text = "<ha-policy><replication>{}</replication></ha-policy>"
    backup = load(tmp_path, text.format("<backup><quorum-vote-wait>6</quorum-vote-wait></backup>")).config.ha_policy
    primary = load(tmp_path, text.format("<primary/>")).config.ha_policy
    assert isinstance(backup, ReplicationBackup) and backup.quorum_vote_wait_ms == 6_000
    assert isinstance(primary, ReplicationPrimary) and primary.quorum_vote_wait_ms == 30_000


# -- one vote ------------------------------------------------------------------------------------------------------


class Peer:
    """The connection to a voter, as far as a ballot needs it."""

    peer_version = 136

    def __init__(self) -> None:
        self.asked = 0

    def send(self, packet: object, channel: int) -> None:
        self.asked += 1


class Others:
    """The membership of broker "self", and so many others that can be asked."""

    node_id = "self"
    now = Instant(0.0, 0)

    def __init__(self, count: int) -> None:
        self.topology = Topology()
        self.connector = place("self")
        self.peers: dict[str, Peer] = {}
        for number in range(count):
            name = f"n{number}"
            self.topology.update(Member(name, number + 1, place(name)))
            self.peers[name] = Peer()

    def link_to(self, connector: TransportConfiguration) -> Peer:
        assert connector.name is not None
        return self.peers[connector.name]


def place(name: str) -> TransportConfiguration:
    return TransportConfiguration(name, parameters={"host": name, "port": "61616"})


class Vote:
    """A ballot of one round among the others, and how it ended, if it has."""

    def __init__(self, size: int, *, stays: bool) -> None:
        self.others = Others(max(size, 1))
        membership = cast(Membership, self.others)
        self.stays = stays
        self.node_id = "self" if stays else "lost"
        if stays:
            policy = ReplicationPrimary(quorum_size=size)
            self.ballot = round_to_go_on(policy, ClusterConnection(), membership, cast(Electorate, None), 4)
        else:
            question = LiveVote(False, "lost", str(VoteRequest(4, connector_text(place("self")))))
            self.ballot = VoteRound(membership, question, size, 1, 30.0, 1.0, lambda answer: answer.vote)
            self.ballot.begin(0.0, 0.0)
        self.ballot.on_time(0.0)

    def outcome(self) -> bool | None:
        return self.ballot.won

    def answers(self, voter: int, yes: bool, place_told: str = "self") -> None:
        """The answer of one of the others."""
        text = connector_text(place(place_told)) if self.stays else None
        answer = QuorumVoteReply("handler", encode_vote(LiveVote(yes, self.node_id, text)))
        self.ballot.on_reply(cast(ControlLink, self.others.peers[f"n{voter}"]), answer, 0.5)


BOTH = pytest.mark.parametrize("stays", [False, True], ids=["not request to stay", "request to stay"])


@BOTH
@pytest.mark.parametrize("size", range(1, 11))
def test_successful_vote(size: int, stays: bool) -> None:
    """2.7.5

    Given clusters of one to ten, when as many voted yes as are needed, then the vote is won, and with one less it is
    not; alone no vote is needed.
    """
    needed = size // 2 if size <= 2 else size // 2 + 1
    vote = Vote(size, stays=stays)
    for voter in range(needed):
        assert vote.outcome() is None
        vote.answers(voter, yes=True)
    assert vote.outcome() is True
    if needed:
        vote = Vote(size, stays=stays)
        for voter in range(size):
            vote.answers(voter, yes=voter < needed - 1)
        assert vote.outcome() is False


@pytest.mark.parametrize("size", range(2, 11))
def test_vote_on_request_to_stay(size: int) -> None:
    """2.7.6

    Given that a live broker requests votes to stay, when every vote is yes and names another place, then these
    votes do not count.
    """
    vote = Vote(size, stays=True)
    for voter in range(size):
        vote.answers(voter, yes=True, place_told="elsewhere")
    assert vote.outcome() is False


@BOTH
def test_quorum_unblock_await(stays: bool) -> None:
    """2.7.7

    Given a vote whose outcome is waited for, when the last yes comes that is needed, then it is won at once, and none
    waits for the rest.
    """
    vote = Vote(5, stays=stays)
    for voter in range(2):
        vote.answers(voter, yes=True)
    assert vote.outcome() is None and vote.ballot.next_deadline() is not None
    vote.answers(2, yes=True)
    assert vote.outcome() is True and vote.ballot.next_deadline() is None


@BOTH
def test_all_vote_cast_unblock_await(stays: bool) -> None:
    """2.7.8

    Given a vote whose outcome is waited for, when so many are no that it cannot be won any more, then it is lost.
    """
    vote = Vote(5, stays=stays)
    for voter in range(5):
        vote.answers(voter, yes=voter % 2 == 0 and voter < 4)
    assert vote.outcome() is False and vote.ballot.next_deadline() is None


@BOTH
@pytest.mark.parametrize("won", [True, False], ids=["won", "lost"])
def test_all_vote_cast_freeze_decision(stays: bool, won: bool) -> None:
    """2.7.9

    Given a vote that is over, when others come late and say the opposite, then it stays as it was.
    """
    vote = Vote(5, stays=stays)
    for voter in range(3):
        vote.answers(voter, yes=won)
    assert vote.outcome() is won
    for voter in range(5):
        vote.answers(voter, yes=not won)
    vote.ballot.on_time(60.0)
    assert vote.outcome() is won
