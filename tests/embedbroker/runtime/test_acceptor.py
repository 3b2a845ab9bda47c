"""The acceptor of a running broker: it is stopped, started and reloaded by management."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from embedbroker import ClusterConnection, EmbeddedBroker, User
from embedbroker.runtime._embedded import life_of
from embedclient import Connection, ConnectionFactory, TextMessage, TLSSettings
from embedclient.errors import ConnectionLostException, JMSException
from embedclient.transport import ByteStream, TcpListener
from tests.tls.certificates import HOSTS, PASSWORD, Files


async def is_reached(url: str, tls: TLSSettings | None = None) -> bool:
    try:
        async with ConnectionFactory(url, tls=tls).connect():
            return True
    except ConnectionLostException:
        return False


async def is_alive(connection: Connection) -> bool:
    try:
        async with connection.session() as session:
            await session.create_temporary_queue()
            return True
    except JMSException:
        return False


async def test_a_stopped_acceptor_closes_its_connections_and_others_go_on() -> None:
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.vm_url).connect() as inside,
    ):
        management, url = broker.management, broker.url
        assert await management.acceptor_names() == ["artemis"]
        async with ConnectionFactory(f"{url}?reconnectAttempts=0").connect() as outside:
            assert await is_alive(outside) and await management.is_acceptor_started("artemis")
            await management.stop_acceptor("artemis")
            assert not await is_alive(outside)
        assert not await management.is_acceptor_started("artemis")
        assert not await is_reached(url)
        assert await is_alive(inside) and await is_reached(broker.vm_url)
        assert await management.get("broker", "ConnectionCount") == 1
        # Again: nothing happens.
        await management.stop_acceptor("artemis")
        await management.start_acceptor("artemis")
        await management.start_acceptor("artemis")
        assert await management.is_acceptor_started("artemis")
        assert broker.url == url and await is_reached(url)


async def test_a_connection_that_is_accepted_during_the_stop_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    accept = TcpListener.accept
    async with EmbeddedBroker() as broker:
        life, url = life_of(broker), broker.url

        async def accept_and_stop(listener: TcpListener) -> ByteStream:
            stream = await accept(listener)
            life.stop_acceptor("artemis")
            return stream

        monkeypatch.setattr(TcpListener, "accept", accept_and_stop)
        await broker.management.stop_acceptor("artemis")
        await broker.management.start_acceptor("artemis")
        assert not await is_reached(f"{url}?reconnectAttempts=0")
        assert not await broker.management.is_acceptor_started("artemis")
        monkeypatch.undo()
        await broker.management.start_acceptor("artemis")
        assert await is_reached(url)


async def test_a_client_that_reconnects_goes_on_after_the_start_and_loses_nothing() -> None:
    async with EmbeddedBroker() as broker:
        url = f"{broker.url}?reconnectAttempts=-1&retryInterval=20&confirmationWindowSize=-1"
        async with ConnectionFactory(url).connect() as connection, connection.session() as session:
            producer = session.create_producer("queue://orders")
            for number in range(3):
                await producer.send(f"order {number}")
                await broker.management.stop_acceptor("artemis")
                await broker.management.start_acceptor("artemis")
            async with session.create_consumer("queue://orders") as consumer:
                texts = []
                for _ in range(3):
                    message = await consumer.receive(timeout=60)
                    assert isinstance(message, TextMessage)
                    texts.append(message.text)
        assert texts == ["order 0", "order 1", "order 2"]


async def test_the_caller_over_the_acceptor_stops_it_without_an_answer() -> None:
    async with EmbeddedBroker() as broker:
        factory = ConnectionFactory(f"{broker.url}?reconnectAttempts=0")
        async with factory.connect() as connection, connection.session() as session:
            replies = await session.create_temporary_queue()
            request = TextMessage("[]", reply_to=replies)
            request.properties["_AMQ_ResourceName"] = "acceptor.artemis"
            request.properties["_AMQ_OperationName"] = "stop"
            with pytest.raises(JMSException):
                async with session.create_consumer(replies) as consumer:
                    await session.create_producer("queue://activemq.management").send(request)
                    await consumer.receive(timeout=60)
        assert not await broker.management.is_acceptor_started("artemis")


async def test_a_port_that_is_taken_meanwhile_fails_the_start_and_is_named() -> None:
    async with EmbeddedBroker() as broker:
        port = broker.port
        await broker.management.stop_acceptor("artemis")
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
            other.listen()
            with pytest.raises(JMSException, match=str(port)):
                await broker.management.start_acceptor("artemis")
            assert not await broker.management.is_acceptor_started("artemis")
        await broker.management.start_acceptor("artemis")
        assert broker.port == port and await is_reached(broker.url)


async def test_a_member_of_a_cluster_keeps_its_port_reserved() -> None:
    async with EmbeddedBroker(cluster_connections=ClusterConnection("c")) as broker:
        port = broker.port
        await broker.management.stop_acceptor("artemis")
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        await broker.management.start_acceptor("artemis")
        assert broker.port == port and await is_reached(broker.url)


async def test_a_broker_whose_acceptor_is_stopped_stops_and_starts_again() -> None:
    async with EmbeddedBroker() as broker:
        await broker.management.stop_acceptor("artemis")
        await broker.stop()
        await broker.start()
        assert await broker.management.is_acceptor_started("artemis") and await is_reached(broker.url)


async def test_changed_files_of_tls_are_read_by_a_reload(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first, second = Files(tmp_path / "first"), Files(tmp_path / "second")
    async with (
        EmbeddedBroker(tls=first.serving(auto_reload=False)) as broker,
        ConnectionFactory(broker.url, tls=first.trusting()).connect() as before,
    ):
        first.write("server.pem", b"nonsense")
        with pytest.raises(JMSException, match="is neither a PEM nor a PKCS12 file"):
            await broker.management.reload_acceptor("artemis")
        assert await is_reached(broker.url, first.trusting())
        first.write("server.pem", second.sign("server", HOSTS).pem())
        assert await is_reached(broker.url, first.trusting())
        await broker.management.reload_acceptor("artemis")
        assert await is_reached(broker.url, second.trusting())
        assert not await is_reached(broker.url, first.trusting())
        # Connections stay.
        assert await is_alive(before)


async def test_parameters_show_no_password(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.write("key.p12", files.sign("own").pkcs12(PASSWORD, "Mine"))
    tls = TLSSettings(key_store_path=path, key_store_password=PASSWORD, enabled_protocols=("TLSv1.2", "TLSv1.3"))
    async with EmbeddedBroker(tls=tls, acceptor_name="secure.one") as broker:
        management = broker.management
        parameters = await management.get("acceptor.secure.one", "Parameters")
        assert parameters == {
            "scheme": "tcp", "host": "127.0.0.1", "port": "0", "sslEnabled": "true", "keyStorePath": path,
            "keyStorePassword": "****", "enabledProtocols": "TLSv1.2,TLSv1.3",
        }  # fmt: skip
        assert await management.get("acceptor.secure.one", "Name") == "secure.one"
        assert await management.invoke("acceptor.secure.one", "isStarted") is True
        (row,) = json.loads(await management.get("broker", "AcceptorsAsJSON"))
        assert row == {
            "name": "secure.one", "params": parameters, "extraProps": {},
            "factoryClassName": "org.apache.activemq.artemis.core.remoting.impl.netty.NettyAcceptorFactory",
        }  # fmt: skip
        with pytest.raises(JMSException, match=r"AMQ229067: Cannot find resource with name acceptor\.artemis"):
            await management.stop_acceptor("artemis")


async def test_the_blocking_form_and_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "embedbroker.broker")
    async with EmbeddedBroker(users=[User("app", "x", roles=["amq"])]) as broker:
        await broker.management.stop_acceptor("artemis")
        await broker.management.start_acceptor("artemis")
    lines = [record.getMessage() for record in caplog.records if "acceptor" in record.getMessage()]
    assert len(lines) == 2 and "stopped acceptor 'artemis'" in lines[0] and "started acceptor" in lines[1]
