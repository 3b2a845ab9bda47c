"""Duplicate detection in the kernel: what is dropped, what fails, what is remembered and what is forgotten."""

from __future__ import annotations

import tracemalloc

import pytest

from embedbroker.config import AddressSettings
from embedbroker.kernel import DuplicateId, Refused, Session
from embedbroker.kernel.transactions._duplicate_ids import ENTRY_OVERHEAD_BYTES
from embedclient.errors import ErrorCode
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import ANYCAST, MULTICAST, Stage

REJECTED = ErrorCode.DUPLICATE_ID_REJECTED
PLAIN = {"#": AddressSettings()}


@pytest.fixture
def stage() -> Stage:
    stage = Stage(PLAIN)
    stage.queue("orders")
    stage.store.records.clear()
    return stage


def send(
    stage: Stage,
    text: str,
    duplicate_id: bytes,
    session: Session | None = None,
    address: str = "orders",
    *,
    durable: bool = True,
    routing_type: int | None = None,
) -> Refused | None:
    message = letter(text, address, durable=durable)
    if session is not None:
        return session.send(message, routing_type, duplicate_id)
    return stage.kernel.router.send(message, routing_type, None, duplicate_id)


def ids_of(stage: Stage, address: str = "orders") -> list[bytes]:
    cache = stage.kernel.address_manager.addresses[address].duplicate_ids
    return list(cache.numbers) if cache is not None else []


def test_ids_that_are_cleared_are_recorded_as_such_and_accepted_again(stage: Stage) -> None:
    for number in range(3):
        send(stage, f"message {number}", b"id %d" % number)
    send(stage, "not durable", b"id 3", durable=False)
    address = stage.kernel.address_manager.addresses["orders"]
    cache = address.duplicate_ids
    assert cache is not None and len(cache) == 4
    recorded = [number for number in cache.numbers.values() if number]
    stage.kernel.duplicates.forget_all(address)
    assert stage.kernel.duplicates.used_bytes == 0 and ids_of(stage) == []
    assert stage.store.of_kind("clear ids") == [("clear ids", address.definition.id, recorded)]
    assert send(stage, "message 0 again", b"id 0") is None
    stage.run()
    assert stage.waiting("orders") == ["message 0", "message 1", "message 2", "not durable", "message 0 again"]


def test_many_cleared_ids_are_freed_in_portions_and_count_no_more_at_once(stage: Stage) -> None:
    address = stage.kernel.address_manager.addresses["orders"]
    entries = [DuplicateId(100 + number, address.definition.id, b"id %d" % number) for number in range(1_000)]
    stage.kernel.duplicates.restore(entries, {address.definition.id: address})
    cache = address.duplicate_ids
    assert cache is not None and cache.used_bytes == stage.kernel.duplicates.used_bytes > 0
    left = cache.numbers
    stage.kernel.duplicates.forget_all(address)
    assert stage.kernel.duplicates.used_bytes == cache.used_bytes == len(cache) == 0
    assert len(left) == 1_000
    send(stage, "again", b"id 7")
    assert stage.kernel.deferred.run(5) == 5 and 0 < len(left) < 1_000
    stage.run_all()
    assert not left and ids_of(stage) == [b"id 7"]
    assert stage.kernel.duplicates.used_bytes == cache.used_bytes == ENTRY_OVERHEAD_BYTES + 4


@pytest.mark.parametrize("begun", [False, True])
def test_a_clear_includes_the_ids_of_a_commit_that_is_still_carried_out(stage: Stage, begun: bool) -> None:
    stage.queue("others")
    session = stage.session(transacted=True)
    for number in range(200):
        send(stage, f"message {number}", b"id %d" % number, session)
    send(stage, "elsewhere", b"other", session, address="others")
    numbers = [record[1] for record in stage.store.of_kind("id")]
    assert session.commit() is None
    while begun and not ids_of(stage):
        stage.run(16)
    assert len(ids_of(stage)) < 200
    address = stage.kernel.address_manager.addresses["orders"]
    assert stage.session().addresses.forget_duplicate_ids("orders") is address
    ((_kind, address_id, cleared),) = stage.store.of_kind("clear ids")
    assert isinstance(cleared, list)
    assert address_id == address.definition.id and sorted(cleared) == numbers[:200]
    # In force again at once, also while the commit is carried out.
    for _ in range(2):
        assert send(stage, "message 7 again", b"id 7") is None
    stage.run_all()
    assert ids_of(stage) == [b"id 7"] and ids_of(stage, "others") == [b"other"]
    assert sum(text == "message 7 again" for text in stage.waiting("orders")) == 1
    assert stage.kernel.statistics().claimed_duplicate_ids == 0
    stage.kernel.check()


