"""The ``ha-policy`` of a broker as frozen values: which part it plays in a live and backup group.

Responsible for the vocabulary of Artemis' ``ha-policy`` element with its defaults, one class for each strategy and
part. Refuses to know how a broker plays that part.

Names are those of the elements, times end in ``_ms``. What Artemis calls a primary was called live or master before,
a backup slave, and primary-only live-only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import Attribute, field, frozen

from ._checks import instance, named, optional, whole

__all__ = [
    "HAPolicy",
    "LockManager",
    "PrimaryOnly",
    "ReplicationBackup",
    "ReplicationPrimary",
    "ScaleDown",
    "SharedStoreBackup",
    "SharedStorePrimary",
]

# What a lock name may be made of: Artemis packs it into the sixteen bytes of a UUID.
_COORDINATION_ID_CHARACTERS_MAX = 16

_flag = instance(bool)
_name = optional(named)
_milliseconds = whole(0)
_count = whole(-1)


def _refs(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise TypeError(f"connectors must be a list of connector names, not {value!r}")
    for name in value:
        if not isinstance(name, str) or not name:
            raise TypeError(f"connectors must be a list of connector names, not of {name!r}")
    return tuple(value)


def _properties(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise TypeError(f"properties must map names to texts, not be {value!r}")
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"properties must map names to texts, not {name!r} to {text!r}")
    return dict(value)


@frozen
class ScaleDown:
    """Where a broker that stops takes its messages: to a connector, to a discovery group, or to a group of brokers.

    It has no effect yet, and the log says so.
    """

    enabled: bool = field(default=True, validator=_flag)
    connectors: tuple[str, ...] = field(default=(), converter=_refs)
    discovery_group: str | None = field(default=None, validator=_name)
    group_name: str | None = field(default=None, validator=_name)
    commit_interval: int = field(default=-1, validator=_count)

    def __attrs_post_init__(self) -> None:
        if self.connectors and self.discovery_group is not None:
            raise ValueError("scale_down has connectors and a discovery_group: one of them says where to go")


_scale_down = optional(instance(ScaleDown))


@frozen
class PrimaryOnly:
    """No backup, the default. Artemis' older name is live-only."""

    scale_down: ScaleDown | None = field(default=None, validator=_scale_down)


@frozen
class SharedStorePrimary:
    """The broker that is live first on a data directory that its backups share.

    ``failover_on_shutdown``: an orderly stop, too, makes a backup take over. ``wait_for_activation`` False: `start`
    returns while another broker is still live; this one takes over when that is gone.
    """

    failover_on_shutdown: bool = field(default=False, validator=_flag)
    wait_for_activation: bool = field(default=True, validator=_flag)


@frozen
class SharedStoreBackup:
    """A broker that takes over the shared data directory when the live one dies.

    ``failover_on_shutdown`` holds for its own time as the live broker. ``allow_failback``: it gives way when the
    primary returns, and then waits as backup again unless ``restart_backup`` is False. So does one that finds no room
    on the disk.
    """

    failover_on_shutdown: bool = field(default=False, validator=_flag)
    allow_failback: bool = field(default=True, validator=_flag)
    restart_backup: bool = field(default=True, validator=_flag)
    scale_down: ScaleDown | None = field(default=None, validator=_scale_down)


@frozen
class LockManager:
    """The service that decides which of a replicating pair is live: Artemis' ``manager`` element.

    ``class_name`` is ``FileBasedLockManager``, with the property ``locks-folder``, or ``CuratorDistributedLockManager``
    for ZooKeeper, with ``connect-string`` and others; Artemis' full class names will do. `EmbeddedBroker` looks at
    them, and raises a ``ValueError`` that names what is wrong.
    """

    class_name: str = field(validator=named)
    properties: dict[str, str] = field(factory=dict, converter=_properties)


_lock_manager = optional(instance(LockManager))


def _coordination_id(_policy: object, _attribute: Attribute[str | None], value: object) -> None:
    _name(_policy, _attribute, value)
    if isinstance(value, str) and len(value) > _COORDINATION_ID_CHARACTERS_MAX:
        raise ValueError(
            f"coordination_id must have {_COORDINATION_ID_CHARACTERS_MAX} characters or fewer, not {len(value)}"
        )


@frozen
class ReplicationPrimary:
    """The broker that is live first and sends its journal to a backup.

    ``group_name``: only backups of the same name pair with it. ``cluster_name``: the cluster connection to look for
    others on, None the first one. ``check_for_active_server``: at start, look whether a backup has taken over, and fail
    back from it. ``quorum_size`` -1 is the largest cluster that was seen; ``vote_on_replication_failure``: ask the
    others whether it may go on when its backup is gone. A backup asks ``vote_retries`` times, ``vote_retry_wait_ms``
    apart, and waits ``quorum_vote_wait_ms`` for answers, 2 s at most; that one is in seconds in Artemis' element.
    ``lock_manager`` replaces votes; brokers with the same ``coordination_id`` compete for one lock as equals. The last
    step of a copy may take ``initial_replication_sync_timeout_ms``, and a primary that took no backup is left alone for
    ``retry_replication_wait_ms``. ``max_saved_replicated_journals_size`` is how many journals in the way of a copy are
    kept; -1: all.

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
    """A broker that keeps a copy of a live broker's journal and takes over when that dies.

    ``allow_failback``: it gives way when the primary returns, and then is a backup again unless ``restart_backup`` is
    False. The other values are those of `ReplicationPrimary`.
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


HAPolicy: TypeAlias = PrimaryOnly | SharedStorePrimary | SharedStoreBackup | ReplicationPrimary | ReplicationBackup
