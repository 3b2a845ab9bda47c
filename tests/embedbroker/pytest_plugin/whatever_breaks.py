"""Tests of a pair under faults in random order, used by clients that send, commit and receive meanwhile.

Each test has a separate seed, which decides the faults; ``--embedbroker-seed`` replaces it. At the end everything is
healed, and what the users received must be what the pair has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio
from attrs import Factory, define

from embedbroker.pytest_plugin import BrokerClock, BrokerPair, FaultPlan, ManagedBroker, WaitTimeout
from embedclient import ConnectionFactory, JMSException, Queue, Session
from embedclient.errors import IllegalStateException, TransactionOutcomeUnknownException, TransactionRolledBackException

#: Of each kind of pair; one costs about 0.3 s of a processor.
TURNS = 8
FAULTS_MAX = 14
PAUSE_S = 0.4
KEPT, TAKEN = Queue("kept"), Queue("taken")


@define
class Account:
    """What the users of one queue received as results. A batch is what was sent in one transaction."""

    queue: Queue
    confirmed: dict[str, None] = Factory(dict)
    undone: dict[str, None] = Factory(dict)
    in_doubt: list[tuple[str, ...]] = Factory(list)
    #: Received, and the commit behind it was confirmed.
    settled: dict[str, None] = Factory(dict)
    #: Received, and the result of the commit behind it is unknown.
    perhaps_settled: dict[str, None] = Factory(dict)
    came_back: list[str] = Factory(list)

    def faults(self, present: list[str]) -> list[str]:
        """What is wrong with the messages that are in the queue now that everything is over."""
        here = dict.fromkeys(present)
        known = {**here, **self.settled, **self.perhaps_settled}
        found = [f"{body} is there twice" for body in here if present.count(body) > 1]
        found += [f"{body} was confirmed and is lost" for body in self.confirmed if body not in known]
        found += [f"{body} was rolled back and is there" for body in self.undone if body in known]
        found += [f"{body} was settled and is there" for body in self.settled if body in here]
        for batch in self.in_doubt:
            if 0 < sum(body in known for body in batch) < len(batch):
                found.append(f"only a part of {batch} is there")
        return [*found, *self.came_back]


@define
class Users:
    """Use the pair until stopped."""

    pair: BrokerPair
    clock: BrokerClock
    random: Random
    kept: Account = Factory(lambda: Account(KEPT))
    taken: Account = Factory(lambda: Account(TAKEN))
    stopping: bool = False
    was_confirmed: trio.Event = Factory(trio.Event)
    _number: int = 0

    @property
    def factory(self) -> ConnectionFactory:
        return ConnectionFactory(f"{self.pair.url}&initialConnectAttempts=-1")

    def start(self, nursery: trio.Nursery) -> None:
        for account in (self.kept, self.taken):
            nursery.start_soon(self.go_on, self.send, account)
            nursery.start_soon(self.go_on, self.commit, account)
        nursery.start_soon(self.go_on, self.receive, self.taken)

    async def go_on(self, use: Callable[[Account], Awaitable[None]], account: Account) -> None:
        """A connection or a session that could not be opened is opened once more."""
        while not self.stopping:
            try:
                await use(account)
            except JMSException:
                await self.pause()

    async def stop(self) -> None:
        """As soon as they were served once more."""
        self.was_confirmed = trio.Event()
        with trio.fail_after(60):
            await self.was_confirmed.wait()
        self.stopping = True

    def next_body(self) -> str:
        self._number += 1
        return str(self._number)

    async def pause(self) -> None:
        await self.clock.advance(self.random.uniform(0.0, 0.02))

    async def send(self, account: Account) -> None:
        """Each message is confirmed, or in doubt."""
        async with self.factory.connect() as connection, connection.session() as session:
            producer = session.create_producer(account.queue)
            while not self.stopping:
                body = self.next_body()
                try:
                    await producer.send(body)
                except JMSException:
                    account.in_doubt.append((body,))
                else:
                    account.confirmed[body] = None
                    self.was_confirmed.set()
                await self.pause()

    async def commit(self, account: Account) -> None:
        """A few messages in each transaction; some are rolled back."""
        async with (
            self.factory.connect() as connection,
            connection.session(transacted=True) as session,
        ):
            while not self.stopping:
                batch = tuple(self.next_body() for _ in range(self.random.randint(1, 4)))
                try:
                    for body in batch:
                        await session.create_producer(account.queue).send(body)
                        await self.pause()
                except JMSException:
                    await session.rollback()
                    account.undone.update(dict.fromkeys(batch))
                    continue
                if self.random.random() < 0.2:
                    await session.rollback()
                    account.undone.update(dict.fromkeys(batch))
                else:
                    await self.end(session, account, batch)

    async def end(self, session: Session, account: Account, batch: tuple[str, ...]) -> None:
        try:
            await session.commit()
        except TransactionOutcomeUnknownException:
            account.in_doubt.append(batch)
        except TransactionRolledBackException:
            account.undone.update(dict.fromkeys(batch))
        else:
            account.confirmed.update(dict.fromkeys(batch))

    async def receive(self, account: Account) -> None:
        """What was received and committed must not come back."""
        async with (
            self.factory.connect() as connection,
            connection.session(transacted=True) as session,
            session.create_consumer(account.queue) as consumer,
        ):
            while not self.stopping:
                received: list[str] = []
                try:
                    while len(received) < 3 and (body := await consumer.receive_body(str, timeout=0.1)) is not None:
                        received.append(body)
                        if body in account.settled:
                            account.came_back.append(f"{body} was settled and came back")
                    await session.commit()
                except TransactionOutcomeUnknownException:
                    account.perhaps_settled.update(dict.fromkeys(received))
                except JMSException:
                    await session.rollback()
                else:
                    account.settled.update(dict.fromkeys(received))


class Faults:
    """What goes wrong, one after the other, drawn from one generator."""

    def __init__(self, pair: BrokerPair, clock: BrokerClock, random: Random) -> None:
        self.pair = pair
        self.clock = clock
        self.random = random

    async def happen(self) -> None:
        kinds = [self.end_one] * 2 + [self.start_one] * 3 + [self.spoil_link, self.spoil_disk, self.fail_over]
        for _ in range(self.random.randint(4, FAULTS_MAX)):
            await self.clock.advance(self.random.choice([0.0, 0.001, 0.01, PAUSE_S]) * self.random.random())
            try:
                await self.random.choice(kinds)()
            except (IllegalStateException, WaitTimeout):
                pass  # no broker to do it to, or none that would take over

    async def end_one(self) -> None:
        running = [broker for broker in self.pair.brokers if broker.is_running]
        if not running:
            return
        broker = self.random.choice(running)
        if self.random.random() < 0.7:
            await broker.crash(torn=self.random.random() < 0.5)
        else:
            await broker.stop(failover=self.random.random() < 0.5)

    async def start_one(self) -> None:
        down = [broker for broker in self.pair.brokers if not broker.is_running]
        if down:
            await self.random.choice(down).start()

    async def spoil_link(self) -> None:
        link = self.random.choice([self.pair.link, self.pair.link, self.pair.primary.link, self.pair.backup.link])
        kind = self.random.randrange(4)
        if kind == 0:
            link.cut()
        elif kind == 1:
            link.partition(self.random.choice(["both", "to_broker", "from_broker"]))
            await self.clock.advance(self.random.choice([0.01, 1.0, 8.0]) * self.random.random())
            link.heal()
        elif kind == 2:
            link.drop_after(self.random.randrange(5_000), self.random.choice(["to_broker", "from_broker"]))
        else:
            link.delay(self.random.random() * 0.01)

    async def spoil_disk(self) -> None:
        disk = self.random.choice(self.pair.brokers).disk
        kind = self.random.randrange(4)
        if kind == 0:
            disk.fail()
        elif kind == 1:
            disk.fill()
        else:
            disk.slow_down(self.random.random() * 0.02)
        await self.clock.advance(self.random.random() * PAUSE_S)
        disk.heal()

    async def fail_over(self) -> None:
        if self.random.random() < 0.5:
            await self.pair.failover()
        else:
            await self.pair.failback()

    async def heal(self) -> None:
        for broker in self.pair.brokers:
            broker.link.heal()
            broker.disk.heal()
        self.pair.link.heal()
        async with trio.open_nursery() as nursery:
            for broker in self.pair.brokers:
                if not broker.is_running:
                    nursery.start_soon(broker.start)
        await self.pair.wait_in_sync(timeout=60)


async def bodies(broker: ManagedBroker, queue: Queue) -> list[str]:
    return [str(message.body) for message in await broker.messages(queue.name)]


@pytest.mark.parametrize("turn", range(TURNS))
async def test_what_was_confirmed_is_there_and_what_was_undone_is_not(
    broker_pair: BrokerPair, broker_clock: BrokerClock, fault_plan: FaultPlan, turn: int
) -> None:
    users = Users(broker_pair, broker_clock, fault_plan.random)
    faults = Faults(broker_pair, broker_clock, fault_plan.random)
    async with trio.open_nursery() as nursery:
        users.start(nursery)
        await faults.happen()
        await faults.heal()
        await users.stop()
    live = await broker_pair.wait_live()
    for account in (users.kept, users.taken):
        assert account.faults(await bodies(live, account.queue)) == []
    broker_pair.assert_nothing_lost()
