"""Queues of other brokers as bindings of an address: which message goes where, and what does not change without any."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest

from embedbroker.config import AddressSettings, DivertConfiguration, MessageLoadBalancing
from embedbroker.kernel import (
    BRIDGE_ID_PREFIX,
    LARGE,
    Body,
    Divert,
    DuplicateId,
    Refused,
    RoutingUndecided,
    Session,
    split_id_with_address,
)
from embedbroker.protocols._large_codec import large_message
from embedclient.model import RoutingType
from embedclient.wire.core import CoreMessage

from ..letters import letter
from ..remote import B, C, bind, queue_ids, sf, sf_name
from ..stage import MULTICAST, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()


def first(stage: Stage, queue: str) -> CoreMessage:
    message = next(iter(stage.kernel.address_manager.queues[queue].backlog)).message
    assert isinstance(message, CoreMessage)
    return message


def test_bindings_are_kept_by_address_in_order_of_addition(stage: Stage) -> None:
    manager = stage.kernel.address_manager
    first, second, elsewhere = bind(stage), bind(stage, node=C), bind(stage, "other")
    assert manager.remote_bindings_of("orders") == [first, second]
    assert 0 < first.id < second.id
    manager.remove_remote_binding(first)
    assert (first.id, manager.remote_bindings_of("orders")) == (0, [second])
    assert manager.remote_bindings_of("other") == [elsewhere]
    assert manager.remote_bindings_of("missing") == []


def test_an_address_is_resolved_with_its_remote_bindings_and_those_of_wildcard_addresses(stage: Stage) -> None:
    manager = stage.kernel.address_manager
    stage.queue("news.uk")
    sub = stage.queue("sub", "news.#", MULTICAST)

    def groups(name: str) -> dict[str, list[object]]:
        address = manager.resolution.find(name)
        if address is None or address.others is None or address.others.rotation is None:
            return {}
        return {name: list(group.bindings) for name, group in address.others.rotation.groups.items()}

    assert groups("news.uk") == {}
    wild = bind(stage, "sub", address="news.#", routing_name="sub")
    assert groups("news.uk") == {"sub": [sub, wild]}
    own = bind(stage, "news.uk", C)
    assert groups("news.uk") == {"sub": [sub, wild], "news.uk": [manager.queues["news.uk"], own]}
    # An address that no queue is bound to, and one of a remote binding alone.
    assert groups("news.fr") == {"sub": [sub, wild]}
    alone = bind(stage, "alone")
    assert groups("alone") == {"alone": [alone]}
    later = stage.queue("later", "alone")
    assert groups("alone") == {"alone": [alone, later]}
    for binding in (wild, own, alone):
        manager.remove_remote_binding(binding)
    assert groups("news.uk") == groups("news.fr") == groups("alone") == {}
    assert manager.resolution.find("missing") is None


def test_an_internal_queue_does_not_keep_groups_together(stage: Stage) -> None:
    """Its consumer is a bridge, and a group would stay known for ever."""
    queue = stage.queue("internal", internal=True)
    stage.send(letter("m", "internal", _AMQ_GROUP_ID="g").directed())
    stage.run()
    assert (queue.group_count, stage.waiting("internal")) == (None, ["m"])


# -- sends -------------------------------------------------------------------------------------------------------------


def send(
    stage: Stage, *messages: CoreMessage, session: Session | None = None, queue_ids: frozenset[int] | None = None
) -> None:
    for message in messages:
        if session is None:
            refused = stage.kernel.router.send(
                message, None, None, message.duplicate_id, None, queue_ids or frozenset()
            )
        else:
            refused = session.send(message, None, message.duplicate_id, queue_ids=queue_ids or frozenset())
        assert refused is None, refused
    stage.run_all()


def test_one_copy_for_each_broker_names_all_its_queues(stage: Stage) -> None:
    stage.queue("own", "news", MULTICAST)
    for number, (queue, node) in enumerate([("s1", B), ("s2", C), ("s3", B)]):
        bind(stage, queue, node, address="news", routing_name=queue, remote_queue_id=number)
    send(stage, letter("m", "news", durable=True, priority=7, expiration=1_800_000_000_000, colour="red"))
    assert stage.waiting("own") == ["m"]
    # As Artemis has it, the last one comes first.
    assert (queue_ids(stage, B), queue_ids(stage, C)) == ([("m", [2, 0])], [("m", [1])])
    copy = first(stage, sf_name(B))
    assert (copy.address, copy.durable, copy.priority, copy.expiration) == ("news", True, 7, 1_800_000_000_000)
    assert (copy.property("colour"), copy.user_id) == ("red", bytes(range(16)))
    own = first(stage, "own")
    assert own.route_in(sf_name(B)) is None
    assert len({own.message_id, copy.message_id, first(stage, sf_name(C)).message_id}) == 3
    address = stage.kernel.address_manager.addresses["news"]
    assert (address.routed_count, address.unrouted_count) == (1, 0)
    stage.kernel.check()


def test_a_message_for_another_broker_counts_at_the_store_and_forward_queue(stage: Stage) -> None:
    bind(stage, consumers=(None,))
    stage.queue("orders")
    send(stage, letter("m"))
    statistics = stage.kernel.memory.statistics()
    assert list(statistics.by_address) == [sf_name(B)]
    assert stage.waiting("orders") == []
    assert stage.kernel.address_manager.addresses["orders"].unrouted_count == 0


def test_a_durable_message_for_several_places_is_one_transaction_and_for_one_it_is_none(stage: Stage) -> None:
    stage.queue("orders")
    binding = bind(stage, consumers=(None,))
    send(stage, letter("m", durable=True, _AMQ_DUPL_ID="x"))
    assert not stage.store.of_kind("commit", "add")
    assert len(stage.store.of_kind("once")) == 1
    send(stage, letter("again", durable=True, _AMQ_DUPL_ID="x"))
    assert queue_ids(stage) == [("m", [7])]
    stage.queue("topic", "orders", MULTICAST)
    stage.store.records.clear()
    send(stage, letter("n", durable=True, _AMQ_DUPL_ID="y"))
    *before, (kind, transaction, *_) = stage.store.of_kind("add", "once", "id", "commit")
    assert kind == "commit" and len(before) == 3
    assert all(transaction in record for record in before), before
    assert (stage.waiting("topic"), queue_ids(stage)) == (["n"], [("m", [7]), ("n", [7])])
    stage.kernel.address_manager.remove_remote_binding(binding)
    send(stage, letter("here"))
    assert (stage.waiting("orders"), stage.waiting("topic")) == (["here"], ["n", "here"])
    stage.kernel.check()


def test_a_repeated_message_passes_once_over_a_broker_without_its_address(stage: Stage) -> None:
    one, other = bind(stage), bind(stage, "more", C, remote_queue_id=9)
    assert not {"orders", "more"} & set(stage.kernel.address_manager.addresses)
    for text in ("m", "again"):
        message = letter(text, durable=True, _AMQ_DUPL_ID="x")
        send(stage, message, queue_ids=frozenset({one.announced_id}))
        # The id is in the record of the message: it is there after a restart.
        assert len(stage.store.of_kind("once")) == 1
    assert queue_ids(stage) == [("m", [7])]
    send(stage, letter("n", "more", _AMQ_DUPL_ID="x"), queue_ids=frozenset({other.announced_id}))
    assert queue_ids(stage, C) == [("n", [9])]
    stage.kernel.check()


def test_a_repeated_message_passes_once_when_its_way_changes_meanwhile(stage: Stage) -> None:
    near, far = bind(stage), bind(stage, node=C, remote_queue_id=9)
    send(stage, letter("m", durable=True, _AMQ_DUPL_ID="x"), queue_ids=frozenset({near.announced_id}))
    stage.kernel.address_manager.remove_remote_binding(near)
    for text, duplicate_id in (("again", "x"), ("n", "y")):
        message = letter(text, durable=True, _AMQ_DUPL_ID=duplicate_id)
        send(stage, message, queue_ids=frozenset({far.announced_id}))
    assert (queue_ids(stage), queue_ids(stage, C)) == ([("m", [7])], [("n", [9])])
    stage.kernel.check()


def test_a_repeated_message_passes_once_when_its_address_is_created_meanwhile(stage: Stage) -> None:
    binding = bind(stage)
    chosen = frozenset({binding.announced_id})
    send(stage, letter("m", durable=True, _AMQ_DUPL_ID="x"), queue_ids=chosen)
    stage.queue("orders")
    send(stage, letter("again", durable=True, _AMQ_DUPL_ID="x"), queue_ids=chosen)
    assert not stage.kernel.router.send_run([letter("again", durable=True)], [b"x"], chosen)
    session = stage.session(transacted=True)
    send(stage, letter("again", durable=True, _AMQ_DUPL_ID="x"), session=session)
    assert isinstance(session.commit(), Refused)
    assert (queue_ids(stage), stage.waiting("orders")) == ([("m", [7])], [])
    # A move drops a duplicate, too.
    orders, duplicates = stage.kernel.address_manager.addresses["orders"], stage.kernel.duplicates
    assert [duplicates.is_in_force(orders, each.encode("utf-16-le")) for each in "xy"] == [True, False]
    # In a later life, too.
    keeper = stage.kernel.address_manager.addresses[sf_name(B)]
    assert keeper.duplicate_ids is not None
    entries = [DuplicateId(n, keeper.definition.id, value) for value, n in keeper.duplicate_ids.numbers.items()]
    stage.kernel.duplicates.clear(keeper.duplicate_ids)
    stage.kernel.duplicates.restore(entries, {keeper.definition.id: keeper})
    for text, duplicate_id in (("again", "x"), ("n", "y")):
        send(stage, letter(text, durable=True, _AMQ_DUPL_ID=duplicate_id), queue_ids=chosen)
    assert queue_ids(stage) == [("m", [7]), ("n", [7])]
    stage.kernel.check()


def test_ids_of_messages_that_passed_before_their_address_was_created_are_cleared_with_it(stage: Stage) -> None:
    one, other = bind(stage), bind(stage, "more", remote_queue_id=9)
    ids = {"orders": frozenset({one.announced_id}), "more": frozenset({other.announced_id})}
    for name, queue_ids_ in ids.items():
        send(stage, letter(name, name, durable=True, _AMQ_DUPL_ID="x"), queue_ids=queue_ids_)
    stage.queue("orders")
    stage.store.records.clear()
    stage.kernel.duplicates.forget_all(stage.kernel.address_manager.addresses["orders"])
    # That of the other address is recorded anew.
    assert [kind for kind, *_ in stage.store.records] == ["clear ids", "id"]
    for name, queue_ids_ in ids.items():
        send(stage, letter("again", name, durable=True, _AMQ_DUPL_ID="x"), queue_ids=queue_ids_)
    assert queue_ids(stage) == [("orders", [7]), ("more", [9]), ("again", [7])]
    stage.kernel.check()


@pytest.mark.parametrize("place", ["here", "behind another broker", "unknown"])
def test_a_repeated_message_passes_once_when_the_broker_behind_has_left_meanwhile(stage: Stage, place: str) -> None:
    manager, gone = stage.kernel.address_manager, bind(stage)
    send(stage, letter("m", durable=True, _AMQ_DUPL_ID="x"), queue_ids=frozenset({gone.announced_id}))
    bind(stage, "more", C)
    send(stage, letter("n", "more", durable=True, _AMQ_DUPL_ID="x"))
    manager.remove_remote_binding(gone)
    if place == "here":
        stage.queue("orders")
    chosen = bind(stage, node=C, remote_queue_id=9) if place == "behind another broker" else None
    stage.store.records.clear()
    stage.kernel.teardown.delete_queue(manager.queues[sf_name(B)])
    stage.run_all()
    # First the id is somewhere else, and then the address goes.
    assert [kind for kind, *_ in stage.store.records if kind in ("id", "no address")] == ["id", "no address"]
    if place == "unknown":
        chosen = bind(stage, node=C, remote_queue_id=9)
    for text, duplicate_id in (("again", "x"), ("o", "y")):
        message = letter(text, durable=True, _AMQ_DUPL_ID=duplicate_id)
        send(stage, message, queue_ids=frozenset({chosen.announced_id}) if chosen is not None else None)
    assert stage.waiting("orders") == ["o"] if place == "here" else queue_ids(stage, C) == [("n", [7]), ("o", [9])]
    stage.kernel.check()


def test_a_repeated_message_passes_once_when_the_last_queue_of_its_address_is_deleted_meanwhile(stage: Stage) -> None:
    binding = bind(stage)
    chosen, addresses = frozenset({binding.announced_id}), stage.kernel.address_manager.addresses
    for text in ("m", "again"):
        queue = stage.queue("orders")
        send(stage, letter(text, durable=True, _AMQ_DUPL_ID="x"), queue_ids=chosen)
        stage.kernel.teardown.delete_queue(queue)
        stage.pass_time(100)
    send(stage, letter("again", durable=True, _AMQ_DUPL_ID="x"), queue_ids=chosen)
    assert queue_ids(stage) == [("m", [7])]
    # The address stays as long as other brokers have it.
    assert "orders" in addresses
    stage.kernel.address_manager.remove_remote_binding(binding)
    stage.pass_time(100)
    assert "orders" not in addresses
    stage.kernel.check()


def test_ids_of_messages_to_addresses_that_do_not_exist_here_never_meet(stage: Stage) -> None:
    sent = {("a", "b c"), ("a b", "c"), ("ab", ""), ("x\ud800", "c"), ("x\ud800", "y" * 200)}
    for name in {name for name, _ in sent}:
        bind(stage, name, consumers=(None,))
    for text in ("first", "again"):
        for name, duplicate_id in sorted(sent):
            message = letter(text, name, durable=True)
            assert stage.kernel.router.send(message, None, None, duplicate_id.encode()) is None
        stage.run_all()
        assert [each for each, _ids in queue_ids(stage)] == ["first"] * len(sent)
    ids = stage.kernel.address_manager.addresses[sf_name(B)].duplicate_ids
    assert ids is not None
    assert None not in [split_id_with_address(value) for value in ids.numbers]
    short = {(name, value.encode()) for name, value in sent if len(value) < 200}
    assert short < {split_id_with_address(value) for value in ids.numbers}
    assert [split_id_with_address(value) for value in (b"", b"\0\0\0\2x", b"\0\0\0\1\xff")] == [None] * 3


@pytest.mark.parametrize("stated", [None, RoutingType.ANYCAST, RoutingType.MULTICAST])
def test_the_address_of_what_a_broker_had_that_scaled_down_is_as_its_send_needs_it(
    stage: Stage, stated: RoutingType | None
) -> None:
    """A queue elsewhere with the name of its address may be a multicast one."""
    for queue, address, routing_name in (("same", "same", "same"), ("own", "work", "work"), ("own", "news", "own")):
        bind(stage, queue, address=address, routing_name=routing_name)
        message = letter("m", address)
        assert stage.kernel.router.send_on(message, stated, frozenset({7}), B, None) is None
    found = [stage.kernel.address_manager.addresses[name].definition for name in ("same", "work", "news")]
    assert [(each.anycast, each.multicast) for each in found[1:]] == [(True, False), (False, True)]
    assert (found[0].anycast, found[0].multicast) == ((True, False) if stated else (False, True))


def test_a_transaction_decides_about_the_copies_too(stage: Stage) -> None:
    bind(stage)
    stage.queue("topic", "orders", MULTICAST)
    session = stage.session(transacted=True)
    send(stage, letter("m", durable=True, _AMQ_DUPL_ID="x"), session=session)
    assert not stage.waiting("topic") and not queue_ids(stage)
    session.rollback(last_delivered=False)
    stage.assert_empty()
    send(stage, letter("n", durable=True, _AMQ_DUPL_ID="x"), session=session)
    assert session.commit() is None
    stage.run_all()
    assert (stage.waiting("topic"), queue_ids(stage)) == (["n"], [("n", [7])])


def test_what_another_broker_sent_goes_to_no_other_broker_again(stage: Stage) -> None:
    queue, other = stage.queue("orders"), stage.queue("other", "orders")
    bind(stage, load_balancing=MessageLoadBalancing.STRICT, consumers=(None,))
    send(stage, letter("a"), letter("b", "orders::orders"), queue_ids=frozenset((queue.id,)))
    # Its queues are gone, or it named one of another address.
    send(stage, letter("c"), letter("d"), queue_ids=frozenset((1 << 60,)))
    assert (stage.waiting("orders"), stage.waiting("other"), queue_ids(stage)) == (["a", "b", "c"], ["d"], [])
    assert other.message_count == 1
    # Once for the address.
    (line,) = stage.log
    assert "for a queue that does not exist any more" in line


def test_what_another_broker_chose_may_be_one_broker_further(stage: Stage) -> None:
    queue = stage.queue("orders")
    here = bind(stage, load_balancing=MessageLoadBalancing.STRICT, remote_queue_id=3)
    send(stage, letter("a", _AMQ_DUPL_ID="x", durable=True), letter("b"), queue_ids=frozenset((here.announced_id,)))
    send(stage, letter("c", durable=True), queue_ids=frozenset((here.announced_id, queue.id)))
    assert (queue_ids(stage), stage.waiting("orders")) == ([("a", [3]), ("b", [3]), ("c", [3])], ["c"])
    # One of an address that this broker does not have: nothing is created on the way.
    there = bind(stage, "there", remote_queue_id=4)
    message = letter("d", "there", routing_type=RoutingType.ANYCAST)
    assert stage.kernel.router.send(message, 1, None, None, None, frozenset((there.announced_id,))) is None
    stage.run_all()
    assert queue_ids(stage)[-1] == ("d", [4])
    assert "there" not in stage.kernel.address_manager.addresses
    # It is gone: then a queue is created, so that the message is not lost.
    gone = there.announced_id
    stage.kernel.address_manager.remove_remote_binding(there)
    assert stage.kernel.router.send(letter("e", "there"), 1, None, None, None, frozenset((gone,))) is None
    stage.run_all()
    assert stage.waiting("there") == ["e"]


def test_what_was_chosen_one_broker_further_and_is_gone_goes_to_a_queue_that_shares_its_messages(stage: Stage) -> None:
    """This broker has lost the one further, or has just started: another broker may still choose queues over it."""
    gone = bind(stage, "s", address="news", routing_name="s")
    other = bind(stage, "s", C, address="news", routing_name="s", remote_queue_id=4)
    near = stage.queue("n", "news", MULTICAST)
    stage.kernel.address_manager.remove_remote_binding(gone)
    send(stage, letter("a", "news"), queue_ids=frozenset((gone.announced_id, near.id)))
    stage.queue("s", "news", MULTICAST, filter="colour = 'red'")
    send(stage, letter("b", "news", colour="red"), queue_ids=frozenset((gone.announced_id, near.id)))
    send(stage, letter("c", "news", colour="blue"), queue_ids=frozenset((gone.announced_id,)))
    assert (queue_ids(stage, C), stage.waiting("s"), stage.waiting("n")) == (
        [("a", [4]), ("c", [4])],
        ["b"],
        ["a", "b"],
    )
    assert not stage.log
    stage.kernel.address_manager.remove_remote_binding(other)
    send(stage, letter("d", "news", colour="blue"), queue_ids=frozenset((gone.announced_id, near.id)))
    assert (stage.waiting("s"), stage.waiting("n"), len(stage.log)) == (["b"], ["a", "b", "d"], 1)
    # Anycast queues of an address share its messages, whatever their names.
    far = bind(stage, "far", address="orders", routing_name="orders")
    stage.kernel.address_manager.remove_remote_binding(far)
    stage.queue("near", "orders")
    send(stage, letter("e"), queue_ids=frozenset((far.announced_id,)))
    assert stage.waiting("near") == ["e"]


def test_what_was_chosen_for_a_queue_that_was_created_again_goes_to_the_new_one_of_a_shared_subscription(
    stage: Stage,
) -> None:
    """Another broker with a queue of the subscription did not know yet that the first one here was deleted."""
    first = stage.queue("s", "news", MULTICAST)
    stage.kernel.teardown.delete_queue(first)
    other = bind(stage, "s", address="news", routing_name="s")
    # It has not been created again: the subscription has ended here.
    send(stage, letter("a", "news"), queue_ids=frozenset((first.id,)))
    second = stage.queue("s", "news", MULTICAST, filter="colour = 'red'")
    send(stage, letter("b", "news", colour="red"), queue_ids=frozenset((first.id,)))
    send(stage, letter("c", "news", colour="blue"), queue_ids=frozenset((first.id,)))
    send(stage, letter("d", "news", colour="red"), queue_ids=frozenset((first.id, second.id)))
    assert (stage.waiting("s"), queue_ids(stage)) == (["b", "d"], [])
    # Without another queue the subscription has ended, and the new one gets nothing that was sent before it.
    stage.kernel.address_manager.remove_remote_binding(other)
    send(stage, letter("e", "news", colour="red"), queue_ids=frozenset((first.id,)))
    assert stage.waiting("s") == ["b", "d"]


def test_what_was_chosen_behind_a_broker_that_stopped_waits_for_it(stage: Stage) -> None:
    near, forwarding = stage.queue("n", "news", MULTICAST), stage.kernel.forwarding
    gone = bind(stage, "s", address="news", routing_name="s")
    chosen = frozenset((gone.announced_id, near.id))
    forwarding.on_binding(gone, gone.announced_id)
    stage.kernel.address_manager.remove_remote_binding(gone)
    forwarding.on_left((gone,))
    send(stage, letter("a", "news"), queue_ids=chosen)
    assert (queue_ids(stage), stage.waiting("n"), stage.log) == ([("a", [7])], ["a"], [])
    # It is back, without that queue.
    again = bind(stage, "s", address="news", routing_name="s", remote_queue_id=9)
    forwarding.on_binding(again, again.announced_id)
    stage.kernel.address_manager.remove_remote_binding(again)
    send(stage, letter("b", "news"), queue_ids=chosen)
    assert (queue_ids(stage), stage.waiting("n"), len(stage.log)) == ([("a", [7])], ["a", "b"], 1)
    # What waited for it was deleted.
    forwarding.on_left((gone,))
    stage.kernel.teardown.delete_queue(sf(stage))
    send(stage, letter("c", "news"), queue_ids=chosen)
    assert stage.waiting("n") == ["a", "b", "c"]


def test_what_waits_for_a_broker_that_stopped_does_not_go_back_on_a_longer_way(stage: Stage) -> None:
    """A longer way may lead over this broker: two brokers that keep each other's would send a message to and fro."""
    forwarding, manager = stage.kernel.forwarding, stage.kernel.address_manager
    stage.queue("own", "news", MULTICAST)
    near, back = bind(stage, "s", address="news", routing_name="s"), bind(stage, "s", C, address="news")
    back.distance, back.announced_id = 3, near.announced_id
    chosen = frozenset((near.announced_id,))
    forwarding.on_binding(near, near.announced_id)
    manager.remove_remote_binding(near)
    forwarding.on_binding(back, back.announced_id)
    manager.remove_remote_binding(back)
    forwarding.on_left((back,))
    send(stage, letter("a", "news"), queue_ids=chosen)
    assert (queue_ids(stage), queue_ids(stage, C)) == ([], [])
    forwarding.on_left((near, back))
    send(stage, letter("b", "news"), queue_ids=chosen)
    assert (queue_ids(stage), queue_ids(stage, C)) == ([("b", [7])], [])


