"""Dead letters and expired messages: when they leave, where they go, what the copies carry."""

from __future__ import annotations

import math

import pytest

from embedbroker.config import AddressSettings
from embedbroker.kernel import Outcome
from embedclient.model import PropertyType, RoutingType
from embedclient.wire.core import CoreMessage
from tests.embedbroker.kernel.letters import letter, text_of
from tests.embedbroker.kernel.stage import ANYCAST, MULTICAST, Stage

DEFAULT = AddressSettings(dead_letter_address="DLQ", expiry_address="ExpiryQueue")


@pytest.fixture
def stage() -> Stage:
    return Stage({"#": DEFAULT, "twice.#": AddressSettings(max_delivery_attempts=2)})


def fail_once(stage: Stage, queue: str) -> None:
    """A client takes everything, and is lost."""
    session = stage.session()
    stage.consumer(session, queue)
    stage.run_all()
    session.close(failed=True)
    stage.run_all()


def change_settings(stage: Stage, match: str, settings: AddressSettings) -> None:
    """Change address settings of a broker that runs."""
    stage.kernel.settings.replace(match, settings)


def only(stage: Stage, queue: str) -> CoreMessage:
    (reference,) = list(stage.kernel.address_manager.queues[queue].backlog)
    assert isinstance(reference.message, CoreMessage)
    return reference.message


def expiring(stage: Stage, text: str, address: str, in_ms: int = 1000) -> CoreMessage:
    return letter(text, address, durable=True, expiration=stage.kernel.now_ms + in_ms)


def test_the_addresses_of_the_settings_exist_from_the_start(stage: Stage) -> None:
    for name in ("DLQ", "ExpiryQueue"):
        queue = stage.kernel.address_manager.queues[name].definition
        assert (queue.address, queue.durable, queue.routing_type, queue.auto_created) == (name, True, ANYCAST, False)
        assert not stage.kernel.address_manager.addresses[name].definition.auto_created
    stage.pass_time(1000)
    assert {"DLQ", "ExpiryQueue"} <= set(stage.kernel.address_manager.queues)


def test_a_message_goes_after_too_many_deliveries(stage: Stage) -> None:
    stage.queue("twice.q")
    stage.send(letter("m", "twice.q"))
    fail_once(stage, "twice.q")
    assert stage.waiting("twice.q") == ["m"]
    fail_once(stage, "twice.q")
    assert (stage.waiting("twice.q"), stage.waiting("DLQ")) == ([], ["m"])
    assert any("'DLQ'" in line and "2 deliveries" in line for line in stage.log)


def test_ten_deliveries_are_the_default(stage: Stage) -> None:
    stage.queue("q")
    stage.send(letter("m", "q"))
    for _ in range(9):
        fail_once(stage, "q")
    assert stage.waiting("q") == ["m"]
    fail_once(stage, "q")
    assert stage.waiting("DLQ") == ["m"]


def test_no_limit_means_never() -> None:
    stage = Stage({"#": AddressSettings(max_delivery_attempts=-1, dead_letter_address="DLQ")})
    stage.queue("q")
    stage.send(letter("m", "q"))
    for _ in range(20):
        fail_once(stage, "q")
    assert stage.waiting("q") == ["m"]


def test_a_rolled_back_acknowledgement_counts_and_a_prefetched_message_does_not(stage: Stage) -> None:
    stage.queue("twice.q")
    stage.send(letter("a", "twice.q"), letter("b", "twice.q"))
    for _ in range(2):
        session = stage.session(transacted=True)
        consumer, taker = stage.consumer(session, "twice.q")
        stage.run()
        session.settle(consumer.key, taker.messages[0].message_id, through=True)
        session.rollback(last_delivered=False)
        session.close(failed=False)
    assert (stage.waiting("twice.q"), stage.waiting("DLQ")) == (["b"], ["a"])


