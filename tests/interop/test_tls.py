"""TLS with the other side's client and broker: stores in PKCS12, mutual authentication, failures that both name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from embedbroker import EmbeddedBroker
from embedbroker.config import ClusterConnection
from embedclient import ConnectionFactory, Queue, TLSSettings
from embedclient.errors import ConnectionLostException
from tests.interop.artemis import ArtemisBroker, free_port
from tests.interop.brokers import EmbeddedBrokerProcess
from tests.interop.jms_matrix import JmsMatrix, cases_of, matrix_of
from tests.interop.our_pair import EmbeddedPair
from tests.interop.registry import ARTEMIS_VERSION, CLIENT_VERSIONS
from tests.interop.test_cluster_with_artemis import until_it_knows
from tests.interop.test_java_client_of_a_pair import client_of
from tests.tls.certificates import PASSWORD, Files

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

CASES = ("one-message", "text", "bytes", "sizes", "headers")
#: Version of the Java client, versions of TLS, case.
EXCHANGES = [(ARTEMIS_VERSION, versions, case) for versions in ("TLSv1.2", "TLSv1.3") for case in CASES]
EXCHANGES += [
    (version, versions, case)
    for version in CLIENT_VERSIONS
    if version != ARTEMIS_VERSION
    for versions, case in (("TLSv1.2", "one-message"), ("TLSv1.2", "sizes"), ("TLSv1.3", "one-message"))
    # With TLS 1.3 the oldest one fails if records of the handshake come in one read; a relay that pauses after each
    # record makes it work. docs/guide/tls.md has what to set.
    if (version, versions) != ("1.5.6", "TLSv1.3")
]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """PKCS12 files beside the PEM files, for Java."""
    files = Files(tmp_path_factory.mktemp("stores"))
    files.write("ca.p12", files.authority.pkcs12(PASSWORD))
    for name, hosts in (("broker", ("127.0.0.1", "localhost")), ("client", ())):
        files.write(f"{name}.p12", files.sign(name, hosts).pkcs12(PASSWORD, name))
    return files


def acceptor(files: Files) -> str:
    """The parameters of an acceptor that requires certificates, as both brokers read them."""
    directory = files.directory
    return (
        f"sslEnabled=true;keyStorePath={directory}/broker.p12;keyStorePassword={PASSWORD};keyStoreType=PKCS12;"
        f"trustStorePath={directory}/ca.p12;trustStorePassword={PASSWORD};trustStoreType=PKCS12;needClientAuth=true"
    )


def java_parameters(files: Files, version: str = ARTEMIS_VERSION, *, certificate: bool = True) -> str:
    directory = files.directory
    # Older clients call the type of a store its provider.
    kind = "Type" if version == ARTEMIS_VERSION else "Provider"
    trust = f"trustStorePath={directory}/ca.p12&trustStorePassword={PASSWORD}&trustStore{kind}=PKCS12"
    key = f"&keyStorePath={directory}/client.p12&keyStorePassword={PASSWORD}&keyStore{kind}=PKCS12"
    return f"sslEnabled=true&{trust}{key if certificate else ''}"


@pytest.fixture(scope="module")
def secure_broker(stores: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBrokerProcess]:
    """Our broker with a broker.xml whose acceptor uses TLS."""
    directory = tmp_path_factory.mktemp("secure")
    file = directory / "broker.xml"
    url = f"tcp://127.0.0.1:0?{acceptor(stores)}"
    core = f"<core><acceptors><acceptor name='a'>{url}</acceptor></acceptors></core>"
    file.write_text(f"<configuration xmlns='urn:activemq'>{core}</configuration>")
    broker = EmbeddedBrokerProcess(directory, ["--config", file])
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@pytest.mark.parametrize(("version", "versions", "case"), EXCHANGES)
def test_the_java_client_uses_tls(
    version: str,
    versions: str,
    case: str,
    secure_broker: EmbeddedBrokerProcess,
    stores: Files,
    matrices: dict[str, JmsMatrix],
) -> None:
    url = f"{secure_broker.url}?{java_parameters(stores, version)}&enabledProtocols={versions}"
    if failure := matrix_of(matrices, version).run(case, url, {}):
        pytest.fail(failure, pytrace=False)


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_the_java_client_needs_its_certificate(
    version: str, secure_broker: EmbeddedBrokerProcess, stores: Files, matrices: dict[str, JmsMatrix]
) -> None:
    url = f"{secure_broker.url}?{java_parameters(stores, version, certificate=False)}"
    assert matrix_of(matrices, version).run("one-message", url, {}) is not None
    errors = (secure_broker.directory / "errors.txt").read_text()
    assert "the client sent no certificate, and needClientAuth requires one; set keyStorePath at the client" in errors


@pytest.fixture(scope="module", params=["shared-store", "replication"])
def secure_pair(
    request: pytest.FixtureRequest, stores: Files, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedPair]:
    """A pair whose acceptors have TLS, for clients and for each other; clients use the connectors that it announces."""
    directory = stores.directory
    key = f"keyStorePath={directory}/broker.p12;keyStorePassword={PASSWORD};keyStoreType=PKCS12"
    trust = f"trustStorePath={directory}/ca.p12;trustStorePassword={PASSWORD};trustStoreType=PKCS12"
    changes = {
        "?protocols=CORE": f"?protocols=CORE;sslEnabled=true;{key}",
        "</connector>": f"?sslEnabled=true;{trust}</connector>",
    }
    replicated = request.param == "replication"
    with EmbeddedPair(tmp_path_factory.mktemp("pair"), replicated=replicated, changes=changes) as pair:
        yield pair


@pytest.mark.parametrize("case", cases_of("PairCases"))
def test_the_java_client_follows_a_pair_with_tls(
    case: str, secure_pair: EmbeddedPair, stores: Files, matrices: dict[str, JmsMatrix]
) -> None:
    url = f"{secure_pair.primary.url}?{java_parameters(stores, certificate=False)}"
    moves = {"fail": secure_pair.kill, "back": secure_pair.fail_back}
    failure = matrix_of(matrices, ARTEMIS_VERSION).run(case, url, moves)
    if not secure_pair.primary.running:
        secure_pair.fail_back()
    if failure:
        pytest.fail(failure, pytrace=False)


def test_our_client_follows_a_pair_with_tls(secure_pair: EmbeddedPair, stores: Files) -> None:
    async def work() -> list[object]:
        parameters = f"sslEnabled=true&trustStorePath={stores.trust}&ha=true&reconnectAttempts=-1&retryInterval=100"
        # Both: the primary may announce its backup later than the kill.
        factory = ConnectionFactory(f"({secure_pair.primary.url},{secure_pair.backup.url})?{parameters}")
        queue = Queue("followed")
        async with factory.connect() as connection, connection.session() as session:
            producer = session.create_producer(queue)
            await producer.send("before")
            await trio.to_thread.run_sync(secure_pair.kill)
            await producer.send("after")
            async with session.create_consumer(queue) as consumer:
                return [message and message.body for message in [await consumer.receive(timeout=20) for _ in range(2)]]

    try:
        assert trio.run(work) == ["before", "after"]
    finally:
        if not secure_pair.primary.running:
            secure_pair.fail_back()


def test_our_client_uses_tls_with_artemis(stores: Files, tmp_path: Path) -> None:
    orders = Queue("orders")

    async def exchange(parameters: str) -> object:
        factory = ConnectionFactory(f"{artemis.url}?sslEnabled=true&{parameters}")
        async with factory.connect() as connection, connection.session() as session:
            await session.create_producer(orders).send("x" * 100_000)
            async with session.create_consumer(orders) as consumer:
                message = await consumer.receive(timeout=10)
        return message and message.body

    changes = {"anycastPrefix=jms.queue.;": f"anycastPrefix=jms.queue.;{acceptor(stores)};"}
    with ArtemisBroker(tmp_path / "instance", changes=changes) as artemis:
        trust = f"trustStorePath={stores.trust}"
        key = f"keyStorePath={stores.directory}/client.p12&keyStorePassword={PASSWORD}"
        assert trio.run(exchange, f"{trust}&{key}") == "x" * 100_000
        with pytest.raises(ConnectionLostException, match=r"requires a certificate|certificate is missing|not accept"):
            trio.run(exchange, trust)
        with pytest.raises(ConnectionLostException, match=r"is not signed by a trusted authority"):
            trio.run(exchange, "ha=false")


def test_a_cluster_with_artemis_uses_tls_for_its_links(stores: Files, tmp_path: Path) -> None:
    """Each broker requires the certificate of the other; a client of either learns of both."""
    port, password = free_port(), "cluster-password"
    # Artemis writes this text both into its own connector, which it announces, and into the one of the other broker.
    changes = {
        "anycastPrefix=jms.queue.;": f"anycastPrefix=jms.queue.;{acceptor(stores)};",
        "</connector>": f"?{java_parameters(stores).replace('&', ';')}</connector>",
    }
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{port}"]
    options = ["--clustered", "--cluster-user", "cluster-user", "--cluster-password", password, *names]
    mutual = TLSSettings(key_store_path=stores.server, trust_store_path=stores.trust, need_client_auth=True)
    with ArtemisBroker(tmp_path / "artemis", memory="512M", options=options, changes=changes) as theirs:
        ours = EmbeddedBroker.in_thread(
            name="ours",
            port=port,
            tls=mutual,
            connectors={"theirs": f"{theirs.url}?sslEnabled=true"},
            cluster_connections=ClusterConnection(static_connectors=("theirs",)),
            cluster_user="cluster-user",
            cluster_password=password,
        )
        with ours:
            for broker in (theirs.port, port):
                url = f"tcp://127.0.0.1:{broker}?ha=true&{java_parameters(stores)}"
                with client_of(url) as client:
                    until_it_knows(client, theirs.port, port)
