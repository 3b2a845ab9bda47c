"""XA transactions with messages, through every facade."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from embedclient import XaCode, XAException, XaFlag, Xid
from tests.embedclient.facades.conftest import Client, connected

X1, X2 = (Xid(1, b"branch", name) for name in (b"one", b"two"))


async def bodies(client: Client, url: str, queue: str) -> list[object]:
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_browser(queue) as browser,
    ):
        return [message.body async for message in browser]


async def send_in(session: Any, xid: Xid, queue: str, body: str) -> None:
    await session.xa_resource.start(xid)
    await session.create_producer(queue).send(body)
    await session.xa_resource.end(xid)


async def test_nothing_is_seen_before_the_second_phase(client: Client, url: str) -> None:
    async with (
        client.xa_connection_factory(url).create_xa_connection() as connection,
        connection.create_xa_session() as session,
    ):
        await send_in(session, X1, "q", "x")
        assert await session.xa_resource.prepare(X1) is XaCode.XA_OK
        assert await bodies(client, url, "q") == []
        await session.xa_resource.commit(X1)
        assert await bodies(client, url, "q") == ["x"]


async def test_one_branch_takes_and_puts(client: Client, url: str) -> None:
    async with client.xa_connection_factory(url).create_xa_context() as context:
        xa = context.xa_resource
        await context.create_producer().send("in", "outside a branch it takes effect at once")
        assert len(await bodies(client, url, "in")) == 1
        async with context.create_consumer("in") as consumer:
            for xid, delivery in ((X1, 1), (X2, 2)):
                await xa.start(xid)
                message = await consumer.receive(timeout=60)
                assert message is not None
                assert (message.delivery_count, message.redelivered) == (delivery, delivery > 1)
                await context.create_producer().send("out", f"delivery {delivery}")
                await xa.end(xid)
                if delivery == 1:
                    await xa.rollback(xid)
            await xa.commit(X2, one_phase=True)
    assert await bodies(client, url, "in") == []
    assert await bodies(client, url, "out") == ["delivery 2"]


async def test_another_connection_recovers_what_was_prepared(client: Client, url: str) -> None:
    factory = client.xa_connection_factory(url)
    async with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
        for xid, body in ((X1, "kept"), (X2, "dropped")):
            await send_in(session, xid, "q", body)
            await session.xa_resource.prepare(xid)
    async with client.server_locator(url).create_session_factory() as core, core.create_session(xa=True) as session:
        xa = session.xa_resource
        assert set(await xa.recover(XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN)) == {X1, X2}
        await xa.commit(X1)
        await xa.rollback(X2)
        assert await xa.recover() == []
    assert await bodies(client, url, "q") == ["kept"]


async def test_two_sessions_work_in_one_branch(client: Client, url: str) -> None:
    factory = client.xa_connection_factory(url)
    async with (
        factory.create_xa_connection() as connection,
        connection.create_xa_session() as one,
        connection.create_xa_session() as other,
    ):
        await one.xa_resource.start(X1)
        await one.create_producer("q").send("1")
        await one.xa_resource.end(X1, XaFlag.TMSUSPEND)
        await one.xa_resource.start(X1, XaFlag.TMRESUME)
        await one.xa_resource.end(X1)
        await other.xa_resource.start(X1, XaFlag.TMJOIN)
        await other.create_producer("q").send("2")
        await other.xa_resource.end(X1)
        await one.xa_resource.commit(X1, one_phase=True)
    assert await bodies(client, url, "q") == ["1", "2"]


async def test_refusals_have_the_codes_of_xa(client: Client, url: str) -> None:
    async with (
        client.xa_connection_factory(url).create_xa_connection() as connection,
        connection.create_xa_session() as session,
    ):
        xa = session.xa_resource
        await xa.start(X1)
        cases = (
            (partial(xa.commit, X1), XaCode.XAER_PROTO),
            (partial(xa.prepare, X1), XaCode.XAER_PROTO),
            (partial(xa.end, X2), XaCode.XAER_NOTA),
            (partial(xa.commit, X2), XaCode.XAER_NOTA),
            (partial(xa.rollback, X2), XaCode.XAER_NOTA),
            (partial(xa.forget, X2), XaCode.XAER_NOTA),
            (partial(xa.start, X2, XaFlag.TMJOIN), XaCode.XAER_NOTA),
        )
        for request, code in cases:
            with pytest.raises(XAException, match=code.name) as caught:
                await request()
            assert caught.value.error_code is code
