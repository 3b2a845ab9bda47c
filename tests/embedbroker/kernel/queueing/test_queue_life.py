"""How queues and addresses end: deletion, temporary and transient queues, purging, auto-deletion, the start."""

from __future__ import annotations

import pytest

from embedbroker.config import AddressSettings, BrokerConfig
from embedbroker.kernel import AddressDefinition, Consumer, Kernel, QueueDefinition
from embedbroker.kernel.queueing._queue import Queue
from embedbroker.protocols import restore_message
from tests.embedbroker.kernel.cost import Cost, cost_of
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import ANYCAST, MULTICAST, LaggingStore, Stage, Taker

SCAN_S = 30.0


@pytest.fixture
def stage() -> Stage:
    return Stage()


def exists(stage: Stage, queue: str) -> bool:
    return queue in stage.kernel.address_manager.queues


def has_address(stage: Stage, name: str) -> bool:
    return name in stage.kernel.address_manager.addresses


def use(stage: Stage, queue: str) -> None:
    """A consumer comes, takes everything and goes."""
    session = stage.session(pre_acknowledge=True)
    stage.consumer(session, queue)
    stage.run_all()
    session.close(failed=False)


def test_deleting_a_queue_frees_what_it_held_and_tells_its_consumers(stage: Stage) -> None:
    queue = stage.queue("q")
    stage.send(*[letter(str(number), "q", durable=True) for number in range(5)])
    consumer, taker = stage.consumer(stage.session(), "q", credit=2)
    browser, browsed = stage.consumer(stage.session(), "q", browse=True)
    stage.run()
    stage.kernel.teardown.delete_queue(queue)
    assert (taker.closed, browsed.closed) == ([consumer.key], [browser.key])
    assert not exists(stage, "q")
    assert stage.store.of_kind("no queue") == [("no queue", queue.id)]
    stage.assert_empty()


def test_a_deleted_queue_sends_nothing_to_the_dead_letter_address() -> None:
    stage = Stage({"#": AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=1)})
    queue = stage.queue("q")
    stage.send(letter("m", "q"))
    stage.consumer(stage.session(), "q")
    stage.run()
    stage.kernel.teardown.delete_queue(queue)
    stage.assert_empty()


def test_an_auto_created_address_goes_with_its_last_queue(stage: Stage) -> None:
    stage.send(letter("m", "a"), routing_type=ANYCAST)
    other = stage.queue("x", "a", MULTICAST)
    stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["a"])
    assert has_address(stage, "a")
    stage.kernel.teardown.delete_queue(other)
    assert not has_address(stage, "a")
    assert stage.store.records[-1][0] == "no address"


def test_an_address_made_by_hand_or_with_a_delay_stays() -> None:
    """Artemis' AddressQueueDeleteDelayTest.testAddressDeleteDelayNegative."""
    stage = Stage({"slow.#": AddressSettings(auto_delete_addresses_delay_ms=1000)})
    stage.kernel.address_manager.create_address("hand", anycast=True, multicast=False, auto_created=False)
    for name in ("hand", "slow.a"):
        stage.kernel.teardown.delete_queue(stage.queue(name))
        assert has_address(stage, name)


def test_a_temporary_queue_takes_its_address_along_but_not_one_made_by_hand(stage: Stage) -> None:
    """Artemis' TemporaryQueueTest.testPreserveNonTemporaryAddressAfterConnectionIsClosed."""
    stage.kernel.address_manager.create_address("hand", anycast=True, multicast=False, auto_created=False)
    for name, address in (("t1", "t1"), ("t2", "hand")):
        queue = stage.queue(name, address, temporary=True)
        assert not queue.durable
        stage.kernel.teardown.delete_queue(queue)
    assert not has_address(stage, "t1") and has_address(stage, "hand")


def test_temporary_queues_are_not_recorded(stage: Stage) -> None:
    stage.store.records.clear()
    queue = stage.queue("t", temporary=True)
    stage.send(letter("m", "t", durable=True))
    stage.kernel.teardown.delete_queue(queue)
    assert [record[0] for record in stage.store.records if record[0] not in ("address", "no address")] == []
    stage.assert_empty()


