"""Checkers of what an administrator does: pauses and purges.

They judge deliveries and queues of the broker through all its lives. An order counts from its answer on; while one is
under way, or in doubt, nothing is claimed about what it changes. Does not depend on how orders are given.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from embedbroker.kernel import Queue, Reference

from ._broker_view import BrokerView
from ._scene import Moment, Scene

__all__ = ["PauseChecker", "Purge", "PurgeChecker"]

#: Id and key of a message. After a crash, ids of messages that were not durable are used again.
_Identity = tuple[int, str]


@define(eq=False)
class PauseChecker:
    """Check that a paused queue delivers nothing, and that a restart keeps a pause exactly if that was ordered.

    A hold is a pause of a queue or of its address, and is named by the resource.
    """

    scene: Scene
    broker: BrokerView
    #: By queue, the holds that are in force, and whether each survives a restart.
    _holds: dict[str, dict[str, bool]] = field(factory=dict, init=False)
    _resumed: set[str] = field(factory=set, init=False)

    def watch(self) -> None:
        """Register with the broker."""
        self.broker.on_start.append(self._begin_life)
        self.broker.on_ready.append(self._check_recovered)

    def pausing(self, queue: str) -> None:
        """A pause is requested."""
        self._resumed.discard(queue)

    def paused(self, queue: str, resource: str, *, is_persisted: bool) -> None:
        """A pause is confirmed."""
        self._holds.setdefault(queue, {})[resource] = is_persisted

    def resuming(self, queue: str, resource: str) -> None:
        """The end of one hold is requested."""
        self._holds.get(queue, {}).pop(resource, None)

    def resumed(self, queue: str) -> None:
        """The end of the last hold is confirmed."""
        if not self._holds.get(queue):
            self._resumed.add(queue)

    def on_delivery(self, queue: Queue, message_id: int, key: str) -> None:
        """Check a message that leaves for a consumer, and has not left for it before."""
        holds = self._holds.get(queue.name)
        if holds:
            self.scene.fail(f"{key} left for a consumer of {queue.name}, which is paused by {', '.join(holds)}")

    def _begin_life(self) -> None:
        for holds in self._holds.values():
            for resource in [resource for resource, is_persisted in holds.items() if not is_persisted]:
                del holds[resource]

    def _check_recovered(self) -> None:
        node = self.broker.node
        assert node is not None, "only a living node becomes ready"
        queues = node.kernel.address_manager.queues
        for name, holds in self._holds.items():
            if holds:
                self.scene.hit(Moment.PAUSE_SURVIVED)
                if name not in queues or not queues[name].is_paused:
                    self.scene.fail(f"recovery of {name}: it was paused by {', '.join(holds)}, and is not any more")
        for name in self._resumed:
            if name in queues and queues[name].is_paused:
                self.scene.fail(f"recovery of {name}: it was resumed, and is paused")


@define(eq=False)
class Purge:
    """One purge of a queue: what waited and what was in delivery when it was requested."""

    queue: str
    waiting: dict[_Identity, None]
    delivered: set[tuple[_Identity, int]]


@define(eq=False)
class PurgeChecker:
    """Check that a purge removes all that waited, for good, and nothing that was in delivery or came later.

    The ledger reports what is missing. It learns here which messages a purge may have taken.
    """

    scene: Scene
    broker: BrokerView
    _open: dict[str, Purge] = field(factory=dict, init=False)
    #: By queue, what must not be seen any more.
    _gone: dict[str, set[_Identity]] = field(factory=dict, init=False)

    def watch(self) -> None:
        """Register with the broker."""
        self.broker.on_ready.append(self._check_recovered)

    def begin(self, name: str) -> Purge:
        """A purge is requested."""
        queue = self._queue(name)
        waiting: dict[_Identity, None] = {}
        if queue is not None:
            waiting = dict.fromkeys([_identity(reference) for reference in queue.undelivered()])
        purge = self._open[name] = Purge(name, waiting, self._in_delivery(queue))
        self.scene.ledger.purging(name)
        return purge

    def end(self, purge: Purge, removed: int | None) -> None:
        """The purge is over. ``removed`` is the number in its answer; None without an answer."""
        del self._open[purge.queue]
        queue = self._queue(purge.queue)
        kept = purge.delivered & self._in_delivery(queue)
        self.scene.ledger.purged(purge.queue, [key for (_id, key), _count in kept])
        if removed is None:
            return
        gone = self._gone.setdefault(purge.queue, set())
        gone.update(purge.waiting)
        if removed:
            self.scene.hit(Moment.PURGED)
        if queue is not None:
            self._check_queue(queue, "the purge")

    def on_delivery(self, queue: Queue, message_id: int, key: str) -> None:
        """Check a message that leaves for a consumer, and has not left for it before."""
        identity = message_id, key
        purge = self._open.get(queue.name)
        if purge is not None:
            purge.waiting.pop(identity, None)
        elif identity in self._gone.get(queue.name, ()):
            self.scene.fail(f"{key} left for a consumer of {queue.name}, and a purge had removed it")

    def _check_recovered(self) -> None:
        for name in self._gone:
            queue = self._queue(name)
            if queue is not None:
                self._check_queue(queue, "recovery")

    def _check_queue(self, queue: Queue, where: str) -> None:
        gone = self._gone[queue.name]
        for reference in queue.undelivered():
            if _identity(reference) in gone:
                key = reference.message.property("key")
                self.scene.fail(f"{where} of {queue.name}: {key} is there, and a purge had to remove it")

    def _queue(self, name: str) -> Queue | None:
        node = self.broker.node
        if node is None or not self.broker.ready:
            return None
        return node.kernel.address_manager.queues.get(name)

    def _in_delivery(self, queue: Queue | None) -> set[tuple[_Identity, int]]:
        """Return the messages that consumers and open transactions have, each with its delivery count."""
        if queue is None:
            return set()
        return {(_identity(reference), reference.delivery_count) for reference in self._held(queue)}

    def _held(self, queue: Queue) -> Iterator[Reference]:
        for consumer in queue.consumers:
            yield from consumer.unsettled.values()
        node = self.broker.node
        assert node is not None, "the queue is of a living broker"
        for session in node.core.sessions.values():
            transaction = session.kernel_session.transaction
            if transaction is not None:
                for other, reference in transaction.deliveries():
                    if other is queue:
                        yield reference


def _identity(reference: Reference) -> _Identity:
    return reference.message.message_id, str(reference.message.property("key"))
