"""The control ``queue``: figures, contents and consumers of one queue."""

from __future__ import annotations

import json
from collections.abc import Callable

from embedbroker.kernel import Kernel, Leaving, Message, Outcome, Permission, Queue, Reference
from embedclient.errors import RemoteProtocolError

from ._client_lists import consumer_json, consumers_of
from ._messages import first_message, matcher, message_map, search
from ._registry import Attribute, Call, Control, Kind, ManagementRefused, Operation, Parameter, Work, done
from ._texts import ROUTING_TYPES, no_queue

__all__ = ["QUEUE", "remove_all"]


def _of(call: Call) -> Queue:
    queue = call.kernel.address_manager.queues.get(call.name)
    if queue is None:
        raise no_queue(call.name)
    return queue


def _filter(call: Call) -> str | None:
    return _of(call).definition.filter or None


# -- the first message -----------------------------------------------------------------------------------------------


def _first_as_json(call: Call) -> str:
    queue = done(call.session.use_queue(call.name, Permission.BROWSE))
    message = first_message(queue)
    return json.dumps([{} if message is None else message_map(message)], ensure_ascii=False, separators=(",", ":"))


def _peek(call: Call) -> str | None:
    queue = done(call.session.use_queue(call.name, Permission.BROWSE))
    message = first_message(queue)
    return None if message is None else json.dumps(message_map(message), ensure_ascii=False, separators=(",", ":"))


def _first_timestamp(call: Call) -> int | None:
    message = first_message(_of(call))
    return None if message is None else message.timestamp


def _first_age(call: Call) -> int | None:
    message = first_message(_of(call))
    return None if message is None else call.kernel.now_ms - message.timestamp


_ATTRIBUTES = (
    Attribute("ID", "long", lambda call: _of(call).id, "Id in the journal."),
    Attribute("Name", "String", lambda call: _of(call).name, "Name."),
    Attribute("Address", "String", lambda call: _of(call).definition.address, "Address that it is bound to."),
    Attribute(
        "RoutingType",
        "String",
        lambda call: ROUTING_TYPES[_of(call).definition.routing_type],
        "ANYCAST or MULTICAST.",
    ),
    Attribute("Filter", "String", _filter, "Selector of the queue; null without one."),
    Attribute("User", "String", lambda call: _of(call).definition.user, "User that created it; null without one."),
    Attribute("Durable", "boolean", lambda call: _of(call).durable, "It survives a restart."),
    Attribute("Temporary", "boolean", lambda call: _of(call).definition.temporary, "It ends with its connection."),
    Attribute("AutoDelete", "boolean", lambda call: _of(call).definition.auto_delete, "It is deleted when not used."),
    Attribute(
        "MaxConsumers", "int", lambda call: _of(call).definition.max_consumers, "Maximum of consumers; -1 for no limit."
    ),
    Attribute("Exclusive", "boolean", lambda call: _of(call).definition.exclusive, "One consumer gets everything."),
    Attribute(
        "PurgeOnNoConsumers",
        "boolean",
        lambda call: _of(call).definition.purge_on_no_consumers,
        "It is purged when its last consumer closes.",
    ),
    Attribute("InternalQueue", "boolean", lambda call: False, "Made by the broker for itself; none exists."),
    Attribute("LastValue", "boolean", lambda call: False, "Last-value queue; not available yet."),
    Attribute("Paused", "boolean", lambda call: False, "Deliveries are paused; that is not possible yet."),
    Attribute("Enabled", "boolean", lambda call: True, "It takes messages; it cannot be disabled yet."),
    Attribute("MessageCount", "long", lambda call: _of(call).message_count, "Messages that wait or are in delivery."),
    Attribute("DeliveringCount", "int", lambda call: _of(call).delivering_count, "Messages in delivery."),
    Attribute("ScheduledCount", "long", lambda call: _of(call).scheduled_count, "Messages for later delivery."),
    Attribute("ConsumerCount", "int", lambda call: _of(call).consumer_count, "Consumers, without browsers."),
    Attribute("MessagesAdded", "long", lambda call: _of(call).added_count, "Messages added since the start."),
    Attribute(
        "MessagesAcknowledged",
        "long",
        lambda call: _of(call).acknowledged_count,
        "Messages acknowledged since the start, dead letters too.",
    ),
    Attribute("MessagesExpired", "long", lambda call: _of(call).expired_count, "Messages expired since the start."),
    Attribute("MessagesKilled", "long", lambda call: _of(call).killed_count, "Dead letters since the start."),
    Attribute("FirstMessageAsJSON", "String", _first_as_json, "The message that is next, as JSON."),
    Attribute("FirstMessageTimestamp", "Long", _first_timestamp, "Its time of sending; null without one."),
    Attribute("FirstMessageAge", "Long", _first_age, "Milliseconds since then; null without one."),
)


# -- contents --------------------------------------------------------------------------------------------------------


def _maps(call: Call, filter_text: str | None) -> Work:
    queue = done(call.session.use_queue(call.name, Permission.BROWSE))
    found = yield from search(queue, matcher(call.kernel, filter_text))
    return [message_map(reference.message) for reference in found]


