"""Diverts, line by line of the acceptance list of Artemis' tests, and what is refused."""

from __future__ import annotations

import pytest

from embedbroker.config import AddressFullPolicy, AddressSettings, DivertConfiguration, DivertRoutingType
from embedbroker.kernel import Divert, DivertDefinition, DivertedMessage, DivertRemoved, Refused
from embedclient.model import RoutingType
from embedclient.wire.core import CoreMessage

from ..letters import letter
from ..stage import ANYCAST, MULTICAST, Stage


def divert(stage: Stage, name: str, address: str, to: str, **wishes: object) -> Divert:
    created = stage.kernel.diverts.create(name, DivertConfiguration(address, to, **wishes))  # type: ignore[arg-type]
    assert isinstance(created, Divert), created
    return created


def first(stage: Stage, queue: str) -> CoreMessage:
    message = next(iter(stage.kernel.address_manager.queues[queue].backlog)).message
    assert isinstance(message, CoreMessage)
    return message


def refused(stage: Stage, message: CoreMessage, routing_type: int | None = None) -> str:
    answer = stage.kernel.router.send(message, routing_type, None)
    assert isinstance(answer, Refused)
    return answer.text


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    for name in ("orders", "audit", "other"):
        stage.queue(name)
    return stage


def test_a_divert_copies(stage: Stage) -> None:
    divert(stage, "copy", "orders", "audit")
    stage.send(letter("m"))
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("audit"), stage.waiting("other")) == (["m"], ["m"], [])
    original, copy = first(stage, "orders"), first(stage, "audit")
    assert copy.message_id not in (0, original.message_id)
    assert copy.address == "audit"
    assert copy.property("_AMQ_ORIG_ADDRESS") == "orders"
    assert copy.property("_AMQ_ORIG_QUEUE") == "copy"
    assert copy.property("_AMQ_ORIG_MESSAGE_ID") == original.message_id
    assert stage.kernel.address_manager.addresses["audit"].routed_count == 1


def test_an_exclusive_divert_takes_the_message(stage: Stage) -> None:
    taken = divert(stage, "take", "orders", "audit", exclusive=True)
    stage.send(letter("m"))
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("audit")) == ([], ["m"])
    assert taken.diverted_count == 1
    assert stage.kernel.address_manager.addresses["orders"].unrouted_count == 0


def test_single_exclusive_non_matching_and_non_exclusive_diverts(stage: Stage) -> None:
    stage.queue("third")
    divert(stage, "take", "orders", "audit", exclusive=True, filter="colour = 'red'")
    divert(stage, "copy", "orders", "other")
    divert(stage, "more", "orders", "third", filter="size > 5")
    stage.send(letter("blue", colour="blue", size=9), letter("red", colour="red", size=9), letter("small", size=1))
    stage.run()
    assert stage.waiting("orders") == ["blue", "small"]
    assert stage.waiting("audit") == ["red"]
    assert stage.waiting("other") == ["blue", "small"]
    assert stage.waiting("third") == ["blue"]


def test_all_exclusive_diverts_that_match_take_the_message(stage: Stage) -> None:
    divert(stage, "a", "orders", "audit", exclusive=True)
    divert(stage, "b", "orders", "other", exclusive=True)
    stage.send(letter("m"))
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("audit"), stage.waiting("other")) == ([], ["m"], ["m"])


def test_composite_divert(stage: Stage) -> None:
    divert(stage, "both", "orders", "audit, other")
    stage.send(letter("m"))
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("audit"), stage.waiting("other")) == (["m"], ["m"], ["m"])


def test_round_robin_diverts(stage: Stage) -> None:
    stage.queue("third")
    for name, to in (("a", "audit"), ("b", "other"), ("c", "third")):
        divert(stage, name, "orders", to, routing_name="turn")
    stage.send(*[letter(str(number)) for number in range(6)])
    stage.run()
    assert stage.waiting("orders") == ["0", "1", "2", "3", "4", "5"]
    assert [stage.waiting(name) for name in ("audit", "other", "third")] == [["0", "3"], ["1", "4"], ["2", "5"]]


