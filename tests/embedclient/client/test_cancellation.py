"""What a cancellation may and may not do: it loses no message, hides no outcome and leaves nothing running."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
import trio.testing

from embedclient import AcknowledgeMode, Connection, ConnectionFactory, DeliveryMode, ServerLocator
from embedclient.errors import TransactionOutcomeUnknownException, TransactionRolledBackException
from tests.embedclient.client.conftest import connected_in_vm, relayed_broker


async def test_receives_cancelled_at_any_moment_lose_no_message_and_repeat_none() -> None:
    count, cancellations = 300, 11
    sent = cancelled = 0
    received: list[object] = []
    async with connected_in_vm() as connection, trio.open_nursery() as nursery:

        def is_enough() -> bool:
            return sent >= count and cancelled >= cancellations

        async def send() -> None:
            nonlocal sent
            async with connection.session() as session:
                producer = session.create_producer("q")
                producer.delivery_mode = DeliveryMode.NON_PERSISTENT
                while not is_enough():
                    sent += 1
                    await producer.send(str(sent - 1))
                    await trio.lowlevel.checkpoint()

        nursery.start_soon(send)
        async with connection.session() as session, session.create_consumer("q") as consumer:
            while len(received) < sent or not is_enough():
                with trio.CancelScope() as scope:
                    # Every depth of the receive gets its turn of being the one that is cancelled.
                    nursery.start_soon(_cancel_after, scope, (len(received) + cancelled) % 7)
                    message = await consumer.receive()
                    assert message is not None
                    received.append(message.body)
                cancelled += scope.cancelled_caught
    assert received == [str(index) for index in range(sent)]


async def _cancel_after(scope: trio.CancelScope, checkpoints: int) -> None:
    for _ in range(checkpoints):
        await trio.lowlevel.checkpoint()
    scope.cancel()


@pytest.mark.parametrize("window", [0, 1])
async def test_a_cancelled_receive_of_a_consumer_without_window_takes_no_message_from_others(window: int) -> None:
    async with (
        connected_in_vm(f"?consumerWindowSize={window}") as connection,
        connection.session() as session,
        session.create_consumer("q") as impatient,
        connection.session() as other,
    ):
        with trio.move_on_after(0.01):
            await impatient.receive()
        if window == 0:
            async with other.create_consumer("q") as patient:
                await other.create_producer("q").send("x")
                message = await patient.receive(timeout=1)
        else:
            await other.create_producer("q").send("x")
            message = await impatient.receive(timeout=1)
        assert message is not None and message.body == "x"


async def test_a_commit_cancelled_before_it_left_changes_nothing() -> None:
    async with connected_in_vm() as connection, connection.session(transacted=True) as session:
        await session.create_producer("q").send("x")
        with trio.CancelScope() as scope:
            scope.cancel()
            await session.commit()
        assert scope.cancelled_caught
        await session.commit()
        async with connection.session() as reader, reader.create_consumer("q") as consumer:
            message = await consumer.receive(timeout=1)
            assert message is not None and message.body == "x"


async def test_a_commit_cancelled_on_its_way_is_in_doubt_until_its_outcome_is_known() -> None:
    async with relayed_broker() as relay, ConnectionFactory(relay.url).connect() as connection:
        async with connection.session(transacted=True) as session:
            producer = session.create_producer("q")
            await producer.send("x")
            relay.hold("down")
            with trio.move_on_after(0.01) as scope:
                await session.commit()
            assert scope.cancelled_caught
            relay.release()
            await producer.send("y")
            await session.commit()  # learns first that the other one succeeded
        async with connection.session() as reader, reader.create_consumer("q") as consumer:
            assert [(await consumer.receive(timeout=1)) is not None for _ in range(2)] == [True, True]


async def test_a_cancelled_commit_whose_connection_is_lost_is_reported_by_the_next() -> None:
    async with relayed_broker() as relay:
        url = f"{relay.url}?reconnectAttempts=5&retryInterval=1"
        async with ConnectionFactory(url).connect() as connection, connection.session(transacted=True) as session:
            await session.create_producer("q").send("x")
            relay.hold("down")
            with trio.move_on_after(0.01):
                await session.commit()
            relay.release()
            relay.cut()
            with pytest.raises(TransactionOutcomeUnknownException):
                await session.commit()
            await session.rollback()
            await session.commit()


class Mine(Exception):
    pass


async def everything_in(connection: Connection, queue: str = "q") -> list[object]:
    bodies: list[object] = []
    async with connection.session() as session, session.create_consumer(queue) as consumer:
        while (message := await consumer.receive_nowait()) is not None:
            bodies.append(message.body)
    return bodies


async def test_a_block_whose_rollback_was_cancelled_gives_nothing_to_the_next() -> None:
    async with relayed_broker() as relay, ConnectionFactory(relay.url).connect() as connection:
        async with connection.session(transacted=True) as session:
            producer = session.create_producer("q")
            await producer.send("taken back")
            relay.hold("down")
            with trio.move_on_after(0.01) as scope:
                await session.rollback()
            assert scope.cancelled_caught
            relay.release()
            async with session.transaction():
                await producer.send("next")
        assert await everything_in(connection) == ["next"]


async def test_a_block_whose_rollback_is_not_over_in_time_gives_nothing_to_the_next() -> None:
    """1. The connection is lost, and a block fails. 2. Its rollback waits. 3. All is back, and so is the session."""
    async with relayed_broker() as relay:
        times = "callTimeout=100&callFailoverTimeout=10000&reconnectAttempts=-1&retryInterval=1"
        async with ConnectionFactory(f"{relay.url}?{times}&confirmationWindowSize=100000").connect() as connection:
            lost = trio.Event()
            async with connection.session(transacted=True) as session:
                producer = session.create_producer("q")
                await producer.send("taken back")
                await session.create_temporary_queue()  # by now it is at the broker
                for direction in ("up", "down"):
                    relay.hold(direction)
                connection.add_failover_listener(lambda _: lost.set())
                relay.cut()
                await lost.wait()
                with pytest.raises(Mine):
                    async with session.transaction():
                        raise Mine
                relay.release()
                async with session.transaction():
                    await producer.send("next")
            assert await everything_in(connection) == ["next"]


async def test_a_commit_behind_a_cancelled_rollback_does_not_bring_its_work() -> None:
    async with relayed_broker() as relay, ConnectionFactory(relay.url).connect() as connection:
        async with connection.session(transacted=True) as session:
            producer = session.create_producer("q")
            await producer.send("taken back")
            relay.hold("down")
            with trio.move_on_after(0.01):
                await session.rollback()
            await producer.send("too early")
            relay.release()
            with pytest.raises(TransactionRolledBackException):
                await session.commit()
            await producer.send("next")
            await session.commit()
        assert await everything_in(connection) == ["next"]


async def test_what_was_sent_behind_a_cancelled_commit_is_not_committed_in_silence_when_it_was_lost() -> None:
    async with relayed_broker() as relay:
        url = f"{relay.url}?reconnectAttempts=5&retryInterval=1"
        async with ConnectionFactory(url).connect() as connection, connection.session(transacted=True) as session:
            reconnected = trio.Event()
            connection.add_failure_listener(lambda _, failed_over: reconnected.set() if failed_over else None)
            producer = session.create_producer("q")
            await producer.send("committed")
            relay.hold("down")
            with trio.move_on_after(0.01):
                await session.commit()
            await producer.send("lost")
            relay.release()
            await session.create_temporary_queue()  # the answer to the commit has come before this one's
            relay.cut()
            await reconnected.wait()
            with pytest.raises(TransactionRolledBackException):
                await session.commit()


async def test_a_block_is_told_of_a_cancelled_commit_before_it_begins() -> None:
    async with relayed_broker() as relay:
        url = f"{relay.url}?reconnectAttempts=5&retryInterval=1"
        async with ConnectionFactory(url).connect() as connection, connection.session(transacted=True) as session:
            producer = session.create_producer("q")
            await producer.send("x")
            await session.commit()
            async with session.create_consumer("q") as consumer:
                received = await consumer.receive(timeout=1)
            assert received is not None
            await producer.send("y")
            relay.hold("down")
            with trio.move_on_after(0.01):
                await session.commit()
            relay.release()
            relay.cut()
            await received.acknowledge()  # it means nothing in a transaction, and reports nothing
            with pytest.raises(TransactionOutcomeUnknownException):
                async with session.transaction():
                    raise AssertionError("not run")
            async with session.transaction():
                await producer.send("z")


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
async def test_a_cancelled_acknowledgement_whose_connection_is_lost_is_reported_by_the_next(
    mode: AcknowledgeMode,
) -> None:
    async with relayed_broker() as relay:
        url = f"{relay.url}?reconnectAttempts=5&retryInterval=1"
        async with (
            ConnectionFactory(url).connect() as connection,
            connection.session(acknowledge_mode=mode) as session,
            session.create_consumer("q") as consumer,
        ):
            producer = session.create_producer("q")
            await producer.send("x")
            message = await consumer.receive(timeout=1)
            assert message is not None
            relay.hold("down")
            with trio.move_on_after(0.01) as scope:
                await message.acknowledge()
            assert scope.cancelled_caught
            relay.release()
            relay.cut()
            await producer.send("y")
            next_message = await consumer.receive(timeout=5)
            assert next_message is not None
            with pytest.raises(TransactionOutcomeUnknownException):
                await next_message.acknowledge()
            await next_message.acknowledge()


async def test_a_cancelled_commit_of_the_core_layer_is_reported_by_the_next() -> None:
    async with relayed_broker() as relay:
        locator = ServerLocator(f"{relay.url}?reconnectAttempts=5&retryInterval=1")
        async with (
            locator.create_session_factory() as factory,
            factory.create_session(auto_commit_sends=False, auto_commit_acks=False) as session,
        ):
            await session.create_queue("q")
            producer = session.create_producer("q")
            await producer.send(session.create_message())
            relay.hold("down")
            with trio.move_on_after(0.01) as scope:
                await session.commit()
            assert scope.cancelled_caught
            relay.release()
            relay.cut()
            with pytest.raises(TransactionOutcomeUnknownException):
                await session.commit()
            await session.rollback()
            await session.commit()


async def test_a_cancelled_block_still_closes_in_an_orderly_way() -> None:
    async with relayed_broker() as relay:
        with trio.CancelScope() as scope:
            async with ConnectionFactory(relay.url, client_id="me").connect() as connection:
                session = await connection.session()
                await session.create_consumer("q")
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        # The broker has handled the end already: the client id is free again.
        async with ConnectionFactory(relay.url, client_id="me").connect():
            pass


async def test_closing_gives_up_on_a_broker_that_does_not_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with relayed_broker() as relay:
        started = trio.current_time()
        async with ConnectionFactory(relay.url).connect() as connection:
            await connection.session()
            relay.hold("down")
        assert 1 < trio.current_time() - started < 20
        relay.release()


async def test_sends_wait_when_nobody_reads_and_a_cancellation_ends_the_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        relayed_broker() as relay,
        ConnectionFactory(relay.url).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer("q")
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        relay.hold("up")
        sent = 0
        with trio.move_on_after(1) as scope:
            while True:
                await producer.send(b"x" * 10_000)
                sent += 1
        assert scope.cancelled_caught
        assert sent < 1_000
        relay.release()
        consumer = await session.create_consumer("q")
        for _ in range(sent):
            assert await consumer.receive(timeout=5) is not None
        assert await consumer.receive_nowait() is None


async def test_a_blocking_acknowledgement_outlasts_a_cancellation() -> None:
    async with (
        relayed_broker() as relay,
        ConnectionFactory(f"{relay.url}?blockOnAcknowledge=true").connect() as connection,
    ):
        async with connection.session() as session, session.create_consumer("q") as consumer:
            await session.create_producer("q").send("x")
            await consumer.receive_nowait()
            await session.create_producer("q").send("y")
            async with trio.open_nursery() as nursery:
                with trio.CancelScope() as scope:
                    relay.hold("up")

                    async def cancel() -> None:
                        await trio.testing.wait_all_tasks_blocked()
                        scope.cancel()
                        relay.release()

                    nursery.start_soon(cancel)
                    message = await consumer.receive()
            assert message.body == "y"
        async with connection.session() as session, session.create_consumer("q") as consumer:
            assert await consumer.receive_nowait() is None


async def test_every_waiting_method_lets_a_cancellation_in_before_it_does_anything() -> None:
    async with connected_in_vm() as connection:
        async with connection.session(transacted=True) as session:
            producer = session.create_producer("q")
            consumer = await session.create_consumer("q")
            await producer.send("x")
            await session.commit()
            await trio.testing.wait_all_tasks_blocked()
            waiting: list[Callable[[], Awaitable[object]]] = [
                partial(producer.send, "y"),
                consumer.receive,
                consumer.receive_nowait,
                session.commit,
                session.create_temporary_queue,
                partial(session.create_consumer, "q"),
                connection.session,
            ]
            for method in waiting:
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await method()
                assert scope.cancelled_caught, method
            message = await consumer.receive(timeout=1)
            assert message is not None and message.body == "x"
            assert await consumer.receive_nowait() is None
        async with connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session:
            consumer = await session.create_consumer("q")
            message = await consumer.receive()
            assert message is not None
            with trio.CancelScope() as scope:
                scope.cancel()
                await message.acknowledge()
            assert scope.cancelled_caught


async def test_a_long_run_of_sends_lets_other_tasks_run() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with connected_in_vm("?producerWindowSize=-1") as connection, connection.session() as session:
        producer = session.create_producer("q")
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        await producer.send("prepared")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            for _ in range(2_000):
                await producer.send("x")
            nursery.cancel_scope.cancel()
    assert turns >= 10


async def test_a_consumer_whose_opening_was_cancelled_takes_no_messages() -> None:
    async with relayed_broker() as relay, ConnectionFactory(relay.url).connect() as connection:
        session, other = await connection.session(), await connection.session()
        await other.create_producer("q").send("first")
        relay.hold("down")
        with trio.move_on_after(0.01) as scope:
            await session.create_consumer("q")
        assert scope.cancelled_caught
        relay.release()
        for body in ("second", "third"):
            await other.create_producer("q").send(body)
        consumer = await other.create_consumer("q")
        assert [(await consumer.receive(timeout=1)) is not None for _ in range(3)] == [True, True, True]


async def test_a_receipt_tells_everybody_who_waits() -> None:
    async with (
        relayed_broker() as relay,
        ConnectionFactory(f"{relay.url}?confirmationWindowSize=1").connect() as connection,
        connection.session() as session,
        trio.open_nursery() as nursery,
    ):
        relay.hold("down")
        receipt = session.create_producer("q").send_nowait("x")
        assert not receipt.done
        with trio.move_on_after(0.01) as scope:
            await receipt
        assert scope.cancelled_caught
        for _ in range(3):
            nursery.start_soon(receipt.wait)
        await trio.testing.wait_all_tasks_blocked()
        relay.release()
