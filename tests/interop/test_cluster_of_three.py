"""A cluster of two real Artemis nodes and one of ours, all known to each other by static connectors.

Node a of Artemis forwards with STRICT, node b with ON_DEMAND.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest
import trio

from embedbroker import ClusterConnection, GroupingHandlerType, Role, ThreadedBroker
from embedbroker.config import MessageLoadBalancing, SharedStoreBackup, SharedStorePrimary
from embedclient import ConnectionFactory, Message, Queue, Topic
from tests.interop.artemis import command_line, free_port
from tests.interop.brokers import artemis_log
from tests.interop.programs import Program
from tests.interop.test_java_client_of_a_pair import client_of
from tests.interop.three_nodes import (
    NOTES,
    SECONDS_MAX,
    Three,
    artemis_node,
    consumers,
    each_group_on_one_node,
    formed,
    large_messages_go,
    our_node,
    received,
    running,
    send,
    sessions,
    texts_of,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
TYPES = {"a": "STRICT", "b": "ON_DEMAND"}


def ours(
    directory: Path, ports: Mapping[str, int], name: str = "ours", how: str = "STRICT", **settings: Any
) -> ThreadedBroker:
    others = {other: f"tcp://127.0.0.1:{port}" for other, port in ports.items() if other != name}
    connection = ClusterConnection(
        static_connectors=tuple(others), message_load_balancing=MessageLoadBalancing(how), retry_interval_ms=100
    )
    settings = {"ha_policy": SharedStorePrimary(), **settings}
    groups = GroupingHandlerType.REMOTE
    return our_node(
        directory, ports[name], groups=groups, connectors=others, cluster_connections=connection, **settings
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("three")


@pytest.fixture(scope="module")
def three(directory: Path) -> Iterator[Three]:
    ports = {name: free_port() for name in ("a", "b", "ours")}
    nodes = {}
    for name, how in TYPES.items():
        others = ",".join(f"tcp://127.0.0.1:{port}" for other, port in ports.items() if other != name)
        words = f"--static-cluster {others} --message-load-balancing {how}"
        # Node b decides on groups.
        groups = "LOCAL" if name == "b" else "REMOTE"
        nodes[name] = artemis_node(directory, name, ports[name], words, groups=groups, changes={})
    with running(Three(nodes, ours(directory, ports), ports)) as nodes_of_both:
        yield nodes_of_both
    for name, node in nodes.items():
        log = artemis_log(node.directory)
        assert "AMQ221007" in log and "AMQ224037" not in log and "Failed to decode" not in log, name


# -- messages ----------------------------------------------------------------------------------------------------------


async def test_each_node_sends_its_messages_where_they_belong(three: Three) -> None:
    """STRICT shares them out evenly to queues with or without consumers, ON_DEMAND to nodes with consumers."""
    async with sessions(three.urls) as nodes:
        await formed(nodes)
        for name in ("a", "ours"):
            await send(nodes[name], "orders", [f"{name} {number}" for number in range(30)])
        async with consumers(nodes, "orders", nodes) as found:
            for consumer in found.values():
                texts = await texts_of(consumer, 20)
                assert Counter(text.split()[0] for text in texts) == {"a": 10, "ours": 10}
                for source in ("a", "ours"):
                    numbers = [int(text.split()[1]) for text in texts if text.startswith(f"{source} ")]
                    assert numbers == sorted(numbers)
        async with consumers(nodes, "orders", ["a", "ours"]) as found:
            await send(nodes["b"], "orders", [f"b {number}" for number in range(20)])
            for consumer in found.values():
                assert len(await texts_of(consumer, 10)) == 10
                assert await consumer.receive(timeout=0.1) is None


async def test_messages_without_consumers_go_to_any_node_that_has_one(three: Three, directory: Path) -> None:
    """Between nodes with ON_DEMAND both ways, large ones too, and to the one with STRICT, which gives nothing away."""
    async with sessions(three.urls) as nodes:
        # An Artemis whose first bridge to ours is broken off while it opens tries no more (AMQ222100).
        await formed(nodes)
    await trio.to_thread.run_sync(three.replace_ours, ours(directory, three.ports, how="ON_DEMAND"))
    async with sessions(three.urls) as nodes:
        await formed(nodes)
        async with consumers(nodes, "orders", TYPES) as consumed:
            await send(nodes["ours"], "orders", [str(number) for number in range(20)])
            got = await received(consumed, 20)
            assert all(len(texts) == 10 for texts in got.values()), got
        for target in nodes:
            texts = [f"{name} {number}" for name in ("b", "ours") for number in range(30)]
            for name in ("b", "ours"):
                await send(nodes[name], "moved", [text for text in texts if text.startswith(f"{name} ")])
            async with consumers(nodes, "moved", [target]) as found:
                got = await received(found, len(texts))
                for name in ("b", "ours"):
                    numbers = [int(text.split()[1]) for text in got[target] if text.startswith(f"{name} ")]
                    assert numbers == list(range(30))
        await large_messages_go(nodes, "b", "ours")
        await large_messages_go(nodes, "ours", "b")
    await trio.to_thread.run_sync(three.replace_ours, ours(directory, three.ports))


async def test_each_group_is_on_one_node_if_artemis_decides(three: Three) -> None:
    await each_group_on_one_node(three)


# -- what nodes learn of each other ------------------------------------------------------------------------------------


def shape(message: Message) -> dict[str, object]:
    """The values of a notification that do not vary, and of the others their types."""
    varying = ("_AMQ_NotifTimestamp", "_AMQ_ClusterName", "_AMQ_Binding_ID")
    properties = {name: message.properties[name] for name in message.properties if name.startswith("_AMQ")}
    return {name: type(value).__name__ if name in varying else value for name, value in properties.items()}


@pytest.mark.parametrize("source", ["a", "ours"])
async def test_nodes_of_both_kinds_pass_on_the_same_notifications(three: Three, source: str) -> None:
    """What a node of one kind announces, one of Artemis and one of ours announce to their own clients alike."""
    witnesses = [name for name in three.urls if name != source]
    queue = f"of-{source}"
    async with sessions(three.urls) as nodes, AsyncExitStack() as stack:
        await formed(nodes)
        selector = f"_AMQ_Distance > 0 AND _AMQ_RoutingName = '{queue}'"
        heard = {
            name: await stack.enter_async_context(nodes[name].create_consumer(NOTES, selector)) for name in witnesses
        }
        async with nodes[source].create_consumer(Queue(queue), "size > 3") as consumer:
            assert await consumer.receive(timeout=0.01) is None
        kinds = ("BINDING_ADDED", "CONSUMER_CREATED", "CONSUMER_CLOSED")
        shapes: dict[str, list[dict[str, object]]] = {}
        for name, notes in heard.items():
            shapes[name] = []
            while len(shapes[name]) < len(kinds):
                message = await notes.receive(timeout=SECONDS_MAX)
                assert message is not None, shapes
                shapes[name].append(shape(message))
    first, second = (shapes[name] for name in witnesses)
    assert [each["_AMQ_NotifType"] for each in first] == list(kinds)
    assert first == second


def lines_of(*words: str) -> list[str]:
    """What a command has printed, without times and the place that it was sent to; nodes are in any order."""
    lines = command_line(*words, "--user", "admin", "--password", "admin", "--silent")
    times = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|in the cluster is \d+ milli|elapsed: [0-9.]+ sec|URL = \S+"
    return sorted(re.sub(times, "-", line) for line in lines)


def test_the_checks_of_artemis_find_the_same_at_nodes_of_both_kinds(three: Three) -> None:
    nodes = ["check", "node", "--up", "--primary", "--peers", "3"]
    for command in (["check", "cluster", "--variance", "10000"], nodes):
        theirs, ours = (lines_of(*command, "--url", three.urls[name]) for name in ("a", "ours"))
        assert theirs == ours


# -- ends ------------------------------------------------------------------------------------------------------------


def until_it_knows(client: Program, *ports: str) -> None:
    """Read until the client received members with these ports: `LIVE BACKUP`, or `LIVE -`."""
    missing = set(ports)
    while missing:
        found = client.wait_for(r"^up \S+ (\d+ \S+)$", seconds_max=SECONDS_MAX)
        missing.discard(found.group(1))


@pytest.mark.parametrize(("dead", "source"), [("a", "ours"), ("ours", "a")])
async def test_a_node_of_either_kind_is_killed_and_comes_back(three: Three, dead: str, source: str) -> None:
    """Clients of the others learn of it, and what was sent meanwhile arrives once."""
    texts = [str(number) for number in range(30)]
    node = three.artemis.get(dead, three.ours)
    others = [name for name in three.urls if name != dead]
    with ExitStack() as stack:
        clients = [stack.enter_context(client_of(f"{three.urls[name]}?ha=true")) for name in others]
        for client in clients:
            until_it_knows(client, *(f"{port} -" for port in three.ports.values()))
        await trio.to_thread.run_sync(node.crash if isinstance(node, ThreadedBroker) else node.kill)
        for client in clients:
            client.wait_for("^down ", seconds_max=SECONDS_MAX)
        async with sessions({source: three.urls[source]}) as nodes:
            await send(nodes[source], "orders", texts)
        await trio.to_thread.run_sync(node.start)
        for client in clients:
            until_it_knows(client, f"{three.ports[dead]} -")
    async with sessions(three.urls) as nodes:
        await formed(nodes)
        async with consumers(nodes, "orders", nodes) as found:
            got = await received(found, len(texts))
    assert sorted((text for at in got.values() for text in at), key=int) == texts


async def test_artemis_and_clients_of_both_kinds_follow_ours_to_its_backup(three: Three, directory: Path) -> None:
    ports = three.ports
    primary, backup_port = ports["ours"], free_port()
    backup = ours(directory, {**ports, "backup": backup_port}, "backup", ha_policy=SharedStoreBackup())
    url = f"{three.urls['ours']}?ha=true&reconnectAttempts=-1&retryInterval=100"
    with client_of(f"{three.urls['a']}?ha=true") as of_artemis, backup:
        until_it_knows(of_artemis, f"{primary} {backup_port}")
        with client_of(url, "moved.java") as java:
            until_it_knows(java, f"{primary} {backup_port}")
            java.wait_for("^connected", seconds_max=SECONDS_MAX)
            async with (
                ConnectionFactory(url).connect() as connection,
                connection.session() as session,
                session.create_consumer(Queue("moved")) as consumer,
            ):
                await trio.to_thread.run_sync(three.ours.crash)
                async with sessions({name: three.urls[name] for name in three.artemis}) as nodes:
                    await send(nodes["b"], "moved.java", ["for java"])
                    await send(nodes["b"], "moved", ["for python"])
                    java.wait_for("^got for java", seconds_max=SECONDS_MAX)
                    assert await texts_of(consumer, 1) == ["for python"]
        await sent_while_it_fails_back(three, url.replace(three.urls["ours"], f"tcp://127.0.0.1:{backup_port}"))


async def sent_while_it_fails_back(three: Three, url: str) -> None:
    """Artemis keeps a subscription of a pair that fails back: what is sent to the topic there meanwhile waits."""
    topic, count = Topic("prices"), 0
    async with (
        ConnectionFactory(url, client_id="reader").connect() as connection,
        connection.session() as session,
        session.create_durable_consumer(topic, "prices") as consumer,
        sessions({"b": three.urls["b"]}) as nodes,
    ):
        producer = nodes["b"].create_producer(topic)
        with trio.fail_after(SECONDS_MAX):
            await producer.send("known?")
            while await consumer.receive(timeout=0.2) is None:
                await producer.send("known?")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, three.ours.start)
            with trio.fail_after(SECONDS_MAX):
                while three.ours.role is not Role.LIVE:
                    await producer.send(str(count))
                    count += 1
        await producer.send("end")
        texts: list[str] = []
        while not texts or texts[-1] != "end":
            texts += await texts_of(consumer, 1)
    # What the broker before had delivered comes again.
    assert count and [text for text in dict.fromkeys(texts) if text != "known?"] == [*map(str, range(count)), "end"]