def test_after_its_start_a_broker_waits_for_news_of_queues_one_broker_further(stage: Stage) -> None:
    late, tried = stage.kernel.late_bindings, list[int]()
    far = bind(stage, "s", address="news", routing_name="s")
    near = bind(stage, "n", address="news", routing_name="n")
    stage.kernel.address_manager.remove_remote_binding(far)
    chosen = frozenset((far.announced_id, near.announced_id))
    message = letter("m", "news")

    def undecided() -> RoutingUndecided:
        with pytest.raises(RoutingUndecided) as raised:
            late.check(message, chosen, None)
        return raised.value

    def due() -> float | None:
        return late.next_deadline_s

    late.check(message, chosen, None)
    late.begin()
    late.check(message, frozenset((near.announced_id, 3)), None)
    for number in range(2):
        undecided().wait(partial(tried.append, number))
    late.run(stage.kernel.monotonic)
    assert not tried
    late.on_binding(near, near.announced_id)
    assert due() == stage.kernel.monotonic
    late.run(stage.kernel.monotonic)
    assert tried == [0, 1] and due() is None
    undecided().wait(lambda: tried.append(2))
    until = due()
    assert until is not None
    stage.pass_time(until - stage.kernel.monotonic)
    late.run(stage.kernel.monotonic)
    assert tried == [0, 1, 2]
    late.check(message, chosen, None)


