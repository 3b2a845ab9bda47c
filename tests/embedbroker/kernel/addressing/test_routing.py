"""Which queues a message goes to, what is created for it, and what is refused."""

from __future__ import annotations

import pytest

from embedbroker.config import AddressFullPolicy, AddressSettings
from embedbroker.kernel import QueueRequest, Refused
from embedclient.errors import ErrorCode
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import ANYCAST, MULTICAST, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()


def refusal(stage: Stage, address: str, routing_type: int | None) -> Refused:
    refused = stage.kernel.router.send(letter("m", address), routing_type, None)
    assert isinstance(refused, Refused)
    return refused


def names(stage: Stage) -> list[str]:
    return sorted(set(stage.kernel.address_manager.queues) - {"DLQ", "ExpiryQueue"})


def test_anycast_queues_of_an_address_take_turns(stage: Stage) -> None:
    """Artemis' AddressingTest.testAnycastRoutingRoundRobin."""
    for name in ("x", "y"):
        stage.queue(name, "a")
    stage.send(*[letter(text, "a") for text in "12345"], routing_type=ANYCAST)
    assert (stage.waiting("x"), stage.waiting("y")) == (["1", "3", "5"], ["2", "4"])


def test_the_turn_passes_queues_whose_filter_rejects(stage: Stage) -> None:
    stage.queue("odd", "a", filter="odd")
    stage.queue("all", "a")
    for number in range(1, 7):
        stage.send(letter(str(number), "a", odd=number % 2 == 1))
    assert stage.waiting("odd") == ["1", "3", "5"]
    assert stage.waiting("all") == ["2", "4", "6"]


def test_every_multicast_queue_gets_a_message(stage: Stage) -> None:
    for name in ("x", "y"):
        stage.queue(name, "a", MULTICAST)
    stage.queue("red", "a", MULTICAST, filter="colour = 'red'")
    stage.send(letter("1", "a"), letter("2", "a", colour="red"), routing_type=MULTICAST)
    assert (stage.waiting("x"), stage.waiting("y"), stage.waiting("red")) == (["1", "2"], ["1", "2"], ["2"])


def test_the_routing_type_of_a_send_chooses_queues_of_its_kind(stage: Stage) -> None:
    stage.queue("any", "a", ANYCAST)
    stage.queue("multi", "a", MULTICAST)
    stage.send(letter("1", "a"), routing_type=ANYCAST)
    stage.send(letter("2", "a"), routing_type=MULTICAST)
    stage.send(letter("3", "a"))
    assert (stage.waiting("any"), stage.waiting("multi")) == (["1", "3"], ["2", "3"])


def test_a_fully_qualified_send_goes_to_one_queue(stage: Stage) -> None:
    for name in ("x", "y"):
        stage.queue(name, "a", MULTICAST)
    stage.send(letter("1", "a::x"), routing_type=MULTICAST)
    stage.send(letter("2", "a::x"))
    assert (stage.waiting("x"), stage.waiting("y")) == (["1", "2"], [])


def test_a_fully_qualified_send_needs_the_right_address_type_and_filter(stage: Stage) -> None:
    """Artemis' FullQualifiedQueueTest.testFilteredQueueNegative."""
    stage.queue("x", "a", MULTICAST, filter="colour = 'red'")
    stage.queue("y", "b", MULTICAST)
    for message, routing_type in ((letter("1", "a::x"), None), (letter("2", "a::y"), None)):
        stage.send(message, routing_type=routing_type)
    stage.send(letter("3", "b::y"), routing_type=ANYCAST)
    assert (stage.waiting("x"), stage.waiting("y")) == ([], [])
    stage.assert_empty()


def test_a_send_without_type_creates_nothing(stage: Stage) -> None:
    stage.send(letter("1", "a"))
    assert names(stage) == [] and "a" not in stage.kernel.address_manager.addresses
    stage.assert_empty()


def test_an_anycast_send_creates_address_and_queue(stage: Stage) -> None:
    stage.send(letter("1", "a"), routing_type=ANYCAST)
    queue = stage.kernel.address_manager.queues["a"]
    definition = queue.definition
    assert (definition.auto_created, definition.auto_delete, definition.durable) == (True, True, True)
    assert stage.waiting("a") == ["1"]
    address = stage.kernel.address_manager.addresses["a"].definition
    assert (address.anycast, address.multicast, address.auto_created) == (True, False, True)


def test_a_multicast_send_creates_the_address_only(stage: Stage) -> None:
    stage.send(letter("1", "a"), routing_type=MULTICAST)
    address = stage.kernel.address_manager.addresses["a"].definition
    assert (address.anycast, address.multicast) == (False, True)
    assert names(stage) == []


