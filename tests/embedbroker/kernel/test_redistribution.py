"""Messages that no consumer here takes go to a broker that has one: when, which, and in which order."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import pytest

from embedbroker.config import AddressSettings, MessageLoadBalancing
from embedbroker.kernel import LARGE, Address, Body, Consumer, Leaving, Outcome, RemoteBinding, Restore
from embedbroker.kernel.addressing._resolution import Resolution
from embedbroker.kernel.queueing._chunk import OpenChunk, SealedChunk
from embedbroker.protocols._large_codec import large_message
from embedclient.wire.core import CoreMessage

from .letters import letter
from .remote import B, C, bind, queue_ids, sf, sf_name
from .stage import MULTICAST, Stage, Taker

OFF, STRICT, ON_DEMAND, OFF_WITH = MessageLoadBalancing
SAME_TRANSACTION = ("add", "acknowledge", "commit")


def stage_with(delay: int = 0, **config: object) -> Stage:
    stage = Stage({"#": AddressSettings(redistribution_delay_ms=delay, redelivery_delay_ms=1000)}, **config)  # type: ignore[arg-type]
    stage.queue("orders")
    return stage


@pytest.fixture
def stage() -> Stage:
    return stage_with()


def fill(stage: Stage, *texts: str, address: str = "orders", **properties: object) -> None:
    stage.send(*[letter(text, address, durable=True, **properties) for text in texts])  # type: ignore[arg-type]
    stage.run_all()


def appear(stage: Stage, binding: RemoteBinding, filter: str | None = None) -> None:
    binding.add_consumer(None if filter is None else stage.kernel.selectors.find(filter))
    observers = stage.kernel.observers
    observers.call(observers.commit.remote_consumer_added, binding, binding.address, filter, binding.consumer_count)
    stage.run_all()


def moved(stage: Stage, node: str = B) -> list[str]:
    return [text for text, _ids in queue_ids(stage, node)]


def counts(stage: Stage, name: str = "orders") -> tuple[int, int, int, int]:
    queue = stage.kernel.address_manager.queues[name]
    return queue.message_count, queue.delivering_count, queue.added_count, queue.acknowledged_count


def attached(stage: Stage, name: str = "orders", filter: str | None = None) -> tuple[Consumer, Taker]:
    return stage.consumer(stage.session(), name, filter=filter)


def detach(stage: Stage, consumer: Consumer) -> None:
    stage.kernel.teardown.detach(consumer, Outcome.RELEASED)
    stage.run_all()


# -- triggers ----------------------------------------------------------------------------------------------------------


def test_all_messages_move_when_a_remote_consumer_appears(stage: Stage) -> None:
    binding = bind(stage)
    fill(stage, "a", "b", "c")
    assert (stage.waiting("orders"), moved(stage)) == (["a", "b", "c"], [])
    stage.store.records.clear()
    appear(stage, binding)
    assert (stage.waiting("orders"), queue_ids(stage)) == ([], [("a", [7]), ("b", [7]), ("c", [7])])
    assert counts(stage) == (0, 0, 3, 3)
    assert counts(stage, sf_name(B)) == (3, 0, 3, 0)
    # Copies and acknowledgements are one transaction.
    records = stage.store.of_kind(*SAME_TRANSACTION)
    assert [kind for kind, *_ in records] == ["add"] * 3 + ["acknowledge"] * 3 + ["commit"]
    transaction = records[-1][1]
    assert all(transaction in record for record in records)
    stage.kernel.check()


def test_messages_move_when_the_last_consumer_closes_and_rotate_over_the_brokers(stage: Stage) -> None:
    bind(stage, consumers=(None,), load_balancing=OFF_WITH)
    bind(stage, node=C, consumers=(None,), load_balancing=OFF_WITH)
    consumer, taker = attached(stage)
    fill(stage, "0", "1", "2", "3")
    assert taker.texts == ["0", "1", "2", "3"]
    detach(stage, consumer)
    assert (moved(stage, B), moved(stage, C)) == (["0", "2"], ["1", "3"])
    assert counts(stage) == (0, 0, 4, 4)
    # What comes now, too.
    fill(stage, "4", "5")
    assert (moved(stage, B), moved(stage, C)) == (["0", "2", "4"], ["1", "3", "5"])
    stage.kernel.check()


def test_a_new_queue_is_redistributed_while_a_remote_consumer_is_there(stage: Stage) -> None:
    bind(stage, "later", consumers=(None,), load_balancing=OFF_WITH)
    stage.queue("later")
    fill(stage, "a", address="later")
    assert (stage.waiting("later"), moved(stage)) == ([], ["a"])


@pytest.mark.parametrize(("load_balancing", "delay"), [(OFF, 0), (STRICT, 0), (ON_DEMAND, -1)])
def test_nothing_moves_with_other_types_or_without_a_delay(load_balancing: MessageLoadBalancing, delay: int) -> None:
    stage = stage_with(delay)
    fill(stage, "a", "b")
    binding = bind(stage, load_balancing=load_balancing)
    appear(stage, binding)
    consumer, taker = attached(stage)
    stage.run_all()
    detach(stage, consumer)
    assert (taker.texts, stage.waiting("orders"), moved(stage)) == (["a", "b"], ["a", "b"], [])
    assert stage.kernel.redistribution.due == math.inf


def test_a_delay_begins_when_the_consumer_closes_and_a_consumer_ends_it() -> None:
    stage = stage_with(200)
    binding = bind(stage, consumers=(None,), load_balancing=OFF_WITH)
    consumer, _ = attached(stage)
    fill(stage, "a", "b")
    detach(stage, consumer)
    stage.pass_time(0.1)
    # Another trigger does not begin the delay anew.
    appear(stage, binding)
    stage.pass_time(0.099)
    assert (stage.waiting("orders"), moved(stage)) == (["a", "b"], [])
    consumer, taker = attached(stage)
    stage.run_all()
    stage.pass_time(1)
    assert (taker.texts, moved(stage)) == (["a", "b"], [])
    detach(stage, consumer)
    stage.pass_time(0.199)
    assert not moved(stage)
    stage.pass_time(0.002)
    assert (stage.waiting("orders"), moved(stage)) == ([], ["a", "b"])


def test_a_delay_ends_without_effect_if_the_reason_is_gone() -> None:
    stage = stage_with(200)
    binding = bind(stage, load_balancing=OFF_WITH)
    fill(stage, "a")
    appear(stage, binding)
    binding.remove_consumer(None)
    stage.queue("gone")
    stage.pass_time(1)
    appear(stage, binding)
    stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["orders"])
    stage.pass_time(1)
    assert not moved(stage)
    stage.kernel.check()


def test_a_consumer_that_returns_gets_everything_in_order(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    fill(stage, "a", "b", "c")
    binding.add_consumer(None)
    stage.kernel.redistribution.on_remote_consumer(binding)
    # One step: messages are given to the mover, and not moved yet.
    stage.run()
    assert counts(stage)[1] == 3
    _, taker = attached(stage)
    stage.run_all()
    assert (taker.got, moved(stage)) == ([("a", 1), ("b", 1), ("c", 1)], [])
    fill(stage, "d")
    assert taker.texts[-1] == "d"
    stage.kernel.check()


def test_a_snapshot_resolves_an_address_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each binding forgets what was resolved: a look at each of its consumers would cost the square of their number."""
    names = [f"s{number}" for number in range(50)]
    for name in names:
        stage.queue(name, "topic", MULTICAST)
        fill(stage, name, address=f"topic::{name}")
    resolved: list[str] = []
    resolve = Resolution.resolve

    def counted(self: Resolution, address: Address) -> None:
        resolved.append(address.name)
        resolve(self, address)

    monkeypatch.setattr(Resolution, "resolve", counted)
    for name in names:
        binding = bind(stage, name, address="topic", routing_name=name)
        binding.add_consumer(None)
        observers = stage.kernel.observers
        observers.call(observers.commit.remote_consumer_added, binding, binding.address, None, 1)
    stage.run_all()
    assert moved(stage) == names
    assert resolved.count("topic") == 1


