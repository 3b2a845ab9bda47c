"""What a consumer had before the failover, where deliveries are on disk before they go out."""

from __future__ import annotations

import pytest

from embedbroker import HAPolicy, ReplicationBackup, ReplicationPrimary, SharedStoreBackup, SharedStorePrimary
from embedclient import AcknowledgeMode, ConnectionFactory, Message
from tests.scenarios.clients import ORDERS, PATIENCE_S, numbered, put, session_at
from tests.scenarios.conftest import MakePair

COUNT = 10


def told(message: Message | None) -> tuple[object, bool, int]:
    assert message is not None
    return message.body, message.redelivered, message.delivery_count


@pytest.mark.parametrize(("asked", "delivery_count"), [(True, 2), (False, 1)], ids=["asked for", "by default"])
@pytest.mark.parametrize(
    ("primary", "backup"),
    [(SharedStorePrimary(), SharedStoreBackup()), (ReplicationPrimary(), ReplicationBackup())],
    ids=["shared store", "replication"],
)
async def test_messages_seen_before_the_failover_show_as_redelivered(
    make_pair: MakePair, primary: HAPolicy, backup: HAPolicy, asked: bool, delivery_count: int
) -> None:
    """Not on the checklist: RedeliveryConsumerTest.testRedeliveryMessageStrict, over a failover

    Given a pair that writes delivery counts before deliveries, or does not, and a client that has received everything
    and acknowledged nothing, when the primary crashes, then the next consumer gets all of it as delivered
    before, or not.
    """
    pair = make_pair(primary, backup, persist_delivery_count_before_delivery=asked)
    await pair.start()
    async with (
        session_at(pair.url) as producing,
        ConnectionFactory(pair.url).connect() as connection,
        connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session,
    ):
        await put(producing, numbered(0, COUNT))
        async with session.create_consumer(ORDERS) as consumer:
            got = [told(await consumer.receive(timeout=PATIENCE_S)) for _ in range(COUNT)]
            assert got == [(text, False, 1) for text in numbered(0, COUNT)]
            await pair.failover()
            again = [told(await consumer.receive(timeout=PATIENCE_S)) for _ in range(COUNT)]
    assert again == [(text, asked, delivery_count) for text in numbered(0, COUNT)]
