"""What a peer may try with names, sizes and times, and what the node makes of it."""

from __future__ import annotations

import pytest

from embedclient.wire.core import (
    CoreMessage,
    CreateQueueV2,
    NullResponse,
    Ping,
    SessionReceiveMessage,
    SessionSend,
)

from .scripted import Stage

HALF_A_PAIR = "half\ud800"


@pytest.mark.parametrize("place", ["address", "name", "filter"])
def test_half_a_surrogate_pair_in_a_definition_survives_a_restart(place: str) -> None:
    names = {"address": "a", "name": "n", "filter": "x = 'y'"}
    names[place] = names[place].replace("y", HALF_A_PAIR) if place == "filter" else HALF_A_PAIR
    stage = Stage(durable=True)
    peer = stage.connect().open_session()
    peer.send(CreateQueueV2(names["address"], names["name"], names["filter"], True, False, True, False, 1))
    stage.settle_disk()
    peer.last(NullResponse)
    stage.boot()
    definition = stage.node.kernel.address_manager.queues[names["name"]].definition
    assert (definition.address, definition.filter) == (names["address"], names["filter"])


def test_one_message_above_the_output_limit_is_delivered() -> None:
    stage = Stage(output_high_water_bytes=10_000, output_bytes_max=50_000)
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.send(SessionSend(CoreMessage.build(address="q", durable=False, body=bytes(100_000)), False))
    peer.reads = False
    peer.consume()
    stage.run()
    (delivery,) = peer.packets(SessionReceiveMessage)
    assert len(delivery.message.body) == 100_000
    assert peer.closed is None


def test_no_more_lost_connections_are_kept_than_may_be_connected() -> None:
    stage = Stage(connections_max=2)
    for number in range(3):
        stage.connect().open_session(f"s{number}", window=1000).lose()
    assert list(stage.node.core.sessions) == ["s1", "s2"]


def test_a_lost_connection_is_given_up_after_a_day_whatever_its_time_to_live() -> None:
    stage = Stage()
    peer = stage.connect().open_session("s", window=1000)
    peer.send(Ping((1 << 63) - 1), channel=0)
    peer.lose()
    stage.advance(24 * 3600 - 60)
    assert stage.node.core.sessions
    stage.advance(120)
    assert not stage.node.core.sessions
