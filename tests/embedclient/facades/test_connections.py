"""Connections through every facade: scopes, client ids, starting and stopping, losing a broker and finding it again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from embedbroker import EmbeddedBroker
from embedclient import FailoverEventType
from embedclient.errors import (
    ConnectionClosedException,
    ConnectionFailedException,
    ConnectionLostException,
    ErrorCode,
    IllegalStateException,
    InvalidClientIDException,
    InvalidURLException,
    JMSException,
)
from tests.embedclient.facades.conftest import Client, connected


@pytest.fixture
def fixed_port_broker() -> Iterator[Any]:
    """A broker that comes back under the same URL after `crash` and `start`."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with EmbeddedBroker.in_thread(port=port) as running:
        yield running


async def test_an_exception_leaves_every_scope_as_the_same_object(client: Client, url: str) -> None:
    class Mine(Exception):
        pass

    mine = Mine()
    with pytest.raises(Mine) as caught:
        async with (
            connected(client, url) as connection,
            connection.session(transacted=True) as session,
            session.create_consumer("q"),
            session.transaction(),
        ):
            raise mine
    assert caught.value is mine
    assert mine.__context__ is None


async def test_no_connection_is_told_with_the_address(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(ConnectionLostException, match=str(port)) as caught:
        async with connected(client, f"tcp://127.0.0.1:{port}"):
            pass
    assert isinstance(caught.value, ConnectionError)


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".invalid", "nul%00.invalid", "127.0.0.1:9?localAddress=a..b"])
async def test_what_can_be_no_host_is_a_broker_that_cannot_be_reached(client: Client, host: str) -> None:
    with pytest.raises(ConnectionLostException, match=r"cannot connect to .*(is not the name of a host|not known)"):
        async with connected(client, f"tcp://{host}"):
            pass


