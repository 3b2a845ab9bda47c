"""2.2 and 2.3: clients whose broker answers nothing any more, refuses them, or is in a pair they do not follow."""

from __future__ import annotations

import pytest

from embedbroker import AddressSettings, PrimaryOnly, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.protocols.core._connection import CoreConnection
from embedbroker.pytest_plugin import BrokerClock, BrokerPair
from embedclient.errors import UnblockedException
from embedclient.wire.core import CreateSession, CreateSessionV2
from tests.scenarios.clients import ORDERS, numbered, put, queued, session_at, take
from tests.scenarios.conftest import MakeBrokers
from tests.scenarios.groups import start_all
from tests.simulation.fault_points import fault_point, replace

COUNT = 40
#: A host that is lost is silent: clients notice by themselves, within a second.
WATCHFUL = "&connectionTTL=1000&clientFailureCheckPeriod=300"
REFUSED = 3


class Doorkeeper:
    """Refuse the first sessions that clients request, as a broker that is starting does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        #: The channels of the sessions that were asked for, in order.
        self.asked: list[int] = []
        create = fault_point("create a session")

        def create_session(peer: CoreConnection, packet: CreateSession | CreateSessionV2) -> None:
            self.asked.append(packet.session_channel_id)
            peer.service.started = len(self.asked) > REFUSED
            create(peer, packet)
            peer.service.started = True

        replace(monkeypatch, "create a session", create_session)


async def test_channel_state_during_failover(
    broker_pair: BrokerPair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """2.2.30

    Given a session, and a backup that refuses the first three, when the primary crashes and a program sends, then what
    the session has to say waits until the fourth is made, and there is no fifth.
    """
    async with session_at(broker_pair.url) as session:
        await put(session, ["before"])
        door = Doorkeeper(monkeypatch)
        await broker_pair.failover()
        await put(session, numbered(0, COUNT))
        (first, *others) = dict.fromkeys(door.asked)
        assert door.asked == [first] * (REFUSED + 1) + others
        assert "no session is open there" not in caplog.text
        assert await queued(broker_pair.backup) == ["before", *numbered(0, COUNT)]


async def test_consumer_after_failover_with_redistribution(make_brokers: MakeBrokers) -> None:
    """2.3.15

    Given a pair and another broker, and a client of the primary without ha that may try three times, when that crashes,
    then the session goes to the other broker, where its consumer's queue is made, and it receives what is sent there,
    and what was left, which goes from the backup to it.
    """
    pair = {"primary": SharedStorePrimary(), "backup": SharedStoreBackup()}
    settings = {"#": AddressSettings(redistribution_delay_ms=0)}
    brokers = make_brokers(pair, {"other": PrimaryOnly()}, address_settings=settings)
    await start_all(brokers.values())
    primary, backup, other = brokers.values()
    async with session_at(f"{primary.url}?ha=false&failoverAttempts=3&retryInterval=100") as session:
        await put(session, numbered(0, COUNT))
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, 1) == ["0"]
            await primary.wait_for(queue="orders", count=COUNT - 1, consumers=1)
            await primary.crash()
            await other.wait_for(queue="orders", consumers=1)
            await put(session, ["new"])
            await backup.wait_for_role(Role.LIVE)
            # It may have had some in advance, which are redelivered.
            received: set[object] = set()
            while not received >= {"new", *numbered(1, COUNT)}:
                received.update(await take(consumer, 1))
    assert await queued(backup) == []


async def lose_network(pair: BrokerPair) -> None:
    """The host of the live broker is gone without a word, for its clients and for its pair; the backup takes over."""
    pair.live.link.partition()
    await pair.failover()


@pytest.mark.parametrize("seconds_between", [0.05, 0.5, 5])
async def test_failover_after_net_failure(
    broker_pair: BrokerPair, broker_clock: BrokerClock, seconds_between: float
) -> None:
    """2.3.21

    Given a client that takes a broker for lost after a second of silence, when the network of the primary goes away
    without closing sockets, then a sender meanwhile gets that the outcome is unknown, or is answered by the
    backup, and everything that is sent from then on is received.
    """
    async with session_at(broker_pair.url + WATCHFUL) as session:
        producer = session.create_producer(ORDERS)
        await producer.send("before")
        primary = broker_pair.live
        await lose_network(broker_pair)
        await broker_clock.advance(seconds_between)
        begun = broker_clock.seconds
        lost = False
        try:
            await producer.send("in between")
        except UnblockedException:
            lost = True
        assert broker_clock.seconds < begun + 3
        assert lost is (seconds_between < 1)
        await put(session, numbered(0, COUNT))
        async with session.create_consumer(ORDERS) as consumer:
            expected = ["before", *["in between"] * (not lost), *numbered(0, COUNT)]
            assert await take(consumer, len(expected)) == expected
        primary.link.heal()


async def test_net_failure_consume(broker_pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.3.22

    Given a client that takes a broker for lost after a second of silence, and a consumer in the middle, when the
    network of the primary goes away without closing sockets, then the consumer goes on at the backup as soon as the
    client has noticed.
    """
    async with session_at(broker_pair.url + WATCHFUL + "&consumerWindowSize=0") as session:
        await put(session, numbered(0, COUNT))
        async with session.create_consumer(ORDERS) as consumer:
            found = await take(consumer, COUNT // 2)
            primary, begun = broker_pair.live, broker_clock.seconds
            await lose_network(broker_pair)
            while len(set(found)) < COUNT:
                found += await take(consumer, 1)
            assert 0.5 < broker_clock.seconds - begun < 3
        primary.link.heal()
    assert [*dict.fromkeys(found)] == numbered(0, COUNT)
