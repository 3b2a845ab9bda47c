"""The ``ha-policy`` of a broker as frozen values: its part in a live and backup group.

Responsible for the vocabulary of Artemis' ``ha-policy`` element with its defaults, one class for each strategy and
part. Does not depend on the implementation of a part.

Names are those of the elements, times end in ``_ms``. What Artemis calls a primary was called live or master before, a
backup slave, and primary-only live-only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import Attribute, Factory, field, frozen

from ._checks import instance, named, optional, whole

__all__ = [
    "Colocated",
    "HAPolicy",
    "LockManager",
    "PlainPolicy",
    "PrimaryOnly",
    "ReplicationBackup",
    "ReplicationPrimary",
    "ScaleDown",
    "SharedStoreBackup",
    "SharedStorePrimary",
]

# Characters of a lock name: Artemis packs it into the sixteen bytes of a UUID.
_COORDINATION_ID_CHARACTERS_MAX = 16

_flag = instance(bool)
_name = optional(named)
_milliseconds = whole(0)
_count = whole(-1)


def _refs(value: object, field_name: str = "connectors") -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise TypeError(f"{field_name} must be a list of connector names, not {value!r}")
    for name in value:
        if not isinstance(name, str) or not name:
            raise TypeError(f"{field_name} must be a list of connector names, not of {name!r}")
    return tuple(value)


def _excludes(value: object) -> tuple[str, ...]:
    return _refs(value, "excludes")


def _properties(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise TypeError(f"properties must map names to texts, not be {value!r}")
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"properties must map names to texts, not {name!r} to {text!r}")
    return dict(value)


@frozen
class ScaleDown:
    """Define where a broker moves its messages at an orderly stop: to a connector, or to a member of its cluster.

    Without connectors, it is the member with the lowest node id.

    Attributes:
        enabled: Whether it moves messages.
        connectors: Names of connectors to the brokers that may get the messages; the first that can be reached does.
        discovery_group: Name of the discovery group by which these brokers are found, in place of connectors.
        group_name: Only members of the cluster with the same name get the messages.
        commit_interval: Messages that leave this broker in one transaction; -1: those confirmed together, 64 at most.
        cluster_name: Name of the cluster connection whose members may get the messages; None: the first one, which is
            that of the acceptor. With several, a broker to which only another one leads is no target.

    Raises:
        ValueError, TypeError: a value is out of its range, or both connectors and a discovery group are given.
    """

    enabled: bool = field(default=True, validator=_flag)
    connectors: tuple[str, ...] = field(default=(), converter=_refs)
    discovery_group: str | None = field(default=None, validator=_name)
    group_name: str | None = field(default=None, validator=_name)
    commit_interval: int = field(default=-1, validator=_count)
    cluster_name: str | None = field(default=None, validator=_name)

    def __attrs_post_init__(self) -> None:
        if self.connectors and self.discovery_group is not None:
            raise ValueError("scale_down has connectors and a discovery_group: remove one of the two")


_scale_down = optional(instance(ScaleDown))


@frozen
class PrimaryOnly:
    """Define a broker without backup, the default. Artemis' older name is live-only.

    Attributes:
        scale_down: Where its messages go at an orderly stop; None: they stay.
    """

    scale_down: ScaleDown | None = field(default=None, validator=_scale_down)


@frozen
class SharedStorePrimary:
    """Define the broker that is live first on a data directory that its backups share.

    Attributes:
        failover_on_shutdown: Whether a backup takes over after an orderly stop, too.
        wait_for_activation: False: `start` returns while another broker is still live; this one takes over when that
            one is gone.
    """

    failover_on_shutdown: bool = field(default=False, validator=_flag)
    wait_for_activation: bool = field(default=True, validator=_flag)


@frozen
class SharedStoreBackup:
    """Define a broker that takes over the shared data directory when the live one dies.

    Attributes:
        failover_on_shutdown: Whether a backup takes over after an orderly stop of this broker while it is live.
        allow_failback: Whether it gives way when the primary returns. So does a backup that finds no room on the disk.
        restart_backup: Whether it waits as backup again after that.
        scale_down: Where it moves everything when it takes over, in place of serving; None: it serves.
    """

    failover_on_shutdown: bool = field(default=False, validator=_flag)
    allow_failback: bool = field(default=True, validator=_flag)
    restart_backup: bool = field(default=True, validator=_flag)
    scale_down: ScaleDown | None = field(default=None, validator=_scale_down)


def _names_alone(properties: Mapping[str, str]) -> str:
    """Return properties without their values: one of them may be a password."""
    return repr(dict.fromkeys(properties, "***"))


@frozen
class LockManager:
    """Define the service that decides which of a replicating pair is live: Artemis' ``manager`` element.

    `EmbeddedBroker` checks the values, and raises a ``ValueError`` that names what is wrong.

    Attributes:
        class_name: ``FileBasedLockManager`` or ``CuratorDistributedLockManager`` (ZooKeeper), or Artemis' full class
            names.
        properties: ``locks-folder`` for the first, ``connect-string`` and others for the second.
    """

    class_name: str = field(validator=named)
    properties: dict[str, str] = field(factory=dict, converter=_properties, repr=_names_alone)


_lock_manager = optional(instance(LockManager))


def _coordination_id(_policy: object, _attribute: Attribute[str | None], value: object) -> None:
    _name(_policy, _attribute, value)
    if isinstance(value, str) and len(value) > _COORDINATION_ID_CHARACTERS_MAX:
        raise ValueError(
            f"coordination_id must have {_COORDINATION_ID_CHARACTERS_MAX} characters or fewer, not {len(value)}"
        )


@frozen
class ReplicationPrimary:
    """Define the broker that is live first and sends its journal to a backup.

    Attributes:
        group_name: Only backups of the same name pair with it.
        cluster_name: Cluster connection on which it searches for others; None: the first one.
        check_for_active_server: Whether it checks at its start for a backup that has taken over, and fails back from
            it.
        max_saved_replicated_journals_size: Number of journals kept that were in the way of a copy; -1: all.
        initial_replication_sync_timeout_ms: Longest duration of the last step of a copy.
        vote_on_replication_failure: Whether it requests votes on remaining live when its backup is gone.
        quorum_size: Brokers that count for a vote; -1: the largest cluster that was seen.
        vote_retries: Votes that a backup requests.
        vote_retry_wait_ms: Pause between two of them.
        quorum_vote_wait_ms: Longest wait for answers, at most 2 s; in seconds in Artemis' element.
        retry_replication_wait_ms: Pause before a backup returns to a primary that did not take it.
        lock_manager: Replaces votes.
        coordination_id: Brokers with the same one compete for one lock as equals; needs a ``lock_manager``.

    Raises:
        ValueError, TypeError: a value is out of its range; the text names the field.
    """

    group_name: str | None = field(default=None, validator=_name)
    cluster_name: str | None = field(default=None, validator=_name)
    check_for_active_server: bool = field(default=False, validator=_flag)
    max_saved_replicated_journals_size: int = field(default=2, validator=_count)
    initial_replication_sync_timeout_ms: int = field(default=30_000, validator=_milliseconds)
    vote_on_replication_failure: bool = field(default=False, validator=_flag)
    quorum_size: int = field(default=-1, validator=_count)
    vote_retries: int = field(default=12, validator=_count)
    vote_retry_wait_ms: int = field(default=5_000, validator=_milliseconds)
    quorum_vote_wait_ms: int = field(default=30_000, validator=_milliseconds)
    retry_replication_wait_ms: int = field(default=2_000, validator=_milliseconds)
    lock_manager: LockManager | None = field(default=None, validator=_lock_manager)
    coordination_id: str | None = field(default=None, validator=_coordination_id)

    def __attrs_post_init__(self) -> None:
        if self.coordination_id is not None and self.lock_manager is None:
            raise ValueError("coordination_id names a lock of a lock_manager: it needs one")


@frozen
class ReplicationBackup:
    """Define a broker that keeps a copy of a live broker's journal and takes over when that broker dies.

    Attributes:
        group_name: Only a primary of the same name pairs with it.
        cluster_name: Cluster connection on which it searches for others; None: the first one.
        allow_failback: Whether it gives way when the primary returns.
        restart_backup: Whether it is a backup again after that.
        max_saved_replicated_journals_size: Number of journals kept that were in the way of a copy; -1: all.
        initial_replication_sync_timeout_ms: Longest duration of the last step of a copy, which it sends while it is
            live.
        vote_on_replication_failure: Whether it requests votes on remaining live, while it is live and its partner is
            gone.
        quorum_size: Brokers that count for a vote; -1: the largest cluster that was seen.
        vote_retries: Votes that it requests.
        vote_retry_wait_ms: Pause between two of them.
        quorum_vote_wait_ms: Longest wait for answers, at most 2 s; in seconds in Artemis' element.
        retry_replication_wait_ms: Pause before it returns to a primary that did not take it.
        lock_manager: Replaces votes.
        scale_down: Where it moves everything when it takes over, in place of serving; None: it serves.
        node_id: Only the primary with this node id pairs with it; None: any. Artemis has no element for it.

    Raises:
        ValueError, TypeError: a value is out of its range; the text names the field.
    """

    group_name: str | None = field(default=None, validator=_name)
    cluster_name: str | None = field(default=None, validator=_name)
    allow_failback: bool = field(default=False, validator=_flag)
    restart_backup: bool = field(default=True, validator=_flag)
    max_saved_replicated_journals_size: int = field(default=2, validator=_count)
    initial_replication_sync_timeout_ms: int = field(default=30_000, validator=_milliseconds)
    vote_on_replication_failure: bool = field(default=False, validator=_flag)
    quorum_size: int = field(default=-1, validator=_count)
    vote_retries: int = field(default=12, validator=_count)
    vote_retry_wait_ms: int = field(default=5_000, validator=_milliseconds)
    quorum_vote_wait_ms: int = field(default=30_000, validator=_milliseconds)
    retry_replication_wait_ms: int = field(default=2_000, validator=_milliseconds)
    lock_manager: LockManager | None = field(default=None, validator=_lock_manager)
    scale_down: ScaleDown | None = field(default=None, validator=_scale_down)
    node_id: str | None = field(default=None, validator=_name)


_PARTS: dict[str, type[SharedStoreBackup | ReplicationBackup]] = {
    "SharedStorePrimary": SharedStoreBackup,
    "ReplicationPrimary": ReplicationBackup,
}


def _primary(_policy: object, _attribute: Attribute[SharedStorePrimary | ReplicationPrimary], value: object) -> None:
    if not isinstance(value, SharedStorePrimary | ReplicationPrimary):
        raise TypeError(f"primary must be a SharedStorePrimary or a ReplicationPrimary, not {value!r}")


def _backup(
    policy: Colocated | None, _attribute: Attribute[SharedStoreBackup | ReplicationBackup], value: object
) -> None:
    if not isinstance(value, SharedStoreBackup | ReplicationBackup):
        raise TypeError(f"backup must be a SharedStoreBackup or a ReplicationBackup, not {value!r}")
    if policy is not None and not isinstance(value, _PARTS[type(policy.primary).__name__]):
        ours, theirs = type(policy.primary).__name__, type(value).__name__
        raise ValueError(f"primary is a {ours} and backup a {theirs}: both must share a store, or both replicate")


def _default_backup(policy: Colocated) -> SharedStoreBackup | ReplicationBackup:
    # A primary of a wrong type is refused next.
    return _PARTS.get(type(policy.primary).__name__, ReplicationBackup)()


@frozen
class Colocated:
    """Define a broker that hosts backups of other brokers in its process, and may request one for itself.

    A hosted backup has the configuration of its host, with other ports, directories and another name.

    Attributes:
        primary: Part of the broker itself.
        backup: Part of the backups that it hosts; of the same kind, which is the default.
        request_backup: Whether it requests that another broker of its cluster hosts a backup of it.
        backup_request_retries: Attempts after the first one; -1: no limit.
        backup_request_retry_interval_ms: Pause between two attempts.
        max_backups: Number of backups that it hosts at most.
        backup_port_offset: Added to the ports of acceptor and connectors for the first backup, and once more for each
            further one.
        excludes: Names of connectors whose ports stay, because they lead to other brokers.

    Raises:
        ValueError, TypeError: a value is out of its range, or primary and backup are of different kinds.
    """

    primary: SharedStorePrimary | ReplicationPrimary = field(factory=ReplicationPrimary, validator=_primary)
    backup: SharedStoreBackup | ReplicationBackup = field(
        default=Factory(_default_backup, takes_self=True), validator=_backup
    )
    request_backup: bool = field(default=False, validator=_flag)
    backup_request_retries: int = field(default=-1, validator=_count)
    backup_request_retry_interval_ms: int = field(default=5_000, validator=whole(1))
    max_backups: int = field(default=1, validator=_milliseconds)
    backup_port_offset: int = field(default=100, validator=whole(1, 65_535))
    excludes: tuple[str, ...] = field(default=(), converter=_excludes)


#: The part of one broker.
PlainPolicy: TypeAlias = PrimaryOnly | SharedStorePrimary | SharedStoreBackup | ReplicationPrimary | ReplicationBackup
HAPolicy: TypeAlias = PlainPolicy | Colocated
