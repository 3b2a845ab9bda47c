"""Conducts a drill: brokers, load, faults at moments that hit something, the ways back, the drain, and the findings.

Responsible for the order of the steps and for leaving no process behind. Does not depend on how findings are shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from embedclient import XAConnectionFactory

from .._failure import CommandFailed
from ._branch import FORMAT_ID
from ._consumer import Consumer
from ._faults import carry_out
from ._group import Group
from ._outage import NewTime, Outage
from ._persistence import Work, work_of
from ._plan import DrillPlan, Findings, Round
from ._producer import Producer, key_of
from ._stage import QUEUE, Stage

__all__ = ["Conductor", "DrillFailed", "Scene", "conduct"]

#: How long a fault waits for its moment. A fault that is forced then fails the drill.
MOMENT_TIMEOUT_S = 10.0
RECOVERY_TIMEOUT_S = 60.0
DRAIN_TIMEOUT_S = 120.0
#: Time limits until all clients are connected, and for the search for messages and branches that they left.
CLIENTS_TIMEOUT_S = 120.0

Watcher = Callable[[Stage, Sequence[Round]], Awaitable[None]]
#: Makes the brokers of a drill, which report their state to the stage.
Scene = Callable[[Stage, trio.Nursery], Awaitable[Group]]


class DrillFailed(CommandFailed):
    """The drill ended without a verdict."""

    exit_code = 6


async def conduct(
    plan: DrillPlan, scene: Scene, url: str, watch: Watcher, dead_letters: Sequence[str] = ("DLQ",)
) -> Findings:
    """Run a drill.

    Args:
        url: where clients connect.
        watch: shows the drill's progress until it is cancelled.
        dead_letters: addresses that may have received messages whose delivery attempts were exhausted.

    Raises:
        CannotStart: a broker did not start, or no broker served after a fault.
        BrokerStopped: a broker ended by itself.
        DrillFailed: a client gave up, or the queue could not be drained.
    """
    failure: CommandFailed | None = None
    findings: Findings | None = None
    async with trio.open_nursery() as nursery:
        stage = Stage(plan)
        group: Group | None = None
        try:
            group = await scene(stage, nursery)
            findings = await Conductor(plan, stage, group, url, dead_letters).run(watch)
        except CommandFailed as problem:
            failure = problem  # raised outside of the nursery, which would wrap it
        finally:
            with trio.CancelScope(shield=True):
                if group is not None:
                    await group.dispose()
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    assert findings is not None
    return findings


class Conductor:
    """Conduct one drill with brokers that are about to start."""

    def __init__(self, plan: DrillPlan, stage: Stage, group: Group, url: str, dead_letters: Sequence[str]) -> None:
        self._plan = plan
        self._stage = stage
        self._group = group
        self._factory = XAConnectionFactory(url)
        self._dead_letters = dead_letters
        self._rounds: list[Round] = []
        self._producers_left = trio.Event()
        self._problem: CommandFailed | None = None

    async def run(self, watch: Watcher) -> Findings:
        stage, plan = self._stage, self._plan
        await self._group.start()
        began = load_s = drain_s = 0.0
        swept = branches_left = 0
        with stage.scope:
            async with trio.open_nursery() as watching:
                watching.start_soon(watch, stage, self._rounds)
                async with trio.open_nursery() as clients:
                    self._start_clients(clients)
                    await self._wait_for_clients()
                    began = stage.now()
                    await self._all_rounds(began)
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
                with trio.move_on_after(CLIENTS_TIMEOUT_S) as patience:
                    swept = await self._sweep()
                    branches_left = await self._count_branches()
                if patience.cancelled_caught:
                    stage.fail(f"no broker reported within {CLIENTS_TIMEOUT_S:.0f} s what its queues still hold")
                watching.cancel_scope.cancel()
        if stage.failure is not None:
            raise self._problem or DrillFailed(f"the drill came to no verdict: {stage.failure}")
        self._group.check_all_run()
        roles = tuple(stage.roles)
        stop_codes = (*stage.end_codes, *await self._group.stop())
        return Findings(
            plan,
            stage.ledger.verdict(drained=True),
            stage.ledger.timeline(),
            tuple(self._rounds),
            load_s,
            drain_s,
            stop_codes,
            swept,
            branches_left,
            roles,
        )

    def _start_clients(self, clients: trio.Nursery) -> None:
        stage, plan = self._stage, self._plan
        producers = [Producer(stage, self._factory, number) for number in range(plan.producers)]
        # Shifted by one: of a single producer and a single consumer, the consumer works in transactions.
        consumers = [
            Consumer(stage, self._factory, f"c{number}", work_of(number + 1)) for number in range(plan.consumers)
        ]
        clients.start_soon(self._run_producers, producers)
        for consumer in consumers:
            clients.start_soon(consumer.run)

    async def _wait_for_clients(self) -> None:
        """Wait until all clients are connected.

        Clients of a pair look for a broker for ever, and one may have ended by itself.
        """
        with trio.move_on_after(CLIENTS_TIMEOUT_S) as patience:
            await self._stage.all_are_ready.wait()
        if patience.cancelled_caught:
            self._stage.fail(f"not all clients were connected in {CLIENTS_TIMEOUT_S:.0f} s")
            await trio.lowlevel.checkpoint()

    async def _run_producers(self, producers: Sequence[Producer]) -> None:
        async with trio.open_nursery() as nursery:
            for producer in producers:
                nursery.start_soon(producer.run)
        self._producers_left.set()

    async def _all_rounds(self, began: float) -> None:
        """Run all rounds, and wait for the end of the load.

        If the load is long enough, the rounds lie evenly in its time, each a little off.
        """
        stage, plan = self._stage, self._plan
        gap_s = plan.seconds / (plan.rounds + 1)
        for number in range(1, plan.rounds + 1):
            due = began + (number + stage.random.uniform(-0.2, 0.2)) * gap_s
            await trio.sleep(max(0.0, due - stage.now()))
            try:
                await self._round(number)
            except CommandFailed as problem:
                self._problem = problem
                stage.fail("the brokers did not come back")
                await trio.lowlevel.checkpoint()
        await trio.sleep(max(0.0, began + plan.seconds - stage.now()))

    async def _round(self, number: int) -> None:
        """Carry out a fault, and the way back to the initial state.

        A fault before all clients were served would prove nothing.
        """
        stage, group = self._stage, self._group
        fault = self._plan.faults[(number - 1) % len(self._plan.faults)]
        await group.ready()
        # Commits of prepared branches are short: every second fault waits for one.
        await self._moment(prepared=number % 2 == 0)
        outage = await carry_out(fault, stage, group)
        if fault.ends_it:
            await (group.serving() if group.is_pair else group.restore())
        await self._recovery(outage)
        if group.is_taken_over and not fault.ends_it:
            await group.first_ended()
        failback: Outage | None = None
        if group.is_taken_over:
            await self._moment()
            failback = stage.strike("failback", NewTime.WITH_THE_LOSS, _nothing, ends_life=True)
            await group.restore()
            await self._recovery(failback)
        self._rounds.append(Round(fault, outage.record(), None if failback is None else failback.record()))

    async def _moment(self, *, prepared: bool = False) -> None:
        with trio.move_on_after(MOMENT_TIMEOUT_S) as patience:
            await self._stage.moment(prepared=prepared)
        if prepared and patience.cancelled_caught:
            await self._moment()  # without any consumer or producer that prepares, for example

    async def _recovery(self, outage: Outage) -> None:
        self._stage.recount()
        with trio.move_on_after(RECOVERY_TIMEOUT_S):
            await outage.over.wait()

    async def _sweep(self) -> int:
        """Receive what is left when all consumers have ended, with a further consumer, and read dead letters."""
        stage = self._stage
        last = Consumer(stage, self._factory, "sweep", Work.SINGLE)
        await last.run()
        async with self._factory.connect() as connection, connection.session() as session:
            for address in self._dead_letters:
                async with session.create_consumer(address) as consumer:
                    while (message := await consumer.receive_nowait()) is not None:
                        stage.ledger.dead_lettered(QUEUE, key_of(message))
        return last.taken

    async def _count_branches(self) -> int:
        """Return the number of the drill's branches that are still prepared."""
        async with (
            self._factory.create_xa_connection() as connection,
            connection.create_xa_session() as session,
        ):
            found = await session.xa_resource.recover()
        return sum(xid.format_id == FORMAT_ID for xid in found)


def _nothing() -> None:
    """Do nothing: a broker gives way by itself when the other broker is back."""
