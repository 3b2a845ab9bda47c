"""Connecting, listeners and networks that fail: what concerns clients in section 2.3 of the catalogue of scenarios."""

from __future__ import annotations

from itertools import pairwise

import pytest
from attrs import evolve

from embedclient.agent import (
    Agent,
    AgentState,
    ConnectionFailed,
    FailoverCompleted,
    FailoverFailed,
    FailureDetected,
    LocatorSettings,
    Notification,
    RoundRobinPolicy,
    SessionMode,
)
from embedclient.errors import ErrorCode
from embedclient.wire.core import CreateQueueV2, SessionProducerCredits, decode_packet
from tests.embedclient.agent.node_pair import SeededEntropy, text_message, text_of
from tests.embedclient.agent.server_pair import A, C, ServerPair
from tests.embedclient.agent.simulated_pair import FAILING_OVER, PairClient
from tests.embedclient.scenarios.stage import QUEUE, Stage, message, numbered

COUNT = 100
# The network of a lost host is silent: clients notice by themselves, within a second.
WATCHFUL = evolve(FAILING_OVER, connection_ttl_ms=1000, client_failure_check_period_ms=300)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_failover_on_initial_connection(stage: Stage) -> None:
    """A factory without sessions, a crash: the first session goes to the backup."""
    stage.finish(stage.agent.connect())
    stage.fail_over()
    stage.send(stage.session().create_producer(QUEUE), "x")
    assert stage.agent.connector is not None and stage.agent.connector.name == "b"


def test_create_new_factory_after_failover(stage: Stage) -> None:
    """Failover happened, a new factory from the old connectors: it connects to the active broker."""
    stage.send(stage.session().create_producer(QUEUE), "x")
    stage.crash()
    assert stage.left() == ["x"]


def test_fail_both_restart_primary(stage: Stage) -> None:
    """Failover, then the backup fails too, the primary starts alone: the same client goes on."""
    producer = stage.session().create_producer(QUEUE)
    stage.send(producer, "one")
    stage.crash()
    stage.send(producer, "two")
    stage.live.crash()
    stage.go(1)
    stage.live, stage.other = stage.other, stage.live
    stage.live.disk = stage.other.disk.copy()
    stage.live.start()
    stage.send(producer, "three")
    assert stage.left() == ["one", "two", "three"]


def test_fail_primary_too_soon(stage: Stage) -> None:
    """Failover and failback, and the primary fails again before the client has learnt anything: it finds the backup."""
    producer = stage.session().create_producer(QUEUE)
    for text in numbered(0, 4):
        stage.crash()
        stage.send(producer, text)
    assert stage.left() == numbered(0, 4)


@pytest.mark.parametrize("who", ["primary", "backup"])
def test_primary_and_backup_down_one_comes_back(stage: Stage, who: str) -> None:
    """Both are down for a while, one of them returns: the client goes on, and a new one too."""
    producer = stage.session().create_producer(QUEUE)
    stage.send(producer, "before")
    stage.live.crash()
    stage.go(5)
    assert stage.agent.state is AgentState.RECONNECTING
    newcomer = PairClient(stage.network, "newcomer", evolve(FAILING_OVER, initial_connect_attempts=-1))
    asked = newcomer.agent().create_session_for(SessionMode.AUTO)
    newcomer.flush()
    stage.go(1)
    if who == "backup":
        stage.live, stage.other = stage.other, stage.live
        stage.live.disk = stage.other.disk.copy()
    stage.live.start()
    stage.send(producer, "after")
    stage.finish(asked)
    assert stage.left() == ["before", "after"]


def test_consumer_after_failover_with_redistribution() -> None:
    """Without ha, with failoverAttempts, the broker crashes: the session moves to another node."""
    settings = LocatorSettings(failover_attempts=3, retry_interval_ms=100)
    pair = ServerPair(settings)
    pair.agent = Agent(settings, [A], RoundRobinPolicy(SeededEntropy(1)), SeededEntropy(2))
    pair.a.tells = (("node", A, None), ("other", C, None))
    session = pair.session()
    pair.finish(session.create_consumer("q"))
    pair.c.up = True
    pair.crash(pair.a)
    pair.advance(1)
    assert pair.agent.connector == C
    # Its queue is made there: test_auto_created_queue_after_failover_without_ha.
    assert [getattr(packet, "queue_name", None) for packet in pair.c.said(CreateQueueV2)] == ["q"]
    consumer = session.flow.open_consumers()[0]
    pair.finish(session.create_producer("q").send(text_message("new", "q")))
    delivery = consumer.next(pair.now)
    assert delivery is not None and text_of(delivery) == "new"


def steps(heard: list[Notification]) -> list[type[Notification]]:
    return [type(each) for each in heard if not isinstance(each, ConnectionFailed)]


def test_failover_listener_call(stage: Stage) -> None:
    """Failover and failback: detected, completed, detected, completed, and nothing else."""
    heard: list[Notification] = []
    stage.host.on_notification.append(heard.append)
    stage.session()
    stage.crash()
    stage.crash()
    stage.go(1)
    assert steps(heard) == [FailureDetected, FailoverCompleted, FailureDetected, FailoverCompleted]