def test_turns_go_on_after_a_change_of_bindings(stage: Stage) -> None:
    divert(stage, "a", "orders", "audit", routing_name="turn")
    divert(stage, "b", "orders", "other", routing_name="turn")
    stage.send(letter("0"))
    divert(stage, "c", "audit", "nowhere")
    stage.kernel.diverts.remove("c")
    divert(stage, "d", "orders", "nowhere")
    stage.send(letter("1"))
    stage.run()
    assert (stage.waiting("audit"), stage.waiting("other")) == (["0"], ["1"])


def test_single_divert_with_expiry() -> None:
    stage = Stage({"#": AddressSettings(expiry_address="expired")})
    stage.queue("orders")
    stage.queue("audit")
    divert(stage, "take", "orders", "audit", exclusive=True)
    stage.send(letter("m", expiration=stage.kernel.now_ms + 1_000))
    stage.run()
    assert first(stage, "audit").expiration == stage.kernel.now_ms + 1_000
    number = first(stage, "audit").message_id
    stage.pass_time(31)
    late = first(stage, "expired")
    assert late.property("_AMQ_ORIG_ADDRESS") == "audit"
    assert late.property("_AMQ_ORIG_QUEUE") == "audit"
    assert late.property("_AMQ_ORIG_MESSAGE_ID") == number


@pytest.mark.parametrize(
    ("routing_type", "sent", "expected"),
    [
        (DivertRoutingType.STRIP, ANYCAST, ("any", "multi")),
        (DivertRoutingType.PASS, ANYCAST, ("any",)),
        (DivertRoutingType.PASS, MULTICAST, ("multi",)),
        (DivertRoutingType.ANYCAST, MULTICAST, ("any",)),
        (DivertRoutingType.MULTICAST, ANYCAST, ("multi",)),
    ],
)
def test_routing_types(routing_type: DivertRoutingType, sent: int, expected: tuple[str, ...]) -> None:
    stage = Stage()
    stage.queue("source", "source", ANYCAST)
    stage.queue("topic", "source", MULTICAST)
    stage.queue("any", "target", ANYCAST)
    stage.queue("multi", "target", MULTICAST)
    divert(stage, "d", "source", "target", exclusive=True, routing_type=routing_type)
    kind = RoutingType(sent)
    stage.send(letter("m", "source", routing_type=kind), routing_type=sent)
    stage.run()
    assert tuple(name for name in ("any", "multi") if stage.waiting(name)) == expected
    copy = first(stage, expected[0])
    written = {"STRIP": None, "PASS": sent, "ANYCAST": ANYCAST, "MULTICAST": MULTICAST}[routing_type.value]
    assert copy.property("_AMQ_ROUTING_TYPE") == written
    assert copy.property("_AMQ_ORIG_ROUTING_TYPE") == sent


def test_divert_to_new_address() -> None:
    """A transformer chooses an address that does not exist: it is created, where the settings allow that."""

    def choose(message: DivertedMessage) -> None:
        name = message.property("newQueue")
        assert isinstance(name, str)
        message.address = name

    stage = Stage({"notAllowed": AddressSettings(auto_create_addresses=False, auto_create_queues=False)})
    stage.queue("queue")
    divert(stage, "d", "queue", "dummy", exclusive=True, routing_type=DivertRoutingType.ANYCAST, transformer=choose)
    stage.send(letter("m", "queue", newQueue="queue.1"))
    stage.run()
    assert stage.waiting("queue.1") == ["m"]
    assert "'notAllowed'" in refused(stage, letter("m", "queue", newQueue="notAllowed"))
    assert "notAllowed" not in stage.kernel.address_manager.queues
    assert "dummy" not in stage.kernel.address_manager.addresses


def test_divert_and_queue_with_same_name(stage: Stage) -> None:
    divert(stage, "same", "orders", "audit")
    assert stage.refused("same").text == "AMQ229235: queue 'same': a divert has this name; choose another one"
    again = stage.kernel.diverts.create("same", DivertConfiguration("orders", "other"))
    assert isinstance(again, Refused) and again.text == "divert 'same': a divert has this name; choose another one"
    taken = stage.kernel.diverts.create("orders", DivertConfiguration("orders", "other"))
    assert isinstance(taken, Refused) and taken.text == "divert 'orders': a queue has this name; choose another one"


