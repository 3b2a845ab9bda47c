"""Transactions and acknowledgement through every facade."""

from __future__ import annotations

import pytest

from embedclient import AcknowledgeMode, DeliveryMode, SessionMode, Topic
from embedclient.errors import IllegalStateException, TransactionRolledBackException
from tests.embedclient.facades.conftest import Client, connected


async def test_nothing_is_seen_before_the_commit(client: Client, url: str) -> None:
    async with (
        connected(client, url) as connection,
        connection.session() as reader,
        reader.create_consumer("q") as consumer,
    ):
        async with connection.session(transacted=True) as session:
            assert session.transacted and session.acknowledge_mode is None
            await session.create_producer("q").send("x")
            assert await consumer.receive_nowait() is None
            await session.commit()
        received = await consumer.receive(timeout=60)
        assert received is not None and received.body == "x"


async def test_a_rollback_drops_what_was_sent_and_brings_back_what_was_received(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session(transacted=True) as session:
        producer = session.create_producer("q")
        await producer.send("kept")
        await session.commit()
        async with session.create_consumer("q") as consumer:
            first = await consumer.receive(timeout=60)
            assert first is not None and not first.redelivered
            await producer.send("dropped")
            await session.rollback()
            again = await consumer.receive(timeout=60)
            assert again is not None
            assert (again.body, again.redelivered, again.delivery_count) == ("kept", True, 2)
            await session.commit()
            assert await consumer.receive_nowait() is None


async def test_the_transaction_block_commits_or_rolls_back(client: Client, url: str) -> None:
    class Mine(Exception):
        pass

    async with connected(client, url) as connection, connection.session(transacted=True) as session:
        producer = session.create_producer("q")
        async with session.transaction():
            await producer.send("committed")
        mine = Mine()
        with pytest.raises(Mine) as caught:
            async with session.transaction():
                await producer.send("rolled back")
                raise mine
        assert caught.value is mine
        async with connection.session() as reader, reader.create_consumer("q") as consumer:
            received = await consumer.receive(timeout=60)
            assert received is not None and received.body == "committed"
            assert await consumer.receive_nowait() is None


async def test_a_transaction_that_was_left_open_is_rolled_back(client: Client, url: str) -> None:
    async with connected(client, url) as connection:
        async with connection.session(transacted=True) as session:
            await session.create_producer("q").send("lost")
        async with connection.session() as reader, reader.create_consumer("q") as consumer:
            assert await consumer.receive_nowait() is None


async def test_only_transacted_sessions_have_transactions(client: Client, url: str) -> None:
    async with connected(client, url) as connection:
        async with connection.session() as session:
            for call in (session.commit, session.rollback):
                with pytest.raises(IllegalStateException, match="only a transacted session"):
                    await call()
        async with connection.session(transacted=True) as session:
            with pytest.raises(IllegalStateException, match="cannot recover"):
                await session.recover()


async def test_auto_acknowledged_messages_do_not_come_again(client: Client, url: str) -> None:
    async with connected(client, url) as connection:
        async with connection.session() as session:
            await session.create_producer("q").send("x")
            assert await (await session.create_consumer("q")).receive(timeout=60) is not None
        async with connection.session() as session:
            assert await (await session.create_consumer("q")).receive_nowait() is None


async def test_client_acknowledgement_covers_everything_received(client: Client, url: str) -> None:
    async with connected(client, url) as connection:
        async with connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session:
            producer = session.create_producer("q")
            for body in ("1", "2", "3"):
                await producer.send(body)
            consumer = await session.create_consumer("q")
            await consumer.receive(timeout=60)
            second = await consumer.receive(timeout=60)
            assert second is not None
            await second.acknowledge()
            await consumer.receive(timeout=60)
        async with connection.session() as session:
            consumer = await session.create_consumer("q")
            third = await consumer.receive(timeout=60)
            assert third is not None and third.body == "3"
            assert await consumer.receive_nowait() is None


async def test_individual_acknowledgement_covers_one_message(client: Client, url: str) -> None:
    async with connected(client, url) as connection:
        async with connection.session(acknowledge_mode=AcknowledgeMode.INDIVIDUAL) as session:
            producer = session.create_producer("q")
            for body in ("1", "2"):
                await producer.send(body)
            consumer = await session.create_consumer("q")
            await consumer.receive(timeout=60)
            second = await consumer.receive(timeout=60)
            assert second is not None
            await second.acknowledge()
        async with connection.session() as session:
            consumer = await session.create_consumer("q")
            first = await consumer.receive(timeout=60)
            assert first is not None and first.body == "1"
            assert await consumer.receive_nowait() is None


async def test_a_message_that_was_recovered_cannot_be_acknowledged_alone(client: Client, url: str) -> None:
    async with (
        connected(client, url) as connection,
        connection.session(acknowledge_mode=AcknowledgeMode.INDIVIDUAL) as session,
    ):
        await session.create_producer("q").send("x")
        consumer = await session.create_consumer("q")
        first = await consumer.receive(timeout=60)
        assert first is not None
        await session.recover()
        with pytest.raises(TransactionRolledBackException, match="nothing was acknowledged"):
            await first.acknowledge()
        again = await consumer.receive(timeout=60)
        assert again is not None and again.redelivered
        await again.acknowledge()


async def test_recover_delivers_again_with_the_flag(client: Client, url: str) -> None:
    async with (
        connected(client, url) as connection,
        connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session,
    ):
        await session.create_producer("q").send("x")
        consumer = await session.create_consumer("q")
        first = await consumer.receive(timeout=60)
        assert first is not None and not first.redelivered
        await session.recover()
        again = await consumer.receive(timeout=60)
        assert again is not None and again.redelivered
        await again.acknowledge()


@pytest.mark.parametrize("mode", [AcknowledgeMode.DUPS_OK, AcknowledgeMode.PRE])
async def test_the_lazy_modes_acknowledge_by_themselves(client: Client, url: str, mode: AcknowledgeMode) -> None:
    async with connected(client, url) as connection:
        async with connection.session(acknowledge_mode=mode) as session:
            assert session.acknowledge_mode is mode
            await session.create_producer("q").send("x")
            async with session.create_consumer("q") as consumer:
                assert await consumer.receive(timeout=60) is not None
        async with connection.session() as session:
            assert await (await session.create_consumer("q")).receive_nowait() is None


async def test_a_message_of_a_closed_session_cannot_be_acknowledged(client: Client, url: str) -> None:
    for mode in SessionMode:
        for closing in ("session", "connection"):
            async with client.connection_factory(url).create_context(mode) as context:
                queue = f"{closing}-{mode.name}"
                await context.create_producer().send(queue, "x")
                if mode is SessionMode.TRANSACTED:
                    await context.commit()
                async with context.create_consumer(queue) as consumer:
                    message = await consumer.receive(timeout=60)
                assert message is not None
                if mode not in (SessionMode.CLIENT, SessionMode.INDIVIDUAL):
                    await message.acknowledge()  # nothing to do; that the consumer is closed is allowed
                await getattr(context, closing).close()
                for acknowledge in (message.acknowledge, context.acknowledge):
                    with pytest.raises(IllegalStateException, match="closed"):
                        await acknowledge()


async def test_a_context_acknowledges_everything_received(client: Client, url: str) -> None:
    async with client.connection_factory(url).create_context(SessionMode.CLIENT) as context:
        producer = context.create_producer()
        for body in ("1", "2", "3"):
            await producer.send("q", body)
        async with context.create_consumer("q") as consumer:
            for _ in range(2):
                assert await consumer.receive(timeout=60) is not None
            await context.acknowledge()
        async with context.create_context(SessionMode.AUTO) as other, other.create_consumer("q") as consumer:
            await other.acknowledge()
            rest = await consumer.receive(timeout=60)
            assert rest is not None and rest.body == "3"


async def test_a_producer_of_a_context_dresses_every_message(client: Client, url: str) -> None:
    async with client.connection_factory(url).create_context() as context, context.create_consumer("q") as consumer:
        producer = context.create_producer()
        producer.set_correlation_id("c").set_reply_to(Topic("t")).set_type("kind").set_property("n", 1)
        producer.set_delivery_mode(DeliveryMode.NON_PERSISTENT).set_time_to_live(60.0)
        producer.set_disable_message_id(True).set_disable_message_timestamp(True)
        await producer.send("q", "x")
        received = await consumer.receive(timeout=60)
        assert received is not None
        assert (received.correlation_id, received.reply_to, received.type) == ("c", Topic("t"), "kind")
        assert (received.message_id, received.timestamp) == (None, 0)
        assert received.delivery_mode is DeliveryMode.NON_PERSISTENT
        assert received.expiration > 0
        assert dict(received.properties) == {"n": 1, "JMSXDeliveryCount": 1}
        producer.clear_properties().set_correlation_id(None).set_reply_to(None).set_type(None)
        await producer.send("q", "y")
        received = await consumer.receive(timeout=60)
        assert received is not None
        assert (received.correlation_id, received.reply_to, received.type) == (None, None, None)
        assert dict(received.properties) == {"JMSXDeliveryCount": 1}


async def test_a_context_is_a_connection_and_a_session(client: Client, url: str) -> None:
    async with client.connection_factory(url).create_context(SessionMode.TRANSACTED) as context:
        assert context.session_mode is SessionMode.TRANSACTED
        async with context.transaction():
            await context.create_producer().set_priority(7).set_property("n", 5).send("q", "x")
        async with context.create_consumer("q", "n > 4") as consumer:
            received = await consumer.receive(timeout=60)
            assert received is not None
            assert (received.body, received.priority, received.properties["n"]) == ("x", 7, 5)
            await context.commit()
        async with context.create_context(SessionMode.AUTO) as other:
            assert other.session_mode is SessionMode.AUTO
            await other.create_producer().send("q", "y")
            assert await (await other.create_consumer("q")).receive(timeout=60) is not None