def test_after_its_start_a_broker_returns_no_message_to_the_broker_that_sent_it(stage: Stage) -> None:
    late, message = stage.kernel.late_bindings, letter("m", "news")
    chosen = frozenset((bind(stage, "s", address="news", routing_name="s").announced_id,))
    tried: list[int] = []
    late.begin()
    late.check(message, chosen, UUID(C).bytes)
    late.check(message, chosen, None)
    for number, due in enumerate((5, 7)):
        with pytest.raises(RoutingUndecided) as raised:
            late.check(message, chosen, UUID(B).bytes)
        raised.value.wait(partial(tried.append, number))
        assert late.next_deadline_s == due
        stage.pass_time(due - stage.kernel.monotonic)
        late.run(stage.kernel.monotonic)
    assert tried == [0, 1] and late.next_deadline_s is None
    late.check(message, chosen, UUID(B).bytes)


def test_what_waits_for_a_broker_that_has_stopped_is_not_returned_to_its_sender(stage: Stage) -> None:
    forwarding, manager = stage.kernel.forwarding, stage.kernel.address_manager
    stage.queue("own", "news", MULTICAST)
    way = bind(stage, "s", address="news", routing_name="s")
    chosen = frozenset((way.announced_id,))
    forwarding.on_binding(way, way.announced_id)
    manager.remove_remote_binding(way)
    forwarding.on_left((way,))
    for text, node in (("a", B), ("b", C)):
        bridge_id = BRIDGE_ID_PREFIX + UUID(node).bytes + bytes(8)
        stage.kernel.router.send(letter(text, "news"), int(MULTICAST), None, bridge_id, queue_ids=chosen)
    assert queue_ids(stage) == [("b", [7])]