def test_a_dead_letter_says_where_it_came_from(stage: Stage) -> None:
    stage.queue("q1", "twice.a")
    original = letter("m", "twice.a", durable=True, priority=7, routing_type=RoutingType.ANYCAST, colour="red")
    stage.send(original, routing_type=ANYCAST)
    fail_once(stage, "q1")
    fail_once(stage, "q1")
    copy = only(stage, "DLQ")
    properties = copy.properties
    assert properties["_AMQ_ORIG_ADDRESS"] == "twice.a"
    assert properties["_AMQ_ORIG_QUEUE"] == "q1"
    assert properties["_AMQ_ORIG_MESSAGE_ID"] == original.message_id != copy.message_id
    assert properties.type_of("_AMQ_ORIG_MESSAGE_ID") is PropertyType.LONG
    assert properties["_AMQ_ORIG_ROUTING_TYPE"] == ANYCAST
    assert properties.type_of("_AMQ_ORIG_ROUTING_TYPE") is PropertyType.BYTE
    assert "_AMQ_ROUTING_TYPE" not in properties and "_AMQ_ACTUAL_EXPIRY" not in properties
    assert properties["colour"] == "red"
    assert (copy.address, copy.priority, copy.durable, copy.expiration) == ("DLQ", 7, True, 0)
    assert (copy.user_id, copy.timestamp) == (original.user_id, original.timestamp)


def test_an_original_without_routing_type_gets_none(stage: Stage) -> None:
    stage.queue("twice.q")
    stage.send(letter("m", "twice.q"))
    fail_once(stage, "twice.q")
    fail_once(stage, "twice.q")
    assert "_AMQ_ORIG_ROUTING_TYPE" not in only(stage, "DLQ").properties


def test_a_second_hop_describes_the_last_one_and_puts_the_type_back() -> None:
    stage = Stage(
        {"#": AddressSettings(dead_letter_address="dead", max_delivery_attempts=1), "dead": AddressSettings()}
    )
    stage.queue("q")
    stage.queue("hospital", "later")
    stage.send(letter("m", "q", routing_type=RoutingType.ANYCAST), routing_type=ANYCAST)
    fail_once(stage, "q")
    first = only(stage, "dead")
    change_settings(stage, "dead", AddressSettings(dead_letter_address="later", max_delivery_attempts=1))
    fail_once(stage, "dead")
    second = only(stage, "hospital")
    assert second.properties["_AMQ_ORIG_ADDRESS"] == "dead"
    assert second.properties["_AMQ_ORIG_QUEUE"] == "dead"
    assert second.properties["_AMQ_ORIG_MESSAGE_ID"] == first.message_id
    assert second.properties["_AMQ_ROUTING_TYPE"] == ANYCAST


def test_a_copy_is_one_transaction_with_the_end_of_the_original(stage: Stage) -> None:
    queue = stage.queue("twice.q")
    dead = stage.kernel.address_manager.queues["DLQ"]
    stage.send(letter("m", "twice.q", durable=True))
    original = only(stage, "twice.q").message_id
    fail_once(stage, "twice.q")
    stage.store.records.clear()
    fail_once(stage, "twice.q")
    count, add, acknowledge, commit = stage.store.records
    transaction = add[2]
    assert count == ("count", original, queue.id, 2)
    assert add == ("add", "m", transaction, [(dead.id, 0)])
    assert acknowledge == ("acknowledge", original, queue.id, transaction)
    assert commit[:2] == ("commit", transaction)


def test_a_dead_letter_is_not_seen_before_it_is_durable(stage: Stage) -> None:
    stage.queue("twice.q")
    stage.send(letter("m", "twice.q", durable=True))
    fail_once(stage, "twice.q")
    _consumer, taker = stage.consumer(stage.session(), "DLQ")
    stage.store.lags = True
    fail_once(stage, "twice.q")
    assert taker.got == []
    stage.store.sync()
    stage.run_all()
    assert taker.got == [("m", 1)]


