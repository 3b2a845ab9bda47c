"""A broker whose journal is sealed already has nothing to write when it stops."""

from __future__ import annotations

from pathlib import Path

import trio

from embedbroker import EmbeddedBroker


async def test_a_broker_that_did_nothing_stops_at_once(tmp_path: Path) -> None:
    for _ in range(3):
        broker = EmbeddedBroker(data_directory=str(tmp_path))
        async with broker:
            with trio.fail_after(60):
                await broker.stop()
