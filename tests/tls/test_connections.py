"""Clients and a broker that use TLS: every facade, files of both kinds, contexts that a program made."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trio

import embedclient.asyncio
import embedclient.blocking
from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue, TextMessage, TLSSettings
from embedclient.errors import JMSException

from .certificates import PASSWORD, Files

QUEUE = Queue("orders")
TEXT = "hello" * 200_000


async def exchange(url: str, tls: TLSSettings | ssl.SSLContext | None = None) -> str:
    async with ConnectionFactory(url, tls=tls).connect() as connection, connection.session() as session:
        await session.create_producer(QUEUE).send(TEXT)
        async with session.create_consumer(QUEUE) as consumer:
            message = await consumer.receive()
    assert isinstance(message, TextMessage)
    return message.text or ""


async def test_messages_of_any_size_pass(files: Files) -> None:
    async with EmbeddedBroker(tls=files.serving()) as broker:
        assert broker.url == f"tcp://127.0.0.1:{broker.port}?sslEnabled=true"
        assert await exchange(broker.url, files.trusting()) == TEXT


async def test_the_blocking_client_uses_tls(files: Files) -> None:
    def work(url: str) -> str:
        factory = embedclient.blocking.ConnectionFactory(url, tls=files.trusting())
        with factory.connect() as connection, connection.session() as session:
            session.create_producer(QUEUE).send(TEXT)
            message = session.create_consumer(QUEUE).receive()
        assert isinstance(message, TextMessage)
        return message.text or ""

    async with EmbeddedBroker(tls=files.serving()) as broker:
        assert await trio.to_thread.run_sync(work, broker.url) == TEXT


async def test_the_client_of_asyncio_uses_tls(files: Files) -> None:
    async def work(url: str) -> str:
        factory = embedclient.asyncio.ConnectionFactory(url, tls=files.trusting())
        async with factory.connect() as connection, connection.session() as session:
            await session.create_producer(QUEUE).send(TEXT)
            async with session.create_consumer(QUEUE) as consumer:
                message = await consumer.receive()
        assert isinstance(message, TextMessage)
        return message.text or ""

    async with EmbeddedBroker(tls=files.serving()) as broker:
        assert await trio.to_thread.run_sync(asyncio.run, work(broker.url)) == TEXT


async def test_pkcs12_files_and_parameters_of_a_url(files: Files) -> None:
    server = files.write("server.p12", files.sign("server", ("127.0.0.1",)).pkcs12(PASSWORD, "broker"))
    trust = files.write("trust.p12", files.authority.pkcs12(PASSWORD))
    tls = TLSSettings(key_store_path=server, key_store_password=PASSWORD, key_store_alias="Broker")
    async with EmbeddedBroker(tls=tls) as broker:
        url = f"{broker.url}&trustStorePath={trust}&trustStorePassword={PASSWORD}"
        assert await exchange(url) == TEXT


async def test_contexts_that_the_program_made(files: Files) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(files.server)
    trusting = ssl.create_default_context(cafile=files.trust)
    async with EmbeddedBroker(tls=serving) as broker:
        assert await exchange(f"tcp://127.0.0.1:{broker.port}", trusting) == TEXT


async def test_certificates_of_clients_are_required(files: Files) -> None:
    tls = files.serving(need_client_auth=True, trust_store_path=files.trust)
    async with EmbeddedBroker(tls=tls) as broker:
        known = files.trusting(key_store_path=files.key("client"))
        assert await exchange(broker.url, known) == TEXT
        with pytest.raises(JMSException, match=r"it requires a certificate of this end; set keyStorePath"):
            await exchange(broker.url, files.trusting())


@pytest.mark.parametrize("kind", ["pem", "p12"])
async def test_certificates_of_an_authority_between_are_trusted_with_their_chain(kind: str, files: Files) -> None:
    between = files.authority.intermediate()
    stores = {}
    for name, signed in (("server", between.sign("server", ("127.0.0.1",))), ("client", between.sign("client"))):
        assert len(signed.certificates) == 2
        content = signed.pem() if kind == "pem" else signed.pkcs12(PASSWORD, name)
        stores[name] = files.write(f"chain-{name}.{kind}", content)
    password = None if kind == "pem" else PASSWORD
    tls = TLSSettings(
        key_store_path=stores["server"],
        key_store_password=password,
        trust_store_path=files.trust,
        need_client_auth=True,
    )
    async with EmbeddedBroker(tls=tls) as broker:
        known = files.trusting(key_store_path=stores["client"], key_store_password=password)
        assert await exchange(broker.url, known) == TEXT


async def test_a_certificate_without_that_of_the_authority_between_is_not_trusted(files: Files) -> None:
    signed = files.authority.intermediate().sign("server", ("127.0.0.1",))
    key, begin, rest = signed.pem().partition(b"-----BEGIN CERTIFICATE-----")
    alone = key + begin + rest.partition(begin)[0]
    async with EmbeddedBroker(tls=files.serving(key_store_path=files.write("alone.pem", alone))) as broker:
        with pytest.raises(JMSException, match=r"the broker's certificate is not signed by a trusted authority"):
            await exchange(broker.url, files.trusting())