def test_what_another_broker_chose_is_dropped_if_it_cannot_be_created_again() -> None:
    stage = Stage({"fixed.#": AddressSettings(auto_create_queues=False, auto_create_addresses=False)})
    stage.kernel.address_manager.create_address("fixed.b", anycast=True, multicast=False, auto_created=False)
    chosen = frozenset((stage.queue("reply", temporary=True).id,))
    stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["reply"])
    stage.run_all()
    for address in ("reply", "fixed.a", "fixed.b"):
        # A refusal would have the other broker send it again, before all others.
        temporary = address if address == "reply" else ""
        for text in "ab":
            message = letter(text, address, _AMQ_TEMPORARY=temporary)
            assert stage.kernel.router.send(message, 1, None, None, None, chosen) is None
        own = letter("c", address, _AMQ_TEMPORARY=temporary)
        assert isinstance(stage.kernel.router.send(own, 1, None), Refused)
    # Once for each address.
    assert [line.split("'")[1] for line in stage.log if "are dropped" in line] == ["reply", "fixed.a", "fixed.b"]
    assert set(stage.kernel.address_manager.addresses) == {"fixed.b"}


def test_memory_is_held_for_the_address_of_the_message_and_not_for_a_wildcard(stage: Stage) -> None:
    stage.queue("sub", "news.#", MULTICAST)
    bind(stage, "sub", address="news.#", routing_name="sub")
    stage.kernel.address_manager.create_address("news.uk", anycast=False, multicast=True, auto_created=False)
    send(stage, letter("a", "news.uk"))
    assert stage.waiting("sub") == ["a"]
    memory = stage.kernel.memory
    assert memory.address_bytes("news.#") == 0 < memory.address_bytes("news.uk")


