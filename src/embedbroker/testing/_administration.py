"""Checkers of what an administrator does to queues, addresses, permissions and the acceptor of a broker.

They judge deliveries and queues of the broker through all its lives. An order counts from its answer on; while one is
under way, or in doubt, nothing is claimed about what it changes. Does not depend on how orders are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import define, field

from embedbroker.kernel import Consumer, DecisionObserver, Queue, Reference
from embedclient.wire.core import FrameSplitter, PacketType, SessionProducerCredits, decode_packet, frame_spans

from ._broker_view import BrokerView
from ._node_host import NodeHost
from ._scene import Moment, Scene

__all__ = [
    "CLERK",
    "DESK",
    "AcceptorChecker",
    "BlockChecker",
    "GrantChecker",
    "KeyFilter",
    "PauseChecker",
    "Purge",
    "PurgeChecker",
    "UpdateChecker",
]

CLERK = "clerk"
"""Name of the user whose permissions change. The keys of its messages begin with it."""

DESK = "desk"
"""Name of the address, and of its queue, on which its permissions change."""

_CREDITS = int(PacketType.SESS_PRODUCER_CREDITS)

#: Id and key of a message. After a crash, ids of messages that were not durable are used again.
_Identity = tuple[int, str]
#: A message with its delivery count.
_Delivery = tuple[_Identity, int]


def _queue_of(broker: BrokerView, name: str) -> Queue | None:
    """Return a queue of a broker that is ready; None without one."""
    if broker.node is None or not broker.ready:
        return None
    return broker.node.kernel.address_manager.queues.get(name)


def _in_delivery(broker: BrokerView, queue: Queue | None) -> set[_Delivery]:
    """Return the messages that consumers and open transactions have, each with its delivery count."""
    if queue is None:
        return set()
    return {(_identity(reference), reference.delivery_count) for reference in _held(broker, queue)}


def _held(broker: BrokerView, queue: Queue) -> Iterator[Reference]:
    for consumer in queue.consumers:
        yield from consumer.unsettled.values()
    assert broker.node is not None, "the queue is of a living broker"
    for session in broker.node.core.sessions.values():
        transaction = session.kernel_session.transaction
        if transaction is not None:
            for other, reference in transaction.deliveries():
                if other is queue:
                    yield reference


class _Deliveries(DecisionObserver):
    """Pass on what queues give to consumers."""

    def __init__(self, checker: PauseChecker) -> None:
        self._checker = checker

    def delivered(self, consumer: Consumer, reference: Reference) -> None:
        self._checker.on_delivery(consumer.queue, reference)


@define(eq=False)
class PauseChecker:
    """Check that a paused queue delivers nothing, and that a restart keeps a pause exactly if that was ordered.

    A hold is a pause of a queue or of its address, and is named by the resource.
    """

    scene: Scene
    broker: BrokerView
    #: By queue, the holds that are in force, and whether each survives a restart.
    _holds: dict[str, dict[str, bool]] = field(factory=dict, init=False)
    #: Queues that no hold keeps, so that each life begins with their deliveries.
    _resumed: set[str] = field(factory=set, init=False)
    #: By queue, orders without an answer. 0 <= count
    _unanswered: dict[str, int] = field(factory=dict, init=False)

    def watch(self) -> None:
        """Register with the broker."""
        self.broker.on_start.append(self._begin_life)
        self._begin_life()
        self.broker.on_ready.append(self._check_recovered)

    def pausing(self, queue: str) -> None:
        """A pause is requested."""
        self._resumed.discard(queue)
        self._unanswered[queue] = self._unanswered.get(queue, 0) + 1

    def paused(self, queue: str, resource: str, *, is_persisted: bool) -> None:
        """A pause is confirmed."""
        self._unanswered[queue] -= 1
        holds = self._holds.setdefault(queue, {})
        # A pause for this life alone leaves the record of one before.
        holds[resource] = is_persisted or holds.get(resource, False)

    def resuming(self, queue: str, resource: str) -> None:
        """The end of one hold is requested."""
        self._holds.get(queue, {}).pop(resource, None)
        self._unanswered[queue] = self._unanswered.get(queue, 0) + 1

    def resumed(self, queue: str) -> None:
        """The end of the last hold is confirmed."""
        self._unanswered[queue] = 0
        if not self._holds.get(queue):
            self._resumed.add(queue)

    def on_delivery(self, queue: Queue, reference: Reference) -> None:
        """Check a message that the queue gives to a consumer. It may leave later, when a session is reattached."""
        holds = self._holds.get(queue.name)
        if holds:
            key = reference.message.property("key")
            self.scene.fail(f"{key!r} left {queue.name} for a consumer; it is paused by {', '.join(holds)}")

    def _begin_life(self) -> None:
        assert self.broker.node is not None, "a life begins with a node"
        self.broker.node.kernel.observers.subscribe(_Deliveries(self))
        for name, holds in self._holds.items():
            ended = [resource for resource, is_persisted in holds.items() if not is_persisted]
            for resource in ended:
                del holds[resource]
            if ended and not holds and not self._unanswered.get(name):
                self._resumed.add(name)

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
                self.scene.fail(f"recovery of {name}: nothing that survives pauses it, and it is paused")


@define(eq=False)
class KeyFilter:
    """A filter of messages by the last digit of their keys. The keys alone decide what it matches."""

    digits: Sequence[int]

    @property
    def text(self) -> str:
        """The filter as the broker takes it."""
        return " OR ".join([f"key LIKE '%{digit}'" for digit in self.digits])

    def spares(self, key: str) -> bool:
        """Return True if the filter does not match the message with this key."""
        return not key.endswith(tuple([str(digit) for digit in self.digits]))


@define(eq=False)
class Purge:
    """One purge of a queue: what waited and what was in delivery when it was requested.

    ``waiting`` has only what the filter matches. ``wanted`` is that filter; None for a purge of everything.
    """

    queue: str
    waiting: dict[_Identity, None]
    delivered: set[_Delivery]
    wanted: KeyFilter | None = None

    @property
    def spares(self) -> Callable[[str], bool] | None:
        """What spares messages of the purge, as the ledger takes it."""
        return None if self.wanted is None else self.wanted.spares


@define(eq=False)
class PurgeChecker:
    """Check that a purge removes all that waited, for good, and nothing that was in delivery or came later.

    One with a filter removes only what matches. The ledger reports what is missing. It learns here which messages a
    purge may have taken.
    """

    scene: Scene
    broker: BrokerView
    _open: dict[str, Purge] = field(factory=dict, init=False)
    #: By queue, what must not be seen any more.
    _gone: dict[str, set[_Identity]] = field(factory=dict, init=False)

    def watch(self) -> None:
        """Register with the broker."""
        self.broker.on_ready.append(self._check_recovered)

    def begin(self, name: str, wanted: KeyFilter | None = None) -> Purge:
        """A purge is requested, perhaps with a filter."""
        queue = _queue_of(self.broker, name)
        waiting: dict[_Identity, None] = {}
        if queue is not None:
            found = [_identity(reference) for reference in queue.undelivered()]
            waiting = dict.fromkeys([each for each in found if wanted is None or not wanted.spares(each[1])])
        purge = self._open[name] = Purge(name, waiting, _in_delivery(self.broker, queue), wanted)
        self.scene.ledger.purging(name, purge.spares)
        return purge

    def end(self, purge: Purge, removed: int | None) -> None:
        """The purge is over. ``removed`` is the number in its answer; None without an answer."""
        del self._open[purge.queue]
        queue = _queue_of(self.broker, purge.queue)
        kept = purge.delivered & _in_delivery(self.broker, queue)
        self.scene.ledger.purged(purge.queue, [key for (_id, key), _count in kept], purge.spares)
        if removed is None:
            return
        gone = self._gone.setdefault(purge.queue, set())
        gone.update(purge.waiting)
        if removed:
            self.scene.hit(Moment.PURGED if purge.wanted is None else Moment.REMOVED_BY_FILTER)
        if queue is not None:
            self._check_queue(queue, "the purge")

    def on_delivery(self, queue: Queue, message_id: int, key: str) -> None:
        """Check a message that a queue gives to a consumer."""
        identity = message_id, key
        purge = self._open.get(queue.name)
        if purge is not None:
            purge.waiting.pop(identity, None)
        elif identity in self._gone.get(queue.name, ()):
            self.scene.fail(f"{key} was given to a consumer of {queue.name}, and a purge had removed it")

    def _check_recovered(self) -> None:
        for name in self._gone:
            queue = _queue_of(self.broker, name)
            if queue is not None:
                self._check_queue(queue, "recovery")

    def _check_queue(self, queue: Queue, where: str) -> None:
        gone = self._gone[queue.name]
        for reference in queue.undelivered():
            if _identity(reference) in gone:
                _id, key = _identity(reference)
                self.scene.fail(f"{where} of {queue.name}: {key} is there, and a purge had to remove it")


@define(eq=False)
class UpdateChecker:
    """Check that a queue has what its last update set, and everything that earlier ones set, in each life."""

    scene: Scene
    broker: BrokerView
    #: By queue, the fields of the definition that are known.
    _known: dict[str, dict[str, object]] = field(factory=dict, init=False)

    def watch(self) -> None:
        """Register with the broker."""
        self.broker.on_ready.append(self._check_recovered)

    def updating(self, queue: str, fields: dict[str, object]) -> None:
        """An update of these fields is requested."""
        known = self._known.setdefault(queue, {})
        for name in fields:
            known.pop(name, None)

    def updated(self, queue: str, fields: dict[str, object]) -> None:
        """The update is confirmed."""
        self._known[queue].update(fields)
        self.scene.hit(Moment.QUEUE_UPDATED)
        if self.broker.ready:
            self._check("the update", queue)

    def refused(self, queue: str, before: dict[str, object]) -> None:
        """The update is refused: the fields have the values that they had before."""
        self._known[queue].update(before)
        self.scene.hit(Moment.UPDATE_REFUSED)
        if self.broker.ready:
            self._check("the refused update", queue)

    def _check_recovered(self) -> None:
        for name in self._known:
            self._check("recovery", name)

    def _check(self, where: str, name: str) -> None:
        node = self.broker.node
        assert node is not None, "a broker that is ready lives"
        queue = node.kernel.address_manager.queues.get(name)
        for each, value in self._known[name].items():
            found = None if queue is None else getattr(queue.definition, each)
            if found != value:
                self.scene.fail(f"{where} of {name}: {each} is {found!r}, and was set to {value!r}")


@define(eq=False)
class AcceptorChecker:
    """Check that a stopped acceptor leaves no connection but those of the process, and that clients come back.

    The ledger reports what is lost by it. A life of the broker begins with an acceptor that has been started.
    """

    scene: Scene
    host: NodeHost
    #: None: not known now.
    _is_stopped: bool | None = field(default=False, init=False)
    _awaits_clients: bool = field(default=False, init=False)
    #: The life in which the last request was made: an answer of an earlier one may arrive late.
    _life: int = field(default=0, init=False)

    def watch(self) -> None:
        """Register with the broker."""
        self.host.on_start.append(self._begin_life)
        self.host.after_step.append(self._check)

    def switching(self) -> None:
        """A stop or a start is requested."""
        self._is_stopped = None
        self._life = self.host.life

    def stopped(self) -> None:
        """A stop is confirmed."""
        self._is_stopped = self._awaits_clients = self._life == self.host.life
        self.scene.hit(Moment.ACCEPTOR_STOPPED)
        self._check()

    def started(self) -> None:
        """A start is confirmed."""
        self._is_stopped = False
        if not self.host.is_accepting:
            self.scene.fail("the acceptor was started, and the broker accepts no connections")

    def reported(self, *, is_started: bool) -> None:
        """The broker has answered whether its acceptor is started, which was requested after a stop or a start."""
        if self._life == self.host.life and is_started is self._is_stopped:
            self.scene.fail(f"the acceptor is reported as started: {is_started}, and stopped: {self._is_stopped}")

    def _begin_life(self) -> None:
        if self._is_stopped:
            self._is_stopped = False

    def _check(self) -> None:
        node = self.host.node
        if node is None or self._is_stopped is None or not self._awaits_clients:
            return
        connections = [session.connection for session in node.core.sessions.values()]
        alive = [each.link.peer for each in connections if each.link.alive]
        outside = [peer for peer in (*alive, *self.host.peers) if peer not in self.host.local_clients]
        if outside and self._is_stopped:
            self.scene.fail(f"the acceptor was stopped, and {outside[0]} is connected")
        if outside:
            self._awaits_clients = False
            self.scene.hit(Moment.CAME_BACK)


@define(eq=False)
class BlockChecker:
    """Check that producers of a blocked address get no credit, for as long as the broker lives."""

    scene: Scene
    broker: BrokerView
    _blocked: set[str] = field(factory=set, init=False)
    _life: int = field(default=0, init=False)
    _splitters: dict[int, FrameSplitter] = field(factory=dict, init=False)
    #: The connection of each session, by its name, after the last step.
    _connections: dict[str, int] = field(factory=dict, init=False)

    def watch(self) -> None:
        """Register with the broker."""
        self.broker.on_send.append(self._look_for_credits)
        self.broker.after_step.append(self._note_connections)

    def blocked(self, address: str) -> None:
        """A block is confirmed."""
        self._blocked.add(address)
        self.scene.hit(Moment.ADDRESS_BLOCKED)

    def unblocking(self, address: str) -> None:
        """The end of a block is requested."""
        self._blocked.discard(address)

    def _note_connections(self) -> None:
        node = self.broker.node
        if node is not None and self._blocked:
            self._connections = {name: session.connection.link.id for name, session in node.core.sessions.items()}

    def _look_for_credits(self, connection: int, peer: str, data: bytes) -> None:
        if self._life != self.broker.life:
            self._life = self.broker.life
            self._splitters.clear()
            self._connections.clear()
            self._blocked.clear()
        splitter = self._splitters.get(connection)
        if splitter is None:
            splitter = self._splitters[connection] = FrameSplitter()
        buffer, headers = splitter.feed(data)
        if not self._blocked:
            return
        for (_length, packet_type, channel), (start, end) in zip(headers, frame_spans(headers), strict=True):
            if packet_type == _CREDITS:
                packet = decode_packet(buffer, start, end, 0, False)
                assert isinstance(packet, SessionProducerCredits)
                if packet.address in self._blocked and not self._is_repeated(connection, channel):
                    self.scene.fail(f"{packet.credits} credits were granted for {packet.address}, which is blocked")

    def _is_repeated(self, connection: int, channel: int) -> bool:
        """Return True if the session has just come to this connection: what it is sent now was sent before."""
        node = self.broker.node
        assert node is not None, "only a living broker sends"
        for session in node.core.sessions.values():
            if session.channel_id == channel and session.connection.link.id == connection:
                return self._connections.get(session.name) != connection
        return True


@define(eq=False)
class GrantChecker:
    """Check that a user may do exactly what it is permitted, where that changes while it works.

    Only attempts between two changes count: one that begins after the answer of a change, and ends before the next
    change is requested.
    """

    scene: Scene
    broker: BrokerView
    #: None: not known now.
    _is_granted: bool | None = field(default=False, init=False)
    _changes: int = field(default=0, init=False)
    _sent: dict[str, None] = field(factory=dict, init=False)
    _refused: dict[str, None] = field(factory=dict, init=False)

    def changing(self) -> None:
        """A change is requested."""
        self._is_granted = None
        self._changes += 1

    def changed(self, *, is_granted: bool) -> None:
        """The change is confirmed."""
        self._is_granted = is_granted
        self.scene.hit(Moment.GRANT_CHANGED)

    def begin(self) -> tuple[int, bool | None]:
        """An attempt begins. Return what `judge` needs."""
        return self._changes, self._is_granted

    def judge(self, begun: tuple[int, bool | None], what: str, key: str, *, is_refused: bool) -> None:
        """An attempt has ended. ``key`` is that of the message sent, empty for none."""
        if key:
            (self._refused if is_refused else self._sent)[key] = None
        changes, is_granted = begun
        if changes != self._changes or is_granted is None:
            return
        self.scene.hit(Moment.PERMITTED_PASSED if is_granted else Moment.FORBIDDEN_REFUSED)
        if is_granted and is_refused:
            self.scene.fail(f"{CLERK}: {what} is permitted, and was refused")
        elif not is_granted and not is_refused:
            self.scene.fail(f"{CLERK}: {what} is forbidden, and was not refused")

    def check_at_the_end(self) -> None:
        """Check that what was confirmed is there, and nothing that was refused."""
        node = self.broker.node
        assert node is not None, "the broker runs in the end"
        queue = node.kernel.address_manager.queues[DESK]
        found = {str(reference.message.property("key")) for reference in queue.undelivered()}
        if missing := [key for key in self._sent if key not in found]:
            self.scene.fail(f"{CLERK} may send to {DESK}, and {missing[:5]} are missing there")
        if present := [key for key in self._refused if key in found]:
            self.scene.fail(f"{CLERK} was refused, and {present[:5]} are in {DESK}")


def _identity(reference: Reference) -> _Identity:
    return reference.message.message_id, str(reference.message.property("key"))
