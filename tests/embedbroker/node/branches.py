"""XA as a transaction manager's client speaks it: requests as one call each, answers as codes."""

from __future__ import annotations

from embedclient.model import XaCode, Xid
from embedclient.wire.core import (
    ExceptionResponse,
    Packet,
    SessionAcknowledge,
    SessionQueueQuery,
    SessionQueueQueryResponseV3,
    SessionReceiveMessage,
    SessionXaCommit,
    SessionXaEnd,
    SessionXaInDoubtXids,
    SessionXaInDoubtXidsResponse,
    SessionXaPrepare,
    SessionXaResponse,
    SessionXaRollback,
    SessionXaStart,
)

from .scripted import CHANNEL, Peer, Stage

__all__ = [
    "another",
    "answer",
    "committed",
    "fill",
    "in_doubt",
    "outcome",
    "prepared",
    "query_count",
    "rolled_back",
    "sent_in",
    "taken_in",
    "xid",
]


def xid(number: int = 1) -> Xid:
    return Xid(7, b"branch", b"transaction %d" % number)


def another(stage: Stage, name: str = "t") -> Peer:
    """A client with an XA session, on a separate connection."""
    return stage.connect().open_session(name, transacted=True, xa=True)


def fill(stage: Stage, *texts: str) -> None:
    """Durable messages in the queue, from a client that is gone by then."""
    plain = stage.connect().open_session("plain")
    plain.post(*texts, durable=True)
    stage.settle_disk()
    plain.lose()


def answer(peer: Peer, packet: Packet, *, channel: int = CHANNEL) -> XaCode | int:
    """Send a request, let the disk finish, and return the code of what came: of XA, or of an EXCEPTION."""
    before = len(peer.received)
    peer.send(packet, channel=channel)
    peer.stage.settle_disk()
    return outcome(peer, before)


def outcome(peer: Peer, before: int = 0) -> XaCode | int:
    """The code of the one answer to an XA request that came since then, which is taken away."""
    answers = [
        index
        for index in range(before, len(peer.received))
        if isinstance(peer.received[index][1], SessionXaResponse | ExceptionResponse)
    ]
    assert len(answers) == 1, peer.received[before:]
    _channel, packet = peer.received.pop(answers[0])
    if isinstance(packet, ExceptionResponse):
        return packet.code
    assert isinstance(packet, SessionXaResponse)
    assert packet.error is (packet.code != XaCode.XA_OK)
    return XaCode(packet.code)


def sent_in(peer: Peer, number: int, *texts: str, end: bool = True) -> None:
    """Begin a branch, send durable messages to ``q`` in it, and end it."""
    assert answer(peer, SessionXaStart(xid(number))) == XaCode.XA_OK
    peer.post(*texts, durable=True)
    if end:
        assert answer(peer, SessionXaEnd(xid(number))) == XaCode.XA_OK


def taken_in(peer: Peer, number: int, consumer: int = 0, *, end: bool = True) -> list[str]:
    """Begin a branch, acknowledge everything that was delivered, and end it. Returns what it was."""
    assert answer(peer, SessionXaStart(xid(number))) == XaCode.XA_OK
    texts = peer.texts
    last = peer.packets(SessionReceiveMessage)[-1].message.message_id
    peer.received = [entry for entry in peer.received if not isinstance(entry[1], SessionReceiveMessage)]
    peer.send(SessionAcknowledge(consumer, last, False))
    if end:
        assert answer(peer, SessionXaEnd(xid(number))) == XaCode.XA_OK
    return texts


def prepared(peer: Peer, number: int) -> None:
    assert answer(peer, SessionXaPrepare(xid(number))) == XaCode.XA_OK


def in_doubt(peer: Peer) -> set[Xid]:
    peer.send(SessionXaInDoubtXids())
    peer.stage.settle_disk()
    found = peer.last(SessionXaInDoubtXidsResponse)
    peer.received.pop()
    return set(found.xids)


def query_count(peer: Peer, queue: str = "q") -> int:
    """Messages of a queue, with those in delivery."""
    peer.send(SessionQueueQuery(queue))
    count = peer.last(SessionQueueQueryResponseV3).message_count
    peer.received.pop()
    return count


def committed(peer: Peer, number: int, *, one_phase: bool = False) -> XaCode | int:
    return answer(peer, SessionXaCommit(xid(number), one_phase))


def rolled_back(peer: Peer, number: int) -> XaCode | int:
    return answer(peer, SessionXaRollback(xid(number)))
