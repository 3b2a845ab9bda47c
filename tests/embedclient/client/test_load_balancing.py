"""Connections of one locator, spread over the brokers of a cluster that join and leave. All in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
import trio.testing

from embedbroker import ClusterConnection, EmbeddedBroker
from embedclient import ClientSessionFactory, ConnectionFactory, Queue, ServerLocator
from embedclient.errors import ConnectionLostException

NAMES = "abcd"
VM = {name: f"vm://{name}" for name in NAMES}
JOINED_S = 3.0


def member(name: str) -> EmbeddedBroker:
    return EmbeddedBroker(
        name=name,
        connectors=VM,
        cluster_connections=ClusterConnection(connector=name, static_connectors=[n for n in NAMES if n != name]),
        cluster_password="secret",
    )


async def until_joined() -> None:
    """Wait, in virtual time, until each broker and each client has what the others announce."""
    with trio.move_on_after(JOINED_S):
        await trio.sleep_forever()


@asynccontextmanager
async def cluster(*names: str) -> AsyncIterator[dict[str, EmbeddedBroker]]:
    """Brokers that have found each other."""
    async with AsyncExitStack() as stack:
        brokers = {name: await stack.enter_async_context(member(name)) for name in names}
        await until_joined()
        yield brokers


def place_of(factory: ClientSessionFactory) -> str:
    assert factory.connector is not None
    return str(factory.connector.parameters["serverId"])


class Open:
    """Factories of one locator that stay open, and where each of them is."""

    def __init__(self, url: str, policy: Callable[[int], int] | None = None) -> None:
        self.locator = ServerLocator(url, load_balancing_policy=policy)
        self.stack = AsyncExitStack()

    async def more(self, count: int) -> list[str]:
        opened = [await self.stack.enter_async_context(self.locator.create_session_factory()) for _ in range(count)]
        return [place_of(factory) for factory in opened]

    async def __aenter__(self) -> Open:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stack.aclose()


def url_with(policy: str, *parameters: str) -> str:
    return "&".join([f"vm://a?connectionLoadBalancingPolicyClassName={policy}", *parameters])


async def test_round_robin_takes_the_nodes_in_turn_also_those_that_the_url_does_not_name(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster(*NAMES), Open(url_with("RoundRobin")) as opened:
        assert await opened.more(1) == ["a"]
        places = await opened.more(8)
    assert set(places) == {*NAMES} and places[:4] == places[4:]


async def test_the_other_policies_choose_as_their_names_have_it(autojump_clock: trio.testing.MockClock) -> None:
    async with cluster(*NAMES):
        for policy, distinct in (("Random", {2, 3, 4}), ("RandomSticky", {1}), ("FirstElement", {1})):
            async with Open(url_with(policy)) as opened:
                await opened.more(1)
                assert len({*await opened.more(20)}) in distinct
        counts: list[int] = []

        def last_of_all(count: int) -> int:
            counts.append(count)
            return count - 1

        async with Open("vm://a", last_of_all) as opened:
            await opened.more(1)
            assert len({*await opened.more(3)}) == 1
        assert counts == [1, 4, 4, 4]


@pytest.mark.parametrize("ha", ["false", "true"])
async def test_nodes_that_join_get_connections_and_nodes_that_leave_cost_no_attempt(
    ha: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with cluster("a", "b") as brokers, Open(url_with("RoundRobin", f"ha={ha}")) as opened:
        assert await opened.more(1) == ["a"]
        assert {*await opened.more(2)} == {"a", "b"}
        await opened.stack.enter_async_context(member("c"))
        await until_joined()
        assert {*await opened.more(3)} == {"a", "b", "c"}
        await brokers["b"].crash()
        await until_joined()
        begun = trio.current_time()
        # With the default of one attempt for each node, a dead one would be seen by its turn.
        assert Counter(await opened.more(6)) == {"a": 3, "c": 3}
        await brokers["b"].start()
        await until_joined()
        assert Counter(await opened.more(6)) == {"a": 2, "b": 2, "c": 2}
        assert trio.current_time() == begun + JOINED_S


@pytest.mark.parametrize("policy", ["Random", "RandomSticky", "FirstElement", "callable"])
async def test_the_other_policies_choose_among_the_nodes_that_are_there(
    policy: str, autojump_clock: trio.testing.MockClock
) -> None:
    counts: list[int] = []

    def last_of_all(count: int) -> int:
        counts.append(count)
        return count - 1

    is_callable = policy == "callable"
    locator = Open("vm://a", last_of_all) if is_callable else Open(url_with(policy))
    async with cluster("a", "b") as brokers, locator as opened:
        assert await opened.more(1) == ["a"]
        await opened.stack.enter_async_context(member("c"))
        await until_joined()
        with_all = await opened.more(40)
        await brokers["b"].crash()
        await until_joined()
        begun = trio.current_time()
        without_b = await opened.more(40)
        await brokers["b"].start()
        await until_joined()
        again = await opened.more(40)
        # No attempt was at a node that was gone.
        assert trio.current_time() == begun + JOINED_S
    spreads = policy == "Random"
    for places, there in ((with_all, {*"abc"}), (without_b, {*"ac"}), (again, {*"abc"})):
        assert set(places) == there if spreads else len({*places} & there) == len({*places}) == 1
    assert counts == ([1] + [3] * 40 + [2] * 40 + [3] * 40 if is_callable else [])


async def test_connections_of_one_factory_and_the_messages_of_their_sessions_are_spread(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster(*NAMES) as brokers, AsyncExitStack() as stack:
        factory = ConnectionFactory("vm://a")
        await stack.enter_async_context(factory.connect())
        for _ in range(8):
            connection = await stack.enter_async_context(factory.connect())
            session = await stack.enter_async_context(connection.session())
            await session.create_producer(Queue("orders")).send("one")
        held = {name: await broker.management.message_count("orders") for name, broker in brokers.items()}
    assert held == dict.fromkeys(NAMES, 2)


async def test_without_the_topology_connections_stay_with_the_brokers_of_the_url(
    autojump_clock: trio.testing.MockClock,
) -> None:
    url = "(vm://a,vm://b)?useTopologyForLoadBalancing=false"
    async with cluster(*NAMES), Open(url) as opened:
        assert Counter(await opened.more(6)) == {"a": 3, "b": 3}


async def test_brokers_of_a_list_that_form_no_cluster_take_turns(autojump_clock: trio.testing.MockClock) -> None:
    async with EmbeddedBroker(name="a"), EmbeddedBroker(name="b"), Open("(vm://a,vm://b)") as opened:
        assert Counter(await opened.more(6)) == {"a": 3, "b": 3}


async def test_without_ha_the_url_counts_again_when_no_connection_is_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster("a", "b") as brokers:
        locator = ServerLocator("vm://a")
        for _ in range(3):
            async with locator.create_session_factory() as first, locator.create_session_factory():
                assert place_of(first) == "a"
        await brokers["a"].crash()
        with pytest.raises(ConnectionLostException):
            async with locator.create_session_factory():
                pass


async def test_a_locator_with_ha_reaches_the_cluster_although_the_brokers_of_its_url_are_gone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster("a", "b", "c") as brokers:
        locator = ServerLocator("vm://a?ha=true")
        async with locator.create_session_factory():
            pass
        await brokers["a"].crash()
        async with locator.create_session_factory() as factory:
            assert place_of(factory) in "bc"


@pytest.mark.parametrize("way", ["open", "next"])
async def test_a_locator_whose_nodes_are_all_gone_goes_back_to_its_url(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The cluster that it knew is gone; another broker is at the place of the URL, under another id."""
    endless = "initialConnectAttempts=-1&failoverAttempts=-1&retryInterval=100"
    locator = ServerLocator(f"(vm://a,vm://d)?ha=true&{endless}", load_balancing_policy=lambda count: 0)
    async with cluster("a", "b") as brokers, AsyncExitStack() as stack:
        async with AsyncExitStack() as first:
            factory = await (first if way == "next" else stack).enter_async_context(locator.create_session_factory())
            assert place_of(factory) == "a"
        for broker in brokers.values():
            await broker.crash()
        await stack.enter_async_context(EmbeddedBroker(name="d"))
        stack.enter_context(trio.fail_after(60))
        if way == "next":
            factory = await stack.enter_async_context(locator.create_session_factory())
        session = await stack.enter_async_context(factory.create_session())
        await session.create_queue("q")
        assert place_of(factory) == "d"
