"""The connection fails, the broker lives: section 3 of the catalogue of scenarios, line by line.

Sessions have a confirmation window of 1 MiB, so that they are reattached. "Failures at random times" are cuts in front
of calls, drawn from a seed, with what was under way lost in one direction or in none.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from attrs import evolve

from embedclient.agent import AgentState, Consumer, LocatorSettings, Session, SessionMode
from embedclient.errors import ErrorCode
from embedclient.model import RoutingType
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, take, text_message, text_of
from tests.embedclient.scenarios.stage import numbered

REATTACHING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=50, confirmation_window_size=1 << 20)
COUNT = 100
SEEDS = range(2)


@pytest.fixture
def pair() -> NodePair:
    return NodePair(REATTACHING)


class Failures:
    """Cuts the connection now and then."""

    def __init__(self, pair: NodePair, seed: int) -> None:
        self.pair = pair
        self.random = Random(seed)
        self.count = 0

    def perhaps(self) -> None:
        """Perhaps now, with what one of the sides sends from here on lost before."""
        if self.random.random() < 0.1:
            self.count += 1
            lost = self.random.choice(("client", "server", "nobody"))
            self.pair.filter = lambda sender, data: b"" if sender == lost else data
            self.pair.settle()
            self.pair.filter = lambda sender, data: data
            self.pair.cut()
            self.pair.advance(0.1)


@pytest.fixture(params=SEEDS)
def failures(request: pytest.FixtureRequest, pair: NodePair) -> Iterator[Failures]:
    found = Failures(pair, request.param)
    yield found
    assert found.count > 0
    assert all(session.rebuilds == 0 for session in pair.agent.sessions)


def send(pair: NodePair, session: Session, *texts: str, queue: str = "q") -> None:
    producer = session.create_producer(queue)
    for text in texts:
        pair.finish(producer.send(text_message(text, queue)))
    producer.close()


# --- one failure after the other ---


def test_immediate_reattach(pair: NodePair) -> None:
    """100 messages that were not consumed, the connection fails ten times: all come each time, in order, once."""
    session = open_session(pair, SessionMode.CLIENT)
    _, consumer = open_queue(pair, session)
    send(pair, session, *numbered(0, COUNT))
    received = []
    for _ in range(10):
        pair.cut()
        pair.advance(0.1)
        for _ in range(COUNT // 10):
            delivery = consumer.next(pair.now)
            assert delivery is not None and not delivery.redelivered
            received.append(text_of(delivery))
            session.consumed(delivery)
    assert received == numbered(0, COUNT)
    assert consumer.next(pair.now) is None


def test_reattach_transfer_connection_on_session(pair: NodePair) -> None:
    """A session, reattached: the broker's session belongs to the new connection, and ends with that."""
    sessions = [open_session(pair) for _ in range(2)]
    names = [session.name for session in sessions]
    pair.cut()
    pair.advance(0.1)
    assert [session.name for session in sessions] == names
    temporary = pair.finish(sessions[0].destinations.create_temporary_queue())
    pair.cut()
    pair.advance(0.1)
    assert pair.finish(sessions[1].addressing.query_queue(temporary)).exists


def test_overflow_credits() -> None:
    """A producer starved of credits, a failure at the second packet of them: sending finishes."""
    pair = NodePair(evolve(REATTACHING, producer_window_size=2_000))
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    calls = [producer.send(text_message(text, "q", durable=False)) for text in numbered(0, COUNT)]
    seen = 0

    def lose_second(sender: str, data: bytes) -> bytes:
        nonlocal seen
        seen += sender == "server"
        return b"" if sender == "server" and seen >= 2 else data

    pair.filter = lose_second
    pair.settle()
    assert not all(call.done for call in calls)
    pair.filter = lambda sender, data: data
    pair.cut()
    pair.advance(0.5)
    for call in calls:
        pair.finish(call)
    assert take(pair, session, consumer) == numbered(0, COUNT)


@pytest.mark.parametrize("refusals", [3, 9], ids=["delayed reattach", "reattach attempts succeeds in reconnecting"])
def test_delayed_reattach(refusals: int) -> None:
    """New connections are refused for a while, and allowed again within the attempts: nothing is lost."""
    pair = NodePair(evolve(REATTACHING, reconnect_attempts=10, retry_interval_ms=100))
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.refuse_dials = True
    pair.cut()
    sent = producer.send(text_message("x", "q"))
    pair.advance(0.1 * refusals - 0.05)
    assert len(pair.dials) == 1 + refusals
    pair.refuse_dials = False
    pair.advance(0.1)
    pair.finish(sent)
    assert take(pair, session, consumer) == ["x"]


