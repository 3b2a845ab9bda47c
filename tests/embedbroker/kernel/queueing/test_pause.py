"""Queues and addresses that are paused, and queues that are updated: Artemis' acceptance list and its quirks."""

from __future__ import annotations

import pytest

from embedbroker.kernel import (
    Address,
    AddressDefinition,
    CommitObserver,
    Queue,
    QueueDefinition,
    QueueUpdate,
    Refused,
    Session,
)

from ..letters import letter
from ..stage import ANYCAST, MULTICAST, Stage, Taker


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.queue("q")
    return stage


def reader(stage: Stage, name: str = "q") -> tuple[Session, Taker]:
    session = stage.session()
    _, taker = stage.consumer(session, name)
    stage.run()
    return session, taker


def test_a_paused_queue_delivers_nothing_until_it_is_resumed(stage: Stage) -> None:
    session, taker = reader(stage)
    stage.send(letter("before", "q"))
    assert isinstance(session.addresses.pause_queue("q"), Queue)
    stage.send(letter("one", "q"), letter("two", "q"))
    stage.run_all()
    assert taker.texts == ["before"] and stage.waiting("q") == ["one", "two"]
    session.addresses.pause_queue("q")
    session.addresses.resume_queue("q")
    session.addresses.resume_queue("q")
    stage.run_all()
    assert taker.texts == ["before", "one", "two"]
    stage.kernel.check()


def test_acknowledging_browsing_and_markers_go_on(stage: Stage) -> None:
    session, taker = reader(stage)
    stage.send(letter("held", "q"))
    session.addresses.pause_queue("q")
    stage.send(letter("waiting", "q"))
    consumer = next(iter(stage.kernel.address_manager.queues["q"].consumers))
    consumer.queue.force_delivery(consumer, 7)
    _, browser = stage.consumer(session, "q", browse=True)
    stage.run_all()
    assert taker.got == [("held", 1), 7] and browser.texts == ["waiting"]
    session.settle(consumer.key, taker.messages[0].message_id)
    stage.run_all()
    assert stage.kernel.address_manager.queues["q"].message_count == 1


def test_a_rolled_back_message_waits_in_a_paused_queue(stage: Stage) -> None:
    session = stage.session(transacted=True)
    _, taker = stage.consumer(session, "q")
    stage.send(letter("m", "q"))
    stage.run()
    session.addresses.pause_queue("q")
    session.rollback(last_delivered=True)
    stage.run_all()
    assert taker.texts == ["m"] and stage.waiting("q") == ["m"]
    session.addresses.resume_queue("q")
    stage.run_all()
    assert taker.texts == ["m", "m"]


@pytest.mark.parametrize("persist", [False, True])
def test_persisted_pause_and_resume(stage: Stage, persist: bool) -> None:
    """Artemis' testPersistedPauseAndResume: the record follows."""
    session = stage.session()
    before = len(stage.store.of_kind("queue"))
    session.addresses.pause_queue("q", persist=persist)
    session.addresses.resume_queue("q")
    records = [record[1] for record in stage.store.of_kind("queue")[before:]]
    assert [record.paused for record in records if isinstance(record, QueueDefinition)] == (
        [True, False] if persist else []
    )


def test_a_restored_pause_holds() -> None:
    stage = Stage(restored=(AddressDefinition(1, "q", True, False), QueueDefinition(2, "q", "q", ANYCAST, paused=True)))
    session, taker = reader(stage)
    stage.send(letter("m", "q"))
    stage.run_all()
    assert taker.texts == []
    session.addresses.resume_queue("q")
    stage.run_all()
    assert taker.texts == ["m"]


def test_pause_address_server_restart() -> None:
    """Artemis' AddressPauseTest.testPauseAddressServerRestart."""
    stage = Stage(restored=(AddressDefinition(1, "q", True, False, paused=True), QueueDefinition(2, "q", "q", ANYCAST)))
    session, taker = reader(stage)
    stage.queue("later", "q")
    stage.send(letter("m", "q"), letter("n", "q"))
    stage.run_all()
    assert taker.texts == [] and stage.kernel.address_manager.queues["later"].is_paused
    session.addresses.resume_address("q")
    stage.run_all()
    assert taker.texts and not stage.kernel.address_manager.queues["later"].is_paused


def test_a_paused_address_pauses_its_queues(stage: Stage) -> None:
    session, taker = reader(stage)
    assert isinstance(session.addresses.pause_address("q", persist=True), Address)
    later = stage.queue("later", "q", MULTICAST)
    stage.send(letter("m", "q"))
    # As in Artemis: it succeeds, and the queue stays paused with its address.
    session.addresses.resume_queue("q")
    stage.run_all()
    assert taker.texts == [] and stage.kernel.address_manager.queues["later"].is_paused
    session.addresses.pause_queue("later", persist=True)
    session.addresses.resume_address("q")
    stage.run_all()
    assert taker.texts == ["m"]
    assert (later.paused, later.address_paused, later.definition.paused) == (False, False, False)
    addresses = [record[1] for record in stage.store.of_kind("address")]
    assert [each.paused for each in addresses if isinstance(each, AddressDefinition)][-2:] == [True, False]