def _list_as_json(call: Call, filter_text: str | None) -> Work:
    rows = yield from _maps(call, filter_text)
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def _count(call: Call, filter_text: str | None = None) -> Work:
    queue = done(call.session.use_queue(call.name, Permission.BROWSE))
    matches = matcher(call.kernel, filter_text)
    if matches is None:
        return queue.message_count
    found = yield from search(queue, matches)
    return len(found)


def _count_delivering(call: Call, _filter_text: str | None = None) -> int:
    return _of(call).delivering_count


def _consumers(call: Call) -> str:
    rows = [consumer_json(session, consumer) for session, consumer in consumers_of(_of(call))]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


# -- removal ---------------------------------------------------------------------------------------------------------


def _each(
    call: Call,
    name: str,
    act: Callable[[Queue, Reference], None],
    matches: Callable[[Reference], bool] | None,
) -> Work:
    """Take out each waiting message that matches, let ``act`` end it, and return how many there were."""
    queue = done(call.session.use_queue(name, Permission.CONSUME))
    count = 0
    # Messages that arrive meanwhile stay, and nothing is delivered out of order.
    queue.hold()
    try:
        for reference in call.kernel.teardown.take_waiting(queue, matches):
            if reference is not None:
                act(queue, reference)
                count += 1
            yield
    finally:
        queue.let_go()
    return count


def _remove(call: Call) -> Callable[[Queue, Reference], None]:
    def act(queue: Queue, reference: Reference) -> None:
        call.kernel.removal.leave(queue, (reference,), Leaving.REMOVED)

    return act


def _expire(call: Call) -> Callable[[Queue, Reference], None]:
    def act(queue: Queue, reference: Reference) -> None:
        call.kernel.expiry.move(queue, reference)

    return act


def _give_up(call: Call) -> Callable[[Queue, Reference], None]:
    def act(queue: Queue, reference: Reference) -> None:
        call.kernel.dead_letters.move(queue, reference)

    return act


def _selected(call: Call, filter_text: str | None) -> Callable[[Reference], bool] | None:
    matches = matcher(call.kernel, filter_text)
    return None if matches is None else lambda reference: matches(reference.message)


def remove_all(call: Call, name: str) -> Work:
    """Remove what waits in a queue; return the number of messages."""
    return _each(call, name, _remove(call), None)


def _remove_all(call: Call) -> Work:
    return remove_all(call, call.name)


def _remove_matching(call: Call, filter_text: str | None) -> Work:
    return _each(call, call.name, _remove(call), _selected(call, filter_text))


def _remove_in_portions(call: Call, _flush_limit: int | None, filter_text: str | None) -> Work:
    return _remove_matching(call, filter_text)


def _expire_matching(call: Call, filter_text: str | None) -> Work:
    return _each(call, call.name, _expire(call), _selected(call, filter_text))


def _give_up_matching(call: Call, filter_text: str | None) -> Work:
    return _each(call, call.name, _give_up(call), _selected(call, filter_text))


def _one(call: Call, act: Callable[[Queue, Reference], None], message_id: int | None) -> Work:
    count = yield from _each(call, call.name, act, lambda each: each.message.message_id == message_id)
    return count == 1


def _remove_one(call: Call, message_id: int | None) -> Work:
    return _one(call, _remove(call), message_id)


def _expire_one(call: Call, message_id: int | None) -> Work:
    return _one(call, _expire(call), message_id)


def _give_up_one(call: Call, message_id: int | None) -> Work:
    return _one(call, _give_up(call), message_id)


# -- moves -----------------------------------------------------------------------------------------------------------


def _target(call: Call, name: str | None) -> Queue:
    """Return the queue that a name or FQQN names. The session must be allowed to send to its address."""
    wanted = (name or "").rpartition("::")[2]
    target = call.kernel.address_manager.queues.get(wanted)
    if target is None:
        raise ManagementRefused(f"AMQ229049: No queue found for {wanted[:200]}")
    refused = call.session.admit_send(target.definition.address)
    if refused is not None:
        raise ManagementRefused(refused.text)
    if target.name == call.name:
        raise ManagementRefused(f"queue {target.name!r} must not be the target of a move from it")
    return target


def _mover(call: Call, target: Queue) -> Callable[[Queue, Reference], None]:
    def act(queue: Queue, reference: Reference) -> None:
        address = target.definition.address
        call.kernel.mover.move(queue, reference, address, Outcome.ACCEPTED, None, destination=target)

    return act


def _move_one(call: Call, message_id: int | None, queue_name: str | None) -> Work:
    return _one(call, _mover(call, _target(call, queue_name)), message_id)


def _move_matching(call: Call, filter_text: str | None, queue_name: str | None) -> Work:
    return _each(call, call.name, _mover(call, _target(call, queue_name)), _selected(call, filter_text))


def _move_in_portions(call: Call, _flush_limit: int | None, filter_text: str | None, queue_name: str | None) -> Work:
    return _move_matching(call, filter_text, queue_name)