def test_reattach_attempts_fails_to_reconnect() -> None:
    """Three attempts and a longer outage: the session is closed, and its next call gets the reason."""
    pair = NodePair(evolve(REATTACHING, reconnect_attempts=3))
    session = open_session(pair)
    producer, _ = open_queue(pair, session)
    pair.refuse_dials = True
    pair.cut()
    pair.advance(1)
    assert pair.agent.state is AgentState.IDLE
    assert len(pair.dials) == 4
    assert pair.error_code(producer.send(text_message("x", "q"))) == ErrorCode.NOT_CONNECTED


@pytest.mark.parametrize(
    ("settings", "pauses_s"),
    [
        (evolve(REATTACHING, retry_interval_ms=500), [0.5]),
        (evolve(REATTACHING, retry_interval_ms=50, retry_interval_multiplier=2.0), [0.05, 0.1, 0.2]),
        (
            evolve(REATTACHING, retry_interval_ms=50, retry_interval_multiplier=2.0, max_retry_interval_ms=100),
            [0.05, 0.1, 0.1, 0.1],
        ),
    ],
    ids=["retry interval", "exponential backoff", "max retry interval"],
)
def test_exponential_backoff(settings: LocatorSettings, pauses_s: list[float]) -> None:
    """So many attempts are refused: so many intervals pass, no more and no less."""
    pair = NodePair(settings)
    open_session(pair)
    start = pair.seconds
    pair.refuse_dials = True
    pair.cut()
    pair.advance(sum(pauses_s) - 0.001)
    assert len(pair.dials) == 1 + len(pauses_s)
    pair.refuse_dials = False
    pair.advance(0.001)
    assert pair.agent.state is AgentState.CONNECTED
    assert pair.seconds - start == pytest.approx(sum(pauses_s))


@pytest.mark.parametrize("before", [False, True], ids=["after send", "before send"])
def test_create_session_fail_several_threads(pair: NodePair, before: bool) -> None:
    """100 sessions are asked for while connections fail, or are refused: all are made."""
    open_session(pair)
    if before:
        pair.refuse_dials = True
        pair.cut()
    asked = [pair.agent.create_session_for(SessionMode.AUTO) for _ in range(COUNT)]
    pair.handle(pair.agent.take_outputs(pair.now))
    pair.advance(0.2)
    pair.refuse_dials = False
    while not all(call.done for call in asked):
        pair.cut()
        pair.advance(0.01)
        pair.settle()
        pair.advance(0.1)
    sessions = [pair.finish(call) for call in asked]
    assert len({session.name for session in sessions}) == COUNT


def test_create_queue(pair: NodePair) -> None:
    """A failed connection, ten queues are created: the calls succeed."""
    session = open_session(pair)
    pair.cut()
    calls = [session.destinations.prepare_destination(f"q{number}", RoutingType.ANYCAST) for number in range(10)]
    pair.advance(0.2)
    for call in calls:
        pair.finish(call)


def test_order_on_send_in_vm(failures: Failures) -> None:
    """Sends that do not block, repeated failures: the order is exact."""
    pair = failures.pair
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    for text in numbered(0, 5 * COUNT):
        failures.perhaps()
        producer.send(text_message(text, "q", durable=False))
    pair.advance(0.5)
    assert take(pair, session, consumer) == numbered(0, 5 * COUNT)


# --- failures at random times ---


def subscribers(pair: NodePair, count: int, mode: SessionMode) -> list[tuple[Session, Consumer]]:
    """Sessions that are not started, with a subscription each."""
    found = []
    for _ in range(count):
        session = pair.finish(pair.agent.create_session_for(mode))
        found.append((session, pair.finish(session.destinations.open_topic_consumer("t"))))
    return found


def publish(failures: Failures, texts: list[str], mode: SessionMode = SessionMode.AUTO) -> Session:
    session = failures.pair.finish(failures.pair.agent.create_session_for(mode))
    producer = session.create_producer("t")
    for text in texts:
        failures.perhaps()
        failures.pair.finish(producer.send(text_message(text, "t")))
    return session


