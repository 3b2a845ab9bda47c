"""The journal beside a dumb model of it: what was appended, and what must come back after a crash.

The model keeps the list of all calls with the durability point that covered each, and computes a state by applying a
prefix of them to plain dictionaries. After a crash the recovered state must be that of a prefix which holds everything
up to `reached`. It shares no code with the journal.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from copy import deepcopy
from random import Random
from zlib import crc32

from attrs import Factory, define, frozen

from embedbroker.kernel import (
    AddressDefinition,
    CommitSet,
    CursorDefinition,
    CursorRemoved,
    DivertDefinition,
    DivertRemoved,
    DuplicateId,
    Fact,
    FencingToken,
    FencingTokenRemoved,
    HeuristicOutcome,
    QueueDefinition,
    SettingsDefinition,
    SettingsRemoved,
)
from embedbroker.storage import (
    DiskFault,
    DiskWork,
    Journal,
    JournalSettings,
    JournalState,
    Lane,
    ListFiles,
    RecoveredState,
)
from embedbroker.testing._disk import SimulatedDisk
from embedclient.model import Instant

NOW = Instant(100.0, 1_700_000_000_000)
SMALL = JournalSettings(
    identity=0x1234_5678_9ABC,
    segment_size_bytes=16 * 1024,
    batch_bytes_max=2048,
    recovery_slice_bytes=4096,
    compaction_slice_bytes=1024,
    compaction_segments_min=2,
    spare_segments_max=2,
)


@frozen
class StoredMessage:
    """What the journal needs of a message."""

    message_id: int
    raw: bytes
    encoding: int = 1
    durable: bool = True
    priority: int = 4
    expiration: int = 0
    timestamp: int = 1_700_000_000_123

    @property
    def deliver_at(self) -> int:
        """Every third message is scheduled."""
        return 0 if self.message_id % 3 else self.message_id + 5_000

    @property
    def is_grouped(self) -> bool:
        """Every fifth message has a group: 4, 9, 14 and so on."""
        return self.message_id % 5 == 4

    @property
    def is_directed(self) -> bool:
        return self.is_grouped or self.deliver_at != 0

    def stored_bytes(self) -> bytes:
        return self.raw


# Name of the store's method, and its arguments.
Call = tuple[str, tuple[object, ...]]


@define(eq=False)
class ModelState:
    """The state after some calls: (raw, {queue: (position, delivery count)}) by message id, and so on."""

    messages: dict[int, tuple[StoredMessage, dict[int, list[int]]]] = Factory(dict)
    queues: dict[int, QueueDefinition] = Factory(dict)
    addresses: dict[int, AddressDefinition] = Factory(dict)
    transactions: dict[int, list[Call]] = Factory(dict)
    prepared: dict[int, bytes] = Factory(dict)
    delayed: dict[tuple[int, int], int] = Factory(dict)
    outcomes: dict[int, HeuristicOutcome] = Factory(dict)
    # By address, in the order in which they came into force; those that were forgotten are let go of lazily.
    duplicate_ids: dict[int, list[DuplicateId]] = Factory(dict)
    forgotten: set[int] = Factory(set)
    fencing_tokens: dict[int, FencingToken] = Factory(dict)
    cursors: dict[int, CursorDefinition] = Factory(dict)
    diverts: dict[int, DivertDefinition] = Factory(dict)
    settings: dict[int, SettingsDefinition] = Factory(dict)
    id_limit: int = 0

    def apply(self, call: Call) -> None:
        getattr(self, call[0])(*call[1])

    def add_message(self, message: StoredMessage, transaction_id: int, references: Sequence[tuple[int, int]]) -> None:
        if transaction_id:
            self.transactions.setdefault(transaction_id, []).append(("add_message", (message, 0, references)))
        else:
            self.messages[message.message_id] = message, {queue: [position, 0] for queue, position in references}

    def move_message(self, message: StoredMessage, queue_id: int, replaced: int, origin_id: int) -> None:
        """A message takes the place of one in another queue."""
        self.add_message(message, 0, [(queue_id, message.message_id)])
        self.acknowledge(replaced, origin_id, 0)

    def add_message_once(
        self, message: StoredMessage, references: Sequence[tuple[int, int]], entry: DuplicateId
    ) -> None:
        self.add_message(message, 0, references)
        self.add_duplicate_id(entry, 0)

    def add_duplicate_id(self, entry: DuplicateId, transaction_id: int) -> None:
        if transaction_id:
            self.transactions.setdefault(transaction_id, []).append(("add_duplicate_id", (entry, 0)))
        elif entry.address_id in self.addresses:
            self.duplicate_ids.setdefault(entry.address_id, []).append(entry)

    def forget_duplicate_ids(self, numbers: Sequence[int]) -> None:
        self.forgotten.update(numbers)

    def clear_duplicate_ids(self, address_id: int, numbers: Sequence[int]) -> None:
        self.duplicate_ids.pop(address_id, None)

    def acknowledge(self, message_id: int, queue_id: int, transaction_id: int) -> None:
        if transaction_id:
            self.transactions.setdefault(transaction_id, []).append(("acknowledge", (message_id, queue_id, 0)))
        elif message_id in self.messages:
            references = self.messages[message_id][1]
            references.pop(queue_id, None)
            if not references:
                del self.messages[message_id]

    def update_delivery_count(self, message_id: int, queue_id: int, count: int, due_ms: int = 0) -> None:
        self.messages[message_id][1][queue_id][1] = count
        self.delayed[message_id, queue_id] = due_ms

    def prepare(self, transaction_id: int, xid: bytes) -> None:
        self.transactions.setdefault(transaction_id, [])
        self.prepared[transaction_id] = xid

    def commit(self, transaction_id: int, positions: Sequence[tuple[int, int]]) -> None:
        self.prepared.pop(transaction_id, None)
        first = dict(positions)
        for name, arguments in self.transactions.pop(transaction_id, []):
            if name == "add_message":
                message, _, references = arguments
                placed = [
                    (queue, first[queue] + ordinal)
                    for queue, ordinal in references  # type: ignore[attr-defined]  # as add_message made it
                ]
                self.apply((name, (message, 0, placed)))
            else:
                self.apply((name, arguments))
        self._drop_unknown_queues()

    def rollback(self, transaction_id: int) -> None:
        self.prepared.pop(transaction_id, None)
        self.transactions.pop(transaction_id, None)

    def add_outcome(self, outcome: HeuristicOutcome) -> None:
        self.outcomes[outcome.transaction_id] = outcome

    def remove_outcome(self, transaction_id: int) -> None:
        del self.outcomes[transaction_id]

    def note(self, fact: Fact) -> None:
        match fact:
            case FencingToken():
                self.fencing_tokens[fact.id] = fact
            case FencingTokenRemoved():
                del self.fencing_tokens[fact.id]
            case CommitSet():
                self.fencing_tokens[fact.marker.id] = fact.marker
                places = list(fact.places)
                while places:
                    transaction_id, count, *places = places
                    pairs, places = places[: 2 * count], places[2 * count :]
                    first = fact.first_position
                    offsets = zip(pairs[::2], pairs[1::2], strict=True)
                    self.commit(transaction_id, [(queue, first + offset) for queue, offset in offsets])
            case CursorDefinition():
                self.cursors[fact.id] = fact
            case CursorRemoved():
                del self.cursors[fact.id]
            case DivertDefinition():
                self.diverts[fact.id] = fact
            case DivertRemoved():
                del self.diverts[fact.id]
            case SettingsDefinition():
                self.settings[fact.id] = fact
            case SettingsRemoved():
                del self.settings[fact.id]

    def add_address(self, definition: AddressDefinition) -> None:
        self.addresses[definition.id] = definition

    def remove_address(self, address_id: int) -> None:
        del self.addresses[address_id]
        self.duplicate_ids.pop(address_id, None)

    def add_queue(self, definition: QueueDefinition) -> None:
        self.queues[definition.id] = definition

    def remove_queue(self, queue_id: int) -> None:
        del self.queues[queue_id]
        self._drop_unknown_queues()

    def reserve_ids(self, limit: int) -> None:
        self.id_limit = max(self.id_limit, limit)

    def roll_back_unprepared(self) -> None:
        for transaction_id in [known for known in self.transactions if known not in self.prepared]:
            self.rollback(transaction_id)

    def picture(self) -> dict[str, object]:
        """Everything recovery promises, in a form that can be compared."""
        return {
            "messages": {
                message_id: (
                    _brief(message.raw),
                    message.priority,
                    message.expiration,
                    _references(references),
                    message.deliver_at,
                    message.is_grouped,
                )
                for message_id, (message, references) in self.messages.items()
            },
            "delayed": {
                key: due_ms
                for key, due_ms in self.delayed.items()
                if due_ms and key[0] in self.messages and key[1] in self.messages[key[0]][1]
            },
            "queues": self.queues,
            "addresses": self.addresses,
            "prepared": {
                transaction_id: (
                    xid,
                    [_message_id(call) for call in self._calls(transaction_id, "add_message")],
                    self._acknowledged(transaction_id),
                    self._identified(transaction_id),
                )
                for transaction_id, xid in self.prepared.items()
            },
            "outcomes": self.outcomes,
            "markers": self.fencing_tokens,
            "cursors": {number: each for number, each in self.cursors.items() if each.queue_id in self.queues},
            "diverts": self.diverts,
            "settings": self.settings,
            "id_limit": self.id_limit,
            "duplicate_ids": {
                address_id: left
                for address_id, entries in self.duplicate_ids.items()
                if (left := [entry for entry in entries if entry.number not in self.forgotten])
            },
        }

    def _identified(self, transaction_id: int) -> list[DuplicateId]:
        """The ids of a transaction, as far as their addresses still exist."""
        entries = [call[1][0] for call in self._calls(transaction_id, "add_duplicate_id")]
        return [entry for entry in entries if isinstance(entry, DuplicateId) and entry.address_id in self.addresses]

    def _acknowledged(self, transaction_id: int) -> list[tuple[int, int]]:
        """What the transaction would take, as far as it still exists."""
        return [
            (message_id, queue_id)
            for message_id, queue_id in self.taken(transaction_id)
            if message_id in self.messages and queue_id in self.messages[message_id][1]
        ]

    def taken(self, transaction_id: int) -> list[tuple[int, int]]:
        """The references acknowledged in an open transaction."""
        found = []
        for call in self._calls(transaction_id, "acknowledge"):
            message_id, queue_id, _ = call[1]
            assert isinstance(message_id, int) and isinstance(queue_id, int)
            found.append((message_id, queue_id))
        return found

    def _calls(self, transaction_id: int, name: str) -> list[Call]:
        return [call for call in self.transactions[transaction_id] if call[0] == name]

    def _drop_unknown_queues(self) -> None:
        for message_id, (_, references) in list(self.messages.items()):
            for queue_id in [known for known in references if known not in self.queues]:
                del references[queue_id]
            if not references:
                del self.messages[message_id]


def _message_id(call: Call) -> int:
    message = call[1][0]
    assert isinstance(message, StoredMessage)
    return message.message_id


def _brief(raw: bytes) -> tuple[int, int]:
    return len(raw), crc32(raw)


def _references(references: dict[int, list[int]]) -> list[tuple[int, int, int]]:
    return sorted((queue, position, count) for queue, (position, count) in references.items())


def picture_of(recovered: RecoveredState, forgotten: Set[int] = frozenset()) -> dict[str, object]:
    """The same form for what the journal recovered; empties it.

    An id that was forgotten may be there or not: nothing is written about that.
    """
    duplicate_ids: dict[int, list[DuplicateId]] = {}
    while entries := recovered.take_duplicate_ids(3):
        for entry in entries:
            if entry.number not in forgotten:
                duplicate_ids.setdefault(entry.address_id, []).append(entry)
    messages = {}
    while portion := recovered.take_messages(7):
        for each in portion:
            messages[each.message_id] = (
                _brief(each.raw), each.priority, each.expiration, sorted(each.references), each.deliver_at,
                each.is_grouped,
            )  # fmt: skip
            if each.is_grouped:
                assert recovered.grouped.issuperset(queue for queue, *_ in each.references), each.message_id
    referenced = {(message_id, queue) for message_id, kept in messages.items() for queue, *_ in kept[3]}
    addresses = {address.id for address in recovered.addresses}
    return {
        "messages": messages,
        "delayed": {key: due_ms for key, due_ms in recovered.delayed.items() if key in referenced},
        "queues": {queue.id: queue for queue in recovered.queues},
        "addresses": {address.id: address for address in recovered.addresses},
        "prepared": {
            each.transaction_id: (
                each.xid,
                [message.message_id for message in each.take_adds(1_000)],
                [pair for pair in each.acknowledgements if pair in referenced],
                [entry for entry in each.duplicate_ids if entry.address_id in addresses],
            )
            for each in recovered.transactions
        },
        "markers": {marker.id: marker for marker in recovered.fencing_tokens},
        "cursors": {cursor.id: cursor for cursor in recovered.cursors},
        "diverts": {divert.id: divert for divert in recovered.diverts},
        "settings": {settings.id: settings for settings in recovered.settings},
        "outcomes": {outcome.transaction_id: outcome for outcome in recovered.outcomes},
        "id_limit": recovered.id_limit,
        "duplicate_ids": duplicate_ids,
    }


@define(eq=False)
class RecordedJournal:
    """A journal that remembers every call, on a simulated disk that is driven one operation at a time."""

    disk: SimulatedDisk
    settings: JournalSettings = SMALL
    start: ModelState = Factory(ModelState)
    history: list[tuple[Call, int]] = Factory(list)
    journal: Journal = Factory(lambda self: Journal(self.settings), takes_self=True)
    # Work under way: the operations left and the results so far.
    under_way: dict[Lane, tuple[DiskWork, list[object]]] = Factory(dict)

    def open(self) -> None:
        self.journal.open(NOW)

    def call(self, name: str, *arguments: object) -> None:
        match name, arguments:
            # Some calls take the ways for runs, which must do the same.
            case "acknowledge", (int(message_id), queue_id, transaction_id) if message_id % 2:
                self.journal.acknowledge_run([message_id], queue_id, transaction_id)  # type: ignore[arg-type]
            case "add_message", (message, transaction_id, [(queue_id, position)]) if message.message_id % 3 == 0:  # type: ignore[attr-defined]
                self.journal.add_run([message], transaction_id, queue_id, position)  # type: ignore[arg-type, list-item]
            case "move_message", (message, queue_id, replaced, origin_id):
                position = message.message_id  # type: ignore[attr-defined]
                self.journal.add_run([message], 0, queue_id, position, [replaced], origin_id)  # type: ignore[arg-type, list-item]
            case _:
                getattr(self.journal, name)(*arguments)
        self.history.append(((name, arguments), self.journal.point()))

    def step(self, random: Random | None = None, held: Lane | None = None) -> bool:
        """Do one disk operation of one lane, but none of the held one; false when there is nothing to do."""
        for work in self.journal.take_work():
            assert work.lane not in self.under_way
            self.under_way[work.lane] = work, []
        lanes = sorted(lane for lane in self.under_way if lane is not held)
        if not lanes:
            return False
        lane = random.choice(lanes) if random is not None else lanes[0]
        work, results = self.under_way[lane]
        try:
            if len(results) < len(work.operations):
                results += self.disk.run((work.operations[len(results)],))
            done = len(results) == len(work.operations)
        except DiskFault as fault:
            del self.under_way[lane]
            self.journal.on_disk_failed(work.batch, fault, NOW)
        else:
            if done:
                del self.under_way[lane]
                self.journal.on_disk_done(work.batch, tuple(results), NOW)
        return True

    def file_names(self) -> tuple[str, ...]:
        """What is in the directory now."""
        (names,) = self.disk.run((ListFiles(),))
        assert isinstance(names, tuple)
        return names

    def settle(self, random: Random | None = None) -> None:
        """Let the disk finish everything."""
        while self.step(random):
            pass

    def close(self) -> None:
        self.journal.close(NOW)
        self.settle()
        assert self.journal.state is JournalState.CLOSED

    def state_at(self, last: int) -> ModelState:
        """The state after everything up to this durability point, as a restart shows it."""
        state = deepcopy(self.start)
        for call, point in self.history:
            if point <= last:
                state.apply(call)
        state.roll_back_unprepared()
        return state

    def check_recovered(self, recovered: RecoveredState) -> ModelState:
        """Check what the next life found against this one: all that was confirmed and any number of batches beyond.

        Returns the state the next life starts from.
        """
        # What was forgotten in this life or before is so in all states that may be found.
        forgotten = self.state_at(self.journal.point()).forgotten
        picture = picture_of(recovered, forgotten)
        reached = self.journal.reached
        candidates = [reached, *sorted({point for _, point in self.history if point > reached})]
        nearest = ""
        for last in candidates:
            state = self.state_at(last)
            state.forgotten = forgotten
            if state.picture() == picture:
                return state
            difference = _difference(picture, state.picture())
            nearest = min(nearest or difference, difference, key=len)
        raise AssertionError(f"none of the states {candidates} was recovered; {nearest}")


def _difference(recovered: dict[str, object], confirmed: dict[str, object]) -> str:
    parts = []
    for key, value in recovered.items():
        other = confirmed[key]
        if isinstance(value, dict) and isinstance(other, dict):
            parts += [f"extra {key} {each}: {value[each]}" for each in value.keys() - other.keys()]
            parts += [f"missing {key} {each}: {other[each]}" for each in other.keys() - value.keys()]
            both = value.keys() & other.keys()
            parts += [f"{key} {each}: {value[each]} not {other[each]}" for each in both if value[each] != other[each]]
        elif value != other:
            parts.append(f"{key}: {value} not {other}")
    return "; ".join(parts)


def recover(disk: SimulatedDisk, settings: JournalSettings = SMALL) -> Journal:
    """Open a journal on a disk and run it until it is ready or failed."""
    recorded = RecordedJournal(disk, settings)
    recorded.open()
    while recorded.journal.state is JournalState.RECOVERING and recorded.step():
        pass
    return recorded.journal
