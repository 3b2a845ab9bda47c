"""Conducts a drill: broker process, load, kills at moments that hit something, the drain, and the findings.

Responsible for the order of things and for leaving no process behind. Refuses to know how findings are shown.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import trio

from embedclient import ConnectionFactory

from .._broker_process import BrokerProcess, free_port
from .._failure import CommandFailed
from ._consumer import Consumer
from ._plan import DrillPlan, Findings, KillRecord
from ._producer import KEY_PROPERTY, Producer
from ._stage import QUEUE, Stage

__all__ = ["DrillFailed", "conduct"]

# Clients come back as soon as they can, for ever: what the drill measures is the broker.
CLIENT_SETTINGS = "reconnectAttempts=-1&retryInterval=20&retryIntervalMultiplier=1.0&maxRetryInterval=20"
PORTS = range(15_000, 30_000)
#: How long a kill waits for its moment; one that is forced then fails the drill.
MOMENT_TIMEOUT_S = 10.0
DELIVERY_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 120.0
DEAD_LETTERS = "DLQ"

Watcher = Callable[[Stage, Sequence[KillRecord]], Awaitable[None]]


class DrillFailed(CommandFailed):
    """The drill came to no verdict."""

    exit_code = 6


async def conduct(plan: DrillPlan, directory: Path, watch: Watcher) -> Findings:
    """Run a drill in ``directory``; ``watch`` shows its progress until it is cancelled.

    Raises:
        CannotStart: the broker did not start, or not again after a kill.
        DrillFailed: a client gave up, or the queue could not be drained.
    """
    conductor = _Conductor(plan, directory)
    try:
        return await conductor.run(watch)
    finally:
        await conductor.clean_up()


class _Conductor:
    def __init__(self, plan: DrillPlan, directory: Path) -> None:
        self._plan = plan
        self._stage = Stage(plan)
        # Not from the drill's seed: two drills of one seed at the same time would meet at the same port after a kill.
        ports = random.sample(PORTS, 100)
        self._broker = BrokerProcess(directory, free_port(ports))
        self._kills: list[KillRecord] = []
        self._producers: list[Producer] = []
        self._consumers: list[Consumer] = []
        self._producers_left = trio.Event()
        self._problem: CommandFailed | None = None

    async def run(self, watch: Watcher) -> Findings:
        stage = self._stage
        await self._broker.start()
        stage.broker_url = self._broker.url
        factory = ConnectionFactory(f"{self._broker.url}?{CLIENT_SETTINGS}")
        plan = self._plan
        # Odd ones out: with one producer and one consumer, the consumer is the transacted one.
        self._producers = [Producer(stage, factory, f"p{n}", transacted=n % 2 == 1) for n in range(plan.producers)]
        self._consumers = [Consumer(stage, factory, f"c{n}", transacted=n % 2 == 0) for n in range(plan.consumers)]
        began = load_s = drain_s = 0.0
        swept = 0
        with stage.scope:
            async with trio.open_nursery() as watching:
                watching.start_soon(watch, stage, self._kills)
                async with trio.open_nursery() as clients:
                    clients.start_soon(self._run_producers)
                    for consumer in self._consumers:
                        clients.start_soon(consumer.run)
                    await stage.everybody_is_ready.wait()
                    began = stage.now()
                    await self._kill_in_time(began)
                    load_s = stage.now() - began
                    stage.stop_sending()
                    clients.cancel_scope.deadline = trio.current_time() + DRAIN_TIMEOUT_S
                    await self._producers_left.wait()
                    stage.leaving = True
                if clients.cancel_scope.cancelled_caught:
                    stage.fail(
                        f"the queue was not drained in {DRAIN_TIMEOUT_S:.0f} s, {stage.backlog} messages are left"
                    )
                drain_s = stage.now() - began - load_s
                swept = await self._sweep(factory)
                watching.cancel_scope.cancel()
        if stage.failure is not None:
            raise self._problem or DrillFailed(f"the drill came to no verdict: {stage.failure}")
        stop_code = await self._broker.stop()
        return Findings(
            plan,
            stage.ledger.verdict(drained=True),
            stage.ledger.timeline(),
            tuple(self._kills),
            load_s,
            drain_s,
            stop_code,
            swept,
        )

    async def clean_up(self) -> None:
        """Leave no process behind, however the drill ended."""
        with trio.CancelScope(shield=True):
            self._broker.kill()
            await self._broker.ended()

    async def _run_producers(self) -> None:
        async with trio.open_nursery() as nursery:
            for producer in self._producers:
                nursery.start_soon(producer.run)
        self._producers_left.set()

    async def _kill_in_time(self, began: float) -> None:
        """The kills lie evenly in the time of the load, each a little off; the load goes on to its end."""
        stage, plan = self._stage, self._plan
        gap_s = plan.seconds / (plan.kills + 1)
        for number in range(1, plan.kills + 1):
            due = began + (number + stage.random.uniform(-0.2, 0.2)) * gap_s
            await trio.sleep(max(0.0, due - stage.now()))
            with trio.move_on_after(MOMENT_TIMEOUT_S):
                await stage.moment()
            self._kill()
            await self._broker.ended()
            await self._restart()
            # A kill before anything was delivered would say nothing about the one before.
            with trio.move_on_after(DELIVERY_TIMEOUT_S):
                await stage.delivering.wait()
        await trio.sleep(max(0.0, began + plan.seconds - stage.now()))

    def _kill(self) -> None:
        """No task runs between looking and killing, so the record says what the kill hit."""
        stage = self._stage
        self._broker.kill()
        now = stage.now()
        stage.ledger.killed(now)
        backlog = max(0, stage.backlog)
        record = KillRecord(now, stage.waiting_sends, len(stage.open_transactions), stage.asked_commits, backlog)
        self._kills.append(record)
        for consumer in self._consumers:
            consumer.broker_died()

    async def _restart(self) -> None:
        stage = self._stage
        try:
            await self._broker.start()
        except CommandFailed as problem:
            self._problem = problem
            stage.fail("the broker did not start again")
            await trio.lowlevel.checkpoint()
            return
        stage.ledger.restarted(stage.now())
        stage.delivering = trio.Event()
        stage.recount()

    async def _sweep(self, factory: ConnectionFactory) -> int:
        """Whatever is left when all consumers have gone, by one that comes afterwards; and dead letters."""
        stage = self._stage
        last = Consumer(stage, factory, "sweep", transacted=False)
        await last.run()
        async with (
            factory.connect() as connection,
            connection.session() as session,
            session.create_consumer(DEAD_LETTERS) as consumer,
        ):
            while (message := await consumer.receive_nowait()) is not None:
                stage.ledger.dead_lettered(QUEUE, str(message.properties[KEY_PROPERTY]))
        return last.taken
