"""What TLS and users cost: TLS beside Artemis with TLS, and a broker with users and permissions beside one without."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.broker_cases import Effort, artemis_journal
from benchmarks.java_load import PerfResult, mean, perf_client
from benchmarks.report import Row
from embedbroker.security import SALT_BYTES, hash_password
from tests.interop.artemis import ArtemisBroker
from tests.interop.brokers import BrokerUnderTest, EmbeddedBrokerProcess
from tests.tls.certificates import PASSWORD, Files

_XML = "<configuration xmlns='urn:activemq'><core>{}</core></configuration>"
_ACCEPTORS = "<acceptors><acceptor name='core'>tcp://127.0.0.1:0?{}</acceptor></acceptors>"
_USER = "bench"
# A permission for each kind of request, on the addresses of the case; other matches must be passed over.
_SETTINGS = """
<security-enabled>true</security-enabled>
<security-settings>
  <security-setting match="#"><permission type="manage" roles="admins"/></security-setting>
  <security-setting match="bench.#">{}</security-setting>
  <security-setting match="orders.#"><permission type="send" roles="senders"/></security-setting>
</security-settings>
"""
_TYPES = (
    *("send", "consume", "browse", "createAddress", "deleteAddress", "createDurableQueue", "deleteDurableQueue"),
    *("createNonDurableQueue", "deleteNonDurableQueue"),
)
_LOGIN = """
activemq {
  org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
    org.apache.activemq.jaas.properties.user="artemis-users.properties"
    org.apache.activemq.jaas.properties.role="artemis-roles.properties";
};
"""


def tls(effort: Effort) -> list[Row]:
    """One producer, one consumer, non-durable 1 KiB, over TLS 1.3; the same against Artemis."""
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as name:
        folder = Path(name)
        files = Files(folder)
        files.write("ca.p12", files.authority.pkcs12(PASSWORD))
        files.write("broker.p12", files.sign("broker", ("127.0.0.1", "localhost")).pkcs12(PASSWORD, "broker"))
        key = f"sslEnabled=true;keyStorePath={folder}/broker.p12;keyStorePassword={PASSWORD};keyStoreType=PKCS12"
        ours = _ours(folder / "ours", _ACCEPTORS.format(key))
        theirs = ArtemisBroker(
            folder / "artemis",
            journal=artemis_journal(),
            memory="2G",
            changes={"anycastPrefix=jms.queue.;": f"anycastPrefix=jms.queue.;{key};"},
        )
        trust = f"trustStorePath={folder}/ca.p12&trustStorePassword={PASSWORD}&trustStoreType=PKCS12"
        found = _in_turn(effort, [ours, theirs], f"?sslEnabled=true&{trust}&enabledProtocols=TLSv1.3", [[], []])
    rates, cpu = _figures(found)
    return [
        Row("tls", "non-durable 1 KiB, 1 to 1, TLS 1.3", "msg/s", *rates, "higher", must=0.8, aim=1.0),
        Row("tls", "broker CPU per message", "us", *cpu, "lower", must=1.0, aim=0.8),
    ]


def secured(effort: Effort) -> list[Row]:
    """One producer, one consumer, non-durable 1 KiB, with a user and its permissions; the same broker without users."""
    login = ["--user", _USER, "--password", PASSWORD]
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as name:
        folder = Path(name)
        permissions = "".join(f'<permission type="{each}" roles="apps"/>' for each in _TYPES)
        users = _ours(folder / "with", _ACCEPTORS.format("") + _SETTINGS.format(permissions))
        etc = folder / "with"
        (etc / "login.config").write_text(_LOGIN)
        (etc / "artemis-users.properties").write_text(f"{_USER} = {hash_password(PASSWORD, bytes(SALT_BYTES))}\n")
        (etc / "artemis-roles.properties").write_text(f"apps = {_USER}\n")
        found = _in_turn(effort, [users, _ours(folder / "without", _ACCEPTORS.format(""))], "", [login, []])
    rates, cpu = _figures(found)
    return [
        Row("secured", "broker CPU per message, with users and without", "us", *cpu, "lower", must=1.05, aim=1.0),
        Row("secured", "non-durable 1 KiB, 1 to 1, with and without", "msg/s", *rates, "higher", aim=1.0),
    ]


def _ours(directory: Path, core: str) -> EmbeddedBrokerProcess:
    """Return our broker with a broker.xml of this content, which is not started."""
    directory.mkdir()
    file = directory / "broker.xml"
    file.write_text(_XML.format(core))
    return EmbeddedBrokerProcess(directory, ["--config", file])


def _in_turn(
    effort: Effort, brokers: Sequence[BrokerUnderTest], parameters: str, options: Sequence[Sequence[str]]
) -> list[list[PerfResult]]:
    """Start two brokers, and run the same load against both in turn, first the one and then the other first."""
    results: list[list[PerfResult]] = [[], []]
    try:
        for broker in brokers:
            broker.start()
            broker.url += parameters
        for turn in range(2 * effort.rounds):
            for index in (0, 1) if turn % 2 else (1, 0):
                result = perf_client(
                    brokers[index],
                    "queue://bench.security",
                    ["--max-pending", 100, *options[index]],
                    warmup_s=effort.warmup_s,
                    measured_s=effort.measured_s,
                )
                results[index].append(result)
                print(f"  {('ours', 'reference')[index]}: {result}", flush=True)
    finally:
        for broker in brokers:
            broker.kill()
    return results


def _figures(found: Sequence[Sequence[PerfResult]]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return messages per second, and microseconds of CPU per message, of both brokers."""
    ours, reference = found
    rates = mean(ours, "received_per_second"), mean(reference, "received_per_second")
    cpu = mean(ours, "cpu_seconds_per_message") * 1e6, mean(reference, "cpu_seconds_per_message") * 1e6
    return rates, cpu
