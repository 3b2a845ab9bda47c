"""Random users of one agent under cuts at any byte: afterwards no call waits, and every consumer drains its own queue.

No other consumer takes from a queue here, so a credit that is lost or a session that stays stopped shows.
"""

from __future__ import annotations

from random import Random

import pytest

from embedclient.agent import AgentState, Call, Consumer, LocatorSettings, Producer, Session, SessionMode
from tests.embedclient.agent.node_pair import NodePair, open_queue, open_session, take, text_message

MODES = (SessionMode.AUTO, SessionMode.DUPS_OK, SessionMode.CLIENT, SessionMode.TRANSACTED)
GROUPS = 4
CASES = 15


def settings_of(random: Random) -> LocatorSettings:
    return LocatorSettings(
        reconnect_attempts=-1,
        retry_interval_ms=random.choice((10, 200)),
        call_timeout_ms=random.choice((2000, 30000)),
        call_failover_timeout_ms=random.choice((1000, 30000)),
        confirmation_window_size=random.choice((-1, 0, 150, 1 << 20)),
        consumer_window_size=random.choice((0, 0, 1, 300, 1 << 20, -1)),
        producer_window_size=random.choice((65536, 1000, -1)),
        block_on_acknowledge=random.random() < 0.4,
        client_version=random.choice((136, 130, 129)),
    )


class User:
    """One session with a separate queue."""

    def __init__(self, pair: NodePair, random: Random, number: int) -> None:
        self.pair = pair
        self.random = random
        self.queue = f"q{number}"
        self.session: Session = open_session(pair, random.choice(MODES))
        self.producer: Producer
        self.consumer: Consumer
        self.producer, self.consumer = open_queue(pair, self.session, self.queue)
        self.calls: list[Call[None]] = []
        self.opening: Call[Consumer] | None = None

    def act(self) -> None:
        """One thing that a user does without waiting for it, one transaction at a time."""
        self.adopt()
        session, consumer = self.session, self.consumer
        match self.random.randrange(12):
            case 0 | 1 | 2:
                self.calls.append(self.producer.send(text_message("text", self.queue)))
            case 3 | 4 | 5:
                consumer.want()
                delivery = consumer.next(self.pair.now)
                if delivery is not None:
                    self.calls.append(session.consumed(delivery))
            case 6:
                consumer.give_up()
            case 7 if all(call.done for call in self.calls):
                self.calls.append(session.commit() if self.random.random() < 0.5 else session.rollback())
            case 8:
                self.calls.append(session.stop())
            case 9 | 10:
                self.calls.append(session.start())
            case 11 if self.opening is None:
                self.calls.append(consumer.close())
                self.opening = session.destinations.open_queue_consumer(self.queue)

    def adopt(self) -> None:
        """Goes on with the consumer that was asked for, if there is one by now."""
        if self.opening is not None and self.opening.done:
            if self.opening.error is None:
                self.consumer = self.opening.value()
            self.opening = None

    def check(self) -> None:
        """Everything was answered, and the session works as on its first day."""
        pair, session = self.pair, self.session
        assert all(call.done for call in self.calls)
        self.adopt()
        if self.consumer.closed:
            self.consumer = pair.finish(session.destinations.open_queue_consumer(self.queue))
        pair.finish(session.start())
        if not session.flags.auto_commit_acks:
            pair.finish(session.rollback())
        for _ in range(3):
            pair.finish(self.producer.send(text_message("x" * 500, self.queue)))
        if session.mode is SessionMode.TRANSACTED:
            pair.finish(session.commit())
        idle = 0
        while idle < 3:
            self.consumer.want()
            idle = 0 if take(pair, session, self.consumer) else idle + 1
        session.flow.flush_acknowledgements()
        if not session.flags.auto_commit_acks:
            pair.finish(session.commit())
        assert pair.finish(session.addressing.query_queue(self.queue)).message_count == 0


def live(seed: int) -> None:
    random = Random(seed)
    pair = NodePair(settings_of(random))
    users = [User(pair, random, number) for number in range(random.randint(1, 3))]
    left = {"client": 1 << 40, "server": 1 << 40}

    def deliver(sender: str, data: bytes) -> bytes:
        arrived = data[: left[sender]]
        left[sender] -= len(arrived)
        return arrived

    pair.filter = deliver
    for _ in range(random.choice((20, 60, 120))):
        random.choice(users).act()
        match random.randrange(10):
            case 0:
                sender = random.choice(("client", "server"))
                left[sender] = min(left[sender], random.randrange(400))
            case 1 | 2 | 3:
                pair.settle()
            case 4:
                pair.advance(random.choice((0.01, 0.3, 5.0)))
            case 5:
                pair.refuse_dials = random.random() < 0.3
                left.update(client=1 << 40, server=1 << 40)
                pair.cut()
    pair.refuse_dials = False
    left.update(client=1 << 40, server=1 << 40)
    pair.cut()
    pair.advance(70)
    assert pair.agent.state is AgentState.CONNECTED
    for user in users:
        user.check()
    pair.finish(pair.agent.close())


@pytest.mark.search
@pytest.mark.parametrize("group", range(GROUPS))
def test_every_consumer_goes_on_whatever_the_connection_does(group: int) -> None:
    for seed in range(group * CASES, (group + 1) * CASES):
        live(seed)
