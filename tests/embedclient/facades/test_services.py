"""What the broker answers at its own address, asked over TCP with every facade."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from embedclient import TextMessage, Xid
from tests.embedclient.facades.conftest import Client, connected

ADDRESS = "embedbroker.services"
X1, X2, X3 = (Xid(1, b"branch", name) for name in (b"one", b"two", b"three"))


class Asker:
    """Sends requests and receives the replies on a temporary queue."""

    def __init__(self, producer: Any, consumer: Any, replies: Any) -> None:
        self._producer, self._consumer, self._replies = producer, consumer, replies
        self._asked = 0

    async def ask(self, operation: str, **fields: object) -> tuple[object, dict[str, Any]]:
        self._asked += 1
        text = json.dumps({"operation": operation, **fields})
        await self._producer.send(TextMessage(text, reply_to=self._replies, correlation_id=str(self._asked)))
        reply = await self._consumer.receive(timeout=60)
        assert reply is not None and reply.correlation_id == str(self._asked)
        return reply.properties["embedbroker_status"], json.loads(reply.body)


@asynccontextmanager
async def asking(client: Client, url: str) -> AsyncIterator[Asker]:
    async with connected(client, url) as connection, connection.session() as session:
        replies = await session.create_temporary_queue()
        async with session.create_consumer(replies) as consumer:
            yield Asker(session.create_producer(ADDRESS), consumer, replies)


def named(xid: Xid) -> dict[str, object]:
    return {
        "format": xid.format_id,
        "global": xid.global_transaction_id.hex(),
        "branch": xid.branch_qualifier.hex(),
    }


async def test_a_client_finds_out_that_the_address_is_there(client: Client, url: str) -> None:
    async with client.server_locator(url).create_session_factory() as core, core.create_session() as session:
        there, missing = await session.query_address(ADDRESS), await session.query_address("embedbroker.others")
        assert there.exists and not there.queue_names and not missing.exists
    async with asking(client, url) as asker:
        status, body = await asker.ask("capabilities")
        assert status == "ok" and body["broker"] == "embedbroker" and "commit-set" in body["operations"]
        assert await asker.ask("queue.list", pattern="*services*") == ("ok", {"queues": []})


async def test_markers_are_kept_for_those_who_know_what_they_are(client: Client, url: str) -> None:
    async with asking(client, url) as asker:
        assert await asker.ask("marker.get", name="lake/orders") == ("ok", {"value": None})
        assert await asker.ask("marker.set", name="lake/orders", expected=None, value=3) == ("ok", {"value": 3})
        status, body = await asker.ask("marker.set", name="lake/orders", expected=2, value=4)
        assert (status, body["value"]) == ("moved", 3)
        assert await asker.ask("marker.list", prefix="lake/") == ("ok", {"markers": {"lake/orders": 3}})
    async with asking(client, url) as asker:
        assert await asker.ask("marker.remove", name="lake/orders") == ("ok", {"value": 3})
        assert (await asker.ask("marker.set", name=7, expected=None, value=1))[0] == "bad-request"


async def test_a_commit_set_is_all_or_nothing_and_once(client: Client, url: str) -> None:
    async def prepare(xid: Xid, body: str) -> None:
        factory = client.xa_connection_factory(url)
        async with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
            await session.xa_resource.start(xid)
            await session.create_producer("q").send(body)
            await session.xa_resource.end(xid)
            await session.xa_resource.prepare(xid)

    async def commit_set(value: int, *xids: Xid) -> tuple[object, dict[str, Any]]:
        branches = [named(xid) for xid in xids]
        return await asker.ask("commit-set", marker="m", expected=None, value=value, branches=branches)

    async with asking(client, url) as asker:
        await prepare(X1, "one")
        status, body = await commit_set(1, X1, X2)
        assert status == "no-such-branch" and body["branch"] == named(X2)
        await prepare(X2, "two")
        assert await commit_set(1, X1, X2) == ("ok", {"result": "committed", "value": 1})
        await prepare(X3, "three")
        assert await commit_set(1, X1, X2, X3) == ("ok", {"result": "replayed", "value": 1})
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_browser("q") as browser,
    ):
        assert [message.body async for message in browser] == ["one", "two"]
    async with client.server_locator(url).create_session_factory() as core, core.create_session(xa=True) as manager:
        assert await manager.xa_resource.recover() == []
