"""What a URL's parameters change, as a program sees it, through every facade."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from embedbroker import AddressFullPolicy, AddressSettings, EmbeddedBroker
from embedclient import AcknowledgeMode, DeliveryMode
from embedclient.errors import ErrorCode, InvalidClientIDException, JMSException
from tests.embedclient.facades.conftest import Client, connected

#: The broker refuses each send but the first to this queue: a sender that waits for the answer gets an error.
FULL = "full"


@pytest.fixture
def broker() -> Iterator[Any]:
    full = AddressSettings(max_size_bytes=1, address_full_policy=AddressFullPolicy.FAIL)
    with EmbeddedBroker.in_thread(address_settings={FULL: full}) as running:
        yield running


async def groups_of_two_producers(client: Client, url: str) -> list[object]:
    """The group of two messages of one producer, and of one of another."""
    async with connected(client, url) as connection, connection.session() as session:
        for count in (2, 1):
            producer = session.create_producer("q")
            for _ in range(count):
                await producer.send("x")
        async with session.create_consumer("q") as consumer:
            messages = [await consumer.receive(timeout=60) for _ in range(3)]
    return [message.properties.get("JMSXGroupID") for message in messages if message is not None]


async def test_messages_have_no_group_unless_asked_for(client: Client, url: str) -> None:
    assert await groups_of_two_producers(client, url) == [None, None, None]


async def test_auto_group_gives_each_producer_a_group(client: Client, url: str) -> None:
    first, second, third = await groups_of_two_producers(client, f"{url}?autoGroup=true")
    assert isinstance(first, str) and isinstance(third, str)
    assert first == second != third


async def test_a_group_id_is_that_of_all_producers(client: Client, url: str) -> None:
    assert await groups_of_two_producers(client, f"{url}?groupID=mine&autoGroup=true") == ["mine"] * 3


@pytest.mark.parametrize(
    ("parameters", "mode", "waits"),
    [
        ("", DeliveryMode.PERSISTENT, True),
        ("?blockOnDurableSend=false", DeliveryMode.PERSISTENT, False),
        ("", DeliveryMode.NON_PERSISTENT, False),
        ("?blockOnNonDurableSend=true", DeliveryMode.NON_PERSISTENT, True),
    ],
)
async def test_which_sends_wait_for_the_answer(
    client: Client, url: str, parameters: str, mode: DeliveryMode, waits: bool
) -> None:
    async with connected(client, url + parameters) as connection, connection.session() as session:
        producer = session.create_producer(FULL)
        await producer.send("fills it", delivery_mode=mode)
        if not waits:
            await producer.send("refused", delivery_mode=mode)
            return
        with pytest.raises(JMSException) as caught:
            await producer.send("refused", delivery_mode=mode)
        assert caught.value.error_code == ErrorCode.ADDRESS_FULL


@pytest.mark.parametrize(("parameters", "comes_again"), [("", True), ("?preAcknowledge=true", False)])
async def test_pre_acknowledge_holds_for_every_mode(
    client: Client, url: str, parameters: str, comes_again: bool
) -> None:
    async with connected(client, url + parameters) as connection:
        async with connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session:
            await session.create_producer("q").send("x")
            async with session.create_consumer("q") as consumer:
                assert await consumer.receive(timeout=60) is not None
        async with connection.session() as session, session.create_consumer("q") as consumer:
            assert (await consumer.receive_nowait() is not None) is comes_again


async def test_a_shared_client_id_may_be_used_twice(client: Client, url: str) -> None:
    shared = f"{url}?clientID=me&enableSharedClientID=true"
    async with connected(client, shared), connected(client, shared) as second:
        assert second.client_id == "me"
    async with connected(client, f"{url}?clientID=me"):
        with pytest.raises(InvalidClientIDException):
            async with connected(client, f"{url}?clientID=me"):
                pass


@pytest.mark.parametrize("address", ["localAddress=127.0.0.1&", ""])
async def test_the_near_end_of_a_connection_can_be_chosen(client: Client, address: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as far, socket.create_server(("127.0.0.1", 0)) as probe:
        local_port = probe.getsockname()[1]
        probe.close()
        url = f"tcp://127.0.0.1:{far.getsockname()[1]}?{address}localPort={local_port}&callTimeout=50"

        async def connect() -> None:
            with pytest.raises(JMSException):
                async with connected(client, url):
                    pass

        peers: list[Any] = []

        def accept() -> None:
            accepted, peer = far.accept()
            accepted.close()
            peers.append(peer)

        async def answer() -> None:
            await client.aside(accept)

        await client.together(answer, connect)
    assert peers == [("127.0.0.1", local_port)]


@pytest.mark.parametrize("mode", [7, "CLIENT", None])
async def test_an_acknowledge_mode_that_there_is_not_is_told_those_there_are(
    client: Client, url: str, mode: Any
) -> None:
    async with connected(client, url) as connection:
        with pytest.raises(ValueError, match=r"^acknowledge_mode must be one of .*CLIENT \(2\).*, not "):
            async with connection.session(acknowledge_mode=mode):
                raise AssertionError("there is no such session")
