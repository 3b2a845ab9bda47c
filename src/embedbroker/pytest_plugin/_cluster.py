"""Brokers that share their load, as one object that a test starts, splits and inspects.

Responsible for what the brokers of a cluster have in common: waits and assertions over all of them, and the network
between them. Does not depend on how a broker is configured, and on how messages move from one to another.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import combinations
from typing import Self, cast

from embedbroker import Role
from embedclient import ConnectionFactory, MessageConsumer, Queue, Session
from embedclient.errors import IllegalStateException
from embedclient.model import summary

from ._arguments import check_groups, check_node, check_queue
from ._bindings import BindingState, bindings_in
from ._broker import ManagedBroker, sums_of, wanted_of
from ._carrier import carried, carried_now
from ._following import Following
from ._link import Link
from ._pair import FAILOVER_OPTIONS, BrokerPair
from ._surroundings import Around

__all__ = ["BrokerCluster"]


class _Missing:
    """Remember which brokers were not connected at the last look: they are looked at first.

    A wait looks after each step of a broker, and a cluster forms in hundreds of them.
    """

    def __init__(self) -> None:
        self._pairs: list[tuple[Following, Following]] = []

    def add(self, near: ManagedBroker, far: ManagedBroker) -> None:
        """Add two brokers if the first has no connection with the other."""
        pair = (near._following, far._following)
        if _is_missing(*pair):
            self._pairs.append(pair)

    @property
    def some(self) -> bool:
        """Return True if the first of some pair that both serve has no connection with the other yet."""
        while self._pairs:
            if _is_missing(*self._pairs[-1]):
                return True
            self._pairs.pop()
        return False


def _is_missing(near: Following, far: Following) -> bool:
    if near.role is not Role.LIVE or far.role is not Role.LIVE:
        return False
    node_id = far.node_id
    return not (near.has_bridge_to(node_id) and near.sees(node_id))


class BrokerCluster:
    """Brokers of one cluster: ``nodes``, and with ``pairs`` a backup for each.

    A node is named by its index. ``nodes`` of a cluster of pairs are the primaries.

    Made by the fixture `broker_cluster`.
    """

    def __init__(
        self,
        nodes: Sequence[ManagedBroker | BrokerPair],
        targets: Sequence[Sequence[int]],
        around: Around,
        between: Callable[[str, str], Link],
    ) -> None:
        self.nodes = tuple(node.primary if isinstance(node, BrokerPair) else node for node in nodes)
        self.pairs = tuple(node for node in nodes if isinstance(node, BrokerPair))
        # Those that a test starts, by node.
        self._started = tuple(node.brokers if isinstance(node, BrokerPair) else (node,) for node in nodes)
        self._is_colocated = any(isinstance(node, ManagedBroker) and node.is_colocated for node in nodes)
        #: The nodes to which each connects, by index.
        self._targets = targets
        self._around = around
        self._carrier = around.carrier
        self._between = between
        for broker in self.brokers:
            broker._company = self.brokers

    def __repr__(self) -> str:
        return summary(self, *(self.pairs or self.nodes))

    @property
    def _members(self) -> tuple[tuple[ManagedBroker, ...], ...]:
        """Return the brokers of each node: both of a pair, and the backup of a colocated one, which another hosts."""
        if not self._is_colocated:
            return self._started
        return tuple(
            (*brokers, *(one.hosted_backup for one in brokers if one.hosted_backup is not None))
            for brokers in self._started
        )

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> tuple[ManagedBroker, ...]:
        """All brokers, backups included, in the order of the nodes."""
        return tuple(broker for members in self._members for broker in members)

    @property
    def url(self) -> str:
        """The URL that names all brokers; of pairs with the options of a client that fails over."""
        urls = ",".join(broker.url for broker in self.brokers)
        return f"({urls})?{FAILOVER_OPTIONS}" if self.pairs or self._is_colocated else f"({urls})"

    @carried_now
    def link(self, one: int, other: int) -> Link:
        """Return the link between two nodes; of pairs that between the primaries.

        Args:
            one: index of a node.
            other: index of another node.

        Raises:
            TypeError: an index is no int.
            ValueError: there is no such node, or both are the same.
        """
        for index in (one, other):
            check_node(index, len(self.nodes))
        if one == other:
            raise ValueError(f"there is no link between node {one} and itself")
        return self._between(self.nodes[one].name, self.nodes[other].name)

    def live(self, node: int) -> ManagedBroker | None:
        """Return the broker that serves for a node at this moment; None if no broker does.

        Args:
            node: index of the node.

        Raises:
            TypeError: the index is no int.
            ValueError: there is no such node.
        """
        check_node(node, len(self.nodes))
        return next((broker for broker in self._members[node] if broker.is_live), None)

    @carried_now
    def bindings(self, queue: str) -> list[list[BindingState]]:
        """Return the bindings of a queue on each node at this moment: its local one first, then remote ones.

        A node that is not live has an empty list.

        Args:
            queue: the queue's name.

        Raises:
            TypeError: the name is no str.
        """
        check_queue(queue)
        names = {broker._following.node_id: broker.name for broker in self.brokers if broker._following.node_id}
        names |= {broker._following.node_id: broker.name for broker in self.brokers if broker.is_live}
        found = []
        for index in range(len(self.nodes)):
            broker = self.live(index)
            kernel = broker._following.live_kernel() if broker is not None else None
            known = bindings_in(kernel, queue, broker.name, names) if broker is not None and kernel is not None else []
            found.append(known)
        return found

    def _sums(self, queue: str) -> tuple[int, int]:
        """Return the numbers of messages and consumers of a queue on all nodes that are live."""
        kernels = (broker._following.live_kernel() for broker in self.brokers)
        return sums_of((kernel for kernel in kernels if kernel is not None), queue)

    def _states(self) -> str:
        return ", ".join(broker._following.describe() for broker in self.brokers)

    # -- life ----------------------------------------------------------------------------------------------------

    @carried
    async def start(self) -> Self:
        """Start the brokers that do not run, one after the other, and return the cluster when it has formed.

        Raises:
            WaitTimeout: a broker did not start, or the cluster did not form, within 10 seconds each.
        """
        for brokers in self._started:
            for broker in brokers:
                if not broker.is_running:
                    await broker.start()
        await self.wait_formed()
        if self._is_colocated:
            await self.wait_backed_up()
        return self

    # -- the network between its nodes ---------------------------------------------------------------------------

    @carried_now
    def partition(self, *groups: Sequence[int]) -> None:
        """Hold back everything between nodes of different groups, without an error at either end, until `heal`.

        Brokers notice after their ``connection_ttl_ms``. Clients still reach every broker. A node that is in no group
        keeps all its links.

        Args:
            groups: indexes of nodes; two groups or more.

        Raises:
            TypeError: a group is no list of ints.
            ValueError: there are fewer than two groups, or no such node, or a node is in two of them.
        """
        check_groups(groups, len(self.nodes), at_least=2)
        for one, other in combinations(groups, 2):
            for link in self._links(one, other):
                link.partition()

    @carried_now
    def heal(self) -> None:
        """End every fault of the links between nodes."""
        for one, other in combinations(range(len(self.nodes)), 2):
            for link in self._links([one], [other]):
                link.heal()

    def _links(self, one: Sequence[int], other: Sequence[int]) -> Iterator[Link]:
        for first in one:
            for second in other:
                for near in self._members[first]:
                    for far in self._members[second]:
                        yield self._between(near.name, far.name)

    # -- waits and assertions ------------------------------------------------------------------------------------

    @carried
    async def wait_formed(self, *groups: Sequence[int], timeout: float | None = None) -> None:
        """Wait until each node that runs has exactly the others that run for members, and is connected with them.

        Of pairs, each that runs as a whole must also be in sync, with its backup announced. In a topology with direct
        connections only, a node has the members that brokers in its direction send it.

        Args:
            groups: indexes of nodes that form a cluster without the others, as in a partition; none for all nodes.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises:
            WaitTimeout: they had not within ``timeout`` seconds; the text has what each node sees.
            IllegalStateException: no broker runs.
            TypeError: a group is no list of ints.
            ValueError: there is no such node, or a node is in two groups.
        """
        __tracebackhide__ = True
        check_groups(groups, len(self.nodes), at_least=0)
        formed = [list(group) for group in groups] or [list(range(len(self.nodes)))]
        wanted = "a cluster of " + " and one of ".join(f"nodes {', '.join(map(str, group))}" for group in formed)
        missing = _Missing()
        holds = lambda: not missing.some and all(self._is_formed(group, missing) for group in formed)  # noqa: E731
        await self._until(holds, timeout, wanted, self._describe_members)

    def _is_formed(self, group: Sequence[int], missing: _Missing) -> bool:
        members = self._members
        running = {index for index in group if any(broker.is_running for broker in members[index])}
        live = {index: broker for index in running if (broker := self.live(index)) is not None}
        if not live or len(live) < len(running) or not all(broker._following.node_id for broker in live.values()):
            return False
        # First what comes last while a cluster forms.
        for index in live:
            for target in self._targets[index]:
                if target in live:
                    missing.add(live[index], live[target])
        if missing.some:
            return False
        if any(not self._is_in_sync(index) for index in live if self._is_whole(index)):
            return False
        return all(self._is_member(index, live, group) for index in live)

    @carried
    async def wait_backed_up(self, *nodes: int, timeout: float | None = None) -> None:
        """Wait until nodes have a backup that waits and has all that was confirmed: each of them may be lost.

        Args:
            nodes: indexes of nodes; none for all.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises:
            WaitTimeout: they had not within ``timeout`` seconds.
            IllegalStateException: no broker runs.
            TypeError: an index is no int.
            ValueError: there is no such node.
        """
        __tracebackhide__ = True
        for node in nodes:
            check_node(node, len(self.nodes))
        wanted = nodes or tuple(range(len(self.nodes)))
        text = f"a backup of nodes {', '.join(map(str, wanted))}"
        await self._until(lambda: all(map(self._is_in_sync, wanted)), timeout, text, self._describe_members)

    def _is_in_sync(self, index: int) -> bool:
        members = self._members[index]
        return {Role.LIVE, Role.BACKUP} <= {broker.role for broker in members} and all(
            broker.broker.is_running and broker._is_in_sync for broker in members
        )

    def _is_whole(self, index: int) -> bool:
        """Return True if a node is a pair of which both brokers run."""
        members = self._members[index]
        return len(members) > 1 and all(broker.is_running for broker in members)

    def _is_member(self, index: int, live: Mapping[int, ManagedBroker], group: Sequence[int]) -> bool:
        """Return True if a node sees what it can see of a group.

        It receives what those send to which it connects: their own members, and brokers that connect to them.
        """
        seen = live[index]._following.members()
        reached, near, waiting = {index}, set[int](), [index]
        while waiting:
            here = waiting.pop()
            targets = set(self._targets[here])
            near |= targets | {other for other in group if here in self._targets[other]}
            further = [other for other in targets if other in live and other not in reached]
            reached.update(further)
            waiting += further
        expected = {
            live[other]._following.node_id: self._is_whole(other) for other in (reached | near) if other in live
        }
        gone = {self.nodes[other]._following.node_id for other in (near | set(range(len(self.nodes))) - set(group))} - {
            broker._following.node_id for broker in live.values()
        }
        # A backup that is lost with its host stays announced until there is another one.
        may_have_more = self._is_colocated
        return all(
            node_id in seen and (seen[node_id] == whole or (may_have_more and seen[node_id]))
            for node_id, whole in expected.items()
        ) and not gone & set(seen)

    @carried
    async def wait_for(
        self, *, queue: str, count: int | None = None, consumers: int | None = None, timeout: float | None = None
    ) -> None:
        """Wait until a queue has ``count`` messages and ``consumers`` consumers, summed over the nodes that are live.

        Messages on their way between two nodes count at neither.

        Args:
            queue: the queue's name.
            count: messages, those in delivery included, 0 or more; None for any number. Either this or ``consumers`` is
                needed.
            consumers: 0 or more; None for any number.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises:
            WaitTimeout: it had not within ``timeout`` seconds; the text has all queues and messages.
            IllegalStateException: no broker runs.
        """
        __tracebackhide__ = True
        wanted = wanted_of(queue, count, consumers)

        def holds() -> bool:
            messages, listeners = self._sums(queue)
            return count in (None, messages) and consumers in (None, listeners)

        await self._until(holds, timeout, f"over all nodes: {wanted}", self.dump)

    @carried
    async def wait_for_bindings(
        self,
        *,
        queue: str,
        count: int | None = None,
        consumers: int | None = None,
        nodes: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Wait until nodes that are live have ``count`` bindings of a queue, with ``consumers`` consumers together.

        From then on, messages are distributed among all of them, wherever they are sent.

        Args:
            queue: the queue's name.
            count: local and remote bindings together, 0 or more; None for any number. Either this or
                ``consumers`` is needed.
            consumers: 0 or more; None for any number.
            nodes: indexes of the nodes that must; None for all.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises:
            TypeError: an index is no int.
            ValueError: there is no such node.
            WaitTimeout: a node did not within ``timeout`` seconds; the text has the bindings of each node.
            IllegalStateException: no broker runs.
        """
        __tracebackhide__ = True
        wanted = wanted_of(queue, count, consumers, what="nodes")
        whose = range(len(self.nodes)) if nodes is None else nodes
        check_groups((whose,), len(self.nodes), at_least=1)

        def holds() -> bool:
            bindings = self.bindings(queue)
            known = [
                (len(bindings[index]), sum(binding.consumers for binding in bindings[index]))
                for index in whose
                if self.live(index) is not None
            ]
            return bool(known) and all(
                count in (None, queues) and consumers in (None, listeners) for queues, listeners in known
            )

        async def found() -> str:
            lines = [self._states()]
            for node, bindings in zip(self.nodes, self.bindings(queue), strict=True):
                of_nodes = (f"{each.node} ({each.consumers} consumers, distance {each.distance})" for each in bindings)
                lines.append(f"{node.name} has bindings of queue {queue} at {', '.join(of_nodes) or 'no node'}")
            return "\n".join(lines)

        to = "each node" if nodes is None else f"nodes {', '.join(map(str, nodes))}"
        await self._until(holds, timeout, f"bindings of {to}: {wanted}", found)

    @carried
    async def assert_empty(self, queue: str, *, timeout: float | None = None) -> None:
        """Wait until a queue has no message on any node that is live, in delivery or waiting.

        Args:
            queue: the queue's name; a queue that does not exist is empty.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises: as `wait_for`.
        """
        __tracebackhide__ = True
        await self.wait_for(queue=queue, count=0, timeout=timeout)

    @carried_now
    def assert_nothing_lost(self) -> None:
        """Check each node as `ManagedBroker.assert_nothing_lost` does.

        Raises:
            AssertionError: messages are lost; the text names the node, their queues and numbers.
            IllegalStateException: a node is not live.
        """
        __tracebackhide__ = True
        for index, node in enumerate(self.nodes):
            (self.live(index) or node).assert_nothing_lost()

    @carried
    async def dump(self) -> str:
        """Return all nodes with their queues and messages, in words."""
        parts = []
        for broker in self.brokers:
            parts.append(broker._following.describe())
            if broker.is_live:
                parts.append(await broker.dump())
        return "\n".join(parts)

    async def _describe_members(self) -> str:
        names = {broker._following.node_id: broker.name for broker in self.brokers if broker.is_live}
        lines = [self._states()]
        for broker in self.brokers:
            if broker.is_live:
                seen = (
                    f"{names.get(node_id, node_id)}{' with a backup' if has_backup else ''}"
                    f"{'' if broker._following.sees(node_id) or names.get(node_id) == broker.name else ' from afar'}"
                    for node_id, has_backup in broker._following.members().items()
                )
                lines.append(f"{broker.name} sees {', '.join(seen) or 'no member'}")
        return "\n".join(lines)

    async def _until(
        self, holds: Callable[[], bool], timeout: float | None, wanted: str, found: Callable[[], Awaitable[str]]
    ) -> None:
        __tracebackhide__ = True

        def checked() -> bool:
            if holds():
                return True
            if not self._some_run():
                raise IllegalStateException(f"cannot wait for {wanted}: {self._states()}")
            return False

        await self._around.waiting.until(checked, timeout, wanted, found)

    def _some_run(self) -> bool:
        # No comprehension: it is evaluated after each step of a broker. A hosted backup runs only while its host does.
        for brokers in self._started:
            for broker in brokers:
                if broker.is_running:
                    return True
        return False

    # -- clients -------------------------------------------------------------------------------------------------

    def _factory(self, url: str) -> ConnectionFactory:
        """Return a factory for the event loop of the test."""
        if self._carrier is None:
            return ConnectionFactory(url)
        from embedclient import asyncio

        return cast(ConnectionFactory, asyncio.ConnectionFactory(url))

    @asynccontextmanager
    async def sessions(self) -> AsyncIterator[list[Session]]:
        """Open a session at each node, each on a separate connection, for the time of a block.

        Sessions of a pair fail over.

        Raises:
            JMSException: a node cannot be reached.
        """
        async with AsyncExitStack() as stack:
            found = []
            for node in self.pairs or self.nodes:
                connection = await stack.enter_async_context(self._factory(node.url).connect())
                found.append(await stack.enter_async_context(connection.session()))
            yield found

    @asynccontextmanager
    async def consumers(
        self, queue: str, sessions: Sequence[Session] | None = None
    ) -> AsyncIterator[list[MessageConsumer]]:
        """Open a consumer of a queue at each node, for a block that begins when each node has bindings of all.

        In a topology with direct connections only, the block begins at once: nodes have no bindings of all others.

        Args:
            queue: the queue's name.
            sessions: the sessions of the consumers, as `sessions` gives them; None for others, on connections of their
                own, for which a test takes longer.

        Raises:
            JMSException: a node cannot be reached.
            WaitTimeout: a node had no bindings of all consumers within 10 seconds.
            TypeError: the name is no str.
        """
        check_queue(queue)
        async with AsyncExitStack() as stack:
            if sessions is None:
                # The end of its session is that of a consumer.
                own = await stack.enter_async_context(self.sessions())
                found = [await each.create_consumer(Queue(queue)) for each in own]
            else:
                found = [await stack.enter_async_context(each.create_consumer(Queue(queue))) for each in sessions]
            await self._wait_for_consumers(queue)
            yield found

    @carried
    async def _wait_for_consumers(self, queue: str) -> None:
        if all(len(targets) == len(self.nodes) - 1 for targets in self._targets):
            await self.wait_for_bindings(queue=queue, consumers=self._sums(queue)[1])
