"""What a broker answers to those that request a backup, brokers of Artemis among them, byte by byte."""

from __future__ import annotations

from typing import cast

import pytest
from attrs import define, field

from embedbroker.cluster import InboundPeer, Membership
from embedbroker.config import BrokerConfig, ClusterConnection, Colocated, ReplicationPrimary, Role, SharedStorePrimary
from embedbroker.ha import BackupChanged, StartBackup
from embedbroker.ha.colocated import BackupHosting
from embedclient.engine import ConnectionDialer
from embedclient.engine.core import Peer
from embedclient.model import Instant
from embedclient.wire.core import BackupRequest, BackupRequestResponse, BackupVote, Packet, QuorumVoteReply, enclosed_in

OURS = 1
#: The question of an Artemis: -1 backups, no node id, not available.
OF_ARTEMIS = BackupVote(-1, None, False)


@define(eq=False)
class Requester:
    """A connection of another broker, which keeps what it gets."""

    name: str = "other"
    got: list[Packet] = field(factory=list)

    def send(self, packet: Packet, _channel: int) -> None:
        self.got.append(packet)


class Town:
    """A colocated broker that is live."""

    def __init__(self, policy: Colocated) -> None:
        settings = ClusterConnection()
        config = BrokerConfig(cluster_connections=settings, ha_policy=policy, cluster_password="secret", port=61616)
        self.log: list[str] = []
        self.orders: list[StartBackup] = []
        self.membership = Membership(config, settings, 136, cast(ConnectionDialer, None), self.log.append)
        self.hosting = BackupHosting(policy, self.membership, self.orders.append, self.log.append)
        self.membership.now = Instant(0.0, 1)
        self.membership.become_live("host")
        self.peer = Requester()
        self.inbound = InboundPeer(cast(Peer, self.peer))

    def vote(self, question: BackupVote) -> BackupVote:
        self.membership.inbound_peers.handlers[BackupVote](self.inbound, question)
        reply = self.peer.got.pop()
        assert isinstance(reply, QuorumVoteReply)
        answer = enclosed_in(reply)
        assert isinstance(answer, BackupVote)
        return answer

    def request(self, request: BackupRequest) -> bool | None:
        """Return the answer; None before it has come."""
        self.membership.inbound_peers.handlers[BackupRequest](self.inbound, request)
        return self.answer()

    def answer(self) -> bool | None:
        if not self.peer.got:
            return None
        answer = self.peer.got.pop()
        assert isinstance(answer, BackupRequestResponse) and not self.peer.got
        return answer.backup_started


def test_one_backup_from_the_question_to_its_end() -> None:
    town = Town(Colocated(SharedStorePrimary()))
    assert town.vote(BackupVote(-1, "n", False, OURS)) == BackupVote(0, "host", True, OURS)
    assert town.request(BackupRequest(0, "/data/n", "/locks/n", None, "/data/n", "n")) is None
    assert town.orders == [StartBackup(0, "n", "/data/n", "/locks/n", None)]
    town.hosting.on_change(BackupChanged(0, Role.BACKUP))
    assert town.answer() is True
    # There is room for one; the same broker finds its backup again, after its connection was lost.
    assert town.vote(BackupVote(-1, "m", False, OURS)) == BackupVote(1, "host", False, OURS)
    assert town.request(BackupRequest(1, node_id="m")) is False
    assert town.vote(BackupVote(-1, "n", False, OURS)) == BackupVote(-1, "host", True, OURS)
    assert town.request(BackupRequest(-1, node_id="n")) is True and len(town.orders) == 1
    # A backup that is live gives way to the requester, and may end after that.
    town.hosting.on_change(BackupChanged(0, Role.LIVE))
    assert not town.vote(BackupVote(-1, "n", False, OURS)).available
    town.hosting.on_change(BackupChanged(0, Role.BACKUP))
    assert town.answer() is None
    town.hosting.on_change(BackupChanged(0, Role.STOPPED, "no room"))
    # The host goes on, and reports the end of its backup.
    assert town.answer() is False
    assert town.hosting.hosted == {} and "hosts no backup of node n any more: no room" in town.log
    assert town.vote(BackupVote(-1, "m", False, OURS)).available


def test_a_backup_that_does_not_start_is_an_answer_and_leaves_its_place() -> None:
    town = Town(Colocated(SharedStorePrimary(), max_backups=2))
    assert town.request(BackupRequest(0, node_id="n")) is None
    assert town.request(BackupRequest(1, node_id="m")) is None
    town.hosting.on_change(BackupChanged(0, Role.ACTIVATING))
    town.hosting.on_change(BackupChanged(0, Role.STOPPED, "cannot use directory"))
    assert town.answer() is False and town.log == []
    assert town.request(BackupRequest(1, node_id="k")) is None
    assert [(order.index, order.node_id) for order in town.orders] == [(0, "n"), (1, "m"), (0, "k")]


@pytest.mark.parametrize(
    "request_",
    [
        BackupRequest(1, node_id="n"),  # another broker was faster: the number is not that of the answer
        BackupRequest(0, "/data/n", "/data/n", None, "/data/n"),  # an Artemis with a shared store sends no node id
        BackupRequest(0, node_id="n"),  # of another group, or unknown
    ],
)
def test_requests_that_are_refused(request_: BackupRequest) -> None:
    town = Town(Colocated(ReplicationPrimary()))
    assert town.request(request_) is False and town.orders == []
    assert not town.vote(BackupVote(-1, "n", False, OURS)).available


def test_an_artemis_gets_no_backup() -> None:
    town = Town(Colocated(SharedStorePrimary()))
    assert town.vote(OF_ARTEMIS) == BackupVote(0, "host", False, OURS)


def test_a_broker_that_is_not_live_hosts_nothing() -> None:
    town = Town(Colocated(SharedStorePrimary()))
    town.membership.become_backup("host", announce=False)
    assert not town.vote(BackupVote(-1, "n", False, OURS)).available
    assert town.request(BackupRequest(0, node_id="n")) is False