def _origin(call: Call, message: Message) -> Queue | None:
    """Return the queue that a message left; None if it has no origin, or its queue no longer exists."""
    try:
        address, name = message.property("_AMQ_ORIG_ADDRESS"), message.property("_AMQ_ORIG_QUEUE")
    except RemoteProtocolError:
        return None
    if not isinstance(address, str) or not isinstance(name, str) or name == call.name:
        return None
    queue = call.kernel.address_manager.queues.get(name)
    if queue is None or call.session.admit_send(queue.definition.address) is not None:
        return None
    return queue


def _retrying(call: Call) -> Callable[[Queue, Reference], None]:
    def act(queue: Queue, reference: Reference) -> None:
        target = _origin(call, reference.message)
        assert target is not None
        _mover(call, target)(queue, reference)

    return act


def _retry_all(call: Call) -> Work:
    return _each(call, call.name, _retrying(call), lambda each: _origin(call, each.message) is not None)


def _retry_one(call: Call, message_id: int | None) -> Work:
    def matches(reference: Reference) -> bool:
        return reference.message.message_id == message_id and _origin(call, reference.message) is not None

    count = yield from _each(call, call.name, _retrying(call), matches)
    return count == 1


def _editable(call: Call) -> Queue:
    return done(call.session.use_queue(call.name, Permission.CONSUME))


def _reset_added(call: Call) -> None:
    _editable(call).added_count = 0


def _reset_acknowledged(call: Call) -> None:
    _editable(call).acknowledged_count = 0


def _reset_expired(call: Call) -> None:
    _editable(call).expired_count = 0


def _reset_killed(call: Call) -> None:
    _editable(call).killed_count = 0


_FILTER = Parameter("filter", Kind.TEXT)
_ID = Parameter("messageID", Kind.LONG)
_FLUSH = Parameter("flushLimit", Kind.INTEGER)
_TARGET = Parameter("otherQueueName", Kind.TEXT)

_OPERATIONS = (
    Operation("listMessages", (_FILTER,), "Map[]", _maps, "Waiting messages, at most 200."),
    Operation("listMessagesAsJSON", (_FILTER,), "String", _list_as_json, "The same as JSON."),
    Operation("peekFirstMessageAsJSON", (), "String", _peek, "The message that is next, as JSON; null without one."),
    Operation("countMessages", (), "long", _count, "Messages that wait or are in delivery."),
    Operation("countMessages", (_FILTER,), "long", _count, "Those that match among the first 200 that wait."),
    Operation("countDeliveringMessages", (), "long", _count_delivering, "Messages in delivery."),
    Operation("listConsumersAsJSON", (), "String", _consumers, "Consumers and browsers as JSON."),
    Operation("removeAllMessages", (), "int", _remove_all, "Remove what waits; return how many.", changes=True),
    Operation("removeMessages", (_FILTER,), "int", _remove_matching, "Remove what matches.", changes=True),
    Operation("removeMessages", (_FLUSH, _FILTER), "int", _remove_in_portions, "The same.", changes=True),
    Operation("removeMessage", (_ID,), "boolean", _remove_one, "Remove one message.", changes=True),
    Operation("expireMessages", (_FILTER,), "int", _expire_matching, "Expire what matches.", changes=True),
    Operation("expireMessage", (_ID,), "boolean", _expire_one, "Expire one message.", changes=True),
    Operation(
        "sendMessagesToDeadLetterAddress",
        (_FILTER,),
        "int",
        _give_up_matching,
        "Make dead letters of what matches.",
        changes=True,
    ),
    Operation(
        "sendMessageToDeadLetterAddress",
        (_ID,),
        "boolean",
        _give_up_one,
        "Make a dead letter of one message.",
        changes=True,
    ),
    Operation("moveMessage", (_ID, _TARGET), "boolean", _move_one, "Move one message to a queue.", changes=True),
    Operation("moveMessages", (_FILTER, _TARGET), "int", _move_matching, "Move what matches.", changes=True),
    Operation("moveMessages", (_FLUSH, _FILTER, _TARGET), "int", _move_in_portions, "The same.", changes=True),
    Operation("retryMessage", (_ID,), "boolean", _retry_one, "Move one message back to its queue.", changes=True),
    Operation("retryMessages", (), "int", _retry_all, "Move messages back to the queues they left.", changes=True),
    Operation("resetMessagesAdded", (), "void", _reset_added, "Count from 0 again.", changes=True),
    Operation("resetMessagesAcknowledged", (), "void", _reset_acknowledged, "Count from 0 again.", changes=True),
    Operation("resetMessagesExpired", (), "void", _reset_expired, "Count from 0 again.", changes=True),
    Operation("resetMessagesKilled", (), "void", _reset_killed, "Count from 0 again.", changes=True),
)


def _exists(kernel: Kernel, name: str) -> bool:
    return name in kernel.address_manager.queues


QUEUE = Control("queue", _ATTRIBUTES, _OPERATIONS, _exists)