@pytest.mark.parametrize("delay", [0, 200])
def test_settings_of_a_running_broker_end_and_begin_it(delay: int) -> None:
    stage = stage_with(delay)
    bind(stage, consumers=("n = 9",), load_balancing=OFF_WITH)
    stage.kernel.redistribution.consider(stage.kernel.address_manager.queues["orders"])
    fill(stage, "a", n=1)
    stage.kernel.settings_table.set_address("#", AddressSettings(redistribution_delay_ms=-1))
    stage.run_all()
    fill(stage, "b", n=9)
    stage.pass_time(1)
    assert (stage.waiting("orders"), moved(stage)) == (["a", "b"], [])
    assert stage.kernel.redistribution.due == math.inf
    stage.kernel.settings_table.set_address("#", AddressSettings(redistribution_delay_ms=delay))
    stage.run_all()
    stage.pass_time(1)
    assert (stage.waiting("orders"), moved(stage)) == (["a"], ["b"])
    stage.kernel.check()


@pytest.mark.parametrize("is_removed", [False, True])
def test_it_ends_with_the_last_consumer_elsewhere(stage: Stage, is_removed: bool) -> None:
    """What comes then is not offered to a hidden consumer that can do nothing with it."""
    binding = bind(stage, consumers=("n = 9", "n = 8"), load_balancing=OFF_WITH)
    queue = stage.kernel.address_manager.queues["orders"]
    stage.kernel.redistribution.consider(queue)
    stage.run_all()
    assert queue.dispatcher.levels

    def end(filter: str) -> None:
        binding.remove_consumer(filter)
        observers = stage.kernel.observers
        observers.call(observers.commit.remote_consumer_removed, binding, filter, binding.consumer_count)
        stage.run_all()

    end("n = 9")
    fill(stage, "eight", n=8)
    assert moved(stage) == ["eight"]
    if is_removed:
        observers, number = stage.kernel.observers, binding.id
        stage.kernel.address_manager.remove_remote_binding(binding)
        observers.call(observers.commit.remote_binding_removed, binding, number)
        stage.run_all()
    else:
        end("n = 8")
    assert not queue.dispatcher.levels
    binding = bind(stage, node=C, load_balancing=OFF_WITH)
    fill(stage, "late")
    appear(stage, binding)
    assert moved(stage, C) == ["late"]


