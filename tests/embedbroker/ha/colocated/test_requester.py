"""The search of a broker for a host of its backup: which of several it chooses, and when it searches again."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from attrs import define, field

from embedbroker.cluster import ControlLink, Membership
from embedbroker.config import BrokerConfig, ClusterConnection, Colocated, Role, SharedStorePrimary
from embedbroker.ha.colocated import BackupRequester
from embedclient.model import Instant
from embedclient.wire.core import BackupRequest, BackupRequestResponse, BackupVote, Packet, Record

OURS = 1


@define(eq=False)
class Host:
    """A link to another broker, which answers with a number of backups."""

    name: str
    backups: int = 0
    requests: int = 0

    def send(self, packet: Packet, _channel: int) -> None:
        if isinstance(packet, BackupRequest):
            self.requests += 1


@define
class Log:
    """Keeps the lines."""

    lines: list[str] = field(factory=list)

    def warning(self, text: str) -> None:
        self.lines.append(text)

    info = warning


class Town:
    """A live broker that searches for a host among some, one step each second."""

    def __init__(self, *hosts: Host, retries: int = -1) -> None:
        self.hosts, self.log = hosts, Log()
        self.handlers: dict[type[Record], Callable[[ControlLink, Record], None]] = {}
        members = {host.name: SimpleNamespace(node_id=host.name, live=host) for host in hosts}
        self.membership = SimpleNamespace(
            role=Role.LIVE,
            node_id="me",
            now=Instant(0.0, 1),
            links=list(hosts),
            link_to=lambda place: place,
            topology=SimpleNamespace(members=members),
            handlers=self.handlers,
        )
        policy = Colocated(
            SharedStorePrimary(),
            request_backup=True,
            backup_request_retries=retries,
            backup_request_retry_interval_ms=1_000,
        )
        config = BrokerConfig(cluster_connections=ClusterConnection(), ha_policy=policy, data_directory="data")
        self.requester = BackupRequester(config, policy, cast(Membership, self.membership), self.log)

    def attempt(self) -> Host:
        """Return the host that the next attempt chooses."""
        before = [host.requests for host in self.hosts]
        self.membership.now = Instant(self.membership.now.monotonic + 1.0, 1)
        self.requester.on_time()
        for host in self.hosts:
            vote = BackupVote(host.backups, host.name, True, OURS)
            self.handlers[BackupVote](cast(ControlLink, host), vote)
        (chosen,) = (host for host, count in zip(self.hosts, before, strict=True) if host.requests > count)
        return chosen

    def is_backed_up(self) -> bool:
        return self.requester.is_backed_up

    def answer(self, host: Host, *, started: bool) -> None:
        self.handlers[BackupRequestResponse](cast(ControlLink, host), BackupRequestResponse(started))


def test_a_backup_that_ends_by_itself_is_requested_again() -> None:
    town = Town(Host("a"), retries=0)
    (host,) = town.hosts
    town.answer(town.attempt(), started=True)
    assert town.is_backed_up()
    # The host lives, and its backup does not.
    town.answer(host, started=False)
    assert not town.is_backed_up()
    assert town.log.lines[-1] == "the backup of this broker that a hosted has ended"
    town.answer(town.attempt(), started=True)
    assert town.is_backed_up() and host.requests == 2


def test_hosts_that_refused_come_after_the_others() -> None:
    """One with the smallest node id and no backup is not chosen for ever."""
    town = Town(Host("a"), Host("b", backups=1), Host("c", backups=2))
    a, b, c = town.hosts
    chosen = []
    for _attempt in range(4):
        host = town.attempt()
        chosen.append(host)
        town.answer(host, started=False)
    assert chosen == [a, b, c, a]
    # One that began meanwhile is better than any other.
    a.backups = -1
    assert town.attempt() is a
    town.answer(a, started=True)
    a.backups = 0
    town.answer(a, started=False)
    assert town.attempt() is a, "the next search begins without refusals"
