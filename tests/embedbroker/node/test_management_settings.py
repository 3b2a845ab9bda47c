"""Address settings and security settings that management changes: JSON, effect, permissions, restarts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from embedbroker.config import AddressFullPolicy, AddressSettings, SecuritySetting, User, WildcardConfiguration
from embedbroker.kernel import Permission, Principal
from embedclient.wire.core import CreateQueueV2, NullResponse, SessionSend

from .managing import Manager, manager_of
from .scripted import Peer, Stage, letter

ADMIN, TESTER = User("admin", "a", roles=["admin"]), User("tester", "t", roles=["tester"])


@pytest.fixture
def manager() -> Manager:
    return manager_of(Stage())


# -- address settings ------------------------------------------------------------------------------------------------


def test_settings_of_an_address_are_those_that_a_match_sets() -> None:
    settings = {
        "#": AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=3),
        "a.#": AddressSettings(
            max_delivery_attempts=5,
            address_full_policy=AddressFullPolicy.FAIL,
            default_queue_routing_type=1,
            redelivery_delay_multiplier=2.5,
            send_to_dla_on_no_route=True,
            config_delete_queues=False,
            config_delete_addresses=True,
            config_delete_diverts=True,
        ),
    }
    manager = manager_of(Stage(address_settings=settings))
    assert json.loads(manager.call("broker", "getAddressSettingsAsJSON", "a.b")) == {
        "deadLetterAddress": "DLQ",
        "maxDeliveryAttempts": 5,
        "addressFullMessagePolicy": "FAIL",
        "defaultQueueRoutingType": "ANYCAST",
        "redeliveryMultiplier": 2.5,
        "sendToDLAOnNoRoute": True,
        "configDeleteQueues": "OFF",
        "configDeleteAddresses": "FORCE",
        "configDeleteDiverts": "FORCE",
    }
    assert json.loads(manager.call("broker", "getAddressSettingsAsJSON", "b")) == {
        "deadLetterAddress": "DLQ",
        "maxDeliveryAttempts": 3,
    }


def test_settings_are_added_and_removed(manager: Manager) -> None:
    kernel = manager.peer.stage.node.kernel
    before = manager.call("broker", "getAddressSettingsAsJSON", "a.b")
    text = '{"maxDeliveryAttempts":2,"addressFullMessagePolicy":"FAIL","defaultQueueRoutingType":"ANYCAST"}'
    assert json.loads(manager.call("broker", "addAddressSettings", "a.#", text)) == json.loads(text)
    assert kernel.settings.of("a.b").max_delivery_attempts == 2
    assert json.loads(manager.call("broker", "getAddressSettingsAsJSON", "a.b")) == json.loads(before) | json.loads(
        text
    )
    assert manager.call("broker", "getAddressSettingsAsJSON", "b") == before
    # An empty object inherits everything.
    assert manager.call("broker", "addAddressSettings", "a.#", "{}") == "{}"
    assert manager.call("broker", "getAddressSettingsAsJSON", "a.b") == before
    assert manager.call("broker", "removeAddressSettings", "a.#") is None
    assert manager.call("broker", "removeAddressSettings", "a.#") is None
    assert kernel.settings.of("a.b").max_delivery_attempts == 10


def test_added_settings_take_effect_at_once(manager: Manager) -> None:
    manager.call("broker", "addAddressSettings", "strict.#", '{"autoCreateQueues":false,"autoCreateAddresses":false}')
    manager.peer.send(SessionSend(letter("one", "strict.a"), True, -1))
    assert "strict.a" in str(manager.peer.refusal().message)
    manager.call("broker", "removeAddressSettings", "strict.#")
    manager.peer.send(SessionSend(letter("one", "strict.a"), True, -1))
    assert any(isinstance(packet, NullResponse) for packet in manager.peer.clear())


@pytest.mark.parametrize("match", ["used", "#"])
def test_added_settings_take_effect_at_an_address_that_is_in_use(manager: Manager, match: str) -> None:
    """Artemis' RepositoryTest.testCacheWithWildcards."""
    manager.call("broker", "createQueue", '{"name":"used","routing-type":"ANYCAST"}')
    manager.peer.send(SessionSend(letter("one", "used"), True, -1))
    assert any(isinstance(packet, NullResponse) for packet in manager.peer.clear())
    manager.call("broker", "addAddressSettings", match, '{"maxSizeBytes":1,"addressFullMessagePolicy":"FAIL"}')
    manager.peer.send(SessionSend(letter("two", "used"), True, -1))
    assert "used" in str(manager.peer.refusal().message)
    manager.call("broker", "removeAddressSettings", match)
    manager.peer.send(SessionSend(letter("three", "used"), True, -1))
    assert any(isinstance(packet, NullResponse) for packet in manager.peer.clear())


