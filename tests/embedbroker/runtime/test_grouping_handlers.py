"""Message groups over brokers of a cluster, with clients, in virtual time: each group is on one broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
import trio.testing

from embedbroker import (
    AddressConfiguration,
    ClusterConnection,
    EmbeddedBroker,
    GroupingHandlerConfig,
    GroupingHandlerType,
    MemoryLocks,
    MessageLoadBalancing,
    QueueConfiguration,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.testing import SimulatedDisk
from embedclient import ConnectionFactory, Queue, TextMessage

NAMES = "abc"
ORDERS = Queue("orders")
DECIDES = GroupingHandlerConfig("groups", GroupingHandlerType.LOCAL)


def member(name: str, others: Sequence[str], *, max_hops: int = 1, only: bool = True, **changes: Any) -> EmbeddedBroker:
    """A broker that connects to some others, or to `only` these. Broker A decides, unless another handler is given."""
    values = {
        "cluster_connections": ClusterConnection(
            connector=name,
            static_connectors=others,
            allow_direct_connections_only=only,
            max_hops=max_hops,
            message_load_balancing=MessageLoadBalancing.STRICT,
        ),
        "grouping_handler": DECIDES if name == "a" else GroupingHandlerConfig("groups", GroupingHandlerType.REMOTE),
    }
    return EmbeddedBroker(
        name=name,
        connectors={each: f"vm://{each}" for each in NAMES},
        cluster_password="secret",
        addresses={"orders": AddressConfiguration(anycast={"orders": QueueConfiguration()})},
        **{**values, **changes},
    )


async def until_quiet(seconds: float = 3.0) -> None:
    """Let virtual time pass in which brokers exchange what they have."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


async def send(name: str, groups: Sequence[str], text: str) -> None:
    async with ConnectionFactory(f"vm://{name}").create_context() as context:
        producer = context.create_producer()
        for group in groups:
            await producer.send(ORDERS, TextMessage(f"{group} {text}", properties={"JMSXGroupID": group}))


async def received(name: str) -> list[str]:
    found: list[str] = []
    async with (
        ConnectionFactory(f"vm://{name}").create_context() as context,
        context.create_consumer(ORDERS) as consumer,
    ):
        while (message := await consumer.receive(timeout=1)) is not None:
            found.append(str(message.body))
    return found


async def places_of(names: str = NAMES) -> dict[str, set[str]]:
    """The brokers on which the messages of each group have arrived; the messages are taken."""
    places: dict[str, set[str]] = defaultdict(set)
    for name in names:
        for text in await received(name):
            places[text.split()[0]].add(name)
    return places


@pytest.mark.parametrize("chain", [False, True])
async def test_each_group_has_one_queue_whichever_broker_gets_its_messages(
    chain: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """In the chain, the broker that decides is two hops away from the last one."""
    groups = [f"g{number}" for number in range(9)]
    async with AsyncExitStack() as stack:
        for name in NAMES:
            others = [each for each in NAMES if each != name and not (chain and {each, name} == {"a", "c"})]
            await stack.enter_async_context(member(name, others, max_hops=2 if chain else 1))
        await until_quiet(10)
        for turn in range(3):
            for name in NAMES:
                await send(name, groups, f"{turn} of {name}")
        await until_quiet(5)
        places = await places_of()
    assert sorted(places) == groups
    assert all(len(where) == 1 for where in places.values()), dict(places)
    # Groups are spread, not put on one broker.
    assert len(set.union(*places.values())) == 3


@pytest.mark.parametrize("by_backup", [False, True])
async def test_decisions_outlive_the_broker_that_takes_them(
    by_backup: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """It is started again, or its backup takes over."""
    groups = [f"g{number}" for number in range(4)]
    shared: dict[str, Any] = {"disk": SimulatedDisk(), "locks": MemoryLocks()}
    back = "c" if by_backup else "a"
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(member("a", ["b"], ha_policy=SharedStorePrimary(), **shared))
        await stack.enter_async_context(member("b", ["a"], only=False))
        if by_backup:
            policy = SharedStoreBackup()
            backup = member("c", ["a", "b"], only=False, ha_policy=policy, grouping_handler=DECIDES, **shared)
            await stack.enter_async_context(backup)
        await until_quiet(10)
        await send("b", groups, "before")
        await until_quiet()
        before = await places_of("ab")
        assert len(set.union(*before.values())) == 2
        await a.crash()
        if not by_backup:
            # Sent while no broker decides: the decisions are known.
            await send("b", groups, "without")
            await a.start()
        await until_quiet(10)
        await send(back, groups, "after")
        await until_quiet()
        after = await places_of(f"b{back}")
    assert after == {group: {back if name == "a" else name for name in where} for group, where in before.items()}