def test_dead_letters_without_address_or_queue_are_dropped_and_said_once() -> None:
    """Artemis' DeadLetterAddressTest.testBasicSendWithDLAButNoBinding."""
    stage = Stage(
        {"none.#": AddressSettings(max_delivery_attempts=1), "lost.#": AddressSettings(max_delivery_attempts=1)}
    )
    for name in ("none.q", "lost.q"):
        stage.queue(name)
        for text in "ab":
            stage.send(letter(text, name, durable=True))
    change_settings(stage, "lost.#", AddressSettings(max_delivery_attempts=1, dead_letter_address="gone"))
    for name in ("none.q", "lost.q"):
        fail_once(stage, name)
    assert [line for line in stage.log if "dropped" in line and "none.q" in line] == [
        "queue 'none.q': undeliverable messages are dropped, there is no dead letter address"
    ]
    assert sum("'gone' are dropped" in line for line in stage.log) == 1
    assert len(stage.store.of_kind("acknowledge")) == 4
    stage.assert_empty()


def test_the_most_specific_dead_letter_address_counts() -> None:
    """Artemis' AddressSettingsTest.testOverrideHierarchyWithDLA and
    DeadLetterAddressTest.testDeadLetterAddressWithOverridenSublevelAddressSettings.
    """
    stage = Stage(
        {
            "#": AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=1),
            "a.b.#": AddressSettings(dead_letter_address="DLQ.b"),
        }
    )
    for name in ("a.c", "a.b.c"):
        stage.queue(name)
        stage.send(letter(name, name))
        fail_once(stage, name)
    assert (stage.waiting("DLQ"), stage.waiting("DLQ.b")) == (["a.c"], ["a.b.c"])


def test_odd_routing_types_and_broken_properties_do_no_harm(stage: Stage) -> None:
    stage.queue("twice.q")
    odd = letter("odd", "twice.q", _AMQ_ROUTING_TYPE="x", _AMQ_ORIG_ROUTING_TYPE=4711)
    broken = letter("broken", "twice.q", colour="red")
    raw = bytearray(broken.raw)
    raw[-1] = 0x7F
    del raw[-3:]
    stage.send(odd, CoreMessage.parse(raw))
    fail_once(stage, "twice.q")
    fail_once(stage, "twice.q")
    assert stage.waiting("DLQ") == ["odd"]
    assert any("cannot be copied" in line for line in stage.log)
    assert stage.waiting("twice.q") == []


def test_broken_properties_do_no_harm_to_a_change_of_priority(stage: Stage) -> None:
    queue = stage.queue("q")
    raw = bytearray(letter("broken", "q", _AMQ_GROUP_ID="red").raw)
    del raw[-3:]
    stage.send(CoreMessage.parse(raw))
    (reference,) = [each for each in stage.kernel.teardown.take_waiting(queue) if each is not None]
    stage.kernel.mover.change_priority(queue, reference, 9)
    stage.run_all()
    assert (queue.message_count, only(stage, "q").priority) == (1, 9)
    stage.kernel.check()


def test_an_expired_message_is_moved_instead_of_delivered(stage: Stage) -> None:
    stage.queue("q")
    stage.send(expiring(stage, "late", "q"), letter("m", "q"))
    stage.kernel.now_ms += 1000
    _consumer, taker = stage.consumer(stage.session(), "q")
    stage.run_all()
    assert taker.texts == ["m"]
    assert stage.waiting("ExpiryQueue") == ["late"]
    copy = only(stage, "ExpiryQueue")
    assert copy.properties["_AMQ_ACTUAL_EXPIRY"] == stage.kernel.now_ms
    assert copy.properties.type_of("_AMQ_ACTUAL_EXPIRY") is PropertyType.LONG
    assert copy.properties["_AMQ_ORIG_QUEUE"] == "q"
    assert copy.expiration == 0


def test_a_message_that_comes_expired_is_moved_too(stage: Stage) -> None:
    stage.queue("q")
    _consumer, taker = stage.consumer(stage.session(), "q")
    stage.send(expiring(stage, "late", "q", in_ms=-5))
    stage.run_all()
    assert (taker.got, stage.waiting("ExpiryQueue")) == ([], ["late"])


