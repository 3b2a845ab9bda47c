"""The parts of a node that only some brokers have, loaded by those who need them: a broker of its own starts without.

Refuses to use them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from embedbroker.config import BrokerConfig, ReplicationBackup, ReplicationPrimary
from embedbroker.ha import Activation, RoleChanged
from embedbroker.protocols import SERVER_VERSION

from ._outgoing_connections import OutgoingConnections

if TYPE_CHECKING:
    from embedbroker.cluster import Membership
    from embedbroker.storage import AtomicFile, Journal
    from embedclient.model import Entropy

__all__ = ["make_activation", "make_grants_file", "make_membership", "warn_of_policy"]

_WORDS_BYTES_MAX = 1024 * 1024
# Below the numbers of the record.
_FIRST_NUMBER_OF_WORDS = -(1 << 41)


def make_grants_file(config: BrokerConfig, journal: Journal | None) -> AtomicFile | None:
    """Where a voter keeps its word; one without a disk has no such place."""
    if config.cluster_connection is None or journal is None:
        return None
    from embedbroker.replication import NEW_VOTES_FILE, VOTES_FILE
    from embedbroker.storage import AtomicFile

    title = "the words that it gave to others (votes.state)"
    return AtomicFile(VOTES_FILE, NEW_VOTES_FILE, title, _WORDS_BYTES_MAX, _FIRST_NUMBER_OF_WORDS)


def make_membership(
    config: BrokerConfig, dials: OutgoingConnections, log: Callable[[str], None], grants: AtomicFile | None
) -> Membership | None:
    """Of a broker that has a cluster connection. It answers votes, and backups of another make, whatever it is."""
    if config.cluster_connection is None:
        return None
    from embedbroker.cluster import Membership, refuse_foreign_backups
    from embedbroker.ha.quorum import Voter

    membership = Membership(config, SERVER_VERSION, dials, log)
    Voter.of(membership, grants, log)
    refuse_foreign_backups(membership, log)
    return membership


def make_activation(
    config: BrokerConfig,
    journal: Journal | None,
    cluster: Membership | None,
    make_node_id: Callable[[], str],
    output: Callable[[RoleChanged], None],
    entropy: Entropy,
    *,
    has_locks: bool,
) -> Activation | None:
    """Return the activation that the policy needs; None for a broker that is live at once.

    ``has_locks``: the host has a lock store, or a lock manager for a broker that replicates.
    """
    if not isinstance(config.ha_policy, ReplicationPrimary | ReplicationBackup):
        if not has_locks:
            return None
        from embedbroker.ha.shared_store import SharedStoreActivation

        return SharedStoreActivation(config, cluster, int.from_bytes(entropy.random_bytes(8), "big") >> 1)
    assert journal is not None and cluster is not None, "replication needs a disk and a cluster"
    from embedbroker.ha.replication import ReplicationActivation

    return ReplicationActivation(config, journal, cluster, make_node_id, output, has_manager=has_locks)


def warn_of_policy(config: BrokerConfig, log: Callable[[str], None]) -> None:
    """What a policy asks for in vain."""
    if getattr(getattr(config.ha_policy, "scale_down", None), "enabled", False):
        log("scale-down is not available yet: messages stay here when the broker stops")