@pytest.mark.parametrize("routing_type", [ANYCAST, MULTICAST])
def test_a_fully_qualified_send_creates_address_and_queue(stage: Stage, routing_type: int) -> None:
    """Artemis' AutoCreateJmsDestinationTest.testAutoCreateOnSendToFQQN."""
    stage.send(letter("1", "a::x"), routing_type=routing_type)
    assert stage.kernel.address_manager.queues["x"].definition.address == "a"
    assert stage.waiting("x") == ["1"]


def test_a_send_adds_its_type_to_an_address_without_queues(stage: Stage) -> None:
    stage.kernel.address_manager.create_address("a", anycast=False, multicast=True, auto_created=False)
    stage.send(letter("1", "a"), routing_type=ANYCAST)
    address = stage.kernel.address_manager.addresses["a"].definition
    assert (address.anycast, address.multicast) == (True, True)
    assert stage.waiting("a") == ["1"]


def test_an_address_with_any_queue_is_left_as_it_is(stage: Stage) -> None:
    """Recorded with a multicast message to a dead letter address that had an anycast queue: accepted and dropped."""
    stage.queue("x", "a", MULTICAST)
    stage.queue("y", "b", ANYCAST)
    stage.send(letter("1", "a"), routing_type=ANYCAST)
    stage.send(letter("2", "b"), routing_type=MULTICAST)
    assert (stage.waiting("x"), stage.waiting("y"), names(stage)) == ([], [], ["x", "y"])
    assert not stage.kernel.address_manager.addresses["a"].definition.anycast
    assert not stage.kernel.address_manager.addresses["b"].definition.multicast


def test_a_queue_of_that_name_elsewhere_with_the_other_type_refuses(stage: Stage) -> None:
    stage.queue("a", "b", MULTICAST)
    stage.kernel.address_manager.create_address("a", anycast=True, multicast=False, auto_created=False)
    assert refusal(stage, "a", ANYCAST).code == ErrorCode.ADDRESS_DOES_NOT_EXIST


def test_nothing_is_created_where_settings_forbid_it() -> None:
    stage = Stage(
        {
            "closed.#": AddressSettings(auto_create_addresses=False),
            "half.#": AddressSettings(auto_create_queues=False),
        }
    )
    assert refusal(stage, "closed.a", ANYCAST).code == ErrorCode.ADDRESS_DOES_NOT_EXIST
    assert refusal(stage, "closed.a", MULTICAST).code == ErrorCode.ADDRESS_DOES_NOT_EXIST
    assert refusal(stage, "half.a", ANYCAST).code == ErrorCode.ADDRESS_DOES_NOT_EXIST
    stage.send(letter("1", "half.b"), routing_type=MULTICAST)
    assert "closed.a" not in stage.kernel.address_manager.addresses
    stage.kernel.address_manager.create_address("closed.b", anycast=False, multicast=True, auto_created=False)
    assert refusal(stage, "closed.b", ANYCAST).code == ErrorCode.ADDRESS_DOES_NOT_EXIST
    stage.assert_empty()


def test_a_refused_send_spoils_its_transaction() -> None:
    stage = Stage({"closed.#": AddressSettings(auto_create_addresses=False)})
    session = stage.session(transacted=True)
    stage.send(letter("1", "open"), session=session, routing_type=ANYCAST)
    assert session.send(letter("2", "closed.a"), ANYCAST) is not None
    refused = session.commit()
    assert refused is not None and refused.code == ErrorCode.TRANSACTION_ROLLED_BACK
    assert stage.waiting("open") == []
    stage.assert_empty()


def test_a_message_without_address_is_refused(stage: Stage) -> None:
    assert refusal(stage, "", ANYCAST).code == ErrorCode.ILLEGAL_STATE


def test_a_full_address_with_policy_fail_refuses(stage: Stage) -> None:
    stage = Stage({"f.#": AddressSettings(max_size_bytes=1000, address_full_policy=AddressFullPolicy.FAIL)})
    stage.queue("f.q")
    sent = 0
    while stage.kernel.router.send(letter("x" * 100, "f.q"), None, None) is None:
        sent += 1
        assert sent < 100
    assert sent == 3
    assert refusal(stage, "f.q", ANYCAST).code == ErrorCode.ADDRESS_FULL
    session = stage.session(transacted=True)
    assert session.send(letter("x", "f.q"), ANYCAST) is not None
    refused = session.commit()
    assert refused is not None and refused.code == ErrorCode.TRANSACTION_ROLLED_BACK
    stage.consumer(stage.session(pre_acknowledge=True), "f.q")
    stage.run()
    stage.send(letter("again", "f.q"))


