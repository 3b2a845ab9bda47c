"""A line that is cut: what a program sees of it, with and without the means to reconnect."""

from __future__ import annotations

import pytest
import trio

from embedclient import AcknowledgeMode, ClientMessage, ConnectionFactory, ServerLocator
from embedclient.agent import ConnectionFailed, Notification
from embedclient.errors import (
    ConnectionClosedException,
    ConnectionLostException,
    JMSException,
    TransactionRolledBackException,
    UnblockedException,
)
from tests.embedclient.client.conftest import relayed_broker

# A broker keeps the sessions of a lost line for their time to live; in-VM connections have none by default.
RECONNECT = "reconnectAttempts=-1&retryInterval=1&connectionTTL=60000"


async def test_with_a_confirmation_window_cuts_lose_nothing_and_repeat_nothing() -> None:
    count = 120
    async with relayed_broker() as relay:
        url = f"{relay.url}?{RECONNECT}&confirmationWindowSize=3000"
        async with ConnectionFactory(url).connect() as connection, trio.open_nursery() as nursery:

            async def send() -> None:
                async with connection.session() as session:
                    producer = session.create_producer("q")
                    for index in range(count):
                        await producer.send(str(index))
                        if index % 25 == 10:
                            relay.cut()

            nursery.start_soon(send)
            async with connection.session() as session, session.create_consumer("q") as consumer:
                bodies: list[object] = []
                while len(bodies) < count:
                    message = await consumer.receive()
                    assert message is not None
                    bodies.append(message.body)
        assert bodies == [str(index) for index in range(count)]
        assert relay.accepted > 3


async def test_a_blocked_call_is_released_and_the_session_goes_on() -> None:
    async with relayed_broker() as relay, ConnectionFactory(f"{relay.url}?{RECONNECT}").connect() as connection:
        session = await connection.session()
        producer = session.create_producer("q")
        await producer.send("first")
        relay.hold("down")
        async with trio.open_nursery() as nursery:

            async def cut() -> None:
                await trio.testing.wait_all_tasks_blocked()
                relay.cut()
                relay.release()

            nursery.start_soon(cut)
            with pytest.raises(UnblockedException):
                await producer.send("in flight")
        await producer.send("after")
        consumer = await session.create_consumer("q")
        bodies = [(await consumer.receive(timeout=1)).body for _ in range(3)]  # type: ignore[union-attr]
        assert bodies == ["first", "in flight", "after"]


async def test_a_transaction_that_lost_work_can_only_be_rolled_back() -> None:
    async with relayed_broker() as relay, ConnectionFactory(f"{relay.url}?{RECONNECT}").connect() as connection:
        reconnected = trio.Event()
        connection.add_failure_listener(lambda _, failed_over: reconnected.set() if failed_over else None)
        async with connection.session(transacted=True) as session:
            producer = session.create_producer("q")
            await producer.send("lost")
            relay.cut()
            await reconnected.wait()
            with pytest.raises(TransactionRolledBackException):
                await session.commit()
            await producer.send("kept")
            await session.commit()
            consumer = await session.create_consumer("q")
            message = await consumer.receive(timeout=1)
            assert message is not None and message.body == "kept"


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
async def test_acknowledging_a_message_of_a_session_that_was_lost_is_an_error(mode: AcknowledgeMode) -> None:
    async with relayed_broker() as relay, ConnectionFactory(f"{relay.url}?{RECONNECT}").connect() as connection:
        reconnected = trio.Event()
        connection.add_failure_listener(lambda _, failed_over: reconnected.set() if failed_over else None)
        async with connection.session(acknowledge_mode=mode) as session, session.create_consumer("q") as consumer:
            await session.create_producer("q").send("x")
            lost = await consumer.receive(timeout=1)
            relay.cut()
            await reconnected.wait()
            assert lost is not None
            with pytest.raises(TransactionRolledBackException):
                await lost.acknowledge()
            again = await consumer.receive(timeout=1)
            assert again is not None and again.redelivered
            await again.acknowledge()
            await session.recover()
            assert await consumer.receive_nowait() is None


async def test_without_reconnecting_everything_ends_with_the_line() -> None:
    async with relayed_broker() as relay, ConnectionFactory(relay.url).connect() as connection:
        failures: list[tuple[JMSException, bool]] = []
        told = trio.Event()

        async def on_failure(error: JMSException, failed_over: bool) -> None:
            failures.append((error, failed_over))
            told.set()

        connection.add_failure_listener(on_failure)
        session = await connection.session()
        consumer = await session.create_consumer("q")
        producer = session.create_producer("q")
        relay.cut()
        with pytest.raises(ConnectionLostException):
            await consumer.receive()
        await told.wait()
        assert [failed_over for _, failed_over in failures] == [False]
        with pytest.raises(JMSException):
            async for _ in consumer:
                pass
        # The same error wherever one meets it, and it describes what happened.
        with pytest.raises(ConnectionLostException, match=r"closed by the peer|reset") as again:
            await producer.send("x")
        with pytest.raises(ConnectionLostException, match=r"closed by the peer|reset"):
            producer.send_nowait("x")
        with pytest.raises(ConnectionLostException):
            await session.create_producer("q").send("x")
        assert not isinstance(again.value, ConnectionClosedException)
        with pytest.raises(JMSException):
            await connection.session()
        await session.close()


