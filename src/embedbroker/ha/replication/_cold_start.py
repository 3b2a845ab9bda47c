"""Brokers that wait with copies of the same data, because not enough others are live to be asked: which of them begins?

Responsible for what each says of its data, and for which of two gives its own up. Refuses to know when a broker waits,
and what it does when it may begin.

A cluster that is started as a whole has nobody who could vote, so votes alone would leave all of it waiting. But of
each node two brokers at most can have the newest data: who was live last, and the one backup that it had then. Each
remembers the other one as its partner, before anything is confirmed that both have; a live broker that goes on without
its backup has the next activation, and no partner.

1. Q was live last and had no backup. Nobody can have gone on from there: Q begins. P, which has older data, waits.
2. P was live last, and Q in sync. P cannot know whether Q took over, confirmed more, and died (what votes are for).
   Both wait, and listen. Q says that it has the same activation, so it did not take over; it writes down that its data
   is not to be begun with, and says so. P begins.
3. Q has taken over, and R was its backup: Q and P meet, and Q has the later activation. P gives its data up, but is not
   whom Q waits for: R may have gone on from there.

Who gives way has it on its disk before it says so, and asks nobody any more whether it may be live. So however often
either dies in between, one of the two at most begins.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker.cluster import CONTROL_CHANNEL, InboundPeer, Membership, Send, enclose, where
from embedbroker.config import ReplicationBackup, ReplicationPrimary
from embedbroker.replication import STREAM_FORMAT, ReplicaRecord, ReplicaWaiting

from ..quorum._voter import connector_text
from ._node_record import NodeRecord

__all__ = ["ColdStartAgreement"]

# Below every activation.
_NO_DATA = -1


class ColdStartAgreement:
    """Of one life of a broker that may be asked for votes.

    ``waits`` says whether it is neither live nor about to be, and copies nobody's data, at this moment. ``on_met`` is
    called when the other one has given way, ``on_given_way`` when this one does.
    """

    def __init__(
        self,
        policy: ReplicationPrimary | ReplicationBackup,
        membership: Membership,
        node_record: NodeRecord,
        waits: Callable[[], bool],
        log: Callable[[bool, str], None],
    ) -> None:
        self.on_met: Callable[[], None] | None = None
        self.on_given_way: Callable[[], None] | None = None
        self._is_primary = isinstance(policy, ReplicationPrimary)
        self._membership = membership
        self._waits = waits
        self._node_record = node_record
        self._log = log
        membership.inbound_peers.on_authorized = self._welcome
        membership.inbound_peers.handlers[ReplicaWaiting] = lambda inbound, said: self._hear(said, inbound.peer.send)
        membership.handlers[ReplicaWaiting] = lambda link, said: self._hear(said, link.send)

    def look_around(self) -> None:
        """Say once more to everybody else who waits which data is here: it may be told in vain, or too early."""
        for link in self._membership.waiting:
            _tell(link.send, self._offer())

    def _welcome(self, inbound: InboundPeer) -> None:
        """Whoever comes has to know that nobody is live here."""
        if self._waits():
            _tell(inbound.peer.send, self._offer())

    def _offer(self) -> ReplicaWaiting:
        """Who has given way offers what goes behind everything: the other one may not have heard of it."""
        return self._word(self._node_record.record.activation if self._node_record.may_be_newest else _NO_DATA)

    def _word(self, activation: int, *, yields: bool = False) -> ReplicaWaiting:
        record, connector = self._node_record.record, self._membership.connector
        return ReplicaWaiting(
            STREAM_FORMAT, record.node_id or "", activation, yields, self._is_primary, connector, record.partner
        )

    # -- what others say -----------------------------------------------------------------------------------------

    def _hear(self, other: object, send: Send) -> None:
        assert isinstance(other, ReplicaWaiting)
        record = self._node_record.record
        is_known = other.format == STREAM_FORMAT and other.node_id == record.node_id
        if not is_known or not self._waits():
            return
        if other.yields:
            self._hear_yielding(record, other)
        elif self._goes_before(record, other):
            if self._node_record.may_be_newest:
                _tell(send, self._offer())
        elif other.activation > record.activation or other.partner == connector_text(self._membership.connector):
            self._give_way(record, other, send)

    def _goes_before(self, record: ReplicaRecord, other: ReplicaWaiting) -> bool:
        """Both come to the same: the newer data goes first, of the same that of the primary."""
        text, has_data = connector_text(self._membership.connector), self._node_record.may_be_newest
        ours = record.activation, has_data, self._is_primary, text
        return ours > (other.activation, True, other.is_primary, connector_text(other.connector))

    def _hear_yielding(self, record: ReplicaRecord, other: ReplicaWaiting) -> None:
        is_partner = record.partner == connector_text(other.connector)
        if is_partner and self._node_record.may_be_newest and other.activation == record.activation:
            self._log(False, f"begins with the data that is here: {where(other.connector)} does not")
            assert self.on_met is not None
            self.on_met()

    def _give_way(self, record: ReplicaRecord, other: ReplicaWaiting, send: Send) -> None:
        word = self._word(other.activation, yields=True)
        if not record.in_sync and self._node_record.is_written:
            _tell(send, word)
            return
        what = "newer data" if other.activation > record.activation else "the same data"
        self._log(False, f"leaves it to {where(other.connector)} to begin, which has {what}")
        self._node_record.note_left_behind(lambda: _tell(send, word))
        assert self.on_given_way is not None
        self.on_given_way()


def _tell(send: Send, word: ReplicaWaiting) -> None:
    send(enclose(word), CONTROL_CHANNEL)
