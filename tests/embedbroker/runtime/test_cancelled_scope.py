"""A cancellation around a broker: it still stops in order, and at once."""

from __future__ import annotations

from pathlib import Path

import trio

from embedbroker import EmbeddedBroker
from embedbroker.runtime import journal_directory
from embedbroker.storage import inspect_journal
from embedclient import ConnectionFactory


async def test_a_broker_in_a_cancelled_scope_seals_its_journal(tmp_path: Path) -> None:
    with trio.fail_after(60), trio.CancelScope() as scope:
        async with EmbeddedBroker(data_directory=str(tmp_path)) as broker:
            async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
                await session.create_producer("orders").send("one")
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    with journal_directory(tmp_path) as disk:
        report = inspect_journal(disk)
    assert report.sealed
    assert report.sound
    assert report.messages == 1


async def test_a_start_that_is_cancelled_leaves_the_directory_free(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with EmbeddedBroker(data_directory=str(tmp_path)):
            raise AssertionError("it cannot have started")
    assert scope.cancelled_caught
    async with EmbeddedBroker(data_directory=str(tmp_path)) as broker:
        assert broker.is_running
