"""What leaves a scope, and what stays behind: the user's own exception and nothing."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import pytest
import trio
import trio.testing

from embedbroker import EmbeddedBroker
from embedclient import Connection, ConnectionFactory
from embedclient.agent import Agent, BytesReceived, Input, Output
from embedclient.errors import IllegalStateException
from embedclient.model import Instant
from tests.embedclient.client.conftest import connected_in_vm, relayed_broker


class Mine(Exception):
    pass


def tasks_now() -> int:
    root = trio.lowlevel.current_root_task()
    assert root is not None
    waiting, count = [root], 0
    while waiting:
        task = waiting.pop()
        count += 1
        waiting.extend(child for nursery in task.child_nurseries for child in nursery.child_tasks)
    return count


async def test_no_task_outlives_the_connection() -> None:
    async with relayed_broker() as relay:
        before = tasks_now()
        async with ConnectionFactory(relay.url).connect() as connection, connection.session() as session:
            await session.create_consumer("q")
            assert tasks_now() > before
        await trio.testing.wait_all_tasks_blocked()
        assert tasks_now() == before


async def test_a_connection_in_an_exception_handler_ends_without_what_is_handled() -> None:
    done = False
    try:
        raise Mine
    except Mine:
        async with connected_in_vm() as connection, connection.session() as session:
            await session.create_producer("q").send("said while it is handled")
        done = True
    assert done


async def test_an_opening_is_gone_with_its_block_before_any_collection() -> None:
    async with EmbeddedBroker() as broker:
        gc.disable()
        try:
            opening = ConnectionFactory(broker.vm_url).connect()
            async with opening:
                pass
            seen = weakref.ref(opening)
            del opening
            assert seen() is None
        finally:
            gc.enable()


async def test_a_second_block_over_the_same_opening_is_refused() -> None:
    async with connected_in_vm() as connection:
        opening = connection.session()
        async with opening as session:
            pass
        assert session.closed
        with pytest.raises(IllegalStateException, match="opened before"):
            async with opening:
                pass


async def test_a_look_that_ends_in_its_middle_leaves_nothing_to_be_closed() -> None:
    async with connected_in_vm() as connection, connection.session() as session:
        await session.create_producer("q").send("x")
        async with session.create_browser("q") as browser:
            # trio warns of an async generator that was not closed, when it is collected.
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                async for message in browser:
                    assert message.body == "x"
                    break
                gc.collect()
            assert [str(warning.message) for warning in caught] == []


async def test_a_defect_in_the_client_ends_the_scope_as_itself(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(AssertionError, match="a defect"):
        async with connected_in_vm() as connection, connection.session() as session:
            consumer = await session.create_consumer("q")
            _break_the_agent(monkeypatch)
            await session.create_producer("q").send("x")
            await consumer.receive()


async def test_a_defect_beside_the_users_exception_becomes_its_context(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    mine = Mine()
    async with EmbeddedBroker() as broker:
        with pytest.raises(Mine) as caught:
            async with ConnectionFactory(broker.vm_url).connect() as connection:
                session = await connection.session()
                _break_the_agent(monkeypatch)
                session.create_producer("q").send_nowait("x")
                with trio.CancelScope(shield=True):
                    await trio.testing.wait_all_tasks_blocked()
                raise mine
    assert caught.value is mine
    assert isinstance(mine.__context__, AssertionError)


def _break_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Agent.step

    def step(agent: Agent, event: Input, now: Instant) -> list[Output]:
        if isinstance(event, BytesReceived):
            raise AssertionError("a defect")
        return whole(agent, event, now)

    monkeypatch.setattr(Agent, "step", step)


async def test_a_group_of_the_users_own_nursery_leaves_unchanged() -> None:
    async def fail() -> None:
        raise Mine

    group: BaseExceptionGroup[BaseException] | None = None
    with pytest.raises(ExceptionGroup) as caught:
        async with connected_in_vm():
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(fail)
            except BaseExceptionGroup as error:
                group = error
                raise
    assert caught.value is group


async def test_a_cancellation_passes_through_every_scope() -> None:
    with trio.move_on_after(0.01) as scope:
        async with (
            connected_in_vm() as connection,
            connection.session(transacted=True) as session,
            session.create_consumer("q") as consumer,
            session.transaction(),
        ):
            await consumer.receive()
    assert scope.cancelled_caught


async def test_a_nursery_cancelled_inside_the_scope_does_not_disturb_it() -> None:
    async with connected_in_vm() as connection, connection.session() as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.cancel_scope.cancel()
        await session.create_producer("q").send("x")


async def test_connections_can_be_opened_by_many_tasks_of_one_factory() -> None:
    async def use(connection: Connection) -> None:
        async with connection.session() as session:
            await session.create_producer("q").send("x")

    async with connected_in_vm() as connection, trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(use, connection)


@pytest.mark.parametrize(("timeout", "kind"), [("5", TypeError), (True, TypeError), (float("nan"), ValueError)])
async def test_a_time_out_that_is_none_is_refused(timeout: Any, kind: type[Exception]) -> None:
    async with connected_in_vm() as connection, connection.session() as session:
        consumer = await session.create_consumer("q")
        with pytest.raises(kind, match=f"^timeout must be a number of seconds or None, not {timeout!r}$"):
            await consumer.receive(timeout=timeout)


@pytest.mark.parametrize("argument", ["user", "password", "client_id"])
def test_credentials_that_are_no_text_are_refused_without_showing_them(argument: str) -> None:
    wrong: dict[str, Any] = {argument: 4711}
    with pytest.raises(TypeError, match=f"^{argument} must be a str or None, not int$"):
        ConnectionFactory("tcp://localhost", **wrong)