@pytest.mark.parametrize("failed", [True, False])
def test_a_transient_queue_goes_with_its_last_consumer(stage: Stage, failed: bool) -> None:
    """Artemis' TransientQueueTest.testSimpleTransientQueue."""
    stage.queue("s", "t", MULTICAST, shared=True, durable=False)
    first, second = stage.session(), stage.session()
    for session in (first, second):
        stage.consumer(session, "s")
    stage.send(letter("m", "t"))
    first.close(failed=failed)
    assert exists(stage, "s")
    second.close(failed=failed)
    assert not exists(stage, "s")
    stage.assert_empty()


def test_a_transient_queue_stays_for_a_consumer_that_takes_the_place_of_its_last_one(stage: Stage) -> None:
    stage.queue("s", "t", MULTICAST, shared=True, durable=False)
    session = stage.session()
    replaced, _taker = stage.consumer(session, "s", credit=0)
    stage.send(letter("m", "t"))
    taker = Taker()
    consumer = session.create_consumer(replaced.key, "s", None, taker, browse=False, priority=0)
    assert isinstance(consumer, Consumer)
    consumer.add_credit(10)
    stage.run()
    assert exists(stage, "s") and taker.texts == ["m"]
    session.close(failed=False)
    assert not exists(stage, "s")
    stage.assert_empty()


def test_purging_drops_what_is_there_when_the_last_consumer_leaves(stage: Stage) -> None:
    """Artemis' AddressingTest.testPurgeOnNoConsumersTrue."""
    stage.queue("q", purge_on_no_consumers=True)
    stage.send(letter("early", "q"))
    assert stage.waiting("q") == []
    first, second = stage.session(), stage.session()
    stage.consumer(first, "q", credit=1)
    stage.consumer(second, "q", credit=0)
    stage.send(*[letter(text, "q", durable=True) for text in "abc"])
    first.close(failed=False)
    assert stage.waiting("q") == ["a", "b", "c"]
    second.close(failed=False)
    assert stage.waiting("q") == []
    assert len(stage.store.of_kind("acknowledge")) == 3
    stage.assert_empty()


def test_purging_a_long_queue_spares_what_comes_after(stage: Stage) -> None:
    stage.queue("q", purge_on_no_consumers=True)
    session = stage.session()
    stage.consumer(session, "q", credit=0)
    stage.send(*[letter(str(number), "q") for number in range(500)])
    session.close(failed=False)
    _consumer, taker = stage.consumer(stage.session(pre_acknowledge=True), "q")
    stage.send(letter("new", "q"))
    stage.run_all(budget=50)
    assert taker.texts == ["new"]
    stage.assert_empty()


def test_a_queue_that_purges_does_not_keep_other_queues_from_their_message(stage: Stage) -> None:
    stage.queue("purging", "t", MULTICAST, purge_on_no_consumers=True)
    stage.queue("kept", "t", MULTICAST)
    stage.send(letter("m", "t", durable=True))
    assert stage.waiting("kept") == ["m"]
    (add,) = stage.store.of_kind("add")
    references = add[3]
    assert isinstance(references, list)
    assert [queue_id for queue_id, _position in references] == [stage.kernel.address_manager.queues["kept"].id]


def test_an_auto_created_queue_goes_at_the_second_scan_and_its_address_later(stage: Stage) -> None:
    """Artemis' AutoCreateTest.testSweep."""
    stage.send(letter("m", "a"), routing_type=ANYCAST)
    use(stage, "a")
    stage.pass_time(SCAN_S)
    assert exists(stage, "a")
    stage.pass_time(SCAN_S)
    assert not exists(stage, "a") and has_address(stage, "a")
    stage.pass_time(SCAN_S)
    assert not has_address(stage, "a")


def test_a_queue_never_used_stays(stage: Stage) -> None:
    stage.queue("q", auto_created=True)
    stage.pass_time(10 * SCAN_S)
    assert exists(stage, "q")


