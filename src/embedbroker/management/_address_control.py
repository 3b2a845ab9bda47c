"""The control ``address``: figures of one address."""

from __future__ import annotations

import json
from typing import Any

from embedbroker.kernel import Address, Kernel, Permission

from ._lists import limit_percent
from ._queue_control import remove_all
from ._registry import Attribute, Call, Control, Kind, Operation, Parameter, Work, done
from ._sending import operations, send
from ._settings import roles_as_json, roles_of
from ._texts import no_address, routing_types_text

__all__ = ["ADDRESS"]


def _of(call: Call) -> Address:
    address = call.kernel.address_manager.addresses.get(call.name)
    if address is None:
        raise no_address(call.name)
    return address


def _queue_names(call: Call) -> list[str]:
    return [queue.name for queue in _of(call).queues]


def _remote_queue_names(call: Call) -> list[str]:
    """Return the names of queues of other brokers, as Artemis: with the node id of the broker behind each."""
    return [binding.cluster_name for binding in call.kernel.address_manager.remote_bindings_of(_of(call).name)]


def _all_queue_names(call: Call) -> list[str]:
    return _queue_names(call) + _remote_queue_names(call)


def _binding_names(call: Call) -> list[str]:
    diverts = call.kernel.address_manager.resolution.diverts_at(_of(call).name)
    return _all_queue_names(call) + [divert.name for divert in diverts]


def _message_count(call: Call) -> int:
    return sum([queue.message_count for queue in _of(call).queues])


def _duplicate_ids(call: Call) -> int:
    ids = _of(call).duplicate_ids
    return 0 if ids is None else len(ids)


def _is_temporary(call: Call) -> bool:
    queues = _of(call).queues
    return bool(queues) and all(queue.definition.temporary for queue in queues)


_ATTRIBUTES = (
    Attribute("Id", "long", lambda call: _of(call).definition.id, "Id in the journal."),
    Attribute("Address", "String", lambda call: call.name, "Name."),
    Attribute("RoutingTypes", "String[]", lambda call: routing_types_text(_of(call)), "MULTICAST, ANYCAST or both."),
    Attribute(
        "RoutingTypesAsJSON",
        "String",
        lambda call: json.dumps(routing_types_text(_of(call)), separators=(",", ":")),
        "The same as JSON.",
    ),
    Attribute("QueueNames", "String[]", _queue_names, "Names of its queues."),
    Attribute("AllQueueNames", "String[]", _all_queue_names, "Names of its queues, remote ones too."),
    Attribute("RemoteQueueNames", "String[]", _remote_queue_names, "Names of queues of other brokers."),
    Attribute("BindingNames", "String[]", _binding_names, "Names of its queues, remote ones too, and diverts."),
    Attribute("QueueCount", "long", lambda call: len(_of(call).queues), "Queues."),
    Attribute("MessageCount", "long", _message_count, "Messages in its queues."),
    Attribute("NumberOfMessages", "long", _message_count, "The same, under an older name."),
    Attribute(
        "RoutedMessageCount",
        "long",
        lambda call: _of(call).routed_count - _of(call).unrouted_count,
        "Messages that a queue took, since the start.",
    ),
    Attribute(
        "UnRoutedMessageCount",
        "long",
        lambda call: _of(call).unrouted_count,
        "Messages that no queue took, since the start.",
    ),
    Attribute(
        "AddressSize", "long", lambda call: call.kernel.memory.address_bytes(call.name), "Bytes of its messages."
    ),
    Attribute(
        "AddressLimitPercent",
        "int",
        lambda call: limit_percent(call.kernel, _of(call)),
        "The same in percent of its limit, or of that of the broker.",
    ),
    Attribute("CurrentDuplicateIdCacheSize", "long", _duplicate_ids, "Ids for duplicate detection in force."),
    Attribute("Roles", "Object[]", lambda call: roles_of(call, call.name), "Its roles with their permissions."),
    Attribute("RolesAsJSON", "String", lambda call: roles_as_json(call, call.name), "The same as JSON."),
    Attribute("AutoCreated", "boolean", lambda call: _of(call).definition.auto_created, "Created on demand."),
    Attribute("Temporary", "boolean", _is_temporary, "It has temporary queues only."),
    Attribute("Internal", "boolean", lambda call: False, "Made by the broker for itself; none exists."),
    Attribute("Paused", "boolean", lambda call: _of(call).paused, "Its queues deliver nothing."),
    Attribute("RetroactiveResource", "boolean", lambda call: False, "Belongs to a retroactive address; none exists."),
)


def _purge(call: Call) -> Work:
    """Remove the messages of its queues. A refusal of one of them refuses the whole call."""
    names = [queue.name for queue in _of(call).queues]
    queues = [done(call.session.addresses.use_queue(name, Permission.CONSUME)) for name in names]
    total = 0
    for queue in queues:
        if queue.deleted:
            continue
        removed = yield from remove_all(call, queue)
        assert isinstance(removed, int)
        total += removed
    return total


def _send(call: Call, *arguments: Any) -> str:
    headers, type, body, durable, user, password, *rest = arguments
    return send(call, call.name, headers, type, body, durable, user, password, rest[0] if rest else None)


def _clear_duplicate_ids(call: Call) -> bool:
    done(call.session.addresses.forget_duplicate_ids(call.name))
    return True


def _pause(call: Call, persist: bool | None = False) -> None:
    done(call.session.addresses.pause_address(call.name, persist=bool(persist)))


def _resume(call: Call) -> None:
    done(call.session.addresses.resume_address(call.name))


def _block(call: Call) -> bool:
    done(call.session.addresses.block_address(call.name))
    call.kernel.inform(f"address {call.name!r} is blocked: its producers get no credit")
    return True


def _unblock(call: Call) -> None:
    done(call.session.addresses.unblock_address(call.name))
    call.kernel.inform(f"address {call.name!r} is not blocked any more")


_OPERATIONS = (
    *operations(_send, "Send a message to the address; return its id."),
    Operation("purge", (), "long", _purge, "Remove the messages of its queues.", changes=True),
    Operation("pause", (), "void", _pause, "Pause its queues, and those it gets later.", changes=True),
    Operation(
        "pause",
        (Parameter("persist", Kind.BOOLEAN),),
        "void",
        _pause,
        "With persist: after a restart, too.",
        changes=True,
    ),
    Operation("resume", (), "void", _resume, "Resume all its queues.", changes=True),
    Operation(
        "block",
        (),
        "boolean",
        _block,
        "Give its producers no credit, until it is unblocked or the broker restarts; return true.",
        changes=True,
    ),
    Operation("unblock", (), "void", _unblock, "Give its producers credit again.", changes=True),
    Operation(
        "clearDuplicateIdCache",
        (),
        "boolean",
        _clear_duplicate_ids,
        "Forget its ids for duplicate detection, for good; return true.",
        changes=True,
    ),
)


def _exists(kernel: Kernel, name: str) -> bool:
    return name in kernel.address_manager.addresses


ADDRESS = Control("address", _ATTRIBUTES, _OPERATIONS, _exists)