# -- which messages ----------------------------------------------------------------------------------------------------


def test_messages_of_groups_stay(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    fill(stage, "a", "c")
    stage.send(letter("g", _AMQ_GROUP_ID="g"))
    stage.run_all()
    appear(stage, binding)
    stage.send(letter("h", _AMQ_GROUP_ID="g").directed(), letter("d"))
    stage.run_all()
    assert (stage.waiting("orders"), moved(stage)) == (["g", "h"], ["a", "c", "d"])
    stage.kernel.check()


def test_filters_of_remote_queues_and_of_their_consumers_decide(stage: Stage) -> None:
    red = bind(stage, filter="colour = 'red'", load_balancing=OFF_WITH)
    other = bind(stage, node=C, load_balancing=OFF_WITH)
    for number, colour in enumerate(("red", "blue", "green", "red")):
        fill(stage, f"{colour}{number}", colour=colour)
    appear(stage, red)
    assert (moved(stage, B), stage.waiting("orders")) == (["red0", "red3"], ["blue1", "green2"])
    appear(stage, other, "colour = 'blue'")
    assert (moved(stage, C), stage.waiting("orders")) == (["blue1"], ["green2"])
    appear(stage, other)
    assert (moved(stage, C), stage.waiting("orders")) == (["blue1", "green2"], [])
    assert counts(stage) == (0, 0, 4, 4)


def test_what_all_consumers_here_refuse_moves_and_what_they_want_stays(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    consumer, taker = attached(stage, filter="n = 1")
    consumer.add_credit(0)
    fill(stage, "one", n=1)
    fill(stage, "two", n=2)
    appear(stage, binding)
    assert (stage.waiting("orders"), moved(stage)) == (["one"], ["two"])
    # Another one with a filter does not end it; one without does.
    attached(stage, filter="n = 3")
    fill(stage, "four", n=4)
    fill(stage, "three", n=3)
    assert (moved(stage), counts(stage)[0]) == (["two", "four"], 2)
    _, taker = attached(stage)
    fill(stage, "five", n=5)
    assert (taker.texts, moved(stage)) == (["one", "five"], ["two", "four"])
    stage.kernel.check()


def test_multicast_queues_go_to_namesakes_alone(stage: Stage) -> None:
    for name in ("q0", "q1"):
        stage.queue(name, "news", MULTICAST)
    first = bind(stage, "q0", address="news", routing_name="q0", remote_queue_id=1)
    second = bind(stage, "q1", address="news", routing_name="q1", remote_queue_id=2)
    other = bind(stage, "q2", C, address="news", routing_name="q2", remote_queue_id=3)
    fill(stage, "a", address="news::q0")
    fill(stage, "b", address="news::q1")
    sent = queue_ids(stage, C)
    appear(stage, other)
    appear(stage, second)
    assert (stage.waiting("q0"), stage.waiting("q1"), queue_ids(stage)) == (["a"], [], [("b", [2])])
    appear(stage, first)
    assert (queue_ids(stage), queue_ids(stage, C)) == ([("b", [2]), ("a", [1])], sent)


def test_an_anycast_queue_with_a_name_of_its_own_goes_to_its_namesake(stage: Stage) -> None:
    stage.queue("own", "orders")
    other = bind(stage, "other", address="orders", remote_queue_id=1)
    fill(stage, "a", address="orders::own")
    appear(stage, other)
    assert (stage.waiting("own"), moved(stage)) == (["a"], [])
    appear(stage, bind(stage, "own", C, address="orders", remote_queue_id=2))
    assert (stage.waiting("own"), queue_ids(stage, C)) == ([], [("a", [2])])


def test_scheduled_and_redelivered_messages_move_when_they_are_due(stage: Stage) -> None:
    consumer, _ = attached(stage)
    session = consumer.owner
    assert session is not None
    fill(stage, "a")
    binding = bind(stage, load_balancing=OFF_WITH)
    stage.kernel.settlement.settle(consumer.queue, consumer.unsettled.take_all(), Outcome.FAILED, is_rollback=True)
    detach(stage, consumer)
    appear(stage, binding)
    assert (counts(stage)[0], moved(stage)) == (1, [])
    stage.pass_time(1.1)
    assert (counts(stage)[0], moved(stage)) == (0, ["a"])


def test_expired_messages_do_not_move(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    stage.send(letter("old", expiration=stage.kernel.now_ms + 5), letter("new"))
    stage.run_all()
    stage.kernel.now_ms += 10
    appear(stage, binding)
    assert moved(stage) == ["new"]
    assert stage.kernel.address_manager.queues["orders"].expired_count == 1


def test_a_large_body_stays_one_and_its_message_is_a_copy(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    large = large_message(letter("", durable=True), Body(LARGE, 5, 1000, None))
    assert stage.kernel.router.send(large, None, None) is None
    stage.run_all()
    appear(stage, binding)
    assert stage.kernel.large_bodies.uses == {5: 1}
    copy = next(iter(sf(stage).backlog)).message
    assert copy.body_number == 5 and copy.message_id != large.message_id


def test_duplicate_ids_of_senders_have_no_effect_on_the_way(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    for text in "ab":
        message = letter(text, durable=True, _AMQ_DUPL_ID=text)
        assert stage.kernel.router.send(message, None, None, message.duplicate_id) is None
    appear(stage, binding)
    assert moved(stage) == ["a", "b"]
    copy = next(iter(sf(stage).backlog)).message
    assert isinstance(copy, CoreMessage) and copy.duplicate_id == b"a\x00"


# -- amounts, and what happens meanwhile -------------------------------------------------------------------------------


def test_many_messages_move_in_portions_and_in_order(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    stage.queue("other")
    stage.send(*[letter(str(number)) for number in range(3000)])
    stage.run_all()
    binding.add_consumer(None)
    stage.kernel.redistribution.on_remote_consumer(binding)
    _, taker = attached(stage, "other")
    _, bridge = attached(stage, sf_name(B))
    steps, most = 0, 0
    while stage.kernel.has_work:
        before = counts(stage)[3]
        stage.send(letter("meanwhile", "other"))
        stage.run(2000)
        most = max(most, counts(stage)[3] - before)
        steps += 1
    assert 0 < most <= 256 and len(taker.texts) == steps
    assert bridge.texts == [str(number) for number in range(3000)]
    assert counts(stage) == (0, 0, 3000, 3000)
    stage.kernel.check()


def test_few_large_messages_move_in_a_step() -> None:
    stage = stage_with(memory_limit_bytes=1 << 40)
    binding, large = bind(stage, load_balancing=OFF_WITH), "x" * 100_000
    stage.send(*[letter(large) for _ in range(600)])
    stage.run_all()
    binding.add_consumer(None)
    stage.kernel.redistribution.on_remote_consumer(binding)
    left = [600]
    while stage.kernel.has_work:
        stage.run(1000)
        left.append(counts(stage)[0])
    # A portion that begins at the end of a step may be one that has been restored, or one of 1 MiB.
    assert left[-1] == 0 and max(before - after for before, after in pairwise(left)) <= 64
    assert sf(stage).message_count == 600


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_messages_that_arrive_while_others_move_keep_their_order(stage: Stage, seed: int) -> None:
    random = Random(seed)
    appear(stage, bind(stage, load_balancing=OFF_WITH))
    _, bridge = attached(stage, sf_name(B))
    sent = 0
    for count in random.choices([0, 1, 3, 40, 200], k=30):
        stage.send(*[letter(str(number), durable=True) for number in range(sent, sent + count)])
        sent += count
        stage.run(random.choice([50, 100, 300, 1000, 4096]))
    stage.run_all()
    assert bridge.texts == [str(number) for number in range(sent)]


def test_a_run_passes_over_what_stays_and_what_has_expired(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    letters = [letter(str(number), priority=4 + number % 2) for number in range(200)]
    letters[41] = letter("stays", priority=5, _AMQ_GROUP_ID="g")
    letters[61] = letter("expires", priority=5, expiration=stage.kernel.now_ms + 5)
    stage.send(*letters)
    stage.run_all()
    stage.kernel.now_ms += 10
    appear(stage, binding)
    assert stage.waiting("orders") == ["stays"]
    odd = [str(number) for number in range(1, 200, 2) if number not in (41, 61)]
    assert moved(stage) == [*odd, *map(str, range(0, 200, 2))]
    assert counts(stage)[:2] == (1, 0) and stage.kernel.address_manager.queues["orders"].expired_count == 1
    stage.kernel.check()


def test_messages_deep_in_a_queue_move_without_a_look_at_each(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    letters = [letter(str(number), durable=True, x="1" * (number % 7)) for number in range(4000)]
    letters[2950] = letter("stays", _AMQ_GROUP_ID="g", durable=True)
    letters[1800] = letter("expires", expiration=stage.kernel.now_ms + 5, durable=True)
    letters[1900] = letter("1900")
    stage.send(*letters)
    stage.run_all()
    stage.kernel.now_ms += 10
    stage.store.records.clear()
    opened: list[SealedChunk] = []
    opening = SealedChunk.opened

    def noted(chunk: SealedChunk, restore: Restore) -> OpenChunk:
        opened.append(chunk)
        return opening(chunk, restore)

    monkeypatch.setattr(SealedChunk, "opened", noted)
    _, bridge = attached(stage, sf_name(B))
    appear(stage, binding)
    assert stage.waiting("orders") == ["stays"]
    assert bridge.texts == [str(number) for number in range(4000) if number not in (1800, 2950)]
    queue = stage.kernel.address_manager.queues["orders"]
    assert counts(stage)[:2] == (1, 0) and queue.acknowledged_count == 3998 and queue.expired_count == 1
    # Each of them is recorded once, whichever way it took.
    together = stage.store.of_kind("move")
    assert len(together) > 1500 and len(together) + len(stage.store.of_kind("add")) == 3997
    assert {record[2:] for record in together} <= {(sf(stage).id, each, queue.id) for each in range(1, 10_000)}
    assert len(opened) < 6
    stage.kernel.check()


def test_messages_stay_while_many_wait_for_the_bridge(stage: Stage) -> None:
    fill(stage, *map(str, range(4000)))
    binding = bind(stage, load_balancing=OFF_WITH)
    appear(stage, binding)
    on_the_way = sf(stage).message_count
    assert 1024 < on_the_way <= 1024 + 64
    # A consumer here gets what has not left, however often one comes.
    for _ in range(5):
        consumer, taker = attached(stage)
        stage.run_all()
        assert taker.texts == [str(number) for number in range(on_the_way, 4000)]
        detach(stage, consumer)
        appear(stage, binding)
        assert (sf(stage).message_count, stage.waiting("orders")) == (on_the_way, taker.texts)
    # Each message is as it was before.
    assert all(reference.delivery_count == 0 for reference in stage.kernel.address_manager.queues["orders"].backlog)
    # So does another broker.
    appear(stage, bind(stage, node=C, load_balancing=OFF_WITH))
    assert stage.waiting("orders") == [] and len(moved(stage, C)) > 1400
    stage.kernel.check()


def test_messages_go_on_when_few_wait_for_the_bridge(stage: Stage) -> None:
    fill(stage, *map(str, range(4000)))
    appear(stage, bind(stage, load_balancing=OFF_WITH))
    first = moved(stage)
    stage.kernel.teardown.purge(sf(stage))
    stage.run_all()
    assert moved(stage)[0] == str(len(first))
    _, bridge = attached(stage, sf_name(B))
    stage.run_all()
    assert first + bridge.texts == list(map(str, range(4000))) and not stage.waiting("orders")
    stage.kernel.check()


def test_queues_take_turns_at_the_bridge(stage: Stage) -> None:
    names = ["a", "b", "c"]
    for name in names:
        stage.queue(name)
        fill(stage, *[name] * 1500, address=name)
        appear(stage, bind(stage, name, load_balancing=OFF_WITH))
    rounds: list[set[str]] = []
    while texts := moved(stage):
        assert len(texts) <= 1024 + 64
        rounds.append(set(texts))
        stage.kernel.teardown.purge(sf(stage))
        stage.run_all()
    assert rounds == [{"a"}, {"a", "b"}, {"c"}, {"b", "c"}, {"c"}]
    assert not any(stage.waiting(name) for name in names)
    stage.kernel.check()


def test_another_consumer_at_the_same_broker_leaves_a_queue_its_turn(stage: Stage) -> None:
    bindings = [bind(stage, name, load_balancing=OFF_WITH) for name in ("a", "b", "c")]
    for binding in bindings:
        stage.queue(binding.address)
        fill(stage, *[binding.address] * 1500, address=binding.address)
        appear(stage, binding)
    stage.kernel.teardown.purge(sf(stage))
    stage.run_all()
    assert {*moved(stage)} == {"a", "b"}
    appear(stage, bindings[2])
    stage.kernel.teardown.purge(sf(stage))
    stage.run_all()
    assert {*moved(stage)} == {"c"}


def test_a_small_queue_gets_its_turn_beside_large_ones(stage: Stage) -> None:
    for name, count in (("a", 1500), ("b", 1500), ("c", 1500), ("small", 200)):
        stage.queue(name)
        fill(stage, *[name] * count, address=name)
        appear(stage, bind(stage, name, load_balancing=OFF_WITH))
    rounds: list[bool] = []
    while texts := moved(stage):
        rounds.append("small" in texts)
        stage.kernel.teardown.purge(sf(stage))
        # Few move in a step: while the turn of one begins, those of others go on.
        stage.run_all(2000)
    assert True in rounds[:3]


def test_a_few_removals_let_a_queue_go_on(stage: Stage) -> None:
    """They leave the kernel nothing else to do."""
    fill(stage, *map(str, range(2000)))
    appear(stage, bind(stage, load_balancing=OFF_WITH))
    kernel, target, before = stage.kernel, sf(stage), stage.waiting("orders")
    surplus = {reference.position for reference in list(target.backlog)[1024:]}
    had_work = kernel.has_work
    for reference in kernel.teardown.take_waiting(target, lambda each: each.position in surplus):
        if reference is not None:
            kernel.removal.leave(target, (reference,), Leaving.REMOVED)
    assert (bool(surplus), had_work, kernel.has_work) == (True, False, True)
    stage.run_all()
    assert stage.waiting("orders") == before[64:] and moved(stage)[1024:] == before[:64]
    kernel.check()


def test_a_run_looks_at_few_expired_messages_in_a_step(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    live = [str(number) for number in range(100)]
    stage.send(*map(letter, live))
    stage.send(*[letter("old", expiration=stage.kernel.now_ms + 5) for _ in range(1500)], letter("last"))
    stage.run_all()
    stage.kernel.now_ms += 10
    binding.add_consumer(None)
    stage.kernel.redistribution.on_remote_consumer(binding)
    most = 0
    while stage.kernel.has_work:
        before = counts(stage)[0]
        stage.run(200)
        most = max(most, before - counts(stage)[0])
    # The budget of a step, and a portion that began at its end.
    assert 0 < most <= 200 + 64
    assert moved(stage) == [*live, "last"] and counts(stage)[:2] == (0, 0)
    assert stage.kernel.address_manager.queues["orders"].expired_count == 1500
    stage.kernel.check()


def test_a_paused_queue_and_an_internal_one_keep_their_messages(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    queue = stage.kernel.address_manager.queues["orders"]
    queue.set_paused(itself=True)
    fill(stage, "a")
    appear(stage, binding)
    assert stage.waiting("orders") == ["a"]
    queue.set_paused(itself=False)
    stage.run_all()
    assert (stage.waiting("orders"), moved(stage)) == ([], ["a"])
    bind(stage, sf_name(B), C, consumers=(None,), load_balancing=OFF_WITH)
    stage.kernel.redistribution.consider(sf(stage))
    stage.run_all()
    assert moved(stage) == ["a"]


def test_a_queue_that_is_deleted_meanwhile_leaves_nothing(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    fill(stage, "a", "b")
    binding.add_consumer(None)
    stage.kernel.redistribution.on_remote_consumer(binding)
    stage.run()
    stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["orders"])
    stage.assert_empty()


def test_the_target_may_go_while_messages_are_on_their_way(stage: Stage) -> None:
    binding = bind(stage, load_balancing=OFF_WITH)
    fill(stage, "a", "b")
    binding.add_consumer(None)
    stage.kernel.redistribution.on_remote_consumer(binding)
    stage.run()
    stage.kernel.address_manager.remove_remote_binding(binding)
    stage.run_all()
    assert (stage.waiting("orders"), moved(stage), counts(stage)) == (["a", "b"], [], (2, 0, 2, 0))
    # The mover is still there: the next trigger finds them.
    appear(stage, bind(stage, node=C, load_balancing=OFF_WITH))
    assert moved(stage, C) == ["a", "b"]
    stage.kernel.check()


def test_another_queue_here_that_has_a_consumer_takes_them_too(stage: Stage) -> None:
    bind(stage, consumers=("n = 9",), load_balancing=OFF_WITH)
    stage.queue("second", "orders")
    _, taker = attached(stage, "second")
    fill(stage, "a", address="orders::orders")
    stage.kernel.redistribution.consider(stage.kernel.address_manager.queues["orders"])
    stage.run_all()
    assert (taker.texts, stage.waiting("orders")) == (["a"], [])
    stage.kernel.check()
