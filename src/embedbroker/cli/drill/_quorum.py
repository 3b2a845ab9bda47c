"""What keeps the two brokers of a user's replicating pair from being live at the same time.

Responsible for reading that from their configurations. Does not depend on files and options.
"""

from __future__ import annotations

import os

from embedbroker import BrokerConfig, LockManager, ReplicationBackup, ReplicationPrimary

__all__ = ["why_two_lives"]

_Policy = ReplicationPrimary | ReplicationBackup
_ADVICE = (
    "give both the same lock manager, for example <manager><class-name>FileBasedLockManager</class-name>"
    '<properties><property key="locks-folder" value="/a/folder/of/both"/></properties></manager>'
)
#: A live broker that lost its backup, and a backup, need the vote of at least one other pair. With three pairs it is
#: guaranteed that two brokers cannot both win.
_PAIRS_MIN = 3
#: The lease's duration and poll interval may differ; the place of the lease must not.
_PLACES = ("locks-folder", "connect-string", "namespace")


def why_two_lives(primary: BrokerConfig, backup: BrokerConfig) -> str | None:
    """Return why nothing keeps both of these from being live, and how to correct it; None if something does."""
    first, second = primary.ha_policy, backup.ha_policy
    assert isinstance(first, ReplicationPrimary) and isinstance(second, ReplicationBackup)
    managers = (first.lock_manager, second.lock_manager)
    if None not in managers:
        ours, theirs = (_place(manager) for manager in managers if manager is not None)
        return None if ours == theirs else f"their lock managers are not the same one, {ours} and {theirs}: {_ADVICE}"
    if managers != (None, None):
        return f"only one of them has a lock manager: {_ADVICE}"
    lacking = _lacking(first, second) or _too_few(primary, backup)
    return None if lacking is None else f"they have no lock manager, and {lacking}: {_ADVICE}"


def _lacking(primary: ReplicationPrimary, backup: ReplicationBackup) -> str | None:
    if not (primary.vote_on_replication_failure and backup.vote_on_replication_failure):
        return "no votes (vote-on-replication-failure)"
    if not primary.check_for_active_server:
        return "the primary does not look for a live backup (check-for-active-server)"
    return None


def _too_few(primary: BrokerConfig, backup: BrokerConfig) -> str | None:
    """Return why a vote has too few voters, by the quorum size or the pairs that are named; None if it has enough."""
    own = {place for config in (primary, backup) for place in _own_places(config)}
    for config in (primary, backup):
        policy = config.ha_policy
        assert isinstance(policy, _Policy)
        others = len(_named_places(config) - own)
        if 0 <= policy.quorum_size < _PAIRS_MIN:
            return f"a quorum-size of {policy.quorum_size}, where a vote decides among {_PAIRS_MIN} pairs or more"
        if policy.quorum_size < 0 and others < _PAIRS_MIN - 1:
            return f"votes among {_PAIRS_MIN} pairs or more, of which they name {others} others (or set quorum-size)"
    return None


def _own_places(config: BrokerConfig) -> set[str]:
    """Return where the broker listens, and the addresses that it announces."""
    cluster = config.cluster_connection
    places = {f"{acceptor.host}:{acceptor.port}" for acceptor in config.listens_at}
    return places if cluster is None or cluster.connector is None else places | {_at(config, cluster.connector)}


def _named_places(config: BrokerConfig) -> set[str]:
    """Return where the broker looks for others."""
    cluster = config.cluster_connection
    return set() if cluster is None else {_at(config, name) for name in cluster.static_connectors}


def _at(config: BrokerConfig, connector: str) -> str:
    parameters = config.connectors[connector].parameters
    return f"{parameters.get('host')}:{parameters.get('port')}"


def _place(manager: LockManager) -> str:
    """Return the place of its locks, in words that are equal for equal places."""
    values = {name: manager.properties[name] for name in _PLACES if name in manager.properties}
    if "locks-folder" in values:
        values["locks-folder"] = os.path.realpath(values["locks-folder"])
    if "connect-string" in values:
        values["connect-string"] = ",".join(sorted(values["connect-string"].split(",")))
    kind = manager.class_name.rpartition(".")[2]
    return " ".join([kind, *(f"{name}={value}" for name, value in values.items())])
