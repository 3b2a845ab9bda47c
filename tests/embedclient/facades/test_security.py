"""A broker with users through every facade: credentials from arguments and URLs, refusals, and a new broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from embedbroker import EmbeddedBroker, SecuritySetting, User
from embedclient import Queue
from embedclient.errors import ErrorCode, JMSSecurityException
from tests.embedclient.facades.conftest import Client

USERS = [User("app", "p&ss wörd", roles=["amq"]), User("reader", "r", roles=["readers"])]
SETTINGS = {
    "#": SecuritySetting.all("amq"),
    "orders": SecuritySetting(
        send=["amq"], create_address=["amq"], create_durable_queue=["amq"], consume=["amq", "readers"]
    ),
}
ORDERS = Queue("orders")


async def body_from(consumer: Any) -> object:
    return (await consumer.receive(timeout=60)).body


@pytest.fixture
def secured() -> Iterator[Any]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with EmbeddedBroker.in_thread(port=port, users=USERS, security_settings=SETTINGS) as running:
        yield running


@pytest.mark.parametrize("place", ["connection", "factory", "url", "context"])
async def test_credentials_are_taken_from_each_place(place: str, client: Client, secured: Any) -> None:
    options = {"user": "app", "password": "p&ss wörd"}
    url = f"{secured.url}?user=app&password=p%26ss%20w%C3%B6rd" if place == "url" else secured.url
    factory = client.connection_factory(url, **(options if place == "factory" else {}))
    given: Any = options if place in ("connection", "context") else {}
    if place == "context":
        async with factory.create_context(**given) as context:
            await context.create_producer().send(ORDERS, "two coffees")
        return
    async with factory.create_connection(**given) as connection, connection.session() as session:
        await session.create_producer(ORDERS).send("two coffees")
        async with session.create_consumer(ORDERS) as consumer:
            assert await body_from(consumer) == "two coffees"


@pytest.mark.parametrize(("user", "password"), [("app", "guess-1"), ("nobody", "guess-2"), (None, None)])
async def test_wrong_credentials_are_refused_and_named_without_the_password(
    user: str | None, password: str | None, client: Client, secured: Any
) -> None:
    with pytest.raises(JMSSecurityException, match="AMQ229031") as caught:
        async with client.connection_factory(secured.url).create_connection(user, password):
            pass
    assert caught.value.error_code == ErrorCode.SECURITY_EXCEPTION and isinstance(caught.value, PermissionError)
    assert "guess" not in str(caught.value)


async def test_a_refused_operation_leaves_its_session_usable(client: Client, secured: Any) -> None:
    factory = client.connection_factory(secured.url)
    async with factory.create_connection("app", "p&ss wörd") as connection, connection.session() as session:
        await session.create_producer(ORDERS).send("two coffees")
    async with factory.create_connection("reader", "r") as connection, connection.session() as session:
        with pytest.raises(JMSSecurityException, match="AMQ229032: User: reader does not have permission='SEND'"):
            await session.create_producer(ORDERS).send("no")
        with pytest.raises(JMSSecurityException, match="permission='BROWSE'"):
            async with session.create_browser(ORDERS) as browser:
                [message async for message in browser]
        async with session.create_consumer(ORDERS) as consumer:
            assert await body_from(consumer) == "two coffees"


async def test_a_connection_logs_in_again_at_the_next_broker(client: Client, secured: Any) -> None:
    url = f"{secured.url}?reconnectAttempts=-1&retryInterval=50"
    factory = client.connection_factory(url)
    async with factory.create_connection("app", "p&ss wörd") as connection, connection.session() as session:
        producer = session.create_producer(ORDERS)
        await producer.send("before")

        def replace() -> None:
            secured.crash()
            secured.start()

        await client.aside(replace)
        await producer.send("after")
        async with session.create_consumer(ORDERS) as consumer:
            assert await body_from(consumer) == "after"
