"""Brokers that reach each other with TLS, and clients that move from one to the other."""

from __future__ import annotations

from pathlib import Path

import trio
import trio.testing

from embedbroker import EmbeddedBroker
from embedbroker.config import (
    BrokerConfig,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.locks import MemoryLockManager
from embedclient import ConnectionFactory, Queue, TLSSettings
from embedclient.model import TransportConfiguration
from embedclient.transport import ByteStream, Listener, TLSDial, TransportLost, vm_connect, vm_listen
from tests.embedbroker.runtime.test_cluster_of_brokers import TIMEOUT_S, member, until_known
from tests.embedbroker.runtime.test_replication import until_in_sync

from .certificates import Files

ORDERS = Queue("orders")


def mutual(files: Files) -> TLSSettings:
    """One key for the acceptor and for the connections to other brokers, which require it of each other."""
    return files.serving(trust_store_path=files.trust, need_client_auth=True)


async def test_a_client_goes_on_at_the_backup_with_the_settings_of_its_url(tmp_path: Path, files: Files) -> None:
    tls = mutual(files)
    primary = member(tmp_path, name="primary", ha_policy=SharedStorePrimary(), tls=tls)
    async with primary, member(tmp_path, primary, name="backup", ha_policy=SharedStoreBackup(), tls=tls) as backup:
        await until_known(primary, "primary", "backup")
        stores = f"trustStorePath={files.trust}&keyStorePath={files.key('client')}"
        url = f"{primary.url}&{stores}&ha=true&reconnectAttempts=-1&retryInterval=50"
        async with ConnectionFactory(url).connect() as connection, connection.session() as session:
            producer = session.create_producer(ORDERS)
            await producer.send("before")
            await primary.crash()
            with trio.fail_after(TIMEOUT_S):
                await backup.wait_for_role(Role.LIVE)
                await producer.send("after")
                async with session.create_consumer(ORDERS) as consumer:
                    received = [await consumer.receive() for _ in range(2)]
        assert [message.body for message in received] == ["before", "after"]


async def test_a_journal_is_copied_with_tls(tmp_path: Path, files: Files) -> None:
    tls, manager = mutual(files), MemoryLockManager()

    def replica(name: str, policy: ReplicationPrimary | ReplicationBackup, *others: EmbeddedBroker) -> EmbeddedBroker:
        return member(tmp_path / name, *others, name=name, ha_policy=policy, lock_manager=manager, tls=tls)

    primary = replica("p", ReplicationPrimary())
    client = files.trusting(key_store_path=files.key("client"))
    async with primary, replica("b", ReplicationBackup(), primary) as backup:
        await until_in_sync(primary)
        async with ConnectionFactory(primary.url, tls=client).connect() as connection, connection.session() as session:
            await session.create_producer(ORDERS).send("x" * 300_000)
        await primary.crash()
        with trio.fail_after(TIMEOUT_S):
            await backup.wait_for_role(Role.LIVE)
        async with (
            ConnectionFactory(backup.url, tls=client).connect() as connection,
            connection.session() as session,
            session.create_consumer(ORDERS) as consumer,
        ):
            message = await consumer.receive(timeout=TIMEOUT_S)
    assert message is not None and message.body == "x" * 300_000


# -- connectors that a peer announced --------------------------------------------------------------------------------


def connector(host: str, **parameters: str) -> TransportConfiguration:
    return TransportConfiguration(host, parameters={"host": host, "port": "1", **parameters})


def test_stores_that_a_peer_names_are_replaced_by_those_of_this_end() -> None:
    announced = connector("b", sslEnabled="true", trustStorePath="/theirs", trustAll="true", sniHost="b.example")
    own = connector("a", sslEnabled="true", trustStorePath="/ours", verifyHost="false", sniHost="a.example")
    used = announced.with_local_tls([connector("plain"), own])
    assert used.parameters == {
        "host": "b",
        "port": "1",
        "sslEnabled": True,
        "trustStorePath": "/ours",
        "verifyHost": "false",
        "sniHost": "b.example",
    }
    assert used.with_local_tls([connector("plain"), own]) is used
    alone = announced.with_local_tls([])
    assert alone.parameters == {"host": "b", "port": "1", "sslEnabled": True, "sniHost": "b.example"}
    tls = TLSSettings(trust_store_path="/here")
    assert announced.with_local_tls([], tls).tls is tls
    assert announced.with_local_tls([connector("a").with_tls(tls)]).tls is tls


def test_a_connector_of_this_end_stays_as_it_is_and_the_same_place_comes_first() -> None:
    first = connector("a", sslEnabled="true", trustStorePath="/first")
    second = connector("b", sslEnabled="true", trustStorePath="/second")
    assert second.with_local_tls([first, second]) is second
    assert connector("b", sslEnabled="true").with_local_tls([first, second]).parameters["trustStorePath"] == "/second"
    plain = connector("b")
    assert plain.with_local_tls([first]) is plain


def test_the_private_key_of_a_connector_is_not_announced() -> None:
    own = connector("a", sslEnabled="true", trustStorePath="t", keyStorePath="k", keyStorePassword="sesame")
    assert own.announced.parameters == {"host": "a", "port": "1", "sslEnabled": "true", "trustStorePath": "t"}
    assert connector("a").announced == connector("a")


# -- virtual time ----------------------------------------------------------------------------------------------------


class MemoryNetwork:
    """Replaces TCP by pipes inside the process: TLS needs no sockets and no real time."""

    async def listen(self, config: BrokerConfig) -> list[Listener]:
        await trio.lowlevel.checkpoint()
        listener = vm_listen(f"network-{config.name}")
        listener.port = 1
        return [listener]

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        await trio.lowlevel.checkpoint()
        return vm_connect(f"network-{connector.host}")


async def test_tls_runs_over_pipes_of_the_process_in_virtual_time(
    files: Files, autojump_clock: trio.testing.MockClock
) -> None:
    broker = EmbeddedBroker(name="b", tls=files.serving(), network=MemoryNetwork())
    silent = connector("b", sslEnabled="true", trustStorePath=files.trust, verifyHost="false")
    async with broker:
        stream = await TLSDial(silent).establish(await MemoryNetwork().dial(silent, 1), trio.current_time() + 1)
        # No bytes of CORE follow: the broker closes after its time-out, ten virtual seconds.
        began = trio.current_time()
        assert await stream.receive(10) == b""
        assert 9 < trio.current_time() - began < 13
        stream.close()
        plain = await MemoryNetwork().dial(silent, 1)
        plain.send_nowait(b"\x16\x03\x01")
        began = trio.current_time()
        try:
            assert await plain.receive(10) == b""
        except TransportLost:
            pass
        assert 9 < trio.current_time() - began < 13
