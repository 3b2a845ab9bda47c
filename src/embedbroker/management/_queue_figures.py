"""Sums over the messages of a queue, which nothing counts as messages come and go.

Responsible for examining messages in portions, so that a long queue does not stop the broker. Other requests may be
carried out between two of them: what arrives, leaves or is settled meanwhile may count or not. Does not depend on how a
queue keeps its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TypeAlias

from embedbroker.kernel import Consumer, Message, Queue, Reference, Session

from ._registry import Attribute, Call
from ._texts import no_queue

__all__ = ["CONTENT_ATTRIBUTES", "HELD_ATTRIBUTES", "awaiting_commit", "transit_size"]

# Messages that are examined between two pauses: about the work of one message that is delivered.
_PORTION = 16
# The same for entries of which only the length counts.
_ENTRIES = 64
# Messages that one read of a queue returns, about.
_READ = 256

Measure: TypeAlias = Callable[[Message], int]
Count: TypeAlias = Generator[None, None, int]


def _of(call: Call) -> Queue:
    queue = call.kernel.address_manager.queues.get(call.name)
    if queue is None:
        raise no_queue(call.name)
    return queue


def _sum(references: Iterable[list[Reference]], measure: Measure) -> Count:
    total = 0
    for portion in references:
        # An empty portion, too, takes its turn: a queue may have any number of consumers.
        for first in range(0, max(len(portion), 1), _PORTION):
            total += sum([measure(reference.message) for reference in portion[first : first + _PORTION]])
            yield
    return total


def _size(message: Message) -> int:
    return message.encoded_size


def _one_if_durable(message: Message) -> int:
    return int(message.durable)


def _size_if_durable(message: Message) -> int:
    return message.encoded_size if message.durable else 0


# -- of a consumer ---------------------------------------------------------------------------------------------------


def transit_size(consumer: Consumer) -> Count:
    """Return the bytes of the messages that a consumer has in delivery."""
    return _sum(consumer.unsettled.portions(), _size)


def awaiting_commit(consumer: Consumer) -> Count:
    """Return the number of messages that the transaction of its session acknowledged."""
    transaction, count = consumer.owner.transaction if isinstance(consumer.owner, Session) else None, 0
    if transaction is None:
        return 0
    for number, (_queue, references, _outcome, taker) in enumerate(transaction.acknowledged):
        count += len(references) if taker is consumer else 0
        if not number % _ENTRIES:
            yield
    return count


# -- of a queue ------------------------------------------------------------------------------------------------------


def _held(call: Call) -> Iterator[list[Reference]]:
    """Return the messages in delivery, with those that undecided transactions acknowledged."""
    queue = _of(call)
    for consumer in list(queue.consumers):
        yield from consumer.unsettled.portions()
    sessions = [session for session in call.kernel.clients.sessions if isinstance(session, Session)]
    local = [session.transaction for session in sessions if session.transaction is not None]
    for transaction in dict.fromkeys([*local, *call.kernel.branches.transactions()]):
        if queue in transaction.taken_from:
            for taken, references in transaction.portions():
                yield references if taken is queue else []


def _waiting(queue: Queue) -> Iterator[list[Reference]]:
    """Return the messages that wait. Those deep in the backlog are restored for the look, and stay packed."""
    backlog, after = queue.backlog, -1
    until = backlog.last_position
    while found := backlog.behind(after, until, _READ):
        for first in range(0, len(found), _PORTION):
            yield [backlog.restored(packed) for packed in found[first : first + _PORTION]]
        after = found[-1][0]


def _all(call: Call) -> Iterator[list[Reference]]:
    queue = _of(call)
    if queue.scheduled is not None:
        yield [reference for _due_ms, reference in queue.scheduled.entries()]
    yield from _held(call)
    yield from _waiting(queue)


def _durable(call: Call, references: Iterable[list[Reference]], measure: Measure) -> object:
    """Return a sum over durable messages. None survives a restart in a queue that does not."""
    return _sum(references, measure) if _of(call).durable else 0


def _prepared_count(call: Call) -> Count:
    """Return how many messages prepared branches acknowledged."""
    queue, count = _of(call), 0
    for branch in list(call.kernel.branches.prepared()):
        if queue in branch.transaction.taken_from:
            for number, (taken, references) in enumerate(branch.transaction.portions()):
                count += len(references) if taken is queue else 0
                if not number % _ENTRIES:
                    yield
        yield
    return count


CONTENT_ATTRIBUTES = (
    Attribute(
        "DurableMessageCount",
        "long",
        lambda call: _durable(call, _all(call), _one_if_durable),
        "Those of them that survive a restart.",
    ),
    Attribute("PersistentSize", "long", lambda call: _sum(_all(call), _size), "The bytes of all of them."),
    Attribute(
        "DurablePersistentSize",
        "long",
        lambda call: _durable(call, _all(call), _size_if_durable),
        "The bytes of those that survive a restart.",
    ),
)

HELD_ATTRIBUTES = (
    Attribute("DeliveringSize", "long", lambda call: _sum(_held(call), _size), "Their bytes."),
    Attribute(
        "DurableDeliveringCount",
        "int",
        lambda call: _durable(call, _held(call), _one_if_durable),
        "Those of them that survive a restart.",
    ),
    Attribute(
        "DurableDeliveringSize",
        "long",
        lambda call: _durable(call, _held(call), _size_if_durable),
        "The bytes of these.",
    ),
    Attribute(
        "PreparedTransactionMessageCount", "int", _prepared_count, "Messages that XA branches in doubt acknowledged."
    ),
)
