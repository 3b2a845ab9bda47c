"""2.3: how clients find the live broker, whatever became of the brokers that they are configured with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from attrs import evolve

from embedbroker import PrimaryOnly, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.pytest_plugin import BrokerClock, BrokerPair, FaultPlan, ManagedBroker
from embedclient import ConnectionFactory, FailoverEventType
from embedclient.errors import TransactionOutcomeUnknownException, TransactionRolledBackException
from tests.embedbroker.ha.replication.replicating import goes_on, pair
from tests.embedclient.agent.node_pair import text_message, text_of
from tests.embedclient.agent.server_pair import FAILING_OVER as SERVERS_FAILING_OVER
from tests.embedclient.agent.server_pair import A, B, ServerPair
from tests.scenarios.clients import ORDERS, let_time_pass, put, put_once, queued, session_at, take
from tests.scenarios.conftest import MakeBrokers, MakePair
from tests.scenarios.groups import start_all

COUNT = 20
#: A name in the VM has no time to live unless asked for one, and without it no session is kept.
REATTACHING = "reconnectAttempts=-1&retryInterval=10&confirmationWindowSize=1048576&connectionTTL=60000"


async def test_failover_on_initial_connection(broker_pair: BrokerPair) -> None:
    """2.3.1

    Given a connection without sessions, when the primary crashes, then its first session is at the backup.
    """
    async with ConnectionFactory(broker_pair.url).connect() as connection:
        await broker_pair.failover()
        async with connection.session() as session:
            await put(session, ["x"])
        assert await queued(broker_pair.backup) == ["x"]


async def test_create_new_factory_after_failover(broker_pair: BrokerPair) -> None:
    """2.3.2

    Given a failover, when a new factory is made of the old URL, in which the primary comes first, then it connects to
    the backup.
    """
    async with session_at(broker_pair.url) as session:
        await put(session, ["x"])
    await broker_pair.failover()
    async with session_at(broker_pair.url) as session, session.create_consumer(ORDERS) as consumer:
        assert await take(consumer, 1) == ["x"]


async def test_fail_both_restart_primary(make_pair: MakePair) -> None:
    """2.3.3

    Given a failover, and then the end of the backup too, when the primary starts alone, then the same client goes on.
    What a replicating primary does, whose data is older then: `test_fail_back_primary_restarts_backup_is_gone`.
    """
    pair = make_pair(SharedStorePrimary(), SharedStoreBackup())
    await pair.start()
    async with session_at(pair.url) as session:
        await put(session, ["one"])
        await (await pair.failover()).crash()
        await pair.primary.start()
        await put(session, ["two"])
        assert await queued(pair.primary) == ["one", "two"]


async def test_fail_primary_too_soon(broker_pair: BrokerPair) -> None:
    """2.3.4

    Given a failover and a failback, when the primary fails again before the client can have the backup, then
    it goes to where that was before.
    """
    async with session_at(broker_pair.url) as session:
        await put(session, ["one"])
        await broker_pair.failover()
        await put(session, ["two"])
        broker_pair.primary.link.partition("from_broker")
        await broker_pair.failback()
        await broker_pair.failover()
        broker_pair.primary.link.heal()
        await put(session, ["three"])
        assert await queued(broker_pair.backup) == ["one", "two", "three"]


@pytest.mark.parametrize("manager", [False, True], ids=["no votes", "lock manager"])
def test_fail_back_primary_restarts_backup_is_gone(manager: bool) -> None:
    """2.3.5

    Given a replicating pair, a failover, more messages, and then the crash of the backup, when the primary starts
    alone, then under Artemis' defaults it is live with the data it had. Under a lock manager it is not before the
    backup, which has the rest, is there again.
    """
    brokers, writer = pair(manager=manager)
    brokers.crash("p")
    had = len(writer.confirmed)
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    brokers.crash("q")
    brokers.hosts["p"].start()
    brokers.run(10.0)
    if not manager:
        assert brokers.role("p") is Role.LIVE
        assert set(writer.confirmed[:had]) <= set(brokers.kept("p")) and writer.confirmed[had] not in brokers.kept("p")
        return
    assert brokers.role("p") is Role.BACKUP and "another copy is newer" in brokers.said("p")
    brokers.hosts["q"].start()
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")


async def test_primary_and_backup_down_primary_comes_back(broker_pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.3.6

    Given that both are down for a minute, when the primary returns, then the client goes on, and a new one gets in.
    """
    async with session_at(broker_pair.url) as session:
        await put(session, ["before"])
        await broker_pair.wait_in_step()
        await broker_pair.standby.crash()
        await put(session, ["alone"])
        await broker_pair.primary.crash()
        await broker_clock.advance(60)
        await broker_pair.primary.start()
        await put(session, ["after"])
    async with session_at(broker_pair.url) as session, session.create_consumer(ORDERS) as consumer:
        assert await take(consumer, 3) == ["before", "alone", "after"]