async def test_a_failing_listener_of_failures_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with relayed_broker() as relay, ConnectionFactory(f"{relay.url}?{RECONNECT}").connect() as connection:
        told = trio.Event()

        def fail(_: JMSException, __: bool) -> None:
            raise ValueError("not today")

        connection.add_failure_listener(fail)
        connection.add_failure_listener(lambda *_: told.set())
        async with connection.session() as session:
            relay.cut()
            await told.wait()
            await session.create_producer("q").send("x")
    assert "not today" in caplog.text


async def test_a_listener_of_the_factory_that_fails_is_logged_and_the_factory_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with relayed_broker() as relay, ServerLocator(f"{relay.url}?{RECONNECT}").create_session_factory() as factory:
        heard = []

        def listener(notification: object) -> None:
            heard.append(type(notification).__name__)
            raise ValueError("a mistake of the user")

        factory.on_notification(listener)
        async with factory.create_session() as session:
            await session.create_queue("q")
            relay.cut()
            await session.create_producer("q").send(session.create_message())
        assert heard == ["FailureDetected", "FailoverCompleted", "ConnectionFailed"]
        assert caplog.text.count("a listener of the session factory failed") == 3


@pytest.mark.parametrize("nowait", [False, True])
@pytest.mark.parametrize("cut", [False, True])
async def test_a_receive_ends_in_time_while_the_broker_is_away_or_silent(cut: bool, nowait: bool) -> None:
    async with (
        relayed_broker() as relay,
        ServerLocator(f"{relay.url}?{RECONNECT}&callTimeout=50").create_session_factory() as factory,
        factory.create_session() as session,
    ):
        await session.create_queue("q")
        await session.start()
        async with session.create_consumer("q") as consumer:
            lost = trio.Event()
            factory.on_notification(lambda _: lost.set())
            relay.hold("up")
            relay.hold("down")
            if cut:
                relay.cut()
                await lost.wait()
            with trio.fail_after(5):
                assert await (consumer.receive_nowait() if nowait else consumer.receive(timeout=0.01)) is None
            relay.release()
            await session.create_producer("q").send(ClientMessage(b"after"))
            message = await consumer.receive(timeout=5)
            assert message is not None and message.body == b"after"


async def test_a_browser_does_not_take_an_absent_broker_for_the_end_of_its_queue() -> None:
    async with (
        relayed_broker() as relay,
        ConnectionFactory(f"{relay.url}?{RECONNECT}").connect() as connection,
        connection.session() as session,
    ):
        await session.create_producer("q").send("x")
        async with session.create_browser("q") as browser:
            first = await browser.next_message()
            relay.hold("down")
            relay.cut()
            await trio.testing.wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:

                async def come_back() -> None:
                    await trio.testing.wait_all_tasks_blocked()
                    relay.release()

                nursery.start_soon(come_back)
                # The look begins again with the session.
                again = await browser.next_message()
            assert first is not None and again is not None
            assert (first.body, again.body) == ("x", "x")


@pytest.mark.parametrize("acknowledged", ["before the loss", "after the loss"])
@pytest.mark.parametrize("individually", [False, True])
async def test_a_core_transaction_that_lost_an_acknowledgement_can_only_be_rolled_back(
    acknowledged: str, individually: bool
) -> None:
    async with (
        relayed_broker() as relay,
        ServerLocator(f"{relay.url}?{RECONNECT}").create_session_factory() as factory,
        factory.create_session(auto_commit_sends=False, auto_commit_acks=False) as session,
    ):
        reconnected = trio.Event()
        factory.on_notification(lambda notification: _set_when_back(reconnected, notification))
        await session.create_queue("q")
        await session.create_producer("q").send(ClientMessage(b"one"))
        await session.commit()
        await session.start()
        async with session.create_consumer("q") as consumer:
            message = await consumer.receive(timeout=1)
            assert message is not None
            acknowledge = message.acknowledge_individually if individually else message.acknowledge
            if acknowledged == "before the loss":
                await acknowledge()
            relay.cut()
            await reconnected.wait()
            if acknowledged == "after the loss":
                await acknowledge()
            with pytest.raises(TransactionRolledBackException):
                await session.commit()
            again = await consumer.receive(timeout=1)
            assert again is not None and again.body == b"one"
            await again.acknowledge()
            await session.commit()
            assert await consumer.receive_nowait() is None


def _set_when_back(reconnected: trio.Event, notification: Notification) -> None:
    if isinstance(notification, ConnectionFailed) and notification.failed_over:
        reconnected.set()
