"""Peers that TLS must refuse, and bytes that are not TLS: the reason stands at both ends, and others do not notice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

import embedclient.asyncio
from embedbroker import EmbeddedBroker
from embedbroker.runtime._embedded import life_of
from embedclient import ConnectionFactory, Queue, TLSSettings
from embedclient.errors import JMSException
from embedclient.transport import connect_tcp

from .certificates import Files

LOGGER = "embedbroker.broker"
WITNESS = Queue("witness")


@asynccontextmanager
async def watched(
    files: Files, caplog: pytest.LogCaptureFixture, **serving: object
) -> AsyncIterator[tuple[EmbeddedBroker, Callable[[], list[str]]]]:
    """A broker whose witness has a connection meanwhile, and the warnings that it logs."""
    caplog.set_level(logging.WARNING)

    def warnings() -> list[str]:
        records = [record for record in caplog.records if record.name == LOGGER]
        return [record.getMessage() for record in records if record.levelno >= logging.WARNING]

    with trio.fail_after(60):
        async with EmbeddedBroker(tls=files.serving(**serving)) as broker:
            known = files.trusting(key_store_path=files.key("witness"))
            factory = ConnectionFactory(f"tcp://localhost:{broker.port}", tls=known)
            async with factory.connect() as connection, connection.session() as session:
                yield broker, warnings
                await session.create_producer(WITNESS).send("here")
                async with session.create_consumer(WITNESS) as consumer:
                    message = await consumer.receive(timeout=60)
                assert message is not None and message.body == "here"


async def refusal(url: str, tls: TLSSettings | None = None) -> str:
    """The reason that a client gets, which is the same on trio and asyncio."""
    with pytest.raises(JMSException) as caught:
        async with ConnectionFactory(url, tls=tls).connect():
            pass

    async def on_asyncio() -> str:
        with pytest.raises(JMSException) as caught:
            async with embedclient.asyncio.ConnectionFactory(url, tls=tls).connect():
                pass
        return str(caught.value)

    second = await trio.to_thread.run_sync(lambda: asyncio.run(on_asyncio()))
    text = str(caught.value)
    assert text == second
    return text


async def test_a_broker_of_another_authority_is_refused(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    (files.directory / "other").mkdir()
    other = Files(files.directory / "other")
    async with watched(files, caplog) as (broker, warnings):
        text = await refusal(broker.url, other.trusting())
        assert "the broker's certificate is not signed by a trusted authority; name the authority's certificate" in text
        assert await refusal(broker.url) == text  # nor do the authorities of the system help
    # Four attempts of one host for one reason are one line within a minute.
    assert len(warnings()) == 1
    assert "it does not trust the authority of this end's certificate" in warnings()[0]


async def test_a_certificate_for_another_host_is_refused(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    elsewhere = files.key("elsewhere", ("elsewhere.example", "localhost"))
    async with watched(files, caplog, key_store_path=elsewhere) as (broker, _warnings):
        text = await refusal(broker.url, files.trusting())
        assert "the broker's certificate is not valid for host '127.0.0.1'; connect by a name" in text
        for tls in (files.trusting(verify_host=False), files.trusting(sni_host="elsewhere.example")):
            async with ConnectionFactory(broker.url, tls=tls).connect():
                pass


async def test_a_certificate_that_has_expired_is_refused(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    old = files.key("old", ("127.0.0.1",), days_ago=20, days=10)
    with trio.fail_after(60):
        async with EmbeddedBroker(tls=files.serving(key_store_path=old)) as broker:
            text = await refusal(broker.url, files.trusting())
    assert "the broker's certificate has expired; it must be renewed, or a clock is wrong" in text
    assert any("the certificate in" in line and "has expired on" in line for line in caplog.messages)


async def test_wrong_certificates_of_clients_are_refused(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    (files.directory / "other").mkdir()
    other = Files(files.directory / "other")
    old = files.key("old", days_ago=20, days=10)
    async with watched(files, caplog, need_client_auth=True, trust_store_path=files.trust) as (broker, warnings):
        for key, reason, noted in (
            (None, "it requires a certificate of this end; set keyStorePath", "the client sent no certificate"),
            (other.key("stranger"), "it does not trust the authority", "is not signed by a trusted authority"),
            (old, "this end's certificate has expired", "the client's certificate has expired"),
        ):
            before = len(warnings())
            assert reason in await refusal(broker.url, files.trusting(key_store_path=key))
            assert len(warnings()) == before + 1
            assert noted in warnings()[before]


async def test_a_wanted_certificate_may_be_missing_and_must_not_be_wrong(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    (files.directory / "other").mkdir()
    other = Files(files.directory / "other")
    async with watched(files, caplog, want_client_auth=True, trust_store_path=files.trust) as (broker, _warnings):
        async with ConnectionFactory(broker.url, tls=files.trusting()).connect():
            pass
        stranger = files.trusting(key_store_path=other.key("stranger"))
        assert "it does not trust the authority" in await refusal(broker.url, stranger)


async def test_a_client_without_tls_learns_the_reason(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    async with watched(files, caplog) as (broker, warnings):
        text = await refusal(f"tcp://127.0.0.1:{broker.port}")
        assert "TLS; add sslEnabled=true to the URL" in text
    assert len(warnings()) == 1
    assert "the bytes are not TLS, and this acceptor has TLS; add sslEnabled=true" in warnings()[0]


async def test_tls_at_an_acceptor_without_is_named_at_both_ends(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, LOGGER)
    async with EmbeddedBroker() as broker:
        text = await refusal(broker.url, files.trusting())
        assert "its acceptor has no TLS, or refuses this client; remove sslEnabled=true" in text
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert len(lines) == 2
    assert all("it uses TLS, and this acceptor does not; remove sslEnabled=true" in line for line in lines)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16",
        b"\x16\x03\x01\x00",
        b"\x16\x03\x01\x40\x00" + bytes(16_384),
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
    ],
    ids=["a byte", "half a header", "zeros", "no hello"],
)
async def test_half_a_handshake_that_ends_is_one_line(
    data: bytes, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched(files, caplog) as (broker, warnings):
        stream = await connect_tcp("127.0.0.1", broker.port, timeout_s=5)
        stream.send_nowait(data)
        stream.close()
        await trio.testing.wait_all_tasks_blocked(0.05)
    assert len(warnings()) == 1


async def test_a_handshake_that_stalls_ends_with_the_time_out(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    with trio.fail_after(60):
        async with EmbeddedBroker(
            tls=files.serving(), handshake_timeout_ms=100, connection_check_interval_ms=20
        ) as broker:
            for data in (b"", b"\x16\x03\x01"):
                stream = await connect_tcp("127.0.0.1", broker.port, timeout_s=5)
                stream.send_nowait(data)
                assert await stream.receive(10) == b""
                stream.close()
            assert life_of(broker).host.statistics().connections == 0


async def test_a_broker_that_stalls_ends_with_the_time_out_of_the_client(files: Files) -> None:
    listener = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener[0].socket.getsockname()[1]
    url = f"tcp://127.0.0.1:{port}?connect-timeout-millis=100"
    with trio.fail_after(60):
        text = await refusal(url, files.trusting())
    await listener[0].aclose()
    assert "the TLS handshake was not complete in time" in text