def test_a_dead_letter_address_of_added_settings_exists_at_once_and_after_a_restart() -> None:
    stage = Stage(durable=True)
    manager = manager_of(stage)
    manager.call("broker", "addAddressSettings", "a", '{"deadLetterAddress":"dead","expiryAddress":"late"}')
    for _ in range(2):
        assert {"dead", "late"} <= set(stage.node.kernel.address_manager.queues)
        stage.boot()


@pytest.mark.parametrize(
    ("match", "text", "refusal"),
    [
        ("a", "nope", "the configuration of address settings is not JSON"),
        ("a", "[]", "the configuration of address settings must be a JSON object, not"),
        ("a", '{"maxDelivery":3}', "the address settings have an unknown or unavailable field 'maxDelivery'"),
        ("a", '{"maxDeliveryAttempts":"3"}', "the address settings: max_delivery_attempts must be"),
        ("a", '{"maxDeliveryAttempts":-2}', "the address settings: max_delivery_attempts must be"),
        ("a", '{"expiryDelay":9223372036854775808}', "the address settings: expiry_delay_ms must be"),
        ("a", '{"redeliveryDelay":9223372036854775808}', "the address settings: redelivery_delay_ms must be"),
        ("a", '{"defaultGroupBuckets":2147483648}', "the address settings: default_group_buckets must be"),
        ("a", '{"autoCreateQueues":1}', "the address settings: auto_create_queues must be"),
        ("a", '{"deadLetterAddress":["x"]}', "the address settings: dead_letter_address must be"),
        ("a", '{"defaultQueueRoutingType":"BOTH"}', "the address settings: defaultQueueRoutingType must be one of"),
        ("a", '{"addressFullMessagePolicy":7}', "the address settings: addressFullMessagePolicy must be one of"),
        ("a.#.b", "{}", "address-setting match 'a.#.b'"),
        ("", "{}", "an address-setting match must not be empty"),
    ],
)
def test_wrong_settings_change_nothing(manager: Manager, match: str, text: str, refusal: str) -> None:
    before = dict(manager.peer.stage.node.kernel.settings.entries)
    body = json.dumps([match, text])
    assert manager.failure("broker", operation="addAddressSettings", body=body).startswith(refusal)
    assert manager.peer.stage.node.kernel.settings.entries == before


def test_arguments_of_wrong_types_fit_no_operation(manager: Manager) -> None:
    for operation, body in (
        ("addAddressSettings", '["a",{}]'),
        ("addAddressSettings", '["a"]'),
        ("removeAddressSettings", "[1]"),
        ("getRolesAsJSON", "[true]"),
        ("addSecuritySettings", '["a","x"]'),
        ("addSecuritySettings", '["a",1,2,3,4,5,6,7]'),
    ):
        count = len(json.loads(body))
        text = manager.failure("broker", operation=operation, body=body)
        assert text == f"AMQ229069: no operation {operation}/{count}"


# -- security settings -----------------------------------------------------------------------------------------------


def secured(**config: Any) -> Stage:
    return Stage(users=[ADMIN, TESTER], security_settings={"#": SecuritySetting.all("admin")}, **config)


def admin_of(stage: Stage) -> Manager:
    return Manager(stage.connect().open_session(user="admin", password="a"))


def peer_of(stage: Stage) -> Peer:
    return stage.connect().open_session(user="tester", password="t")


def may_send(peer: Peer, address: str) -> bool:
    peer.send(SessionSend(letter("one", address), True, -1))
    peer.stage.settle_disk()
    return any(isinstance(packet, NullResponse) for packet in peer.clear())


