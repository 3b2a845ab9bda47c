"""What this broker does not do yet is refused in words, with the code for it, and the connection lives on."""

from __future__ import annotations

import pytest

from embedclient.errors import ErrorCode
from embedclient.wire.core import (
    CreateQueueV2,
    CreateSharedQueueV2,
    ExceptionResponse,
    NullResponse,
    Packet,
    SessionSend,
)

from .scripted import Peer, Stage, letter

KINDS: dict[str, object] = {
    "last_value": True,
    "last_value_key": "key",
    "non_destructive": True,
    "consumers_before_dispatch": 1,
    "delay_before_dispatch": 100,
    "ring_size": 5,
}


@pytest.fixture
def peer() -> Peer:
    peer = Stage().connect().open_session()
    peer.create_queue()
    return peer


def refused_text(peer: Peer, packet: Packet) -> str:
    """The text of the one answer, an EXCEPTION; after it the session works."""
    peer.send(packet)
    (answer,) = peer.clear()
    assert isinstance(answer, ExceptionResponse), answer
    assert answer.code == ErrorCode.NOT_IMPLEMTNED_EXCEPTION and answer.message is not None
    lives_on(peer)
    return answer.message


def lives_on(peer: Peer) -> None:
    peer.send(SessionSend(letter("after"), True, -9))
    assert peer.clear() == [NullResponse(-9)]


@pytest.mark.parametrize("wish", KINDS)
@pytest.mark.parametrize("shared", [False, True])
def test_kinds_of_queues(peer: Peer, wish: str, shared: bool) -> None:
    name = wish.replace("_", "-")
    wishes = {wish: KINDS[wish]}
    packet: Packet = (
        CreateSharedQueueV2("x", "x", None, True, 0, True, **wishes)  # type: ignore[arg-type]  # names of fields
        if shared
        else CreateQueueV2("x", "x", None, True, False, True, False, 1, **wishes)  # type: ignore[arg-type]  # the same
    )
    assert refused_text(peer, packet) == f"queue 'x': {name} is not supported by this broker yet"
    assert "x" not in peer.stage.node.kernel.address_manager.queues


@pytest.mark.parametrize("address", ["a#b", "t#*", "prices#", "c*", "#1.a"])
def test_a_star_or_hash_inside_a_word_is_none(peer: Peer, address: str) -> None:
    peer.send(CreateQueueV2(address, "x", None, True, False, True, False, 0))
    assert peer.clear() == [NullResponse(-1)]