def test_failover_failed() -> None:
    """No backup, the broker crashes: detected, failed."""
    stage = Stage(evolve(FAILING_OVER, reconnect_attempts=5))
    heard: list[Notification] = []
    stage.host.on_notification.append(heard.append)
    stage.session()
    stage.live.crash()
    stage.go(1)
    assert steps(heard) == [FailureDetected, FailoverFailed]


def test_overflow_send() -> None:
    """A producer that waits for credits, a crash at the second packet of them: it gets new ones at the backup."""
    pair = ServerPair(evolve(FAILING_OVER, producer_window_size=2_000))
    session = pair.session()
    producer = session.create_producer("q")
    grants = 0

    def count(sender: str, data: bytes) -> bytes:
        nonlocal grants
        start = 0
        while sender == "server" and start < len(data):
            end = start + 4 + int.from_bytes(data[start : start + 4], "big")
            grants += isinstance(decode_packet(data, start, end, 136, False), SessionProducerCredits)
            start = end
        return b"" if grants >= 2 else data

    pair.filter = count
    calls = [producer.send(text_message(text, "q", durable=False)) for text in numbered(0, COUNT)]
    pair.settle()
    assert not all(call.done for call in calls)
    pair.filter = lambda sender, data: data
    pair.fail_over()
    for call in calls:
        pair.finish(call)
    assert len(pair.b.received) > COUNT // 2


def lose_network(stage: Stage) -> None:
    """The live broker's host is gone without a word; its backup takes over."""
    stage.network.hold("client", stage.live.name)
    stage.network.hold(stage.live.name, "client")
    stage.fail_over()


@pytest.mark.parametrize("seconds_between", [0.05, 0.5])
def test_failover_after_net_failure(seconds_between: float) -> None:
    """The primary's network goes away without closing sockets, while sending: all sends after it are received."""
    stage = Stage(WATCHFUL)
    producer = stage.session().create_producer(QUEUE)
    stage.send(producer, "before")
    lose_network(stage)
    stage.go(seconds_between)
    call = producer.send(message("in between"))
    while not call.done:
        stage.go(0.05)
    assert stage.world.now < 5
    stage.send(producer, *numbered(0, COUNT))
    found = stage.left()
    assert found == ["before", *(["in between"] if "in between" in found else []), *numbered(0, COUNT)]
    assert call.error is None or call.error.error_code == ErrorCode.UNBLOCKED


def test_net_failure_consume() -> None:
    """The same while consuming: when it is noticed, consuming goes on at the backup."""
    stage = Stage(WATCHFUL)
    session = stage.session()
    stage.send(session.create_producer(QUEUE), *numbered(0, COUNT))
    consumer = stage.consumer(session)
    received: list[str | None] = []
    while len(set(received)) < COUNT:
        assert stage.world.now < 5
        stage.go(0.01)
        while (delivery := consumer.next(stage.world.instant)) is not None:
            received.append(text_of(delivery))
            stage.finish(session.consumed(delivery))
            if len(received) == COUNT // 2:
                lose_network(stage)
    assert set(received) == set(numbered(0, COUNT))


def test_failover_create_session_on_failure() -> None:
    """The network dies while sessions are created: it goes on until 100 are made."""
    stage = Stage(WATCHFUL)
    stage.session()
    asked = []
    for number in range(COUNT):
        asked.append(stage.agent.create_session_for(SessionMode.AUTO))
        if number == COUNT // 2:
            stage.go(0.02)
            lose_network(stage)
    names = [stage.finish(call).name for call in asked]
    assert len(set(names)) == COUNT


def test_interrupt_failing_thread(stage: Stage) -> None:
    """Callers in the middle of a failover give up again and again: sending finishes."""
    producer = stage.session().create_producer(QUEUE)
    stage.live.crash()
    stage.go(0.05)
    for _ in range(10):
        call = producer.send(message("given up"))
        stage.go(0.01)
        assert call.cancel()
    stage.live, stage.other = stage.other, stage.live
    stage.live.disk = stage.other.disk.copy()
    stage.live.start()
    stage.send(producer, *numbered(0, COUNT))
    assert stage.left() == numbered(0, COUNT)


@pytest.mark.parametrize("seed", range(3))
def test_non_transactional(seed: int) -> None:
    """Continuous sends with repetition, a crash at a random time: in order, with the one in doubt perhaps twice."""
    stage = Stage(seed=seed)
    producer = stage.session().create_producer(QUEUE)
    crash_at = stage.random.randrange(COUNT)
    for number in range(COUNT):
        call = producer.send(message(str(number)))
        if number == crash_at:
            stage.go(stage.random.random() * 0.01)
            stage.fail_over()
        while True:
            stage.go(0.005)
            if call.done and call.error is None:
                break
            if call.error is not None:
                assert call.error.error_code == ErrorCode.UNBLOCKED
                call = producer.send(message(str(number)))
    found = [int(text or "") for text in stage.left()]
    assert sorted(set(found)) == list(range(COUNT))
    assert sum(one == other for one, other in pairwise(found)) == len(found) - COUNT <= 1