def test_a_second_message_with_the_id_is_dropped_and_its_sender_sees_success(stage: Stage) -> None:
    assert send(stage, "first", b"id") is None
    assert send(stage, "second", b"id") is None
    assert send(stage, "other", b"di") is None
    stage.run()
    assert stage.waiting("orders") == ["first", "other"]
    assert stage.log == ["a duplicate of a message to 'orders' is dropped, its id is 6964"]
    assert stage.store.of_kind("once", "id") == [
        ("once", "first", b"id"),
        ("once", "other", b"di"),
    ]


def test_the_log_shows_text_as_text(stage: Stage) -> None:
    for _ in range(2):
        send(stage, "m", "payment-7".encode("utf-16-le"))
    assert stage.log[0].endswith("its id is 'payment-7'")


def test_ids_of_messages_that_nothing_keeps_are_recorded_alone(stage: Stage) -> None:
    stage.queue("temporary", temporary=True)
    stage.store.records.clear()
    send(stage, "m", b"1", address="temporary", durable=True)
    send(stage, "m", b"2", durable=False)
    assert [record[:1] + record[2:] for record in stage.store.records] == [("id", b"1", 0), ("id", b"2", 0)]


def test_a_message_that_no_queue_takes_leaves_its_id(stage: Stage) -> None:
    stage.queue("red", "colours", MULTICAST, filter="colour = 'red'")
    send(stage, "blue", b"id", address="colours")
    send(stage, "blue", b"id", address="colours")
    assert len(stage.log) == 1


def test_a_send_that_is_refused_leaves_no_id() -> None:
    stage = Stage({"#": AddressSettings(auto_create_addresses=False, auto_create_queues=False)})
    assert send(stage, "m", b"id", routing_type=ANYCAST) is not None
    stage.kernel.address_manager.create_address("orders", anycast=True, multicast=False, auto_created=False)
    stage.queue("orders")
    assert send(stage, "m", b"id", routing_type=ANYCAST) is None
    stage.run()
    assert stage.waiting("orders") == ["m"]


def test_all_queues_of_an_address_share_its_ids() -> None:
    stage = Stage(PLAIN)
    for name, routing_type in (("a", ANYCAST), ("b", ANYCAST), ("c", MULTICAST)):
        stage.queue(name, "shared", routing_type)
    send(stage, "by name", b"1", address="shared::b")
    send(stage, "by address", b"1", address="shared")
    send(stage, "by another name", b"1", address="shared::c", routing_type=MULTICAST)
    send(stage, "elsewhere", b"1", address="else", routing_type=ANYCAST)
    stage.run()
    assert [stage.waiting(name) for name in ("a", "b", "c", "else")] == [[], ["by name"], [], ["elsewhere"]]
    send(stage, "both", b"2", address="shared", routing_type=MULTICAST)
    send(stage, "both again", b"2", address="shared", routing_type=ANYCAST)
    stage.run()
    assert [stage.waiting(name) for name in ("a", "b", "c")] == [[], ["by name"], ["both"]]


def test_the_first_message_of_an_address_made_on_demand_has_its_id() -> None:
    stage = Stage(PLAIN)
    for text in ("first", "second"):
        send(stage, text, b"id", address="new::queue", routing_type=ANYCAST)
    stage.run()
    assert stage.waiting("queue") == ["first"]


# -- transactions ----------------------------------------------------------------------------------------------------


def test_a_duplicate_in_a_transaction_undoes_all_of_it(stage: Stage) -> None:
    """Artemis' DuplicateDetectionTest.testEntireTransactionRejected."""
    stage.queue("work")
    stage.send(letter("task", "work", durable=True))
    send(stage, "first", b"id")
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "work")
    stage.run()
    session.settle(consumer.key, taker.messages[0].message_id, through=True)
    assert send(stage, "new", b"new", session) is None
    assert send(stage, "second", b"id", session) is None
    refused = session.commit()
    assert refused is not None and refused.code == REJECTED
    stage.run()
    assert stage.waiting("orders") == ["first"]
    assert taker.got == [("task", 1), ("task", 2)]
    assert ids_of(stage) == [b"id"]
    # The id that was rolled back is free, and the session goes on.
    assert send(stage, "again", b"new", session) is None and session.commit() is None
    stage.run()
    assert stage.waiting("orders") == ["first", "again"]