async def test_the_next_broker_of_a_list_is_tried(client: Client, url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        dead = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    turns = iter((0, 1))
    both = f"({dead},{url})?retryInterval=1"
    async with (
        connected(client, both, load_balancing_policy=lambda count: next(turns)) as connection,
        connection.session() as session,
    ):
        await session.create_producer("q").send("x")
    assert list(turns) == []


async def test_a_wrong_url_is_refused_before_anything_is_opened(client: Client) -> None:
    with pytest.raises(InvalidURLException, match="did you mean 'reconnectAttempts'"):
        client.connection_factory("tcp://h:1?reconectAttempts=1")
    with pytest.raises(InvalidURLException, match="no scheme"):
        client.connection_factory("")


async def test_the_factory_shows_its_url_without_the_password(client: Client) -> None:
    factory = client.connection_factory("tcp://h:1?user=me&password=secret&callTimeout=77")
    assert factory.url == "tcp://h:1?user=***&password=***&callTimeout=***"
    assert factory.settings.call_timeout_ms == 77


async def test_a_client_id_belongs_to_one_connection(client: Client, url: str) -> None:
    async with connected(client, url, client_id="me") as connection:
        assert connection.client_id == "me"
        with pytest.raises(InvalidClientIDException):
            async with connected(client, url, client_id="me"):
                pass
    async with connected(client, f"{url}?clientID=me") as connection:
        assert connection.client_id == "me"


async def test_a_client_id_can_be_set_once_and_before_use(client: Client, url: str) -> None:
    async with connected(client, url) as connection:
        assert [connection.client_id] == [None]
        await connection.set_client_id("later")
        assert connection.client_id == "later"
        with pytest.raises(IllegalStateException, match="set once"):
            await connection.set_client_id("again")
    async with connected(client, url) as connection, connection.session():
        with pytest.raises(IllegalStateException, match="before the connection is used"):
            await connection.set_client_id("too late")


async def test_a_connection_that_was_not_started_delivers_nothing(client: Client, url: str) -> None:
    factory = client.connection_factory(url)
    async with factory.connect(auto_start=False) as connection, connection.session() as session:
        assert not connection.started
        await session.create_producer("q").send("x")
        consumer = await session.create_consumer("q")
        assert await consumer.receive(timeout=0.01) is None
        await connection.start()
        assert await consumer.receive(timeout=60) is not None
        await connection.stop()
        await session.create_producer("q").send("y")
        assert await consumer.receive(timeout=0.01) is None
        await connection.start()
        assert await consumer.receive(timeout=60) is not None


async def test_everything_of_a_closed_connection_is_closed(client: Client, url: str) -> None:
    async with connected(client, url) as connection:
        session = await connection.session()
        producer = session.create_producer("q")
        consumer = await session.create_consumer("q")
        other = await connection.session()
        await other.close()
        with pytest.raises(ConnectionClosedException, match="the session is closed"):
            other.create_producer("q")
        await connection.close()
        assert session.closed and producer.closed and consumer.closed
        with pytest.raises((ConnectionClosedException, ConnectionLostException)):
            await producer.send("x")
        with pytest.raises((ConnectionClosedException, ConnectionLostException)):
            await consumer.receive()
        for use in (connection.start, connection.stop, connection.session().__aenter__):
            with pytest.raises(ConnectionClosedException, match="the connection is closed"):
                await use()
        await session.close()
        await connection.close()


async def test_the_metadata_names_the_jms_version(client: Client, url: str) -> None:
    async with connected(client, url) as connection:
        assert connection.metadata.jms_version == "3.1"
        assert "JMSXGroupID" in connection.metadata.jmsx_property_names


async def test_a_lost_broker_ends_waiting_receives_and_tells_the_listeners(client: Client, broker: Any) -> None:
    told: list[tuple[str, object]] = []
    all_told = client.event()

    def on_failure(error: JMSException, failed_over: bool) -> None:
        told.append(("failure", failed_over))
        all_told.set()

    async with connected(client, broker.url) as connection, connection.session() as session:
        connection.exception_listener = lambda error: told.append(("exception", getattr(error, "jms_error_code", "")))
        connection.add_failure_listener(on_failure)
        consumer = await session.create_consumer("q")

        async def receive() -> None:
            with pytest.raises(JMSException) as caught:
                await consumer.receive()
            assert caught.value.error_code in (ErrorCode.NOT_CONNECTED, ErrorCode.DISCONNECTED)

        await client.together(receive, partial(client.aside, broker.crash))
        await all_told.wait()
        assert told == [("exception", "DISCONNECT"), ("failure", False)]
        with pytest.raises(JMSException):
            await session.create_producer("q").send("x")


async def test_sessions_and_consumers_live_on_after_a_reconnect(client: Client, fixed_port_broker: Any) -> None:
    broker = fixed_port_broker
    found_again = client.event()
    url = f"{broker.url}?reconnectAttempts=-1&retryInterval=5"
    async with connected(client, url) as connection, connection.session() as session:
        consumer = await session.create_consumer("q")
        producer = session.create_producer("q")

        def on_failure(_: JMSException, failed_over: bool) -> None:
            if failed_over:
                found_again.set()

        connection.add_failure_listener(on_failure)
        await client.aside(broker.crash)
        await client.aside(broker.start)
        await found_again.wait()
        connection.remove_failure_listener(on_failure)
        await producer.send("after")
        message = await consumer.receive(timeout=60)
        assert message is not None and message.body == "after"


async def test_listeners_hear_of_each_step_of_a_failover(client: Client, fixed_port_broker: Any) -> None:
    broker = fixed_port_broker
    told: list[object] = []
    heard = [client.event(), client.event()]

    def on_exception(error: JMSException) -> None:
        assert isinstance(error, ConnectionFailedException) and isinstance(error.linked_exception, JMSException)
        assert error.error_code == error.linked_exception.error_code
        told.append((error.failed_over, error.jms_error_code))
        heard[0 if error.failed_over else 1].set()

    url = f"{broker.url}?ha=true&reconnectAttempts=-1&retryInterval=5"
    async with connected(client, url) as connection, connection.session():
        connection.exception_listener = on_exception
        connection.add_failover_listener(told.append)
        await client.aside(broker.crash)
        await client.aside(broker.start)
        await heard[0].wait()
        connection.remove_failover_listener(told.append)
    url = f"{broker.url}?ha=true&reconnectAttempts=2&retryInterval=5"
    async with connected(client, url) as connection, connection.session():
        connection.exception_listener = on_exception
        connection.add_failover_listener(told.append)
        await client.aside(broker.crash)
        await heard[1].wait()
    detected, completed, failed = FailoverEventType
    assert told == [detected, completed, (True, "FAILOVER"), detected, failed, (False, "DISCONNECT")]


async def test_factories_and_destinations_have_names(client: Client, url: str) -> None:
    context = client.initial_context({"connectionFactory.cf": url, "queue.orders": "q"})
    async with context.connection_factory("cf").connect() as connection, connection.session() as session:
        queue = context.destination("orders")
        await session.create_producer(queue).send("x")
        async with session.create_consumer(queue) as consumer:
            message = await consumer.receive(timeout=60)
            assert message is not None and message.body == "x"