def test_a_message_is_not_expired_a_moment_before(stage: Stage) -> None:
    stage.queue("q")
    stage.send(expiring(stage, "m", "q"))
    stage.kernel.now_ms += 999
    _consumer, taker = stage.consumer(stage.session(), "q")
    stage.run()
    assert taker.texts == ["m"]


def test_the_scan_finds_what_nobody_consumes(stage: Stage) -> None:
    stage.queue("q")
    stage.queue("empty")
    for number in range(50):
        stage.send(expiring(stage, str(number), "q") if number % 2 else letter(str(number), "q"))
    stage.pass_time(29)
    assert len(stage.waiting("q")) == 50
    stage.pass_time(2)
    assert stage.waiting("q") == [str(number) for number in range(0, 50, 2)]
    assert len(stage.waiting("ExpiryQueue")) == 25


def test_the_scan_works_in_slices_while_messages_are_consumed(stage: Stage) -> None:
    """Artemis' ExpiryRunnerTest.testExpireWhilstConsumingMessagesStillInOrder."""
    stage.queue("q")
    for number in range(1500):
        stage.send(expiring(stage, str(number), "q") if number % 3 else letter(str(number), "q"))
    housekeeping, slices = stage.kernel.housekeeping, 0
    stage.kernel.now_ms += 31_000
    consumer, taker = stage.consumer(stage.session(pre_acknowledge=True), "q", credit=0)
    housekeeping.run(31.0)
    while housekeeping.next_deadline(31.0) == 31.0:
        consumer.add_credit(20)
        stage.run_all()
        housekeeping.run(31.0)
        slices += 1
    consumer.add_credit(10_000)
    stage.run_all()
    assert slices >= 3
    assert taker.texts == [str(number) for number in range(0, 1500, 3)]
    assert len(stage.waiting("ExpiryQueue")) == 1000


def test_a_scan_period_of_minus_one_switches_it_off() -> None:
    stage = Stage(message_expiry_scan_period_ms=-1, address_queue_scan_period_ms=-1)
    stage.queue("q")
    stage.send(expiring(stage, "m", "q"))
    assert stage.kernel.housekeeping.next_deadline(0.0) == math.inf
    stage.pass_time(1000)
    assert stage.waiting("q") == ["m"]


def test_a_client_may_report_a_message_as_expired(stage: Stage) -> None:
    queue = stage.queue("q")
    stage.send(letter("m", "q"))
    session = stage.session()
    consumer, taker = stage.consumer(session, "q")
    stage.run()
    session.settle(consumer.key, taker.messages[0].message_id, Outcome.EXPIRED)
    session.settle(consumer.key, 4711, Outcome.EXPIRED)
    session.settle(99, 4711, Outcome.EXPIRED)
    assert (queue.message_count, stage.waiting("ExpiryQueue")) == (0, ["m"])


def test_nothing_expires_on_the_expiry_address(stage: Stage) -> None:
    stage.send(expiring(stage, "m", "ExpiryQueue"))
    stage.pass_time(100)
    session = stage.session()
    consumer, taker = stage.consumer(session, "ExpiryQueue")
    stage.run_all()
    assert taker.texts == ["m"]
    # A client that finds it expired gets it back as a message that never expires.
    session.settle(consumer.key, taker.messages[0].message_id, Outcome.EXPIRED)
    stage.run_all()
    assert taker.texts == ["m", "m"]
    assert taker.messages[1].expiration == 0


def test_without_expiry_address_expired_messages_are_dropped() -> None:
    stage = Stage({"#": AddressSettings()})
    stage.queue("q")
    stage.send(expiring(stage, "a", "q"), expiring(stage, "b", "q"))
    stage.pass_time(31)
    assert sum("no expiry address" in line for line in stage.log) == 1
    stage.assert_empty()