def test_a_paused_queue_is_purged_and_deleted(stage: Stage) -> None:
    session = stage.session()
    session.addresses.pause_queue("q")
    stage.send(letter("m", "q"))
    stage.kernel.teardown.purge(stage.kernel.address_manager.queues["q"])
    assert stage.waiting("q") == []
    stage.send(letter("n", "q"))
    session.addresses.delete_queue("q")
    stage.run_all()
    assert stage.kernel.memory.used_bytes == 0


@pytest.mark.parametrize("verb", ["pause_queue", "resume_queue", "pause_address", "resume_address"])
def test_what_does_not_exist_cannot_be_paused(stage: Stage, verb: str) -> None:
    assert isinstance(getattr(stage.session().addresses, verb)("nope"), Refused)


# -- updates -----------------------------------------------------------------------------------------------------------


class Watcher(CommitObserver):
    def __init__(self) -> None:
        self.filters: list[str | None] = []

    def queue_updated(self, queue: Queue) -> None:
        self.filters.append(queue.definition.filter)


def test_update_queue(stage: Stage) -> None:
    """Artemis' UpdateQueueTest.testUpdateQueue: new values are recorded, id and messages are kept."""
    watcher = Watcher()
    stage.kernel.observers.subscribe(watcher)
    stage.send(letter("old", "q"))
    before = stage.kernel.address_manager.queues["q"]
    update = QueueUpdate(filter="a = 1", max_consumers=2, exclusive=True, purge_on_no_consumers=False, user="me")
    updated = stage.session().addresses.update_queue("q", update)
    assert updated is before
    found = updated.definition
    assert (found.id, found.filter, found.max_consumers, found.exclusive, found.user) == (
        before.id,
        "a = 1",
        2,
        True,
        "me",
    )
    assert stage.store.of_kind("queue")[-1][1] == found
    stage.send(letter("no", "q"), letter("yes", "q", a=1))
    stage.run_all()
    assert stage.waiting("q") == ["old", "yes"]
    stage.session().addresses.update_queue("q", QueueUpdate(filter="", user=""))
    assert (found := updated.definition).filter is None and found.user is None and found.max_consumers == 2
    assert watcher.filters == ["a = 1", None]
    records = len(stage.store.of_kind("queue"))
    stage.session().addresses.update_queue("q", QueueUpdate(exclusive=True))
    assert len(stage.store.of_kind("queue")) == records


def test_a_queue_that_is_not_exclusive_any_more_serves_all(stage: Stage) -> None:
    stage.session().addresses.update_queue("q", QueueUpdate(exclusive=True))
    _, first = reader(stage)
    _, second = reader(stage)
    stage.send(*[letter(str(number), "q") for number in range(4)])
    assert second.texts == []
    stage.session().addresses.update_queue("q", QueueUpdate(exclusive=False))
    stage.send(*[letter(str(number), "q") for number in range(4)])
    stage.run_all()
    assert len(second.texts) == 2 and len(first.texts) == 6


def test_a_new_routing_type_binds_the_queue_anew(stage: Stage) -> None:
    session = stage.session()
    refused = session.addresses.update_queue("q", QueueUpdate(routing_type=MULTICAST))
    assert isinstance(refused, Refused) and refused.text == (
        "AMQ229211: Can't update queue q with routing type: MULTICAST, Supported routing types for address: q are "
        "[ANYCAST]"
    )
    stage.kernel.address_manager.create_address("q", anycast=True, multicast=True, auto_created=False)
    assert isinstance(session.addresses.update_queue("q", QueueUpdate(routing_type=MULTICAST)), Queue)
    stage.send(letter("any", "q"), routing_type=ANYCAST)
    stage.send(letter("multi", "q"), routing_type=MULTICAST)
    stage.run_all()
    assert stage.waiting("q") == ["multi"]


def test_a_wildcard_queue_is_updated(stage: Stage) -> None:
    stage.queue("wild", "a.#", MULTICAST)
    stage.send(letter("one", "a.b"), routing_type=MULTICAST)
    stage.session().addresses.update_queue("wild", QueueUpdate(filter="a = 1"))
    stage.send(letter("two", "a.b"), routing_type=MULTICAST)
    stage.run_all()
    assert stage.waiting("wild") == ["one"]


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (
            QueueUpdate(max_consumers=1),
            "AMQ229210: Can't update queue q with maxConsumers: 1. Current consumers are 2.",
        ),
        (QueueUpdate(filter="= 1"), ""),
    ],
)
def test_a_wrong_update_changes_nothing(stage: Stage, update: QueueUpdate, text: str) -> None:
    reader(stage)
    reader(stage)
    before = stage.kernel.address_manager.queues["q"].definition
    refused = stage.session().addresses.update_queue("q", update)
    assert isinstance(refused, Refused) and refused.text.startswith(text)
    assert stage.kernel.address_manager.queues["q"].definition is before
    assert isinstance(stage.session().addresses.update_queue("nope", update), Refused)
