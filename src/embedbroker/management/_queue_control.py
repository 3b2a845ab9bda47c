"""The control ``queue``: figures, contents and consumers of one queue."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any

from embedbroker.config import AddressSettings
from embedbroker.kernel import (
    Address,
    Bookmark,
    Kernel,
    Leaving,
    Message,
    Outcome,
    Permission,
    Queue,
    QueueUpdate,
    Reference,
    Refused,
)
from embedclient.errors import RemoteProtocolError

from ._client_lists import consumer_rows, consumers_of, sessions_of
from ._groups import GROUP_ATTRIBUTES, GROUP_OPERATIONS
from ._message_counters import QUEUE_COUNTER_OPERATIONS
from ._messages import BROWSE_MAX, first_message, matcher, message_map, search, shown
from ._paging import plain_text
from ._queue_figures import ATTEMPTS_ATTRIBUTE, CONTENT_ATTRIBUTES, HELD_ATTRIBUTES
from ._registry import Attribute, Call, Control, Kind, ManagementRefused, Operation, Parameter, Work, done
from ._rows import RESULT_CHARS_MAX, Rows
from ._scheduled import SCHEDULED_ATTRIBUTES, SCHEDULED_OPERATIONS
from ._sending import operations, send
from ._texts import ROUTING_TYPES, no_queue

__all__ = ["QUEUE", "remove_all"]

# Messages of a queue that are compared between two pauses.
_PORTION = 512


def _of(call: Call) -> Queue:
    queue = call.kernel.address_manager.queues.get(call.name)
    if queue is None:
        raise no_queue(call.name)
    return queue


def _consumed(call: Call) -> Queue:
    """Return the queue for changes, which require the permission to consume it."""
    return done(call.session.addresses.use_queue(call.name, Permission.CONSUME))


def _browsed(call: Call) -> Queue:
    """Return the queue for its contents, which require the permission to browse it."""
    return done(call.session.addresses.use_queue(call.name, Permission.BROWSE))


def _filter(call: Call) -> str | None:
    return _of(call).definition.filter or None


# -- the first message -----------------------------------------------------------------------------------------------


def _first_as_json(call: Call) -> str:
    queue = _browsed(call)
    message = first_message(queue)
    return json.dumps([{} if message is None else message_map(message)], ensure_ascii=False, separators=(",", ":"))


def _peek(call: Call) -> str:
    queue = _browsed(call)
    message = first_message(queue)
    # Not cut, as in Artemis.
    shown = None if message is None else message_map(message, RESULT_CHARS_MAX)
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _first_timestamp(call: Call) -> int | None:
    message = first_message(_of(call))
    return None if message is None else message.timestamp


def _first_age(call: Call) -> int | None:
    message = first_message(_of(call))
    return None if message is None else call.kernel.now_ms - message.timestamp


# -- figures ---------------------------------------------------------------------------------------------------------


def _settings_of(call: Call) -> AddressSettings:
    return call.kernel.settings.of(_of(call).definition.address)


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
    Attribute(
        "ConfigurationManaged",
        "boolean",
        lambda call: _of(call).definition.configuration_managed,
        "A configuration contained it.",
    ),
    Attribute("InternalQueue", "boolean", lambda call: _of(call).definition.internal, "Made by the broker for itself."),
    Attribute("LastValue", "boolean", lambda call: False, "Last-value queue; not available yet."),
    Attribute("LastValueKey", "String", lambda call: None, "Its property; null, as there are none yet."),
    Attribute("RingSize", "long", lambda call: -1, "Limit of a ring queue; -1, as there are none yet."),
    Attribute("ConsumersBeforeDispatch", "int", lambda call: 0, "It delivers to the first consumer."),
    Attribute("DelayBeforeDispatch", "long", lambda call: -1, "It delivers without a delay."),
    Attribute("RetroactiveResource", "boolean", lambda call: False, "Belongs to a retroactive address; none exists."),
    Attribute(
        "DeadLetterAddress",
        "String",
        lambda call: _settings_of(call).dead_letter_address,
        "Address of its dead letters; null: they are dropped.",
    ),
    Attribute(
        "ExpiryAddress",
        "String",
        lambda call: _settings_of(call).expiry_address,
        "Address of its expired messages; null: they are dropped.",
    ),
    Attribute("Paused", "boolean", lambda call: _of(call).is_paused, "It, or its address, delivers nothing."),
    Attribute(
        "PersistedPause", "boolean", lambda call: _of(call).definition.paused, "It is paused after a restart, too."
    ),
    Attribute("Enabled", "boolean", lambda call: _of(call).definition.enabled, "It takes messages."),
    Attribute("MessageCount", "long", lambda call: _of(call).message_count, "Messages that wait or are in delivery."),
    *CONTENT_ATTRIBUTES,
    Attribute("DeliveringCount", "int", lambda call: _of(call).delivering_count, "Messages in delivery."),
    *HELD_ATTRIBUTES,
    *SCHEDULED_ATTRIBUTES,
    *GROUP_ATTRIBUTES,
    Attribute("ConsumerCount", "int", lambda call: _of(call).consumer_count, "Consumers, without browsers."),
    Attribute("MessagesAdded", "long", lambda call: _of(call).added_count, "Messages added since the start."),
    Attribute(
        "MessagesAcknowledged",
        "long",
        lambda call: _of(call).acknowledged_count,
        "Messages acknowledged since the start, without expired and killed ones.",
    ),
    ATTEMPTS_ATTRIBUTE,
    Attribute("MessagesExpired", "long", lambda call: _of(call).expired_count, "Messages expired since the start."),
    Attribute("MessagesKilled", "long", lambda call: _of(call).killed_count, "Dead letters since the start."),
    Attribute("FirstMessageAsJSON", "String", _first_as_json, "The message that is next, as JSON."),
    Attribute("FirstMessageTimestamp", "Long", _first_timestamp, "Its time of sending; null without one."),
    Attribute("FirstMessageAge", "Long", _first_age, "Milliseconds since then; null without one."),
)


# -- contents --------------------------------------------------------------------------------------------------------


def _found(call: Call, filter_text: str | None) -> Generator[None, None, list[Message]]:
    queue = _browsed(call)
    found = yield from search(queue, matcher(call.kernel, filter_text))
    return [reference.message for reference in found]


def _json_of(messages: Iterable[Message]) -> str:
    rows = Rows()
    for message in messages:
        rows.add(message_map(message))
    return rows.text()


def _maps(call: Call, filter_text: str | None = None) -> Work:
    messages = yield from _found(call, filter_text)
    # Counted as text: rows of large properties take memory, too.
    return json.loads(_json_of(messages))


def _list_as_json(call: Call, filter_text: str | None) -> Work:
    messages = yield from _found(call, filter_text)
    return _json_of(messages)


def _browse_page(call: Call, page: int | None, page_size: int | None, filter_text: str | None = None) -> Work:
    """Return one page of the messages that match, as Artemis counts them: the skipped ones match, too."""
    queue = _browsed(call)
    matches = matcher(call.kernel, filter_text)
    size = max(page_size or 0, 0)
    start = (max(page or 1, 1) - 1) * size
    bookmark, rows, index = Bookmark(), Rows(), 0
    while index < start + size:
        reference, _budget = queue.backlog.browse(bookmark, 1 << 30)
        if reference is None:
            break
        if matches is None or matches(reference.message):
            if index >= start:
                rows.add(message_map(reference.message))
            index += 1
        yield
    return json.loads(rows.text())


def _count(call: Call, filter_text: str | None = None) -> Work:
    queue = _browsed(call)
    matches = matcher(call.kernel, filter_text)
    if matches is None:
        return queue.message_count
    found = yield from search(queue, matches)
    return len(found)


def _counts_json(messages: Iterable[Message], name: str) -> str:
    counts: dict[str, int] = {}
    for message in messages:
        try:
            value = message.property(name)
        except RemoteProtocolError:
            value = None
        key = "null" if value is None else str(shown(plain_text(value) if isinstance(value, bool) else value))
        counts[key] = counts.get(key, 0) + 1
    return json.dumps(counts, ensure_ascii=False, separators=(",", ":"))


def _count_groups(call: Call, filter_text: str | None, name: str | None) -> Work:
    """Count by the value of a property, as JSON; without a property, everything under ``null``."""
    if not name:
        count = yield from _count(call, filter_text)
        return json.dumps({"null": count}, separators=(",", ":"))
    messages = yield from _found(call, filter_text)
    return _counts_json(messages, name)


# -- contents in delivery --------------------------------------------------------------------------------------------


def _delivering(call: Call) -> dict[str, list[Message]]:
    """Return the first messages in delivery, by consumer.

    What a closed consumer got, and its transaction acknowledged, counts for its session.
    """
    queue = _browsed(call)
    found: dict[str, list[Message]] = {}
    for holder, message in islice(_in_delivery(call, queue), BROWSE_MAX):
        found.setdefault(holder, []).append(message)
    return found


def _in_delivery(call: Call, queue: Queue) -> Iterator[tuple[str, Message]]:
    for consumer in queue.consumers:
        session = consumer.owner.name if consumer.owner is not None else ""
        name = f"ServerConsumer [id={consumer.key}, session={session}]"
        for reference in consumer.unsettled.values():
            yield name, reference.message
    branches = call.kernel.branches.transactions()
    local = [session.transaction for session in sessions_of(call) if session.transaction is not None]
    for transaction in dict.fromkeys([*local, *branches]):
        if queue not in transaction.taken_from:
            continue
        for each, references, _outcome, taker in transaction.acknowledged:
            owner = None if taker is None else taker.owner
            # After a restart, a prepared transaction has no consumer.
            if each is not queue or taker is None or owner is None:
                continue
            if taker.closed:
                connection = "" if owner.connection is None else owner.connection.connection_id
                name = f"ServerSession [id={connection}:{owner.name}]"
            else:
                name = f"ServerConsumer [id={taker.key}, session={owner.name}]"
            for reference in references:
                yield name, reference.message


def _delivering_json(call: Call) -> str:
    rows, size = [], 0
    for holder, messages in _delivering(call).items():
        name = json.dumps(holder, ensure_ascii=False)
        rows.append(f'{{"consumerName":{name},"elements":{_json_of(messages)}}}')
        size += len(rows[-1])
        if size > RESULT_CHARS_MAX:
            raise ManagementRefused("the messages in delivery are too large for one result")
    return f"[{','.join(rows)}]"


def _delivering_maps(call: Call) -> dict[str, object]:
    return {row["consumerName"]: row["elements"] for row in json.loads(_delivering_json(call))}


def _count_delivering(call: Call, filter_text: str | None = None) -> int:
    matches = matcher(call.kernel, filter_text)
    if matches is None:
        return _of(call).delivering_count
    return sum([matches(message) for messages in _delivering(call).values() for message in messages])


def _count_delivering_groups(call: Call, filter_text: str | None, name: str | None) -> str:
    if not name:
        return json.dumps({"null": _count_delivering(call, filter_text)}, separators=(",", ":"))
    matches = matcher(call.kernel, filter_text)
    messages = [message for taken in _delivering(call).values() for message in taken]
    return _counts_json([message for message in messages if matches is None or matches(message)], name)


def _consumers(call: Call) -> Work:
    return consumer_rows(consumers_of(_of(call)))


# -- removal ---------------------------------------------------------------------------------------------------------


def _each(
    call: Call,
    queue: Queue,
    act: Callable[[Queue, Reference], None],
    matches: Callable[[Reference], bool] | None,
) -> Work:
    """Take out each waiting message that matches, let ``act`` end it, and return how many there were.

    ``matches`` decides just before a message is taken out; it raises ManagementRefused to end the work.
    """
    count = 0

    def is_taken(reference: Reference) -> bool:
        # Other requests are carried out between two portions.
        if queue.deleted:
            raise ManagementRefused(f"queue {queue.name!r} was deleted meanwhile")
        return matches is None or matches(reference)

    # Messages that arrive meanwhile stay, and nothing is delivered out of order.
    queue.hold()
    try:
        for reference in call.kernel.teardown.take_waiting(queue, is_taken):
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


def remove_all(call: Call, queue: Queue) -> Work:
    """Remove what waits in a queue that the session may consume; return the number of messages."""
    return _each(call, queue, _remove(call), None)


def _remove_all(call: Call) -> Work:
    return remove_all(call, _consumed(call))


def _remove_matching(call: Call, filter_text: str | None) -> Work:
    return _each(call, _consumed(call), _remove(call), _selected(call, filter_text))


def _remove_in_portions(call: Call, _flush_limit: int | None, filter_text: str | None) -> Work:
    return _remove_matching(call, filter_text)


def _expire_matching(call: Call, filter_text: str | None) -> Work:
    return _each(call, _consumed(call), _expire(call), _selected(call, filter_text))


def _give_up_matching(call: Call, filter_text: str | None) -> Work:
    return _each(call, _consumed(call), _give_up(call), _selected(call, filter_text))


def _one(
    call: Call,
    act: Callable[[Queue, Reference], None],
    message_id: int | None,
    matches: Callable[[Reference], bool] = lambda each: True,
) -> Work:
    """Return True if the message was there. One that a cursor pins stays, which is not the same as none."""
    count = yield from _each(
        call, _consumed(call), act, lambda each: each.message.message_id == message_id and matches(each)
    )
    if not count:
        yield from _refuse_pinned(call, message_id)
    return count == 1


def _refuse_pinned(call: Call, message_id: int | None) -> Generator[None, None, None]:
    queue, cursors = _of(call), call.kernel.cursors
    refused = cursors.refusal(queue)
    if refused is None:
        return
    after = -1
    while portion := queue.backlog.behind(after, cursors.exempt_through(queue), _PORTION):
        if any(entry[5] == message_id for entry in portion):
            raise ManagementRefused(f"message {message_id} is pinned: {refused.text}")
        after = portion[-1][0]
        yield


def _remove_one(call: Call, message_id: int | None) -> Work:
    return _one(call, _remove(call), message_id)


def _expire_one(call: Call, message_id: int | None) -> Work:
    return _one(call, _expire(call), message_id)


def _give_up_one(call: Call, message_id: int | None) -> Work:
    return _one(call, _give_up(call), message_id)


# -- moves -----------------------------------------------------------------------------------------------------------


def _send_refusal(call: Call, queue: Queue) -> Refused | None:
    """Return why the session must not send to one queue alone, as to its FQQN; None if it may."""
    return call.session.admit_send(f"{queue.definition.address}::{queue.name}")


def _target(call: Call, name: str | None) -> Queue:
    """Return the queue that a name or FQQN names. The session must be allowed to send to it."""
    wanted = (name or "").rpartition("::")[2]
    target = call.kernel.address_manager.queues.get(wanted)
    if target is None:
        raise ManagementRefused(f"AMQ229049: No queue found for {wanted[:200]}")
    refused = _send_refusal(call, target)
    if refused is not None:
        raise ManagementRefused(refused.text)
    if target.name == call.name:
        raise ManagementRefused(f"queue {target.name!r} must not be the target of a move from it")
    _check_takes_messages(target)
    return target


def _check_takes_messages(target: Queue) -> None:
    """Raise ManagementRefused if a queue is deleted or disabled, which may happen between two portions of a move."""
    if target.deleted:
        raise ManagementRefused(f"queue {target.name!r} was deleted meanwhile: messages that were not moved stay")
    if not target.definition.enabled:
        raise ManagementRefused(f"queue {target.name!r} is disabled and takes no messages: enable it first")


def _mover(call: Call, target: Queue, *, drops_duplicates: bool | None = False) -> Callable[[Queue, Reference], None]:
    """Return what moves a message to a queue, or drops one whose duplicate id is in force at its address."""
    address, duplicates = target.definition.address, call.kernel.duplicates

    def act(queue: Queue, reference: Reference) -> None:
        if drops_duplicates:
            duplicate_id = _duplicate_id(reference)
            if duplicate_id is not None and duplicates.is_in_force(_address_of(call, target), duplicate_id):
                call.kernel.inform(
                    f"queue {queue.name!r}: message {reference.message.message_id} is dropped, {address!r} has its "
                    "duplicate id already"
                )
                call.kernel.removal.leave(queue, (reference,), Leaving.REMOVED)
                return
        call.kernel.mover.move(queue, reference, address, Outcome.ACCEPTED, None, destination=target)

    return act


def _address_of(call: Call, target: Queue) -> Address:
    return call.kernel.address_manager.addresses[target.definition.address]


def _duplicate_id(reference: Reference) -> bytes | None:
    try:
        return reference.message.duplicate_id
    except RemoteProtocolError:
        return None


def _move_one(
    call: Call, message_id: int | None, queue_name: str | None, rejects_duplicates: bool | None = False
) -> Work:
    """Move one message. A duplicate stays, and the call fails, as in Artemis; `_move_some` drops it."""
    target = _target(call, queue_name)

    def is_admitted(reference: Reference) -> bool:
        _check_takes_messages(target)
        duplicate_id = _duplicate_id(reference) if rejects_duplicates else None
        if duplicate_id is not None and call.kernel.duplicates.is_in_force(_address_of(call, target), duplicate_id):
            raise ManagementRefused(
                f"Duplicate message detected - message will not be routed. Message {message_id} stays: address "
                f"{target.definition.address!r} has its duplicate id already"
            )
        return True

    return _one(call, _mover(call, target), message_id, is_admitted)


def _move_matching(
    call: Call, filter_text: str | None, queue_name: str | None, rejects_duplicates: bool | None = False
) -> Work:
    return _move_some(call, None, filter_text, queue_name, rejects_duplicates)


def _move_some(
    call: Call,
    _flush_limit: int | None,
    filter_text: str | None,
    queue_name: str | None,
    rejects_duplicates: bool | None = False,
    limit: int | None = None,
) -> Work:
    """Move what matches, ``limit`` messages at most; -1 or null: all. Duplicates count, and are dropped."""
    selected, left = _selected(call, filter_text), -1 if limit is None else limit
    target = _target(call, queue_name)

    def matches(reference: Reference) -> bool:
        nonlocal left
        if left == 0 or (selected is not None and not selected(reference)):
            return False
        _check_takes_messages(target)
        left -= 1
        return True

    return _each(call, _consumed(call), _mover(call, target, drops_duplicates=rejects_duplicates), matches)


# -- copies and priorities -------------------------------------------------------------------------------------------


def _copy_one(call: Call, message_id: int | None, queue_name: str | None) -> Work:
    """Copy one waiting message; it stays where it is."""
    queue = _browsed(call)
    target = _target(call, queue_name)
    bookmark = Bookmark()
    while True:
        reference, _budget = queue.backlog.browse(bookmark, 1 << 30)
        if reference is None:
            return False
        if reference.message.message_id == message_id:
            _check_takes_messages(target)
            memory = call.kernel.memory
            if memory.used_bytes >= memory.limit_bytes:
                raise ManagementRefused("the broker is full: there is no room for a copy")
            try:
                call.kernel.mover.copy(reference.message, target)
            except RemoteProtocolError as error:
                raise ManagementRefused(f"message {message_id} cannot be copied: {error}") from None
            return True
        yield


def _changing(call: Call, priority: int | None) -> Callable[[Queue, Reference], None]:
    if priority is None or not 0 <= priority <= 9:
        raise ManagementRefused(
            f"AMQ229048: invalid new Priority value: {priority}. It must be between 0 and 9 (both included)"
        )

    def act(queue: Queue, reference: Reference) -> None:
        call.kernel.mover.change_priority(queue, reference, priority)

    return act


def _change_priority(call: Call, message_id: int | None, priority: int | None) -> Work:
    return _one(call, _changing(call, priority), message_id)


def _change_priorities(call: Call, filter_text: str | None, priority: int | None) -> Work:
    return _each(call, _consumed(call), _changing(call, priority), _selected(call, filter_text))


def _send(call: Call, *arguments: Any) -> str:
    """Send to this queue of its address alone."""
    headers, type, body, durable, user, password, *rest = arguments
    address = f"{_of(call).definition.address}::{call.name}"
    return send(call, address, headers, type, body, durable, user, password, rest[0] if rest else None)


class _Retry:
    """Move messages back to the queues that they left, as far as those take messages and the session may send there.

    The permission is checked once for each of those queues, because each refusal is reported.
    """

    __slots__ = ("_admitted", "_call")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._admitted: dict[Queue, bool] = {}

    def matches(self, reference: Reference) -> bool:
        """Return True if a message can be moved back."""
        return self._origin(reference.message) is not None

    def act(self, queue: Queue, reference: Reference) -> None:
        """Move a message that matches."""
        target = self._origin(reference.message)
        assert target is not None
        _mover(self._call, target)(queue, reference)

    def _origin(self, message: Message) -> Queue | None:
        try:
            address, name = message.property("_AMQ_ORIG_ADDRESS"), message.property("_AMQ_ORIG_QUEUE")
        except RemoteProtocolError:
            return None
        if not isinstance(address, str) or not isinstance(name, str) or name == self._call.name:
            return None
        queue = self._call.kernel.address_manager.queues.get(name)
        if queue is None or not queue.definition.enabled:
            return None
        if queue not in self._admitted:
            self._admitted[queue] = _send_refusal(self._call, queue) is None
        return queue if self._admitted[queue] else None


def _retry_all(call: Call) -> Work:
    retry = _Retry(call)
    return _each(call, _consumed(call), retry.act, retry.matches)


def _retry_one(call: Call, message_id: int | None) -> Work:
    retry = _Retry(call)
    return _one(call, retry.act, message_id, retry.matches)


def _flush(_call: Call) -> None:
    """Return at once: a queue has no thread whose work is not done yet."""


def _pause(call: Call, persist: bool | None = False) -> None:
    done(call.session.addresses.pause_queue(call.name, persist=bool(persist)))


def _resume(call: Call) -> None:
    done(call.session.addresses.resume_queue(call.name))


def _enable(call: Call) -> None:
    done(call.session.addresses.update_queue(call.name, QueueUpdate(enabled=True)))


def _disable(call: Call) -> None:
    done(call.session.addresses.update_queue(call.name, QueueUpdate(enabled=False)))


def _reset_added(call: Call) -> None:
    _consumed(call).added_count = 0


def _reset_acknowledged(call: Call) -> None:
    queue = _consumed(call)
    # As in Artemis, attempts count on.
    queue.withdrawn_count += queue.acknowledged_count
    queue.acknowledged_count = 0


def _reset_expired(call: Call) -> None:
    queue = _consumed(call)
    queue.withdrawn_count += queue.expired_count
    queue.expired_count = 0


def _reset_killed(call: Call) -> None:
    queue = _consumed(call)
    queue.withdrawn_count += queue.killed_count
    queue.killed_count = 0


_FILTER = Parameter("filter", Kind.TEXT)
_ID = Parameter("messageID", Kind.LONG)
_FLUSH = Parameter("flushLimit", Kind.INTEGER)
_PERSIST = Parameter("persist", Kind.BOOLEAN)
_TARGET = Parameter("otherQueueName", Kind.TEXT)
_PAGE, _PAGE_SIZE = Parameter("page", Kind.INTEGER), Parameter("pageSize", Kind.INTEGER)
_GROUP_BY = Parameter("groupByProperty", Kind.TEXT)
_REJECT = Parameter("rejectDuplicates", Kind.BOOLEAN)
_PRIORITY = Parameter("newPriority", Kind.INTEGER)

_OPERATIONS = (
    Operation("listMessages", (_FILTER,), "Map[]", _maps, "Waiting messages, at most 200."),
    Operation("listMessagesAsJSON", (_FILTER,), "String", _list_as_json, "The same as JSON."),
    Operation("browse", (), "Map[]", _maps, "Waiting messages, at most 200."),
    Operation("browse", (_FILTER,), "Map[]", _maps, "Those that match among the first 200."),
    Operation("browse", (_PAGE, _PAGE_SIZE), "Map[]", _browse_page, "A page of the waiting messages."),
    Operation("browse", (_PAGE, _PAGE_SIZE, _FILTER), "Map[]", _browse_page, "A page of those that match."),
    Operation("listDeliveringMessages", (), "Map", _delivering_maps, "Messages in delivery by consumer, at most 200."),
    Operation("listDeliveringMessagesAsJSON", (), "String", _delivering_json, "The same as JSON."),
    Operation(
        "peekFirstMessageAsJSON", (), "String", _peek, "The message that is next, as JSON; the text null without one."
    ),
    *SCHEDULED_OPERATIONS,
    Operation("countMessages", (), "long", _count, "Messages that wait or are in delivery."),
    Operation("countMessages", (_FILTER,), "long", _count, "Those that match among the first 200 that wait."),
    Operation(
        "countMessages", (_FILTER, _GROUP_BY), "String", _count_groups, "The same by the value of a property, as JSON."
    ),
    Operation("countDeliveringMessages", (), "long", _count_delivering, "Messages in delivery."),
    Operation(
        "countDeliveringMessages",
        (_FILTER,),
        "long",
        _count_delivering,
        "Those that match among the first 200 of them.",
    ),
    Operation(
        "countDeliveringMessages",
        (_FILTER, _GROUP_BY),
        "String",
        _count_delivering_groups,
        "The same by the value of a property, as JSON.",
    ),
    Operation("listConsumersAsJSON", (), "String", _consumers, "Consumers and browsers as JSON."),
    *GROUP_OPERATIONS,
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
    Operation("moveMessages", (_FLUSH, _FILTER, _TARGET), "int", _move_some, "The same.", changes=True),
    Operation(
        "moveMessage",
        (_ID, _TARGET, _REJECT),
        "boolean",
        _move_one,
        "The same; one that is a duplicate stays.",
        changes=True,
    ),
    Operation(
        "moveMessages",
        (_FILTER, _TARGET, _REJECT),
        "int",
        _move_matching,
        "The same; duplicates are dropped.",
        changes=True,
    ),
    Operation(
        "moveMessages",
        (_FLUSH, _FILTER, _TARGET, _REJECT),
        "int",
        _move_some,
        "The same; duplicates are dropped.",
        changes=True,
    ),
    Operation(
        "moveMessages",
        (_FLUSH, _FILTER, _TARGET, _REJECT, Parameter("messageCount", Kind.INTEGER)),
        "int",
        _move_some,
        "Move so many messages at most.",
        changes=True,
    ),
    Operation("copyMessage", (_ID, _TARGET), "boolean", _copy_one, "Copy one message to a queue.", changes=True),
    Operation(
        "changeMessagePriority",
        (_ID, _PRIORITY),
        "boolean",
        _change_priority,
        "Give one message another priority, 0 to 9, and a new id.",
        changes=True,
    ),
    Operation(
        "changeMessagesPriority",
        (_FILTER, _PRIORITY),
        "int",
        _change_priorities,
        "Give what matches another priority.",
        changes=True,
    ),
    *operations(_send, "Send a message to this queue alone; return its id."),
    Operation("retryMessage", (_ID,), "boolean", _retry_one, "Move one message back to its queue.", changes=True),
    Operation("retryMessages", (), "int", _retry_all, "Move messages back to the queues they left.", changes=True),
    Operation("flushExecutor", (), "void", _flush, "Return at once: between two requests, no work is under way."),
    Operation("pause", (), "void", _pause, "Deliver nothing until it is resumed, or until a restart.", changes=True),
    Operation("pause", (_PERSIST,), "void", _pause, "With persist: after a restart, too.", changes=True),
    Operation("resume", (), "void", _resume, "Deliver again, unless its address is paused.", changes=True),
    Operation("enable", (), "void", _enable, "Take messages again.", changes=True),
    Operation("disable", (), "void", _disable, "Take no messages, also after a restart.", changes=True),
    Operation("resetMessagesAdded", (), "void", _reset_added, "Count from 0 again.", changes=True),
    Operation("resetMessagesAcknowledged", (), "void", _reset_acknowledged, "Count from 0 again.", changes=True),
    Operation("resetMessagesExpired", (), "void", _reset_expired, "Count from 0 again.", changes=True),
    Operation("resetMessagesKilled", (), "void", _reset_killed, "Count from 0 again.", changes=True),
    *QUEUE_COUNTER_OPERATIONS,
)


def _exists(kernel: Kernel, name: str) -> bool:
    return name in kernel.address_manager.queues


QUEUE = Control("queue", _ATTRIBUTES, _OPERATIONS, _exists)
