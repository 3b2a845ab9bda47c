"""Addresses and queues of the configuration: there from the start, as they were after a restart, never gone alone."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from embedbroker.config import (
    AddressConfiguration,
    AddressSettings,
    AddressSettingsRepository,
    DivertConfiguration,
    QueueConfiguration,
)
from embedbroker.kernel import AddressDefinition, DivertDefinition, QueueDefinition, Refused
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import ANYCAST, MULTICAST, Stage

QUEUE = QueueConfiguration()
NONE = AddressSettings(auto_create_queues=False, auto_create_addresses=False)


def definitions(stage: Stage) -> dict[str, tuple[str, int]]:
    queues = stage.kernel.address_manager.queues.values()
    return {queue.name: (queue.definition.address, queue.definition.routing_type) for queue in queues}


def test_they_exist_from_the_start_even_where_nothing_is_made_on_demand() -> None:
    stage = Stage(
        {"#": NONE},
        addresses={
            "orders": AddressConfiguration(anycast={"orders": QUEUE, "big-orders": QUEUE}),
            "prices": AddressConfiguration(multicast={}),
            "both": AddressConfiguration(anycast={}, multicast={"audit": QUEUE}),
        },
    )
    assert definitions(stage) == {
        "orders": ("orders", ANYCAST),
        "big-orders": ("orders", ANYCAST),
        "audit": ("both", MULTICAST),
    }
    served = {
        address.name: (address.definition.anycast, address.definition.multicast)
        for address in stage.kernel.address_manager.addresses.values()
    }
    assert served == {"orders": (True, False), "prices": (False, True), "both": (True, True)}
    stage.send(letter("m", "both"), routing_type=MULTICAST)
    assert stage.waiting("audit") == ["m"]


def test_they_stay_when_nobody_uses_them() -> None:
    """A test of Artemis, too.

    AutoDeleteCreatedQueueTest.testAutoDeleteCreatedQueueDoesNOTDeleteConfigurationManagedQueuesOnLastConsumerClose
    """
    settings = AddressSettings(auto_delete_created_queues=True, auto_delete_addresses=True)
    stage = Stage({"#": settings}, addresses={"a": AddressConfiguration(anycast={"a": QUEUE}, multicast={})})
    session = stage.session()
    stage.consumer(session, "a")
    session.close(failed=False)
    stage.run_all()
    stage.pass_time(1000)
    assert definitions(stage) == {"a": ("a", ANYCAST)}
    assert not stage.kernel.address_manager.queues["a"].definition.auto_delete


def test_attributes_are_those_of_the_configuration_or_of_the_settings() -> None:
    queues = {
        "full": QueueConfiguration("colour = 'red'", False, 3, True, True, "me"),
        "plain": QueueConfiguration(),
    }
    stage = Stage(
        {"#": AddressSettings(default_max_consumers=7)}, addresses={"a": AddressConfiguration(multicast=queues)}
    )
    full, plain = (stage.kernel.address_manager.queues[name].definition for name in queues)
    assert (full.filter, full.durable, full.max_consumers, full.exclusive, full.purge_on_no_consumers, full.user) == (
        "colour = 'red'", False, 3, True, True, "me",
    )  # fmt: skip
    assert (plain.filter, plain.durable, plain.max_consumers, plain.exclusive, plain.user) == (
        None,
        True,
        7,
        False,
        None,
    )


def restarted(address: AddressDefinition, queue: QueueDefinition, wanted: AddressConfiguration) -> Stage:
    """A broker that found an address and a queue in its journal, before clients come."""
    return Stage({}, restored=(address, queue), addresses={address.name: wanted})


def test_what_the_journal_kept_stays_and_is_not_written_again() -> None:
    address, queue = (
        AddressDefinition(1_001, "a", True, False),
        QueueDefinition(1_002, "q", "a", ANYCAST, max_consumers=2, configuration_managed=True),
    )
    stage = restarted(address, queue, AddressConfiguration(anycast={"q": QueueConfiguration(max_consumers=5)}))
    assert stage.store.records == []
    assert stage.kernel.address_manager.queues["q"].definition == queue


def test_a_queue_of_other_origin_is_noted_once_as_one_of_the_configuration() -> None:
    address, queue = AddressDefinition(1_001, "a", True, False), QueueDefinition(1_002, "q", "a", ANYCAST)
    wanted = AddressConfiguration(anycast={"q": QUEUE})
    stage = Stage({}, restored=(address, queue), addresses={"elsewhere": wanted})
    assert stage.store.of_kind("queue") == []
    stage = Stage({}, restored=(address, queue), addresses={"a": wanted})
    assert stage.store.of_kind("queue") == [("queue", evolve(queue, configuration_managed=True))]


def test_an_address_that_was_made_on_demand_becomes_one_of_the_configuration() -> None:
    address, queue = (
        AddressDefinition(1_001, "a", True, False, auto_created=True),
        QueueDefinition(1_002, "q", "a", ANYCAST),
    )
    stage = restarted(address, queue, AddressConfiguration(multicast={}))
    assert stage.kernel.address_manager.addresses["a"].definition == AddressDefinition(
        1_001, "a", True, True, auto_created=False
    )


def test_a_filter_that_is_none_is_logged_and_the_others_are_made() -> None:
    queues = {"wrong": QueueConfiguration(filter="colour ="), "right": QUEUE}
    stage = Stage({}, addresses={"a": AddressConfiguration(multicast=queues)})
    assert list(definitions(stage)) == ["right"]
    assert any(line.startswith("address 'a' of the configuration: invalid selector: ") for line in stage.log)


@pytest.mark.parametrize("limit", ["addresses_max", "queues_max"])
def test_they_may_be_one_too_many(limit: str) -> None:
    limits: dict[str, Any] = {limit: 1}
    stage = Stage({}, addresses={"a": AddressConfiguration(anycast={"a": QUEUE, "b": QUEUE})}, **limits)
    assert list(definitions(stage)) == ["a", "b"]


# -- deletion of what the configuration does not contain --------------------------------------------------------------

FORCED_QUEUES = AddressSettings(config_delete_queues=True)
FORCED_ADDRESSES = AddressSettings(config_delete_addresses=True)
KEPT = (
    AddressDefinition(1_001, "a", True, False),
    QueueDefinition(1_002, "a.configured", "a", ANYCAST, configuration_managed=True),
    QueueDefinition(1_003, "a.other", "a", ANYCAST),
    AddressDefinition(1_004, "b", True, False),
    QueueDefinition(1_005, "b.configured", "b", ANYCAST, configuration_managed=True),
    AddressDefinition(1_006, "demanded", True, False, auto_created=True),
    QueueDefinition(1_007, "demanded", "demanded", ANYCAST),
)


@pytest.mark.parametrize(
    ("settings", "queues", "addresses"),
    [
        (AddressSettings(), {"a.configured", "a.other", "b.configured", "demanded", "new"}, {"a", "b", "demanded"}),
        (FORCED_QUEUES, {"a.other", "demanded", "new"}, {"a", "b", "demanded"}),
        (FORCED_ADDRESSES, {"a.configured", "a.other", "demanded", "new"}, {"a", "demanded"}),
    ],
)
def test_what_is_missing_at_the_start_goes_where_the_settings_want_it(
    settings: AddressSettings, queues: set[str], addresses: set[str]
) -> None:
    wanted = {"a": AddressConfiguration(anycast={"new": QUEUE})}
    stage = Stage({"#": settings}, restored=KEPT, addresses=wanted)
    assert set(definitions(stage)) == queues
    assert set(stage.kernel.address_manager.addresses) == addresses
    gone = {each.id for each in KEPT} - {queue.id for queue in stage.kernel.address_manager.queues.values()}
    gone -= {address.definition.id for address in stage.kernel.address_manager.addresses.values()}
    assert {record[1] for record in stage.store.of_kind("no queue", "no address")} == gone


def test_a_reload_deletes_missing_queues_with_messages_and_consumers() -> None:
    wanted = {"a": AddressConfiguration(anycast={"a": QUEUE, "rest": QUEUE})}
    stage = Stage({"a": FORCED_QUEUES}, addresses=wanted)
    session = stage.session()
    consumer, taker = stage.consumer(session, "a")
    stage.send(letter("m", "a::rest"))
    left = {"a": AddressConfiguration(anycast={"rest": QUEUE})}
    stage.kernel.configured_addresses.remove_missing(left)
    assert set(definitions(stage)) == {"rest"}
    assert taker.closed == [consumer.key]
    stage.kernel.configured_addresses.remove_missing({"a": AddressConfiguration(multicast={})})
    stage.run_all()
    assert definitions(stage) == {} and "a" in stage.kernel.address_manager.addresses
    assert stage.kernel.statistics().used_bytes == 0
    assert stage.log == [
        "queue 'a' is deleted: the configuration does not contain it",
        "queue 'rest' is deleted: the configuration does not contain it",
    ]
    stage.kernel.check()


def test_addresses_of_dead_letters_and_diverted_ones_stay() -> None:
    settings = AddressSettings(
        dead_letter_address="dead", expiry_address="late", config_delete_addresses=True, config_delete_queues=True
    )
    stage = Stage({"#": settings}, addresses={"a": AddressConfiguration(anycast={"a": QUEUE})})
    assert not isinstance(stage.kernel.diverts.create("copy", DivertConfiguration("a", "b")), Refused)
    stage.kernel.configured_addresses.remove_missing({})
    assert set(definitions(stage)) == {"dead", "late"}
    assert set(stage.kernel.address_manager.addresses) == {"a", "dead", "late"}
    assert stage.log[-1] == "address 'a' is not deleted: it has diverts"


def test_a_configured_queue_that_moved_to_another_address_is_created_there_at_the_start() -> None:
    wanted = {"a": AddressConfiguration(anycast={}), "b": AddressConfiguration(anycast={"a.configured": QUEUE})}
    stage = Stage({"#": FORCED_QUEUES}, restored=KEPT, addresses=wanted)
    assert definitions(stage)["a.configured"] == ("b", ANYCAST)
    assert set(definitions(stage)) == {"a.configured", "a.other", "demanded"}


def test_a_start_with_an_old_configuration_deletes_nothing_that_is_missing_there() -> None:
    settings = AddressSettings(config_delete_addresses=True, config_delete_queues=True, config_delete_diverts=True)
    stage = Stage({"#": settings})
    for definition in KEPT:
        if isinstance(definition, AddressDefinition):
            stage.kernel.address_manager.restore_address(definition)
        else:
            stage.kernel.address_manager.restore_queue(definition)
    stage.kernel.diverts.restore(DivertDefinition(7, "copy", "a", "audit", "copy"))
    stage.kernel.housekeeping.at_start(deletes_missing=False)
    assert {"a.configured", "a.other", "b.configured", "demanded"} <= set(definitions(stage))
    assert list(stage.kernel.diverts.by_name) == ["copy"]
    stage.kernel.housekeeping.at_start()
    assert set(definitions(stage)) == {"demanded"} and not stage.kernel.diverts.by_name


@pytest.mark.parametrize(
    ("match", "settings", "examined"),
    [
        ("#", AddressSettings(), set()),
        ("other", FORCED_QUEUES, {"a", "b"}),
        ("other", FORCED_ADDRESSES, {"a", "b"}),
    ],
)
def test_settings_are_looked_up_only_where_something_may_be_deleted(
    match: str, settings: AddressSettings, examined: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage({match: settings}, restored=KEPT)
    found: set[str] = set()
    settings_of = AddressSettingsRepository.of

    def of(repository: AddressSettingsRepository, address: str) -> AddressSettings:
        found.add(address)
        return settings_of(repository, address)

    monkeypatch.setattr(AddressSettingsRepository, "of", of)
    stage.kernel.configured_addresses.remove_missing({})
    assert found == examined
