"""The decisions of a replicating broker that is not active, as functions of what it has found.

Responsible for the next `Event`. Each function returns one that `TRANSITIONS` has in the stage in which it is called,
or None to wait. Does not depend on time, disk, or network.
"""

from __future__ import annotations

from embedbroker.config import ReplicationBackup, ReplicationPrimary
from embedbroker.locks import AttemptResult
from embedbroker.replication import EndingKind, ReplicaRecord, ScaleDownMark

from ._stages import Event

__all__ = [
    "after_lease_request",
    "after_pause",
    "after_record",
    "after_replication",
    "after_search",
    "after_vote",
    "may_be_newest",
    "needs_vote",
]

Policy = ReplicationPrimary | ReplicationBackup


def may_be_newest(policy: Policy, record: ReplicaRecord) -> bool:
    """Return True if the data here may be the newest of its node."""
    return record.in_sync and (record.epoch > 0 or isinstance(policy, ReplicationPrimary))


def needs_vote(policy: Policy, *, has_manager: bool) -> bool:
    """Return True if other brokers must grant their votes before this one is active with data from before."""
    return not has_manager and policy.vote_on_replication_failure


def after_record(policy: Policy, record: ReplicaRecord, *, was_known: bool, has_manager: bool) -> Event:
    """Decide in READING. ``was_known``: the record on the disk named a node."""
    if has_manager:
        # A broker that gave way leaves the lease to the other one first.
        has_claim = record.node_id is not None and not record.gave_way and may_be_newest(policy, record)
        return Event.LEASE_NEEDED if has_claim else Event.NO_CLAIM
    if isinstance(policy, ReplicationBackup):
        # Without votes a backup does not begin with what it has, except to end what it began.
        goes_on = record.scale_down is ScaleDownMark.UNDER_WAY and may_be_newest(policy, record)
        return Event.ACTIVE_POSSIBLE if goes_on and not policy.vote_on_replication_failure else Event.NO_CLAIM
    if was_known and (policy.check_for_active_server or policy.vote_on_replication_failure):
        return Event.ACTIVE_POSSIBLE
    return Event.GRANTED


def after_search(policy: Policy, record: ReplicaRecord, *, has_rival: bool, is_complete: bool) -> Event | None:
    """Decide in SEARCHING. ``is_complete``: the cluster is known, or the time for the search has passed."""
    if has_rival:
        return Event.ACTIVE_FOUND
    if not is_complete:
        return None
    if policy.vote_on_replication_failure and not may_be_newest(policy, record):
        return Event.NO_CLAIM
    return Event.VOTE_NEEDED


def after_pause(
    policy: Policy, record: ReplicaRecord, *, has_manager: bool, may_request_votes: bool, has_rival: bool
) -> Event | None:
    """Decide in BACKUP, without an active broker to copy from, when the pause after the last attempt has passed."""
    if not may_be_newest(policy, record):
        return None
    if has_manager:
        return Event.LEASE_NEEDED
    return Event.VOTE_NEEDED if may_request_votes and not has_rival else None


def after_replication(kind: EndingKind, *, was_accepted: bool, in_sync: bool, has_manager: bool, votes: bool) -> Event:
    """Decide in BACKUP when replication from the active broker has ended.

    An active broker that dismisses this backup goes on without it, unless a lease or a vote must be won for that first.
    The lock manager or the voters have the answer then, and the active broker may be gone before it has it.
    """
    if not was_accepted:
        return Event.NOT_ACCEPTED
    is_dismissed = kind is EndingKind.BROKEN and not has_manager and not votes
    if not in_sync or is_dismissed:
        return Event.LEFT_BEHIND
    if has_manager:
        return Event.LEASE_NEEDED
    if kind in (EndingKind.FAIL_OVER, EndingKind.STOP_CALLED) and not votes:
        return Event.GRANTED
    # After an orderly stop, too: the other broker, started again, requests votes with the data that it had then.
    return Event.VOTE_NEEDED


def after_lease_request(verdict: AttemptResult) -> Event:
    """Decide in REQUESTING_LEASE."""
    return Event.GRANTED if verdict is AttemptResult.GRANTED else Event.REFUSED


def after_vote(
    record: ReplicaRecord, *, has_rival: bool, won: bool | None, starts: bool, is_contradicted: bool
) -> Event | None:
    """Decide in VOTING. ``won`` stays None until the votes are counted.

    ``starts``: the vote is about data from before, with no active broker lost. Without a contradiction such a broker
    begins if no other copy can have gone on from its data.
    """
    if has_rival:
        return Event.REFUSED
    if won is None:
        return None
    if won or (starts and not is_contradicted and record.is_only_one):
        return Event.GRANTED
    return Event.REFUSED
