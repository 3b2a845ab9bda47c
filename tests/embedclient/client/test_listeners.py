"""Message listeners on trio: asynchronous ones, order, closing while one runs, and what a failure means per mode."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from embedclient import AcknowledgeMode, Message
from tests.embedclient.client.conftest import connected_in_vm


async def test_a_listener_may_wait_and_runs_one_at_a_time() -> None:
    heard: list[object] = []
    running = 0
    done = trio.Event()

    async def listen(message: Message) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await trio.lowlevel.checkpoint()
        running -= 1
        heard.append(message.body)
        if len(heard) == 6:
            done.set()

    async with connected_in_vm() as connection, connection.session() as session, connection.session() as other:
        for name in ("a", "b"):
            (await session.create_consumer(name)).set_message_listener(listen)
            producer = other.create_producer(name)
            for index in range(3):
                await producer.send(f"{name}{index}")
        await done.wait()
    assert [body for body in heard if str(body).startswith("a")] == ["a0", "a1", "a2"]
    assert [body for body in heard if str(body).startswith("b")] == ["b0", "b1", "b2"]


@pytest.mark.parametrize("window", [-1, 0, 1, 1_000])
async def test_a_listener_gets_everything_whatever_the_window(window: int) -> None:
    heard: list[object] = []
    done = trio.Event()

    def listen(message: Message) -> None:
        heard.append(message.body)
        if len(heard) == 20:
            done.set()

    async with connected_in_vm(f"?consumerWindowSize={window}") as connection, connection.session() as session:
        (await session.create_consumer("q")).set_message_listener(listen)
        async with connection.session() as other:
            producer = other.create_producer("q")
            for index in range(20):
                await producer.send(str(index))
        await done.wait()
    assert heard == [str(index) for index in range(20)]


async def test_a_listener_set_later_gets_what_is_buffered() -> None:
    heard = trio.Event()
    async with connected_in_vm() as connection, connection.session() as session:
        consumer = await session.create_consumer("q")
        await session.create_producer("q").send("x")
        await trio.testing.wait_all_tasks_blocked()
        consumer.set_message_listener(lambda _: heard.set())
        await heard.wait()


async def test_a_session_closed_by_its_own_listener_does_not_wait_for_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    closed = trio.Event()
    async with connected_in_vm() as connection, connection.session() as session, connection.session() as other:
        started = trio.current_time()

        async def listen(_: Message) -> None:
            await session.close()
            closed.set()

        (await session.create_consumer("q")).set_message_listener(listen)
        await other.create_producer("q").send("x")
        await closed.wait()
        assert trio.current_time() - started < 1


async def test_closing_waits_for_a_running_listener(autojump_clock: trio.testing.MockClock) -> None:
    begun, may_end, ended = trio.Event(), trio.Event(), trio.Event()

    async def listen(_: Message) -> None:
        begun.set()
        await may_end.wait()
        ended.set()

    async with connected_in_vm() as connection, trio.open_nursery() as nursery:
        async with connection.session() as session, connection.session() as other:
            (await session.create_consumer("q")).set_message_listener(listen)
            await other.create_producer("q").send("x")
            await begun.wait()

            async def let_it_end() -> None:
                await trio.testing.wait_all_tasks_blocked()
                may_end.set()

            nursery.start_soon(let_it_end)
            await session.close()
            assert ended.is_set()
        async with connection.session() as session, session.create_consumer("q") as consumer:
            assert await consumer.receive_nowait() is None  # it was acknowledged before the session closed


async def test_closing_gives_up_on_a_listener_that_does_not_end(autojump_clock: trio.testing.MockClock) -> None:
    begun = trio.Event()

    async def listen(_: Message) -> None:
        begun.set()
        await trio.sleep_forever()

    async with connected_in_vm("?onMessageCloseTimeout=2000") as connection:
        async with connection.session() as session, connection.session() as other:
            (await session.create_consumer("q")).set_message_listener(listen)
            await other.create_producer("q").send("x")
            await begun.wait()
            started = trio.current_time()
            await session.close()
            assert 1.9 < trio.current_time() - started < 3
        async with connection.session() as session, session.create_consumer("q") as consumer:
            message = await consumer.receive(timeout=1)
            assert message is not None  # it was not acknowledged


@pytest.mark.parametrize(
    ("mode", "comes_again"),
    [(AcknowledgeMode.AUTO, True), (AcknowledgeMode.DUPS_OK, True), (AcknowledgeMode.CLIENT, False)],
)
async def test_a_failed_listener_gets_the_message_again_where_jms_says_so(
    mode: AcknowledgeMode, comes_again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[object] = []
    done = trio.Event()

    def listen(message: Message) -> None:
        heard.append(message.body)
        if message.body == "last":
            done.set()
        elif len(heard) == 1:
            raise ValueError("not this time")

    async with connected_in_vm() as connection, connection.session(acknowledge_mode=mode) as session:
        (await session.create_consumer("q")).set_message_listener(listen)
        async with connection.session() as other:
            producer = other.create_producer("q")
            await producer.send("first")
            await producer.send("last")
        await done.wait()
    assert heard == (["first", "first", "last"] if comes_again else ["first", "last"])
    assert "not this time" in caplog.text


async def test_a_cancelled_connection_cancels_its_listener() -> None:
    begun = trio.Event()
    cancelled = False

    async def listen(_: Message) -> None:
        nonlocal cancelled
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled = True

    with trio.CancelScope() as scope:
        async with connected_in_vm() as connection, connection.session() as session, connection.session() as other:
            (await session.create_consumer("q")).set_message_listener(listen)
            await other.create_producer("q").send("x")
            await begun.wait()
            scope.cancel()
            await trio.sleep_forever()
    assert cancelled


async def test_a_listener_that_cannot_be_called_is_refused() -> None:
    async with connected_in_vm() as connection, connection.session() as session:
        consumer = await session.create_consumer("q")
        with pytest.raises(TypeError, match="'x' cannot be called"):
            consumer.set_message_listener("x")  # type: ignore[arg-type]
        assert consumer.message_listener is None
