"""What a debugger and a notebook show of the objects of each facade; temporary destinations that delete themselves."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from embedbroker import EmbeddedBroker
from embedclient import ClientMessage, TemporaryQueue
from embedclient.errors import IllegalStateException, InvalidDestinationException
from tests.embedclient.facades.conftest import Client, connected


def shown(thing: object) -> str:
    return repr(vars(thing).get("_blocking", thing) if hasattr(thing, "__dict__") else thing)


async def test_objects_show_what_they_are_for_and_whether_they_are_closed(client: Client, url: str) -> None:
    factory = client.connection_factory(url)
    assert shown(factory) == f"<ConnectionFactory {url!r}>"
    async with connected(client, url) as connection, connection.session() as session:
        place = url.partition("?")[0].removeprefix("tcp://")
        assert shown(connection) == f"<Connection to {place}>"
        assert shown(session) == "<Session AUTO>"
        producer = session.create_producer("orders")
        consumer = await session.create_consumer("orders", "price > 5")
        assert shown(producer) == "<MessageProducer to queue://orders>"
        assert shown(session.create_producer()) == "<MessageProducer to any destination>"
        assert shown(consumer) == "<MessageConsumer of queue://orders where price > 5>"
        await consumer.close()
        assert shown(consumer) == "<MessageConsumer of queue://orders where price > 5 closed>"
        async with session.create_browser("orders") as browser:
            assert shown(browser) == "<QueueBrowser of queue://orders>"
    async with factory.create_context() as context:
        assert shown(context) == f"<JMSContext <Session AUTO> of <Connection to {place}>>"
        assert shown(context.create_producer()) == "<JMSProducer>"
    assert shown(connection).endswith("closed>") and shown(session) == "<Session AUTO closed>"
    async with client.server_locator(url).create_session_factory() as sessions:
        assert shown(sessions) == f"<ClientSessionFactory to {place}>"
        async with sessions.create_session() as core:
            assert re.fullmatch(r"<ClientSession [\w-]+>", shown(core))
            assert shown(core.create_producer("a")) == "<ClientProducer to a>"
    assert repr(ClientMessage(b"x", address="a")) == "<ClientMessage to a of type 0>"


async def test_a_temporary_destination_deletes_itself(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        queue, topic = await session.create_temporary_queue(), await session.create_temporary_topic()
        for destination in (queue, topic):
            deleted = destination.delete()
            if client.name == "blocking":
                assert deleted is None
            else:
                await deleted
        with pytest.raises(InvalidDestinationException):
            await session.create_consumer(queue)
        with pytest.raises(IllegalStateException, match="the connection that made it"):
            TemporaryQueue(queue.name).delete()


async def test_a_copy_of_a_temporary_destination_does_not_delete(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        for destination in (await session.create_temporary_queue(), await session.create_temporary_topic()):
            for same in (pickle.loads(pickle.dumps(destination)), copy.deepcopy(destination)):
                assert same == destination and type(same) is type(destination)
                with pytest.raises(IllegalStateException, match="the connection that made it"):
                    same.delete()


def test_a_broker_shows_its_role_and_its_address() -> None:
    broker = EmbeddedBroker.in_thread(name="orders")
    assert repr(broker) == "<ThreadedBroker 'orders' stopped>"
    with broker:
        assert repr(broker) == f"<ThreadedBroker 'orders' live at {broker.url}>"
    assert repr(broker) == "<ThreadedBroker 'orders' stopped>"
