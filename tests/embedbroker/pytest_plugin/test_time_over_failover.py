"""Times of delivery, delays of redelivery and message groups hold at the broker that takes over."""

from __future__ import annotations

from embedbroker.pytest_plugin import PAIR_MODES
from tests.embedbroker.pytest_plugin.conftest import Inner


def test_a_scheduled_message_comes_from_the_backup_at_its_time(inner: Inner) -> None:
    result = inner("""
        async def test_it(broker_pair):
            async with ConnectionFactory(broker_pair.url).connect() as connection, connection.session() as session:
                sent_at = trio.current_time()
                await session.create_producer(ORDERS).send("late", delivery_delay=60)
                await broker_pair.failover()
                async with session.create_consumer(ORDERS) as consumer:
                    assert await consumer.receive(timeout=60 - (trio.current_time() - sent_at) - 1) is None
                    message = await consumer.receive(timeout=10)
                    assert message.body == "late"
                    assert 60 <= trio.current_time() - sent_at < 62
    """)
    result.assert_outcomes(passed=len(PAIR_MODES))


def test_messages_of_a_group_stay_together_at_the_backup(inner: Inner) -> None:
    result = inner("""
        async def test_it(broker_pair):
            async with ConnectionFactory(broker_pair.url).connect() as connection, connection.session() as session:
                producer = session.create_producer(ORDERS)
                for number in range(8):
                    group = "ab"[number % 2]
                    await producer.send(TextMessage(f"{group}{number}", properties={"JMSXGroupID": group}))
                await broker_pair.failover()
                async with session.create_consumer(ORDERS) as one, session.create_consumer(ORDERS) as two:
                    found = []
                    for consumer in (one, two):
                        while (message := await consumer.receive(timeout=1)) is not None:
                            found.append((consumer is one, message.body))
                for group in "ab":
                    of_group = [entry for entry in found if entry[1].startswith(group)]
                    assert len({consumer for consumer, _ in of_group}) == 1
                    assert [body for _, body in of_group] == sorted(body for _, body in of_group)
                assert len(found) == 8
    """)
    result.assert_outcomes(passed=len(PAIR_MODES))
