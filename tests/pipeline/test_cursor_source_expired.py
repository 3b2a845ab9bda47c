"""Messages that expire although they were pinned: the lease had run out, and no program came that would have ended it.

So no consumer and no other query is there to blame: what is gone is known by how many messages were pinned.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve, frozen

from embedbroker import BrokerConfig, EmbeddedBroker, ThreadedBroker
from embedbroker.config import AddressSettings
from embedbroker.pipeline._cursor_source import CURSOR, DataLost
from embedbroker.pipeline._offsets import Offset
from embedclient.blocking import ServerLocator
from embedclient.wire.core import CoreMessage
from tests.pipeline.queues import create, fill, left_in
from tests.pipeline.test_cursor_source import ask, bodies, expected, source

LONG_AGO_MS = 1
SCAN_LIMIT_S = 30


@frozen
class Expired:
    """A queue of ten messages, of which a run pinned six; the first four of them have expired since it died."""

    broker: ThreadedBroker
    start: Offset
    end: Offset


@pytest.fixture
def expired(tmp_path: Path) -> Iterator[Expired]:
    # The first broker never looks for what has expired, and the second one always does: no time has to pass here.
    config = BrokerConfig(data_directory=str(tmp_path / "broker"), message_expiry_scan_period_ms=-1)
    with EmbeddedBroker.in_thread(config) as broker:
        create(broker.url, "expired")
        fill(broker.url, "orders", [numbered_until(number, LONG_AGO_MS if number < 4 else 0) for number in range(10)])
        run = source(broker)
        start = run.initial()
        end = run.latest(start, 6, 0)
        run.close()
    settings = {"orders": AddressSettings(expiry_address="expired")}
    config = evolve(config, message_expiry_scan_period_ms=10, address_settings=settings)
    with EmbeddedBroker.in_thread(config) as broker:
        # A broker that was started again gives the lease its full time.
        lease = {"queue": "orders", "cursor": CURSOR, "owner": run.owner, "lease_ms": 1, "from": "earliest"}
        ask(broker, "cursor.open", **lease)
        wait_expired(broker, 4)
        yield Expired(broker, start, end)


def losses(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log has of this queue; runs of other tests may still try to renew a lease."""
    messages = [record.getMessage() for record in caplog.records]
    return [message for message in messages if message.startswith("queue 'orders'")]


def numbered_until(number: int, expiration_ms: int) -> CoreMessage:
    return CoreMessage.build(address="orders", expiration=expiration_ms, body=str(number).encode())


def wait_expired(broker: ThreadedBroker, count: int) -> None:
    """Until so many messages have come to the expiry address."""
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        with session.create_consumer("expired") as consumer:
            while count > 0:
                received = consumer.receive_encoded(count, timeout=SCAN_LIMIT_S)
                assert received, f"{count} messages have not expired"
                count -= len(received)


def test_messages_that_expire_before_their_batch_is_in_the_checkpoint_are_a_loss(
    expired: Expired, caplog: pytest.LogCaptureFixture
) -> None:
    broker, error = expired.broker, "queue 'orders': 4 messages are gone that were not acknowledged"
    # A run that is started again gets the report again.
    for _ in range(2):
        with pytest.raises(DataLost, match=f"{error}; failOnDataLoss=false goes on with what is there"):
            source(broker).latest(expired.start, 6, 0)
    tolerant = source(broker, failOnDataLoss="false")
    end = tolerant.latest(expired.start, 6, 0)
    assert bodies(broker, tolerant, end) == expected(4, 10)
    assert tolerant.latest(end, 6, 0) is end
    assert left_in(broker.url, "orders") == []
    assert losses(caplog) == [f"{error}; failOnDataLoss is false, so the query goes on"]


def test_messages_that_expire_while_their_batch_is_under_way_are_a_loss(
    expired: Expired, caplog: pytest.LogCaptureFixture
) -> None:
    broker, error = expired.broker, "queue 'orders': 4 of 6 messages of a batch are gone"
    for _ in range(2):
        with pytest.raises(DataLost, match=error):
            source(broker).partitions(expired.end)
    tolerant = source(broker, failOnDataLoss="false")
    assert bodies(broker, tolerant, expired.end) == expected(4, 6)
    # What was missing in that batch is not reported for the next one.
    assert bodies(broker, tolerant, tolerant.latest(expired.end, 0, 0)) == expected(6, 10)
    assert losses(caplog) == [f"{error}; failOnDataLoss is false, so the query goes on"]
