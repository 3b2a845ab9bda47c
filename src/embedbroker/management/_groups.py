"""The part of the control ``queue`` about message groups: which consumer has each, and how they are shared out.

Does not depend on how a queue chooses consumers.
"""

from __future__ import annotations

from embedbroker.kernel import Permission, Queue

from ._registry import Attribute, Call, Kind, Operation, Parameter, Work, done
from ._rows import ROWS_MAX, Rows

__all__ = ["GROUP_ATTRIBUTES", "GROUP_OPERATIONS"]


def _of(call: Call) -> Queue:
    return call.kernel.address_manager.queues[call.name]


def _as_json(call: Call) -> Work:
    rows = Rows()
    for group, consumer in _of(call).groups(ROWS_MAX + 1):
        connection = consumer.owner.connection if consumer.owner is not None else None
        rows.add(
            {
                "groupID": group,
                "consumerID": consumer.key,
                "connectionID": connection.connection_id if connection is not None else "",
                "sessionID": consumer.session,
                "browseOnly": False,
                "creationTime": consumer.created_ms,
            }
        )
        yield
    return rows.text()


def _reset(call: Call, group: str | None) -> None:
    queue = done(call.session.addresses.use_queue(call.name, Permission.CONSUME))
    if group is not None:
        queue.reset_groups(group)


def _reset_all(call: Call) -> None:
    done(call.session.addresses.use_queue(call.name, Permission.CONSUME)).reset_groups()


GROUP_ATTRIBUTES = (
    Attribute("GroupCount", "int", lambda call: _of(call).group_count or 0, "Message groups that have a consumer."),
    Attribute(
        "GroupRebalance",
        "boolean",
        lambda call: _of(call).definition.group_rebalance,
        "A new consumer ends all assignments of groups.",
    ),
    Attribute(
        "GroupRebalancePauseDispatch",
        "boolean",
        lambda call: _of(call).definition.group_rebalance_pause_dispatch,
        "Nothing is delivered then until messages in delivery are settled.",
    ),
    Attribute(
        "GroupBuckets",
        "int",
        lambda call: _of(call).definition.group_buckets,
        "Buckets of its groups; -1: one for each; 0: groups have no effect.",
    ),
    Attribute(
        "GroupFirstKey",
        "String",
        lambda call: _of(call).definition.group_first_key,
        "Property that is true in the first message of a group; null without one.",
    ),
)

GROUP_OPERATIONS = (
    Operation("listGroupsAsJSON", (), "String", _as_json, "Groups, or their buckets, with their consumers, as JSON."),
    Operation(
        "resetGroup",
        (Parameter("groupID", Kind.TEXT),),
        "void",
        _reset,
        "Let the next message of a group choose a consumer.",
        changes=True,
    ),
    Operation("resetAllGroups", (), "void", _reset_all, "The same for all groups.", changes=True),
)