# -- what the copy is --------------------------------------------------------------------------------------------------


def test_added_properties(stage: Stage) -> None:
    divert(stage, "d", "orders", "audit", properties={"region": "EU", "colour": "blue"})
    stage.send(letter("m", colour="red", left="alone"))
    stage.run()
    copy = first(stage, "audit")
    assert [copy.property(name) for name in ("region", "colour", "left")] == ["EU", "blue", "alone"]
    assert first(stage, "orders").property("colour") == "red"


def test_a_transformer_changes_properties_and_reads_the_message(stage: Stage) -> None:
    def transform(message: DivertedMessage) -> None:
        assert (message.original_address, message.address) == ("orders", "audit")
        assert message.property("colour") == "red" and message.property("region") == "EU"
        message.set_property("count", 7)
        message.remove_property("colour")
        assert message.property("colour") is None and message.property("count") == 7

    divert(stage, "d", "orders", "audit", properties={"region": "EU"}, transformer=transform)
    stage.send(letter("m", colour="red"))
    stage.run()
    copy = first(stage, "audit")
    assert [copy.property(name) for name in ("region", "colour", "count")] == ["EU", None, 7]


@pytest.mark.parametrize("value", [object(), 1 << 70])
def test_a_transformer_that_fails_refuses_the_send_and_nothing_else(stage: Stage, value: object) -> None:
    def transform(message: DivertedMessage) -> None:
        if isinstance(value, int):
            raise ValueError("not this one")
        message.set_property("odd", value)  # type: ignore[arg-type]  # the mistake that is tested

    divert(stage, "d", "orders", "audit", transformer=transform)
    assert "the transformer of divert 'd' failed: " in refused(stage, letter("m"))
    assert refused(stage, letter("m"))
    assert stage.waiting("orders") == stage.waiting("audit") == []
    assert len([line for line in stage.log if "transformer" in line]) == 1
    stage.assert_empty()


# -- chains and loops --------------------------------------------------------------------------------------------------


def test_a_chain_of_diverts(stage: Stage) -> None:
    divert(stage, "one", "orders", "audit", exclusive=True)
    divert(stage, "two", "audit", "other", exclusive=True)
    stage.send(letter("m"))
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("audit"), stage.waiting("other")) == ([], [], ["m"])
    assert first(stage, "other").property("_AMQ_ORIG_ADDRESS") == "audit"


@pytest.mark.parametrize("transacted", [False, True])
def test_a_loop_of_diverts_is_refused_and_leaves_no_trace(stage: Stage, transacted: bool) -> None:
    divert(stage, "there", "orders", "audit")
    divert(stage, "back", "audit", "orders")
    session = stage.session(transacted=transacted)
    answer = session.send(letter("m", durable=True), None)
    assert isinstance(answer, Refused)
    assert answer.text == (
        "the diverts of address 'orders' form a loop or are too many: orders -> audit -> orders -> audit -> orders -> "
        "audit -> orders -> audit ...; change a forwarding address or add a filter"
    )
    assert (session.commit() is not None) is transacted
    assert not stage.store.of_kind("add")
    assert len([line for line in stage.log if "loop" in line]) == 1
    stage.send(letter("fine", "other"))
    stage.run()
    assert stage.waiting("other") == ["fine"] and not stage.waiting("orders")


def test_a_loop_that_a_filter_ends_is_none(stage: Stage) -> None:
    divert(stage, "there", "orders", "audit", properties={"seen": "yes"}, filter="seen IS NULL")
    divert(stage, "back", "audit", "orders")
    stage.send(letter("m"))
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("audit")) == (["m", "m"], ["m"])


def test_a_divert_to_its_own_address_is_refused() -> None:
    with pytest.raises(ValueError, match=r"contains 'orders', the address of the divert"):
        DivertConfiguration("orders", "audit, orders")


def test_a_wildcard_divert_that_forwards_into_itself_is_a_loop() -> None:
    stage = Stage()
    divert(stage, "d", "a.#", "a.audit")
    assert "form a loop" in refused(stage, letter("m", "a.b"), MULTICAST)