def test_a_fully_qualified_name_is_no_way_around_the_limit_of_its_address() -> None:
    stage = Stage({"f.#": AddressSettings(max_size_bytes=1000, address_full_policy=AddressFullPolicy.FAIL)})
    stage.queue("q", "f.a")
    sent = 0
    while stage.kernel.router.send(letter("x" * 100, "f.a::q"), None, None) is None:
        sent += 1
        assert sent < 100
    assert sent == 3
    assert refusal(stage, "f.a::q", ANYCAST).code == ErrorCode.ADDRESS_FULL


def test_queues_are_created_by_the_rules(stage: Stage) -> None:
    assert stage.refused("", "a").code == ErrorCode.INVALID_QUEUE_CONFIGURATION
    assert stage.refused("x", "a", filter="colour = ").code == ErrorCode.INVALID_FILTER_EXPRESSION
    assert "a" not in stage.kernel.address_manager.addresses
    stage.queue("x", "a")
    assert stage.refused("x", "a").code == ErrorCode.QUEUE_EXISTS
    assert stage.refused("x", "b").code == ErrorCode.QUEUE_EXISTS
    assert stage.queue("x", "a", ignore_if_exists=True) is stage.kernel.address_manager.queues["x"]


def test_a_refused_filter_is_quoted_once_and_its_beginning_only(stage: Stage) -> None:
    assert stage.refused("x", "a", filter="colour = ").text.count("colour") == 1
    assert len(stage.refused("x", "a", filter="(" * 5000).text) < 400


def test_names_may_be_fully_qualified(stage: Stage) -> None:
    assert stage.queue("a::x", "ignored").definition.address == "a"
    assert stage.kernel.address_manager.queues["x"].definition.address == "a"
    queue = stage.queue("", "b::y")
    assert (queue.name, queue.definition.address) == ("y", "b")


def test_shared_queues_want_the_same_address_and_filter(stage: Stage) -> None:
    """Artemis' TransientQueueTest.testQueueDifferentConfigs."""
    queue = stage.queue("s", "t", MULTICAST, shared=True, durable=False)
    assert queue.definition.transient and not queue.durable
    assert stage.queue("s", "t", MULTICAST, shared=True, durable=False) is queue
    assert stage.refused("s", "u", shared=True).code == ErrorCode.INVALID_TRANSIENT_QUEUE_USE
    assert stage.refused("s", "t", shared=True, filter="a = 1").code == ErrorCode.INVALID_TRANSIENT_QUEUE_USE


def test_a_missing_address_or_type_is_created_where_allowed() -> None:
    stage = Stage({"closed.#": AddressSettings(auto_create_addresses=False)})
    assert stage.refused("q", "closed.a").code == ErrorCode.ADDRESS_DOES_NOT_EXIST
    assert stage.queue("t", "closed.b", temporary=True).definition.temporary
    stage.kernel.address_manager.create_address("closed.c", anycast=True, multicast=False, auto_created=False)
    refused = stage.refused("q", "closed.c", routing_type=MULTICAST)
    assert refused.code == ErrorCode.INTERNAL_ERROR and "MULTICAST" in refused.text


def test_settings_fill_what_a_request_leaves_open() -> None:
    stage = Stage(
        {
            "d.#": AddressSettings(
                default_max_consumers=3,
                default_exclusive_queue=True,
                default_purge_on_no_consumers=True,
                default_queue_routing_type=ANYCAST,
                auto_delete_queues_delay_ms=500,
            )
        }
    )
    queue = stage.kernel.address_manager.create_queue(QueueRequest("d.a", "q"))
    assert not isinstance(queue, Refused)
    definition = queue.definition
    assert (definition.max_consumers, definition.exclusive, definition.purge_on_no_consumers) == (3, True, True)
    assert (definition.routing_type, definition.auto_delete_delay) == (ANYCAST, 500)
    wished = stage.queue("r", "d.a", max_consumers=9, exclusive=False).definition
    assert (wished.max_consumers, wished.exclusive) == (9, False)


def test_creating_an_address_again_replaces_its_types(stage: Stage) -> None:
    address_manager = stage.kernel.address_manager
    address_manager.create_address("a", anycast=True, multicast=False, auto_created=True)
    address_manager.create_address("a", anycast=False, multicast=True, auto_created=False)
    definition = address_manager.addresses["a"].definition
    assert (definition.anycast, definition.multicast) == (False, True)


