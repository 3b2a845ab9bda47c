"""The backups that a colocated broker runs, with brokers that do nothing."""

from __future__ import annotations

import logging
from types import SimpleNamespace, TracebackType
from typing import cast

import pytest
import trio
from attrs import define, field

from embedbroker.config import BrokerConfig, ClusterConnection, Colocated, Role, SharedStorePrimary
from embedbroker.node import BackupChanged, StartBackup
from embedbroker.runtime._host import Host
from embedbroker.runtime._hosted_backups import HostableBroker, HostedBackup, HostedBackups
from embedclient.errors import IllegalStateException

CONFIG = BrokerConfig(
    name="a",
    port=61616,
    data_directory="/data/a",
    connectors={"a": "tcp://a:61616"},
    cluster_connections=ClusterConnection(connector="a"),
    ha_policy=Colocated(SharedStorePrimary()),
)
ORDER = StartBackup(0, "n", "/data/n", None, None)


@define
class Place:
    """The host, which keeps the roles that it gets."""

    changes: list[BackupChanged] = field(factory=list)
    node: object = SimpleNamespace(
        clusters=[SimpleNamespace(settings=CONFIG.cluster_connections[0], connector=CONFIG.connectors["a"])]
    )

    def backup_changed(self, change: BackupChanged) -> None:
        self.changes.append(change)


class Idle:
    """A broker that is live for ever, and does not serve any more."""

    role = Role.LIVE

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config

    @property
    def url(self) -> str:
        raise IllegalStateException("the broker is not live")

    async def __aenter__(self) -> object:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return False

    async def wait_for_role(self, *roles: Role) -> None:
        await trio.sleep_forever()

    async def stop(self) -> None:
        """Do nothing."""

    def kill(self) -> None:
        """Do nothing."""


def backups(failure: Exception | None = None) -> HostedBackups:
    def make_idle(config: BrokerConfig, node_id: str) -> HostableBroker:
        if failure is not None:
            raise failure
        return Idle(config)

    return HostedBackups(CONFIG, make_idle, logging.getLogger("embedbroker.broker"))


async def test_a_backup_that_never_begins_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    hosted, host = backups(ValueError("port 61616 is above 65535")), Place()
    for _request in range(3):
        async with trio.open_nursery() as nursery:
            hosted.start(ORDER, cast(Host, host), nursery)
    assert host.changes == [BackupChanged(0, Role.STOPPED, "port 61616 is above 65535")] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "the backup of node n, which 'a' hosts, ended: port 61616 is above 65535"
    ]


async def test_a_live_backup_that_serves_no_more_has_no_url() -> None:
    """It is live until its stop is over."""
    hosted = backups()
    async with trio.open_nursery() as nursery:
        hosted.start(ORDER, cast(Host, Place()), nursery)
        await hosted.changed()
        assert hosted.states() == [HostedBackup("a-colocated_backup_01", "n", Role.LIVE, None)]
        nursery.cancel_scope.cancel()
