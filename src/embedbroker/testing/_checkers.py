"""Checkers of the broker: after each step, after recovery, and of its journal when all is quiet.

The ledger judges what users see at each delivery. A checker claims only what the broker promises. Confirmed messages
are there; settled messages are gone; the journal equals the kernel; no counter is negative. No message leaves for a
consumer after its expiration or with a delivery count that skips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import define, field

from embedbroker.kernel import Branch, Consumer, DecisionObserver, Kernel, Message, Queue, Reference, Session
from embedbroker.node import Node
from embedbroker.storage import Journal, JournalState, RecoveredState, body_file, body_number
from embedclient.wire.core import (
    FRAME_HEADER,
    RECEIVE_TRAILER,
    RECEIVE_TRAILER_SIZE,
    CoreMessage,
    FrameSplitter,
    PacketType,
    SessionReceiveLarge,
    decode_packet,
    frame_spans,
)

from ._broker_view import BrokerView
from ._disk import SimulatedDisk
from ._queue_checkers import moved_from
from ._scene import Moment, Scene, Topic

__all__ = ["BrokerChecker"]

CHECK_PERIOD_STEPS = 16
"""To check every message in every step would cost more than all other checks together."""

_RECEIVE = int(PacketType.SESS_RECEIVE_MSG)
_RECEIVE_LARGE = int(PacketType.SESS_RECEIVE_LARGE_MSG)

#: Message ids of one queue, in the order of their positions, with their priorities.
_Durable = dict[str, list[tuple[int, int]]]


@define(eq=False)
class _Seen:
    """The queues that a session has consumed, and its consumers when they were last checked."""

    queues: dict[str, None] = field(factory=dict)
    #: The number of consumers, and the key of the newest one.
    consumers: tuple[int, int] = (0, 0)
    #: The branch that its work belonged to.
    branch: Branch | None = None


class _Decisions(DecisionObserver):
    """Pass on what the queues of one life give to consumers.

    A replaced broker may not have noticed yet: what it still delivers reaches no client.
    """

    def __init__(self, checker: BrokerChecker, node: Node) -> None:
        self._checker = checker
        self._node = node

    def delivered(self, consumer: Consumer, reference: Reference) -> None:
        if self._checker.broker.node is self._node:
            self._checker.check_decision(consumer, reference)


@define(eq=False)
class BrokerChecker:
    """Check one broker through all its lives."""

    scene: Scene
    broker: BrokerView
    topics: Sequence[Topic]
    #: The beginnings of the names of clients that only browse, and of brokers that this one connects to.
    onlooker: str | tuple[str, ...]
    #: The disk that must equal the broker's disk now, if there is one.
    twin: Callable[[], SimulatedDisk | None] | None = None
    #: The sessions there were after the last step, with the queues that each has consumed.
    _sessions: dict[Session, _Seen] = field(factory=dict, init=False)
    _comparisons: int = field(default=0, init=False)
    _steps: int = field(default=0, init=False)
    _splitters: dict[int, FrameSplitter] = field(factory=dict, init=False)
    _life: int = field(default=0, init=False)
    #: Session, consumer, message and delivery count of everything that left for a consumer in this life. The session is
    #: the broker's, which goes on in another connection, or the connection and channel of one that has just ended.
    _left: set[tuple[Session | tuple[int, int], int, int, int]] = field(factory=set, init=False)
    #: The last consumer that was sent a message of a queue since the last step.
    _given: dict[tuple[Queue, int], Consumer] = field(factory=dict, init=False)
    #: The consumer that was sent the last message of each group of a queue, and the newest of these messages. None
    #: instead of the consumer: the broker may have decided in another order than messages left.
    _group_holders: dict[tuple[Queue, str], tuple[Consumer | None, int]] = field(factory=dict, init=False)
    #: Queues and groups of earlier lives, by name.
    _former_groups: set[tuple[str, str]] = field(factory=set, init=False)
    #: Branches that a session has left in this life: a rebalance does not await them, also if they are resumed.
    _left_branches: set[Branch] = field(factory=set, init=False)
    #: Queues whose way to share messages among consumers an administrator changes in this life: groups may move.
    shared_anew: set[str] = field(factory=set, init=False)
    #: Groups that may have another consumer: the first message id after the latest end of each decision, by its key.
    _decided_anew: dict[str, int] = field(factory=dict, init=False)
    #: When this life began.
    _began: float = field(default=0.0, init=False)
    #: By key, how often queues have given a message to a consumer. A delivery that comes back uncounted, and goes to
    #: that consumer again, is one.
    deliveries: dict[str, int] = field(factory=dict, init=False)
    #: Consumer, message and delivery count of what queues have decided in this life.
    _decided: set[tuple[Consumer, int, int]] = field(factory=set, init=False)
    #: Consumers that queues have given messages to; the reader clears it.
    served: dict[Consumer, None] = field(factory=dict, init=False)
    #: Called with queue, id and key of each message that a queue gives to a consumer.
    on_delivery: list[Callable[[Queue, int, str], None]] = field(factory=list, init=False)

    def watch(self) -> None:
        """Register with the broker."""
        # Before its first step: what that finds durable is not what the life before had recorded.
        self.broker.on_start.append(self.scene.redeliveries.begin_life)
        self.broker.on_start.append(self._observe_decisions)
        if self.broker.node is not None:
            self._observe_decisions()
        self.broker.after_step.append(self._check_step)
        self.broker.on_ready.append(self._check_recovered)
        self.broker.on_send.append(self._check_frames)

    def compare_replay_soon(self) -> None:
        """Compare a replay of the journal with the kernel the next time nothing is on its way to the disk."""
        self._comparisons += 1

    @property
    def compared(self) -> bool:
        """True if every requested comparison has been made."""
        return self._comparisons == 0

    # After each step

    def _check_step(self) -> None:
        node = self.broker.node
        if node is None:
            return  # it has stopped in this step
        if self._given:
            self._check_holders()
        if self.scene.redeliveries.are_unsafe and node.journal is not None:
            self.scene.redeliveries.note_durability(node.journal.point(), node.journal.reached)
        self._look_at_sessions([session.kernel_session for session in node.core.sessions.values()])
        self._check_kernel(node.kernel)
        if self._comparisons and self._is_quiet():
            self._comparisons -= 1
            self._compare_replay()
            self._compare_bodies(self.broker.disk, node.kernel)

    def _check_kernel(self, kernel: Kernel) -> None:
        """Compare the counters of the kernel with what it holds, in every `CHECK_PERIOD_STEPS`-th step."""
        for queue in kernel.address_manager.queues.values():
            if queue.delivering_count < 0 or queue.backlog.size < 0 or queue.waiting_visible < 0:
                self.scene.fail(f"queue {queue.name} has a negative counter")
        self._steps += 1
        if self._steps % CHECK_PERIOD_STEPS == 0:
            try:
                kernel.check()
            except AssertionError as error:
                self.scene.fail(f"an invariant of the kernel does not hold: {error}")

    def _compare_bodies(self, disk: SimulatedDisk, kernel: Kernel) -> None:
        """Check that there is a file for each large body in use, and no other, once nothing is under way."""
        found = {number: len(disk.content(name)) for name in disk.names if (number := body_number(name)) is not None}
        # One that a disk error kept from removal is gone after the next start.
        found = {number: size for number, size in found.items() if not self._stays(number)}
        stored, used = set(kernel.memory.statistics().large_bodies.values()), kernel.large_bodies.uses
        # Beside those of messages there are bodies that are being sent, and of which nothing may have come.
        if not stored <= found.keys() <= used.keys():
            self.scene.fail(f"files of bodies {sorted(found)}, in messages {sorted(stored)}, in use {sorted(used)}")

    def _stays(self, number: int) -> bool:
        text = f"the file of a large message stays until the next start: {body_file(number)}"
        return any(notice.startswith(text) for notice in self.broker.notices)

    def _check_holders(self) -> None:
        """Check that messages sent to one consumer are held by no other."""
        for (queue, message_id), consumer in self._given.items():
            for other in queue.consumers:
                if other is not consumer and message_id in other.unsettled:
                    self.scene.fail(f"message {message_id} of {queue.name} was sent to two consumers")
        self._given.clear()

    def _look_at_sessions(self, living: Sequence[Session]) -> None:
        """Note which queues the sessions consume, and what happens to the messages of those that ended."""
        known = self._sessions
        for session in living:
            seen = known.get(session)
            if seen is None:
                seen = known[session] = _Seen()
            if seen.branch is not session.branch:
                self._leave_branch(seen)
                seen.branch = session.branch
            consumers = session.consumers
            # A new consumer stands behind all others, and its key is new.
            if consumers and seen.consumers != (present := (len(consumers), next(reversed(consumers)))):
                seen.consumers = present
                seen.queues.update({consumer.queue.name: None for consumer in consumers.values()})
        if len(known) > len(living):
            alive = set(living)
            self._part_with([known.pop(session) for session in list(known) if session not in alive])

    def _part_with(self, ended: Sequence[_Seen]) -> None:
        """Check that the messages of ended sessions return to their place.

        They stand behind messages that other consumers received since.
        """
        for seen in ended:
            self._leave_branch(seen)
            for topic in self.topics:
                for subscription in topic.names:
                    if subscription in seen.queues:
                        self.scene.ledger.interrupted(subscription)

    def _leave_branch(self, seen: _Seen) -> None:
        if seen.branch is not None:
            self._left_branches.add(seen.branch)

    # When it has recovered

    def _check_recovered(self) -> None:
        """Check that everything owed is there, and nothing that was settled or never sent."""
        node, ledger = self.broker.node, self.scene.ledger
        assert node is not None, "only a living node becomes ready"
        if any("the file of its large body is missing" in notice for notice in self.broker.notices):
            self.scene.fail("a message was recorded without the file of its body")
        self._sessions.clear()
        for topic in self.topics:
            for subscription in topic.subscriptions:
                queue = node.kernel.address_manager.queues.get(subscription)
                if queue is None and not topic.automatic:
                    self.scene.fail(f"queue {subscription} is gone after recovery")
                found: dict[str, None] = {}
                for reference in queue.undelivered() if queue is not None else ():
                    key = reference.message.property("key")
                    assert isinstance(key, str), "every message carries its key"
                    finding = ledger.shown(subscription, key, now_held=True)
                    self.scene.judge(finding, f"recovery of {subscription}", key)
                    found[key] = None
                # What a branch took may be owed: its user may have given it up before learning that it is prepared.
                for transaction in node.kernel.branches.transactions():
                    taken = [reference.message for other, reference in transaction.deliveries() if other is queue]
                    found.update(dict.fromkeys([str(message.property("key")) for message in taken]))
                moved = moved_from(node.kernel, subscription)
                for key in ledger.missing(subscription):
                    if key not in found and key not in moved:
                        self.scene.fail(f"recovery of {subscription}: {key} is missing")

    # What leaves

    def _check_frames(self, connection: int, peer: str, data: bytes) -> None:
        if peer.startswith(self.onlooker):
            return
        if self._life != self.broker.life:
            self._life = self.broker.life
            self._splitters.clear()
            self._left.clear()
            self._left_branches.clear()
            self.shared_anew.clear()
            self._former_groups |= {(queue.name, group) for queue, group in self._group_holders}
            self._group_holders.clear()
            self._decided_anew.clear()
            self._began = self.scene.world.now
        splitter = self._splitters.get(connection)
        if splitter is None:
            splitter = self._splitters[connection] = FrameSplitter()
        buffer, headers = splitter.feed(data)
        for (_length, packet_type, channel), (start, end) in zip(headers, frame_spans(headers), strict=True):
            if packet_type == _RECEIVE:
                body_end = end - RECEIVE_TRAILER_SIZE
                consumer, count = RECEIVE_TRAILER.unpack_from(buffer, body_end)
                message = CoreMessage.parse(bytearray(memoryview(buffer)[start + FRAME_HEADER.size : body_end]))
                self._check_delivery(connection, channel, consumer, count, message)
            elif packet_type == _RECEIVE_LARGE:
                packet = decode_packet(buffer, start, end, 0, False)
                assert isinstance(packet, SessionReceiveLarge)
                identity = packet.consumer_id, packet.delivery_count
                self._check_delivery(connection, channel, *identity, packet.message)

    def _observe_decisions(self) -> None:
        node = self.broker.node
        assert node is not None, "a life begins with a node"
        self._decided.clear()
        node.kernel.observers.subscribe(_Decisions(self, node))

    def check_decision(self, consumer: Consumer, reference: Reference) -> None:
        """Check a message that its queue gives to a consumer.

        It leaves later: its count may wait for the disk, and its session for a reattachment.
        """
        message = reference.message
        key = message.property("key")
        if not isinstance(key, str):
            return
        self.served[consumer] = None
        for check in self.on_delivery:
            check(consumer.queue, message.message_id, key)
        decision = consumer, message.message_id, reference.delivery_count
        if decision not in self._decided:
            self._decided.add(decision)
            self.deliveries[key] = self.deliveries.get(key, 0) + 1
        late_ms = self.scene.world.instant.wall_ms - message.expiration
        if message.expiration and late_ms > 0:
            self.scene.fail(f"{key} was given to a consumer {late_ms} ms late")

    def _check_delivery(self, connection: int, channel: int, consumer: int, count: int, message: CoreMessage) -> None:
        key = message.property("key")
        if not isinstance(key, str):
            return  # the marker of a forced delivery
        session = self._session_at(connection, channel)
        delivery = (session, consumer, message.message_id, count)
        receiver = session.consumers.get(consumer) if isinstance(session, Session) else None
        if delivery in self._left:
            # Repeated after a reattachment, or delivered again after its consumer left it.
            group = message.property("_AMQ_GROUP_ID")
            if receiver is not None and isinstance(group, str) and message.message_id in receiver.unsettled:
                self._hold_group(receiver, group, receiver, message.message_id)
            return
        self._left.add(delivery)
        if receiver is not None:
            self._given[(receiver.queue, message.message_id)] = receiver
        deliver_at = message.property("_AMQ_SCHED_DELIVERY")
        if isinstance(deliver_at, int):
            self.scene.hit(Moment.SCHEDULED_DELIVERED)
            if self.scene.wall_to_virtual(message.timestamp) < self._began < self.scene.wall_to_virtual(deliver_at):
                self.scene.hit(Moment.SCHEDULED_SURVIVED)
            early_ms = deliver_at - self.scene.world.instant.wall_ms
            if early_ms > 0:
                self.scene.fail(f"{key} left for a consumer {early_ms} ms early")
        if receiver is not None and self.scene.redeliveries.are_awaited:
            self._check_redelivery(receiver.queue.name, message.message_id)
        group = message.property("_AMQ_GROUP_ID")
        if receiver is not None and isinstance(group, str):
            self._check_group(receiver, group, key, message)
        if count < 1:
            self.scene.fail(f"{key} left for a consumer with the delivery count {count}")

    def _check_redelivery(self, subscription: str, message_id: int) -> None:
        """Check that what a rollback returned waits for the redelivery delay, also in a later life."""
        now = self.scene.world.now
        waited, complaint = self.scene.redeliveries.delivered(subscription, message_id, now)
        if complaint is not None:
            self.scene.fail(complaint)
        if waited is not None:
            self.scene.hit(Moment.REDELIVERY_DELAYED)
            since, delay_s = waited
            if since < self._began < since + delay_s:
                self.scene.hit(Moment.REDELIVERY_SURVIVED)

    def _check_group(self, receiver: Consumer, group: str, key: str, message: CoreMessage) -> None:
        """Check that a consumer keeps its groups until it goes."""
        queue = receiver.queue
        if queue.name in self.shared_anew:
            return
        holder, newest = self._group_holders.get((queue, group), (None, 0))
        is_known = holder is not None or newest == 0
        rebalances = queue.definition.group_rebalance
        if rebalances and queue.definition.group_rebalance_pause_dispatch:
            self._check_rebalance(receiver, group, key, message)
        if rebalances and holder is not receiver and message.message_id < newest:
            # Decided before the group was passed on, it waited for its count longer than a message behind it. Or it
            # was returned since. So either of the two may have the group now.
            self._hold_group(receiver, group, None, message.message_id)
            return
        key_of_first = queue.definition.group_first_key
        is_first = is_known and holder is not receiver
        if is_first and key_of_first and not queue.definition.exclusive and not message.property(key_of_first):
            self.scene.fail(f"{key} is the first of group {group} for a consumer of {queue.name}, and has no mark")
        if holder is not None and holder is not receiver:
            if rebalances and holder in queue.consumers:
                self.scene.hit(Moment.GROUP_REBALANCED)
            elif holder in queue.consumers and not self._is_decided_anew(group, min(message.message_id, newest)):
                self.scene.fail(f"{key} of group {group} left for another consumer of {queue.name} than those before")
            self.scene.hit(Moment.GROUP_PASSED_ON)
        elif (queue.name, group) in self._former_groups:
            self._former_groups.discard((queue.name, group))
            self.scene.hit(Moment.GROUP_SURVIVED)
        self._hold_group(receiver, group, receiver, message.message_id)

    def expect_decision(self, key: str) -> None:
        """Expect other consumers for the group of a key: the queues here forget the ones that they have chosen."""
        assert self.broker.node is not None, "only a living node ends decisions"
        self._decided_anew[key] = self.broker.node.kernel.ids.next_id

    def _is_decided_anew(self, group: str, message_id: int) -> bool:
        """Return True if a decision on a group has ended since a message got its id."""
        return any(key.startswith(f"{group}.") and message_id < until for key, until in self._decided_anew.items())

    def _hold_group(self, receiver: Consumer, group: str, holder: Consumer | None, message_id: int) -> None:
        where = receiver.queue, group
        _before, newest = self._group_holders.get(where, (None, 0))
        self._group_holders[where] = holder, max(newest, message_id)

    def _check_rebalance(self, receiver: Consumer, group: str, key: str, message: CoreMessage) -> None:
        """Check that a group passes on only when the consumers before have settled its messages."""
        if message.message_id not in receiver.unsettled:
            return  # it was settled, or returned, since it was handed over
        for other in receiver.queue.consumers:
            if other is not receiver and any(each.group_id == group for each in self._in_flight(other, receiver)):
                self.scene.fail(
                    f"{key} of group {group} left for a consumer of {receiver.queue.name} while another one had "
                    "messages of the group in flight"
                )

    def _in_flight(self, other: Consumer, receiver: Consumer) -> Iterator[Message]:
        """Return what a consumer holds, and what the transaction of its session acknowledged in the queue."""
        for reference in other.unsettled.values():
            yield reference.message
        session = other.owner
        if not isinstance(session, Session) or session is receiver.owner or session.branch in self._left_branches:
            return
        if session.transaction is not None:
            for queue, reference in session.transaction.deliveries():
                if queue is receiver.queue:
                    yield reference.message

    def _session_at(self, connection: int, channel: int) -> Session | tuple[int, int]:
        node = self.broker.node
        assert node is not None, "only a living broker sends"
        for session in node.core.sessions.values():
            if session.channel_id == channel and session.connection.link.id == connection:
                return session.kernel_session
        return connection, channel

    # When all is quiet

    def _is_quiet(self) -> bool:
        node = self.broker.node
        if node is None or node.journal is None or self.broker.under_way or node.kernel.has_work:
            return False
        if self.broker.recovering:
            return False  # the journal is read, and not all of it is in the kernel
        journal = node.journal
        if journal.bodies.under_way or journal.bodies.has_work(journal.reached):
            return False  # a file may be removed once a backup has copied it
        return journal.state is JournalState.READY and journal.point() == journal.reached

    def _compare_replay(self) -> None:
        """Compare a replay of the disk as of now with the kernel."""
        self.scene.hit(Moment.REPLAY_COMPARED)
        self._compare(self.broker.disk.copy())
        twin = self.twin() if self.twin is not None else None
        if twin is not None:
            self.scene.hit(Moment.COPY_COMPARED)
            copy = twin.copy()
            copy.lose_unsynced()
            self._compare(copy)

    def _compare(self, disk: SimulatedDisk) -> None:
        node = self.broker.node
        assert node is not None, "a quiet broker runs"
        recovered = self._replay(disk)
        replayed, names = _durable_in(recovered), {address.id: address.name for address in recovered.addresses}
        held = self._held(node.kernel)
        for name in {**held, **replayed}:
            if held.get(name) != replayed.get(name):
                self.scene.fail(f"queue {name}: the kernel holds {held.get(name)}, the journal {replayed.get(name)}")
        cursors = [
            queue.cursor.definition for queue in node.kernel.address_manager.queues.values() if queue.cursor is not None
        ]
        if sorted(cursors, key=lambda each: each.id) != sorted(recovered.cursors, key=lambda each: each.id):
            self.scene.fail(f"cursors: the kernel has {cursors}, the journal {recovered.cursors}")
        fencing_tokens, recorded = (
            node.kernel.fencing_tokens.list(""),
            {marker.name: marker.value for marker in recovered.fencing_tokens},
        )
        if fencing_tokens != recorded:
            self.scene.fail(f"markers: the kernel has {fencing_tokens}, the journal {recorded}")
        diverts = {each.name: each.definition for each in node.kernel.diverts.by_name.values()}
        if diverts != {each.name: each for each in recovered.diverts}:
            self.scene.fail(f"diverts: the kernel has {diverts}, the journal {recovered.diverts}")
        if sorted(names.values()) != sorted(address for address in node.kernel.address_manager.addresses):
            self.scene.fail(f"addresses: the journal has {sorted(names.values())}")
        ids = {
            address.name: list(address.duplicate_ids.numbers)
            for address in node.kernel.address_manager.addresses.values()
            if address.duplicate_ids
        }
        replayed_ids = _ids_in(recovered, names)
        for name in {**ids, **replayed_ids}:
            if (known := ids.get(name, [])) != (found := replayed_ids.get(name, [])):
                different = sorted({*known} ^ {*found})[:5]
                self.scene.fail(f"duplicate ids of {name}: {len(known)} here, {len(found)} in the journal: {different}")

    def _held(self, kernel: Kernel) -> _Durable:
        held: _Durable = {}
        for queue in kernel.address_manager.queues.values():
            if queue.durable:
                held[queue.name] = self._held_in(queue)
        return held

    def _held_in(self, queue: Queue) -> list[tuple[int, int]]:
        """Return the messages waiting, delivered, and acknowledged in a transaction or branch that is still open."""
        node = self.broker.node
        assert node is not None, "a quiet broker runs"
        references = list(queue.undelivered())
        for consumer in queue.consumers:
            references.extend(consumer.unsettled.values())
        local = [session.kernel_session.transaction for session in node.core.sessions.values()]
        for transaction in dict.fromkeys([*local, *node.kernel.branches.transactions()]):
            if transaction is not None:
                references.extend(reference for acked, reference in transaction.deliveries() if acked is queue)
        durable = [reference for reference in references if reference.message.durable]
        return sorted((reference.message.message_id, reference.position) for reference in durable)

    def _replay(self, disk: SimulatedDisk) -> RecoveredState:
        disk.repair()
        journal = Journal(self.broker.settings)
        now = self.scene.world.instant
        journal.open(now)
        while journal.state is JournalState.RECOVERING:
            for work in journal.take_work():
                journal.on_disk_done(work.batch, disk.run(work.operations), now)
        if journal.state is not JournalState.READY or journal.recovered is None:
            self.scene.fail(f"a replay of the journal fails: {journal.failure}")
            raise AssertionError
        return journal.recovered


def _durable_in(recovered: RecoveredState) -> _Durable:
    """Return the messages of each queue; they are removed from ``recovered``."""
    by_id = {queue.id: queue.name for queue in recovered.queues}
    replayed: _Durable = {name: [] for name in by_id.values()}
    while messages := recovered.take_messages(1000):
        for message in messages:
            for queue_id, position, _ in message.references:
                replayed[by_id[queue_id]].append((message.message_id, position))
    return {name: sorted(entries) for name, entries in replayed.items()}


def _ids_in(recovered: RecoveredState, addresses: dict[int, str]) -> dict[str, list[bytes]]:
    """Return the duplicate ids of each address, oldest first; they are removed.

    A cache that overflows does not matter here.
    """
    replayed: dict[str, dict[bytes, None]] = {}
    while entries := recovered.take_duplicate_ids(1000):
        for entry in entries:
            values = replayed.setdefault(addresses[entry.address_id], {})
            values.pop(entry.value, None)
            values[entry.value] = None
    return {name: list(values) for name, values in replayed.items()}
