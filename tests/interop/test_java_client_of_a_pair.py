"""Java clients learn our live broker and its backup from us, and go from one to the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from embedbroker import EmbeddedBroker, ThreadedBroker
from embedbroker.config import ClusterConnection, SharedStoreBackup, SharedStorePrimary
from tests.interop.programs import Program
from tests.interop.registry import CLIENT_VERSIONS, matrix_classpath

SECONDS_MAX = 30
pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


@frozen
class Pair:
    """Two brokers on one directory. The backup has no address before it is live."""

    primary: ThreadedBroker
    backup: ThreadedBroker


def member(name: str, directory: Path, policy: object, connectors: dict[str, str]) -> ThreadedBroker:
    return EmbeddedBroker.in_thread(
        name=name,
        data_directory=str(directory),
        ha_policy=policy,
        connectors=connectors,
        cluster_connection=ClusterConnection(static_connectors=tuple(connectors)),
        cluster_user="cluster",
        cluster_password="secret",
    )


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[ThreadedBroker]:
    with member("primary", tmp_path / "data", SharedStorePrimary(failover_on_shutdown=True), {}) as broker:
        yield broker


def backup_of(primary: ThreadedBroker) -> ThreadedBroker:
    assert primary.config.data_directory is not None
    return member("backup", Path(primary.config.data_directory), SharedStoreBackup(), {"primary": primary.url})


def client_of(url: str, version: str = "2.44.0") -> Program:
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "java.lang", "sun.nio.ch")]
    options = ["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dio.netty.noUnsafe=true"]
    return Program(["java", *options, *opened, "-cp", matrix_classpath(version), "interop.PairClient", url])


def ha_url(broker: ThreadedBroker) -> str:
    return f"{broker.url}?ha=true&reconnectAttempts=-1&retryInterval=100"


def test_a_client_that_was_there_first_is_told_of_the_backup_and_a_later_one_at_once(primary: ThreadedBroker) -> None:
    with client_of(ha_url(primary)) as client:
        alone = client.wait_for(r"^up (\S+) (\S+) (\S+)$", seconds_max=SECONDS_MAX)
        assert alone.groups()[1:] == (str(primary.port), "-")
        client.wait_for("^connected", seconds_max=SECONDS_MAX)
        with backup_of(primary):
            pair = client.wait_for(r"^up (\S+) (\S+) (\d+)$", seconds_max=SECONDS_MAX)
            assert pair.group(1) == alone.group(1)
            with client_of(ha_url(primary)) as late:
                told = late.wait_for(r"^up (\S+) (\S+) (\S+)$", seconds_max=SECONDS_MAX)
                assert told.groups() == pair.groups()


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
@pytest.mark.parametrize("end", ["crash", "stop"])
def test_a_client_goes_on_at_the_backup_that_it_was_told_of(primary: ThreadedBroker, end: str, version: str) -> None:
    with backup_of(primary) as backup, client_of(ha_url(primary), version) as client:
        known = client.wait_for(r"^up (\S+) (\S+) (\d+)$", seconds_max=SECONDS_MAX)
        client.wait_for("^connected", seconds_max=SECONDS_MAX)
        client.say("send before")
        client.wait_for("^sent before", seconds_max=SECONDS_MAX)
        getattr(primary, end)()
        client.wait_for(f"^up {known.group(1)} {known.group(3)} ", seconds_max=SECONDS_MAX)
        client.say("send after")
        client.wait_for("^sent after", seconds_max=SECONDS_MAX)
        for text in ("before", "after"):
            client.say("receive")
            client.wait_for(f"^received {text}$", seconds_max=SECONDS_MAX)
        assert str(backup.port) == known.group(3)