def test_ids_of_a_transaction_count_from_its_commit(stage: Stage) -> None:
    session = stage.session(transacted=True)
    send(stage, "in", b"id", session)
    assert ids_of(stage) == []
    assert session.commit() is None
    assert ids_of(stage) == [b"id"]
    kinds = [record[0] for record in stage.store.records]
    assert kinds == ["add", "id", "commit"]


def test_a_rollback_frees_the_id(stage: Stage) -> None:
    """Artemis' DuplicateDetectionTest.testRollbackThenSend."""
    session = stage.session(transacted=True)
    send(stage, "undone", b"id", session)
    session.rollback(last_delivered=False)
    assert send(stage, "done", b"id") is None
    stage.run()
    assert stage.waiting("orders") == ["done"]


def test_an_id_alone_makes_a_transaction_one_that_is_recorded(stage: Stage) -> None:
    session = stage.session(transacted=True)
    send(stage, "m", b"id", session, durable=False)
    assert session.commit() is None
    assert [record[0] for record in stage.store.records] == ["id", "commit"]


def test_of_two_transactions_with_the_same_id_the_first_one_commits(stage: Stage) -> None:
    first, second = stage.session(transacted=True), stage.session(transacted=True)
    send(stage, "first", b"id", first)
    send(stage, "other", b"other", second)
    send(stage, "second", b"id", second)
    assert first.commit() is None
    refused = second.commit()
    assert refused is not None and refused.code == REJECTED
    stage.run()
    assert stage.waiting("orders") == ["first"] and ids_of(stage) == [b"id"]


def test_a_send_outside_wins_over_an_open_transaction(stage: Stage) -> None:
    session = stage.session(transacted=True)
    send(stage, "inside", b"id", session)
    assert send(stage, "outside", b"id") is None
    refused = session.commit()
    assert refused is not None and refused.code == REJECTED
    stage.run()
    assert stage.waiting("orders") == ["outside"]


def test_the_same_id_twice_in_one_transaction_is_taken_twice(stage: Stage) -> None:
    session = stage.session(transacted=True)
    send(stage, "one", b"id", session)
    send(stage, "two", b"id", session)
    assert session.commit() is None
    stage.run()
    assert stage.waiting("orders") == ["one", "two"] and ids_of(stage) == [b"id"]


def test_a_prepared_transaction_holds_its_ids(stage: Stage) -> None:
    kernel = stage.kernel
    first, second = kernel.transactions.begin(), kernel.transactions.begin()
    for transaction in (first, second):
        kernel.router.send(letter("m", "orders", durable=True), None, transaction, b"id")
    first.hold()
    refused = send(stage, "outside", b"id")
    assert refused is not None and refused.code == REJECTED
    second.hold()
    assert second.failure_code == REJECTED
    second.rollback()
    first.rollback()
    assert send(stage, "free", b"id") is None


def test_ids_of_a_large_transaction_count_from_the_commit_and_take_their_turns() -> None:
    stage = Stage(PLAIN, id_cache_size=2_000)
    stage.queue("orders")
    session, other = stage.session(transacted=True), stage.session(transacted=True)
    for number in range(1_000):
        send(stage, f"{number}", b"%d" % number, session)
    send(stage, "other", b"998", other)
    assert session.commit() is None
    assert len(ids_of(stage)) < 1_000
    assert send(stage, "again", b"999") is None
    refused = other.commit()
    assert refused is not None and refused.code == REJECTED
    send(stage, "in", b"997", other)
    assert other.commit() is not None
    assert stage.run_all(100) > 5
    assert len(ids_of(stage)) == 1_000 and stage.kernel.statistics().claimed_duplicate_ids == 0
    assert len(stage.waiting("orders")) == 1_000


def test_a_failure_before_keeps_its_reason(stage: Stage) -> None:
    session = stage.session(transacted=True)
    session.fail_transaction("something else")
    send(stage, "m", b"id", session)
    refused = session.commit()
    assert refused is not None and refused.code == ErrorCode.TRANSACTION_ROLLED_BACK


# -- limits ----------------------------------------------------------------------------------------------------------


