"""``ha-policy``: the part of the broker in a live and backup group.

Responsible for old and new names of the parts, and for their elements. Does not depend on the implementation of a part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from attrs import evolve

from embedbroker.config import (
    Colocated,
    HAPolicy,
    LockManager,
    PrimaryOnly,
    ReplicationBackup,
    ReplicationPrimary,
    ScaleDown,
    SharedStoreBackup,
    SharedStorePrimary,
)

from ._document import Element
from ._findings import Findings
from ._mapping import Fields, attribute_of, built, named_once, required_attribute, store, values_of
from ._transports import connector_refs
from ._values import boolean, seconds, text, whole

__all__ = ["ha_policy", "with_places_of_others"]

# Artemis' default for a manager without a class-name.
_DEFAULT_MANAGER = "org.apache.activemq.artemis.lockmanager.zookeeper.CuratorDistributedLockManager"

_Policy = type[ReplicationPrimary | ReplicationBackup | SharedStorePrimary | SharedStoreBackup]

# The older name of each part of a colocated broker.
_COLOCATED_PARTS = {"primary": "master", "backup": "slave"}
_STRATEGIES = ("primary-only", "live-only", "replication", "shared-store")
_PARTS = ("primary", "master", "backup", "slave", "colocated")
_KINDS: dict[tuple[str, str], _Policy] = {
    ("replication", "primary"): ReplicationPrimary,
    ("replication", "master"): ReplicationPrimary,
    ("replication", "backup"): ReplicationBackup,
    ("replication", "slave"): ReplicationBackup,
    ("shared-store", "primary"): SharedStorePrimary,
    ("shared-store", "master"): SharedStorePrimary,
    ("shared-store", "backup"): SharedStoreBackup,
    ("shared-store", "slave"): SharedStoreBackup,
}

_REPLICATION: Fields = {
    "group-name": ("group_name", text),
    "cluster-name": ("cluster_name", text),
    "max-saved-replicated-journals-size": ("max_saved_replicated_journals_size", whole),
    "initial-replication-sync-timeout": ("initial_replication_sync_timeout_ms", whole),
    "vote-on-replication-failure": ("vote_on_replication_failure", boolean),
    "quorum-size": ("quorum_size", whole),
    "vote-retries": ("vote_retries", whole),
    "vote-retry-wait": ("vote_retry_wait_ms", whole),
    "quorum-vote-wait": ("quorum_vote_wait_ms", seconds),
    "retry-replication-wait": ("retry_replication_wait_ms", whole),
}
_ON_SHUTDOWN: Fields = {
    "failover-on-shutdown": ("failover_on_shutdown", boolean),
    # Name in some documents.
    "failover-on-server-shutdown": ("failover_on_shutdown", boolean),
}
_FALLING_BACK: Fields = {
    "allow-failback": ("allow_failback", boolean),
    "restart-backup": ("restart_backup", boolean),
}
_FIELDS: dict[_Policy, Fields] = {
    ReplicationPrimary: {
        **_REPLICATION,
        "check-for-active-server": ("check_for_active_server", boolean),
        "check-for-live-server": ("check_for_active_server", boolean),
        "coordination-id": ("coordination_id", text),
    },
    ReplicationBackup: {**_REPLICATION, **_FALLING_BACK},
    SharedStorePrimary: {**_ON_SHUTDOWN, "wait-for-activation": ("wait_for_activation", boolean)},
    SharedStoreBackup: {**_ON_SHUTDOWN, **_FALLING_BACK},
}
_COLOCATED: Fields = {
    "request-backup": ("request_backup", boolean),
    "backup-request-retries": ("backup_request_retries", whole),
    "backup-request-retry-interval": ("backup_request_retry_interval_ms", whole),
    "max-backups": ("max_backups", whole),
    "backup-port-offset": ("backup_port_offset", whole),
}
_SCALE_DOWN: Fields = {
    "enabled": ("enabled", boolean),
    "group-name": ("group_name", text),
    "commit-interval": ("commit_interval", whole),
}


def ha_policy(core: Element, connectors: Collection[str], findings: Findings) -> HAPolicy | None:
    """Return the policy of a file; None without one, or with a wrong one."""
    element = core.take("ha-policy")
    if element is None:
        return None
    strategy = _only_one(element, _STRATEGIES, findings)
    if strategy is None:
        return None
    if strategy.name in ("primary-only", "live-only"):
        values: dict[str, Any] = {}
        _add_scale_down(strategy, values, connectors, findings)
        return PrimaryOnly(**values)
    part = _only_one(strategy, _PARTS, findings)
    if part is not None and part.name == "colocated":
        return _colocated(strategy.name, part, connectors, findings)
    return None if part is None else _policy(_KINDS[strategy.name, part.name], part, connectors, findings)


def with_places_of_others(policy: HAPolicy, names: Iterable[str]) -> HAPolicy:
    """Return a policy whose hosted backups keep the ports of further connectors: those inside URLs, as in Artemis."""
    return evolve(policy, excludes=(*policy.excludes, *names)) if isinstance(policy, Colocated) else policy


def _only_one(element: Element, names: tuple[str, ...], findings: Findings) -> Element | None:
    found = [child for name in names for child in element.take_all(name)]
    if not found:
        findings.refuse(element.place, f"is empty; expected one of {', '.join(names)} in it")
    elif len(found) > 1:
        findings.refuse(element.place, f"has {' and '.join(child.name for child in found)}, one of them is allowed")
    return found[0] if len(found) == 1 else None


def _colocated(strategy: str, element: Element, connectors: Collection[str], findings: Findings) -> Colocated | None:
    """Return the policy of a broker that hosts backups of others; parts that are missing have their defaults."""
    values = values_of(element, _COLOCATED, Colocated, findings)
    for name, former in _COLOCATED_PARTS.items():
        kind = _KINDS[strategy, name]
        found = [*element.take_all(name), *element.take_all(former)]
        if len(found) > 1:
            findings.refuse(element.place, f"has {' and '.join(child.name for child in found)}, one of them is allowed")
            return None
        values[name] = _policy(kind, found[0], connectors, findings) if found else kind()
        if values[name] is None:
            return None
    excludes = element.take("excludes")
    if excludes is not None:
        values["excludes"] = connector_refs(excludes, connectors, findings)
    return built(Colocated, values, element.place, findings)


def _policy(kind: _Policy, part: Element, connectors: Collection[str], findings: Findings) -> HAPolicy | None:
    values = values_of(part, _FIELDS[kind], kind, findings)
    if kind in (ReplicationPrimary, ReplicationBackup):
        _add_lock_manager(part, values, findings)
    if kind in (ReplicationBackup, SharedStoreBackup):
        _add_scale_down(part, values, connectors, findings)
    return built(kind, values, part.place, findings)


def _add_scale_down(part: Element, policy: dict[str, Any], connectors: Collection[str], findings: Findings) -> None:
    element = part.take("scale-down")
    if element is None:
        return
    values = values_of(element, _SCALE_DOWN, ScaleDown, findings)
    group = element.take("discovery-group-ref")
    if group is not None:
        name = required_attribute(group, "discovery-group-name", findings)
        store(values, "discovery_group", name, ScaleDown, group.place, findings)
    refs = element.take("connectors")
    if refs is not None:
        values["connectors"] = connector_refs(refs, connectors, findings)
    scale_down = built(ScaleDown, values, element.place, findings)
    if scale_down is not None:
        policy["scale_down"] = scale_down


def _add_lock_manager(part: Element, policy: dict[str, Any], findings: Findings) -> None:
    element = part.take("manager")
    if element is None:
        return
    values = values_of(element, {"class-name": ("class_name", text)}, LockManager, findings)
    properties: dict[str, str] = {}
    for holder in element.take_all("properties"):
        for entry in holder.take_all("property"):
            key = required_attribute(entry, "key", findings)
            value = attribute_of(entry, "value", text, findings)
            if key is not None and isinstance(value, str):
                named_once(properties, key, value, entry.place, findings)
    if not element.children.get("class-name"):
        values["class_name"] = _DEFAULT_MANAGER
    if "class_name" in values:
        policy["lock_manager"] = built(LockManager, {**values, "properties": properties}, element.place, findings)
