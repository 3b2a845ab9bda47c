"""The fixtures for plain tests: the same brokers, in a thread with its own trio run, with methods that block.

Responsible for the same names as those of the fixtures for async tests. Refuses to add behaviour.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from typing import Any, Self

import pytest

from embedbroker import QueueInfo, Role
from embedclient import Message, Queue
from embedclient.blocking import ConnectionFactory, MessageConsumer, Session
from embedclient.model import summary

from ._bindings import BindingState
from ._broker import ManagedBroker
from ._cluster import BrokerCluster
from ._disk import DiskSwitch
from ._faults import FaultPlan, check_fault
from ._link import Direction, Link
from ._operation_faults import Operation
from ._pair import BrokerPair
from ._thread import BenchThread

__all__ = ["BlockingBroker", "BlockingClock", "BlockingCluster", "BlockingFaultPlan", "BlockingPair"]


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

    def disturb_datagrams(self, *, loss: float = 0.0, duplication: float = 0.0) -> None:
        self._thread.call_now(self._link.disturb_datagrams, loss=loss, duplication=duplication)

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

    def __repr__(self) -> str:
        return summary(self, self.name, self.role.value)

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

    def queues(self) -> list[QueueInfo]:
        return self._thread.call_now(self._broker.queues)

    def queue(self, name: str) -> QueueInfo:
        return self._thread.call_now(self._broker.queue, name)

    def create_queue(self, name: str, **settings: Any) -> None:
        self._thread.call(self._broker.create_queue, name, **settings)

    def delete_queue(self, name: str, *, closes_consumers: bool = False) -> None:
        self._thread.call(self._broker.delete_queue, name, closes_consumers=closes_consumers)

    def purge(self, name: str) -> int:
        return self._thread.call(self._broker.purge, name)

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

    def fail_next(
        self, operation: Operation, destination: str | None = None, *, n: int = 1, code: int | None = None
    ) -> None:
        self._thread.call_now(self._broker.fail_next, operation, destination, n=n, code=code)

    def refuse(self, operation: Operation, destination: str | None = None, *, code: int | None = None) -> None:
        self._thread.call_now(self._broker.refuse, operation, destination, code=code)

    def delay(self, operation: Operation, destination: str | None = None, *, seconds: float, n: int = 1) -> None:
        self._thread.call_now(self._broker.delay, operation, destination, seconds=seconds, n=n)

    def drop_reply(self, operation: Operation, destination: str | None = None, *, n: int = 1) -> None:
        self._thread.call_now(self._broker.drop_reply, operation, destination, n=n)

    def heal(self) -> None:
        self._thread.call_now(self._broker.heal)

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

    def __repr__(self) -> str:
        return summary(self, self.kind, self.primary, self.backup)

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

    def __repr__(self) -> str:
        return summary(self, *self.nodes)

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
    def consumers(self, queue: str, sessions: Sequence[Session] | None = None) -> Iterator[list[MessageConsumer]]:
        """Open a consumer of a queue at each node, as `BrokerCluster.consumers` does.

        Raises: as `BrokerCluster.consumers`.
        """
        with ExitStack() as stack:
            if sessions is None:
                # The end of its session is that of a consumer.
                found = [each.create_consumer(Queue(queue)) for each in stack.enter_context(self.sessions())]
            else:
                found = [stack.enter_context(each.create_consumer(Queue(queue))) for each in sessions]
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

    def __repr__(self) -> str:
        return summary(self, f"seed={self.seed}", f"pending={self.pending}")

    @property
    def pending(self) -> int:
        return self._plan.pending

    def at(self, seconds: float, fault: Callable[..., object], *args: object) -> None:
        check_fault(seconds, fault)

        name = getattr(fault, "__qualname__", repr(fault))

        async def happen() -> None:
            await self._thread.run_fault(name, partial(fault, *args))

        happen.__qualname__ = name
        self._thread.call_now(self._plan.at, seconds, happen)

    def within(self, seconds: float, fault: Callable[..., object], *args: object) -> float:
        check_fault(seconds, fault)
        moment = self.random.uniform(0.0, seconds)
        self.at(moment, fault, *args)
        return moment


class BlockingClock:
    """`BrokerClock` for plain tests: real time, which cannot be advanced.

    Made by the fixture `broker_clock_blocking`.
    """

    def __init__(self, begun_at: float) -> None:
        self.is_virtual = False
        self._begun = begun_at

    def __repr__(self) -> str:
        return summary(self, "real time")

    @property
    def seconds(self) -> float:
        """Seconds since the test began."""
        return time.monotonic() - self._begun

    def advance(self, seconds: float) -> None:
        """Skip the test."""
        pytest.skip("broker_clock.advance() needs virtual time")
