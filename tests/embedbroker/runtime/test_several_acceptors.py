"""Several acceptors of a broker: each has its own address, TLS, prefixes and limits, and management controls each."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from embedbroker import (
    AcceptorConfig,
    ClusterConnection,
    EmbeddedBroker,
    HAPolicy,
    MemoryLocks,
    Role,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.runtime._endpoint import open_endpoint
from embedbroker.testing import SimulatedDisk
from embedclient import ConnectionFactory, RoutingType, ServerLocator, TextMessage, TLSSettings, Topic
from embedclient.errors import ConnectionLostException, ResourceAllocationException
from embedclient.transport import connect_tcp, listen_tcp
from tests.tls.certificates import Files

STOPPED = "_AMQ_NotifType = 'ACCEPTOR_STOPPED'"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


async def send(url: str, queue: str, text: str, tls: TLSSettings | None = None) -> None:
    async with ConnectionFactory(url, tls=tls).connect() as connection, connection.session() as session:
        await session.create_producer(f"queue://{queue}").send(TextMessage(text))


async def is_reached(url: str) -> bool:
    try:
        async with ConnectionFactory(f"{url}?reconnectAttempts=0").connect():
            return True
    except ConnectionLostException:
        return False


async def test_each_acceptor_serves_with_its_own_tls_and_prefixes(tmp_path: Path) -> None:
    files = Files(tmp_path)
    acceptors = [
        AcceptorConfig("plain", anycast_prefixes=["q."]),
        AcceptorConfig("secure", tls=files.serving()),
        AcceptorConfig("third", anycast_prefixes=["x."]),
    ]
    async with EmbeddedBroker(acceptors=acceptors) as broker:
        urls = broker.urls
        assert list(urls) == ["plain", "secure", "third"] and broker.url == urls["plain"]
        assert urls["secure"].endswith("?sslEnabled=true") and len(set(urls.values())) == 3
        await send(urls["plain"], "q.orders", "1")
        await send(urls["secure"], "orders", "2", files.trusting())
        await send(urls["third"], "x.orders", "3")
        # A prefix of one acceptor is part of an address at the others.
        await send(urls["third"], "q.orders", "other")
        counts = {queue.name: queue.message_count for queue in await broker.management.queues()}
        assert (counts["orders"], counts["q.orders"]) == (3, 1)
        parameters = await broker.management.get("acceptor.third", "Parameters")
        assert parameters == {"scheme": "tcp", "host": "127.0.0.1", "port": "0", "anycastPrefix": "x."}


async def test_management_controls_each_acceptor(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "embedbroker.broker")
    acceptors = [AcceptorConfig("one"), AcceptorConfig("two", cluster_connection="b")]
    clusters = [ClusterConnection("a", addresses=["a"]), ClusterConnection("b", addresses=["b"])]
    async with EmbeddedBroker(acceptors=acceptors, cluster_connections=clusters) as broker:
        management, urls = broker.management, broker.urls
        assert await management.acceptor_names() == ["one", "two"]
        parameters = await management.get("acceptor.two", "Parameters")
        assert parameters["clusterConnection"] == "b" and urls["two"].endswith(f":{parameters['port']}")
        network = json.loads(await management.invoke("broker", "listNetworkTopology"))
        assert [f"tcp://{member['live']}" for member in network] == list(urls.values())
        # Both were announced, and stay reserved.
        await management.stop_acceptor("two")
        assert (await management.is_acceptor_started("one"), await management.is_acceptor_started("two")) == (
            True,
            False,
        )
        assert (await is_reached(urls["one"]), await is_reached(urls["two"])) == (True, False)
        await management.start_acceptor("two")
        assert await is_reached(urls["two"]) and broker.urls == urls
        # The other one has lost no connection meanwhile.
        async with (
            ConnectionFactory(f"{urls['one']}?reconnectAttempts=0").connect() as one,
            one.session() as session,
            session.create_consumer(Topic("activemq.notifications"), STOPPED) as notes,
        ):
            await management.stop_acceptor("two")
            note = await notes.receive(timeout=5)
            assert note is not None
            stopped = note.properties["host"], note.properties["port"]
            assert stopped == ("127.0.0.1", int(urls["two"].rpartition(":")[2]))
    lines = [record.getMessage() for record in caplog.records]
    for name, url in urls.items():
        place = url.removeprefix("tcp://")
        assert f"broker 'embedbroker': acceptor {name!r} listens on {place}" in lines


async def test_an_acceptor_that_cannot_listen_leaves_none_open() -> None:
    first, second = free_port(), free_port()
    (other,) = await listen_tcp("127.0.0.1", second)
    acceptors = [AcceptorConfig("one", port=first), AcceptorConfig("two", port=second), AcceptorConfig("three")]
    broker = EmbeddedBroker(acceptors=acceptors)
    with pytest.raises(ResourceAllocationException, match=f"acceptor 'two': cannot listen on 127.0.0.1:{second}: "):
        async with broker:
            pass
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", first))
    other.close()
    async with broker:
        assert await is_reached(broker.urls["one"]) and await is_reached(broker.urls["three"])
    # A reserved port is given up with the others.
    place = await open_endpoint(EmbeddedBroker(acceptors=acceptors, cluster_connections=ClusterConnection()).config)
    (other,) = await listen_tcp("127.0.0.1", second)
    with pytest.raises(ResourceAllocationException, match="acceptor 'two'"):
        await place.listen()
    other.close()
    for listener in [each for listeners in await place.listen() for each in listeners]:
        listener.close()


async def test_an_acceptor_may_wait_for_management() -> None:
    acceptors = [AcceptorConfig("later", auto_start=False), AcceptorConfig("now")]
    async with EmbeddedBroker(acceptors=acceptors, cluster_connections=ClusterConnection()) as broker:
        assert list(broker.urls) == ["now"] and broker.url == broker.urls["now"]
        assert broker.url == f"tcp://127.0.0.1:{broker.port}"
        assert not await broker.management.is_acceptor_started("later")
        # Its port was announced.
        port = (await broker.management.get("acceptor.later", "Parameters"))["port"]
        assert not await is_reached(f"tcp://127.0.0.1:{port}")
        await broker.management.start_acceptor("later")
        assert broker.urls["later"] == f"tcp://127.0.0.1:{port}" and await is_reached(broker.urls["later"])
        assert broker.url == broker.urls["later"] and broker.port == int(port)
        await broker.stop()
        await broker.start()
        assert list(broker.urls) == ["now"]


async def test_an_acceptor_has_limits_of_its_own() -> None:
    acceptors = [AcceptorConfig("small", connections_max=1, handshake_timeout_ms=1), AcceptorConfig("large")]
    async with EmbeddedBroker(acceptors=acceptors, connection_check_interval_ms=10) as broker:
        urls = broker.urls
        for _ in range(2):
            async with ConnectionFactory(urls["small"]).connect():
                assert not await is_reached(urls["small"])
                assert await is_reached(urls["large"])
            with trio.fail_after(5):
                # Its end may not have been noticed yet.
                while not await is_reached(urls["small"]):
                    await trio.lowlevel.checkpoint()
        silent = await connect_tcp("127.0.0.1", broker.port, timeout_s=5)
        with trio.fail_after(5):
            assert await silent.receive(1) == b""
        silent.close()


async def test_a_client_follows_a_pair_within_the_cluster_of_its_acceptor() -> None:
    ports = {name: (free_port(), free_port()) for name in ("primary", "backup")}
    disk, locks = SimulatedDisk(), MemoryLocks()

    def member(name: str, other: str, policy: HAPolicy) -> EmbeddedBroker:
        first, second = ports[name]
        return EmbeddedBroker(
            name=name,
            ha_policy=policy,
            disk=disk,
            locks=locks,
            acceptors=[
                AcceptorConfig("one", port=first),
                AcceptorConfig("two", port=second, cluster_connection="b"),
                AcceptorConfig("later", auto_start=False),
            ],
            connectors={str(port): f"tcp://127.0.0.1:{port}" for port in ports[other]},
            cluster_connections=[
                ClusterConnection(cluster, static_connectors=[str(port)], addresses=[cluster], retry_interval_ms=20)
                for cluster, port in zip("ab", ports[other], strict=True)
            ],
            cluster_password="secret",
        )

    async def until_backups(broker: EmbeddedBroker) -> None:
        with trio.fail_after(10):
            while True:
                network = json.loads(await broker.management.invoke("broker", "listNetworkTopology"))
                if [place["primary"] for place in network if "backup" in place] == [
                    f"127.0.0.1:{port}" for port in ports[broker.config.name]
                ]:
                    return

    async with (
        member("primary", "backup", SharedStorePrimary()) as primary,
        member("backup", "primary", SharedStoreBackup()) as backup,
    ):
        await until_backups(primary)
        url = f"{primary.urls['two']}?ha=true&reconnectAttempts=-1&retryInterval=20"
        async with ServerLocator(url).create_session_factory() as factory, factory.create_session() as session:
            await session.create_queue("q", "q", RoutingType.ANYCAST)
            await primary.crash()
            await backup.wait_for_role(Role.LIVE)
            assert (await session.query_queue("q")).exists
            assert factory.connector is not None
            assert factory.connector.port == ports["backup"][1]
            await backup.management.start_acceptor("later")
            assert list(backup.urls) == ["one", "two", "later"]
            await primary.start()
            await primary.wait_for_role(Role.LIVE)
            assert (await session.query_queue("q")).exists
            assert factory.connector.port == ports["primary"][1]
            # The next life of the backup listens where it did, but for what only management opens.
            await backup.wait_for_role(Role.BACKUP)
            await primary.crash()
            await backup.wait_for_role(Role.LIVE)
            assert list(backup.urls) == ["one", "two"] and backup.port == ports["backup"][0]


async def test_brokers_join_with_the_tls_of_the_acceptor_of_their_cluster(tmp_path: Path) -> None:
    files = Files(tmp_path)
    tls = files.serving(trust_store_path=files.trust)
    ports = free_port(), free_port()

    def member(own: int, other: int) -> EmbeddedBroker:
        return EmbeddedBroker(
            acceptors=[AcceptorConfig("clients"), AcceptorConfig("c", port=own, tls=tls, cluster_connection="c")],
            connectors={"other": f"tcp://127.0.0.1:{other}?sslEnabled=true"},
            cluster_connections=ClusterConnection("c", static_connectors=["other"], retry_interval_ms=20),
            cluster_password="secret",
        )

    async with member(*ports) as one, member(*reversed(ports)):
        # This acceptor names the cluster, which the first one belongs to as well: it is the announced one.
        places, found = {f"127.0.0.1:{port}" for port in ports}, None
        with trio.fail_after(10):
            while found != places:
                network = json.loads(await one.management.invoke("broker", "listNetworkTopology"))
                found = {member["live"] for member in network}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"acceptors": [AcceptorConfig("a", port=1), AcceptorConfig("a", port=2)]},
            "acceptors: there are two of the name 'a', at 127.0.0.1:1 and 127.0.0.1:2; give each its own",
        ),
        ({"acceptors": [AcceptorConfig("a", port=1), {"name": "b", "port": 1}]}, "'a' at 127.0.0.1:1 and 'b' at"),
        ({"acceptors": [AcceptorConfig("a")], "port": 5}, "acceptors beside port: each of the acceptors has its own"),
        (
            {
                "acceptors": [AcceptorConfig("a", cluster_connection="cc")],
                "cluster_connections": ClusterConnection("c"),
            },
            "'a' has cluster_connection 'cc', which does not exist; did you mean 'c'?",
        ),
        (
            {"acceptors": [{"name": "a", "host": "0.0.0.0"}], "cluster_connections": ClusterConnection("c")},
            "needs a connector: other brokers cannot connect to '0.0.0.0'",
        ),
        ({"acceptors": [{"name": "a", "prot": 1}]}, "acceptors[0].prot: AcceptorConfig has no such value"),
    ],
)
def test_acceptors_that_do_not_fit_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refusal:
        EmbeddedBroker(**settings)
    assert text in str(refusal.value)


def test_a_place_for_a_broker_whose_acceptors_have_their_own_is_refused() -> None:
    """Also the place of a broker without any: a program must not believe that it has moved the acceptors there."""
    config = EmbeddedBroker(acceptors=[AcceptorConfig("a", host="0.0.0.0", port=5)]).config
    for name, value in (("host", "127.0.0.1"), ("port", 0), ("tls", None)):
        with pytest.raises(ValueError, match=f"acceptors beside {name}: each of the acceptors has its own"):
            EmbeddedBroker(config, **{name: value})  # type: ignore[arg-type]
    assert EmbeddedBroker(config, acceptors=[], port=0).config.host == "127.0.0.1"


async def test_the_blocking_form_has_the_addresses() -> None:
    def use() -> None:
        with EmbeddedBroker.in_thread(acceptors=[{"name": "one"}, {"name": "two"}]) as broker:
            assert list(broker.urls) == ["one", "two"]
            assert broker.urls["one"] == broker.url

    await trio.to_thread.run_sync(use)
