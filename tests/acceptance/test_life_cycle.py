"""Dead letters and diverts, line by line of the checklist."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.config import AddressSettings, DivertConfiguration, SecuritySetting, User
from embedclient.model import Properties, PropertyType, RoutingType
from embedclient.wire.core import CoreMessage, NullResponse, SessionReceiveMessage, SessionRollback, SessionSend
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import MULTICAST, Stage
from tests.embedbroker.node.scripted import Stage as NodeStage


@pytest.mark.parametrize("bound", [False, True])
def test_dlq_no_route(bound: bool) -> None:
    """12.4.4: given send-to-dla-on-no-route everywhere, when no queue takes a message, then it is tried once.

    It arrives on the dead letter address, or is dropped there without a loop.
    """
    stage = Stage({"#": AddressSettings(dead_letter_address="DLA", send_to_dla_on_no_route=True)})
    manager = stage.kernel.address_manager
    for queue in list(manager.queues.values()):
        stage.kernel.teardown.delete_queue(queue)
    for name in ("info", "DLA"):
        manager.create_address(name, anycast=False, multicast=True, auto_created=False)
    if bound:
        stage.queue("dead", "DLA", MULTICAST)
    stage.send(
        *[letter(str(number), "info", durable=True, routing_type=RoutingType.MULTICAST) for number in range(3)],
        routing_type=MULTICAST,
    )
    if bound:
        assert stage.waiting("dead") == ["0", "1", "2"]
    else:
        stage.assert_empty()
        assert not stage.store.of_kind("add")
    assert manager.addresses["info"].unrouted_count == 3
    # Sent to the dead letter address itself: not tried there a second time.
    stage.send(letter("lost", "DLA", routing_type=RoutingType.ANYCAST), routing_type=None)
    assert len(stage.waiting("dead")) == 4 if bound else stage.kernel.memory.used_bytes == 0


def test_expire_with_overriden_sublevel_address_settings() -> None:
    """12.4.14: given expiry addresses at two levels, then that of the narrower match gets what expires."""
    stage = Stage({"a.#": AddressSettings(expiry_address="wide"), "a.b": AddressSettings(expiry_address="narrow")})
    for name in ("a.b", "a.c"):
        stage.queue(name)
        stage.send(letter(name, name, expiration=stage.kernel.now_ms + 1))
    stage.pass_time(40)
    assert (stage.waiting("narrow"), stage.waiting("wide")) == (["a.b"], ["a.c"])


def test_message_expired_without_expiry_address_with_expiry_delay_override() -> None:
    """12.4.15: given an expiry delay, then a message without expiration expires after it, and others as they state."""
    stage = Stage({"q": AddressSettings(expiry_delay_ms=50_000)}, message_expiry_scan_period_ms=1_000)
    queue = stage.queue("q")
    stage.send(letter("own", "q", expiration=stage.kernel.now_ms + 90_000), letter("none", "q"))
    stage.pass_time(49)
    assert stage.waiting("q") == ["own", "none"]
    stage.pass_time(3)
    assert stage.waiting("q") == ["own"]
    stage.pass_time(40)
    assert stage.waiting("q") == [] and queue.expired_count == 2
    stage.assert_empty()


def test_inifinte_redelivery_with_scheduling() -> None:
    """12.4.27: given no limit of attempts and a delay, when a message fails often, then the journal does not grow."""
    settings = AddressSettings(max_delivery_attempts=-1, redelivery_delay_ms=10, max_redelivery_delay_ms=10)
    stage = NodeStage(durable=True, segment_size_bytes=16 * 1024, address_settings={"#": settings})
    peer = stage.connect().open_session("first")
    peer.create_queue()
    peer.post("m", durable=True)
    consumer = stage.connect().open_session("consumer", transacted=True)
    consumer.consume()
    stage.settle_disk()
    assert stage.disk is not None
    sizes = []
    for count in range(1, 3_001):
        (delivery,) = consumer.packets(SessionReceiveMessage)
        assert delivery.delivery_count == count
        consumer.clear()
        consumer.send(SessionRollback(True))
        stage.advance(0.02)
        stage.settle_disk()
        if not count % 1_000:
            sizes.append(sum(map(len, stage.disk.contents().values())))
    assert sizes[2] <= sizes[0] + 32 * 1024, sizes


def test_consumer_multiple_browser_with_selector() -> None:
    """12.4.33: given two browsers with selectors, then each shows its own messages, and nothing is consumed."""
    stage = Stage()
    queue = stage.queue("q")
    stage.send(*[letter(str(number), "q", x=number % 2) for number in range(6)])
    takers = [stage.consumer(stage.session(), "q", browse=True, filter=text)[1] for text in ("x = 0", "x = 1", None)]
    stage.run_all()
    everything = [str(number) for number in range(6)]
    assert [taker.texts for taker in takers] == [["0", "2", "4"], ["1", "3", "5"], everything]
    assert stage.waiting("q") == everything and queue.acknowledged_count == 0


def test_a_divert_needs_no_permission_at_its_forwarding_address() -> None:
    """Not on the checklist: given a sender without a permission there, then the divert forwards all the same.

    What a client must not send, it still must not send.
    """
    may_send = evolve(SecuritySetting.all("all"), send=("all", "r"))
    stage = NodeStage(
        users=[User("app", "pw", roles=["r"]), User("boss", "pw", roles=["all"])],
        security_settings={"#": SecuritySetting.all("all"), "open": may_send},
        diverts={"d": DivertConfiguration("open", "closed")},
    )
    boss = stage.connect().open_session(user="boss", password="pw")
    for name in ("open", "closed"):
        boss.create_queue(name)
    app = stage.connect().open_session(user="app", password="pw")
    app.send(SessionSend(_plain("m", "open"), True, -2))
    assert app.clear() == [NullResponse(-2)]
    app.send(SessionSend(_plain("n", "closed"), True, -3))
    assert "AMQ229032" in (app.refusal().message or "")
    boss.consume("closed", 1)
    assert boss.texts == ["m"]


def test_a_divert_removes_the_list_of_queues() -> None:
    """Not on the checklist: given ``_AMQ_ROUTE_TO``, then the copy of a divert does not have it, and keeps the rest."""
    stage = NodeStage(diverts={"d": DivertConfiguration("open", "closed")})
    peer = stage.connect().open_session()
    for name in ("open", "closed"):
        peer.create_queue(name)
    peer.send(SessionSend(_plain("m", "open", _AMQ_ROUTE_TO=bytes(8)), False, -1))
    peer.consume("closed", 1)
    (delivery,) = peer.packets(SessionReceiveMessage)
    assert delivery.message.property("_AMQ_ROUTE_TO") is None
    assert delivery.message.property("kept") == "yes"


def _plain(text: str, address: str, **properties: bytes) -> CoreMessage:
    values = Properties()
    values.set("kept", "yes", PropertyType.STRING)
    for name, value in properties.items():
        values.set(name, value, PropertyType.BYTES)
    return CoreMessage.build(address=address, durable=False, properties=values, body=text.encode())
