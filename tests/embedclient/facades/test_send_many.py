"""Messages that are encoded already, sent many at a time, through every facade."""

from __future__ import annotations

from typing import Any

import pytest

from embedbroker import EmbeddedBroker
from embedclient import Xid
from embedclient.errors import AddressFullException, ConnectionTimedOutException, MessageFormatException
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage
from tests.embedclient.facades.conftest import Client

CONFIRMED = "?confirmationWindowSize=65536&blockOnDurableSend=false"


def numbered(address: str, count: int) -> list[bytearray]:
    return [CoreMessage.build(address=address, body=str(number).encode()).raw for number in range(count)]


async def taken(session: Any, queue: str) -> list[bytes]:
    await session.start()
    bodies = []
    async with session.create_consumer(queue) as consumer:
        while (message := await consumer.receive_nowait()) is not None:
            bodies.append(message.body)
            await message.acknowledge()
    return bodies


async def test_many_messages_arrive_in_order_with_the_end_of_their_branch(client: Client, url: str) -> None:
    async with (
        client.server_locator(url).create_session_factory() as factory,
        factory.create_session() as other,
        factory.create_session(xa=True) as session,
    ):
        await other.create_queue("q")
        xid = Xid(1, b"branch", b"many")
        await session.xa_resource.start(xid)
        assert await session.create_producer("q").send_encoded(numbered("q", 1_000)) == []
        await session.xa_resource.end(xid)
        await session.xa_resource.prepare(xid)
        assert await taken(other, "q") == []
        await session.xa_resource.commit(xid)
        assert await taken(other, "q") == [str(number).encode() for number in range(1_000)]


async def test_a_message_that_no_frame_holds_is_named_and_the_others_are_sent(client: Client, url: str) -> None:
    locator = client.server_locator(url + "?blockOnDurableSend=false&minLargeMessageSize=2147483647")
    async with locator.create_session_factory() as factory, factory.create_session() as session:
        await session.create_queue("q")
        messages = numbered("q", 3)
        messages[1] = CoreMessage.build(address="q", body=bytes(factory.settings.frame_size_bytes_max)).raw
        refused = await session.create_producer("q").send_encoded(messages)
        assert [index for index, _ in refused] == [1]
        assert "is the most that one packet holds" in str(refused[0][1])
        assert await taken(session, "q") == [b"0", b"2"]


async def test_confirmed_sends_name_what_the_broker_refuses(client: Client) -> None:
    with EmbeddedBroker.in_thread(port=0, global_max_size_bytes=100_000) as broker:
        locator = client.server_locator(broker.url + CONFIRMED + "&producerWindowSize=-1")
        async with locator.create_session_factory() as factory, factory.create_session() as session:
            await session.create_queue("q")
            messages = [CoreMessage.build(address="q", body=bytes(10_000)).raw for _ in range(300)]
            refused = dict(await session.create_producer("q").send_encoded(messages, confirmed=True))
            assert {type(error) for error in refused.values()} == {AddressFullException}
            assert len(await taken(session, "q")) == 300 - len(refused) > 0


async def test_what_was_sent_before_with_the_same_duplicate_id_is_dropped(client: Client, url: str) -> None:
    locator = client.server_locator(url + CONFIRMED)
    async with locator.create_session_factory() as factory, factory.create_session() as session:
        await session.create_queue("q")
        messages = [
            CoreMessage.build(address="q", body=id, properties=Properties({"_AMQ_DUPL_ID": id})).raw
            for id in (b"a", b"b", b"a", b"c")
        ]
        assert await session.create_producer("q").send_encoded(messages, confirmed=True) == []
        assert await taken(session, "q") == [b"a", b"b", b"c"]


async def test_a_send_without_credit_ends_after_its_time(client: Client) -> None:
    with EmbeddedBroker.in_thread(port=0, global_max_size_bytes=100_000) as broker:
        locator = client.server_locator(broker.url)
        async with locator.create_session_factory() as factory, factory.create_session(xa=True) as session:
            await session.create_queue("q")
            await session.xa_resource.start(Xid(1, b"branch", b"many"))
            with pytest.raises(ConnectionTimedOutException, match=r"for 0\.05 seconds"):
                await session.create_producer("q").send_encoded(
                    [CoreMessage.build(address="q", body=bytes(5_000)).raw] * 200, timeout=0.05
                )


async def test_bytes_that_are_no_message_are_refused_with_their_number(client: Client, url: str) -> None:
    async with client.server_locator(url).create_session_factory() as factory, factory.create_session() as session:
        await session.create_queue("q")
        with pytest.raises(MessageFormatException, match="message 1 is not encoded properly"):
            await session.create_producer("q").send_encoded([*numbered("q", 1), bytearray(b"abc")])
        assert await taken(session, "q") == [b"0"]
