"""The cold start of brokers that wait with copies of the same data, because not enough others are active to vote.

Responsible for what each sends about its data, and for which of two gives its own up. Does not depend on when a broker
waits, and on what follows when it may begin.

A cluster that is started as a whole has no voters, so votes alone would leave all of it waiting. But of each node two
brokers at most can have the newest data: the one that was active last, and the one backup that it had then. Each
remembers the other as its partner, before anything is confirmed that both have. An active broker that goes on without
its backup has the next activation, and no partner.

1. Q was active last and had no backup. No broker can have gone on from there: Q begins. P, which has older data, waits.
2. P was active last, and Q in sync. P cannot find out whether Q took over, confirmed more, and died (what votes are
   for). Both wait for offers. Q sends that it has the same activation, so it did not take over; it writes down that its
   data is not to be begun with, and sends that. P begins.
3. Q has taken over, and R was its backup: Q and P meet, and Q has the later activation. P gives its data up, but Q does
   not wait for P: R may have gone on from there.

A broker that gives way has that on its disk before it sends it, and requests no votes any more. So however many times
either dies in between, one of the two at most begins.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from embedbroker.cluster import CONTROL_CHANNEL, InboundPeer, Membership, Send, enclose, where
from embedbroker.config import ReplicationBackup, ReplicationPrimary
from embedbroker.replication import STREAM_FORMAT, ReplicaRecord, ReplicaWaiting

from ..quorum._voter import connector_text
from ._decisions import Policy, may_be_newest
from ._node_record import NodeRecord
from ._stages import Event

__all__ = ["Answer", "ColdStartAgreement", "answer_to"]

# Below every activation.
_NO_DATA = -1


class Answer(Enum):
    """The reaction of a waiting broker to the offer of another one."""

    IGNORE = "ignore"
    OFFER = "offer"
    YIELD = "yield"
    BEGIN = "begin"


class ColdStartAgreement:
    """One instance per start of a broker that requires votes.

    ``waits`` returns True while the broker is a backup without an active broker to copy from. ``decide`` receives
    YIELDED or PARTNER_YIELDED.
    """

    def __init__(
        self,
        policy: ReplicationPrimary | ReplicationBackup,
        membership: Membership,
        node_record: NodeRecord,
        waits: Callable[[], bool],
        log: Callable[[bool, str], None],
        decide: Callable[[Event], None],
    ) -> None:
        self._policy = policy
        self._is_primary = isinstance(policy, ReplicationPrimary)
        self._membership = membership
        self._waits = waits
        self._node_record = node_record
        self._log = log
        self._decide = decide
        membership.inbound_peers.observer = self
        membership.inbound_peers.handlers[ReplicaWaiting] = lambda inbound, offer: self._on_offer(
            offer, inbound.peer.send
        )
        membership.handlers[ReplicaWaiting] = lambda link, offer: self._on_offer(offer, link.send)

    def look_around(self) -> None:
        """Send the offer of the data here to all waiting brokers once more: an earlier one may be lost, or came too
        early."""
        for link in self._membership.waiting:
            _send(link.send, self._offer())

    def on_inbound(self, inbound: InboundPeer) -> None:
        """Inform a new peer that no broker is active here."""
        if self._waits():
            _send(inbound.peer.send, self._offer())

    def _offer(self) -> ReplicaWaiting:
        """Return the offer. After it gave way, a broker offers data that is older than all: the other may not have
        received that."""
        return self._offer_of(self._node_record.record.epoch if self._node_record.may_be_newest else _NO_DATA)

    def _offer_of(self, epoch: int, *, yields: bool = False) -> ReplicaWaiting:
        record, connector = self._node_record.record, self._membership.connector
        return ReplicaWaiting(
            STREAM_FORMAT, record.node_id or "", epoch, yields, self._is_primary, connector, record.partner
        )

    # -- offers of others ----------------------------------------------------------------------------------------

    def _on_offer(self, other: object, send: Send) -> None:
        assert isinstance(other, ReplicaWaiting)
        record = self._node_record.record
        is_known = other.format == STREAM_FORMAT and other.node_id == record.node_id
        if not is_known or not self._waits():
            return
        match answer_to(self._policy, record, connector_text(self._membership.connector), other):
            case Answer.OFFER:
                _send(send, self._offer())
            case Answer.YIELD:
                self._give_way(record, other, send)
            case Answer.BEGIN:
                self._log(False, f"begins with the data that is here: {where(other.connector)} does not")
                self._decide(Event.PARTNER_YIELDED)

    def _give_way(self, record: ReplicaRecord, other: ReplicaWaiting, send: Send) -> None:
        offer = self._offer_of(other.epoch, yields=True)
        if not record.in_sync and self._node_record.is_written:
            _send(send, offer)
            return
        what = "newer data" if other.epoch > record.epoch else "the same data"
        self._log(False, f"leaves it to {where(other.connector)} to begin, which has {what}")
        self._node_record.note_left_behind(lambda: _send(send, offer))
        self._decide(Event.YIELDED)


def answer_to(policy: Policy, record: ReplicaRecord, own_connector: str, other: ReplicaWaiting) -> Answer:
    """Return what a waiting broker does about the offer of another broker with data of the same node.

    Both come to the same order: newer data goes first, and of the same data that of the primary.
    """
    has_data, is_primary = may_be_newest(policy, record), isinstance(policy, ReplicationPrimary)
    other_connector = connector_text(other.connector)
    if other.yields:
        is_partner = record.partner == other_connector
        begins = is_partner and has_data and other.epoch == record.epoch
        return Answer.BEGIN if begins else Answer.IGNORE
    ours = record.epoch, has_data, is_primary, own_connector
    if ours > (other.epoch, True, other.is_primary, other_connector):
        return Answer.OFFER if has_data else Answer.IGNORE
    yields = other.epoch > record.epoch or other.partner == own_connector
    return Answer.YIELD if yields else Answer.IGNORE


def _send(send: Send, offer: ReplicaWaiting) -> None:
    send(enclose(offer), CONTROL_CHANNEL)
