"""The parts of a node that only some brokers have. They are loaded here, so that others start without them.

Does not use them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from embedbroker.config import BrokerConfig, Colocated, ReplicationBackup, ReplicationPrimary, can_scale_down_at_host
from embedbroker.ha import Activation, RoleChanged, StartBackup
from embedbroker.protocols import SERVER_VERSION
from embedclient.model import Entropy, describe_name, make_uuid, uuid_text

from ._current_step import CurrentStep, NodeLog
from ._outgoing_connections import OutgoingConnections

if TYPE_CHECKING:
    from embedbroker.cluster import Discovery, Membership
    from embedbroker.ha.colocated import BackupHosting, BackupRequester
    from embedbroker.ha.replication import ReplicaDisk
    from embedbroker.security import SecurityManager
    from embedbroker.storage import AtomicFile, Journal

__all__ = ["Roles", "make_roles", "make_security", "warn_of_policy"]

_GRANTS_BYTES_MAX = 1024 * 1024
# Below the numbers of the record.
_FIRST_NUMBER_OF_GRANTS = -(1 << 41)


@frozen
class Roles:
    """The parts that a broker needs to be more than a lone broker; ``grants`` is the file of a voter.

    ``clusters`` has a membership for each cluster connection, the one of the acceptor first.
    ``hosting`` are the backups of others that run beside a colocated broker, ``requester`` finds a host for its own.
    """

    make_node_id: Callable[[], str]
    grants: AtomicFile | None
    clusters: tuple[Membership, ...]
    discovery: Discovery | None
    activation: Activation | None
    hosting: BackupHosting | None
    requester: BackupRequester | None

    @property
    def cluster(self) -> Membership | None:
        """Return the membership that peers and the activation use, which the others follow; None without any."""
        return self.clusters[0] if self.clusters else None

    @property
    def replica_disk(self) -> ReplicaDisk | None:
        """Return the disk of a broker that replicates."""
        return self.activation.replica_disk if self.activation is not None else None


def make_roles(
    config: BrokerConfig,
    entropy: Entropy,
    journal: Journal | None,
    dials: OutgoingConnections,
    step: CurrentStep,
    log: NodeLog,
    *,
    has_locks: bool,
) -> Roles:
    """Return the cluster and the activation that the configuration requires."""

    def make_node_id() -> str:
        return uuid_text(make_uuid(entropy, step.now))

    grants = _make_grants_file(config, journal)
    clusters = _make_memberships(config, dials, log, grants)
    cluster = clusters[0] if clusters else None
    activation = _make_activation(config, entropy, journal, cluster, make_node_id, step.output, has_locks=has_locks)
    discovery = _make_discovery(config, make_node_id, clusters, log)
    hosting, requester = _make_colocation(config, cluster, step.output, log)
    return Roles(make_node_id, grants, clusters, discovery, activation, hosting, requester)


def _make_grants_file(config: BrokerConfig, journal: Journal | None) -> AtomicFile | None:
    """Return the file of the votes that a voter granted; None without a disk or a cluster."""
    if config.cluster_connection is None or journal is None:
        return None
    from embedbroker.replication import NEW_VOTES_FILE, VOTES_FILE
    from embedbroker.storage import AtomicFile

    title = "the words that it gave to others (votes.state)"
    return AtomicFile(VOTES_FILE, NEW_VOTES_FILE, title, _GRANTS_BYTES_MAX, _FIRST_NUMBER_OF_GRANTS)


def _make_memberships(
    config: BrokerConfig, dials: OutgoingConnections, log: NodeLog, grants: AtomicFile | None
) -> tuple[Membership, ...]:
    """Return the membership in each cluster.

    The first one answers votes, and refuses backups of another make, in every role, at every acceptor.
    """
    if config.cluster_connection is None:
        return ()
    from embedbroker.cluster import Membership, refuse_foreign_backups
    from embedbroker.ha.quorum import Voter

    def prefixed(name: str, write: Callable[[str], None]) -> Callable[[str], None]:
        return lambda text: write(f"cluster connection {describe_name(name)!r}: {text}")

    first = config.cluster_connection
    others = [
        Membership(
            config, each, SERVER_VERSION, dials, prefixed(each.name, log.warning), inform=prefixed(each.name, log.info)
        )
        for each in config.cluster_connections
        if each is not first
    ]
    membership = Membership(config, first, SERVER_VERSION, dials, log.warning, inform=log.info)
    membership.lead(others, {each.cluster_connection for each in config.listens_at})
    for other in others:
        # As in Artemis, what is no membership does not depend on the acceptor of the peer.
        other.inbound_peers.handlers = membership.inbound_peers.handlers
    Voter.of(membership, grants, log.warning)
    refuse_foreign_backups(membership, log.warning)
    return (membership, *others)


def _make_activation(
    config: BrokerConfig,
    entropy: Entropy,
    journal: Journal | None,
    cluster: Membership | None,
    make_node_id: Callable[[], str],
    output: Callable[[RoleChanged], None],
    *,
    has_locks: bool,
) -> Activation | None:
    """Return the activation that the policy needs; None for a broker that is live at once.

    ``has_locks``: the host has a lock store, or a lock manager for a broker that replicates.
    """
    if not isinstance(config.own_policy, ReplicationPrimary | ReplicationBackup):
        if not has_locks:
            return None
        from embedbroker.ha.shared_store import SharedStoreActivation

        return SharedStoreActivation(config, cluster, int.from_bytes(entropy.random_bytes(8), "big") >> 1)
    assert journal is not None and cluster is not None, "replication needs a disk and a cluster"
    from embedbroker.ha.replication import ReplicationActivation

    return ReplicationActivation(config, journal, cluster, make_node_id, output, has_manager=has_locks)


def _make_colocation(
    config: BrokerConfig, cluster: Membership | None, output: Callable[[StartBackup], None], log: NodeLog
) -> tuple[BackupHosting | None, BackupRequester | None]:
    """Return what hosts backups of other brokers, and what requests one; neither for a broker that is not colocated."""
    policy = config.ha_policy
    if not isinstance(policy, Colocated):
        return None, None
    assert cluster is not None, "a colocated broker finds the others by its cluster connection"
    from embedbroker.ha.colocated import BackupHosting, BackupRequester

    hosting = BackupHosting(policy, cluster, output, log.info)
    return hosting, BackupRequester(config, policy, cluster, log) if policy.request_backup else None


def _make_discovery(
    config: BrokerConfig, make_id: Callable[[], str], clusters: Sequence[Membership], log: NodeLog
) -> Discovery | None:
    """Return the discovery of other brokers, and the announcements of this one; None without any group."""
    if not config.broadcast_groups and not config.discovery_groups:
        return None
    from embedbroker.cluster import Discovery

    discovery = Discovery(config, make_id, log)

    def report(group: str) -> None:
        for cluster in clusters:
            if group == cluster.settings.discovery_group:
                cluster.search_at(discovery.places(group))

    discovery.on_change = report
    return discovery


def make_security(config: BrokerConfig, log: NodeLog) -> SecurityManager | None:
    """Return what decides logins and permissions; None for a broker that admits every client."""
    if not config.is_secured:
        return None
    from embedbroker.security import SecurityManager

    return SecurityManager(config, log.warning)


def warn_of_policy(config: BrokerConfig, log: Callable[[str], None]) -> None:
    """Log each setting of the policy that has no effect."""
    backup = config.ha_policy.backup if isinstance(config.ha_policy, Colocated) else None
    if backup is None or backup.scale_down is None or not backup.scale_down.enabled:
        return
    if not can_scale_down_at_host(backup):
        log(
            "the backups that this broker hosts serve when they take over, and do not scale down: with a lock_manager"
            " or votes a primary that returns needs the data of its backup"
        )
