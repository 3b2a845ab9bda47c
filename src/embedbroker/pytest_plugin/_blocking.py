"""The fixtures for plain tests: the same brokers, in a thread with its own trio run, with methods that block.

Responsible for the thread and for carrying calls into it. Refuses to add behaviour. Blocking clients run in real time
and in their own threads, so these brokers are reached over sockets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from typing import Any, Self, TypeVar

import outcome
import pytest
import trio

from embedbroker import Role
from embedclient import Message, Queue
from embedclient.blocking import ConnectionFactory, MessageConsumer, Session
from embedclient.errors import IllegalStateException

from ._bench import Bench
from ._bindings import BindingState
from ._broker import ManagedBroker
from ._cluster import BrokerCluster
from ._deadline import Deadline, can_interrupt
from ._disk import DiskSwitch
from ._faults import FaultPlan, check_fault
from ._link import Direction, Link
from ._pair import BrokerPair
from ._queues import QueueState

__all__ = ["BenchThread", "BlockingBroker", "BlockingClock", "BlockingCluster", "BlockingFaultPlan", "BlockingPair"]

T = TypeVar("T")


class BenchThread:
    """Run a bench while a plain test uses it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.clock = BlockingClock()
        #: Of the part of the test that runs: its set-up, itself, or its tear-down.
        self._deadline: Deadline | None = None
        self._begun = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._leave: trio.Event | None = None
        self._result: outcome.Outcome[None] | None = None
        self._thread = threading.Thread(target=self._run, name="embedbroker test", daemon=True)

    def open(self) -> None:
        """Start the thread, and return when the bench can be used. The deadline counts from here."""
        self.bench.is_watched = can_interrupt()
        self.begin_deadline()
        self._thread.start()
        self._begun.wait()
        if self._token is None:
            self.close()

    def close(self) -> None:
        """End the bench, and raise the exception with which it ended, if any."""
        if self._token is not None and self._leave is not None and self._result is None:
            try:
                self._token.run_sync_soon(self._leave.set)
            except trio.RunFinishedError:
                pass  # it ended by itself
        self._thread.join()
        assert self._result is not None
        self._result.unwrap()

    def begin_deadline(self) -> None:
        """Start the deadline of this part of the test, for waits that do not end with the brokers."""
        if self.bench.is_watched:
            self._deadline = Deadline(self.bench.timeout_s, self.bench.overdue)
            self._deadline.begin()

    def end_deadline(self) -> None:
        """End the deadline: this part of the test is over."""
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.end()

    def call(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run an async function in the thread."""
        __tracebackhide__ = True
        return self._carried(partial(trio.from_thread.run, partial(function, *args, **kwargs)))

    def call_now(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a function that does not wait in the thread."""
        __tracebackhide__ = True
        return self._carried(partial(trio.from_thread.run_sync, partial(function, *args, **kwargs)))

    def failed(self) -> None:
        """Make the report of a failed test while its brokers still run, and drop the proof that nothing is left."""
        self.bench.must_prove = False
        try:
            self.bench.report = self.call(self.bench.describe_now)
        except IllegalStateException as error:
            self.bench.report = self.bench.report or str(error)

    def _carried(self, call: Callable[..., T]) -> T:
        __tracebackhide__ = True
        if self._token is None or not self._thread.is_alive():
            raise self._ended()
        try:
            return call(trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            self._thread.join()
            raise self._ended() from None

    def _ended(self) -> IllegalStateException:
        """Return the error for a call after the end, with the reason if there is one."""
        reason = f": {self._result.error!r}" if isinstance(self._result, outcome.Error) else ""
        return IllegalStateException(f"the brokers of this test have ended{reason}")

    def _run(self) -> None:
        self._result = outcome.capture(trio.run, self.bench.run, self._stay)
        self._begun.set()

    async def _stay(self) -> None:
        self._leave = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._begun.set()
        await self._leave.wait()


class BlockingLink:
    """`Link` for plain tests."""

    def __init__(self, thread: BenchThread, link: Link) -> None:
        self.name = link.name
        self._thread = thread
        self._link = link

    @property
    def connection_count(self) -> int:
        return self._thread.call_now(lambda: self._link.connection_count)

    def partition(self, direction: Direction = "both") -> None:
        self._thread.call_now(self._link.partition, direction)

    def delay(self, seconds: float, direction: Direction = "both") -> None:
        self._thread.call_now(self._link.delay, seconds, direction)

    def drop_after(self, count: int, direction: Direction = "to_broker") -> None:
        self._thread.call_now(self._link.drop_after, count, direction)

    def cut(self) -> None:
        self._thread.call_now(self._link.cut)

    def heal(self) -> None:
        self._thread.call_now(self._link.heal)


class BlockingDisk:
    """`DiskSwitch` for plain tests."""

    def __init__(self, thread: BenchThread, disk: DiskSwitch) -> None:
        self.name = disk.name
        self._thread = thread
        self._disk = disk

    def fail(self) -> None:
        self._thread.call_now(self._disk.fail)

    def fill(self) -> None:
        self._thread.call_now(self._disk.fill)

    def slow_down(self, seconds: float) -> None:
        self._thread.call_now(self._disk.slow_down, seconds)

    def heal(self) -> None:
        self._thread.call_now(self._disk.heal)


class _Assertions:
    """The methods that a broker and a pair have in common."""

    def __init__(self, thread: BenchThread, inner: ManagedBroker | BrokerPair) -> None:
        self._thread = thread
        self._waits = inner

    def wait_for(self, *, queue: str, **wanted: Any) -> None:
        """Wait as `ManagedBroker.wait_for` does.

        Args:
            queue: the queue's name.
            wanted: `count`, `consumers` and `timeout`, as there.

        Raises: as `ManagedBroker.wait_for`.
        """
        __tracebackhide__ = True
        self._thread.call(self._waits.wait_for, queue=queue, **wanted)

    def assert_message(self, queue: str, body: object = ..., **wanted: Any) -> Message:
        """Wait as `ManagedBroker.assert_message` does.

        Args:
            queue: the queue's name.
            body: the body; ``...`` for any.
            wanted: `timeout`, and names and values of properties that the message must have.

        Raises: as `ManagedBroker.assert_message`.
        """
        __tracebackhide__ = True
        return self._thread.call(self._waits.assert_message, queue, body, **wanted)

    def assert_empty(self, queue: str, *, timeout: float | None = None) -> None:
        """Wait until a queue has no message, in delivery or waiting.

        Args:
            queue: the queue's name; a queue that does not exist is empty.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises: as `ManagedBroker.assert_empty`.
        """
        __tracebackhide__ = True
        self._thread.call(self._waits.assert_empty, queue, timeout=timeout)

    def assert_nothing_lost(self) -> None:
        """`ManagedBroker.assert_nothing_lost`."""
        __tracebackhide__ = True
        self._thread.call_now(self._waits.assert_nothing_lost)

    def dump(self) -> str:
        """Return all queues with their messages, in words."""
        return self._thread.call(self._waits.dump)


class BlockingBroker(_Assertions):
    """`ManagedBroker` for plain tests.

    Made by the fixtures `embedded_broker_blocking` and `broker_factory_blocking`.
    """

    def __init__(self, thread: BenchThread, broker: ManagedBroker) -> None:
        super().__init__(thread, broker)
        self._broker = broker
        self.name = broker.name

    @property
    def url(self) -> str:
        return self._broker.url

    @property
    def role(self) -> Role:
        return self._broker.role

    @property
    def is_running(self) -> bool:
        return self._broker.is_running

    @property
    def is_live(self) -> bool:
        return self._broker.is_live

    @property
    def link(self) -> BlockingLink:
        return BlockingLink(self._thread, self._broker.link)

    @property
    def disk(self) -> BlockingDisk:
        return BlockingDisk(self._thread, self._broker.disk)

    def queues(self) -> list[QueueState]:
        return self._thread.call_now(self._broker.queues)

    def messages(self, queue: str) -> list[Message]:
        return self._thread.call(self._broker.messages, queue)

    def start(self) -> Self:
        self._thread.call(self._broker.start)
        return self

    def stop(self, *, failover: bool = False) -> None:
        self._thread.call(self._broker.stop, failover=failover)

    def scale_down(self, to: BlockingBroker | str | None = None) -> int:
        return self._thread.call(self._broker.scale_down, to._broker if isinstance(to, BlockingBroker) else to)

    def crash(self, *, torn: bool = False) -> None:
        self._thread.call(self._broker.crash, torn=torn)

    def restart(self, *, in_sync: bool = False) -> Self:
        self._thread.call(self._broker.restart, in_sync=in_sync)
        return self

    def wait_for_role(self, *roles: Role, timeout: float | None = None) -> None:
        self._thread.call(self._broker.wait_for_role, *roles, timeout=timeout)

    def wait_in_sync(self, timeout: float | None = None) -> None:
        self._thread.call(self._broker.wait_in_sync, timeout)


class BlockingPair(_Assertions):
    """`BrokerPair` for plain tests. Made by the fixture `broker_pair_blocking`."""

    def __init__(self, thread: BenchThread, pair: BrokerPair) -> None:
        super().__init__(thread, pair)
        self._pair = pair
        self.kind = pair.kind
        self.primary = BlockingBroker(thread, pair.primary)
        self.backup = BlockingBroker(thread, pair.backup)

    @property
    def url(self) -> str:
        return self._pair.url

    @property
    def live(self) -> BlockingBroker:
        return self._twin(self._pair.live)

    @property
    def standby(self) -> BlockingBroker:
        return self._twin(self._pair.standby)

    @property
    def link(self) -> BlockingLink:
        return BlockingLink(self._thread, self._pair.link)

    @property
    def disk(self) -> BlockingDisk:
        return BlockingDisk(self._thread, self._pair.disk)

    def failover(self) -> BlockingBroker:
        return self._twin(self._thread.call(self._pair.failover))

    def failback(self) -> BlockingBroker:
        return self._twin(self._thread.call(self._pair.failback))

    def wait_live(self, timeout: float | None = None) -> BlockingBroker:
        return self._twin(self._thread.call(self._pair.wait_live, timeout))

    @property
    def is_in_sync(self) -> bool:
        return self._thread.call_now(lambda: self._pair.is_in_sync)

    def wait_in_sync(self, timeout: float | None = None) -> None:
        self._thread.call(self._pair.wait_in_sync, timeout)

    def wait_in_step(self, timeout: float | None = None) -> None:
        self._thread.call(self._pair.wait_in_step, timeout)

    def _twin(self, broker: ManagedBroker) -> BlockingBroker:
        return self.primary if broker is self._pair.primary else self.backup


class BlockingCluster:
    """`BrokerCluster` for plain tests. Made by the fixture `broker_cluster_blocking`."""

    def __init__(self, thread: BenchThread, cluster: BrokerCluster) -> None:
        self._thread = thread
        self._cluster = cluster
        self.nodes = tuple(BlockingBroker(thread, node) for node in cluster.nodes)
        self.pairs = tuple(BlockingPair(thread, pair) for pair in cluster.pairs)

    @property
    def brokers(self) -> tuple[BlockingBroker, ...]:
        return tuple(self._twin(broker) for broker in self._cluster.brokers)

    @property
    def url(self) -> str:
        return self._cluster.url

    def link(self, one: int, other: int) -> BlockingLink:
        return BlockingLink(self._thread, self._thread.call_now(self._cluster.link, one, other))

    def live(self, node: int) -> BlockingBroker | None:
        found = self._thread.call_now(self._cluster.live, node)
        return None if found is None else self._twin(found)

    def start(self) -> Self:
        self._thread.call(self._cluster.start)
        return self

    def partition(self, *groups: Sequence[int]) -> None:
        self._thread.call_now(self._cluster.partition, *groups)

    def heal(self) -> None:
        self._thread.call_now(self._cluster.heal)

    def wait_formed(self, *groups: Sequence[int], timeout: float | None = None) -> None:
        __tracebackhide__ = True
        self._thread.call(self._cluster.wait_formed, *groups, timeout=timeout)

    def wait_backed_up(self, *nodes: int, timeout: float | None = None) -> None:
        __tracebackhide__ = True
        self._thread.call(self._cluster.wait_backed_up, *nodes, timeout=timeout)

    def wait_for(self, *, queue: str, **wanted: Any) -> None:
        """Wait as `BrokerCluster.wait_for` does.

        Args:
            queue: the queue's name.
            wanted: `count`, `consumers` and `timeout`, as there.

        Raises: as `BrokerCluster.wait_for`.
        """
        __tracebackhide__ = True
        self._thread.call(self._cluster.wait_for, queue=queue, **wanted)

    def bindings(self, queue: str) -> list[list[BindingState]]:
        return self._thread.call_now(self._cluster.bindings, queue)

    def wait_for_bindings(self, *, queue: str, **wanted: Any) -> None:
        """Wait as `BrokerCluster.wait_for_bindings` does.

        Args:
            queue: the queue's name.
            wanted: `count`, `consumers` and `timeout`, as there.

        Raises: as `BrokerCluster.wait_for_bindings`.
        """
        __tracebackhide__ = True
        self._thread.call(self._cluster.wait_for_bindings, queue=queue, **wanted)

    def assert_empty(self, queue: str, *, timeout: float | None = None) -> None:
        """Wait until a queue has no message on any node.

        Args:
            queue: the queue's name; a queue that does not exist is empty.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises: as `BrokerCluster.wait_for`.
        """
        __tracebackhide__ = True
        self._thread.call(self._cluster.assert_empty, queue, timeout=timeout)

    def assert_nothing_lost(self) -> None:
        """`BrokerCluster.assert_nothing_lost`."""
        __tracebackhide__ = True
        self._thread.call_now(self._cluster.assert_nothing_lost)

    def dump(self) -> str:
        """Return all nodes with their queues and messages, in words."""
        return self._thread.call(self._cluster.dump)

    @contextmanager
    def sessions(self) -> Iterator[list[Session]]:
        """Open a session at each node, each on a separate connection, for the time of a block.

        Raises:
            JMSException: a node cannot be reached.
        """
        with ExitStack() as stack:
            connections = [
                stack.enter_context(ConnectionFactory(node.url).connect()) for node in self.pairs or self.nodes
            ]
            yield [stack.enter_context(connection.session()) for connection in connections]

    @contextmanager
    def consumers(self, queue: str) -> Iterator[list[MessageConsumer]]:
        """Open a consumer of a queue at each node, as `BrokerCluster.consumers` does.

        Raises: as `BrokerCluster.consumers`.
        """
        with self.sessions() as sessions:
            found = [session.create_consumer(Queue(queue)) for session in sessions]
            self._thread.call(self._cluster._wait_for_consumers, queue)
            yield found

    def _twin(self, broker: ManagedBroker) -> BlockingBroker:
        twins = (*self.nodes, *(pair.backup for pair in self.pairs))
        # A hosted backup comes with its host.
        return next((twin for twin in twins if twin.name == broker.name), None) or BlockingBroker(self._thread, broker)


class BlockingFaultPlan:
    """`FaultPlan` for plain tests. Made by the fixture `fault_plan_blocking`.

    Faults run in a thread, so they may be methods of these brokers.
    """

    def __init__(self, thread: BenchThread, plan: FaultPlan) -> None:
        self.seed = plan.seed
        self.random: Random = plan.random
        self._thread = thread
        self._plan = plan

    @property
    def pending(self) -> int:
        return self._plan.pending

    def at(self, seconds: float, fault: Callable[..., object], *args: object) -> None:
        check_fault(seconds, fault)

        async def happen() -> None:
            await trio.to_thread.run_sync(partial(fault, *args))

        happen.__qualname__ = getattr(fault, "__qualname__", repr(fault))
        self._thread.call_now(self._plan.at, seconds, happen)

    def within(self, seconds: float, fault: Callable[..., object], *args: object) -> float:
        check_fault(seconds, fault)
        moment = self.random.uniform(0.0, seconds)
        self.at(moment, fault, *args)
        return moment


class BlockingClock:
    """`BrokerClock` for plain tests: real time, which cannot be advanced."""

    def __init__(self) -> None:
        self.is_virtual = False
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the test began."""
        return time.monotonic() - self._begun

    def advance(self, seconds: float) -> None:
        """Skip the test."""
        pytest.skip("broker_clock.advance() needs virtual time")
