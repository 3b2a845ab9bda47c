"""The checkers can fail: each bug below is put into the broker or the client, and the ordinary seeds must find it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from embedbroker.kernel import (
    Consumer,
    Outcome,
    Queue,
    Reference,
    Settlement,
    Transaction,
)
from embedbroker.kernel._housekeeping import Housekeeping
from embedbroker.kernel.queueing._dispatcher import Dispatcher
from embedbroker.kernel.queueing._groups import GroupDispatcher
from embedbroker.protocols.core._connection import CoreConnection
from embedbroker.protocols.core._session import CoreSession
from embedbroker.storage import Journal
from embedbroker.storage.recovery._recovered import RecoveredMessage, RecoveredState
from embedbroker.storage.recovery._replay import Replay
from embedclient.agent._call import Call, Steps, run_sequence
from embedclient.agent.consumer._credits import ConsumerCredits
from embedclient.agent.session._channel import SessionChannel
from embedclient.agent.session._delivery_flow import DeliveryFlow
from embedclient.agent.session._transaction import Transaction as Endings
from embedclient.engine.core import Channel, ConnectionState
from embedclient.errors import JMSException
from embedclient.model import Instant
from embedclient.wire.core import SessionStop
from tests.simulation.scenario import draw_plan, run_seed

from .branch_bugs import BRANCH_BUGS
from .fault_points import fault_point, replace
from .hunting import (
    Bug,
    confirm_before_sync,
    every,
    forget_duplicate_ids,
    hunt,
    last_account,
    lose_a_prepared_branch,
    needs,
)

# A search through all the seeds takes half a minute, and more on a machine that does something else, too.
pytestmark = [pytest.mark.search, pytest.mark.timeout(900)]


def has_groups(seed: int) -> bool:
    return any(producer.plan.group_count for producer in draw_plan(seed).producers)


def has_groups_that_expire(seed: int) -> bool:
    return any(producer.plan.group_count and producer.plan.expire_chance for producer in draw_plan(seed).producers)


def skip_a_replayed_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    settle, skips = fault_point("replay an acknowledgement"), every(5)

    def careless(self: Replay, message_id: int, queue_id: int) -> None:
        if not skips():
            settle(self, message_id, queue_id)

    replace(patch, "replay an acknowledgement", careless)


def skip_a_replayed_message(patch: pytest.MonkeyPatch) -> None:
    take, skips = fault_point("recover messages"), every(3)

    def careless(self: RecoveredState, limit: int) -> list[Any]:
        taken: list[Any] = take(self, limit)
        return taken[:-1] if len(taken) > 1 and skips() else taken

    replace(patch, "recover messages", careless)


def deliver_twice(patch: pytest.MonkeyPatch) -> None:
    hand, repeats = fault_point("deliver"), every(20)

    def stuttering(self: Queue, consumer: Consumer, reference: Reference) -> None:
        hand(self, consumer, reference)
        if repeats():
            consumer.port.deliver(consumer, reference)

    replace(patch, "deliver", stuttering)


def deliver_before_its_time(patch: pytest.MonkeyPatch) -> None:
    schedule = fault_point("schedule")

    def hasty(self: Queue, reference: Reference, due_ms: int) -> None:
        schedule(self, reference, due_ms - 50)

    replace(patch, "schedule", hasty)


def forget_the_time_of_delivery_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    take = fault_point("recover messages")

    def forgetful(self: RecoveredState, limit: int) -> list[RecoveredMessage]:
        return [message._replace(deliver_at=0) for message in take(self, limit)]

    replace(patch, "recover messages", forgetful)


def redeliver_at_once(patch: pytest.MonkeyPatch) -> None:
    """What a rollback returns does not wait for the redelivery delay."""
    give_back = fault_point("give back")

    def hasty(
        self: Settlement, queue: Queue, reference: Reference, outcome: Outcome, consumer: Consumer | None, _: bool
    ) -> None:
        give_back(self, queue, reference, outcome, consumer, False)

    replace(patch, "give back", hasty)


def forget_when_a_redelivery_is_due_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    update_delivery_count = Journal.update_delivery_count

    def forgetful(self: Journal, message_id: int, queue_id: int, count: int, due_ms: int = 0) -> None:
        update_delivery_count(self, message_id, queue_id, count)

    patch.setattr(Journal, "update_delivery_count", forgetful)


def forget_who_has_a_group(patch: pytest.MonkeyPatch) -> None:
    assign, forgets = fault_point("assign a group"), every(7)

    def forgetful(self: GroupDispatcher[Consumer], key: Any, reference: Reference, consumer: Consumer) -> None:
        assign(self, key, reference, consumer)
        if forgets():
            self._holders.clear()
            self._passed.clear()

    replace(patch, "assign a group", forgetful)


@needs(has_groups)
def leave_messages_of_a_group_whose_consumer_is_gone(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "look at passed messages again", lambda self, lowest: None)


@needs(has_groups_that_expire)
def mark_a_message_that_expires_as_the_first(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "look at the expiration of a group", lambda self, message: False)


@needs(has_groups)
def rebalance_groups_with_messages_in_flight(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "wait for a rebalance", lambda self: None)


@needs(has_groups)
def rebalance_groups_in_the_middle_of_transactions(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "look for acknowledged messages", lambda self, queue: False)


@needs(has_groups)
def pause_for_ever_after_a_rebalance(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "end a rebalance", lambda self: None)


def lose_a_rollback(patch: pytest.MonkeyPatch) -> None:
    rollback, forgets = fault_point("roll back"), every(10)

    def forgetful(self: Transaction) -> None:
        if forgets():
            self.acknowledged.clear()
        rollback(self)

    replace(patch, "roll back", forgetful)


def show_what_was_rolled_back(patch: pytest.MonkeyPatch) -> None:
    rollback, account = fault_point("roll back"), last_account(patch)

    def leaking(self: Transaction) -> None:
        for message, queues, _place in self.sent:
            for queue in queues:
                account().hold(message.message_id, message.address, message.memory_size, 1)
                queue.publish(Reference(message, message.message_id))
        rollback(self)

    replace(patch, "roll back", leaking)


def forget_to_count_a_redelivery(patch: pytest.MonkeyPatch) -> None:
    give_back = fault_point("give back")

    def unseen(self: Settlement, queue: Queue, reference: Reference, outcome: Outcome, *others: Any) -> None:
        give_back(self, queue, reference, Outcome.RELEASED if outcome is Outcome.FAILED else outcome, *others)

    replace(patch, "give back", unseen)


def count_a_delivery_twice(patch: pytest.MonkeyPatch) -> None:
    hand = fault_point("deliver")

    def double(self: Queue, consumer: Consumer, reference: Reference) -> None:
        reference.delivery_count += 1
        hand(self, consumer, reference)

    replace(patch, "deliver", double)


def settle_the_message_of_another_consumer(patch: pytest.MonkeyPatch) -> None:
    settle = fault_point("settle")

    def confused(
        self: Settlement,
        queue: Queue,
        references: Collection[Reference],
        outcome: Outcome,
        transaction: Transaction | None = None,
        *more: Any,
        **named: Any,
    ) -> None:
        confuses = outcome is Outcome.ACCEPTED and transaction is None
        mistaken = [taken_instead(queue, reference) if confuses else reference for reference in references]
        settle(self, queue, mistaken, outcome, transaction, *more, **named)

    def taken_instead(queue: Queue, reference: Reference) -> Reference:
        for other in queue.consumers:
            if other.unsettled:
                _, taken = other.unsettled.oldest.popitem(last=False)
                other.unsettled[reference.message.message_id] = reference
                return taken
        return reference

    replace(patch, "settle", confused)


def swap_two_messages(patch: pytest.MonkeyPatch) -> None:
    publish, swaps = fault_point("publish"), every(5)
    kept: dict[Queue, Reference] = {}

    def disordered(self: Queue, reference: Reference) -> None:
        earlier = kept.pop(self, None)
        if earlier is None and swaps():
            kept[self] = reference
            return
        publish(self, reference)
        if earlier is not None:
            publish(self, earlier)

    replace(patch, "publish", disordered)


def forget_expiry(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "expire", lambda self, queue, reference: False)


def forget_the_filter_of_a_consumer(patch: pytest.MonkeyPatch) -> None:
    add_consumer = fault_point("attach a consumer")

    def unselective(self: Queue, consumer: Consumer) -> None:
        consumer.selector = None
        add_consumer(self, consumer)

    replace(patch, "attach a consumer", unselective)


def leave_acknowledgements_out_of_a_committed_transaction(patch: pytest.MonkeyPatch) -> None:
    acknowledge = Journal.acknowledge

    def forgetful(self: Journal, message_id: int, queue_id: int, transaction_id: int) -> None:
        if not transaction_id:
            acknowledge(self, message_id, queue_id, transaction_id)

    patch.setattr(Journal, "acknowledge", forgetful)


def repeat_what_was_processed_before_a_reattachment(patch: pytest.MonkeyPatch) -> None:
    replay_after = Channel.replay_after

    def repeating(self: Channel, command_id: int) -> list[bytes | bytearray]:
        cached = [piece for frame in self._cache for piece in frame]
        replay_after(self, command_id)
        return cached

    patch.setattr(Channel, "replay_after", repeating)


def repeat_nothing_after_a_reattachment(patch: pytest.MonkeyPatch) -> None:
    replay_after = Channel.replay_after

    def silent(self: Channel, command_id: int) -> list[bytes | bytearray]:
        replay_after(self, command_id)
        return []

    patch.setattr(Channel, "replay_after", silent)


def forget_who_has_an_exclusive_queue(patch: pytest.MonkeyPatch) -> None:
    hand = fault_point("deliver")

    def sharing(self: Queue, consumer: Consumer, reference: Reference) -> None:
        hand(self, consumer, reference)
        self.dispatcher.holder = None

    replace(patch, "deliver", sharing)


def turn_priorities_of_consumers_round(patch: pytest.MonkeyPatch) -> None:
    enter = fault_point("give a turn")

    def upside_down(self: Dispatcher[Consumer], consumer: Consumer) -> None:
        enter(self, consumer)
        self.levels.sort(key=lambda each: each.priority)

    replace(patch, "give a turn", upside_down)


def let_one_consumer_too_many_in(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queue, "consumer_count", property(lambda self: max(0, len(self.consumers) - 1)))


def delete_a_queue_that_holds_messages(patch: pytest.MonkeyPatch) -> None:
    look_at_queue = fault_point("look at an idle queue")

    def careless(self: Housekeeping, queue: Queue) -> None:
        with pytest.MonkeyPatch.context() as blind:
            blind.setattr(Queue, "message_count", 0)
            look_at_queue(self, queue)

    replace(patch, "look at an idle queue", careless)


def grant_credits_without_memory(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "is memory full", lambda self, address, limit: False)


def count_a_byte_too_many(patch: pytest.MonkeyPatch) -> None:
    """Only `Kernel.check` finds it: no client can see it."""
    hold = fault_point("hold memory")

    def generous(self: Any, message_id: int, address: str, size: int, queues: int) -> None:
        hold(self, message_id, address, size, queues)
        self.used_bytes += 1

    replace(patch, "hold memory", generous)


def forget_producers_that_wait_for_memory(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "grant waiting credit", lambda self: self.relieved.clear())


def settle_nothing_in_advance(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "settle what was delivered", lambda self, queue, reference: None)


def take_a_consumer_for_granted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CoreSession, "disconnect_consumer", lambda self, consumer_id: None)


def serve_a_message_to_two_sessions(patch: pytest.MonkeyPatch) -> None:
    hand, repeats = fault_point("deliver"), every(20)

    def generous(self: Queue, consumer: Consumer, reference: Reference) -> None:
        hand(self, consumer, reference)
        if repeats():
            for other in self.consumers:
                if other is not consumer and other.ready:
                    other.port.deliver(other, reference)
                    return

    replace(patch, "deliver", generous)


def forget_a_caller_whose_message_expired_or_was_rolled_back(patch: pytest.MonkeyPatch) -> None:
    want_again = ConsumerCredits.want_again

    def want(self: ConsumerCredits, buffered: bool) -> None:
        self.waiting = True
        want_again(self, buffered)

    patch.setattr(ConsumerCredits, "want", want)
    patch.setattr(ConsumerCredits, "want_again", lambda self, buffered: None)


def lose_the_credits_of_a_rebuilt_consumer(patch: pytest.MonkeyPatch) -> None:
    rebuild, forgets = ConsumerCredits.rebuild, every(4)

    def poor(self: ConsumerCredits) -> None:
        if not forgets():
            rebuild(self)

    patch.setattr(ConsumerCredits, "rebuild", poor)


def wait_for_a_silent_client_for_ever(patch: pytest.MonkeyPatch) -> None:
    check = CoreConnection.check

    def patient(self: CoreConnection, now: Instant) -> None:
        if not self.lost:
            self.state.last_received = now.monotonic
        check(self, now)

    patch.setattr(CoreConnection, "check", patient)


def wait_for_a_silent_broker_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConnectionState, "check_silence", lambda self, now: False)


def start_in_front_of_a_stop_that_waits(patch: pytest.MonkeyPatch) -> None:
    fail_waiting = SessionChannel.fail_waiting

    def forgetful(self: SessionChannel, packet_type: Any, error: JMSException) -> None:
        if packet_type is not SessionStop:
            fail_waiting(self, packet_type, error)

    patch.setattr(SessionChannel, "fail_waiting", forgetful)


def keep_the_duplicate_ids_of_what_was_rolled_back(patch: pytest.MonkeyPatch) -> None:
    rollback = fault_point("roll back")

    def remembering(self: Transaction) -> None:
        for _ in self._parts.duplicates.commit(self):  # before they are let go
            pass
        rollback(self)

    replace(patch, "roll back", remembering)


def let_a_commit_overtake_a_rollback(patch: pytest.MonkeyPatch) -> None:
    """The client ends its transactions without regard for one another."""

    def at_once(self: Endings, steps: Steps[Any], **_: bool) -> Call[Any]:
        return run_sequence(steps, self._due)

    patch.setattr(Endings, "run", at_once)
    patch.setattr(Endings, "doom", lambda self, up_to: None)


def forget_what_was_sent_behind_a_commit(patch: pytest.MonkeyPatch) -> None:
    """The client takes its transaction for empty when the answer to a commit comes."""

    def careless(self: Endings, up_to: int) -> None:
        self._ended = self.work

    patch.setattr(Endings, "committed", careless)


def give_out_in_the_middle_of_a_reconnect(patch: pytest.MonkeyPatch) -> None:
    """The client takes a start of its user for the end of the reconnect."""
    run = fault_point("give out what has come")

    def at_once(self: DeliveryFlow) -> None:
        self._rebuilding = False
        run(self)

    replace(patch, "give out what has come", at_once)


def deliver_before_the_count_is_on_disk(patch: pytest.MonkeyPatch) -> None:
    replace(
        patch, "deliver behind its count", lambda self, consumer, reference: self._port.deliver(consumer, reference)
    )


BUGS: list[Bug] = [
    deliver_before_the_count_is_on_disk,
    give_out_in_the_middle_of_a_reconnect,
    let_a_commit_overtake_a_rollback,
    forget_what_was_sent_behind_a_commit,
    confirm_before_sync,
    skip_a_replayed_acknowledgement,
    skip_a_replayed_message,
    deliver_twice,
    lose_a_rollback,
    show_what_was_rolled_back,
    forget_to_count_a_redelivery,
    deliver_before_its_time,
    forget_the_time_of_delivery_in_a_restart,
    redeliver_at_once,
    forget_when_a_redelivery_is_due_in_a_restart,
    forget_who_has_a_group,
    leave_messages_of_a_group_whose_consumer_is_gone,
    mark_a_message_that_expires_as_the_first,
    rebalance_groups_with_messages_in_flight,
    rebalance_groups_in_the_middle_of_transactions,
    pause_for_ever_after_a_rebalance,
    count_a_delivery_twice,
    settle_the_message_of_another_consumer,
    swap_two_messages,
    forget_expiry,
    forget_the_filter_of_a_consumer,
    leave_acknowledgements_out_of_a_committed_transaction,
    repeat_what_was_processed_before_a_reattachment,
    repeat_nothing_after_a_reattachment,
    forget_who_has_an_exclusive_queue,
    turn_priorities_of_consumers_round,
    let_one_consumer_too_many_in,
    delete_a_queue_that_holds_messages,
    count_a_byte_too_many,
    grant_credits_without_memory,
    forget_producers_that_wait_for_memory,
    settle_nothing_in_advance,
    lose_a_prepared_branch,
    *BRANCH_BUGS,
    take_a_consumer_for_granted,
    serve_a_message_to_two_sessions,
    forget_a_caller_whose_message_expired_or_was_rolled_back,
    lose_the_credits_of_a_rebuilt_consumer,
    wait_for_a_silent_client_for_ever,
    wait_for_a_silent_broker_for_ever,
    start_in_front_of_a_stop_that_waits,
    forget_duplicate_ids,
    keep_the_duplicate_ids_of_what_was_rolled_back,
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_ordinary_seeds_find(
    bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]
) -> None:
    hunt("ONE_BROKER", bug, run_seed, monkeypatch, record_property)


def test_the_same_seeds_find_nothing_without_a_bug() -> None:
    for seed in range(1, 6):
        run_seed(seed)
