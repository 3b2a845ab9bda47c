"""Events in a broker, for its observers: the audit log, mirrors, notifications, plugins, checkers.

Responsible for calling observers in the order of events. Does not depend on the work of observers. An event without
observers costs the hot path one look at an empty list.

Each event is observed at one of two times. At the DECISION, an observer is called with plain values, in the middle of
the work, before a peer can see the effect. It must not change anything. At the COMMIT, it is called behind the record,
a bounded part per step: it may send messages. No event waits for the disk: a crash may undo the last events observed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum, IntEnum
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

from ._client_view import ClientConnection, SessionView
from ._deferred import AT_ONCE_MAX, DeferredWork, drained
from .message._message import Message
from .settling._outcome import Outcome

if TYPE_CHECKING:
    from embedbroker.config import SecuritySetting

    from ._authority import Permission, Principal
    from .addressing._address import Address
    from .addressing._diverts import Divert
    from .addressing._remote_binding import RemoteBinding
    from .queueing._queue import Consumer, Queue
    from .queueing._reference import Reference

__all__ = [
    "CommitObserver",
    "CommittedWork",
    "DecisionObserver",
    "Leaving",
    "Observers",
    "Service",
    "SessionView",
    "When",
]

Subscribers: TypeAlias = list[Callable[..., None]]
Event: TypeAlias = tuple[Subscribers, tuple[object, ...]]


class When(Enum):
    """Define when an observer is called; see the module."""

    DECISION = "decision"
    COMMIT = "commit"


class Leaving(IntEnum):
    """Define why a message left its queue for good. Stored numbers: never reuse one."""

    ACKNOWLEDGED = 0
    REJECTED = 1
    EXPIRED = 2
    REMOVED = 3
    """Purged: it was in no delivery, or the queue has no consumer left."""
    READ = 4
    """Read through a cursor, and acknowledged there."""


class Service(Enum):
    """Define what is started and stopped by its name, beside acceptors. The values begin the names of notifications."""

    BRIDGE = "BRIDGE"
    CLUSTER_CONNECTION = "CLUSTER_CONNECTION"
    BROADCAST_GROUP = "BROADCAST_GROUP"


class CommittedWork(Protocol):
    """Provide what an observer sees of a transaction that is committed."""

    id: int
    sent: list[tuple[Message, list[Queue], int]]
    acknowledged: list[tuple[Queue, Collection[Reference], Outcome, Consumer | None]]
    taken_count: int


class DecisionObserver:
    """Observe decisions: override the events of interest.

    `Observers.subscribe` examines the class once: other events are free.
    """

    when: ClassVar[When] = When.DECISION

    def routed(self, queue: Queue, message_id: int, durable: bool, transaction_id: int) -> None:
        """Observe that a message has its place in a queue, or will have it with the commit.

        ``durable`` is True if it survives a crash.
        """

    def delivered(self, consumer: Consumer, reference: Reference) -> None:
        """Observe a message that is given to a consumer.

        Called for consumers that are created after the subscription.
        """

    def settled(self, queue: Queue, message_id: int, why: int, transaction_id: int) -> None:
        """Observe a message that leaves its queue (``why`` is a `Leaving`), or will with the commit."""

    def returned(self, queue: Queue, message_id: int, counted: bool) -> None:
        """Observe a delivery that is back in its queue. ``counted`` is True if the next one is a redelivery."""

    def committed(self, transaction_ids: Sequence[int], number: int) -> None:
        """Observe committed transactions; ``number`` is the last id that was assigned by then."""

    def queue_removed(self, queue: Queue) -> None:
        """Observe the removal of a queue with its contents."""

    def address_settings_changed(self) -> None:
        """Observe that other settings of addresses are in force."""


class CommitObserver:
    """Observe commits: override the events of interest.

    `Observers.subscribe` examines the class once: other events are free.
    """

    when: ClassVar[When] = When.COMMIT

    def routed(self, message: Message, queues: list[Queue], transaction: CommittedWork | None) -> None:
        """Observe a message that got a place in queues.

        Without a transaction, called when its record is appended, before it is durable and visible. What the observer
        sends stands in the same batch of records, or a later one. In a transaction, called behind the record of the
        commit, and never after a rollback.
        """

    def settled(self, queue: Queue, reference: Reference, outcome: Outcome, transaction: CommittedWork | None) -> None:
        """Observe a delivery that a queue has finished with, or has back.

        Called when the record is appended; in a transaction behind the commit, and behind what the transaction routed.
        A returning delivery (released, modified, rolled back) is observed on its return, without a transaction. If its
        attempts were used up, the same message is rejected next. A message may also leave its queue without a delivery:
        expired, or accepted when a queue without consumers is purged.
        """

    def address_added(self, address: Address) -> None:
        """Observe an address that is created. Addresses restored by a restart are not observed."""

    def address_changed(self, address: Address) -> None:
        """Observe an address whose routing types are replaced."""

    def address_removed(self, address: Address) -> None:
        """Observe the removal of an address."""

    def divert_added(self, divert: Divert) -> None:
        """Observe a divert that is created. Diverts restored by a restart are not observed, nor are changes."""

    def queue_added(self, queue: Queue) -> None:
        """Observe a queue that is bound to its address. Queues restored by a restart are not observed."""

    def queue_updated(self, queue: Queue) -> None:
        """Observe a queue whose filter changed."""

    def queue_removed(self, queue: Queue) -> None:
        """Observe the removal of a queue. Its contents are not observed."""

    def remote_binding_added(self, binding: RemoteBinding, binding_id: int) -> None:
        """Observe a queue of another broker that takes part in routing."""

    def remote_binding_updated(self, binding: RemoteBinding) -> None:
        """Observe a queue of another broker whose filter changed."""

    def remote_binding_removed(self, binding: RemoteBinding, binding_id: int) -> None:
        """Observe the end of a queue of another broker, which had this id here."""

    def remote_consumer_added(self, binding: RemoteBinding, address: str, filter: str | None, count: int) -> None:
        """Observe a consumer at another broker, where the queue has ``count`` now.

        ``address`` is ``address::queue`` if the consumer named it so.
        """

    def remote_consumer_removed(self, binding: RemoteBinding, filter: str | None, count: int) -> None:
        """Observe the end of a consumer at another broker, where the queue has ``count`` left."""

    def remote_session_added(
        self, connection: str | None, peer: str | None, client_id: str | None, protocol: str | None, distance: int
    ) -> None:
        """Observe the beginning of a session at another broker."""

    def consumer_added(self, consumer: Consumer) -> None:
        """Observe a consumer or browser that is attached to its queue."""

    def consumer_removed(self, consumer: Consumer) -> None:
        """Observe the end of a consumer or browser. Its unsettled messages return."""

    def session_added(self, session: SessionView) -> None:
        """Observe the beginning of a session."""

    def session_removed(self, session: SessionView) -> None:
        """Observe the end of a session."""

    def access_refused(self, principal: Principal, permission: Permission, address: str, queue: str | None) -> None:
        """Observe that a user lacks a permission for what it requested."""

    def login_refused(self, user: str | None, peer: str, reason: str, subject: str | None) -> None:
        """Observe that a client got no session. ``subject`` is that of its certificate; None without one."""

    def security_changed(self, settings: Mapping[str, SecuritySetting]) -> None:
        """Observe that other security settings are in force."""

    def acceptor_started(self, host: str, port: int) -> None:
        """Observe that connections are accepted again."""

    def acceptor_stopped(self, host: str, port: int) -> None:
        """Observe that connections are not accepted any more."""

    def service_started(self, service: Service, name: str) -> None:
        """Observe that a service is started: a bridge perhaps without a connection yet."""

    def service_stopped(self, service: Service, name: str) -> None:
        """Observe that a service is stopped or paused."""

    def connection_added(self, connection: ClientConnection) -> None:
        """Observe the beginning of a connection."""

    def connection_removed(self, connection: ClientConnection) -> None:
        """Observe the end of a connection."""


Observer: TypeAlias = DecisionObserver | CommitObserver


class DecisionSubscribers:
    """Hold callables by event, in order of subscription; see `DecisionObserver`."""

    __slots__ = ("address_settings_changed", "committed", "delivered", "queue_removed", "returned", "routed", "settled")

    def __init__(self) -> None:
        self.routed: list[Callable[[Queue, int, bool, int], None]] = []
        self.delivered: list[Callable[[Consumer, Reference], None]] = []
        self.settled: list[Callable[[Queue, int, int, int], None]] = []
        self.returned: list[Callable[[Queue, int, bool], None]] = []
        self.committed: list[Callable[[Sequence[int], int], None]] = []
        self.queue_removed: list[Callable[[Queue], None]] = []
        self.address_settings_changed: list[Callable[[], None]] = []


class CommitSubscribers:
    """Hold callables by event, in order of subscription; see `CommitObserver`."""

    __slots__ = (
        "acceptor_started",
        "acceptor_stopped",
        "access_refused",
        "address_added",
        "address_changed",
        "address_removed",
        "connection_added",
        "connection_removed",
        "consumer_added",
        "consumer_removed",
        "divert_added",
        "login_refused",
        "queue_added",
        "queue_removed",
        "queue_updated",
        "remote_binding_added",
        "remote_binding_removed",
        "remote_binding_updated",
        "remote_consumer_added",
        "remote_consumer_removed",
        "remote_session_added",
        "routed",
        "security_changed",
        "service_started",
        "service_stopped",
        "session_added",
        "session_removed",
        "settled",
    )

    def __init__(self) -> None:
        self.routed: list[Callable[[Message, list[Queue], CommittedWork | None], None]] = []
        self.settled: list[Callable[[Queue, Reference, Outcome, CommittedWork | None], None]] = []
        self.address_added: list[Callable[[Address], None]] = []
        self.address_changed: list[Callable[[Address], None]] = []
        self.address_removed: list[Callable[[Address], None]] = []
        self.divert_added: list[Callable[[Divert], None]] = []
        self.queue_added: list[Callable[[Queue], None]] = []
        self.queue_removed: list[Callable[[Queue], None]] = []
        self.queue_updated: list[Callable[[Queue], None]] = []
        self.remote_binding_added: list[Callable[[RemoteBinding, int], None]] = []
        self.remote_binding_updated: list[Callable[[RemoteBinding], None]] = []
        self.remote_binding_removed: list[Callable[[RemoteBinding, int], None]] = []
        self.remote_consumer_added: list[Callable[[RemoteBinding, str, str | None, int], None]] = []
        self.remote_consumer_removed: list[Callable[[RemoteBinding, str | None, int], None]] = []
        self.remote_session_added: list[Callable[[str | None, str | None, str | None, str | None, int], None]] = []
        self.consumer_added: list[Callable[[Consumer], None]] = []
        self.consumer_removed: list[Callable[[Consumer], None]] = []
        self.session_added: list[Callable[[SessionView], None]] = []
        self.session_removed: list[Callable[[SessionView], None]] = []
        self.access_refused: list[Callable[[Principal, Permission, str, str | None], None]] = []
        self.login_refused: list[Callable[[str | None, str, str, str | None], None]] = []
        self.security_changed: list[Callable[[Mapping[str, SecuritySetting]], None]] = []
        self.acceptor_started: list[Callable[[str, int], None]] = []
        self.acceptor_stopped: list[Callable[[str, int], None]] = []
        self.service_started: list[Callable[[Service, str], None]] = []
        self.service_stopped: list[Callable[[Service, str], None]] = []
        self.connection_added: list[Callable[[ClientConnection], None]] = []
        self.connection_removed: list[Callable[[ClientConnection], None]] = []


class Observers:
    """Hold all observers of one broker. The lists stay the same objects: the hot path keeps those that it reads."""

    __slots__ = ("_deferred", "_late", "commit", "decision")

    def __init__(self, deferred: DeferredWork) -> None:
        self._deferred = deferred
        # Number of sets of events in the deferred work. While there are any, later events wait behind them.
        self._late = 0
        self.decision = DecisionSubscribers()
        self.commit = CommitSubscribers()

    def subscribe(self, observer: Observer) -> None:
        """Call an observer from now on."""
        for subscribers, observed in self._overridden(observer):
            subscribers.append(observed)

    def unsubscribe(self, observer: Observer) -> None:
        """Stop calling an observer. Ignored for one that was not subscribed."""
        for subscribers, observed in self._overridden(observer):
            if observed in subscribers:
                subscribers.remove(observed)

    def _overridden(self, observer: Observer) -> list[tuple[Subscribers, Callable[..., None]]]:
        is_decision = observer.when is When.DECISION
        base, events = (DecisionObserver, self.decision) if is_decision else (CommitObserver, self.commit)
        classes = type(observer).__mro__
        own = set[str]().union(*map(vars, classes[: classes.index(base)]))
        return [(getattr(events, name), getattr(observer, name)) for name in events.__slots__ if name in own]

    @property
    def follow_messages(self) -> bool:
        """Return True if an observer is called with messages at the commit."""
        return bool(self.commit.routed or self.commit.settled)

    def call(self, subscribers: Subscribers, *facts: object) -> None:
        """Call the observers of one event of the commit."""
        if subscribers and self._late:
            self._call_all(iter([(subscribers, facts)]), 1)
        else:
            for subscriber in subscribers:
                subscriber(*facts)

    def call_each(
        self, subscriber: Callable[..., None], events: Iterable[tuple[object, ...]], count: int, cost: int
    ) -> None:
        """Call one subscriber with each of ``count`` events, behind all earlier events and ahead of all later ones.

        ``cost`` is the share of a step's work that one call takes; 1 is about that of one message.
        """
        subscribers = [subscriber]
        self._call_all(((subscribers, facts) for facts in events), count, cost)

    def access_refused(self, principal: Principal, permission: Permission, address: str, queue: str | None) -> None:
        """Call the observers of a refused request."""
        self.call(self.commit.access_refused, principal, permission, address, queue)

    def call_committed(self, transaction: CommittedWork) -> None:
        """Call the observers of everything a transaction sent, and of its deliveries that do not return."""
        routed, settled = self.commit.routed, self.commit.settled

        def events() -> Iterator[Event]:
            for message, queues, _place in drained(sent):
                yield routed, (message, queues, transaction)
            for queue, references, outcome, _consumer in drained(acknowledged):
                if outcome.leaves:
                    for reference in references:
                        yield settled, (queue, reference, outcome, transaction)

        if self.follow_messages:
            # The commit releases what the transaction holds.
            sent, acknowledged = transaction.sent.copy(), transaction.acknowledged.copy()
            self._call_all(events(), len(sent) + transaction.taken_count)

    def _call_all(self, events: Iterator[Event], count: int, cost: int = 1) -> None:
        """Call observers at once for a few events, over the next steps for many."""
        if count <= AT_ONCE_MAX and not self._late:
            for subscribers, facts in events:
                for subscriber in subscribers:
                    subscriber(*facts)
            return

        def late() -> Iterator[None]:
            for subscribers, facts in events:
                for subscriber in subscribers:
                    subscriber(*facts)
                yield from repeat(None, cost)
            self._late -= 1

        self._late += 1
        self._deferred.add(late())
