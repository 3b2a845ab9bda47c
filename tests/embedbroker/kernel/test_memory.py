"""What messages cost: counted once, never negative, zero at the end; and producers that wait for room."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from embedbroker.kernel import Refused, Scope, Session
from embedbroker.kernel._memory import (
    GRANTS_AT_ONCE_MAX,
    MESSAGE_OVERHEAD_BYTES,
    REFERENCE_BYTES,
    RESERVED_ADDRESSES_MAX,
    MemoryAccount,
    Reservation,
)
from embedclient.errors import ErrorCode

from .letters import letter
from .stage import MULTICAST, Stage


def test_a_message_in_many_queues_is_counted_once_with_its_references() -> None:
    stage = Stage()
    for name in ("x", "y", "z"):
        stage.queue(name, "t", MULTICAST)
    message = letter("m", "t")
    stage.send(message)
    cost = len(message.raw) + MESSAGE_OVERHEAD_BYTES
    used = [cost + 2 * REFERENCE_BYTES, cost + REFERENCE_BYTES, cost, 0]
    assert stage.kernel.memory.used_bytes == stage.kernel.memory.address_bytes("t") == used[0]
    for index, name in enumerate(("x", "y", "z")):
        session = stage.session(pre_acknowledge=True)
        stage.consumer(session, name)
        stage.run()
        assert stage.kernel.memory.used_bytes == used[index + 1]
    stage.assert_empty()


def test_messages_of_an_open_transaction_are_counted() -> None:
    stage = Stage()
    stage.queue("q")
    session = stage.session(transacted=True)
    stage.send(letter("m", "q"), session=session)
    assert stage.kernel.memory.used_bytes > 0
    session.rollback(last_delivered=False)
    stage.assert_empty()


def test_requests_wait_while_it_is_full_and_are_granted_in_order() -> None:
    account = MemoryAccount(1000)
    granted: list[str] = []
    account.hold(1, "a", 1000, 1)
    for name in ("first", "second"):
        account.wait("owner", "a", -1, lambda name=name: granted.append(name))  # type: ignore[misc]  # bound here
    account.grant_waiting()
    assert granted == []
    account.release(1, "a", 1000)
    assert account.can_grant is True
    account.grant_waiting()
    assert granted == ["first", "second"]


def test_an_address_limit_holds_its_own_producers_only() -> None:
    account = MemoryAccount(1_000_000)
    granted: list[str] = []
    account.hold(1, "a", 100, 1)
    assert account.is_full("a", 100) and not account.is_full("b", 100) and not account.is_full("a", -1)
    account.wait("owner", "a", 100, lambda: granted.append("a"))
    account.wait("owner", "b", 100, lambda: granted.append("b"))
    account.grant_waiting()
    assert granted == ["b"]
    account.release(1, "a", 100)
    account.grant_waiting()
    assert granted == ["b", "a"]


def test_requests_of_whoever_left_are_forgotten() -> None:
    account = MemoryAccount(1000)
    account.hold(1, "a", 1000, 1)
    granted: list[str] = []
    for owner in ("gone", "stays", "gone"):
        account.wait(owner, "a", -1, lambda owner=owner: granted.append(owner))  # type: ignore[misc]  # bound here
    assert account.waiting_of("gone") == 2
    account.forget("gone")
    assert (account.waiting_of("gone"), account.waiting_of("stays")) == (0, 1)
    account.release(1, "a", 1000)
    account.grant_waiting()
    assert granted == ["stays"]
    assert not account.has_waiting


def test_room_at_one_address_does_not_look_at_what_waits_at_another() -> None:
    looked_at: list[str] = []

    class Watched(MemoryAccount):
        def is_full(self, address: str, address_limit_bytes: int) -> bool:
            looked_at.append(address)
            return super().is_full(address, address_limit_bytes)

    account = Watched(1_000_000)
    account.hold(1, "full", 100, 1)
    for number in range(1000):
        account.wait(number, "full", 100, lambda: None)
    account.grant_waiting()
    looked_at.clear()
    account.hold(2, "other", 100, 1)
    account.release(2, "other", 100)
    assert not account.can_grant
    account.grant_waiting()
    assert looked_at == []


def test_a_whole_broker_of_producers_is_granted_credit_in_portions() -> None:
    account = MemoryAccount(1000)
    account.hold(1, "a", 1000, 1)
    granted: list[int] = []
    count = 2 * GRANTS_AT_ONCE_MAX + 7
    for number in range(count):
        account.wait(number, f"a{number % 3}", -1, lambda number=number: granted.append(number))  # type: ignore[misc]
    account.release(1, "a", 1000)
    portions: list[int] = []
    while account.can_grant:
        before = len(granted)
        account.grant_waiting()
        portions.append(len(granted) - before)
    assert portions == [GRANTS_AT_ONCE_MAX, GRANTS_AT_ONCE_MAX, 7]
    assert [[number for number in granted if number % 3 == at] for at in range(3)] == [
        list(range(at, count, 3)) for at in range(3)
    ]


def test_a_grant_that_ends_the_other_owners_leaves_nothing_behind() -> None:
    account = MemoryAccount(1000)
    account.hold(1, "a", 1000, 1)
    granted: list[int] = []

    def grant(number: int) -> None:
        granted.append(number)
        for other in range(10):
            account.forget(other)

    for number in range(10):
        account.wait(number, "a", -1, lambda number=number: grant(number))  # type: ignore[misc]  # bound here
    account.release(1, "a", 1000)
    account.grant_waiting()
    assert granted == [0]
    assert not account.has_waiting and not account.can_grant
    assert not account.statistics().waiting


def test_beyond_limit_and_margin_a_send_is_refused_and_leaves_no_trace() -> None:
    stage = Stage(memory_limit_bytes=5_000, global_max_size_margin_bytes=5_000)
    stage.queue("q")
    session = stage.session()
    message = letter("x" * 1000, "q")
    cost = len(message.raw) + MESSAGE_OVERHEAD_BYTES
    while stage.kernel.memory.used_bytes + cost <= 10_000:
        assert session.send(letter("x" * 1000, "q"), 1) is None
    used = stage.kernel.memory.used_bytes
    refused = session.send(letter("x" * 1000, "q"), 1)
    assert isinstance(refused, Refused) and refused.code == ErrorCode.ADDRESS_FULL
    assert refused.scope is Scope.CONNECTION
    assert stage.kernel.memory.used_bytes == used <= 10_000
    assert stage.kernel.address_manager.queues["q"].message_count == used // cost


def test_who_has_nothing_reserved_is_refused_at_twice_the_limit_however_large_the_margin() -> None:
    stage = Stage(memory_limit_bytes=10_000)
    stage.queue("q")
    memory = stage.kernel.memory
    assert memory.margin_bytes == 128 * 1024 * 1024
    rude, polite = stage.session(), stage.session()
    polite.reservation.grant("q", 50_000)
    while rude.send(letter("x" * 1000, "q"), 1) is None:
        pass
    assert 18_000 < memory.used_bytes <= 20_000
    for _ in range(80):
        assert polite.send(letter("x" * 1000, "q"), 1) is None
    assert memory.used_bytes > 100_000


def test_a_transaction_that_found_no_room_can_only_be_rolled_back() -> None:
    stage = Stage(memory_limit_bytes=2_000, global_max_size_margin_bytes=0)
    stage.queue("q")
    session = stage.session(transacted=True)
    while session.send(letter("x" * 100, "q"), 1) is None:
        pass
    refused = session.commit()
    assert isinstance(refused, Refused) and refused.code == ErrorCode.TRANSACTION_ROLLED_BACK
    assert "full" in refused.text
    stage.assert_empty()
    assert session.send(letter("x" * 100, "q"), 1) is None and session.commit() is None


def test_several_hundred_producers_use_up_their_credit_whoever_else_fills_the_broker() -> None:
    """1. 500 producers get 32 KiB of credit twice, as JMS clients ask for it, while there is room.
    2. A client without credit sends until it is refused.
    3. Every producer still sends all that its credit allows, and messages never take more than limit and margin.
    """
    stage = Stage()
    stage.queue("q")
    memory = stage.kernel.memory
    producers = [stage.session() for _ in range(500)]
    for producer in producers:
        producer.reservation.grant("q", 32_768)
        producer.reservation.grant("q", 32_768)
    rude = stage.session()
    big = "x" * 500_000
    while rude.send(letter(big, "q"), 1) is None:
        pass
    assert memory.used_bytes >= memory.limit_bytes
    size = len(letter("x" * 3000, "q").raw)
    for producer in producers:
        for _ in range(65_536 // size):
            assert producer.send(letter("x" * 3000, "q"), 1) is None
    assert memory.used_bytes <= memory.limit_bytes + memory.margin_bytes
    assert rude.send(letter(big, "q"), 1) is not None
    for session in [*producers, rude]:
        session.close(failed=False)
    assert memory.reserved_bytes == 0


def test_reservations_never_take_more_than_the_margin() -> None:
    account = MemoryAccount(1000, margin_bytes=10_000)
    first, second = Reservation(account), Reservation(account)
    first.grant("a", 1000)
    assert account.reserved_bytes == 8000
    second.grant("a", 1000)
    assert account.reserved_bytes == 10_000
    second.grant("b", -5)
    first.grant("a", 100)
    assert account.reserved_bytes == 10_000
    first.give_up()
    assert account.reserved_bytes == 2000
    second.give_up()
    assert account.reserved_bytes == 0


def test_a_session_reserves_for_so_many_addresses_and_no_more() -> None:
    account = MemoryAccount(1000, margin_bytes=10**9)
    session = Reservation(account)
    for number in range(RESERVED_ADDRESSES_MAX + 50):
        session.grant(f"reply.{number}", 1000)
    assert account.reserved_bytes == RESERVED_ADDRESSES_MAX * 8000
    account.hold(1, "a", 10**9, 1)
    assert session.take("reply.0", 100) is not None
    assert session.take("reply.1049", 100) is None


actions = st.lists(
    st.sampled_from(["send", "send in", "ack", "ack one", "commit", "rollback", "close", "lose", "delete", "fanout"]),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(actions=actions, data=st.data())
def test_whatever_happens_nothing_is_left_at_the_end(actions: list[str], data: st.DataObject) -> None:
    stage = Stage()
    queues = ["x", "y"]
    for name in queues:
        stage.queue(name, "t", MULTICAST)
    sessions: list[Session] = []
    for action in actions:
        while len(sessions) < 2:
            sessions.append(stage.session(transacted=len(sessions) == 0))
            for name in queues:
                if name in stage.kernel.address_manager.queues:
                    stage.consumer(sessions[-1], name, credit=7)
        session = data.draw(st.sampled_from(sessions))
        held = [(c.key, m) for c in session.consumers.values() for m in c.unsettled]
        if action in ("send", "fanout"):
            stage.send(letter("m", "t", durable=action == "fanout"))
        elif action == "send in":
            stage.send(letter("m", "t", durable=True), session=session)
        elif action in ("ack", "ack one") and held:
            key, message_id = data.draw(st.sampled_from(held))
            session.settle(key, message_id, through=action == "ack")
        elif action == "commit":
            session.commit()
        elif action == "rollback":
            session.rollback(last_delivered=data.draw(st.booleans()))
        elif action in ("close", "lose"):
            session.close(failed=action == "lose")
            sessions.remove(session)
        elif action == "delete" and "y" in stage.kernel.address_manager.queues:
            stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["y"])
        stage.run_all(budget=5)
        assert stage.kernel.memory.used_bytes >= 0
        assert all(queue.delivering_count >= 0 for queue in stage.kernel.address_manager.queues.values())
    for session in sessions:
        session.close(failed=False)
    last = stage.session(pre_acknowledge=True)
    for name in stage.kernel.address_manager.queues:
        stage.consumer(last, name)
    stage.run_all()
    stage.assert_empty()