def test_queues_with_messages_consumers_or_browsers_stay(stage: Stage) -> None:
    for name in ("full", "watched", "browsed"):
        stage.queue(name, auto_created=True)
        use(stage, name)
    stage.send(letter("m", "full"))
    stage.consumer(stage.session(), "watched", credit=0)
    stage.consumer(stage.session(), "browsed", browse=True)
    stage.pass_time(10 * SCAN_S)
    assert exists(stage, "full") and exists(stage, "watched") and exists(stage, "browsed")


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_queue_that_an_open_transaction_sent_to_stays(stage: Stage, ending: str) -> None:
    stage.send(letter("first", "a"), routing_type=ANYCAST)
    use(stage, "a")
    session = stage.session(transacted=True)
    stage.send(letter("m", "a", durable=True), letter("n", "a"), session=session)
    stage.pass_time(10 * SCAN_S)
    if ending == "commit":
        session.commit()
        stage.run_all()
        assert stage.waiting("a") == ["m", "n"]
        use(stage, "a")
    else:
        session.rollback(last_delivered=False)
    stage.pass_time(2 * SCAN_S)
    assert not exists(stage, "a")


@pytest.mark.parametrize("event", ["consumer", "send", "create"])
def test_new_use_between_two_scans_clears_the_mark(stage: Stage, event: str) -> None:
    """Artemis' AutoCreateTest.testNegativeSweepBecauseOfConsumer and
    AutoCreateTest.testNegativeSweepBecauseOfSend.
    """
    stage.queue("q", auto_created=True)
    use(stage, "q")
    stage.pass_time(SCAN_S)
    assert stage.kernel.address_manager.queues["q"].swept
    if event == "consumer":
        use(stage, "q")
    elif event == "send":
        stage.send(letter("m", "q"))
    else:
        stage.queue("q", ignore_if_exists=True)
    stage.pass_time(SCAN_S)
    assert exists(stage, "q")


def test_delays_and_counts_of_the_queue_are_respected(stage: Stage) -> None:
    stage.queue("slow", auto_created=True, auto_delete_delay=100_000)
    stage.queue("counting", auto_created=True, auto_delete_message_count=-1)
    for name in ("slow", "counting"):
        use(stage, name)
    stage.send(letter("m", "counting"))
    stage.pass_time(2 * SCAN_S)
    assert exists(stage, "slow") and not exists(stage, "counting")
    stage.pass_time(4 * SCAN_S)
    assert not exists(stage, "slow")
    stage.assert_empty()


def test_queues_and_addresses_made_on_purpose_stay(stage: Stage) -> None:
    stage.kernel.address_manager.create_address("hand", anycast=True, multicast=False, auto_created=False)
    stage.queue("hand")
    use(stage, "hand")
    stage.pass_time(10 * SCAN_S)
    assert exists(stage, "hand") and has_address(stage, "hand")


def test_settings_say_whether_queues_made_on_purpose_go_too() -> None:
    """Artemis' AutoDeleteCreatedQueueTest.testAutoDeleteCreatedQueueOnLastConsumerClose."""
    stage = Stage(
        {"g.#": AddressSettings(auto_delete_created_queues=True), "k.#": AddressSettings(auto_delete_queues=False)}
    )
    stage.queue("g.q")
    stage.send(letter("m", "k.q"), routing_type=ANYCAST)
    for name in ("g.q", "k.q"):
        use(stage, name)
    stage.pass_time(2 * SCAN_S)
    assert not exists(stage, "g.q") and exists(stage, "k.q")


def test_a_topic_address_goes_after_its_subscriber(stage: Stage) -> None:
    """Artemis' AutoCreateTest.testSweepAddress."""
    queue = stage.queue("sub", "t", MULTICAST, temporary=True)
    stage.pass_time(3 * SCAN_S)
    assert has_address(stage, "t")
    stage.kernel.teardown.delete_queue(queue, keep_address=True)
    stage.pass_time(SCAN_S)
    assert has_address(stage, "t")
    stage.pass_time(SCAN_S)
    assert not has_address(stage, "t")


def test_a_topic_address_without_subscribers_goes_when_nobody_sends_to_it_any_more(stage: Stage) -> None:
    stage.send(letter("m", "t"), routing_type=MULTICAST)
    for _ in range(3):
        stage.pass_time(SCAN_S)
        stage.send(letter("m", "t"), routing_type=MULTICAST)
        assert len(stage.store.of_kind("address", "no address")) == 3
    stage.pass_time(2 * SCAN_S)
    assert not has_address(stage, "t")


