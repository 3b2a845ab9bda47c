"""The whole kernel in step with a naive model of lists: which consumer may get which message, when, and how often.

The model does not choose consumers. It decides whether each delivery is one that the rules allow, and that nothing
waits that a consumer could take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from attrs import Factory, define
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from embedbroker.config import AddressSettings
from embedbroker.kernel import Consumer, Message, Queue, QueueUpdate, Reference, Session
from embedbroker.kernel._schedule import Schedule
from embedbroker.kernel.queueing._backlog import Backlog
from embedbroker.kernel.settling._expiry import Expiry
from tests.simulation.fault_points import fault_point, replace

from .journal_in_memory import JournalInMemory
from .letters import letter, text_of
from .stage import ANYCAST, MULTICAST, Stage

ATTEMPTS_MAX = 3
#: All times are multiples of this, which is exact in seconds, too: what is due now is due for the stage.
UNIT_MS = 125
REDELIVERY_DELAY_MS = 2 * UNIT_MS
SCAN_MS = 10_000
DEAD, EXPIRED = "DLQ", "EXP"
SETTINGS = {
    "#": AddressSettings(
        dead_letter_address=DEAD,
        expiry_address=EXPIRED,
        max_delivery_attempts=ATTEMPTS_MAX,
        redelivery_delay_ms=REDELIVERY_DELAY_MS,
        auto_delete_queues=False,
        auto_delete_addresses=False,
    )
}
COLOURS = st.sampled_from([None, "red", "blue"])
FILTERS = st.sampled_from([None, None, "red", "blue"])
GROUPS = st.sampled_from([None, None, None, "g1", "g1", "g2"])
PRIORITIES = st.sampled_from([4, 4, 4, 0, 9])
NAMES = st.sampled_from(["a", "a", "m1", "m2", "x"])
ADDRESSES = st.sampled_from(["a", "a", "a", "t", "t", "x"])


@define(eq=False, repr=False)
class Entry:
    """One message in one queue of the model."""

    text: str
    colour: str | None
    group: str | None
    priority: int
    position: int
    durable: bool
    expiration: int
    deliver_at: int
    #: It must not be delivered before this time.
    due_ms: int
    #: Since when it can be delivered; what expired before the last scan, and was there then, is gone.
    since_ms: int
    deliveries: int = 0
    #: The deliveries that a restart finds, and when it is due then.
    recorded: int = 0
    recorded_due_ms: int = 0
    #: The consumer that holds it, or the session whose transaction decides about it; None for one that waits.
    holder: ModelConsumer | ModelSession | None = None

    @property
    def place(self) -> tuple[int, int]:
        return -self.priority, self.position

    def copy(self) -> Entry:
        """Return what arrives at another address: with neither times nor deliveries."""
        return Entry(self.text, self.colour, self.group, self.priority, 0, self.durable, 0, 0, 0, 0)


@define(eq=False, repr=False)
class ModelSession:
    session: Session
    transacted: bool
    consumers: list[ModelConsumer] = Factory(list)
    #: What its transaction sends: address and message.
    sent: list[tuple[str, Entry]] = Factory(list)


@define(eq=False, repr=False)
class ModelConsumer:
    owner: ModelSession
    queue: ModelQueue
    key: int
    colour: str | None
    priority: int
    credit: int
    held: list[Entry] = Factory(list)


@define(eq=False)
class ModelQueue:
    name: str
    address: str
    colour: str | None = None
    exclusive: bool = False
    entries: list[Entry] = Factory(list)
    consumers: list[ModelConsumer] = Factory(list)
    groups: dict[str, ModelConsumer] = Factory(dict)
    #: The only one that an exclusive queue delivers to.
    sole: ModelConsumer | None = None
    paused: bool = False
    recorded_pause: bool = False

    def waiting(self, now_ms: int) -> list[Entry]:
        ready = [each for each in self.entries if each.holder is None and each.due_ms <= now_ms]
        return sorted(ready, key=lambda each: each.place)

    def scheduled(self, now_ms: int) -> list[Entry]:
        return [each for each in self.entries if each.holder is None and each.due_ms > now_ms]

    def is_for(self, entry: Entry, consumer: ModelConsumer) -> bool:
        if consumer.colour not in (None, entry.colour):
            return False
        if self.exclusive:
            return self.sole in (None, consumer)
        return entry.group is None or self.groups.get(entry.group, consumer) is consumer

    def forget(self, consumer: ModelConsumer) -> None:
        self.consumers.remove(consumer)
        self.groups = {group: each for group, each in self.groups.items() if each is not consumer}
        if self.sole is consumer:
            self.sole = None


@define(eq=False)
class Port:
    """Hand each delivery to the model, which decides whether it is allowed."""

    beside: KernelBesideModel
    consumer: ModelConsumer

    def deliver(self, _consumer: Consumer, reference: Reference) -> int:
        self.beside.check_delivery(self.consumer, text_of(reference.message), reference.delivery_count)
        return 1

    def deliver_behind(self, _point: int, consumer: Consumer, reference: Reference) -> int:
        return self.deliver(consumer, reference)

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        raise AssertionError("no marker was requested")

    def closed_by_broker(self, consumer: Consumer) -> None:
        raise AssertionError("no queue is deleted")


class KernelBesideModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(SETTINGS, store=JournalInMemory(), message_expiry_scan_period_ms=SCAN_MS)
        self.scans_from_ms = self.now_ms
        self.sessions: list[ModelSession] = []
        self.paused_addresses: dict[str, bool] = {}
        self.sent_count = 0
        self.position = 0
        self.keys = 0
        self.queues = {
            each.name: each
            for each in (
                ModelQueue("a", "a"),
                ModelQueue("x", "x", exclusive=True),
                ModelQueue("m1", "t"),
                ModelQueue("m2", "t", "red"),
                ModelQueue(DEAD, DEAD),
                ModelQueue(EXPIRED, EXPIRED),
            )
        }

    @initialize(credits=st.sampled_from([[100, 100], [100, 1], [2, 2], [0, 100]]), transacted=st.booleans())
    def create_queues(self, credits: list[int], transacted: bool) -> None:
        for queue in self.queues.values():
            if queue.name not in self.stage.kernel.address_manager.queues:
                kind = MULTICAST if queue.address == "t" else ANYCAST
                wanted = None if queue.colour is None else f"colour = '{queue.colour}'"
                self.stage.queue(queue.name, queue.address, kind, filter=wanted, exclusive=queue.exclusive)
        for credit in credits:
            session = self.begin_session(transacted)
            self.attach(session, "a", None, 0, credit)

    # -- the model -------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.stage.kernel.now_ms

    def kernel_queue(self, queue: ModelQueue) -> Queue:
        return self.stage.kernel.address_manager.queues[queue.name]

    def all_consumers(self) -> list[ModelConsumer]:
        return [consumer for session in self.sessions for consumer in session.consumers]

    def arrive(self, address: str, entry: Entry) -> None:
        """Put a message into each queue of an address that takes it."""
        self.position += 1
        for queue in self.queues.values():
            if queue.address == address and queue.colour in (None, entry.colour):
                there = entry.copy()
                there.position, there.since_ms = self.position, max(self.now_ms, entry.deliver_at)
                there.expiration, there.deliver_at, there.due_ms = entry.expiration, entry.deliver_at, entry.deliver_at
                queue.entries.append(there)

    def move(self, queue: ModelQueue, entry: Entry, address: str) -> None:
        queue.entries.remove(entry)
        self.arrive(address, entry.copy())

    def give_back(self, queue: ModelQueue, entry: Entry, *, failed: bool, rolled_back: bool) -> None:
        entry.holder = None
        entry.since_ms = self.now_ms
        if not failed:
            entry.deliveries -= 1
        is_dead = entry.deliveries >= ATTEMPTS_MAX
        if rolled_back and not is_dead:
            entry.due_ms = entry.since_ms = entry.recorded_due_ms = self.now_ms + REDELIVERY_DELAY_MS
        if failed or rolled_back:
            entry.recorded = entry.deliveries
        if is_dead:
            self.move(queue, entry, DEAD)

    # -- deliveries ----------------------------------------------------------------------------------------------

    def check_delivery(self, consumer: ModelConsumer, text: str, deliveries: int) -> None:
        """The first of those that the consumer may get, and that no consumer of a higher priority could take."""
        queue, now_ms = consumer.queue, self.now_ms
        assert not queue.paused and not self.is_address_paused(queue), f"{queue.name} is paused"
        assert consumer in queue.consumers and consumer.credit > 0, "a consumer without credit"
        fresh = [each for each in queue.waiting(now_ms) if not 0 < each.expiration <= now_ms]
        allowed = [each for each in fresh if queue.is_for(each, consumer)]
        assert allowed and allowed[0].text == text, (text, [each.text for each in allowed], queue.name)
        entry = allowed[0]
        for other in queue.consumers:
            better = other.priority > consumer.priority and other.credit > 0
            assert not (better and queue.is_for(entry, other)), f"{text} belongs to a consumer of a higher priority"
        entry.deliveries += 1
        assert deliveries == entry.deliveries, text
        entry.holder = consumer
        consumer.held.append(entry)
        consumer.credit -= 1
        if queue.exclusive:
            queue.sole = consumer
        elif entry.group is not None:
            queue.groups[entry.group] = consumer

    def is_address_paused(self, queue: ModelQueue) -> bool:
        return queue.address in self.paused_addresses

    def settle(self) -> None:
        """Let the kernel finish, and compare all that it has with the model."""
        self.stage.run_all()
        self.stage.kernel.check()
        for queue in self.queues.values():
            self.notice_expired(queue)
        for queue in self.queues.values():
            self.compare(queue)

    def notice_expired(self, queue: ModelQueue) -> None:
        """What has expired may wait until it is found: by the next scan, or by a consumer that could take it."""
        there = set(self.stage.waiting(queue.name))
        last_scan_ms = self.now_ms - (self.now_ms - self.scans_from_ms) % SCAN_MS
        for entry in queue.waiting(self.now_ms):
            if not 0 < entry.expiration <= self.now_ms:
                continue
            if entry.text not in there:
                self.move(queue, entry, EXPIRED)
            else:
                found = entry.expiration <= last_scan_ms and entry.since_ms < last_scan_ms
                assert not found, f"{entry.text} has expired and was scanned"

    def compare(self, queue: ModelQueue) -> None:
        actual, now_ms = self.kernel_queue(queue), self.now_ms
        waiting = [each.text for each in queue.waiting(now_ms)]
        found = self.stage.waiting(queue.name)
        if queue.name in (DEAD, EXPIRED):
            # Of those that die at once, any may be the first.
            assert Counter(found) == Counter(waiting), queue.name
        else:
            assert found == waiting, queue.name
        scheduled = Counter([(each.text, each.due_ms) for each in queue.scheduled(now_ms)])
        entries = actual.scheduled.entries() if actual.scheduled is not None else []
        assert Counter([(text_of(each.message), due_ms) for due_ms, each in entries]) == scheduled, queue.name
        assert actual.delivering_count == len([each for each in queue.entries if each.holder is not None])
        assert actual.message_count == len(queue.entries)
        assert actual.is_paused == (queue.paused or self.is_address_paused(queue)), queue.name
        if not actual.is_paused:
            for entry in queue.waiting(now_ms):
                for consumer in queue.consumers:
                    can_take = consumer.credit > 0 and queue.is_for(entry, consumer)
                    assert not can_take, f"{entry.text} waits in {queue.name}, and a consumer could take it"

    # -- sending -------------------------------------------------------------------------------------------------

    def message(self, address: str, data: st.DataObject) -> tuple[Message, Entry]:
        self.sent_count += 1
        colour, group = data.draw(COLOURS), data.draw(GROUPS)
        priority, durable = data.draw(PRIORITIES), data.draw(st.booleans())
        # An expired message of a group may have chosen the consumer of the group.
        expires_ms = 0 if group else data.draw(st.sampled_from([0, 0, 2 * UNIT_MS, 2 * UNIT_MS, 15_000]))
        delay_ms = data.draw(st.sampled_from([0, 0, 0, UNIT_MS, 5_000]))
        expiration = self.now_ms + expires_ms if expires_ms else 0
        deliver_at = self.now_ms + delay_ms if delay_ms else 0
        properties = {"colour": colour, "_AMQ_GROUP_ID": group, "_AMQ_SCHED_DELIVERY": deliver_at or None}
        given: dict[str, Any] = {name: value for name, value in properties.items() if value is not None}
        text = f"m{self.sent_count}"
        sent: Message = letter(text, address, durable=durable, priority=priority, expiration=expiration, **given)
        if group or deliver_at:
            sent = sent.directed(deliver_at)
        entry = Entry(text, colour, group, priority, 0, durable, expiration, deliver_at, 0, 0)
        return sent, entry

    @rule(address=ADDRESSES, count=st.integers(1, 6), data=st.data())
    def send(self, address: str, count: int, data: st.DataObject) -> None:
        for _ in range(count):
            message, entry = self.message(address, data)
            self.arrive(address, entry)
            self.stage.send(message, routing_type=MULTICAST if address == "t" else ANYCAST)
        self.settle()

    @precondition(lambda self: any(each.transacted for each in self.sessions))
    @rule(address=ADDRESSES, data=st.data())
    def send_in_a_transaction(self, address: str, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from([each for each in self.sessions if each.transacted]))
        message, entry = self.message(address, data)
        session.sent.append((address, entry))
        self.stage.send(message, session=session.session, routing_type=MULTICAST if address == "t" else ANYCAST)
        self.settle()

    # -- consumers -----------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.all_consumers()) < 6)
    @rule(
        name=NAMES, colour=FILTERS, priority=st.sampled_from([0, 0, 5]), credit=st.sampled_from([100, 100, 2, 0]),
        transacted=st.booleans(), anew=st.booleans(), data=st.data(),
    )  # fmt: skip
    def open_consumer(
        self, name: str, colour: str | None, priority: int, credit: int, transacted: bool, anew: bool,
        data: st.DataObject,
    ) -> None:  # fmt: skip
        known = self.sessions if not anew else []
        session = data.draw(st.sampled_from(known)) if known else self.begin_session(transacted)
        self.attach(session, name, colour, priority, credit)

    def begin_session(self, transacted: bool) -> ModelSession:
        session = ModelSession(self.stage.session(transacted=transacted), transacted)
        self.sessions.append(session)
        return session

    def attach(self, session: ModelSession, name: str, colour: str | None, priority: int, credit: int) -> None:
        self.keys += 1
        consumer = ModelConsumer(session, self.queues[name], self.keys, colour, priority, 0)
        session.consumers.append(consumer)
        consumer.queue.consumers.append(consumer)
        wanted = None if colour is None else f"colour = '{colour}'"
        port = Port(self, consumer)
        created = session.session.create_consumer(self.keys, name, wanted, port, browse=False, priority=priority)
        assert isinstance(created, Consumer), created
        self.add_credit(consumer, credit)

    def add_credit(self, consumer: ModelConsumer, credit: int) -> None:
        consumer.credit += credit
        if credit:
            consumer.owner.session.consumers[consumer.key].add_credit(credit)
        self.settle()

    @precondition(lambda self: self.all_consumers())
    @rule(credit=st.sampled_from([1, 5, 100]), data=st.data())
    def grant(self, credit: int, data: st.DataObject) -> None:
        self.add_credit(data.draw(st.sampled_from(self.all_consumers())), credit)

    @precondition(lambda self: self.all_consumers())
    @rule(data=st.data())
    def close_consumer(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.all_consumers()))
        consumer.owner.consumers.remove(consumer)
        self.detach(consumer, failed=False)
        consumer.owner.session.close_consumer(consumer.key)
        self.settle()

    def detach(self, consumer: ModelConsumer, *, failed: bool) -> None:
        consumer.queue.forget(consumer)
        for entry in consumer.held:
            self.give_back(consumer.queue, entry, failed=failed, rolled_back=False)

    @precondition(lambda self: self.sessions)
    @rule(failed=st.booleans(), data=st.data())
    def close_session(self, failed: bool, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.sessions))
        self.sessions.remove(session)
        for consumer in session.consumers:
            self.detach(consumer, failed=failed)
        self.undo(session)
        session.session.close(failed=failed)
        self.settle()

    # -- settling ------------------------------------------------------------------------------------------------

    @precondition(lambda self: any(each.held for each in self.all_consumers()))
    @rule(through=st.booleans(), data=st.data())
    def acknowledge(self, through: bool, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from([each for each in self.all_consumers() if each.held]))
        index = data.draw(st.integers(0, len(consumer.held) - 1))
        taken = consumer.held[: index + 1] if through else [consumer.held[index]]
        held = consumer.owner.session.consumers[consumer.key].unsettled
        numbers = {text_of(each.message): each.message.message_id for each in held.values()}
        for entry in taken:
            consumer.held.remove(entry)
            if consumer.owner.transacted:
                entry.holder = consumer.owner
            else:
                consumer.queue.entries.remove(entry)
        refused = consumer.owner.session.settle(consumer.key, numbers[taken[-1].text], through=through)
        assert refused is None, refused
        self.settle()

    def decided_by(self, session: ModelSession) -> list[tuple[ModelQueue, Entry]]:
        return [(queue, each) for queue in self.queues.values() for each in queue.entries if each.holder is session]

    @precondition(lambda self: any(each.transacted for each in self.sessions))
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from([each for each in self.sessions if each.transacted]))
        for queue, entry in self.decided_by(session):
            queue.entries.remove(entry)
        for address, entry in session.sent:
            self.arrive(address, entry)
        session.sent.clear()
        assert session.session.commit() is None
        self.settle()

    @precondition(lambda self: self.sessions)
    @rule(last_delivered=st.booleans(), data=st.data())
    def roll_back(self, last_delivered: bool, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.sessions))
        for consumer in session.consumers:
            for number, entry in enumerate(consumer.held):
                failed = last_delivered and number == 0
                self.give_back(consumer.queue, entry, failed=failed, rolled_back=True)
            consumer.held.clear()
        self.undo(session)
        session.session.rollback(last_delivered=last_delivered)
        self.settle()

    def undo(self, session: ModelSession) -> None:
        session.sent.clear()
        for queue, entry in self.decided_by(session):
            self.give_back(queue, entry, failed=True, rolled_back=True)

    # -- management ----------------------------------------------------------------------------------------------

    @rule(name=NAMES, persist=st.booleans(), with_address=st.booleans())
    def pause_or_resume(self, name: str, persist: bool, with_address: bool) -> None:
        queue = self.queues[name]
        if queue.address in self.paused_addresses:
            self.resume_address(queue.address)
        elif queue.paused:
            self.resume(name)
        elif with_address:
            self.pause_address(queue.address, persist)
        else:
            self.pause(name, persist)
        self.settle()

    @rule(action=st.sampled_from(["purge", "update", "crash", "crash"]), data=st.data())
    def manage(self, action: str, data: st.DataObject) -> None:
        match action:
            case "purge":
                self.purge(data.draw(st.sampled_from(list(self.queues))))
            case "update":
                self.update_queue()
            case _:
                self.restart()
        self.settle()

    def pause(self, name: str, persist: bool) -> None:
        queue = self.queues[name]
        queue.paused = True
        queue.recorded_pause = queue.recorded_pause or persist
        self.stage.kernel.address_manager.pause_queue(self.kernel_queue(queue), persist=persist)

    def resume(self, name: str) -> None:
        queue = self.queues[name]
        queue.paused = queue.recorded_pause = False
        self.stage.kernel.address_manager.resume_queue(self.kernel_queue(queue))

    def pause_address(self, name: str, persist: bool) -> None:
        self.paused_addresses[name] = self.paused_addresses.get(name, False) or persist
        manager = self.stage.kernel.address_manager
        manager.pause_address(manager.addresses[name], persist=persist)

    def resume_address(self, name: str) -> None:
        del self.paused_addresses[name]
        for queue in self.queues.values():
            if queue.address == name:
                queue.paused = queue.recorded_pause = False
        manager = self.stage.kernel.address_manager
        manager.resume_address(manager.addresses[name])

    def purge(self, name: str) -> None:
        queue = self.queues[name]
        queue.entries = [each for each in queue.entries if each.holder is not None]
        self.stage.kernel.teardown.purge(self.kernel_queue(queue))

    def update_queue(self) -> None:
        """A queue becomes exclusive, or is so no more: its consumers are chosen anew."""
        queue = self.queues["x"]
        queue.exclusive = not queue.exclusive
        queue.sole = None
        queue.groups.clear()
        update = QueueUpdate(exclusive=queue.exclusive)
        assert self.stage.kernel.address_manager.update_queue(self.kernel_queue(queue), update) is None

    @rule(units=st.sampled_from([1, 2, 3, 4, 48, 160]))
    def pass_time(self, units: int) -> None:
        self.stage.pass_time(units * UNIT_MS / 1000)
        self.settle()

    def restart(self) -> None:
        """A crash: what is durable is where it was, with the deliveries that were recorded."""
        now_ms, next_id = self.now_ms, self.stage.kernel.ids.next_id
        assert isinstance(self.stage.store, JournalInMemory)
        journal = self.stage.store.after_crash()
        definitions = sorted(journal.definitions.values(), key=lambda each: each.id)
        self.stage = Stage(SETTINGS, restored=definitions, store=journal, message_expiry_scan_period_ms=SCAN_MS)
        self.stage.kernel.now_ms = self.scans_from_ms = now_ms
        self.stage.kernel.ids.take(next_id)
        self.stage.kernel.ids.take(next_id)
        journal.restore(self.stage)
        self.sessions.clear()
        self.paused_addresses = {name: True for name, persist in self.paused_addresses.items() if persist}
        for queue in self.queues.values():
            queue.consumers.clear()
            queue.groups.clear()
            queue.sole = None
            queue.paused = queue.recorded_pause
            queue.entries = [each for each in queue.entries if each.durable]
            for entry in queue.entries:
                entry.holder, entry.deliveries = None, entry.recorded
                entry.due_ms = entry.recorded_due_ms or entry.deliver_at
                entry.since_ms = max(now_ms, entry.due_ms)


STEPS = settings(max_examples=50, stateful_step_count=60, deadline=None)
TestKernelBesideModel = pytest.mark.search(KernelBesideModel.TestCase)
TestKernelBesideModel.settings = STEPS


# -- planted faults ----------------------------------------------------------------------------------------------


def release_early(patch: pytest.MonkeyPatch) -> None:
    """Scheduled messages are due a little before their time."""
    original = Queue.schedule
    patch.setattr(Queue, "schedule", lambda self, reference, due_ms: original(self, reference, due_ms - 50))


def return_behind(patch: pytest.MonkeyPatch) -> None:
    """What comes back loses its place."""

    def give_back(self: Backlog, reference: Reference) -> None:
        reference.position += 1_000_000
        self.append(reference)

    patch.setattr(Backlog, "give_back", give_back)


def forget_groups(patch: pytest.MonkeyPatch) -> None:
    """Messages of a group go to any consumer."""
    replace(patch, "look up the group of a message", lambda self, message: None)


def expire_nothing(patch: pytest.MonkeyPatch) -> None:
    """Consumers get expired messages."""
    patch.setattr(Schedule, "expire", lambda self, queue, reference: False)


def expire_unscanned(patch: pytest.MonkeyPatch) -> None:
    """Scans find nothing."""
    patch.setattr(Expiry, "applies_to", lambda self, queue: False)


def forget_redelivery_delay(patch: pytest.MonkeyPatch) -> None:
    """What a rollback returns is delivered at once."""
    original = fault_point("give back")
    replace(
        patch,
        "give back",
        lambda self, queue, reference, outcome, consumer, _is_rollback: original(
            self, queue, reference, outcome, consumer, False
        ),
    )


FAULTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    release_early,
    return_behind,
    forget_groups,
    expire_nothing,
    expire_unscanned,
    forget_redelivery_delay,
]


@pytest.mark.search
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_model_finds_a_planted_fault(fault: Callable[[pytest.MonkeyPatch], None]) -> None:
    hunt = settings(
        STEPS, max_examples=150, phases=[Phase.generate], derandomize=True, database=None,
        suppress_health_check=list(HealthCheck), print_blob=False,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        with pytest.raises(AssertionError):
            run_state_machine_as_test(KernelBesideModel, settings=hunt)