def test_diverts_that_make_too_many_copies_are_refused(stage: Stage) -> None:
    for number in range(6):
        for each in range(8):
            divert(stage, f"{number}-{each}", f"level{number}", f"level{number + 1}")
    assert "too many" in refused(stage, letter("m", "level0"), MULTICAST)
    stage.assert_empty()


# -- with other features -----------------------------------------------------------------------------------------------


def test_a_divert_in_a_transaction(stage: Stage) -> None:
    divert(stage, "copy", "orders", "audit")
    session = stage.session(transacted=True)
    stage.send(letter("m", durable=True), session=session)
    stage.run()
    assert not stage.waiting("orders") and not stage.waiting("audit")
    session.rollback(last_delivered=False)
    stage.assert_empty()
    stage.send(letter("n", durable=True), session=session)
    assert session.commit() is None
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("audit")) == (["n"], ["n"])


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_durable_send_and_its_copies_are_one_transaction(stage: Stage, exclusive: bool) -> None:
    divert(stage, "copy", "orders", "audit", exclusive=exclusive)
    message = letter("m", durable=True, _AMQ_DUPL_ID="x")
    assert stage.kernel.router.send(message, None, None, message.duplicate_id) is None
    records = stage.store.of_kind("add", "once", "id", "commit")
    *before, (kind, transaction, *_) = records
    assert kind == "commit" and len(before) == (3 if exclusive else 4)
    assert all(transaction in record for record in before), records
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("audit")) == ([] if exclusive else ["m"], ["m"])
    stage.kernel.check()


def test_a_send_that_is_not_durable_needs_no_transaction(stage: Stage) -> None:
    divert(stage, "copy", "orders", "audit")
    stage.send(letter("m"))
    assert not stage.store.of_kind("commit")


def test_a_full_forwarding_address_refuses_the_whole_send() -> None:
    stage = Stage({"audit": AddressSettings(max_size_bytes=1, address_full_policy=AddressFullPolicy.FAIL)})
    stage.queue("orders")
    stage.queue("audit")
    divert(stage, "copy", "orders", "audit")
    stage.send(letter("m"))
    assert refused(stage, letter("n")) == "address 'audit' is full"
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("audit")) == (["m"], ["m"])


def test_duplicate_ids_hold_on_the_forwarding_address(stage: Stage) -> None:
    stage.queue("second")
    divert(stage, "one", "orders", "audit")
    divert(stage, "two", "second", "audit")
    for address in ("orders", "second", "orders"):
        message = letter("m", address, durable=True, _AMQ_DUPL_ID="x")
        assert stage.kernel.router.send(message, None, None, message.duplicate_id) is None
    stage.run()
    assert [stage.waiting(name) for name in ("orders", "second", "audit")] == [["m"], ["m"], ["m"]]


def test_expiry_settings_of_the_forwarding_address_apply() -> None:
    stage = Stage({"audit": AddressSettings(expiry_delay_ms=500)})
    stage.queue("orders")
    stage.queue("audit")
    divert(stage, "copy", "orders", "audit")
    stage.send(letter("m"))
    stage.run()
    assert first(stage, "audit").expiration == stage.kernel.now_ms + 500
    assert first(stage, "orders").expiration == 0


def test_a_qualified_send_is_diverted(stage: Stage) -> None:
    divert(stage, "copy", "orders", "audit")
    stage.send(letter("m", "orders::orders"))
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("audit")) == (["m"], ["m"])


def test_dead_letters_are_diverted(stage: Stage) -> None:
    stage.queue("archive")
    divert(stage, "d", "DLQ", "archive", exclusive=True)
    stage.send(letter("m", durable=True))
    stage.run()
    queue = stage.kernel.address_manager.queues["orders"]
    reference = queue.backlog.pop()
    stage.kernel.dead_letters.move(queue, reference)
    stage.run_all()
    assert (stage.waiting("DLQ"), stage.waiting("archive")) == ([], ["m"])
    stage.kernel.check()