def test_a_scan_period_of_minus_one_keeps_everything() -> None:
    stage = Stage(address_queue_scan_period_ms=-1)
    stage.queue("q", auto_created=True)
    use(stage, "q")
    stage.pass_time(10 * SCAN_S)
    assert exists(stage, "q")


def restarted(*, messages: bool) -> Kernel:
    """A kernel after recovery of one auto-created and one other queue."""
    kernel = Kernel(BrokerConfig(), restore_message, lambda _line: None, 1_000_000, LaggingStore())
    for number, name in enumerate(("auto", "hand")):
        auto = name == "auto"
        kernel.address_manager.restore_address(AddressDefinition(10 + number, name, True, False, auto))
        kernel.address_manager.restore_queue(
            QueueDefinition(20 + number, name, name, ANYCAST, auto_created=auto, auto_delete=auto)
        )
    kernel.ids.next_id = 100
    if messages:
        kernel.router.send(letter("m", "auto"), None, None)
    kernel.housekeeping.at_start()
    return kernel


def test_auto_created_queues_that_are_empty_at_the_start_go() -> None:
    """Artemis' AutoCreateTest.testCleanupAfterRebootCore."""
    assert set(restarted(messages=False).address_manager.queues) == {"hand", "DLQ", "ExpiryQueue"}
    assert "auto" not in restarted(messages=False).address_manager.addresses
    assert set(restarted(messages=True).address_manager.queues) == {"auto", "hand", "DLQ", "ExpiryQueue"}


def test_provided_queues_are_created_once() -> None:
    kernel = restarted(messages=False)
    before = {name: queue.id for name, queue in kernel.address_manager.queues.items()}
    kernel.housekeeping.at_start()
    assert {name: queue.id for name, queue in kernel.address_manager.queues.items()} == before


def test_an_address_that_has_a_queue_is_left_as_it_is() -> None:
    kernel = Kernel(BrokerConfig(), restore_message, lambda _line: None, 1_000_000)
    kernel.address_manager.restore_address(AddressDefinition(1, "DLQ", False, True))
    kernel.address_manager.restore_queue(QueueDefinition(2, "letters", "DLQ", MULTICAST))
    kernel.address_manager.restore_address(AddressDefinition(3, "ExpiryQueue", False, True))
    kernel.ids.next_id = 100
    kernel.housekeeping.at_start()
    assert "DLQ" not in kernel.address_manager.queues
    definition = kernel.address_manager.addresses["ExpiryQueue"].definition
    assert (definition.id, definition.anycast, definition.multicast) == (3, True, True)


def test_deleting_a_subscription_costs_the_same_beside_few_and_beside_many(monkeypatch: pytest.MonkeyPatch) -> None:
    # A search for a queue among others is seen.
    monkeypatch.setattr(Queue, "__eq__", lambda one, other: one is other)

    def cost_of_deleting(beside: int) -> Cost:
        stage = Stage()
        for number in range(beside + 50):
            stage.queue(f"s{number}", "topic", MULTICAST)
        doomed = [stage.kernel.address_manager.queues[f"s{number}"] for number in range(beside, beside + 50)]

        def delete_all() -> None:
            for queue in doomed:
                stage.kernel.teardown.delete_queue(queue)

        return cost_of(delete_all)

    few, many = cost_of_deleting(100), cost_of_deleting(4_000)
    assert many.lines < 1.1 * few.lines
    assert many.peak_bytes < few.peak_bytes + 4_000  # a list of the queues takes eight times as much


def test_the_end_of_an_unused_queue_is_no_warning() -> None:
    stage = Stage()
    stage.send(letter("m", "a"), routing_type=ANYCAST)
    use(stage, "a")
    for _ in range(3):
        stage.pass_time(SCAN_S)
    assert not exists(stage, "a")
    assert stage.ordinary == stage.log == ["queue 'a' is deleted: it was auto-created and is not used any more"]
