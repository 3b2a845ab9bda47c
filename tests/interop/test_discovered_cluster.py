"""A cluster of two real Artemis nodes and one of ours that find each other by datagrams, until nodes leave for good."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import trio

from embedbroker import (
    BroadcastGroup,
    ClusterConnection,
    DiscoveryGroup,
    GroupingHandlerType,
    PrimaryOnly,
    ThreadedBroker,
)
from embedbroker.config import MessageLoadBalancing, ScaleDown
from tests.interop.artemis import ArtemisBroker, free_port
from tests.interop.brokers import artemis_log
from tests.interop.test_java_client_of_a_pair import client_of
from tests.interop.three_nodes import (
    SECONDS_MAX,
    Three,
    artemis_node,
    consumers,
    each_group_on_one_node,
    formed,
    our_node,
    received,
    running,
    send,
    sessions,
    texts_of,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
ADDRESS, LOOPBACK = "231.7.7.7", "127.0.0.1"
TEXTS = [str(number) for number in range(30)]
# Node a leaves for ours when it stops.
LEAVES = (
    "</acceptors><ha-policy><live-only><scale-down><connectors><connector-ref>ours</connector-ref></connectors>"
    "</scale-down></live-only></ha-policy>"
)


def found_at(group_port: int, ours: int) -> Mapping[str, str]:
    """Changes of a broker.xml that announces itself, and looks for others, on the loopback."""
    address = f"<group-address>{ADDRESS}</group-address>"
    return {
        address: f"<local-bind-address>{LOOPBACK}</local-bind-address>{address}",
        "<group-port>9876</group-port>": f"<group-port>{group_port}</group-port>",
        "<broadcast-period>5000</broadcast-period>": "<broadcast-period>500</broadcast-period>",
        "</connectors>": f"<connector name='ours'>tcp://127.0.0.1:{ours}</connector></connectors>",
    }


def ours(directory: Path, port: int, place: tuple[str, int, str], how: MessageLoadBalancing) -> ThreadedBroker:
    """Ours, which is not started yet."""
    return our_node(
        directory,
        port,
        groups=GroupingHandlerType.LOCAL,
        broadcast_groups=[BroadcastGroup("b", *place, broadcast_period_ms=500)],
        discovery_groups=[DiscoveryGroup("d", *place)],
        cluster_connections=ClusterConnection(discovery_group="d", message_load_balancing=how, retry_interval_ms=100),
        ha_policy=PrimaryOnly(ScaleDown()),
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("discovered")


@pytest.fixture(scope="module")
def place() -> tuple[str, int, str]:
    return (ADDRESS, free_port(), LOOPBACK)


@pytest.fixture(scope="module")
def three(directory: Path, place: tuple[str, int, str]) -> Iterator[Three]:
    """Node a forwards with STRICT, node b and ours with ON_DEMAND."""
    ports = {name: free_port() for name in ("a", "b", "ours")}
    changes = found_at(place[1], ports["ours"])
    leaving = {**changes, "</acceptors>": LEAVES}
    nodes = {
        name: artemis_node(
            directory, name, ports[name], f"--message-load-balancing {how}", groups="REMOTE", changes=changed
        )
        for name, how, changed in (("a", "STRICT", leaving), ("b", "ON_DEMAND", changes))
    }
    started = ours(directory, ports["ours"], place, MessageLoadBalancing.ON_DEMAND)
    with running(Three(nodes, started, ports)) as nodes_of_both:
        yield nodes_of_both
    for name, node in nodes.items():
        log = artemis_log(node.directory)
        assert "AMQ221007" in log and "AMQ224037" not in log and "Failed to decode" not in log, name


def freeze(node: ArtemisBroker) -> None:
    """Return when the whole process stands still."""
    os.kill(node.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, node.pid, os.WSTOPPED)


async def arrive(three: Three, *names: str) -> dict[str, list[str]]:
    """Find each message once on what is left of the cluster."""
    async with sessions({name: three.urls[name] for name in names}) as nodes:
        await formed(nodes)
        async with consumers(nodes, "orders", nodes) as found:
            got = await received(found, len(TEXTS))
    assert sorted((text for at in got.values() for text in at), key=int) == TEXTS
    # What was for the node that was down is there.
    assert len(got["b"]) == 10, got
    return got


async def test_nodes_that_find_each_other_by_datagrams_share_messages(three: Three) -> None:
    async with sessions(three.urls) as nodes:
        await formed(nodes)
        async with consumers(nodes, "orders", nodes) as found:
            for name, session in nodes.items():
                await send(session, "orders", [name] * 30)
            for consumer in found.values():
                assert Counter(await texts_of(consumer, 30)) == dict.fromkeys(nodes, 10)


async def test_messages_go_to_consumers_of_nodes_that_were_found(three: Three) -> None:
    """At once, and after they waited where no consumer is: between ours and Artemis, both ways."""
    texts = [str(number) for number in range(20)]
    async with sessions(three.urls) as nodes:
        await formed(nodes)
        for source, target in (("ours", "b"), ("b", "ours")):
            await send(nodes[source], "moved", texts)
            async with consumers(nodes, "moved", [target]) as found:
                assert await texts_of(found[target], 20) == texts
                await send(nodes[source], "moved", texts)
                assert await texts_of(found[target], 20) == texts


async def test_nodes_of_either_kind_are_killed_and_found_again(three: Three) -> None:
    """What they had, or would have got, is there once."""
    b = three.artemis["b"]
    async with sessions(three.urls) as nodes:
        await formed(nodes)
    async with sessions({"a": three.urls["a"]}) as nodes:
        # Node b takes no message, which node a has not noticed yet.
        freeze(b)
        await send(nodes["a"], "orders", TEXTS)
    b.kill()
    await trio.to_thread.run_sync(three.ours.crash)
    await trio.to_thread.run_sync(three.ours.start)
    await trio.to_thread.run_sync(b.start)
    got = await arrive(three, "a", "b", "ours")
    assert [len(texts) for texts in got.values()] == [10, 10, 10], got


async def test_each_group_is_on_one_node_if_ours_decides(three: Three) -> None:
    await each_group_on_one_node(three)


async def leave(three: Three, source: str, missing: ArtemisBroker) -> None:
    """Let a node leave that has messages for itself, for its target and for a node that is down."""
    async with sessions({source: three.urls[source]}) as nodes:
        # It takes no message, and the others have not noticed yet.
        freeze(missing)
        await send(nodes[source], "orders", TEXTS)
    missing.kill()
    if source == "ours":
        moved = await trio.to_thread.run_sync(three.ours.scale_down, three.urls["a"])
        assert moved >= 20
    else:
        await trio.to_thread.run_sync(three.artemis[source].stop)
    await trio.to_thread.run_sync(missing.start)


async def test_ours_leaves_for_artemis_and_artemis_for_ours(
    three: Three, directory: Path, place: tuple[str, int, str]
) -> None:
    """A Java client follows from one to the other, and messages for a third node go on to that one."""
    options = "ha=true&reconnectAttempts=3&failoverAttempts=-1&retryInterval=100"
    b = three.artemis["b"]
    async with sessions(three.urls) as nodes:
        await formed(nodes)
    forwards_to_all = ours(directory, three.ports["ours"], place, MessageLoadBalancing.STRICT)
    await trio.to_thread.run_sync(three.replace_ours, forwards_to_all)
    async with sessions(three.urls) as nodes:
        await formed(nodes)
    with client_of(f"{three.urls['ours']}?{options}", "moved.java") as client:
        client.wait_for(rf"^up \S+ {three.ports['a']} -$", seconds_max=SECONDS_MAX)
        client.wait_for("^connected", seconds_max=SECONDS_MAX)
        await leave(three, "ours", b)
        async with sessions({"a": three.urls["a"]}) as at_a:
            await send(at_a["a"], "moved.java", ["at a"])
        client.wait_for("^got at a", seconds_max=SECONDS_MAX)
        await trio.to_thread.run_sync(three.ours.start)
        await arrive(three, "a", "b", "ours")
        await leave(three, "a", b)
        async with sessions({"ours": three.urls["ours"]}) as at_ours:
            await send(at_ours["ours"], "moved.java", ["at ours"])
        client.wait_for("^got at ours", seconds_max=SECONDS_MAX)
    await arrive(three, "b", "ours")
