"""What brokers that wait tell each other, inside the packet of a vote (`embedclient.wire.core`, `ReplicaWaiting`).

Refuses to know what follows from it.
"""

from __future__ import annotations

from collections.abc import Callable

from embedclient.wire.core import WAITING_HANDLER, Packet, QuorumVote, ReplicaWaiting, decode_waiting, encode_waiting

from ._peer import CONTROL_CHANNEL

__all__ = ["Send", "tell_waiting", "waiting_in"]

Send = Callable[[Packet, int], None]


def tell_waiting(send: Send, waiting: ReplicaWaiting) -> None:
    """Say it to a peer, over a link or to a guest."""
    send(QuorumVote(WAITING_HANDLER, encode_waiting(waiting)), CONTROL_CHANNEL)


def waiting_in(packet: Packet) -> ReplicaWaiting | None:
    """What a peer says; None: something else.

    Raises:
        RemoteProtocolError: it cannot be read.
    """
    if isinstance(packet, QuorumVote) and packet.handler == WAITING_HANDLER:
        return decode_waiting(packet.vote)
    return None
