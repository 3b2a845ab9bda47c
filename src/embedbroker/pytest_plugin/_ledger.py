"""Keeps the ledger of a test from its brokers' events: what was routed, what was settled, and when that was safe.

Responsible for one account for each queue, over all starts of a broker, or of the brokers of a pair. Does not depend on
what clients received: a message that no broker accepted is not in it, and only settlements prove deliveries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import frozen

from embedbroker.kernel import CommitObserver, CommittedWork, Kernel, Message, Outcome, Queue, Reference
from embedbroker.ledger import Ledger

__all__ = ["GroupLedger"]

_EXAMPLES_MAX = 20


@frozen
class _Unsafe:
    """Certain as soon as the broker confirms ``point``."""

    point: int
    queue: str
    key: str
    is_settlement: bool


class GroupLedger(CommitObserver):
    """The ledger of brokers of which one serves at a time. A message's key is the name of its queue and its number."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.ledger = Ledger()
        self._now = now
        self.kernel: Kernel | None = None
        #: Where a broker collects what happens to another one. No message of a client, and many in a cluster.
        self._unaccounted = ""
        self._known: dict[str, None] = {}
        self._settled: dict[str, None] = {}
        self.unsafe: deque[_Unsafe] = deque()
        self._was_killed = False

    def stepped(self, kernel: Kernel, confirmed: int) -> None:
        """Record a step of the broker that serves, or is about to; it confirms up to point ``confirmed`` of its store.

        ``confirmed`` is less than its store has reached when it stops without its backup: the journal ends in order,
        and what was not on both disks must not be confirmed to any client.
        """
        if kernel is not self.kernel:
            if self.kernel is not None:
                self._end()
            self.kernel = kernel
            self._unaccounted = kernel.config.management_notification_address
            kernel.observers.subscribe(self)
        while self.unsafe and self.unsafe[0].point <= confirmed:
            sure = self.unsafe.popleft()
            if sure.is_settlement:
                self.ledger.acknowledged(sure.queue, sure.key, self._now())
            else:
                self.ledger.confirmed(sure.key, self._now())

    def ended(self, kernel: Kernel | None) -> None:
        """Record that a broker serves no more, however it ended: what was not safe by then is in doubt."""
        if self.kernel is not None and kernel is not self.kernel:
            return  # the next one serves already, and what was not safe is known since it began
        self._end()

    def _end(self) -> None:
        self.kernel = None
        while self.unsafe:
            lost = self.unsafe.popleft()
            if lost.is_settlement:
                self.ledger.acknowledgement_in_doubt(lost.queue, lost.key)
            else:
                self.ledger.in_doubt(lost.key)
        self.ledger.killed(self._now())
        self._was_killed = True

    def serves(self) -> None:
        """Record that a broker is live."""
        if self._was_killed:
            self.ledger.restarted(self._now())

    # -- events of the kernel -----------------------------------------------------------------------------------

    def routed(self, message: Message, queues: list[Queue], transaction: CommittedWork | None) -> None:
        for queue in queues:
            if queue.definition.address == self._unaccounted:
                continue
            key = _key(queue, message)
            if key in self._known:
                continue
            self._known[key] = None
            if not self.ledger.knows(queue.name):
                self.ledger.subscribe(queue.name, queue.name, durable=queue.durable)
            # Settlements may come in any order: each message is its own stream.
            self.ledger.sent(key, queue.name, self._now(), producer=key, durable=message.durable and queue.durable)
            self.unsafe.append(_Unsafe(self._point(), queue.name, key, False))

    def settled(self, queue: Queue, reference: Reference, outcome: Outcome, transaction: CommittedWork | None) -> None:
        if queue.definition.address == self._unaccounted:
            return
        key = _key(queue, reference.message)
        if key not in self._known or not outcome.leaves:
            return
        if outcome is not Outcome.ACCEPTED:
            self.ledger.dead_lettered(queue.name, key)
            return
        self.ledger.delivered(queue.name, key, self._now(), redelivered=key in self._settled)
        self._settled[key] = None
        self.ledger.acknowledging(queue.name, key)
        self.unsafe.append(_Unsafe(self._point(), queue.name, key, True))

    def queue_removed(self, queue: Queue) -> None:
        if self.ledger.knows(queue.name):
            self.ledger.suspend(queue.name)
            self.ledger.resume(queue.name)

    def _point(self) -> int:
        assert self.kernel is not None, "an event of a kernel that is not followed"
        return self.kernel.store.point()

    # -- results -------------------------------------------------------------------------------------------------

    def lost(self) -> list[str]:
        """Return keys of messages that were safe, are not settled, and are in no queue of the broker that serves."""
        kernel = self.kernel
        if kernel is None:
            return []
        found: list[str] = []
        for name in dict.fromkeys(key.rpartition(" ")[0] for key in self._known):
            queue = kernel.address_manager.queues.get(name)
            if queue is not None and queue.delivering_count:
                continue  # what a consumer holds is not lost, and cannot be listed
            present = (
                {_key(queue, reference.message) for reference in queue.undelivered()} if queue is not None else set()
            )
            found += [key for key in self.ledger.missing(name) if key not in present]
        return found

    def summary(self) -> str:
        """Return the ledger in words, for a report."""
        verdict = self.ledger.verdict(drained=False)
        lines = [
            f"{verdict.sent} sent, {verdict.confirmed} confirmed, {verdict.in_doubt.count} in doubt, "
            f"{verdict.acknowledged} acknowledged, {verdict.dead_lettered} dead or expired, {len(verdict.kills)} ends "
            "of a broker"
        ]
        problems = {name: list(tally.keys) for name, tally in verdict.faults().items()}
        if lost := self.lost():
            problems = {"lost": lost, **problems}
        lines += [f"{name}: {', '.join(keys[:_EXAMPLES_MAX])}" for name, keys in problems.items()]
        return "\n".join(lines)


def _key(queue: Queue, message: Message) -> str:
    return f"{queue.name} {message.message_id}"