def test_roles_have_the_json_of_artemis() -> None:
    manager = admin_of(secured())
    row = {"name": "admin"} | dict.fromkeys(
        (
            "send", "consume", "createDurableQueue", "deleteDurableQueue", "createNonDurableQueue",
            "deleteNonDurableQueue", "manage", "browse", "createAddress", "deleteAddress", "view", "edit",
        ),
        True,
    )  # fmt: skip
    shown = manager.call("broker", "getRolesAsJSON", "a")
    assert json.loads(shown) == [row] and list(json.loads(shown)[0]) == list(row)
    assert manager.call("broker", "getRoles", "a") == [["admin", *[True] * 12]]
    assert manager.call("broker", "addSecuritySettings", "a", "x, y", "y", "", "", "", "", "admin") is None
    rows = manager.call("broker", "getRoles", "a")
    assert rows == [
        ["admin", False, False, False, False, False, False, True, *[False] * 5],
        ["x", True, *[False] * 11],
        ["y", True, True, *[False] * 10],
    ]
    assert manager.call("broker", "getRoles", "b") == [["admin", *[True] * 12]]


def test_changed_permissions_are_in_force_at_once_also_in_open_sessions() -> None:
    stage = secured()
    manager, tester = admin_of(stage), peer_of(stage)
    manager.peer.send(CreateQueueV2("a", "a", None, True, False, True, False, 1))
    assert not may_send(tester, "a")
    manager.call("broker", "addSecuritySettings", "a", "tester", "", "", "", "", "", "", "", "", "", "", "")
    assert may_send(tester, "a")
    manager.call("broker", "removeSecuritySettings", "a")
    assert not may_send(tester, "a")
    # The most specific match alone counts: what it does not grant is refused.
    manager.call("broker", "addSecuritySettings", "a", *[""] * 10)
    assert not may_send(manager.peer, "a")


def test_a_wrong_match_of_permissions_changes_nothing() -> None:
    manager = admin_of(secured())
    body = json.dumps(["a.#.b", *["admin"] * 7])
    text = manager.failure("broker", operation="addSecuritySettings", body=body)
    assert "match 'a.#.b'" in text
    assert manager.call("broker", "getRoles", "a.x.b") == [["admin", *[True] * 12]]


@pytest.mark.parametrize(
    ("operation", "arguments", "needed"),
    [
        ("getAddressSettingsAsJSON", ["a"], "VIEW"),
        ("getRolesAsJSON", ["a"], "VIEW"),
        ("getRoles", ["a"], "VIEW"),
        ("addAddressSettings", ["a", "{}"], "EDIT"),
        ("removeAddressSettings", ["a"], "EDIT"),
        ("addSecuritySettings", ["a", *[""] * 7], "EDIT"),
        ("removeSecuritySettings", ["a"], "EDIT"),
    ],
)
def test_settings_are_read_with_view_and_changed_with_edit(operation: str, arguments: list[str], needed: str) -> None:
    other = "edit" if needed == "VIEW" else "view"
    everything = SecuritySetting.all("*")
    for granted in (needed.lower(), other):
        settings = {"#": everything, "mops.#": SecuritySetting(**{granted: ["tester"]})}
        stage = Stage(users=[TESTER], security_settings=settings, management_message_rbac=True)
        manager = Manager(peer_of(stage))
        if granted != other:
            manager.call("broker", operation, *arguments)
            continue
        text = manager.failure("broker", operation=operation, body=json.dumps(arguments))
        assert f"permission='{needed}'" in text


# -- restarts --------------------------------------------------------------------------------------------------------