async def test_backup_server_not_removed(broker_pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.3.6, 2.3.7

    Given that both are down for a minute, when only the backup starts, which had everything, then the client still
    has it and goes on, and a new client gets in as well.
    """
    async with session_at(broker_pair.url) as session:
        await put(session, ["before"])
        for broker in broker_pair.brokers:
            await broker.crash()
        await broker_clock.advance(60)
        await broker_pair.backup.start()
        await put(session, ["after"])
        assert broker_pair.backup.is_live
    async with session_at(broker_pair.url) as session, session.create_consumer(ORDERS) as consumer:
        assert await take(consumer, 2) == ["before", "after"]


async def test_backup_connections(broker_pair: BrokerPair) -> None:
    """2.3.8

    Given a backup that waits, when it takes over, then what it had open to its primary is closed, and it announces
    itself to clients: one that has the backup alone gets the places of the pair.
    """
    assert broker_pair.link.connection_count > 0
    await broker_pair.failover()
    assert broker_pair.link.connection_count == 0
    async with session_at(f"{broker_pair.backup.url}?ha=true&reconnectAttempts=-1&retryInterval=100") as session:
        await put(session, ["one"])
        await broker_pair.failback()
        await put(session, ["two"])
        assert await queued(broker_pair.primary) == ["one", "two"]


def test_consumer_after_failover_with_client_connectors() -> None:
    """2.3.13

    Given that a client has its connectors for both brokers, with a parameter that the brokers do not announce,
    when the primary crashes, then the client uses its own for the backup, and its consumer goes on there.
    """
    own = [evolve(each, parameters={**each.parameters, "tcpNoDelay": False}) for each in (A, B)]
    servers = ServerPair(SERVERS_FAILING_OVER, *own)
    session = servers.session()
    consumer = servers.finish(session.create_consumer("q"))
    servers.fail_over()
    servers.finish(session.create_producer("q").send(text_message("x", "q")))
    delivery = consumer.next(servers.now)
    assert delivery is not None and text_of(delivery) == "x"
    assert servers.agent.connector == own[1] != B
    assert {dial.connector for dial in servers.dials if dial.connector.host == "b"} == {own[1]}


async def test_jms_consumer_after_failover(broker_pair: BrokerPair) -> None:
    """2.3.14

    Given a URL with ha that names both brokers, and a consumer, when the primary crashes, then the consumer goes on.
    That parameters of the URL are kept for the backup: line 2.3.13.
    """
    url = f"({broker_pair.primary.url},{broker_pair.backup.url})?ha=true&reconnectAttempts=-1&retryInterval=100"
    async with session_at(url) as session, session.create_consumer(ORDERS) as consumer:
        await put(session, ["before"])
        assert await take(consumer, 1) == ["before"]
        await broker_pair.assert_empty("orders")
        await broker_pair.failover()
        await put(session, ["after"])
        assert await take(consumer, 1) == ["after"]


async def test_auto_created_queue_after_failover_without_ha(make_brokers: MakeBrokers) -> None:
    """2.3.16

    Given two brokers of a cluster without backups, no ha, and attempts at other brokers allowed, when the broker
    crashes, then the consumer's queue is made at the other one, and what is sent there is received.
    """
    brokers = make_brokers({"one": PrimaryOnly()}, {"other": PrimaryOnly()})
    await start_all(brokers.values())
    url = f"({','.join(broker.url for broker in brokers.values())})?ha=false&reconnectAttempts=1&failoverAttempts=3"
    async with session_at(url) as session, session.create_consumer(ORDERS) as consumer:
        (first,) = [broker for broker in brokers.values() if any(q.name == "orders" for q in broker.queues())]
        (second,) = {*brokers.values()} - {first}
        await first.crash()
        await second.wait_for(queue="orders", consumers=1)
        await put(session, ["new"])
        assert await take(consumer, 1) == ["new"]


async def test_failover_listener_call(broker_pair: BrokerPair) -> None:
    """2.3.17

    Given a failover listener, when there is a failover and then a failback, then it gets detection and completion
    of both, and of nothing else.
    """
    heard: list[FailoverEventType] = []
    async with ConnectionFactory(broker_pair.url).connect() as connection, connection.session() as session:
        connection.add_failover_listener(heard.append)
        for move in (broker_pair.failover, broker_pair.failback):
            await move()
            await put(session, ["x"])
        await trio.testing.wait_all_tasks_blocked()
    detected, completed, _ = FailoverEventType
    assert heard == [detected, completed] * 2


async def test_failover_failed(embedded_broker: ManagedBroker, broker_clock: BrokerClock) -> None:
    """2.3.18

    Given a broker without a backup, when it crashes, then a listener gets the detection, and the failure.
    """
    heard: list[FailoverEventType] = []
    url = f"{embedded_broker.url}?ha=true&reconnectAttempts=5&retryInterval=100"
    async with ConnectionFactory(url).connect() as connection, connection.session() as session:
        connection.add_failover_listener(heard.append)
        await put(session, ["x"])
        await embedded_broker.crash()
        await broker_clock.advance(10)
    detected, _, failed = FailoverEventType
    assert heard == [detected, failed]


async def send_and_receive(
    url: str, size_characters: int, clock: BrokerClock, plan: FaultPlan, *faults: Callable[[], object]
) -> tuple[list[str], list[str]]:
    """What a client sends that repeats what was cut off, until all that goes wrong has; and what another receives."""
    sent: list[str] = []
    received: list[str] = []
    both_are_there, sent_all = trio.Event(), trio.Event()

    async def receive() -> None:
        async with session_at(url, transacted=True) as session, session.create_consumer(ORDERS) as consumer:
            while not sent_all.is_set() or received[-1:] != sent[-1:]:
                both_are_there.set()
                message = await consumer.receive(timeout=60)
                assert message is not None
                try:
                    await session.commit()
                except TransactionOutcomeUnknownException:  # it may come again
                    pass
                except TransactionRolledBackException:  # it comes again
                    continue
                received.append(str(message.body)[:10].strip())

    async with session_at(url) as session, trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        producer = session.create_producer(ORDERS)
        await both_are_there.wait()
        for fault in faults:
            plan.within(0.3, fault)
        after = COUNT
        while after:
            after -= not plan.pending
            sent.append(str(len(sent)))
            if not after:
                sent_all.set()
            await put_once(producer, sent[-1], size_characters=size_characters)
            await let_time_pass(clock, 0.02)
    return sent, received


#: Characters of a text. In a frame each has two bytes, and from 100 KiB on the message is a large one.
SIZES = pytest.mark.parametrize("size_characters", [10, 45_000, 90_000], ids=["small", "almost large", "large"])


async def fails_over_meanwhile(pair: BrokerPair, plan: FaultPlan, clock: BrokerClock, size_characters: int) -> None:
    sent, received = await send_and_receive(pair.url, size_characters, clock, plan, pair.live.crash)
    assert pair.live is pair.backup and pair.backup.role is Role.LIVE
    assert list(dict.fromkeys(received)) == sent
    assert len(received) <= len(sent) + 1


@SIZES
async def test_asynchronous_failover(
    broker_pair: BrokerPair, fault_plan: FaultPlan, broker_clock: BrokerClock, size_characters: int
) -> None:
    """2.3.26

    Given a client that sends without a pause and repeats what was cut off, also messages just below and above the size
    at which they become large ones, and a receiver beside, when the primary crashes at some time, then everything
    arrives, in order but for what came again, and its id keeps the broker from having anything twice.
    """
    await fails_over_meanwhile(broker_pair, fault_plan, broker_clock, size_characters)


async def test_asynchronous_failover_over_tcp(
    pair_over_tcp: BrokerPair, fault_plan: FaultPlan, broker_clock: BrokerClock
) -> None:
    """2.3.26

    Given the same over sockets, when the primary crashes, then the same holds.
    """
    await fails_over_meanwhile(pair_over_tcp, fault_plan, broker_clock, 10)


@SIZES
async def test_asynchronous_reattach(
    broker: ManagedBroker, fault_plan: FaultPlan, broker_clock: BrokerClock, size_characters: int
) -> None:
    """2.3.26

    Given the same with one broker, which keeps the sessions of lost connections, when the connections are cut at some
    times, then everything arrives in order, and once. A large message may come again: a client that is cut off in the
    middle of one makes its session again, and does not learn the outcome of a commit that was under way.
    """
    url, cuts = f"{broker.url}?{REATTACHING}", [broker.link.cut] * 5
    sent, received = await send_and_receive(url, size_characters, broker_clock, fault_plan, *cuts)
    if size_characters < 90_000:
        assert received == sent
    assert list(dict.fromkeys(received)) == sent
    assert len(received) <= len(sent) + len(cuts)
    await broker.assert_empty("orders")
