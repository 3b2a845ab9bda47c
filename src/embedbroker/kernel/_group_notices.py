"""Notifications about message groups, by which the brokers of a cluster agree on the queue of each group.

Responsible for their values. Does not depend on how they are sent, and on decisions.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

__all__ = ["GroupNotice", "GroupNoticeKind"]


class GroupNoticeKind(Enum):
    """Define the kind of a notification about a group; the values are the names of Artemis."""

    PROPOSAL = "PROPOSAL"
    RESPONSE = "PROPOSAL_RESPONSE"
    END = "UNPROPOSAL"


@frozen
class GroupNotice:
    """Hold one notification about a group.

    Attributes:
        kind: Kind of the notification.
        key: Id of the group with a dot and a routing name: an address may have several queues for one group.
        queue: Name in the cluster of the queue that is proposed, or whose decision ends.
        decided: Name in the cluster of the queue of an earlier decision; None if the proposal is the decision.
        distance: Number of brokers that passed it on.
    """

    kind: GroupNoticeKind
    key: str
    queue: str
    decided: str | None = None
    distance: int = 0
