"""Pairs of brokers for tests with Spark: a primary, and the backup that takes over when it dies."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen

from embedbroker import (
    BrokerConfig,
    ClusterConnection,
    EmbeddedBroker,
    HAPolicy,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
    SharedStoreBackup,
    SharedStorePrimary,
    ThreadedBroker,
)
from embedbroker.config import LockManager

__all__ = ["KINDS", "Pair", "free_ports", "pair"]

KINDS = ("shared store", "replication")
TIMEOUT_S = 60.0


@frozen
class Pair:
    """Both brokers, each in a separate thread, and a URL that names them."""

    primary: ThreadedBroker
    backup: ThreadedBroker

    @property
    def url(self) -> str:
        return f"({self.primary.url},tcp://127.0.0.1:{self.backup.config.port})"

    def fail_over(self) -> None:
        """The primary dies without a goodbye, and the backup is live."""
        self.primary.crash()
        assert self.backup.wait_for_role(Role.LIVE, timeout=TIMEOUT_S)


def free_ports(count: int) -> list[int]:
    """Ports without a listener."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


@contextmanager
def pair(kind: str, folder: Path) -> Iterator[Pair]:
    """A pair of one of `KINDS`, whose backup is ready to take over."""
    ports = dict(zip(("primary", "backup"), free_ports(2), strict=True))
    folders = {name: folder / (name if kind == "replication" else "store") for name in ports}
    brokers = [
        EmbeddedBroker.in_thread(
            BrokerConfig(
                name=name,
                port=ports[name],
                data_directory=str(folders[name]),
                ha_policy=policy,
                connectors={each: f"tcp://127.0.0.1:{port}" for each, port in ports.items()},
                cluster_connections=ClusterConnection(
                    connector=name, static_connectors=tuple(each for each in ports if each != name)
                ),
                cluster_password="secret",
            )
        )
        for name, policy in _policies(kind, folder).items()
    ]
    with brokers[0] as primary, brokers[1] as backup:
        is_ready = (
            backup.wait_in_sync(timeout=TIMEOUT_S)
            if kind == "replication"
            else backup.wait_for_role(Role.BACKUP, timeout=TIMEOUT_S)
        )
        assert is_ready
        yield Pair(primary, backup)


def _policies(kind: str, folder: Path) -> dict[str, HAPolicy]:
    if kind == "shared store":
        return {"primary": SharedStorePrimary(), "backup": SharedStoreBackup()}
    manager = LockManager("FileBasedLockManager", {"locks-folder": str(folder / "locks")})
    (folder / "locks").mkdir()
    return {"primary": ReplicationPrimary(lock_manager=manager), "backup": ReplicationBackup(lock_manager=manager)}
