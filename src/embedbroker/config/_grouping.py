"""The grouping handler of a broker: how the brokers of a cluster agree on the queue of each message group.

Responsible for the vocabulary of Artemis' ``grouping-handler`` element and for its defaults. Does not depend on the
exchange between brokers.
"""

from __future__ import annotations

from enum import Enum

from attrs import field, frozen

from ._checks import instance, named, text, whole

__all__ = ["GroupingHandlerConfig", "GroupingHandlerType"]


class GroupingHandlerType(Enum):
    """Define the part of a broker in the choice of the queue of each message group."""

    #: It decides, for all brokers of the cluster. One broker has this type, and its backup has it, too.
    LOCAL = "LOCAL"
    #: It proposes a queue, and waits for the decision.
    REMOTE = "REMOTE"


@frozen
class GroupingHandlerConfig:
    """Define how a broker of a cluster keeps the messages of each group on one queue.

    Attributes:
        name: Name of the handler.
        type: Part of this broker; exactly one broker of a cluster is ``LOCAL``.
        address: Address of the notifications of this handler. It must match the addresses of the cluster connection.
        timeout_ms: Longest wait of a proposal for its decision, after which it is repeated; and of a ``LOCAL`` broker
            after its start for the queues of its decisions.
        group_timeout_ms: Time without a message after which a group is forgotten; -1: never.
        reaper_period_ms: Pause between two searches of a ``LOCAL`` broker for such groups.
    """

    name: str = field(validator=named)
    type: GroupingHandlerType = field(validator=instance(GroupingHandlerType))
    address: str = field(default="", validator=text)
    timeout_ms: int = field(default=5_000, validator=whole(1))
    group_timeout_ms: int = field(default=-1, validator=whole(-1))
    reaper_period_ms: int = field(default=30_000, validator=whole(1))
