"""What a client is promised when its broker crashes at any moment and another one goes on from its disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest
from attrs import evolve

from embedbroker.testing._scripts import Arrival, Steps
from embedclient.agent import Agent, Call, Session, SessionMode
from embedclient.errors import ErrorCode, JMSException, XAException
from embedclient.model import Properties, PropertyType, RoutingType, XaCode, Xid
from embedclient.wire.core import CoreMessage, MessageType, encode_text
from tests.embedclient.agent.node_pair import text_of
from tests.embedclient.agent.simulated_pair import FAILING_OVER, PairClient, SimulatedPair

SEEDS = range(8)
PARTS = 3


def with_id(text: str, queue: str) -> CoreMessage:
    """As JMS producers send it: it names its address, so that a broker that dropped the queue has it again."""
    properties = Properties({"_AMQ_DUPL_ID": text})
    properties.set("_AMQ_ROUTING_TYPE", RoutingType.ANYCAST, PropertyType.BYTE)
    return CoreMessage.build(
        type=MessageType.TEXT, address=queue, durable=True, properties=properties, body=encode_text(text)
    )


def opened(
    agent: Agent, mode: SessionMode, queue: str, *, xa: bool = False
) -> Generator[Call[Any] | float | Arrival, Any, Session]:
    """A session whose queue exists, asked for again until it is there."""
    while True:
        try:
            session: Session = yield agent.create_session_for(mode, xa=xa)
            yield session.start()
            yield session.destinations.prepare_destination(queue, RoutingType.ANYCAST)
        except JMSException as error:
            assert error.error_code == ErrorCode.UNBLOCKED, error
            continue
        return session


def send_each_once(client: PairClient, count: int, queue: str, ended: Counter[str]) -> Steps:
    session = yield from opened(client.agent(), SessionMode.AUTO, queue)
    producer = session.create_producer(queue)
    for number in range(count):
        while True:
            try:
                yield producer.send(with_id(str(number), queue))
            except JMSException as error:
                assert error.error_code == ErrorCode.UNBLOCKED, error
                ended["unblocked"] += 1
                continue
            break


def commit_each_once(client: PairClient, count: int, queue: str, ended: Counter[str]) -> Steps:
    """Repeats what was rolled back and what is in doubt; error 113 then means that the first commit held."""
    session = yield from opened(client.agent(), SessionMode.TRANSACTED, queue)
    producer = session.create_producer(queue)
    for number in range(count):
        in_doubt = False
        while True:
            try:
                for part in range(PARTS):
                    yield producer.send(with_id(f"{number}.{part}", queue))
                yield session.commit()
            except JMSException as error:
                ended[str(error.error_code)] += 1
                if error.error_code == ErrorCode.DUPLICATE_ID_REJECTED:
                    assert in_doubt, "nobody else sends these"
                    break
                in_doubt = in_doubt or error.error_code == ErrorCode.TRANSACTION_OUTCOME_UNKNOWN
                assert error.error_code in (
                    ErrorCode.TRANSACTION_ROLLED_BACK,
                    ErrorCode.TRANSACTION_OUTCOME_UNKNOWN,
                ), error
                continue
            break


def decide_each_once(client: PairClient, count: int, queue: str, ended: Counter[str]) -> Steps:
    """A transaction manager: rolls back the branches that could not be prepared, and sees the others committed."""
    session = yield from opened(client.agent(), SessionMode.TRANSACTED, queue, xa=True)
    assert session.xa is not None
    producer = session.create_producer(queue)
    attempt = 0
    for number in range(count):
        while True:
            attempt += 1
            xid = Xid(7, b"branch", str(attempt).encode())
            try:
                yield session.xa.start(xid)
                for part in range(PARTS):
                    yield producer.send(with_id(f"{number}.{part}", queue))
                yield session.xa.end(xid)
                yield session.xa.prepare(xid)
            except XAException as error:
                ended[XaCode(error.error_code).name] += 1
                yield from finish(session.xa.rollback, xid, ended)
                continue
            yield from finish(partial(session.xa.commit, one_phase=False), xid, ended)
            break


def finish(request: Callable[[Xid], Call[XaCode]], xid: Xid, ended: Counter[str]) -> Steps:
    """Until the broker has done it, or does not know the branch, because it did it before."""
    while True:
        try:
            yield request(xid)
        except XAException as error:
            ended[XaCode(error.error_code).name] += 1
            if error.error_code != XaCode.XAER_NOTA:
                continue
        return


def receive_all(client: PairClient, queue: str, into: list[str | None]) -> Steps:
    session = yield from opened(client.agent(), SessionMode.TRANSACTED, queue)
    consumer = yield session.destinations.open_queue_consumer(queue)
    while True:
        delivery = consumer.next(client.world.instant)
        if delivery is None:
            yield session.commit()
            yield consumer.force_delivery()
            delivery = consumer.next(client.world.instant)
            if delivery is None:
                return
        into.append(text_of(delivery))
        session.consumed(delivery)


def contents(pair: SimulatedPair, queue: str) -> list[str | None]:
    reader = PairClient(pair.network, f"reader of {queue}")
    texts: list[str | None] = []
    reader.run("reads", receive_all(reader, queue, texts))
    pair.run_out(reader)
    return texts


class Run:
    """Senders that work while the live broker crashes four times, and while connections are cut between the crashes."""

    def __init__(self, seed: int, ended: Counter[str]) -> None:
        self.pair = SimulatedPair(seed)
        # With a confirmation window, cuts are reattached, and crashes are not.
        settings = evolve(FAILING_OVER, confirmation_window_size=4096) if seed % 2 else FAILING_OVER
        self.clients = [PairClient(self.pair.network, name, settings) for name in ("sender", "committer", "manager")]
        sender, committer, manager = self.clients
        sender.run("sends", send_each_once(sender, 60, "single", ended))
        committer.run("commits", commit_each_once(committer, 40, "batches", ended))
        manager.run("decides", decide_each_once(manager, 20, "branches", ended))
        for _ in range(4):
            self.pair.run(0.005 + 0.03 * self.pair.random.random())
            self.pair.cut_some()
            self.pair.run(0.03 * self.pair.random.random())
            self.pair.fail_over()
            self.pair.run(0.03)
        self.pair.run_out(*self.clients)


@pytest.mark.search
@pytest.mark.parametrize("seed", SEEDS)
def test_repetition_gives_once_and_only_once(seed: int) -> None:
    """Of sends and commits with ids, and of branches that were prepared."""
    run = Run(seed, Counter())
    assert sum(client.failovers for client in run.clients) >= 4
    assert run.pair.world.now < 5, "a call waited for its time-out"
    assert contents(run.pair, "single") == [str(number) for number in range(60)]
    assert contents(run.pair, "batches") == [f"{number}.{part}" for number in range(40) for part in range(PARTS)]
    assert contents(run.pair, "branches") == [f"{number}.{part}" for number in range(20) for part in range(PARTS)]


@pytest.mark.search
def test_every_outcome_is_met() -> None:
    """So that the test above has something to say."""
    ended: Counter[str] = Counter()
    for seed in SEEDS:
        run = Run(seed, ended)
        ended["reattached"] += sum(client.reattachments for client in run.clients)
    assert set(ended) >= {"unblocked", "113", "115", "XA_RETRY", "XAER_NOTA", "XAER_RMFAIL", "reattached"}, ended