def test_the_oldest_id_leaves_a_full_cache() -> None:
    """Artemis' DuplicateDetectionTest.testCacheSize."""
    stage = Stage({"#": AddressSettings(), "few": AddressSettings(id_cache_size=2)}, id_cache_size=3)
    for address in ("orders", "few"):
        stage.queue(address)
    for number in range(4):
        for address in ("orders", "few"):
            send(stage, f"{number}", b"%d" % number, address=address)
    assert ids_of(stage) == [b"1", b"2", b"3"] and ids_of(stage, "few") == [b"2", b"3"]
    send(stage, "0 again", b"0", address="few")
    send(stage, "3 again", b"3", address="few")
    stage.run()
    assert stage.waiting("few") == ["0", "1", "2", "3", "0 again"]
    forgotten = [number for _kind, number in stage.store.of_kind("forget")]
    assert len(forgotten) == len(set(forgotten)) == 4


@pytest.mark.parametrize("by_address", [True, False])
def test_without_room_for_ids_nothing_is_a_duplicate(by_address: bool) -> None:
    settings = {"#": AddressSettings(id_cache_size=0 if by_address else None)}
    stage = Stage(settings, id_cache_size=9 if by_address else 0)
    stage.queue("orders")
    stage.store.records.clear()
    for _ in range(2):
        send(stage, "m", b"id")
    stage.run()
    assert stage.waiting("orders") == ["m", "m"]
    assert [record[0] for record in stage.store.records] == ["add", "add"]


def test_ids_that_are_not_persisted_are_in_no_record() -> None:
    stage = Stage(PLAIN, persist_id_cache=False)
    stage.queue("orders")
    stage.store.records.clear()
    session = stage.session(transacted=True)
    send(stage, "one", b"1")
    send(stage, "two", b"2", session)
    assert session.commit() is None
    assert [record[0] for record in stage.store.records] == ["add", "add", "commit"]
    send(stage, "one again", b"1")
    stage.run()
    assert stage.waiting("orders") == ["one", "two"]


def test_long_ids_are_told_apart_and_take_no_more_than_others(stage: Stage) -> None:
    long, longer = b"x" * 100_000, b"x" * 99_999 + b"y"
    for duplicate_id in (long, longer, long, b"x" * 128, b"x" * 129):
        send(stage, "m", duplicate_id)
    assert len(ids_of(stage)) == 4
    assert max(map(len, ids_of(stage))) <= 129
    assert len(stage.log[0]) < 400


def test_memory_for_ids_is_bounded_over_all_addresses() -> None:
    stage = Stage(PLAIN, id_cache_bytes_max=10 * (ENTRY_OVERHEAD_BYTES + 8))
    for name in ("a", "b"):
        stage.queue(name)
    for number in range(8):
        send(stage, "m", b"%08d" % number, address="a")
    for number in range(8):
        send(stage, "m", b"%08d" % number, address="b")
    assert [len(ids_of(stage, name)) for name in ("a", "b")] == [2, 8]
    assert ids_of(stage, "a") == [b"00000006", b"00000007"]
    assert stage.kernel.duplicates.used_bytes == 10 * (ENTRY_OVERHEAD_BYTES + 8)
    assert len([line for line in stage.log if "id_cache_bytes_max" in line]) == 1
    for number in range(20):
        send(stage, "m", b"%08d" % (100 + number), address="b")
    assert [len(ids_of(stage, name)) for name in ("a", "b")] == [0, 10]


def test_an_id_costs_no_more_than_is_counted() -> None:
    stage = Stage(PLAIN)
    stage.queue("orders", filter="FALSE")
    ids = [(b"%036d" % number) for number in range(20_000)]
    send(stage, "m", b"first")
    tracemalloc.start()
    for duplicate_id in ids:
        stage.kernel.duplicates.accept(
            stage.kernel.duplicates.identify(
                stage.kernel.address_manager.addresses["orders"], bytes(bytearray(duplicate_id))
            ),
            None,
        )
        stage.store.records.clear()
    taken, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    counted = stage.kernel.duplicates.used_bytes
    assert 0.6 * counted < taken < counted, (taken, counted)


# -- the way of an address -------------------------------------------------------------------------------------------


def test_ids_go_with_their_address(stage: Stage) -> None:
    queue = stage.queue("reply", temporary=True)
    send(stage, "m", b"id", address="reply", routing_type=ANYCAST)
    held = stage.kernel.duplicates.used_bytes
    session = stage.session(transacted=True)
    send(stage, "late", b"late", session, address="reply")
    stage.kernel.teardown.delete_queue(queue)
    assert held and stage.kernel.duplicates.used_bytes == 0
    assert session.commit() is None
    assert stage.kernel.duplicates.used_bytes == 0
    stage.queue("reply", temporary=True)
    send(stage, "again", b"id", address="reply")
    stage.run()
    assert stage.waiting("reply") == ["again"]


