"""Any number of brokers that share a store or replicate, each with a separate policy, on the bench of a test.

The fixture `broker_pair` has the two usual pairs. This is the same with policies that a test names, and with more
backups. Does not depend on clients.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field

from embedbroker import HAPolicy, ReplicationBackup, ReplicationPrimary
from embedbroker.pytest_plugin import BrokerPair, Link, ManagedBroker
from embedbroker.pytest_plugin._bench import Bench, Ground, Group, Store, Surface
from embedbroker.pytest_plugin._broker import prepare
from embedbroker.pytest_plugin._pair import cluster_settings

__all__ = ["brokers_of", "pair_of", "start_all"]

_REPLICATING = (ReplicationPrimary, ReplicationBackup)


@define(eq=False)
class _Foundation:
    """What the brokers of one group stand on together, laid when the first of them starts. ``town``: all that meet."""

    bench: Bench
    title: str
    replicates: bool
    town: Mapping[str, ManagedBroker]
    settings: Mapping[str, Any]
    lock_manager: bool
    groups: list[Group] = field(factory=list)
    stores: dict[str, Store] = field(factory=dict)

    def place(self, name: str, policy: HAPolicy) -> Callable[[], Awaitable[Ground]]:
        def settings() -> dict[str, Any]:
            urls = {member.name: member.url for member in self.town.values()}
            virtual = self.bench.surface is Surface.VIRTUAL
            return {"ha_policy": policy, **cluster_settings(name, urls, virtual=virtual), **self.settings}

        async def place() -> Ground:
            if not self.groups:
                self.groups.append(self.bench.make_group(self.title, replicates=self.replicates))
            owner = name if self.replicates else self.title
            if owner not in self.stores:
                self.stores[owner] = self.bench.make_store(owner)
            fabric = self.bench.running_fabric
            port, link = await fabric.place(name), fabric.links.to(name)
            ground = Ground(self.group_of(name), self.stores[owner], name, port, link, settings)
            ground.replicates = self.replicates
            return ground

        return place

    def group_of(self, name: str) -> Group:
        """Without a lock manager brokers that replicate have nothing in common but what is counted."""
        group = self.groups[0]
        if self.lock_manager or not self.replicates:
            return group
        alone = Group(name, group.ledger, None, None)
        alone.locks = None  # type: ignore[assignment]  # that is what brokers without a lock manager are given
        return alone


def brokers_of(
    bench: Bench, groups: Sequence[Mapping[str, HAPolicy]], settings: Mapping[str, Any], *, lock_manager: bool = True
) -> dict[str, ManagedBroker]:
    """Brokers by name that all know each other. Those of one group share a store, or replicate among themselves."""
    town: dict[str, ManagedBroker] = {}
    for policies in groups:
        replicate = [isinstance(policy, _REPLICATING) for policy in policies.values()]
        assert all(replicate) or not any(replicate), "a group shares a store, or it replicates"
        foundation = _Foundation(bench, " and ".join(policies), all(replicate), town, settings, lock_manager)
        for name, policy in policies.items():
            town[name] = bench.add(ManagedBroker(name, bench, foundation.place(name, policy)))
    return town


async def start_all(brokers: Iterable[ManagedBroker]) -> None:
    """Start brokers one after the other, when all of them have their URLs."""
    brokers = list(brokers)
    await prepare(*brokers)
    for broker in brokers:
        await broker.start()


def pair_of(
    bench: Bench,
    primary: HAPolicy,
    backup: HAPolicy,
    settings: Mapping[str, Any],
    *,
    lock_manager: bool = True,
    kind_of_pair: type[BrokerPair] = BrokerPair,
) -> BrokerPair:
    """A primary and its backup; `BrokerPair.start` starts them."""
    members = brokers_of(bench, [{"primary": primary, "backup": backup}], settings, lock_manager=lock_manager)

    def between(one: str, other: str) -> Link:
        return bench.running_fabric.links.between(one, other)

    kind = "replication" if isinstance(primary, _REPLICATING) else "shared-store"
    return kind_of_pair(kind, members["primary"], members["backup"], bench, between)
