"""The initial record of a replicating broker, with the node of its data, and the warnings about its policy.

Does not read anything: the record was read before.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from embedbroker.config import ReplicationBackup, ReplicationPrimary
from embedbroker.replication import ReplicaRecord
from embedclient.model import uuid_text

__all__ = ["coordination_node_id", "initial_record", "warnings_of"]


def initial_record(
    policy: ReplicationPrimary | ReplicationBackup,
    record: ReplicaRecord,
    make_node_id: Callable[[], str],
    *,
    is_unfinished: bool,
) -> ReplicaRecord:
    """Return the record of this start, from the one that was found.

    A primary without one has the first data of a new node.

    ``is_unfinished``: a copy was begun beside it and is not whole, so no broker may be active with these files.
    """
    if isinstance(policy, ReplicationPrimary):
        if policy.coordination_id is not None:
            node_id = coordination_node_id(policy.coordination_id)
            if record.node_id != node_id:
                record = ReplicaRecord(
                    node_id,
                    record.journal_identity,
                    0,
                    in_sync=True,
                    last_batch=record.last_batch,
                    newest_segment=record.newest_segment,
                )
        elif record.node_id is None:
            record = ReplicaRecord(make_node_id(), None, 0, in_sync=True)
    return evolve(record, in_sync=False) if is_unfinished else record


def coordination_node_id(coordination_id: str) -> str:
    """Return the node id of all brokers of one lock: sixteen bytes of its name."""
    return uuid_text(coordination_id.encode().ljust(16, b"+")[:16])


def warnings_of(policy: ReplicationPrimary | ReplicationBackup, *, has_manager: bool) -> list[str]:
    """Return what the policy allows to go wrong, as Artemis' defaults do, and the remedies."""
    warnings = []
    if not has_manager and not policy.vote_on_replication_failure:
        warnings.append(
            "when the network between a primary and its backup fails, both may be live, and what one of them confirms"
            " is lost later: give both a lock_manager, or have three pairs or more in the cluster and set"
            " vote_on_replication_failure"
        )
    if not has_manager and isinstance(policy, ReplicationPrimary) and not policy.check_for_active_server:
        warnings.append(
            "started again after its backup took over, this primary is live beside it: set check_for_active_server"
        )
    return warnings
