"""Redistribution of many messages takes no step in which others would wait: work is counted, not timed."""

from __future__ import annotations

from collections import Counter

from embedbroker import AddressSettings
from embedbroker.node import Input, Output
from embedbroker.pytest_plugin import BrokerClock, ManagedBroker
from embedclient.model import Instant
from tests.scenarios.clients import ORDERS, numbered, put, session_at

from .test_member_bridges import MakeCluster, node_of, until, waiting

COUNT = 3_000
PER_STEP = 400
#: A bridge settles what was confirmed when that arrives, and when it works.
MOST = 1_100


class Steps:
    """The most messages that one step of a broker adds to, and takes from, each of its queues."""

    def __init__(self, broker: ManagedBroker) -> None:
        self.most: Counter[str] = Counter()
        node = node_of(broker)
        self._node = node
        self._step = node.step
        node.step = self.step  # type: ignore[method-assign]

    def step(self, input: Input, now: Instant) -> list[Output]:
        before = self._counts()
        outputs = self._step(input, now)
        for name, counts in self._counts().items():
            earlier = before.get(name, (0, 0))
            change = max(abs(one - other) for one, other in zip(counts, earlier, strict=True))
            self.most[name] = max(self.most[name], change)
        return outputs

    def _counts(self) -> dict[str, tuple[int, int]]:
        queues = self._node.kernel.address_manager.queues
        return {name: (queue.message_count, queue.delivering_count) for name, queue in queues.items()}


async def test_many_messages_are_redistributed_in_short_steps_also_when_the_link_breaks(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    settings = {"address_settings": {"#": AddressSettings(redistribution_delay_ms=0)}, "work_per_step_max": PER_STEP}
    cluster = await broker_cluster(2, brokers=settings, retry_interval_ms=100).start()
    near, far = cluster.nodes
    async with session_at(near.url, transacted=True) as session:
        await put(session, numbered(0, COUNT))
        await session.commit()
    found = [Steps(near), Steps(far)]
    async with session_at(far.url) as session, session.create_consumer(ORDERS):
        far.disk.slow_down(0.2)
        await broker_clock.advance(0.1)
        # All of them are under way, and none is confirmed.
        assert waiting(near) == COUNT
        cluster.link(0, 1).cut()
        await broker_clock.advance(0.05)
        far.disk.heal()
        await until(broker_clock, lambda: not waiting(near))
    for steps in found:
        assert steps.most.total() > 0
        assert max(steps.most.values()) <= MOST, steps.most
    await far.wait_for(queue="orders", count=COUNT)