def test_a_local_queue_of_another_routing_type_takes_no_turn(stage: Stage) -> None:
    stage.queue("news")
    bind(stage, "news", remote_queue_id=5)
    stage.kernel.address_manager.create_address("news", anycast=True, multicast=True, auto_created=False)
    for text in "ab":
        assert stage.kernel.router.send(letter(text, "news", routing_type=RoutingType.MULTICAST), 0, None) is None
    assert (stage.waiting("news"), queue_ids(stage)) == ([], [("a", [5]), ("b", [5])])


def test_a_queue_of_a_wildcard_address_can_be_chosen(stage: Stage) -> None:
    chosen, other = stage.queue("s1", "news.#", MULTICAST), stage.queue("s2", "news.#", MULTICAST)
    wild = bind(stage, "s3", address="news.#", routing_name="s3", remote_queue_id=5)
    send(stage, letter("a", "news.uk"), queue_ids=frozenset((chosen.id,)))
    send(stage, letter("b", "news.uk"), queue_ids=frozenset((other.id, wild.announced_id)))
    stage.kernel.address_manager.create_address("news.uk", anycast=False, multicast=True, auto_created=False)
    send(stage, letter("c", "news.uk"), queue_ids=frozenset((chosen.id, wild.announced_id)))
    assert (stage.waiting("s1"), stage.waiting("s2")) == (["a", "c"], ["b"])
    assert queue_ids(stage) == [("b", [5]), ("c", [5])]


