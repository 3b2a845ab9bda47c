"""The three facades have the same names, and the blocking one is refused where it would stop an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import trio

import embedclient
import embedclient.asyncio
import embedclient.blocking
from embedclient.errors import IllegalStateException


@pytest.mark.parametrize("facade", [embedclient.asyncio, embedclient.blocking])
def test_a_program_changes_its_import_and_nothing_else(facade: object) -> None:
    names = embedclient.__all__
    assert dir(facade) == names
    assert [name for name in names if getattr(facade, name, None) is None] == []
    # What is not an entry point, and does not block, is one class in all of them.
    assert all(
        getattr(facade, name) is getattr(embedclient, name) for name in ("Queue", "TextMessage", "errors", "Message")
    )


def test_a_blocking_call_is_refused_in_a_thread_of_an_event_loop(url: str) -> None:
    connection = embedclient.blocking.ConnectionFactory(url).connect()
    session = connection.session()

    def refused(loop: str, module: str) -> None:
        calls: list[Callable[[], object]] = [
            embedclient.blocking.ConnectionFactory(url).connect,
            session.create_temporary_queue,
        ]
        for call in calls:
            with pytest.raises(IllegalStateException, match=rf"runs {loop}, .*: use {module}, or call in a thread"):
                call()

    async def on_trio() -> None:
        refused("trio", "embedclient")
        await trio.to_thread.run_sync(session.create_temporary_queue)

    async def on_asyncio() -> None:
        refused("asyncio", r"embedclient\.asyncio")
        await asyncio.to_thread(session.create_temporary_queue)

    trio.run(on_trio)
    asyncio.run(on_asyncio())
    connection.close()
