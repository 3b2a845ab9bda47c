"""Two brokers that are equals: both primaries in their broker.xml, with one coordination-id and one lock manager."""

from __future__ import annotations

import socket
from pathlib import Path

import trio

from embedbroker import EmbeddedBroker
from embedbroker.config import BrokerConfig, Role
from tests.embedbroker.configfile.config_files import QUIET, document, load_text
from tests.embedbroker.runtime.test_replication import put, take

TIMEOUT_S = 60.0


def free_ports(count: int) -> list[int]:
    """Ports without a listener; each of the two must have the other's before it runs."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def configured(path: Path, name: str, other: str, ports: dict[str, int]) -> BrokerConfig:
    """The broker.xml of one of the two."""
    folder = path / name
    folder.mkdir()
    connectors = "".join(f"<connector name='{each}'>tcp://127.0.0.1:{port}</connector>" for each, port in ports.items())
    loaded = load_text(
        folder,
        document(
            f"<name>{name}</name>{QUIET}<journal-directory>{folder / 'data'}</journal-directory>"
            "<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>"
            f"<connectors>{connectors}</connectors>"
            f"<acceptors><acceptor name='main'>tcp://127.0.0.1:{ports[name]}</acceptor></acceptors>"
            "<ha-policy><replication><primary><manager><class-name>FileBasedLockManager</class-name><properties>"
            f"<property key='locks-folder' value='{path / 'locks'}'/></properties></manager>"
            "<coordination-id>pair-1</coordination-id></primary></replication></ha-policy>"
            "<cluster-connections><cluster-connection name='all'>"
            f"<connector-ref>{name}</connector-ref><retry-interval>50</retry-interval>"
            f"<static-connectors><connector-ref>{other}</connector-ref></static-connectors>"
            "</cluster-connection></cluster-connections>"
        ),
    )
    return loaded.config


async def test_whoever_comes_first_is_live_and_the_other_one_its_backup_in_whatever_order_they_start(
    tmp_path: Path,
) -> None:
    (tmp_path / "locks").mkdir()
    ports = dict(zip("pq", free_ports(2), strict=True))
    first = EmbeddedBroker(configured(tmp_path, "p", "q", ports))
    second = EmbeddedBroker(configured(tmp_path, "q", "p", ports))
    with trio.fail_after(TIMEOUT_S):
        async with first, second:
            assert [first.role, second.role] == [Role.LIVE, Role.BACKUP]
            await put(first.url, "one")
            await first.wait_in_sync()
            # The other order: the former backup is live, and stays live when the first one returns.
            await first.crash()
            await second.wait_for_role(Role.LIVE)
            assert second.node_id.startswith("70616972-2d31-"), "which is pair-1"
            await put(second.url, "two")
            await first.start()
            await second.wait_in_sync()
            assert [first.role, second.role] == [Role.BACKUP, Role.LIVE]
            # Both stop, the backup first: its copy is left behind, and it waits although it starts first.
            await first.stop()
            await put(second.url, "three")
            await second.stop()
            await first.start()
            assert first.role is Role.BACKUP
            await second.start()
            await second.wait_for_role(Role.LIVE)
            await second.wait_in_sync()
            assert [first.role, second.role] == [Role.BACKUP, Role.LIVE]
            assert await take(second.url, 3) == ["one", "two", "three"]