def test_queries_describe_what_is_there_and_what_would_be() -> None:
    stage = Stage({"d.#": AddressSettings(default_max_consumers=3, auto_create_queues=False)})
    queue = stage.queue("x", "a", MULTICAST, filter="colour = 'red'")
    stage.consumer(stage.session(), "x", credit=0)
    stage.send(letter("1", "a", colour="red"))
    view = stage.kernel.address_manager.view_queue("a::x")
    assert (view.exists, view.definition, view.consumer_count, view.message_count) == (True, queue.definition, 1, 1)
    missing = stage.kernel.address_manager.view_queue("d.a::y")
    assert (missing.exists, missing.definition.name, missing.definition.address) == (False, "y", "d.a")
    assert (missing.definition.max_consumers, missing.auto_create_queues) == (3, False)
    address = stage.kernel.address_manager.view_address("a")
    assert (address.exists, address.queue_names, address.supports_anycast) == (True, ["x"], False)
    assert not stage.kernel.address_manager.view_address("nowhere").exists
    everything = stage.kernel.address_manager.view_address("#")
    assert (everything.exists, everything.queue_names) == (False, ["x"])


def test_what_nobody_takes_is_accepted_and_gone(stage: Stage) -> None:
    stage.queue("x", "a", MULTICAST, filter="colour = 'red'")
    stage.send(letter("1", "a"), routing_type=MULTICAST)
    stage.kernel.address_manager.create_address("b", anycast=False, multicast=True, auto_created=False)
    stage.send(letter("2", "b", durable=True), routing_type=MULTICAST)
    assert stage.store.of_kind("add") == []
    stage.assert_empty()


GONE = "0b1c2d3e-1111-2222-3333-445566778899"


def test_a_late_send_to_a_temporary_queue_creates_nothing() -> None:
    stage = Stage()
    for name in (GONE, "jms.tempqueue." + GONE):
        stage.kernel.teardown.delete_queue(stage.queue(name, temporary=True))
        for routing_type in (ANYCAST, MULTICAST, None):
            refused = stage.kernel.router.send(letter("late", name), routing_type, None)
            assert isinstance(refused, Refused) and refused.code == ErrorCode.QUEUE_DOES_NOT_EXIST
        assert name not in stage.kernel.address_manager.addresses and name not in stage.kernel.address_manager.queues
        address, queue = stage.kernel.address_manager.view_address(name), stage.kernel.address_manager.view_queue(name)
        assert not (address.auto_create_addresses or address.auto_create_queues or queue.auto_create_queues)
        asked = stage.kernel.address_manager.create_queue(
            QueueRequest(name, name, routing_type=ANYCAST, auto_created=True)
        )
        assert isinstance(asked, Refused)


def test_a_temporary_queue_may_come_back_under_its_name() -> None:
    """A client that lost its connection makes its session again, with its temporary queues."""
    stage = Stage()
    stage.kernel.teardown.delete_queue(stage.queue(GONE, temporary=True))
    queue = stage.queue(GONE, temporary=True)
    assert stage.kernel.router.send(letter("in time", GONE), ANYCAST, None) is None
    assert queue.message_count == 1


def test_a_name_that_people_choose_is_not_taken_for_a_temporary_one() -> None:
    stage = Stage()
    stage.kernel.teardown.delete_queue(stage.queue("orders", temporary=True))
    assert stage.kernel.router.send(letter("m", "orders"), ANYCAST, None) is None
    assert stage.kernel.address_manager.queues["orders"].message_count == 1


def test_a_message_that_says_that_its_address_is_temporary_creates_nothing() -> None:
    """The broker may never have seen the name: it was restarted, or took over from another one."""
    stage = Stage()
    refused = stage.kernel.router.send(letter("late", GONE, _AMQ_TEMPORARY=GONE), ANYCAST, None)
    assert isinstance(refused, Refused) and GONE not in stage.kernel.address_manager.addresses
    # One that a client passes on to another address with all its properties is a message like any other.
    assert stage.kernel.router.send(letter("passed on", "archive", _AMQ_TEMPORARY=GONE), ANYCAST, None) is None
    assert stage.kernel.address_manager.queues["archive"].message_count == 1


def test_names_of_gone_temporary_queues_are_forgotten_some_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedbroker.kernel.addressing._addresses.GONE_MAX", 2)
    stage = Stage()
    names = [f"{number:08}{GONE[8:]}" for number in range(3)]
    for name in names:
        stage.kernel.teardown.delete_queue(stage.queue(name, temporary=True))
    views = [stage.kernel.address_manager.view_address(name) for name in names]
    assert [view.auto_create_queues for view in views] == [True, False, False]
