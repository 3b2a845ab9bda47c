"""Filling queues with what a journal kept, portion by portion and in any order."""

from __future__ import annotations

from attrs import frozen

from embedbroker.kernel import AddressDefinition, DuplicateId, QueueDefinition, Recovery, xid_bytes
from embedbroker.kernel._memory import REFERENCE_BYTES
from embedclient.model import Xid

from .letters import letter
from .stage import ANYCAST, MULTICAST, Stage


@frozen
class Kept:
    message_id: int
    encoding: int
    priority: int
    durable: bool
    expiration: int
    stored: bytes
    references: tuple[tuple[int, int, int], ...]
    deliver_at: int = 0

    def stored_bytes(self) -> bytes:
        return self.stored


def kept(message_id: int, text: str, *references: tuple[int, int, int], priority: int = 4) -> Kept:
    message = letter(text, "t", durable=True, priority=priority)
    message.assign_id(message_id)
    return Kept(message_id, message.encoding, priority, True, 0, bytes(message.stored_bytes()), references)


def stage_with_queues() -> Stage:
    stage = Stage()
    address_manager = stage.kernel.address_manager
    address_manager.restore_address(AddressDefinition(1_001, "t", False, True))
    address_manager.restore_queue(QueueDefinition(1_002, "x", "t", MULTICAST))
    address_manager.restore_queue(QueueDefinition(1_003, "y", "t", MULTICAST, filter="colour = 'red'"))
    stage.store.records.clear()
    return stage


def test_messages_stand_by_position_and_priority_with_their_counts() -> None:
    stage = stage_with_queues()
    recovery = Recovery(stage.kernel)
    recovery.add([kept(7, "late", (1_002, 90, 0)), kept(8, "first", (1_002, 5, 3), (1_003, 6, 0))])
    recovery.add([kept(9, "urgent", (1_002, 95, 1), priority=9), kept(10, "second", (1_002, 20, 0))])
    recovery.finish()
    assert stage.waiting("x") == ["urgent", "first", "second", "late"]
    assert stage.waiting("y") == ["first"]
    session = stage.session(pre_acknowledge=True)
    _consumer, taker = stage.consumer(session, "x")
    stage.run()
    assert taker.got == [("urgent", 2), ("first", 4), ("second", 1), ("late", 1)]
    assert [message.message_id for message in taker.messages] == [9, 8, 10, 7]


def test_memory_is_counted_once_per_message_and_freed_by_the_last_queue() -> None:
    stage = stage_with_queues()
    recovery = Recovery(stage.kernel)
    recovery.add([kept(8, "m", (1_002, 5, 0), (1_003, 6, 0))])
    recovery.finish()
    used = stage.kernel.memory.used_bytes
    assert used > 0
    session = stage.session(pre_acknowledge=True)
    stage.consumer(session, "x")
    stage.run()
    assert stage.kernel.memory.used_bytes == used - REFERENCE_BYTES
    stage.consumer(session, "y")
    stage.run()
    stage.assert_empty()


def test_new_messages_stand_behind_recovered_ones() -> None:
    stage = stage_with_queues()
    recovery = Recovery(stage.kernel)
    recovery.add([kept(8, "old", (1_002, 5, 0))])
    recovery.finish()
    stage.kernel.ids.next_id = 2_000_000
    stage.send(letter("new", "t"))
    assert stage.waiting("x") == ["old", "new"]


def test_restored_definitions_are_not_written_again_and_filters_work() -> None:
    stage = stage_with_queues()
    assert stage.store.records == []
    stage.send(letter("1", "t", colour="red"), letter("2", "t", colour="blue"))
    assert stage.waiting("y") == ["1"]


def test_a_queue_whose_address_is_missing_brings_it_along() -> None:
    stage = Stage()
    stage.kernel.address_manager.restore_queue(QueueDefinition(1_002, "q", "a", ANYCAST))
    assert stage.kernel.address_manager.addresses["a"].definition.anycast


@frozen
class InDoubt:
    transaction_id: int
    xid: bytes
    adds: list[Kept]
    acknowledgements: tuple[tuple[int, int], ...] = ()
    duplicate_ids: tuple[DuplicateId, ...] = ()

    def take_adds(self, limit: int) -> list[Kept]:
        taken = self.adds[:limit]
        del self.adds[:limit]
        return taken


def test_a_branch_of_a_journal_that_counted_in_each_queue_keeps_the_positions_that_it_recorded() -> None:
    stage = stage_with_queues()
    xid = Xid(7, b"b", b"t")
    sent = [
        kept(20, "x only", (1_002, 0, 0)),
        kept(21, "both", (1_002, 1, 0), (1_003, 0, 0)),
        kept(22, "y only", (1_003, 1, 0)),
    ]
    recovery = Recovery(stage.kernel, [InDoubt(19, xid_bytes(xid), sent)])
    while recovery.send_some(2):
        pass
    recovery.finish()
    stage.kernel.ids.next_id = 100
    assert stage.kernel.branches.commit(stage.session(transacted=True), xid, one_phase=False) is None
    stage.run_all()
    assert stage.store.of_kind("commit") == [("commit", 19, [(1_002, 100), (1_003, 100)])]
    queues = stage.kernel.address_manager.queues
    assert [each.position for each in queues["x"].backlog] == [100, 101]
    assert [each.position for each in queues["y"].backlog] == [100, 101]
    assert stage.kernel.ids.next_id >= 102
    for name in ("x", "y"):
        stage.consumer(stage.session(pre_acknowledge=True), name)
    stage.assert_empty()
