"""Ends of transactions whose caller is cancelled: what is to be undone reaches the broker, and no failure is hidden."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from embedclient import AcknowledgeMode, Connection, ConnectionFactory, ServerLocator, Session, TextMessage
from embedclient.agent import Call
from embedclient.agent.session._session import Session as AgentSession
from embedclient.errors import DuplicateIDException, IllegalStateException, TransactionOutcomeUnknownException
from tests.embedclient.client.conftest import connected_in_vm, relayed_broker


async def everything_in(connection: Connection) -> list[object]:
    bodies: list[object] = []
    async with connection.session() as session, session.create_consumer("q") as consumer:
        while (message := await consumer.receive_nowait()) is not None:
            bodies.append(message.body)
    return bodies


async def test_a_block_that_is_cancelled_while_it_ends_gives_nothing_to_the_next() -> None:
    async with connected_in_vm() as connection:
        async with connection.session(transacted=True) as session:
            producer = session.create_producer("q")
            await producer.send("first")
            await session.commit()
            with trio.CancelScope() as scope:
                async with session.transaction():
                    await producer.send("of the cancelled block")
                    scope.cancel()
            assert scope.cancelled_caught
            async with session.transaction():
                await producer.send("next")
        assert await everything_in(connection) == ["first", "next"]


async def test_a_block_that_ends_while_another_task_uses_its_session_gives_nothing_to_the_next() -> None:
    async with connected_in_vm() as connection:
        async with connection.session(transacted=True) as session, session.create_consumer("other") as consumer:
            producer = session.create_producer("q")
            async with trio.open_nursery() as nursery:
                with pytest.raises(IllegalStateException):
                    async with session.transaction():
                        await producer.send("of the block that could not commit")
                        nursery.start_soon(consumer.receive)
                        await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            async with session.transaction():
                await producer.send("next")
        assert await everything_in(connection) == ["next"]


async def test_a_block_whose_commit_is_withdrawn_leaves_nothing_that_the_next_hears_of() -> None:
    """1. A rollback is under way. 2. The commit behind it is cancelled before its turn. 3. The next block commits."""
    async with relayed_broker() as relay, ConnectionFactory(relay.url).connect() as connection:
        async with connection.session(transacted=True) as session, trio.open_nursery() as nursery:
            producer = session.create_producer("q")
            await session.create_temporary_queue()
            with trio.CancelScope() as scope:
                async with session.transaction():
                    await producer.send("taken back")
                    relay.hold("down")
                    with trio.move_on_after(0.01):
                        await session.rollback()
                    await producer.send("behind it")

                    async def cancel() -> None:
                        await trio.testing.wait_all_tasks_blocked()
                        scope.cancel()
                        await trio.testing.wait_all_tasks_blocked()
                        relay.release()

                    nursery.start_soon(cancel)
            assert scope.cancelled_caught
            async with session.transaction():
                await producer.send("next")
        assert await everything_in(connection) == ["next"]


async def test_a_rollback_in_a_cancelled_scope_brings_back_what_was_received() -> None:
    async with connected_in_vm() as connection:
        async with connection.session(transacted=True) as session, session.create_consumer("q") as consumer:
            producer = session.create_producer("q")
            await producer.send("received")
            await session.commit()
            with trio.CancelScope() as scope:
                try:
                    assert await consumer.receive(timeout=1) is not None
                    await producer.send("taken back")
                    scope.cancel()
                    await session.commit()
                except BaseException:
                    await session.rollback()
                    raise
            assert scope.cancelled_caught
            async with session.transaction():
                await producer.send("next")
        assert await everything_in(connection) == ["received", "next"]


async def test_a_recover_in_a_cancelled_scope_brings_back_what_was_received() -> None:
    async with (
        connected_in_vm() as connection,
        connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session,
        session.create_consumer("q") as consumer,
    ):
        await session.create_producer("q").send("x")
        assert await consumer.receive(timeout=1) is not None
        with trio.CancelScope() as scope:
            scope.cancel()
            await session.recover()
        assert scope.cancelled_caught
        again = await consumer.receive(timeout=1)
        assert again is not None and again.redelivered


async def test_a_rollback_of_the_core_layer_in_a_cancelled_scope_takes_its_course() -> None:
    async with (
        relayed_broker() as relay,
        ServerLocator(relay.url).create_session_factory() as factory,
        factory.create_session(auto_commit_sends=False, auto_commit_acks=False) as session,
    ):
        await session.create_queue("q")
        await session.create_producer("q").send(session.create_message())
        with trio.CancelScope() as scope:
            scope.cancel()
            await session.rollback()
        assert scope.cancelled_caught
        await session.commit()
        assert (await session.query_queue("q")).message_count == 0


async def test_a_commit_that_fails_while_its_caller_is_cancelled_is_reported_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected_in_vm() as connection, connection.session(transacted=True) as session:
        await _send_twice(session)
        commit = AgentSession.commit
        with trio.CancelScope() as scope:

            def cancelled_by_its_answer(agent_session: AgentSession) -> Call[None]:
                call = commit(agent_session)
                call.when_done(scope.cancel)
                return call

            monkeypatch.setattr(AgentSession, "commit", cancelled_by_its_answer)
            await session.commit()
        monkeypatch.undo()
        assert scope.cancelled_caught
        with pytest.raises(TransactionOutcomeUnknownException) as unknown:
            await session.commit()
        assert isinstance(unknown.value.linked_exception, DuplicateIDException)
        await session.commit()


async def _send_twice(session: Session) -> None:
    """What the next commit refuses."""
    producer = session.create_producer("q")
    await producer.send(TextMessage("once", properties={"_AMQ_DUPL_ID": "the same"}))
    await session.commit()
    await producer.send(TextMessage("twice", properties={"_AMQ_DUPL_ID": "the same"}))


async def test_who_receives_what_is_there_behind_a_cancelled_rollback_gets_what_comes_again() -> None:
    async with (
        connected_in_vm() as connection,
        connection.session(transacted=True) as session,
        session.create_consumer("q") as consumer,
    ):
        await session.create_producer("q").send("x")
        await session.commit()
        assert await consumer.receive(timeout=1) is not None
        with trio.CancelScope() as scope:
            scope.cancel()
            await session.rollback()
        again = await consumer.receive_nowait()
        assert again is not None and again.redelivered