def test_an_address_with_ids_is_there_after_a_restart_and_goes_when_nobody_uses_it() -> None:
    stage = Stage(PLAIN)
    for _ in range(2):
        send(stage, "m", b"id", address="made", routing_type=ANYCAST)
    stage.kernel.teardown.purge(stage.kernel.address_manager.queues["made"])
    stage.kernel.housekeeping.at_start()
    assert "made" not in stage.kernel.address_manager.queues
    send(stage, "m", b"id", address="made")
    assert len(stage.log) == 2
    stage.pass_time(200)
    assert "made" not in stage.kernel.address_manager.addresses and stage.kernel.duplicates.used_bytes == 0


def test_dead_letters_are_not_checked_but_their_ids_are_kept_where_they_go() -> None:
    stage = Stage({"#": AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=1)})
    stage.queue("orders")
    for text in ("one", "two"):
        message = letter(text, "orders", durable=True, _AMQ_DUPL_ID=b"id")
        assert stage.kernel.router.send(message, None, None, b"id" if text == "one" else b"other") is None
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "orders")
    stage.run()
    session.settle(consumer.key, taker.messages[-1].message_id, through=True)
    session.rollback(last_delivered=False)
    stage.run()
    assert stage.waiting("DLQ") == ["one", "two"] and ids_of(stage, "DLQ") == [b"id"]
    send(stage, "third", b"id", address="DLQ")
    stage.run()
    assert stage.waiting("DLQ") == ["one", "two"]


# -- recovery --------------------------------------------------------------------------------------------------------


def restored(stage: Stage, *values: bytes) -> list[bytes]:
    address = stage.kernel.address_manager.addresses["orders"]
    entries = [DuplicateId(100 + at, address.definition.id, value) for at, value in enumerate(values)]
    stage.kernel.duplicates.restore(entries, {address.definition.id: address})
    return ids_of(stage)


def test_the_newest_ids_come_back_in_their_order() -> None:
    stage = Stage(PLAIN, id_cache_size=3)
    stage.queue("orders")
    stage.store.records.clear()
    assert restored(stage, b"a", b"b", b"c", b"b", b"d") == [b"c", b"b", b"d"]
    assert stage.store.records == [("forget", 101), ("forget", 100)]
    assert stage.kernel.duplicates.used_bytes == 3 * (ENTRY_OVERHEAD_BYTES + 1)


def test_ids_of_an_address_that_another_took_the_place_of_are_forgotten() -> None:
    stage = Stage(PLAIN)
    stage.kernel.duplicates.restore([DuplicateId(100, 5, b"id")], {})
    assert stage.store.of_kind("forget") == [("forget", 100)]


@pytest.mark.parametrize(("persists", "size"), [(False, 9), (True, 0)])
def test_what_was_recorded_before_it_was_switched_off_is_forgotten(persists: bool, size: int) -> None:
    stage = Stage(PLAIN, persist_id_cache=persists, id_cache_size=size)
    stage.queue("orders")
    assert restored(stage, b"a", b"b") == []
    assert stage.store.of_kind("forget") == [("forget", 100), ("forget", 101)]


def test_what_was_sent_twice_is_refused_to_who_commits_later_and_not_to_who_outlives_a_rollback() -> None:
    stage = Stage(PLAIN)
    stage.queue("orders")
    first, second, third = (stage.session(transacted=True) for _ in range(3))
    for session in (first, second, third):
        send(stage, "the same", b"id", session)
    first.rollback(last_delivered=False)
    assert second.commit() is None
    refused = third.commit()
    assert refused is not None and refused.code == REJECTED
    assert stage.waiting("orders") == ["the same"]
    assert stage.kernel.statistics().claimed_duplicate_ids == 0


def test_an_id_that_comes_into_force_meanwhile_fails_the_transaction() -> None:
    stage = Stage(PLAIN)
    stage.queue("orders")
    session = stage.session(transacted=True)
    send(stage, "in a transaction", b"id", session)
    send(stage, "at once", b"id")
    refused = session.commit()
    assert refused is not None and refused.code == REJECTED
    assert stage.waiting("orders") == ["at once"]
    assert stage.kernel.statistics().claimed_duplicate_ids == 0
