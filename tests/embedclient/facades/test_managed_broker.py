"""Pauses, `broker.management`, management messages and notifications, as a program with each facade meets them."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from embedbroker import AddressInfo, AddressSettings, QueueInfo, SecuritySetting, User
from embedclient import Queue, TextMessage, Topic
from embedclient.errors import JMSException, JMSSecurityException
from tests.embedclient.facades.conftest import Client, connected, texts

ORDERS = Queue("orders")


# -- pauses ------------------------------------------------------------------------------------------------------


async def test_a_paused_queue_takes_and_shows_messages_and_delivers_them_later(client: Client) -> None:
    async with (
        client.broker() as broker,
        connected(client, broker.url) as connection,
        connection.session() as session,
        session.create_consumer(ORDERS) as consumer,
        session.create_browser(ORDERS) as browser,
    ):
        await broker.management.pause_queue("orders")
        await session.create_producer(ORDERS).send("tea")
        assert await consumer.receive_nowait() is None
        assert [message.body async for message in browser] == ["tea"]
        assert await broker.management.get("queue.orders", "Paused") is True
        await broker.management.resume_queue("orders")
        assert await texts(consumer, 1) == ["tea"]


async def test_a_listener_gets_what_came_during_a_pause(client: Client) -> None:
    async with client.broker() as broker, connected(client, broker.url) as connection, connection.session() as session:
        got: list[object] = []
        done = client.event()

        def listen(message: Any) -> None:
            got.append(message.body)
            if len(got) == 2:
                done.set()

        consumer = await session.create_consumer(ORDERS)
        await broker.management.pause_queue("orders")
        async with connection.session() as sending:
            producer = sending.create_producer(ORDERS)
            consumer.set_message_listener(listen)
            for text in ("tea", "rice"):
                await producer.send(text)
            assert await broker.management.message_count("orders") == 2 and got == []
            await broker.management.resume_queue("orders")
            await done.wait()
        assert got == ["tea", "rice"]


async def test_a_paused_address_pauses_subscriptions_that_come_later(client: Client) -> None:
    async with client.broker() as broker, connected(client, broker.url) as connection, connection.session() as session:
        await broker.management.create_address("prices", "MULTICAST")
        await broker.management.pause_address("prices")
        async with session.create_consumer(Topic("prices")) as consumer:
            await session.create_producer(Topic("prices")).send("3.20")
            assert await consumer.receive_nowait() is None
            await broker.management.resume_address("prices")
            assert await texts(consumer, 1) == ["3.20"]


async def test_a_pause_that_persists_outlives_the_broker(client: Client, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    async with client.broker(data_directory=str(tmp_path), port=port) as broker:
        await broker.management.create_queue("orders")
        await broker.management.pause_queue("orders", persist=True)
        await broker.management.create_queue("other")
        await broker.management.pause_queue("other")
        url = f"{broker.url}?reconnectAttempts=-1&retryInterval=50"
        async with connected(client, url) as connection, connection.session() as session:
            for queue in ("orders", "other"):
                await session.create_producer(Queue(queue)).send(queue)
            await broker.crash()
            await broker.start()
            async with session.create_consumer(Queue("other")) as other, session.create_consumer(ORDERS) as orders:
                assert await texts(other, 1) == ["other"]
                assert await orders.receive_nowait() is None
                await broker.management.resume_queue("orders")
                assert await texts(orders, 1) == ["orders"]


# -- broker.management -------------------------------------------------------------------------------------------


async def test_queues_and_addresses_are_made_shown_and_changed(client: Client) -> None:
    async with client.broker() as broker, connected(client, broker.url) as connection, connection.session() as session:
        management = broker.management
        await management.create_queue("teas", address="prices", routing_type="MULTICAST", filter="kind = 'tea'")
        producer = session.create_producer(Topic("prices"))
        for kind in ("tea", "rice"):
            await producer.send(TextMessage(kind, properties={"kind": kind}))
        shown = {queue.name: queue for queue in await management.queues()}
        assert shown["teas"] == QueueInfo("teas", "prices", "MULTICAST", True, 1, 0, 0, 1, 0)
        async with session.create_consumer(Queue("prices::teas")) as consumer:
            assert await texts(consumer, 1) == ["tea"]
            with pytest.raises(JMSException, match="AMQ229025"):
                await management.delete_queue("teas")
        await management.update_queue("teas", filter="kind = 'rice'")
        await producer.send(TextMessage("rice", properties={"kind": "rice"}))
        addresses = {address.name: address for address in await management.addresses()}
        assert addresses["prices"] == AddressInfo("prices", ("MULTICAST",), 1, 1, 2, 1)
        assert await management.purge_queue("teas") == 1
        await management.delete_address("prices", deletes_queues=True)
        assert "teas" not in await management.queue_names()


async def test_messages_are_sent_browsed_moved_and_received(client: Client) -> None:
    async with client.broker() as broker, connected(client, broker.url) as connection, connection.session() as session:
        management = broker.management
        for name in ("orders", "other"):
            await management.create_queue(name)
        identifier = await management.send_message("orders", "tea", properties={"region": "EU"})
        await management.send_message("orders", "rice")
        (row,) = await management.browse("orders", filter="region = 'EU'")
        assert row["messageID"] == identifier
        assert await management.copy_message("orders", identifier, "other") is True
        assert await management.move_messages("orders", "other", filter="region IS NULL") == 1
        async with session.create_consumer(Queue("other")) as consumer:
            assert await texts(consumer, 2) == ["tea", "rice"]
        assert await management.reject_messages("orders") == 1
        async with session.create_consumer(Queue("DLQ")) as consumer:
            assert await texts(consumer, 1) == ["tea"]


async def test_settings_and_permissions_count_in_open_sessions(client: Client) -> None:
    users = [User("app", "secret", roles=["apps"])]
    async with client.broker(users=users, security_settings={"#": SecuritySetting.all("apps")}) as broker:
        management = broker.management
        async with (
            connected(client, broker.url, user="app", password="secret") as connection,
            connection.session() as session,
        ):
            producer = session.create_producer(ORDERS)
            await producer.send("tea")
            await management.add_address_settings("orders", AddressSettings(max_delivery_attempts=1))
            assert (await management.address_settings("orders")).max_delivery_attempts == 1
            await management.add_security_settings("orders", SecuritySetting(consume=["apps"]))
            assert (await management.security_settings("orders")).consume == frozenset({"apps"})
            with pytest.raises(JMSSecurityException, match="permission='SEND'"):
                await producer.send("rice")
            await management.remove_security_settings("orders")
            await producer.send("rice")
        await management.add_user("new", "word", ["apps"])
        assert (await management.users())["new"] == ["apps"]
        async with connected(client, broker.url, user="new", password="word"):
            assert await management.close_connections(user="other") is False


async def test_connections_that_management_closes_notify_their_programs(client: Client) -> None:
    async with client.broker() as broker:
        lost = client.event()
        errors: list[JMSException] = []

        def on_exception(error: JMSException) -> None:
            errors.append(error)
            lost.set()

        async with connected(client, f"{broker.url}?reconnectAttempts=0") as connection:
            connection.exception_listener = on_exception
            assert await broker.management.close_connections(address="127.0.0.1") is True
            await lost.wait()
        assert len(errors) == 1


async def test_a_stopped_acceptor_accepts_no_connection_until_it_is_started(client: Client) -> None:
    async with client.broker() as broker:
        management = broker.management
        (name,) = await management.acceptor_names()
        url = broker.url
        await management.stop_acceptor(name)
        with pytest.raises(JMSException):
            async with connected(client, url):
                pass
        await management.start_acceptor(name)
        assert await management.is_acceptor_started(name) is True
        async with connected(client, url):
            pass


async def test_wrong_calls_fail_with_the_text_of_the_broker(client: Client) -> None:
    async with client.broker() as broker:
        with pytest.raises(JMSException, match="AMQ229017: Queue nope does not exist"):
            await broker.management.delete_queue("nope")
        with pytest.raises(JMSException, match=r"AMQ229067: Cannot find resource with name queue\.nope"):
            await broker.management.pause_queue("nope")
        with pytest.raises(TypeError, match="settings must be AddressSettings"):
            await broker.management.add_address_settings("orders", 5)  # type: ignore[arg-type]  # the mistake
        with pytest.raises(ValueError, match="without a filter"):
            await broker.management.browse("orders", scheduled=True, filter="a = 1")


# -- management messages -----------------------------------------------------------------------------------------


async def invoke(session: Any, resource: str, operation: str, *arguments: object) -> tuple[bool, Any]:
    """Return the outcome and the result of an operation that a management message requests."""
    replies = await session.create_temporary_queue()
    async with session.create_consumer(replies) as consumer:
        properties = {"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}
        request = TextMessage(json.dumps(arguments), reply_to=replies, correlation_id="7", properties=properties)
        await session.create_producer(Queue("activemq.management")).send(request)
        reply = await consumer.receive(timeout=60)
    assert reply is not None and reply.correlation_id == "7"
    result = json.loads(reply.body)[0] if reply.body else None
    return reply.properties["_AMQ_OperationSucceeded"], result


async def test_management_messages_do_the_same(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        await session.create_producer(ORDERS).send("tea")
        assert await invoke(session, "queue.orders", "countMessages") == (True, 1)
        await invoke(session, "queue.orders", "pause")
        async with session.create_consumer(ORDERS) as consumer:
            assert await consumer.receive_nowait() is None
            assert await invoke(session, "queue.orders", "resume") == (True, None)
            assert await texts(consumer, 1) == ["tea"]
        divert = ("all", "all", "orders", "audit", False, None, None, "ANYCAST")
        assert (await invoke(session, "broker", "createDivert", *divert))[0] is True
        async with session.create_consumer(Queue("audit")) as audit:
            await session.create_producer(ORDERS).send("rice")
            assert await texts(audit, 1) == ["rice"]
        succeeded, reason = await invoke(session, "queue.nope", "pause")
        assert succeeded is False and "AMQ229067" in reason


async def test_notifications_come_to_a_topic_consumer(client: Client, url: str) -> None:
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(Topic("activemq.notifications"), "_AMQ_NotifType = 'CONSUMER_CREATED'") as events,
    ):
        # The subscription announces itself.
        first = await events.receive(timeout=60)
        assert first is not None and first.properties["_AMQ_Address"] == "activemq.notifications"
        async with session.create_consumer(ORDERS, "region = 'EU'"):
            event = await events.receive(timeout=60)
            assert event is not None
            found = {name: event.properties[name] for name in ("_AMQ_Address", "_AMQ_FilterString")}
            assert found == {"_AMQ_Address": "orders", "_AMQ_FilterString": "region = 'EU'"}