def test_an_address_with_a_divert_is_not_swept() -> None:
    stage = Stage()
    stage.send(letter("m", "t"), routing_type=MULTICAST)
    divert(stage, "d", "t", "audit")
    stage.pass_time(200)
    assert "t" in stage.kernel.address_manager.addresses
    stage.kernel.diverts.remove("d")
    stage.pass_time(200)
    assert "t" not in stage.kernel.address_manager.addresses


def test_a_divert_of_an_address_that_does_not_exist(stage: Stage) -> None:
    divert(stage, "d", "nobody", "audit")
    stage.send(letter("m", "nobody"))
    stage.run()
    assert stage.waiting("audit") == ["m"]
    assert "nobody" not in stage.kernel.address_manager.addresses


def test_an_address_without_diverts_costs_one_look(stage: Stage) -> None:
    divert(stage, "d", "orders", "audit")
    stage.send(letter("m", "other"), letter("n", "other"))
    address = stage.kernel.address_manager.addresses["other"]
    assert address.others is None and address.is_plain is True


# -- records -----------------------------------------------------------------------------------------------------------


def notes(stage: Stage) -> list[object]:
    return [fact for _, fact in stage.store.of_kind("fact")]


def test_a_divert_is_recorded_changed_and_removed(stage: Stage) -> None:
    made = divert(stage, "d", "orders", "audit", filter="a = 1", properties={"k": "v"})
    number = made.definition.id
    changed = stage.kernel.diverts.update("d", forwarding_address="other", routing_type="PASS")
    assert isinstance(changed, Divert)
    stage.send(letter("m"))
    stage.run()
    assert (stage.waiting("audit"), stage.waiting("other")) == ([], ["m"])
    assert isinstance(stage.kernel.diverts.remove("d"), Divert)
    assert notes(stage) == [
        DivertDefinition(number, "d", "orders", "audit", "d", False, "a = 1", "STRIP", {"k": "v"}),
        DivertDefinition(number, "d", "orders", "other", "d", False, None, "PASS", {"k": "v"}),
        DivertRemoved(number),
    ]
    stage.send(letter("n"))
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("other")) == (["m", "n"], ["m"])


@pytest.mark.parametrize("forced", [False, True])
def test_single_persisted_divert_that_the_configuration_does_not_contain(forced: bool) -> None:
    """Artemis' testSinglePersistedNoDeleteDivert and testSinglePersistedDeleteDivert.

    Artemis' DivertTest.testSinglePersistedNoDeleteDivert.
    """
    stage = Stage({"orders": AddressSettings(config_delete_diverts=forced)})
    stage.kernel.diverts.restore(DivertDefinition(7, "old", "orders", "audit", "old"))
    assert not stage.kernel.diverts.declare({})
    assert ("old" in stage.kernel.diverts.by_name) is not forced
    assert notes(stage) == ([DivertRemoved(7)] if forced else [])


def test_the_configuration_replaces_a_stored_divert_that_differs() -> None:
    stage = Stage()
    stage.kernel.diverts.restore(DivertDefinition(7, "same", "a", "b", "same"))
    stage.kernel.diverts.restore(DivertDefinition(8, "other", "a", "b", "other"))
    wanted = {"same": DivertConfiguration("a", "b"), "other": DivertConfiguration("a", "c", exclusive=True)}
    assert not stage.kernel.diverts.declare(wanted)
    assert notes(stage)[0] == DivertRemoved(8)
    assert stage.kernel.diverts.by_name["same"].definition.id == 7
    assert stage.kernel.diverts.by_name["other"].definition.exclusive


# -- reload -----------------------------------------------------------------------------------------------------------