def test_a_message_in_two_queues_expires_in_both(stage: Stage) -> None:
    """Artemis' ExpiryAddressTest.testBasicSendToMultipleQueues."""
    for name in ("x", "y"):
        stage.queue(name, "t", MULTICAST)
    stage.send(expiring(stage, "m", "t"))
    stage.pass_time(31)
    assert stage.waiting("ExpiryQueue") == ["m", "m"]


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        (AddressSettings(expiry_delay_ms=500), 0, 500),
        (AddressSettings(expiry_delay_ms=500), 90_000, 90_000),
        (AddressSettings(max_expiry_delay_ms=700, min_expiry_delay_ms=300), 0, 700),
        (AddressSettings(min_expiry_delay_ms=300), 0, 300),
        (AddressSettings(max_expiry_delay_ms=700), 5000, 700),
        (AddressSettings(min_expiry_delay_ms=1000), 100, 1000),
        (AddressSettings(min_expiry_delay_ms=10, max_expiry_delay_ms=900), 500, 500),
        (AddressSettings(), 0, 0),
    ],
)
def test_settings_change_expirations(settings: AddressSettings, given: int, expected: int) -> None:
    stage = Stage({"q": settings})
    stage.queue("q")
    now = stage.kernel.now_ms
    stage.send(letter("m", "q", expiration=now + given if given else 0))
    assert only(stage, "q").expiration == (now + expected if expected else 0)


def test_they_change_expirations_of_what_is_sent_to_a_fully_qualified_name() -> None:
    stage = Stage({"a": AddressSettings(expiry_delay_ms=500)})
    stage.queue("q", "a")
    stage.send(letter("m", "a::q"))
    assert (only(stage, "q").address, only(stage, "q").expiration) == ("a::q", stage.kernel.now_ms + 500)


def test_no_route_goes_to_the_dead_letter_address_where_wished() -> None:
    stage = Stage({"#": DEFAULT, "r.#": AddressSettings(send_to_dla_on_no_route=True)})
    for name in ("r.a", "other"):
        stage.kernel.address_manager.create_address(name, anycast=False, multicast=True, auto_created=False)
        stage.send(letter(name, name, routing_type=RoutingType.MULTICAST), routing_type=MULTICAST)
    assert stage.waiting("DLQ") == ["r.a"]
    properties = only(stage, "DLQ").properties
    assert (properties["_AMQ_ORIG_ADDRESS"], properties["_AMQ_ORIG_QUEUE"]) == ("r.a", None)
    assert "_AMQ_ROUTING_TYPE" not in properties


def test_what_had_no_route_expires_as_the_dead_letter_address_says() -> None:
    dead = AddressSettings(expiry_delay_ms=500)
    stage = Stage({"#": DEFAULT, "r.#": AddressSettings(send_to_dla_on_no_route=True), "DLQ": dead})
    stage.kernel.address_manager.create_address("r.a", anycast=False, multicast=True, auto_created=False)
    stage.send(letter("m", "r.a"), routing_type=MULTICAST)
    assert only(stage, "DLQ").expiration == stage.kernel.now_ms + 500


def test_no_route_in_a_transaction_waits_for_its_end() -> None:
    stage = Stage({"#": DEFAULT, "r.#": AddressSettings(send_to_dla_on_no_route=True)})
    stage.kernel.address_manager.create_address("r.a", anycast=False, multicast=True, auto_created=False)
    session = stage.session(transacted=True)
    for commit in (False, True):
        stage.send(letter("m", "r.a"), session=session, routing_type=MULTICAST)
        assert stage.waiting("DLQ") == []
        if commit:
            session.commit()
        else:
            session.rollback(last_delivered=False)
    assert stage.waiting("DLQ") == ["m"]


def test_expired_messages_of_a_deleted_queue_are_gone(stage: Stage) -> None:
    queue = stage.queue("q")
    stage.consumer(stage.session(), "q")
    stage.send(expiring(stage, "m", "q", in_ms=-1))
    stage.kernel.teardown.delete_queue(queue)
    stage.run_all()
    assert stage.waiting("ExpiryQueue") == []
    stage.assert_empty()


def test_the_copy_of_a_durable_queue_holds_the_body(stage: Stage) -> None:
    stage.queue("twice.q")
    stage.send(letter("a body", "twice.q", durable=True))
    fail_once(stage, "twice.q")
    fail_once(stage, "twice.q")
    assert text_of(only(stage, "DLQ")) == "a body"
