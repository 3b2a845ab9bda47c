"""Random but valid calls to a journal, as a kernel would make them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any
from zlib import crc32

from attrs import Factory, define, evolve

from embedbroker.kernel import (
    AddressDefinition,
    CommitSet,
    CursorDefinition,
    CursorRemoved,
    DivertDefinition,
    DivertRemoved,
    DuplicateId,
    FencingToken,
    FencingTokenRemoved,
    HeuristicOutcome,
    QueueDefinition,
    SettingsDefinition,
    SettingsRemoved,
)
from embedclient.model import Xid
from tests.embedbroker.storage.journal_model import Call, ModelState, StoredMessage

SIZES = (0, 1, 40, 200, 400, 900, 3000)

# What a flow chooses its weights from: acknowledgements, delivery counts; messages, acknowledgements and ends of
# transactions; duplicate ids.
FLOW_WEIGHTS = (5, 30), (0, 0, 3), (0, 5), (3, 20), (1, 3), (0, 0, 2)

Maker = Callable[[], Call | None]


@define(eq=False)
class Workload:
    """Makes one call after the other; `state` is what they add up to, open transactions included."""

    random: Random
    state: ModelState
    next_id: int
    # References acknowledged in an open transaction: no other consumer gets them.
    taken: set[tuple[int, int]] = Factory(set)
    open: list[int] = Factory(list)
    sizes: tuple[int, ...] = SIZES
    # Whether prepared transactions are decided in place of their managers.
    decides: bool = False
    # Whether the workload keeps markers, and commits prepared transactions in sets.
    marks: bool = False
    # Whether the workload reads with cursors.
    reads: bool = False
    # Whether diverts and settings come and go.
    diverts: bool = False
    # Whether queues, addresses and settings change as management changes them.
    manages: bool = False
    # Whether the duplicate ids of addresses are cleared.
    clears: bool = False
    # Whether messages move from one queue to another.
    moves: bool = False

    @classmethod
    def on(cls, random: Random, state: ModelState) -> Workload:
        """Continue from a recovered state."""
        workload = cls(random, deepcopy(state), max(state.id_limit, 1))
        for transaction_id in state.transactions:
            workload.open.append(transaction_id)
            workload.taken |= set(state.taken(transaction_id))
        return workload

    def call(self) -> Call:
        """The next call, already applied to `state`."""
        choices = self._choices()
        while True:
            make = self.random.choices([each for _, each in choices], [weight for weight, _ in choices])[0]
            call = self._reserve() or make()
            if call is not None:
                self.state.apply(call)
                return call

    def _choices(self) -> list[tuple[float, Maker]]:
        return [
            (32, self._add),
            (24, self._acknowledge),
            (4, self._count),
            (3, self._begin),
            (9, self._add_in_transaction),
            (6, self._acknowledge_in_transaction),
            (5, self._end),
            (1, self._prepare),
            (5, self._add_once),
            (2, self._identify_in_transaction),
            (6, self._forget),
            (2, self._add_queue),
            (1, self._remove_queue),
            (1, self._change),
            *([(3, self._move_cursor), (1, self._remove_cursor)] if self.reads else ()),
            *([(3, self._divert), (1, self._remove_divert)] if self.diverts else ()),
            *([(3, self._set), (1, self._remove_settings)] if self.diverts else ()),
            *([(4, self._change_queue), (2, self._pause_address)] if self.manages else ()),
            *([(3, self._set_address), (3, self._set_security), (1, self._remove_settings)] if self.manages else ()),
            *([(1, self._clear), (6, self._add_once)] if self.clears else ()),
            *([(12, self._move)] if self.moves else ()),
            *([(2, self._decide), (1, self._forget_outcome)] if self.decides else ()),
            *([(3, self._mark), (1, self._unmark), (6, self._commit_set), (6, self._prepare)] if self.marks else ()),
        ]

    def _take_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def _reserve(self) -> Call | None:
        if self.next_id + 10 <= self.state.id_limit:
            return None
        return "reserve_ids", (self.next_id + self.random.choice((20, 100)),)

    def _message(self) -> StoredMessage:
        raw = self.random.randbytes(self.random.choice(self.sizes))
        return StoredMessage(
            self._take_id(), raw, priority=self.random.randrange(10), expiration=self.random.choice((0, 99))
        )

    def _some_queues(self) -> list[int]:
        queues = list(self.state.queues)
        count = self.random.choice((1, 1, 1, 2, 3))
        return self.random.sample(queues, min(count, len(queues)))

    def _add(self) -> Call | None:
        queues = self._some_queues()
        if not queues:
            return None
        return "add_message", (self._message(), 0, [(queue, self._take_id()) for queue in queues])

    def _duplicate_id(self) -> DuplicateId | None:
        if not self.state.addresses:
            return None
        value = self.random.randbytes(self.random.choice((0, 16, 72)))
        return DuplicateId(self._take_id(), self.random.choice(list(self.state.addresses)), value)

    def _add_once(self) -> Call | None:
        queues, entry = self._some_queues(), self._duplicate_id()
        if entry is None or not queues:
            return None
        if self.random.random() < 0.2:
            return "add_duplicate_id", (entry, 0)
        return "add_message_once", (self._message(), [(queue, self._take_id()) for queue in queues], entry)

    def _identify_in_transaction(self) -> Call | None:
        transaction_id, entry = self._unprepared(), self._duplicate_id()
        return ("add_duplicate_id", (entry, transaction_id)) if transaction_id and entry else None

    def _forget(self) -> Call | None:
        """The oldest ids leave, as those of a full cache do."""
        for entries in self.state.duplicate_ids.values():
            left = [entry.number for entry in entries if entry.number not in self.state.forgotten]
            if len(left) > 2:
                return "forget_duplicate_ids", ((left[0],),)
        return None

    def _clear(self) -> Call | None:
        """All ids in force at an address leave at once."""
        if not self.state.duplicate_ids:
            return None
        address_id, entries = self.random.choice(list(self.state.duplicate_ids.items()))
        numbers = [entry.number for entry in entries if entry.number not in self.state.forgotten]
        return "clear_duplicate_ids", (address_id, numbers)

    def _reference(self) -> tuple[int, int] | None:
        known = list(self.state.messages)
        # The oldest first, mostly, as queues do: so whole segments die.
        message_id = known[self.random.randrange(min(len(known), 6))] if known else 0
        if known and self.random.random() < 0.1:
            message_id = self.random.choice(known)
        queues = list(self.state.messages[message_id][1]) if known else []
        free = [queue for queue in queues if (message_id, queue) not in self.taken]
        return (message_id, self.random.choice(free)) if free else None

    def _acknowledge(self) -> Call | None:
        reference = self._reference()
        return ("acknowledge", (*reference, 0)) if reference else None

    def _move(self) -> Call | None:
        """A copy takes the place of a message in another queue; it has neither a group nor a time of delivery."""
        reference = self._reference()
        queues = [queue for queue in self.state.queues if reference is not None and queue != reference[1]]
        if reference is None or not queues:
            return None
        message = self._message()
        while message.is_directed:
            message = self._message()
        return "move_message", (message, self.random.choice(queues), *reference)

    def _count(self) -> Call | None:
        reference = self._reference()
        if reference is None:
            return None
        count = self.random.randrange(1, 9)
        return "update_delivery_count", (*reference, count, count * 1000 if count % 2 else 0)

    def _begin(self) -> Call | None:
        if len(self.open) < 4 and self.state.queues:
            self.open.append(self._take_id())
        return None

    def _unprepared(self) -> int | None:
        candidates = [known for known in self.open if known not in self.state.prepared]
        return self.random.choice(candidates) if candidates else None

    def _add_in_transaction(self) -> Call | None:
        transaction_id, queues = self._unprepared(), self._some_queues()
        if transaction_id is None or not queues:
            return None
        # With gaps, as a kernel leaves them that sends what is not recorded in between.
        ordinal = 2 * len(self.state.transactions.get(transaction_id, []))
        return "add_message", (self._message(), transaction_id, [(queue, ordinal) for queue in queues])

    def _acknowledge_in_transaction(self) -> Call | None:
        transaction_id, reference = self._unprepared(), self._reference()
        if transaction_id is None or reference is None:
            return None
        self.taken.add(reference)
        return "acknowledge", (*reference, transaction_id)

    def _end(self) -> Call | None:
        if not self.open:
            return None
        transaction_id = self.random.choice(self.open)
        calls = self.state.transactions.get(transaction_id, [])
        if not calls:
            return None
        self.open.remove(transaction_id)
        self.taken -= set(self.state.taken(transaction_id))
        if self.random.random() < 0.3:
            return "rollback", (transaction_id,)
        first = self.next_id
        self.next_id += 2 * len(calls)
        return "commit", (transaction_id, [(queue, first) for queue in self._sent_to(transaction_id)])

    def _sent_to(self, transaction_id: int) -> list[int]:
        """Which queues get messages from a transaction."""
        queues: dict[int, None] = {}
        for name, arguments in self.state.transactions[transaction_id]:
            if name == "add_message":
                queues.update((queue, None) for queue, _ in arguments[2])  # type: ignore[attr-defined]  # as made above
        return list(queues)

    def _prepare(self) -> Call | None:
        transaction_id = self._unprepared()
        if transaction_id is None or transaction_id not in self.state.transactions:
            return None
        return "prepare", (transaction_id, b"xid %d" % transaction_id)

    def _decide(self) -> Call | None:
        undecided = [known for known in self.state.prepared if known not in self.state.outcomes]
        if not undecided:
            return None
        number = self.random.choice(undecided)
        return "add_outcome", (HeuristicOutcome(number, Xid(number, b"branch", b"global"), self.random.random() < 0.5),)

    def _forget_outcome(self) -> Call | None:
        outcomes = list(self.state.outcomes)
        return ("remove_outcome", (self.random.choice(outcomes),)) if len(outcomes) > 1 else None

    def _move_cursor(self) -> Call | None:
        """A reader comes, or goes on."""
        cursors = list(self.state.cursors.values())
        if cursors and (len(cursors) > 2 or self.random.random() < 0.8):
            cursor = self.random.choice(cursors)
            return "note", (evolve(cursor, position=cursor.end, end=self._take_id(), rows=self.random.randrange(9)),)
        queues = list(self.state.queues)
        if not queues:
            return None
        return "note", (CursorDefinition(self._take_id(), self.random.choice(queues), "reader \ud800", owner="me"),)

    def _remove_cursor(self) -> Call | None:
        cursors = list(self.state.cursors)
        return ("note", (CursorRemoved(self.random.choice(cursors)),)) if cursors else None

    def _divert(self) -> Call | None:
        """A divert comes, or changes."""
        diverts = list(self.state.diverts.values())
        if diverts and self.random.random() < 0.5:
            return "note", (evolve(self.random.choice(diverts), exclusive=self.random.random() < 0.5),)
        number = self._take_id()
        return "note", (DivertDefinition(number, f"divert {number}", "a", "b,c \ud800", "r", properties={"k": "v"}),)

    def _remove_divert(self) -> Call | None:
        diverts = list(self.state.diverts)
        return ("note", (DivertRemoved(self.random.choice(diverts)),)) if diverts else None

    def _set(self) -> Call | None:
        """Settings come, or change."""
        settings = list(self.state.settings.values())
        if settings and self.random.random() < 0.5:
            changed = evolve(self.random.choice(settings), values={"max_delivery_attempts": self.random.randrange(9)})
            return "note", (changed,)
        number = self._take_id()
        return "note", (SettingsDefinition(number, "security", f"a.{number}.\ud800", {"send": ["x", "y"]}),)

    def _remove_settings(self) -> Call | None:
        settings = list(self.state.settings)
        return ("note", (SettingsRemoved(self.random.choice(settings)),)) if settings else None

    def _change_queue(self) -> Call | None:
        """A queue is paused or resumed, or one of its settings changes; the others stay."""
        if not self.state.queues:
            return None
        random = self.random
        queue = random.choice(list(self.state.queues.values()))
        kinds: tuple[dict[str, Any], ...] = (
            {"paused": not queue.paused},
            {"paused": not queue.paused},
            {"exclusive": not queue.exclusive},
            {"filter": None if queue.filter else f"n > {self.next_id} OR t = '\ud800'"},
            {"group_buckets": random.choice((-1, 0, 7)), "group_rebalance": random.random() < 0.5},
            {"group_first_key": None if queue.group_first_key else f"first {self.next_id}"},
            {"max_consumers": random.choice((-1, 1)), "purge_on_no_consumers": random.random() < 0.5},
            {"routing_type": 1 - queue.routing_type, "user": f"user {self.next_id}"},
        )
        return "add_queue", (evolve(queue, **random.choice(kinds)),)

    def _pause_address(self) -> Call | None:
        """An address is paused, or resumed."""
        if not self.state.addresses:
            return None
        address = self.random.choice(list(self.state.addresses.values()))
        return "add_address", (evolve(address, paused=not address.paused),)

    def _set_address(self) -> Call | None:
        """Address settings come, or change."""
        values = {
            "max_delivery_attempts": self.random.randrange(9),
            "redelivery_delay_multiplier": self.random.choice((1.0, 2.5)),
            "dead_letter_address": self.random.choice(("DLQ", "other \ud800")),
            "send_to_dla_on_no_route": self.random.random() < 0.5,
        }
        return self._settings_of("address", dict(self.random.sample(list(values.items()), 2)))

    def _set_security(self) -> Call | None:
        """Security settings come, or change."""
        roles = [f"role {self.next_id}", *self.random.sample(["x", "y", "\ud800"], 2)]
        return self._settings_of("security", {"send": roles, "consume": roles[:1], "browse": []})

    def _settings_of(self, kind: str, values: dict[str, object]) -> Call:
        known = [each for each in self.state.settings.values() if each.kind == kind]
        if known and (len(known) > 3 or self.random.random() < 0.6):
            return "note", (evolve(self.random.choice(known), values=values),)
        number = self._take_id()
        return "note", (SettingsDefinition(number, kind, f"a.{number}.#", values),)

    def _mark(self) -> Call | None:
        if self.state.fencing_tokens and self.random.random() < 0.8:
            marker = self.random.choice(list(self.state.fencing_tokens.values()))
            return "note", (evolve(marker, value=marker.value + 1),)
        return ("note", (self._new_marker(),)) if len(self.state.fencing_tokens) < 3 else None

    def _new_marker(self) -> FencingToken:
        identifier = self._take_id()
        return FencingToken(identifier, f"marker {identifier}", self.random.choice((-5, 0, 1 << 62)))

    def _unmark(self) -> Call | None:
        return (
            ("note", (FencingTokenRemoved(self.random.choice(list(self.state.fencing_tokens))),))
            if self.state.fencing_tokens
            else None
        )

    def _commit_set(self) -> Call | None:
        """Some of the prepared transactions; a set may also have none."""
        prepared = [known for known in self.open if known in self.state.prepared]
        members = self.random.sample(prepared, self.random.randrange(len(prepared) + 1))
        marker = (
            self._new_marker()
            if not self.state.fencing_tokens
            else self.random.choice(list(self.state.fencing_tokens.values()))
        )
        places: list[int] = []
        size = 0
        for transaction_id in members:
            self.open.remove(transaction_id)
            self.taken -= set(self.state.taken(transaction_id))
            sent = self._sent_to(transaction_id)
            places += [transaction_id, len(sent), *[number for queue in sent for number in (queue, size)]]
            size += 2 * len(self.state.transactions[transaction_id])
        first = self.next_id
        self.next_id += size
        return "note", (CommitSet(evolve(marker, value=marker.value + 1), first, members, places),)

    def _add_queue(self) -> Call | None:
        if len(self.state.queues) >= 6:
            return None
        identifier = self._take_id()
        if self.random.random() < 0.3:
            return "add_address", (AddressDefinition(identifier, f"a{identifier}", True, False),)
        return "add_queue", (QueueDefinition(identifier, f"q{identifier}", "a", 1),)

    def _remove_queue(self) -> Call | None:
        if self.state.addresses and self.random.random() < 0.3:
            return "remove_address", (self.random.choice(list(self.state.addresses)),)
        in_transactions = {
            queue
            for calls in self.state.transactions.values()
            for name, arguments in calls
            if name == "add_message"
            for queue, _ in arguments[2]  # type: ignore[attr-defined]  # as this class made it
        }
        removable = [queue for queue in self.state.queues if queue not in in_transactions]
        return ("remove_queue", (self.random.choice(removable),)) if len(removable) > 1 else None

    def _change(self) -> Call | None:
        if not self.state.queues:
            return None
        queue = self.random.choice(list(self.state.queues.values()))
        return "add_queue", (QueueDefinition(queue.id, queue.name, "a", 1, user=str(self.next_id)),)


@define(eq=False)
class Flow(Workload):
    """Messages that come and go, and few that stay, many of them in several queues: segments are merged all the time.

    Transactions take their time, so they begin before a compaction and end in its middle.
    """

    sizes: tuple[int, ...] = (100, 200, 400, 900)
    staying_percent: int = Factory(lambda self: self.random.choice((2, 5, 10, 20)), takes_self=True)
    # How many messages lie in front of one that is acknowledged, on average.
    lag: int = Factory(lambda self: self.random.choice((5, 30, 100)), takes_self=True)
    _weights: tuple[int, ...] = Factory(
        lambda self: tuple([self.random.choice(each) for each in FLOW_WEIGHTS]), takes_self=True
    )

    def _choices(self) -> list[tuple[float, Maker]]:
        acknowledged, counted, added, taken, ended, identified = self._weights
        return [
            (20, self._add),
            (acknowledged, self._acknowledge),
            (counted, self._count),
            (3, self._begin),
            (added, self._add_in_transaction),
            (taken, self._acknowledge_in_transaction),
            (ended, self._end),
            (1, self._prepare),
            *[(identified, each) for each in (self._add_once, self._identify_in_transaction, self._forget)],
            *[(0.2, each) for each in (self._add_queue, self._change)],
            (0.05, self._remove_queue),
            *([(2, self._move_cursor), (0.3, self._remove_cursor)] if self.reads else ()),
            *([(2, self._add_once), (1, self._identify_in_transaction), (0.1, self._clear)] if self.clears else ()),
            *[(1, each) for each in (self._decide, self._forget_outcome) if self.decides],
            *([(2, self._mark), (0.3, self._unmark), (4, self._commit_set), (4, self._prepare)] if self.marks else ()),
        ]

    def _some_queues(self) -> list[int]:
        queues = list(self.state.queues)
        return self.random.sample(queues, min(self.random.choice((1, 1, 2, 2, 3)), len(queues)))

    def _reference(self) -> tuple[int, int] | None:
        """Of one of the latest messages, but rarely of one that stays."""
        known = list(self.state.messages)
        for _ in range(8 if known else 0):
            message_id = known[max(0, len(known) - 1 - int(self.random.expovariate(1 / self.lag)))]
            if crc32(b"%d" % message_id) % 100 < self.staying_percent and self.random.random() > 0.02:
                continue
            free = [queue for queue in self.state.messages[message_id][1] if (message_id, queue) not in self.taken]
            if free:
                return message_id, self.random.choice(free)
        return None
