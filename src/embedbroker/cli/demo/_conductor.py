"""Conducts the demo: a broker pair, two queries, a producer, kill -9 in the middle, the rest, and the findings.

Responsible for the order of the steps and for leaving no process behind. Refuses to judge. Does not depend on how
findings are shown.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from embedclient import Queue
from embedclient.blocking import ConnectionFactory, ServerLocator

from .._failure import CommandFailed, Refused
from ..drill import MemberState
from ._pair import Pair
from ._plan import DemoPlan, Findings, Moment, Progress, RoleChange
from ._producer import QUEUE
from ._queries import Queries
from ._query import RESULTS
from ._verdict import judge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["conduct"]

_POLL_S = 0.5
Watcher = Callable[[Progress], Awaitable[None]]
OpenSpark = Callable[[], AbstractContextManager["SparkSession"]]


async def conduct(plan: DemoPlan, folder: Path, open_spark: OpenSpark, watch: Watcher) -> Findings:
    """Run the demo; the Parquet files come into ``folder``. ``watch`` shows progress until it is cancelled.

    Raises:
        CannotStart: a broker did not start, or none took over.
        Refused: a query or the producer failed.
    """
    failure: CommandFailed | None = None
    findings: Findings | None = None
    async with trio.open_nursery() as nursery:
        demo = _Demo(plan, folder, nursery)
        nursery.start_soon(watch, demo.progress)
        with ExitStack() as spark:
            try:
                findings = await demo.run(partial(spark.enter_context, open_spark()))
            except CommandFailed as problem:
                failure = problem  # raised outside of the nursery, which would wrap it
            finally:
                with trio.CancelScope(shield=True):
                    await demo.dispose()
                nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    assert findings is not None
    return findings


class _Demo:
    def __init__(self, plan: DemoPlan, folder: Path, nursery: trio.Nursery) -> None:
        self.progress = Progress()
        self._plan = plan
        self._folder = folder
        self._began = trio.current_time()
        self._pair = Pair.in_directory(plan.directory, plan.ha, self._became, nursery)
        self._producer: trio.Process | None = None
        self._queries: Queries | None = None
        self._scope = trio.CancelScope()
        self._failure: CommandFailed | None = None

    async def run(self, start_spark: Callable[[], SparkSession]) -> Findings:
        plan = self._plan
        url = self._pair.url
        await self._pair.group.start()
        await trio.to_thread.run_sync(_create_queues, url)
        self._queries = queries = Queries(await trio.to_thread.run_sync(start_spark), self._folder)
        await trio.to_thread.run_sync(queries.start, plan, self._pair.places)
        with self._scope:
            async with trio.open_nursery() as watching:
                watching.start_soon(self._follow, queries)
                try:
                    await self._produce(url)
                    self.progress.phase = "draining"
                    await trio.to_thread.run_sync(queries.drain, abandon_on_cancel=True)
                    await self._count(queries)
                except CommandFailed as problem:
                    self._fail(problem)
                watching.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        self.progress.ended_at = self._now()
        self.progress.phase = "judging"
        results = await trio.to_thread.run_sync(_browse, url)
        await trio.to_thread.run_sync(queries.stop)
        await self._pair.group.stop()
        return await trio.to_thread.run_sync(judge, plan, self.progress, queries, results, self._pair.records)

    async def dispose(self) -> None:
        """End all processes."""
        if self._producer is not None:
            self._producer.kill()
            await self._producer.wait()
        if self._queries is not None:
            with suppress(CommandFailed):  # their failure is known, or they have ended before
                await trio.to_thread.run_sync(self._queries.stop)
        await self._pair.group.dispose()

    def _now(self) -> float:
        return trio.current_time() - self._began

    def _became(self, broker: str, standing: MemberState) -> None:
        self.progress.roles.append(RoleChange(self._now(), broker, standing.value))

    def _fail(self, problem: CommandFailed) -> None:
        self._failure = self._failure or problem
        self._scope.cancel()

    # The producer

    async def _produce(self, url: str) -> None:
        """Run the producer. Return when all orders are confirmed. The live broker dies in the middle."""
        plan, progress = self._plan, self.progress
        command = [sys.executable, "-m", "embedbroker.cli.demo._producer", url]
        command += map(str, (plan.orders.count, plan.orders.seed, plan.transaction))
        log = plan.directory / "producer.log"
        with log.open("ab") as errors:
            self._producer = producer = await trio.lowlevel.open_process(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        progress.phase = "running"
        # Times are from here on.
        shift = self._now()
        self._began = trio.current_time()
        progress.roles[:] = [
            RoleChange(max(0.0, each.at - shift), each.broker, each.standing) for each in progress.roles
        ]
        await self._allow()
        assert producer.stdout is not None
        rest = b""
        async for piece in producer.stdout:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._on_line(json.loads(line))
                if progress.killed_at is None and progress.confirmed >= plan.kill_at:
                    self._strike()
        if await producer.wait() or progress.confirmed != plan.orders.count + 1:
            printed = log.read_text(errors="replace").strip().splitlines()
            raise Refused(f"the producer ended: {printed[-1] if printed else 'it wrote no output'}")

    async def _allow(self) -> None:
        assert self._producer is not None and self._producer.stdin is not None
        try:
            await self._producer.stdin.send_all(b"%d\n" % (self.progress.read + self._plan.ahead_max))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # it has sent everything, or failed, and reports that itself

    def _on_line(self, printed: dict[str, float]) -> None:
        progress = self.progress
        progress.confirmed, progress.again = int(printed["confirmed"]), int(printed["again"])
        killed_at = progress.killed_at
        # The producer's clock is the same, monotonic one; trio's clock has another origin.
        began, at = (moment - time.monotonic() + self._now() for moment in (printed["began"], printed["at"]))
        if progress.producer_gap_s is None and killed_at is not None and began >= killed_at:
            progress.producer_gap_s = at - killed_at

    def _strike(self) -> None:
        progress = self.progress
        self._pair.group.live.kill()
        progress.killed_at = self._now()
        progress.confirmed_at_kill, progress.read_at_kill = progress.confirmed, progress.read

    # The queries

    async def _follow(self, queries: Queries) -> None:
        """Watch the queries until it is cancelled, and let the producer go on at their pace."""
        while True:
            await trio.sleep(_POLL_S)
            read = self.progress.read
            try:
                await self._count(queries)
            except CommandFailed as problem:
                self._fail(problem)
            if self.progress.read > read:
                await self._allow()

    async def _count(self, queries: Queries) -> None:
        progress = self.progress
        batches = await trio.to_thread.run_sync(queries.new_batches)
        since_1970 = time.time() - self._now()
        for batch in batches:
            if batch.publishes:
                progress.published += batch.rows
                continue
            progress.read += batch.rows
            progress.batches += 1
            killed_at = progress.killed_at
            if progress.query_gap_s is None and killed_at is not None and batch.began - since_1970 >= killed_at:
                progress.query_gap_s = batch.ended - since_1970 - killed_at
        progress.moments.append(Moment(self._now(), progress.confirmed, progress.read))


def _create_queues(url: str) -> None:
    with ServerLocator(url).create_session_factory() as factory, factory.create_session() as session:
        for name in (QUEUE, RESULTS):
            session.create_queue(name)


def _browse(url: str) -> tuple[Sequence[str], int]:
    """Return the bodies of all results, and how many orders are left in their queue."""
    with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
        session.create_browser(Queue(RESULTS)) as browser,
    ):
        bodies = [str(message.body) for message in browser]
    with ServerLocator(url).create_session_factory() as factory, factory.create_session() as core:
        return bodies, core.query_queue(QUEUE).message_count