def test_roles_are_whole_names_and_keep_view_and_edit_over_a_restart() -> None:
    stage = secured(durable=True)
    lists = ["", "", "", "", "", "", "xr1x", "", "xr1x", "xr1x", "r1", "r2"]
    manager = admin_of(stage)
    manager.call("broker", "addSecuritySettings", "a.#", *lists)
    expected = [
        [role, *(role in names.split(",") for names in lists)]  # not a part of a listed name, as in Artemis
        for role in ("r1", "r2", "xr1x")
    ]
    assert manager.call("broker", "getRoles", "a.x") == expected
    stage.boot()
    assert admin_of(stage).call("broker", "getRoles", "a.x") == expected
    security = stage.node.core.security
    assert security is not None
    granted = [
        (user, permission)
        for user in ("r1", "xr1x")
        for permission in (Permission.MANAGE, Permission.CREATE_ADDRESS, Permission.VIEW, Permission.EDIT)
        if security.allows(Principal(user, frozenset({user})), permission, "a.x", None)
    ]
    assert granted == [("r1", Permission.VIEW), ("xr1x", Permission.MANAGE), ("xr1x", Permission.CREATE_ADDRESS)]


def test_settings_survive_a_restart_over_those_of_the_configuration() -> None:
    settings = {"b": AddressSettings(max_delivery_attempts=7), "#": AddressSettings(expiry_address="E")}
    stage = secured(durable=True, address_settings=settings)
    manager = admin_of(stage)
    manager.call("broker", "addAddressSettings", "a.#", '{"maxDeliveryAttempts":2,"addressFullMessagePolicy":"FAIL"}')
    manager.call("broker", "addAddressSettings", "a.#", '{"maxDeliveryAttempts":3,"addressFullMessagePolicy":"FAIL"}')
    manager.call("broker", "addAddressSettings", "gone", '{"maxDeliveryAttempts":4}')
    manager.call("broker", "removeAddressSettings", "gone")
    manager.call("broker", "removeAddressSettings", "b")
    manager.call("broker", "addSecuritySettings", "a.#", "tester", *[""] * 11)
    manager.call("broker", "addSecuritySettings", "gone", "tester", *[""] * 11)
    manager.call("broker", "removeSecuritySettings", "gone")
    stage.boot()
    kernel = stage.node.kernel
    assert kernel.settings.of("a.x").max_delivery_attempts == 3
    assert kernel.settings.of("a.x").address_full_policy is AddressFullPolicy.FAIL
    assert kernel.settings.of("gone").max_delivery_attempts == 10
    # As in Artemis, what was removed of the configuration is there again.
    assert kernel.settings.of("b").max_delivery_attempts == 7
    manager = admin_of(stage)
    assert manager.call("broker", "getRoles", "a.x") == [["tester", True, *[False] * 11]]
    assert manager.call("broker", "getRoles", "gone") == [["admin", *[True] * 12]]
    manager.call("broker", "addSecuritySettings", "a.#", "tester", *[""] * 9)
    stage.boot()
    assert admin_of(stage).call("broker", "getRoles", "a.x") == [["tester", True, *[False] * 11]]


def test_recorded_settings_that_the_configuration_makes_wrong_are_reported_and_kept() -> None:
    stage = Stage(durable=True)
    manager = manager_of(stage)
    manager.call("broker", "addAddressSettings", "a.+.b", '{"maxDeliveryAttempts":2}')
    stage.config = evolve(stage.config, wildcard_addresses=WildcardConfiguration(any_words="+"))
    stage.boot()
    assert stage.node.kernel.settings.of("a.+.b").max_delivery_attempts == 10
    assert any("'a.+.b' in the journal are not used" in line for line in stage.warnings())


def test_figures_and_roles_of_security() -> None:
    stage = secured()
    manager = admin_of(stage)
    before = {
        name: manager.read("broker", name)
        for name in ("AuthenticationSuccessCount", "AuthenticationFailureCount", "AuthorizationFailureCount")
    }
    assert before["AuthenticationSuccessCount"] >= 1
    assert manager.read("broker", "AuthorizationSuccessCount") >= 1
    assert (
        manager.read("broker", "AuthenticationCacheSize") >= 1 and manager.read("broker", "AuthorizationCacheSize") >= 1
    )
    manager.call("broker", "createAddress", "a", "ANYCAST")
    assert manager.read("address.a", "Roles") == manager.call("broker", "getRoles", "a")
    assert manager.read("address.a", "RolesAsJSON") == manager.call("broker", "getRolesAsJSON", "a")
    assert [row[0] for row in manager.read("address.a", "Roles")] == ["admin"]
