"""Checkers of queues and the memory account: which consumer receives messages, how many may come, and when to wait.

They compare the broker after each step with its state before. An exclusive queue serves one consumer until that
consumer goes; a lower priority receives nothing while a higher one has room. Limits hold, and a full broker grants no
credits.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from embedbroker.kernel import UNLIMITED_CREDIT, Consumer, Kernel, Queue, Reference
from embedclient.wire.core import FrameSplitter, PacketType, SessionProducerCredits, decode_packet, frame_spans

from ._broker_view import BrokerView
from ._scene import Moment, Scene, Topic

__all__ = ["QueueChecker", "moved_from"]

#: With a high-water mark of this size the connections of a scenario always take what they are sent.
_NONE_FALLS_BEHIND_BYTES = 1_048_576
_CREDITS = int(PacketType.SESS_PRODUCER_CREDITS)
_NOTHING: frozenset[tuple[int, int]] = frozenset()


def moved_from(kernel: Kernel, subscription: str) -> set[str]:
    """Return the keys of messages that went from a subscription to the dead letter or the expiry address."""
    keys = set()
    for name in ("DLQ", "expired"):
        queue = kernel.address_manager.queues.get(name)
        for reference in queue.undelivered() if queue is not None else ():
            if reference.message.property("_AMQ_ORIG_QUEUE") == subscription:
                key = reference.message.property("key")
                assert isinstance(key, str), "every message carries its key"
                keys.add(key)
    return keys


@define(eq=False)
class QueueChecker:
    """Check the queues and the memory of one broker."""

    scene: Scene
    broker: BrokerView
    topics: Sequence[Topic]
    #: The consumers that queues have given messages to since the last step. These leave later, some after a
    #: reattachment or behind a record, when another consumer may be ready.
    given: dict[Consumer, None]
    _life: int = field(default=0, init=False)
    # The state after the last step.
    _holders: dict[Queue, Consumer] = field(factory=dict, init=False)
    #: Queues that were not exclusive in an earlier step of this life.
    _sharing: set[Queue] = field(factory=set, init=False)
    #: What the consumers of a queue held when an update made it exclusive: message ids with their delivery counts.
    _inherited: dict[Queue, set[tuple[int, int]]] = field(factory=dict, init=False)
    _ranked: dict[Consumer, tuple[bool, int]] = field(factory=dict, init=False)
    _automatic: dict[str, Queue] = field(factory=dict, init=False)
    _used_bytes: int = field(default=0, init=False)
    _settled: int = field(default=0, init=False)
    _waiting: bool = field(default=False, init=False)
    _granted: bool = field(default=False, init=False)
    _slices_seen: bool = field(default=False, init=False)
    _splitters: dict[int, FrameSplitter] = field(factory=dict, init=False)
    #: The connection of each session, by its name.
    _connections: dict[str, int] = field(factory=dict, init=False)
    #: Queue and message of each acknowledgement in advance in this life.
    _settled_early: set[tuple[str, int]] = field(factory=set, init=False)

    def watch(self) -> None:
        """Register with the broker."""
        self.broker.after_step.append(self._check_step)
        self.broker.on_start.append(self._tap_settlements)
        self._tap_settlements()
        if self.broker.config.global_max_size_bytes is not None:
            self.broker.on_send.append(self._look_for_credits)

    def _check_step(self) -> None:
        node = self.broker.node
        if node is None:
            return
        if self._life != self.broker.life:
            self._begin_life()
        if self.broker.recovering:
            self._look_at_recovery(node.kernel)
            return
        ranked: dict[Consumer, tuple[bool, int]] = {}
        served, sharing = dict(self.given), self._sharing
        self.given.clear()
        for queue in node.kernel.address_manager.queues.values():
            definition, consumers = queue.definition, len(queue.consumers)
            if consumers and 0 <= definition.max_consumers < consumers:
                allowed = definition.max_consumers
                self.scene.fail(f"queue {queue.name} has {consumers} consumers, {allowed} are allowed")
            if definition.exclusive:
                self._check_exclusive(queue)
                continue
            if queue not in sharing:
                sharing.add(queue)
                self._holders.pop(queue, None)
            if queue.dispatcher.holder is not None:
                self.scene.fail(f"queue {queue.name} is not exclusive, and one consumer still has it alone")
            if consumers > 1 and queue.group_count is None:
                self._check_priorities(queue, ranked, served)
        self._ranked = ranked
        for topic in self.topics:
            if topic.automatic:
                self._check_automatic(node.kernel, topic.address)
        if self.broker.config.global_max_size_bytes is not None:
            self._check_memory(node.kernel)

    def _begin_life(self) -> None:
        self._life = self.broker.life
        self._holders.clear()
        self._sharing.clear()
        self._inherited.clear()
        self._ranked.clear()
        self._automatic.clear()
        self._splitters.clear()
        self._settled_early.clear()
        self._connections.clear()
        self._waiting = self._granted = self._slices_seen = False
        self._used_bytes = self._settled = 0

    def _tap_settlements(self) -> None:
        """Record each message that counts as acknowledged when it leaves, even if its consumer is not there."""
        node = self.broker.node
        assert node is not None, "it has just started"
        settle = node.kernel.schedule.settle_delivered

        def tapped(queue: Queue, reference: Reference) -> None:
            if node is not self.broker.node:
                # A replaced broker that has not noticed yet: what it still delivers reaches no client.
                settle(queue, reference)
                return
            key = reference.message.property("key")
            assert isinstance(key, str), "every message carries its key"
            if (queue.name, reference.message.message_id) in self._settled_early:
                self.scene.fail(f"{key} left {queue.name} again after it was acknowledged in advance")
            self._settled_early.add((queue.name, reference.message.message_id))
            self.scene.ledger.taken(queue.name, key)
            self.scene.hit(Moment.PRE_ACKNOWLEDGED)
            settle(queue, reference)

        node.kernel.schedule.settle_delivered = tapped  # type: ignore[method-assign]  # no frame shows it this early

    def _look_at_recovery(self, kernel: Kernel) -> None:
        """Note a moment in which some messages are restored and others are not.

        A crash, or a client, may come into it.
        """
        if not self._slices_seen and kernel.memory.used_bytes:
            self._slices_seen = True
            self.scene.hit(Moment.RECOVERED_IN_SLICES)

    def _check_exclusive(self, queue: Queue) -> None:
        """Check that the consumer of an exclusive queue keeps it until that consumer goes."""
        if queue in self._sharing:
            self._sharing.discard(queue)
            held = [reference for consumer in queue.consumers for reference in consumer.unsettled.values()]
            self._inherited[queue] = {(each.message.message_id, each.delivery_count) for each in held}
        holder = self._holders.get(queue)
        inherited = self._inherited.get(queue, _NOTHING)
        for consumer in queue.consumers:
            if consumer is holder or not consumer.unsettled:
                continue
            found = {(each.message.message_id, each.delivery_count) for each in consumer.unsettled.values()}
            if found <= inherited:
                continue
            if holder is not None:
                if holder in queue.consumers:
                    self.scene.fail(f"queue {queue.name} is exclusive, and two consumers got messages of it")
                self.scene.hit(Moment.EXCLUSIVE_PASSED_ON)
            holder = self._holders[queue] = consumer

    def _check_priorities(
        self, queue: Queue, ranked: dict[Consumer, tuple[bool, int]], served: dict[Consumer, None]
    ) -> None:
        """Check that no lower priority receives messages while a consumer above it can take them.

        The consumer above was able to take them before the step, and still is. In a queue with groups it may not get
        them: they may be of a group of the consumer below.

        A consumer with the same credit as before that received nothing, or that cannot run out, was able all the time.
        Only a peer that falls behind in between cannot be seen from here; with a high mark no peer does.
        """
        if self.broker.config.output_high_water_bytes < _NONE_FALLS_BEHIND_BYTES:
            return
        best: int | None = None
        for consumer in queue.consumers:
            state = ranked[consumer] = consumer.ready, consumer.credit.left
            ready, credit = state
            steady = ready and self._ranked.get(consumer) == state
            if steady and consumer.selector is None and (consumer not in served or credit > UNLIMITED_CREDIT // 2):
                best = consumer.priority if best is None else max(best, consumer.priority)
        if not served:
            return
        for consumer in queue.consumers:
            if consumer in served:
                if best is not None and consumer.priority < best:
                    self.scene.fail(f"queue {queue.name}: priority {consumer.priority} got a message before {best}")
                if any(other.ready and other.priority < consumer.priority for other in queue.consumers):
                    self.scene.hit(Moment.PRIORITY_PREFERRED)

    def _check_automatic(self, kernel: Kernel, name: str) -> None:
        """Check that an unused queue is removed only if it is empty."""
        queue, before = kernel.address_manager.queues.get(name), self._automatic.get(name)
        if before is not None and queue is not before:
            self.scene.hit(Moment.QUEUE_AUTO_DELETED)
            moved = moved_from(kernel, name)
            for key in self.scene.ledger.missing(name):
                if key not in moved:
                    self.scene.fail(f"queue {name} was deleted with {key} in it")
        if queue is None:
            self._automatic.pop(name, None)
        else:
            self._automatic[name] = queue

    # Memory

    def _look_for_credits(self, connection: int, peer: str, data: bytes) -> None:
        if self._life != self.broker.life:
            self._begin_life()
        splitter = self._splitters.get(connection)
        if splitter is None:
            splitter = self._splitters[connection] = FrameSplitter()
        buffer, headers = splitter.feed(data)
        for (_length, packet_type, channel), (start, end) in zip(headers, frame_spans(headers), strict=True):
            if packet_type == _CREDITS:
                packet = decode_packet(buffer, start, end, 0, False)
                assert isinstance(packet, SessionProducerCredits)
                if not self._is_internal(packet.address) and not self._is_repeated(connection, channel):
                    self._granted = True

    def _is_internal(self, address: str) -> bool:
        """Return True for an address of the broker itself, whose requests take no room."""
        node = self.broker.node
        assert node is not None, "only a living broker sends"
        return address in node.kernel.address_manager.internal

    def _is_repeated(self, connection: int, channel: int) -> bool:
        """Return True if the session has just come to this connection: what it is sent now was sent before."""
        node = self.broker.node
        assert node is not None, "only a living broker sends"
        for session in node.core.sessions.values():
            if session.channel_id == channel and session.connection.link.id == connection:
                return self._connections.get(session.name, connection) != connection
        return False

    def _check_memory(self, kernel: Kernel) -> None:
        """Check that credits leave only while there is room, or where something made room in the same step."""
        node = self.broker.node
        assert node is not None, "only a living broker is looked at"
        self._connections = {name: session.connection.link.id for name, session in node.core.sessions.items()}
        memory = kernel.memory
        queues = kernel.address_manager.queues.values()
        settled = sum(queue.acknowledged_count + queue.expired_count + queue.killed_count for queue in queues)
        full = self._used_bytes >= memory.limit_bytes and memory.used_bytes >= self._used_bytes
        if self._granted and full and settled == self._settled:
            self.scene.fail(f"credits were granted with {memory.used_bytes} of {memory.limit_bytes} bytes in use")
        if memory.has_waiting and not self._waiting:
            self.scene.hit(Moment.CREDITS_DEFERRED)
        elif self._granted and self._waiting:
            self.scene.hit(Moment.CREDITS_GRANTED_LATE)
        self._waiting, self._granted = memory.has_waiting, False
        self._used_bytes, self._settled = memory.used_bytes, settled
