"""Conducts a drill: brokers, load, faults at moments that hit something, the ways back, the drain, and the findings.

Responsible for the order of the steps and for leaving no process behind. Does not depend on how findings are shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import attrs
import trio

from .._failure import CommandFailed
from ._branch import FORMAT_ID
from ._consumer import Consumer
from ._faults import carry_out
from ._node import Node
from ._outage import NewTime, Outage
from ._persistence import Work, work_of
from ._plan import DrillPlan, Findings, Round
from ._producer import Producer, key_of
from ._run import QUEUE, Run
from ._stage import Stage

__all__ = ["Conductor", "DrillFailed", "Scene", "conduct"]

#: How long a fault waits for its moment. A fault that is forced then fails the drill.
MOMENT_TIMEOUT_S = 10.0
RECOVERY_TIMEOUT_S = 60.0
DRAIN_TIMEOUT_S = 120.0
#: Time limits until all clients are connected, and for the search for messages and branches that they left.
CLIENTS_TIMEOUT_S = 120.0

Watcher = Callable[[Run], Awaitable[None]]
#: Makes the nodes of a drill, whose brokers report their state to the stages of the run.
Scene = Callable[[Run, trio.Nursery], Awaitable[Sequence[Node]]]


class DrillFailed(CommandFailed):
    """The drill ended without a verdict."""

    exit_code = 6


async def conduct(plan: DrillPlan, scene: Scene, watch: Watcher, dead_letters: Sequence[str] = ("DLQ",)) -> Findings:
    """Run a drill.

    Args:
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
        run = Run(plan)
        nodes: Sequence[Node] = ()
        try:
            nodes = await scene(run, nursery)
            findings = await Conductor(run, nodes, dead_letters).run(watch)
        except CommandFailed as problem:
            failure = problem  # raised outside of the nursery, which would wrap it
        finally:
            run.load_s = run.load_s or run.now()
            with trio.CancelScope(shield=True):
                for node in nodes:
                    await node.group.dispose()
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    assert findings is not None
    return findings


