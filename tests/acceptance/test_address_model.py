"""Addresses and queues that come and go, line by line of the checklist."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from embedbroker.config import AddressSettings, SecuritySetting, User
from embedbroker.kernel import Consumer, Refused
from embedclient.errors import ErrorCode
from embedclient.wire.core import (
    CreateAddress,
    ExceptionResponse,
    NullResponse,
    SessionCreateConsumer,
    SessionProducerCredits,
    SessionProducerCreditsFail,
    SessionRequestProducerCredits,
    SessionSend,
)
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import ANYCAST, MULTICAST, Stage, Taker
from tests.embedbroker.node.managing import Manager, manager_of
from tests.embedbroker.node.scripted import Peer
from tests.embedbroker.node.scripted import Stage as NodeStage
from tests.embedbroker.node.scripted import letter as anycast_letter

SCAN_S = 30.0
A_UUID = str(UUID(int=7))


def exists(stage: Stage, queue: str = "q") -> bool:
    return queue in stage.kernel.address_manager.queues


def has_address(stage: Stage, name: str = "q") -> bool:
    return name in stage.kernel.address_manager.addresses


def sweeps(stage: Stage, count: int) -> None:
    """Let the scan for idle queues pass so many times."""
    for _ in range(count):
        stage.pass_time(SCAN_S)


# -- addresses -------------------------------------------------------------------------------------------------------


def test_empty_routing_types() -> None:
    """12.1.6: given an address without routing types, when the broker restarts, then it can be created again."""
    stage = NodeStage(durable=True)
    for _ in range(2):
        peer = stage.connect().open_session()
        peer.send(CreateAddress("xy", (), True, False))
        stage.settle_disk()
        assert peer.clear() == [NullResponse(-1)]
        address = stage.node.kernel.address_manager.addresses["xy"]
        assert not address.serves(0) and not address.serves(1)
        stage.boot()
    assert "xy" in stage.node.kernel.address_manager.addresses


def update(manager: Manager, types: str) -> str:
    text: str = manager.call("broker", "updateAddress", "a", types)
    return text


def test_update_address() -> None:
    """12.1.35: given an address, when its types are updated, then messages and restarts find the new ones.

    A type that a queue needs stays, and an address is not created twice.
    """
    stage = NodeStage(durable=True)
    manager = manager_of(stage)
    manager.call("broker", "createAddress", "a", "ANYCAST")
    before = manager.read("address.a", "Id")
    assert update(manager, "ANYCAST") == "Address [name=a, routingTypes={ANYCAST}, autoCreated=false]"
    stage.boot()
    manager = manager_of(stage)
    assert manager.read("address.a", "Id") == before
    update(manager, "ANYCAST,MULTICAST")
    stage.boot()
    manager = manager_of(stage)
    assert sorted(manager.read("address.a", "RoutingTypes")) == ["ANYCAST", "MULTICAST"]
    manager.call("broker", "createQueue", json.dumps({"name": "q", "address": "a", "routing-type": "ANYCAST"}))
    text = manager.failure("broker", operation="updateAddress", body='["a","MULTICAST"]')
    assert text.startswith("AMQ229209: Can't remove routing type ANYCAST, queues exists for address: a.")
    assert update(manager, "ANYCAST")
    assert manager.failure("broker", operation="createAddress", body='["a","ANYCAST"]') == (
        "AMQ229204: Address already exists: a"
    )


def test_an_address_without_a_name_is_refused() -> None:
    """Not on the checklist: given an empty name, when an address or its queue is created, then nothing is."""
    stage = NodeStage()
    peer = stage.connect().open_session()
    peer.send(CreateAddress("", (1,), True, False))
    assert peer.refusal().code == ErrorCode.ILLEGAL_STATE
    peer.send(SessionSend(anycast_letter("lost", "::nowhere"), True, -1))
    assert "an address needs a name" in (peer.refusal().message or "")
    kernel = stage.node.kernel
    assert "" not in kernel.address_manager.addresses and "nowhere" not in kernel.address_manager.queues


def test_a_blocked_address_gives_no_credit() -> None:
    """Not on the checklist: given an address that is blocked, then its producers wait until it is unblocked."""
    stage = NodeStage()
    manager = manager_of(stage)
    manager.peer.create_queue("q")
    assert manager.call("address.q", "block") is True
    producer = stage.connect().open_session("producer")
    producer.send(SessionRequestProducerCredits(100, "q"), SessionRequestProducerCredits(100, "q"))
    assert producer.clear() == [SessionProducerCreditsFail(100, "q")] * 2
    producer.send(SessionRequestProducerCredits(100, "other"))
    assert producer.clear() == [SessionProducerCredits(100, "other")]
    # What comes and goes at the address does not unblock it.
    producer.send(SessionSend(anycast_letter("m"), False, -1))
    manager.call("queue.q", "removeAllMessages")
    assert producer.clear() == []
    manager.call("address.q", "unblock")
    stage.run()
    assert producer.clear() == [SessionProducerCredits(100, "q")] * 2
    manager.call("address.q", "unblock")
    producer.send(SessionRequestProducerCredits(7, "q"))
    assert producer.clear() == [SessionProducerCredits(7, "q")]


def test_a_deleted_address_is_blocked_no_more() -> None:
    """Not on the checklist: given a blocked address that is deleted, then another of that name is not blocked."""
    stage = NodeStage()
    manager = manager_of(stage)
    manager.peer.create_queue("q")
    manager.call("address.q", "block")
    producer = stage.connect().open_session("producer")
    producer.send(SessionRequestProducerCredits(100, "q"))
    producer.clear()
    manager.call("broker", "destroyQueue", "q", True, True)
    assert "q" not in stage.node.kernel.address_manager.addresses
    stage.run()
    assert not stage.node.kernel.memory.is_blocked("q")
    assert producer.clear() == [SessionProducerCredits(100, "q")]
    manager.peer.create_queue("q")
    producer.send(SessionRequestProducerCredits(7, "q"))
    assert producer.clear() == [SessionProducerCredits(7, "q")]


# -- auto-created and auto-deleted -----------------------------------------------------------------------------------


def test_auto_create_delete_recreate() -> None:
    """12.1.7: given producers and consumers that come and go, when scans delete what is idle, then each finds a queue.

    Each round works on a new queue.
    """
    stage = Stage()
    seen: list[int] = []
    for number in range(5):
        stage.send(letter(str(number), "q"), routing_type=ANYCAST)
        seen.append(stage.kernel.address_manager.queues["q"].id)
        session = stage.session(pre_acknowledge=True)
        _consumer, taker = stage.consumer(session, "q")
        stage.run_all()
        assert taker.texts == [str(number)]
        session.close(failed=False)
        sweeps(stage, 2)
        assert not exists(stage)
        if number % 2:
            sweeps(stage, 2)
            assert not has_address(stage)
    assert len(set(seen)) == 5
    stage.assert_empty()


def test_auto_delete_auto_created_queue_on_last_message_removed_without_consumer() -> None:
    """12.1.13: given a queue that never had a consumer, when its last message is removed, then scans delete it."""
    stage = Stage()
    stage.send(letter("m", "q"), routing_type=ANYCAST)
    sweeps(stage, 3)
    assert exists(stage)
    stage.kernel.teardown.purge(stage.kernel.address_manager.queues["q"])
    sweeps(stage, 1)
    assert exists(stage)
    sweeps(stage, 1)
    assert not exists(stage)


def test_auto_delete_auto_created_queue_on_last_message_expired() -> None:
    """12.1.14: given a queue that never had a consumer, when its last message expires, then scans delete it."""
    stage = Stage({"#": AddressSettings()})
    stage.send(letter("m", "q", expiration=stage.kernel.now_ms + 1), routing_type=ANYCAST)
    sweeps(stage, 3)
    assert not exists(stage)
    stage.assert_empty()


def test_auto_delete_auto_created_queue_without_usage() -> None:
    """12.1.15: given skip-usage-check, then a queue that was never used is deleted, and others stay."""
    stage = Stage({"skip.#": AddressSettings(auto_delete_queues_skip_usage_check=True)})
    stage.queue("skip.a", auto_created=True)
    stage.queue("skip.hand")
    stage.queue("used.a", auto_created=True)
    sweeps(stage, 1)
    assert exists(stage, "skip.a")
    sweeps(stage, 1)
    assert [exists(stage, name) for name in ("skip.a", "skip.hand", "used.a")] == [False, True, True]


def test_auto_delete_auto_created_queue_without_usage_with_delay() -> None:
    """12.1.16: given skip-usage-check and a delay, then it counts from the creation of the queue."""
    settings = AddressSettings(auto_delete_queues_skip_usage_check=True, auto_delete_queues_delay_ms=100_000)
    stage = Stage({"#": settings}, address_queue_scan_period_ms=1_000)
    stage.pass_time(500)
    stage.queue("q", auto_created=True)
    stage.pass_time(100)
    assert exists(stage)
    stage.pass_time(2)
    assert not exists(stage)


def test_address_queue_delete_delay() -> None:
    """12.1.20: given a delay of queues and one of addresses, then both pass one after the other."""
    settings = AddressSettings(auto_delete_queues_delay_ms=20_000, auto_delete_addresses_delay_ms=50_000)
    stage = Stage({"#": settings}, address_queue_scan_period_ms=1_000)
    stage.send(letter("m", "q"), routing_type=ANYCAST)
    session = stage.session(pre_acknowledge=True)
    stage.consumer(session, "q")
    stage.run_all()
    stage.pass_time(100)
    session.close(failed=False)
    stage.pass_time(20)
    assert exists(stage)
    stage.pass_time(2)
    assert not exists(stage) and has_address(stage)
    stage.pass_time(48)
    assert has_address(stage)
    stage.pass_time(4)
    assert not has_address(stage)


def test_purge_on_no_consumers_false() -> None:
    """12.1.3: given a queue without the flag, when its consumer takes one of two messages, then the other one stays."""
    stage = Stage()
    stage.queue("q", purge_on_no_consumers=False)
    stage.send(letter("a", "q"), letter("b", "q"))
    session = stage.session()
    consumer, taker = stage.consumer(session, "q", credit=1)
    stage.run_all()
    session.settle(consumer.key, taker.messages[0].message_id)
    session.close(failed=False)
    assert stage.waiting("q") == ["b"]


def test_purge_on_no_consumers_drops_what_comes_back_later() -> None:
    """Not on the checklist: given a delivery of an open transaction, when the last consumer closes, then the rest goes.

    The delivery goes when the transaction is rolled back.
    """
    stage = Stage()
    stage.queue("q", purge_on_no_consumers=True)
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=2)
    stage.send(*[letter(text, "q", durable=True) for text in "abc"])
    stage.run_all()
    assert taker.texts == ["a", "b"]
    session.settle(consumer.key, taker.messages[0].message_id)
    session.close_consumer(consumer.key)
    assert stage.waiting("q") == []
    session.rollback(last_delivered=False)
    stage.run_all()
    assert stage.waiting("q") == []
    stage.assert_empty()


def test_auto_delete_topic_durable_subscriber() -> None:
    """12.1.22: given a durable subscriber, when its consumer closes, then the address stays until it unsubscribes."""
    stage = Stage()
    stage.send(letter("lost", "topic"), routing_type=MULTICAST)
    stage.queue("me.sub", "topic", MULTICAST, auto_delete=False)
    session = stage.session(pre_acknowledge=True)
    consumer, taker = stage.consumer(session, "me.sub")
    stage.send(letter("m", "topic"), routing_type=MULTICAST)
    stage.run_all()
    assert taker.texts == ["m"]
    session.close_consumer(consumer.key)
    sweeps(stage, 5)
    assert exists(stage, "me.sub") and has_address(stage, "topic")
    assert not isinstance(session.addresses.delete_queue("me.sub"), Refused)
    assert not has_address(stage, "topic")
    stage.assert_empty()


def test_delete_temporary_queue_when_client_crash() -> None:
    """12.1.30: given a client that stops pinging, when its time to live is over, then its temporary queue goes."""
    stage = NodeStage()
    peer = stage.connect().open_session()
    peer.create_queue("t", temporary=True)
    queues = stage.node.kernel.address_manager.queues
    stage.advance(50)
    assert "t" in queues
    stage.advance(15)
    assert peer.closed is not None and "t" not in queues


# -- names -----------------------------------------------------------------------------------------------------------


def test_special_case_of_fully_qualified_names() -> None:
    """12.1.25: given a queue, when a consumer names ``::q``, then it gets messages; ``q::`` and ``::`` do not exist."""
    stage = Stage()
    stage.queue("q", "a")
    stage.send(letter("m", "a"))
    _consumer, taker = stage.consumer(stage.session(), "::q")
    stage.run_all()
    assert taker.texts == ["m"]
    for name in ("q::", "::", "a::"):
        refused = stage.session().create_consumer(1, name, None, Taker(), browse=False, priority=0)
        assert isinstance(refused, Refused) and refused.code == ErrorCode.QUEUE_DOES_NOT_EXIST


def test_special_case_at_the_broker() -> None:
    """12.1.25: the same with packets of a client."""
    stage = NodeStage()
    peer = stage.connect().open_session()
    peer.create_queue("q")
    peer.post("m")
    peer.consume("::q", 1)
    assert peer.texts == ["m"]
    peer.clear()
    for name in ("q::", "::"):
        peer.send(SessionCreateConsumer(2, name, None, False, True))
        assert peer.refusal().code == ErrorCode.QUEUE_DOES_NOT_EXIST


def limited(namespace: str) -> Stage:
    return Stage(
        {"uuid.#": AddressSettings(default_max_consumers=1), "#": AddressSettings(default_max_consumers=9)},
        uuid_namespace=namespace,
    )


@pytest.mark.parametrize(("namespace", "expected"), [("uuid", 1), ("", 9)])
def test_uuid_namespace(namespace: str, expected: int) -> None:
    """12.1.31: given a namespace, when an address is called by a UUID, then settings of the namespace apply."""
    stage = limited(namespace)
    assert stage.queue(A_UUID, temporary=True).definition.max_consumers == expected
    assert stage.queue("t", A_UUID, temporary=True).definition.max_consumers == expected
    assert stage.kernel.address_manager.view_queue(A_UUID).definition.max_consumers == expected


def test_uuid_namespace_without_uuid() -> None:
    """12.1.32: given a namespace, when a temporary queue has another name, then settings of its name apply."""
    stage = limited("uuid")
    for name in ("plain", f"{A_UUID}.x", A_UUID[:-1], "uuid.x"):
        expected = 1 if name == "uuid.x" else 9
        assert stage.queue(name, temporary=True).definition.max_consumers == expected


def test_uuid_namespace_of_permissions() -> None:
    """12.1.31: permissions of the namespace apply, too."""
    stage = NodeStage(
        users=[User("app", "pw", roles=["r"])],
        security_settings={"#": SecuritySetting(), "uuid.#": SecuritySetting.all("r")},
        uuid_namespace="uuid",
    )
    peer: Peer = stage.connect().open_session(user="app", password="pw")
    peer.create_queue(A_UUID, temporary=True)
    with pytest.raises(IndexError):
        peer.create_queue("plain", temporary=True)
    assert isinstance(peer.received[-1][1], ExceptionResponse)


def test_consumers_of_a_queue_in_the_namespace_are_limited() -> None:
    """12.1.31: the limit of the settings is in force at the queue."""
    stage = limited("uuid")
    stage.queue(A_UUID, temporary=True)
    stage.consumer(stage.session(), A_UUID)
    refused = stage.session().create_consumer(9, A_UUID, None, Taker(), browse=False, priority=0)
    assert not isinstance(refused, Consumer) and refused.code == ErrorCode.MAX_CONSUMER_LIMIT_EXCEEDED
