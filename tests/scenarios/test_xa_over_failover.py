"""2.2: branches while their broker is replaced: what was prepared is there, what was not is lost and raises."""

from __future__ import annotations

import pytest

from embedbroker.pytest_plugin import BrokerClock, BrokerPair
from embedclient import XaCode, XAException, XASession, Xid
from tests.scenarios.clients import ORDERS, numbered, put, queued, session_at, take, xa_session_at
from tests.scenarios.test_sessions_over_failover import MOMENTS, cut_off

COUNT, MANY = 30, 500
XID = Xid(7, b"branch", b"global")
WORK = pytest.mark.parametrize("work", ["sends", "consumes"], ids=["sent", "consumed"])


async def begin(pair: BrokerPair, session: XASession, work: str, count: int = COUNT) -> None:
    """Work in a branch that is not ended: sends, or messages that were there before."""
    if work == "consumes":
        async with session_at(pair.url) as other:
            await put(other, numbered(0, count))
    await session.xa_resource.start(XID)
    if work == "sends":
        await put(session, numbered(0, count))
    else:
        consumer = await session.create_consumer(ORDERS)
        assert await take(consumer, count) == numbered(0, count)


async def nothing_happened(pair: BrokerPair, work: str) -> None:
    """No trace of the branch: what it sent is not there, what it took is."""
    assert await queued(pair) == ([] if work == "sends" else numbered(0, COUNT))


async def test_timeout_on_failover_transaction_commit(broker_pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.2.4

    Given a branch with 500 messages that was prepared, and a commit that was cut off, when it is repeated at the
    backup, then all of its messages are there.
    """
    async with xa_session_at(broker_pair.url) as session:
        xa = session.xa_resource
        await begin(broker_pair, session, "sends", MANY)
        await xa.end(XID)
        await xa.prepare(XID)
        async with cut_off(broker_pair, arrives=False, clock=broker_clock):
            with pytest.raises(XAException) as caught:
                await xa.commit(XID)
        assert caught.value.error_code == XaCode.XA_RETRY
        await xa.commit(XID)
        assert await queued(broker_pair) == numbered(0, MANY)


async def test_timeout_on_failover_transaction_rollback(broker_pair: BrokerPair) -> None:
    """2.2.6

    Given a branch that was prepared, when the primary crashes and the branch is rolled back, then nothing is there.
    """
    async with xa_session_at(broker_pair.url) as session:
        xa = session.xa_resource
        await begin(broker_pair, session, "sends")
        await xa.end(XID)
        await xa.prepare(XID)
        await broker_pair.failover()
        await xa.rollback(XID)
        assert await queued(broker_pair) == []
        assert await xa.recover() == []


@MOMENTS
@WORK
async def test_xa_messages_so_rollback_on_end(
    broker_pair: BrokerPair, broker_clock: BrokerClock, work: str, later_s: float
) -> None:
    """2.2.15, 2.2.19

    Given work in a branch, when the primary crashes before its end, then end fails with XAER_RMFAIL, and nothing of it
    has happened; what was received comes again.
    """
    async with xa_session_at(broker_pair.url) as session:
        await begin(broker_pair, session, work)
        await broker_pair.failover()
        await broker_clock.advance(later_s)
        with pytest.raises(XAException) as caught:
            await session.xa_resource.end(XID)
        assert caught.value.error_code == XaCode.XAER_RMFAIL
    await nothing_happened(broker_pair, work)


@MOMENTS
@WORK
async def test_xa_messages_so_rollback_on_prepare(
    broker_pair: BrokerPair, broker_clock: BrokerClock, work: str, later_s: float
) -> None:
    """2.2.16, 2.2.20

    Given a branch that was ended, when the primary crashes, then prepare fails with XAER_RMFAIL, and nothing of it has
    happened.
    """
    async with xa_session_at(broker_pair.url) as session:
        await begin(broker_pair, session, work)
        await session.xa_resource.end(XID)
        await broker_pair.failover()
        await broker_clock.advance(later_s)
        with pytest.raises(XAException) as caught:
            await session.xa_resource.prepare(XID)
        assert caught.value.error_code == XaCode.XAER_RMFAIL
    await nothing_happened(broker_pair, work)


@MOMENTS
@WORK
async def test_xa_messages_so_rollback_on_commit(
    broker_pair: BrokerPair, broker_clock: BrokerClock, work: str, later_s: float
) -> None:
    """2.2.17, 2.2.21

    Given a branch that was ended and not prepared, when the primary crashes and it is committed, then the answer is
    XAER_NOTA, and nothing of it has happened.
    """
    async with xa_session_at(broker_pair.url) as session:
        await begin(broker_pair, session, work)
        await session.xa_resource.end(XID)
        await broker_pair.failover()
        await broker_clock.advance(later_s)
        with pytest.raises(XAException) as caught:
            await session.xa_resource.commit(XID)
        assert caught.value.error_code == XaCode.XAER_NOTA
    await nothing_happened(broker_pair, work)


async def test_xa_messages_not_sent_so_no_rollback_on_commit(broker_pair: BrokerPair) -> None:
    """2.2.18

    Given a branch that was committed, when the primary crashes, then its messages are there, and a new branch works.
    """
    async with xa_session_at(broker_pair.url) as session:
        xa = session.xa_resource
        await begin(broker_pair, session, "sends")
        await xa.end(XID)
        await xa.prepare(XID)
        await xa.commit(XID)
        await broker_pair.failover()
        other = Xid(7, b"branch", b"other")
        await xa.start(other)
        await put(session, ["new"])
        await xa.end(other)
        await xa.prepare(other)
        await xa.commit(other)
        assert await queued(broker_pair) == [*numbered(0, COUNT), "new"]
