"""Sums over the messages of a queue, which nothing counts as messages come and go.

Responsible for examining messages in portions, so that a long queue does not stop the broker. Other requests may be
carried out between two of them: what arrives, leaves, is delivered or returns meanwhile may count or not, but never
twice. Does not depend on how a queue keeps its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from attrs import frozen

from embedbroker.kernel import Consumer, Outcome, Queue, Reference, Session, Transaction
from embedclient.model import Encoding

from ._registry import Attribute, Call
from ._texts import no_queue

__all__ = ["ATTEMPTS_ATTRIBUTE", "CONTENT_ATTRIBUTES", "HELD_ATTRIBUTES", "awaiting_commit", "transit_size"]

# Messages that are examined between two pauses: about the work of one message that is delivered.
_PORTION = 16
# The same for entries of which only the length counts.
_ENTRIES = 64
# Positions that share one mask, as a power of two.
_MASK_BITS = 8
# Messages that one read of a queue returns, about.
_READ = 256

# The stored bytes of a message in this encoding are the whole message.
_CORE = int(Encoding.CORE)

Count: TypeAlias = Generator[None, None, int]


def _of(call: Call) -> Queue:
    queue = call.kernel.address_manager.queues.get(call.name)
    if queue is None:
        raise no_queue(call.name)
    return queue


@frozen
class _Measure:
    """Return the part of a message in a sum: from its size, and from whether it is durable."""

    part: Callable[[int, bool], int]
    needs_size: bool = True


_SIZE = _Measure(lambda size, durable: size)
_DURABLE_SIZE = _Measure(lambda size, durable: size if durable else 0)
_DURABLE_COUNT = _Measure(lambda size, durable: int(durable), needs_size=False)


class _Counted:
    """Hold the positions of the messages in a sum: a message keeps its position when it returns or is delivered.

    Each costs about a bit where positions are dense, and no step of a long sum copies all of them.
    """

    __slots__ = ("_masks",)

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}

    def __contains__(self, position: int) -> bool:
        return bool(self._masks.get(position >> _MASK_BITS, 0) >> (position & (1 << _MASK_BITS) - 1) & 1)

    def add(self, position: int) -> bool:
        """Add a position; return False if it is here already."""
        mask, bit = self._masks.get(position >> _MASK_BITS, 0), 1 << (position & (1 << _MASK_BITS) - 1)
        self._masks[position >> _MASK_BITS] = mask | bit
        return not mask & bit


def _sum(references: Iterable[Sequence[Reference]], measure: _Measure, counted: _Counted | None = None) -> Count:
    """Return a sum over messages of one queue, and add their positions to those that are counted."""
    total, part = 0, measure.part
    counted = _Counted() if counted is None else counted
    for portion in references:
        # An empty portion, too, takes its turn: a queue may have any number of consumers.
        for first in range(0, max(len(portion), 1), _PORTION):
            found = portion[first : first + _PORTION]
            messages = [reference.message for reference in found if counted.add(reference.position)]
            total += sum([part(message.encoded_size, message.durable) for message in messages])
            yield
    return total


def _sum_of_waiting(queue: Queue, measure: _Measure, counted: _Counted) -> Count:
    """Return a sum over the messages that wait and are not counted yet. Those deep in the backlog stay packed."""
    backlog, after, total = queue.backlog, -1, 0
    until = backlog.last_position
    while found := backlog.behind(after, until, _READ):
        for number, packed in enumerate(found):
            position, _deliveries, _expiration, encoding, stored, _message_id, durable = packed
            size = len(stored)
            is_new = position not in counted
            is_restored = is_new and measure.needs_size and encoding != _CORE
            if is_restored:
                size = backlog.restored(packed).message.encoded_size
            total += measure.part(size, durable) if is_new else 0
            # To restore a message costs as much as to deliver it.
            if is_restored or not number % _PORTION:
                yield
        after = found[-1][0]
    return total


# -- of a consumer ---------------------------------------------------------------------------------------------------


def transit_size(consumer: Consumer) -> Count:
    """Return the bytes of the messages that a consumer has in delivery."""
    return _sum(consumer.unsettled.portions(), _SIZE)


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


def _undecided(call: Call) -> list[Transaction]:
    """Return the transactions that are not decided: those of sessions and of branches."""
    sessions = [session for session in call.kernel.clients.sessions if isinstance(session, Session)]
    local = [session.transaction for session in sessions if session.transaction is not None]
    return list(dict.fromkeys([*local, *call.kernel.branches.transactions()]))


def _held(call: Call) -> Iterator[list[Reference]]:
    """Return the messages in delivery, with those that undecided transactions acknowledged."""
    queue = _of(call)
    for consumer in list(queue.consumers):
        yield from consumer.unsettled.portions()
    for transaction in _undecided(call):
        if queue in transaction.taken_from:
            for taken, references in transaction.portions():
                yield references if taken is queue else []


def _scheduled(queue: Queue) -> Iterator[list[Reference]]:
    """Return the messages for later delivery, as of the first portion: the schedule may change behind it."""
    entries = iter(queue.scheduled.entries() if queue.scheduled is not None else ())
    while portion := [reference for _due_ms, reference in islice(entries, _PORTION)]:
        yield portion


def _sum_of_all(call: Call, measure: _Measure) -> Count:
    queue, counted = _of(call), _Counted()
    total = yield from _sum(_scheduled(queue), measure, counted)
    total += yield from _sum(_held(call), measure, counted)
    # Last, since these alone may be too many to hold: none of them is examined twice.
    total += yield from _sum_of_waiting(queue, measure, counted)
    return total


def _if_durable(call: Call, total: Count) -> object:
    """Return a sum over durable messages. None survives a restart in a queue that does not."""
    return total if _of(call).durable else 0


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


def _attempts(call: Call) -> Count:
    """Return how often a message was acknowledged, expired or given up, also in transactions that did not commit."""
    queue = _of(call)
    count = queue.acknowledged_count + queue.expired_count + queue.killed_count + queue.withdrawn_count
    for transaction in _undecided(call):
        entries = transaction.acknowledged if queue in transaction.taken_from else []
        for number, (taken, references, outcome, _consumer) in enumerate(entries):
            count += len(references) if taken is queue and outcome is Outcome.ACCEPTED else 0
            if not number % _ENTRIES:
                yield
    return count


ATTEMPTS_ATTRIBUTE = Attribute(
    "AcknowledgeAttempts",
    "long",
    _attempts,
    "The same with expired and killed ones, and with acknowledgements of open and rolled back transactions.",
)

CONTENT_ATTRIBUTES = (
    Attribute(
        "DurableMessageCount",
        "long",
        lambda call: _if_durable(call, _sum_of_all(call, _DURABLE_COUNT)),
        "Those of them that survive a restart.",
    ),
    Attribute("PersistentSize", "long", lambda call: _sum_of_all(call, _SIZE), "The bytes of all of them."),
    Attribute(
        "DurablePersistentSize",
        "long",
        lambda call: _if_durable(call, _sum_of_all(call, _DURABLE_SIZE)),
        "The bytes of those that survive a restart.",
    ),
)

HELD_ATTRIBUTES = (
    Attribute("DeliveringSize", "long", lambda call: _sum(_held(call), _SIZE), "Their bytes."),
    Attribute(
        "DurableDeliveringCount",
        "int",
        lambda call: _if_durable(call, _sum(_held(call), _DURABLE_COUNT)),
        "Those of them that survive a restart.",
    ),
    Attribute(
        "DurableDeliveringSize",
        "long",
        lambda call: _if_durable(call, _sum(_held(call), _DURABLE_SIZE)),
        "The bytes of these.",
    ),
    Attribute(
        "PreparedTransactionMessageCount", "int", _prepared_count, "Messages that XA branches in doubt acknowledged."
    ),
)