def received(failures: Failures, session: Session, consumer: Consumer) -> list[str | None]:
    """Everything there is, taken one by one with failures in between."""
    texts: list[str | None] = []
    while True:
        failures.perhaps()
        delivery = consumer.next(failures.pair.now)
        if delivery is None:
            failures.pair.finish(consumer.force_delivery())
            delivery = consumer.next(failures.pair.now)
        if delivery is None:
            return texts
        texts.append(text_of(delivery))
        failures.pair.finish(session.consumed(delivery))


@pytest.mark.parametrize(
    ("late", "count"),
    [(False, 10), pytest.param(True, 50, marks=pytest.mark.search)],
    ids=["A, E: started first", "B, F: started after sending"],
)
def test_random_reattach_of_subscribers(failures: Failures, late: bool, count: int) -> None:
    """Subscribers that acknowledge: each gets all in order, however late its session is started."""
    everybody = subscribers(failures.pair, count, SessionMode.AUTO)
    if not late:
        for session, _ in everybody:
            failures.pair.finish(session.start())
    publish(failures, numbered(0, COUNT))
    for session, consumer in everybody:
        if late:
            failures.pair.finish(session.start())
        assert received(failures, session, consumer) == numbered(0, COUNT)


@pytest.mark.parametrize("late", [False, True], ids=["C, G: started first", "D, H: started late"])
def test_random_reattach_in_transactions(failures: Failures, late: bool) -> None:
    """Sent, rolled back, sent again; consumed, rolled back, consumed: two complete rounds, in order."""
    pair = failures.pair
    everybody = subscribers(pair, 10, SessionMode.TRANSACTED)
    if not late:
        for session, _ in everybody:
            pair.finish(session.start())
    sender = publish(failures, numbered(0, COUNT), SessionMode.TRANSACTED)
    pair.finish(sender.rollback())
    producer = sender.create_producer("t")
    for text in numbered(0, COUNT):
        failures.perhaps()
        pair.finish(producer.send(text_message(text, "t")))
    pair.finish(sender.commit())
    for session, consumer in everybody:
        if late:
            pair.finish(session.start())
        assert received(failures, session, consumer) == numbered(0, COUNT)
        pair.finish(session.rollback())
        assert received(failures, session, consumer) == numbered(0, COUNT)
        pair.finish(session.commit())


def test_random_reattach_i_one_send_one_receive_and_the_end_of_the_queue(failures: Failures) -> None:
    pair = failures.pair
    for number in range(30):
        session = open_session(pair)
        failures.perhaps()
        _, consumer = open_queue(pair, session, f"q{number}")
        failures.perhaps()
        send(pair, session, "x", queue=f"q{number}")
        assert received(failures, session, consumer) == ["x"]
        pair.finish(consumer.close())
        failures.perhaps()
        pair.finish(session.addressing.delete_queue(f"q{number}"))
        pair.finish(session.close())


def test_random_reattach_k_consumers_come_and_go(failures: Failures) -> None:
    pair = failures.pair
    session = open_session(pair)
    open_queue(pair, session)
    for _ in range(COUNT):
        consumer = pair.finish(session.destinations.open_queue_consumer("q"))
        failures.perhaps()
        pair.finish(consumer.close())
    assert pair.finish(session.addressing.query_queue("q")).consumer_count == 1


def test_random_reattach_l_sessions_come_and_go(failures: Failures) -> None:
    pair = failures.pair
    for _ in range(30):
        session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
        failures.perhaps()
        pair.finish(session.close())
    # Something has to be there to be reattached, so that the failures were some.
    open_session(pair)
    while not failures.count:
        failures.perhaps()


def test_random_reattach_n_delivery_only_while_started(failures: Failures) -> None:
    pair = failures.pair
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    for text in numbered(0, 30):
        pair.finish(session.stop())
        failures.perhaps()
        pair.finish(producer.send(text_message(text, "q")))
        pair.settle()
        assert consumer.next(pair.now) is None
        pair.finish(session.start())
        assert received(failures, session, consumer) == [text]


def test_random_reattach_o_nothing_at_hand(failures: Failures) -> None:
    """100 immediate receives on an empty queue: all give nothing."""
    pair = failures.pair
    session = open_session(pair)
    _, consumer = open_queue(pair, session)
    for _ in range(COUNT):
        failures.perhaps()
        pair.finish(consumer.force_delivery())
        assert consumer.next(pair.now) is None
    assert count_of(pair, session) == 0
