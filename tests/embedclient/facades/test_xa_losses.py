"""XA requests whose connection is lost, through every facade."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from embedclient import XaCode, XAException, XaFlag, Xid
from embedclient.errors import IllegalStateException, TransactionInProgressException
from embedclient.wire.core import (
    SessionXaCommit,
    SessionXaEnd,
    SessionXaFailed,
    SessionXaPrepare,
    SessionXaRollback,
    SessionXaStart,
)
from tests.embedclient.facades.conftest import Client
from tests.embedclient.facades.served_double import ServedDouble

X1, X2 = (Xid(1, b"branch", name) for name in (b"one", b"two"))


@pytest.fixture
def served() -> Iterator[ServedDouble]:
    with ServedDouble() as running:
        yield running


@asynccontextmanager
async def xa_session(client: Client, url: str, layer: str) -> AsyncIterator[Any]:
    """An XA session of either layer."""
    if layer == "core":
        async with (
            client.server_locator(url).create_session_factory() as factory,
            factory.create_session(xa=True) as session,
        ):
            yield session
    else:
        async with (
            client.xa_connection_factory(url).create_xa_connection() as connection,
            connection.create_xa_session() as jms_session,
        ):
            yield jms_session


@pytest.fixture(params=["core", "jms"])
def layer(request: pytest.FixtureRequest) -> str:
    text: str = request.param
    return text


async def test_a_branch_goes_through_all_its_states(client: Client, served: ServedDouble, layer: str) -> None:
    async with xa_session(client, served.url, layer) as session:
        xa = session.xa_resource
        await xa.start(X1)
        await xa.end(X1, XaFlag.TMSUSPEND)
        await xa.start(X1, XaFlag.TMRESUME)
        await xa.end(X1)
        assert await xa.prepare(X1) is XaCode.XA_OK
        assert await xa.recover() == [X1]
        assert await xa.recover(XaFlag.TMENDRSCAN) == []
        await xa.commit(X1)
        await xa.start(X2)
        await xa.end(X2, XaFlag.TMFAIL)
        await xa.rollback(X2)
        assert await xa.set_transaction_timeout(30)
    assert (served.double.committed, served.double.rolled_back) == ([X1], [X2])


async def test_both_layers_of_two_connections_are_the_same_resource_manager(
    client: Client, served: ServedDouble
) -> None:
    async with (
        xa_session(client, served.url, "core") as session,
        xa_session(client, served.url, "jms") as other,
    ):
        assert session.xa_resource.is_same_rm(other.xa_resource)
        assert other.xa_resource.is_same_rm(other.xa_resource)


async def test_wrong_flags_are_refused(client: Client, served: ServedDouble, layer: str) -> None:
    async with xa_session(client, served.url, layer) as session:
        xa = session.xa_resource
        for request in (partial(xa.start, X1, XaFlag.TMFAIL), partial(xa.end, X1, XaFlag.TMJOIN)):
            with pytest.raises(XAException, match="XAER_INVAL") as caught:
                await request()
            assert caught.value.error_code is XaCode.XAER_INVAL


async def test_the_session_itself_ends_no_transaction(client: Client, served: ServedDouble) -> None:
    async with xa_session(client, served.url, "jms") as session:
        assert session.transacted
        for request in (session.commit, session.rollback):
            with pytest.raises(TransactionInProgressException):
                await request()
    async with client.xa_connection_factory(served.url).create_xa_context() as context:
        await context.xa_resource.start(X1)
        with pytest.raises(TransactionInProgressException):
            await context.commit()
    async with client.server_locator(served.url).create_session_factory() as factory:
        async with factory.create_session(xa=True) as session:
            with pytest.raises(IllegalStateException):
                await session.commit()
            with pytest.raises(IllegalStateException):
                await session.rollback()
        async with factory.create_session() as session:
            with pytest.raises(IllegalStateException):
                session.xa_resource  # noqa: B018 - reading it is the test


async def test_a_lost_branch_can_only_be_rolled_back(client: Client, served: ServedDouble, layer: str) -> None:
    async with xa_session(client, served.url, layer) as session:
        xa = session.xa_resource
        await xa.start(X1)
        served.double.lose_at(SessionXaEnd, handled=False)
        for request in (partial(xa.end, X1), partial(xa.prepare, X1)):
            with pytest.raises(XAException) as caught:
                await request()
            assert caught.value.error_code is XaCode.XAER_RMFAIL
        await xa.rollback(X1)
    assert sum(isinstance(packet, SessionXaFailed) for packet in served.double.seen) == 1
    assert served.double.rolled_back == [X1]


async def test_start_is_repeated(client: Client, served: ServedDouble, layer: str) -> None:
    async with xa_session(client, served.url, layer) as session:
        served.double.lose_at(SessionXaStart, handled=True)
        await session.xa_resource.start(X1)
        await session.xa_resource.end(X1)
        await session.xa_resource.commit(X1, one_phase=True)
    assert served.double.committed == [X1]


@pytest.mark.parametrize("handled", [True, False])
async def test_prepare_is_repeated(client: Client, served: ServedDouble, layer: str, handled: bool) -> None:
    async with xa_session(client, served.url, layer) as session:
        xa = session.xa_resource
        await xa.start(X1)
        await xa.end(X1)
        served.double.lose_at(SessionXaPrepare, handled=handled)
        if handled:
            assert await xa.prepare(X1) is XaCode.XA_OK
            await xa.commit(X1)
        else:
            with pytest.raises(XAException) as caught:
                await xa.prepare(X1)
            assert caught.value.error_code is XaCode.XA_RBCOMMFAIL
    assert served.double.committed == ([X1] if handled else [])


@pytest.mark.parametrize("handled", [True, False])
async def test_a_commit_that_was_cut_off_is_to_be_retried(
    client: Client, served: ServedDouble, layer: str, handled: bool
) -> None:
    async with xa_session(client, served.url, layer) as session:
        xa = session.xa_resource
        await xa.start(X1)
        await xa.end(X1)
        await xa.prepare(X1)
        served.double.lose_at(SessionXaCommit, handled=handled)
        with pytest.raises(XAException) as caught:
            await xa.commit(X1)
        assert caught.value.error_code is XaCode.XA_RETRY
        if handled:
            with pytest.raises(XAException) as caught:
                await xa.commit(X1)
            assert caught.value.error_code is XaCode.XAER_NOTA
        else:
            await xa.commit(X1)
    assert served.double.committed == [X1]


async def test_a_one_phase_commit_that_was_cut_off_is_unknown(client: Client, served: ServedDouble, layer: str) -> None:
    async with xa_session(client, served.url, layer) as session:
        xa = session.xa_resource
        await xa.start(X1)
        await xa.end(X1)
        served.double.lose_at(SessionXaCommit, handled=True)
        with pytest.raises(XAException) as caught:
            await xa.commit(X1, one_phase=True)
        assert caught.value.error_code is XaCode.XAER_RMFAIL
    assert not any(isinstance(packet, SessionXaRollback) for packet in served.double.seen)