def test_diverts_come_first_and_their_copies_go_to_other_brokers_too(stage: Stage) -> None:
    queue = stage.queue("orders")
    bind(stage, load_balancing=MessageLoadBalancing.STRICT)
    bind(stage, "audit", remote_queue_id=8)
    created = stage.kernel.diverts.create("d", DivertConfiguration("orders", "audit", exclusive=True, filter="n = 1"))
    assert isinstance(created, Divert)
    send(stage, letter("a", n=1, durable=True), letter("b", n=2, durable=True), letter("c", n=2))
    # The queue and the remote queue take turns; the exclusive divert takes all that it wants.
    assert (queue_ids(stage), stage.waiting("orders")) == ([("a", [8]), ("c", [7])], ["b"])
    # An exclusive divert also takes what another broker chose a queue for.
    send(stage, letter("d", n=1), letter("e", n=2), queue_ids=frozenset((queue.id,)))
    assert (queue_ids(stage)[2:], stage.waiting("orders")) == ([("d", [8])], ["b", "e"])
    stage.kernel.check()


def test_dead_letters_go_to_the_broker_that_reads_them(stage: Stage) -> None:
    stage.queue("orders")
    bind(stage, "DLQ", consumers=(None,))
    send(stage, letter("m", durable=True, _AMQ_DUPL_ID="x"))
    queue = stage.kernel.address_manager.queues["orders"]
    stage.kernel.dead_letters.move(queue, queue.backlog.pop())
    stage.run_all()
    assert (stage.waiting("DLQ"), queue_ids(stage)) == ([], [("m", [7])])
    assert first(stage, sf_name(B)).property("_AMQ_ORIG_ADDRESS") == "orders"
    stage.kernel.check()


