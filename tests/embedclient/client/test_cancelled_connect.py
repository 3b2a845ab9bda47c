"""A cancellation that meets a connection while its scope is being opened ends it like any other."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory


@pytest.mark.parametrize("passes", range(6))
async def test_a_connect_that_is_cancelled_ends(passes: int) -> None:
    async with EmbeddedBroker() as broker:
        with trio.fail_after(60), trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def connect() -> None:
                    async with ConnectionFactory(broker.vm_url).connect():
                        await trio.sleep_forever()

                nursery.start_soon(connect)
                for _ in range(passes):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        assert scope.cancelled_caught