def test_a_reload_changes_diverts_in_place_and_replaces_others_as_artemis_does(stage: Stage) -> None:
    for name in ("same", "changed", "replaced", "turned", "moved"):
        divert(stage, name, "orders", "audit", properties={"k": "v"})
    diverts = stage.kernel.diverts
    before = {name: each.definition.id for name, each in diverts.by_name.items()}
    stage.store.records.clear()
    reloaded = {
        "same": DivertConfiguration("orders", "audit"),
        "changed": DivertConfiguration("orders", "other", filter="a = 1", routing_type=DivertRoutingType.PASS),
        "replaced": DivertConfiguration("orders", "audit", exclusive=True),
        "turned": DivertConfiguration("orders", "audit", routing_name="turns"),
        "moved": DivertConfiguration("elsewhere", "audit"),
        "new": DivertConfiguration("orders", "audit"),
    }
    assert diverts.reload(reloaded) == []
    after = {name: each.definition.id for name, each in diverts.by_name.items()}
    assert {name for name in before if after[name] == before[name]} == {"same", "changed"}
    changed = diverts.by_name["changed"].definition
    # Without properties in the configuration a divert keeps those that it has.
    assert (changed.forwarding_address, changed.filter, changed.routing_type) == ("other", "a = 1", "PASS")
    assert changed.properties == {"k": "v"} and diverts.by_name["replaced"].definition.properties == {}
    removed = [before[name] for name in ("replaced", "turned", "moved")]
    assert [fact.id for fact in notes(stage) if isinstance(fact, DivertRemoved)] == removed
    stage.store.records.clear()
    assert diverts.reload(reloaded) == [] and not notes(stage)


@pytest.mark.parametrize("forced", [False, True])
def test_a_reload_removes_missing_diverts_where_the_settings_want_it(forced: bool) -> None:
    stage = Stage({"orders": AddressSettings(config_delete_diverts=forced)})
    divert(stage, "old", "orders", "audit")
    assert stage.kernel.diverts.reload({}) == []
    assert ("old" in stage.kernel.diverts.by_name) is not forced


def test_a_reload_with_wrong_diverts_keeps_those_and_adopts_the_others(stage: Stage) -> None:
    divert(stage, "copy", "orders", "audit")
    refusals = stage.kernel.diverts.reload(
        {
            "copy": DivertConfiguration("elsewhere", "audit", filter="= 1"),
            "other": DivertConfiguration("a", "b"),
            "good": DivertConfiguration("orders", "other"),
        }
    )
    assert [refused.text for refused in refusals] == [
        "divert 'copy': invalid selector: unexpected = at position 0 of '= 1'",
        "divert 'other': a queue has this name; choose another one",
    ]
    stage.send(letter("m"))
    stage.run()
    assert (stage.waiting("audit"), stage.waiting("other")) == (["m"], ["m"])


def test_a_reload_with_a_transformer(stage: Stage) -> None:
    made = divert(stage, "copy", "orders", "audit")
    stage.store.records.clear()

    def transform(message: DivertedMessage) -> None:
        message.set_property("colour", "blue")

    diverts = stage.kernel.diverts
    assert diverts.reload({"copy": DivertConfiguration("orders", "audit", transformer=transform)}) == []
    # A record cannot hold the transformer: the configuration must contain the divert at the next start.
    assert notes(stage) == [DivertRemoved(made.definition.id)]
    assert diverts.reload({"copy": DivertConfiguration("orders", "other")}) == []
    stage.send(letter("m"))
    stage.run()
    assert first(stage, "other").property("colour") == "blue"


def test_a_divert_with_a_transformer_is_not_recorded(stage: Stage) -> None:
    divert(stage, "d", "orders", "audit", transformer=lambda message: None)
    stage.kernel.diverts.remove("d")
    assert not notes(stage)


def test_a_wrong_filter_and_a_reserved_address_are_refused(stage: Stage) -> None:
    wrong = stage.kernel.diverts.create("d", DivertConfiguration("orders", "audit", filter="= 1"))
    assert isinstance(wrong, Refused) and not stage.kernel.diverts.by_name
    for answer in (stage.kernel.diverts.remove("d"), stage.kernel.diverts.update("d")):
        assert isinstance(answer, Refused) and answer.text == "divert 'd' does not exist"


def test_diverts_of_the_configuration_exist_from_the_start() -> None:
    stage = Stage(
        diverts={"copy": DivertConfiguration("orders", "audit"), "bad": DivertConfiguration("a", "b", filter="(")}
    )
    stage.queue("orders")
    stage.queue("audit")
    stage.send(letter("m"))
    stage.run()
    assert (stage.waiting("orders"), stage.waiting("audit")) == (["m"], ["m"])
    assert [line for line in stage.log if line.startswith("diverts of the configuration: ")]