class Conductor:
    """Conduct one drill with nodes that are about to start."""

    def __init__(self, run: Run, nodes: Sequence[Node], dead_letters: Sequence[str]) -> None:
        self._plan = run.plan
        self._run = run
        self._nodes = nodes
        self._dead_letters = dead_letters
        self._producers_left = trio.Event()
        self._problem: CommandFailed | None = None
        self._victims: list[Node] = []

    async def run(self, watch: Watcher) -> Findings:
        run = self._run
        await self._start_nodes()
        swept = branches_left = 0
        with run.scope:
            async with trio.open_nursery() as watching:
                watching.start_soon(watch, run)
                await self._load_and_drain()
                with trio.move_on_after(CLIENTS_TIMEOUT_S) as patience:
                    swept = await self._sweep()
                    branches_left = sum([await self._count_branches(node) for node in self._nodes])
                if patience.cancelled_caught:
                    run.fail(f"no broker reported within {CLIENTS_TIMEOUT_S:.0f} s what its queues still hold")
                watching.cancel_scope.cancel()
        if run.failure is not None:
            raise self._problem or DrillFailed(f"the drill came to no verdict: {run.failure}")
        for node in self._nodes:
            node.group.check_all_run()
        findings = run.findings(swept=swept, branches_left=branches_left)
        stop_codes = list(run.end_codes)
        for node in self._nodes:
            stop_codes += await node.group.stop()
        return attrs.evolve(findings, stop_codes=tuple(stop_codes))

    async def _start_nodes(self) -> None:
        """Start all nodes at the same time.

        Raises:
            CannotStart: a broker did not start.
        """
        problems: list[CommandFailed] = []

        async def start(node: Node) -> None:
            try:
                await node.group.start()
            except CommandFailed as problem:
                problems.append(problem)  # raised outside of the nursery, which would wrap it
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for node in self._nodes:
                nursery.start_soon(start, node)
        if problems:
            raise problems[0]

    async def _load_and_drain(self) -> None:
        run = self._run
        async with trio.open_nursery() as clients:
            with self._order_open():
                self._start_clients(clients)
                await self._wait_for_clients()
            began = run.now()
            await self._all_rounds(began)
            run.load_s = run.now() - began
            run.stop_sending()
            clients.cancel_scope.deadline = trio.current_time() + DRAIN_TIMEOUT_S
            await self._producers_left.wait()
            await run.drained()
            run.leaving = True
        if clients.cancel_scope.cancelled_caught:
            run.fail(f"the queue was not drained in {DRAIN_TIMEOUT_S:.0f} s, {run.backlog} messages are left")
        run.drain_s = run.now() - began - run.load_s

    def _start_clients(self, clients: trio.Nursery) -> None:
        plan = self._plan
        producers = []
        for stage, factory in ((node.stage, node.factory) for node in self._nodes):
            producers += [Producer(stage, factory, number) for number in range(plan.producers)]
            for number in range(plan.consumers):
                # Shifted by one: of a single producer and a single consumer, the consumer works in transactions.
                clients.start_soon(Consumer(stage, factory, f"c{number}", work_of(number + 1)).run)
        clients.start_soon(self._run_producers, producers)

    async def _wait_for_clients(self) -> None:
        """Wait until all clients are connected, and messages go from each node to another.

        Clients of a pair look for a broker for ever, and one may have ended by itself.
        """
        run = self._run
        with trio.move_on_after(CLIENTS_TIMEOUT_S) as patience:
            await run.all_are_ready.wait()
            if run.is_cluster:
                await run.is_formed.wait()
        if patience.cancelled_caught:
            if run.all_are_ready.is_set():
                alone = ", ".join(counts.name for counts in run.nodes if not counts.arrived)
                run.fail(f"no message of another node reached {alone} in {CLIENTS_TIMEOUT_S:.0f} s")
            else:
                run.fail(f"not all clients were connected in {CLIENTS_TIMEOUT_S:.0f} s")
            await trio.lowlevel.checkpoint()

    @contextmanager
    def _order_open(self) -> Iterator[None]:
        """Judge no order in a cluster meanwhile: nodes come and go, and what waits for one may move to another."""
        ledger, is_cluster = self._run.ledger, self._run.is_cluster
        if is_cluster:
            ledger.giving_back(QUEUE)
        try:
            yield
        finally:
            if is_cluster:
                ledger.gave_back(QUEUE)

    async def _run_producers(self, producers: Sequence[Producer]) -> None:
        async with trio.open_nursery() as nursery:
            for producer in producers:
                nursery.start_soon(producer.run)
        self._producers_left.set()

    async def _all_rounds(self, began: float) -> None:
        """Run all rounds, and wait for the end of the load.

        If the load is long enough, the rounds lie evenly in its time, each a little off.
        """
        run, plan = self._run, self._plan
        gap_s = plan.seconds / (plan.rounds + 1)
        for number in range(1, plan.rounds + 1):
            due = began + (number + run.random.uniform(-0.2, 0.2)) * gap_s
            await trio.sleep(max(0.0, due - run.now()))
            try:
                for node in self._nodes:
                    await node.group.ready()
                with self._order_open():
                    await self._round(number, self._next_victim())
            except CommandFailed as problem:
                self._problem = problem
                run.fail("the brokers did not come back")
                await trio.lowlevel.checkpoint()
        await trio.sleep(max(0.0, began + plan.seconds - run.now()))

    def _next_victim(self) -> Node:
        """Return the node to strike. Each has its turn before one has the next, in an order that the seed gives."""
        if not self._victims:
            self._victims = self._run.random.sample(self._nodes, len(self._nodes))
        return self._victims.pop()

    async def _round(self, number: int, node: Node) -> None:
        """Carry out a fault, and the way back to the initial state.

        A fault before all clients were served would prove nothing.
        """
        stage, group = node.stage, node.group
        fault = self._plan.faults[(number - 1) % len(self._plan.faults)]
        # Commits of prepared branches are short: every second fault waits for one.
        await self._moment(stage, prepared=number % 2 == 0)
        stage.counts.faults += 1
        outage = await carry_out(fault, stage, group)
        if fault.ends_it:
            await (group.serving() if group.is_pair else group.restore())
        await self._recovery(outage)
        if group.is_taken_over and not fault.ends_it:
            await group.first_ended()
        failback: Outage | None = None
        if group.is_taken_over:
            await self._moment(stage)
            failback = stage.strike("failback", NewTime.WITH_THE_LOSS, _nothing, ends_life=True)
            await group.restore()
            await self._recovery(failback)
        ways = (outage.record(), None if failback is None else failback.record())
        self._run.rounds.append(Round(fault, *ways, stage.name))

    async def _moment(self, stage: Stage, *, prepared: bool = False) -> None:
        with trio.move_on_after(MOMENT_TIMEOUT_S) as patience:
            await stage.moment(prepared=prepared)
        if prepared and patience.cancelled_caught:
            await self._moment(stage)  # without any consumer or producer that prepares, for example

    async def _recovery(self, outage: Outage) -> None:
        self._run.recount()
        with trio.move_on_after(RECOVERY_TIMEOUT_S):
            await outage.over.wait()

    async def _sweep(self) -> int:
        """Receive with a consumer at each node what is left when the others have ended, and read dead letters."""
        last = [Consumer(node.stage, node.factory, "sweep", Work.SINGLE) for node in self._nodes]
        async with trio.open_nursery() as nursery:
            for consumer in last:
                nursery.start_soon(consumer.run)
        for node in self._nodes:
            async with node.factory.connect() as connection, connection.session() as session:
                for address in self._dead_letters:
                    async with session.create_consumer(address) as letters:
                        while (message := await letters.receive_nowait()) is not None:
                            self._run.ledger.dead_lettered(QUEUE, key_of(message))
        return sum(consumer.taken for consumer in last)

    async def _count_branches(self, node: Node) -> int:
        """Return the number of the drill's branches that are still prepared at a node."""
        async with node.factory.create_xa_connection() as connection, connection.create_xa_session() as session:
            found = await session.xa_resource.recover()
        return sum(xid.format_id == FORMAT_ID for xid in found)


def _nothing() -> None:
    """Do nothing: a broker gives way by itself when the other broker is back."""