def test_an_address_that_does_not_exist_here_and_one_without_a_queue(stage: Stage) -> None:
    bind(stage, "there")
    send(stage, letter("m", "there"), letter("n", "there::there"), letter("o", "there::elsewhere"))
    assert queue_ids(stage) == [("m", [7]), ("n", [7])]
    assert "there" not in stage.kernel.address_manager.addresses


def test_a_large_body_is_shared_until_its_last_copy_is_gone(stage: Stage) -> None:
    bind(stage, consumers=(None,))
    bind(stage, "s", C, address="orders", routing_name="s")
    stage.queue("topic", "orders", MULTICAST)
    large = large_message(letter("", durable=True, colour="red"), Body(LARGE, 5, 1000, None))
    assert stage.kernel.router.send(large, None, None) is None
    stage.run_all()
    uses = stage.kernel.large_bodies.uses
    assert uses == {5: 3}
    copy = next(iter(sf(stage).backlog)).message
    assert (copy.body_number, copy.property("colour")) == (5, "red")
    for name in ("topic", sf_name(B), sf_name(C)):
        stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues[name])
        stage.run_all()
    assert not uses


def test_a_message_that_cannot_be_copied_is_refused_and_leaves_no_trace(stage: Stage) -> None:
    bind(stage)
    broken = letter("m", colour="red")
    # The number of properties is too large.
    broken.raw[broken.properties_at + 1] = 1
    session = stage.session(transacted=True)
    refused = session.send(broken, None)
    assert isinstance(refused, Refused) and "cannot be copied: malformed properties" in refused.text
    assert session.commit() is not None
    stage.assert_empty()
