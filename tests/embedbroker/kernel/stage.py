"""A kernel on a stage: settings, a store whose disk can lag, consumers that note what they get, and a clock by hand."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import Factory, define

from embedbroker.config import AddressSettings, BrokerConfig
from embedbroker.kernel import (
    ALLOW_ALL,
    ANONYMOUS,
    AddressDefinition,
    Authority,
    Consumer,
    CursorDefinition,
    CursorRemoved,
    DuplicateId,
    Fact,
    HeuristicOutcome,
    Kernel,
    MemoryBodies,
    Message,
    Principal,
    Queue,
    QueueDefinition,
    QueueRequest,
    Reference,
    Refused,
    Session,
)
from embedbroker.protocols import restore_message, route_copier
from embedclient.wire.core import CoreMessage

from .letters import text_of

__all__ = ["ANYCAST", "MULTICAST", "LaggingStore", "Stage", "Taker"]

MULTICAST, ANYCAST = 0, 1
PLENTY = 1_000_000


@define(eq=False)
class LaggingStore:
    """A store that notes every record and becomes durable on request. With ``lags`` False it always is."""

    lags: bool = False
    reached: int = 0
    records: list[tuple[object, ...]] = Factory(list)
    bodies: MemoryBodies = Factory(MemoryBodies)
    _appended: int = 0

    def _note(self, *record: object) -> None:
        self.records.append(record)
        self._appended += 1
        if not self.lags:
            self.reached = self._appended

    def sync(self) -> None:
        """Everything appended so far is durable."""
        self.reached = self._appended

    def of_kind(self, *kinds: str) -> list[tuple[object, ...]]:
        return [record for record in self.records if record[0] in kinds]

    def point(self) -> int:
        return self._appended

    def add_message(self, message: Message, transaction_id: int, references: Sequence[tuple[int, int]]) -> None:
        self._note("add", text_of(message), transaction_id, list(references))

    def add_run(
        self,
        messages: Sequence[Message],
        transaction_id: int,
        queue_id: int,
        first_position: int,
        replaced: Sequence[int] = (),
        origin_id: int = 0,
    ) -> None:
        for number, message in enumerate(messages):
            if replaced:
                self._note("move", text_of(message), queue_id, replaced[number], origin_id)
            else:
                self.add_message(message, transaction_id, [(queue_id, first_position + number)])

    def add_message_once(self, message: Message, references: Sequence[tuple[int, int]], entry: DuplicateId) -> None:
        self._note("once", text_of(message), entry.value)

    def add_run_once(self, messages: Sequence[Message], queue_id: int, entries: Sequence[DuplicateId]) -> None:
        for message, entry in zip(messages, entries, strict=True):
            self.add_message_once(message, [(queue_id, message.message_id)], entry)

    def add_duplicate_id(self, entry: DuplicateId, transaction_id: int) -> None:
        self._note("id", entry.number, entry.value, transaction_id)

    def forget_duplicate_ids(self, numbers: Sequence[int]) -> None:
        self.records += [("forget", number) for number in numbers]

    def clear_duplicate_ids(self, address_id: int, numbers: Sequence[int]) -> None:
        self._note("clear ids", address_id, list(numbers))

    def acknowledge(self, message_id: int, queue_id: int, transaction_id: int) -> None:
        self._note("acknowledge", message_id, queue_id, transaction_id)

    def acknowledge_run(self, message_ids: Sequence[int], queue_id: int, transaction_id: int) -> None:
        for message_id in message_ids:
            self.acknowledge(message_id, queue_id, transaction_id)

    def update_delivery_count(self, message_id: int, queue_id: int, count: int, due_ms: int = 0) -> None:
        if due_ms:
            self._note("delayed", message_id, queue_id, count, due_ms)
        else:
            self._note("count", message_id, queue_id, count)

    def prepare(self, transaction_id: int, xid: bytes) -> None:
        self._note("prepare", transaction_id, xid)

    def commit(self, transaction_id: int, positions: Sequence[tuple[int, int]]) -> None:
        self._note("commit", transaction_id, list(positions))

    def rollback(self, transaction_id: int) -> None:
        self._note("rollback", transaction_id)

    def add_outcome(self, outcome: HeuristicOutcome) -> None:
        self._note("outcome", outcome.transaction_id)

    def remove_outcome(self, transaction_id: int) -> None:
        self._note("no outcome", transaction_id)

    def add_address(self, definition: AddressDefinition) -> None:
        self._note("address", definition)

    def remove_address(self, address_id: int) -> None:
        self._note("no address", address_id)

    def add_queue(self, definition: QueueDefinition) -> None:
        self._note("queue", definition)

    def remove_queue(self, queue_id: int) -> None:
        self._note("no queue", queue_id)

    def note(self, fact: Fact) -> None:
        match fact:
            case CursorDefinition():
                self._note("cursor", fact)
            case CursorRemoved():
                self._note("no cursor", fact.id)
            case _:
                self._note("fact", fact)

    def reserve_ids(self, limit: int) -> None:
        self._note("ids", limit)


@define(eq=False)
class Taker:
    """A port that notes deliveries as (text, delivery count) and markers as numbers. Every message costs ``cost``."""

    cost: int = 1
    got: list[tuple[str, int] | int] = Factory(list)
    messages: list[CoreMessage] = Factory(list)
    closed: list[int] = Factory(list)
    #: The points that deliveries wait for.
    points: list[int] = Factory(list)

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        message = reference.message.to_core()
        assert isinstance(message, CoreMessage)
        self.got.append((text_of(message), reference.delivery_count))
        self.messages.append(message)
        return self.cost

    def deliver_behind(self, point: int, consumer: Consumer, reference: Reference) -> int:
        self.points.append(point)
        return self.deliver(consumer, reference)

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        self.got.append(sequence)

    def closed_by_broker(self, consumer: Consumer) -> None:
        self.closed.append(consumer.key)

    @property
    def texts(self) -> list[str]:
        return [entry[0] for entry in self.got if isinstance(entry, tuple)]


class Stage:
    """``run()`` finishes a step; nothing is dispatched before."""

    def __init__(
        self,
        settings: dict[str, AddressSettings] | None = None,
        *,
        lags: bool = False,
        memory_limit_bytes: int = PLENTY,
        authority: Authority = ALLOW_ALL,
        restored: Sequence[AddressDefinition | QueueDefinition] = (),
        store: LaggingStore | None = None,
        **config: object,
    ) -> None:
        self.log: list[str] = []
        self.ordinary: list[str] = []
        self.store = store if store is not None else LaggingStore()
        broker = BrokerConfig(address_settings=settings, **config)  # type: ignore[arg-type]  # tests name real fields
        self.kernel = Kernel(
            broker,
            restore_message,
            self.log.append,
            memory_limit_bytes,
            self.store,
            self._inform,
            authority=authority,
            route_copiers=route_copier,
        )
        for definition in restored:
            if isinstance(definition, AddressDefinition):
                self.kernel.address_manager.restore_address(definition)
            else:
                self.kernel.address_manager.restore_queue(definition)
        self.kernel.now_ms = 1_700_000_000_000
        self.kernel.housekeeping.start(0.0)
        self.kernel.housekeeping.at_start()
        self.store.lags = lags
        self._keys = 0
        self._sessions = 0
        self._seconds = 0.0

    def _inform(self, text: str) -> None:
        self.log.append(text)
        self.ordinary.append(text)

    def run(self, budget: int = PLENTY) -> None:
        self.kernel.run(budget)

    def run_all(self, budget: int = PLENTY) -> int:
        """Steps until nothing is left; returns how many."""
        steps = 0
        self.kernel.run(budget)
        while self.kernel.has_work:
            self.kernel.run(budget)
            steps += 1
            assert steps < 100_000, "the kernel never rests"
        return steps

    def pass_time(self, seconds: float) -> None:
        """Let time go by, with every scan that falls due."""
        housekeeping, kernel = self.kernel.housekeeping, self.kernel
        end = self._seconds + seconds
        while (due := housekeeping.next_deadline(self._seconds)) <= end:
            later = max(due, self._seconds)
            kernel.now_ms += round((later - self._seconds) * 1000)
            self._seconds = kernel.monotonic = later
            housekeeping.run(later)
            self.run_all()
        kernel.now_ms += round((end - self._seconds) * 1000)
        self._seconds = kernel.monotonic = end

    # -- shorthands ----------------------------------------------------------------------------------------------

    def queue(self, name: str, address: str | None = None, routing_type: int = ANYCAST, **wishes: object) -> Queue:
        request = QueueRequest(address or name, name, routing_type=routing_type, **wishes)  # type: ignore[arg-type]
        queue = self.kernel.address_manager.create_queue(request)
        assert isinstance(queue, Queue), queue
        return queue

    def refused(self, name: str, address: str | None = None, **wishes: object) -> Refused:
        request = QueueRequest(address or name, name, **wishes)  # type: ignore[arg-type]
        refused = self.kernel.address_manager.create_queue(request)
        assert isinstance(refused, Refused), refused
        return refused

    def session(
        self,
        *,
        transacted: bool = False,
        client: bool = False,
        pre_acknowledge: bool = False,
        principal: Principal = ANONYMOUS,
    ) -> Session:
        """``client``: acknowledgements are committed, sends are not transacted (CLIENT_ACKNOWLEDGE)."""
        self._sessions += 1
        session = Session(
            self.kernel,
            f"session-{self._sessions}",
            auto_commit_sends=not transacted,
            auto_commit_acknowledges=not transacted and not client,
            pre_acknowledge=pre_acknowledge,
            principal=principal,
        )
        session.start()
        return session

    def consumer(
        self,
        session: Session,
        queue: str,
        *,
        filter: str | None = None,
        browse: bool = False,
        priority: int = 0,
        credit: int = PLENTY,
        cost: int = 1,
    ) -> tuple[Consumer, Taker]:
        self._keys += 1
        taker = Taker(cost)
        consumer = session.create_consumer(self._keys, queue, filter, taker, browse=browse, priority=priority)
        assert isinstance(consumer, Consumer), consumer
        if credit:
            consumer.add_credit(credit)
        return consumer, taker

    def send(self, *messages: Message, session: Session | None = None, routing_type: int | None = None) -> None:
        for message in messages:
            if session is not None:
                refused = session.send(message, routing_type)
            else:
                refused = self.kernel.router.send(message, routing_type, None)
            assert refused is None, refused

    def waiting(self, name: str) -> list[str]:
        return [text_of(reference.message) for reference in self.kernel.address_manager.queues[name].backlog]

    def assert_empty(self) -> None:
        """Nothing is held any more, wherever it was counted."""
        self.run_all()
        assert self.kernel.memory.used_bytes == 0
        statistics = self.kernel.memory.statistics()
        assert not statistics.by_address and not statistics.shared
        self.kernel.check()
        for queue in self.kernel.address_manager.queues.values():
            assert (queue.message_count, queue.waiting_visible, queue.is_held) == (0, 0, False), queue.name
