"""Permissions of management calls: `manage`, and those that a client needs for the same effect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import frozen

from embedbroker.config import AddressSettings, SecuritySetting, User
from embedbroker.kernel import Permission, Queue
from embedclient.wire.core import CreateQueueV2, SessionSend

from .managing import Manager, request_of
from .scripted import Stage, letter

P = Permission
ADMIN = User("admin", "a", roles=["admin"])
TESTER = User("tester", "t", roles=["tester"])
EVERYTHING = frozenset(P)


@frozen
class Case:
    resource: str
    operation: str
    body: str | None
    needs: frozenset[Permission]


def case(resource: str, operation: str, body: str | None, *needs: Permission) -> Case:
    return Case(resource, operation, body, frozenset(needs))


BRIDGE = {"name": "b", "queue-name": "q", "static-connectors": ["c"]}
CASES = [
    case("broker", "listQueues", '["",1,1]'),
    case("broker", "getVersion", None),
    case("queue.q", "getMessageCount", None),
    case("queue.q", "countMessages", None, P.BROWSE),
    case("queue.q", "listMessagesAsJSON", "[null]", P.BROWSE),
    case("queue.q", "peekFirstMessageAsJSON", None, P.BROWSE),
    case("queue.q", "listScheduledMessagesAsJSON", None, P.BROWSE),
    case("queue.q", "peekFirstScheduledMessageAsJSON", None, P.BROWSE),
    case("queue.q", "deliverScheduledMessages", '[""]', P.CONSUME),
    case("queue.q", "deliverScheduledMessage", "[1]", P.CONSUME),
    case("queue.q", "removeAllMessages", None, P.CONSUME),
    case("queue.q", "removeMessages", '["AMQPriority = 4"]', P.CONSUME),
    case("queue.q", "expireMessages", '[""]', P.CONSUME),
    case("queue.q", "sendMessagesToDeadLetterAddress", '[""]', P.CONSUME),
    case("queue.q", "moveMessages", '["","n"]', P.CONSUME, P.SEND),
    case("address.a", "clearDuplicateIdCache", None, P.CONSUME),
    case("queue.q", "resetMessagesAdded", None, P.CONSUME),
    case("queue.q", "listMessageCounter", None),
    case("queue.q", "resetMessageCounter", None, P.CONSUME),
    case("broker", "enableMessageCounters", None),
    case("broker", "listUser", '[""]'),
    case("broker", "addUser", '["new","p","tester",true]'),
    case("broker", "createAddress", '["new","ANYCAST"]', P.CREATE_ADDRESS),
    case("broker", "updateAddress", '["a","ANYCAST,MULTICAST"]', P.CREATE_ADDRESS),
    case("broker", "createQueue", '["a","ANYCAST","x",null,true,-1,false,true]', P.CREATE_DURABLE_QUEUE),
    case("broker", "createQueue", '["new","x"]', P.CREATE_DURABLE_QUEUE, P.CREATE_ADDRESS),
    case("broker", "destroyQueue", '["q"]', P.DELETE_DURABLE_QUEUE),
    case("broker", "destroyQueue", '["n"]', P.DELETE_NON_DURABLE_QUEUE),
    case("broker", "deleteAddress", '["a",true]', P.DELETE_ADDRESS, P.DELETE_DURABLE_QUEUE, P.DELETE_NON_DURABLE_QUEUE),
    case("address.a", "purge", None, P.CONSUME),
    case("broker", "addConnector", '["d","tcp://d:1"]'),
    case("broker", "createBridge", json.dumps([json.dumps(BRIDGE)]), P.CONSUME),
]


def setting(granted: frozenset[Permission]) -> SecuritySetting:
    return SecuritySetting(**{one.name.lower(): ["admin", "tester"] if one in granted else ["admin"] for one in P})


def manager_with(
    granted: frozenset[Permission], *, on: dict[str, frozenset[P]] | None = None, **config: Any
) -> Manager:
    """A tester with these permissions on all addresses but those of requests and replies, and those in ``on``."""
    always = SecuritySetting.all("*")
    others = {match: setting(permissions) for match, permissions in (on or {}).items()}
    settings = {"#": setting(granted), "replies": always, "activemq.management": always, **others}
    config.setdefault("connectors", {"c": "tcp://c:1"})
    stage = Stage(users=[ADMIN, TESTER], security_settings=settings, **config)
    admin = stage.connect().open_session(user="admin", password="a")
    admin.send(
        CreateQueueV2("a", "q", None, True, False, True, False, 1),
        CreateQueueV2("a", "n", None, False, False, True, False, 1),
        SessionSend(letter("one", "a::q"), False, -1),
    )
    return Manager(stage.connect().open_session(user="tester", password="t"))


def queues_at(manager: Manager, address: str) -> list[Queue]:
    return manager.peer.stage.node.kernel.address_manager.addresses[address].queues


def message_id(manager: Manager) -> int:
    found = json.loads(manager.call("queue.q", "listMessagesAsJSON", None))[0]["messageID"]
    assert isinstance(found, int)
    return found


def state_of(stage: Stage) -> object:
    manager = stage.node.kernel.address_manager
    queues = {name: (each.message_count, each.added_count) for name, each in manager.queues.items()}
    addresses = {name: (each.definition.anycast, each.definition.multicast) for name, each in manager.addresses.items()}
    return {name: figures for name, figures in queues.items() if name != "replies"}, addresses


@pytest.mark.parametrize(
    "wanted", CASES, ids=lambda wanted: f"{wanted.resource}-{wanted.operation}-{len(wanted.needs)}"
)
def test_a_call_passes_with_its_permissions_and_with_no_other(wanted: Case) -> None:
    allowed = manager_with(wanted.needs)
    reply = allowed.send(request_of(wanted.resource, operation=wanted.operation, body=wanted.body))
    assert reply.property("_AMQ_OperationSucceeded") is True
    for missing in wanted.needs:
        refused = manager_with(EVERYTHING - {missing})
        before = state_of(refused.peer.stage)
        text = refused.failure(wanted.resource, operation=wanted.operation, body=wanted.body)
        assert f"User: tester does not have permission='{missing.name}'" in text
        assert state_of(refused.peer.stage) == before


def test_every_request_needs_the_permission_to_manage() -> None:
    stage = Stage(users=[ADMIN, TESTER], security_settings={"#": setting(EVERYTHING - {P.MANAGE})})
    peer = stage.connect().open_session(user="tester", password="t")
    peer.send(SessionSend(request_of("broker", attribute="Version"), True, -1))
    refused = peer.refusal()
    assert refused.message is not None and "'MANAGE'" in refused.message


def test_an_address_is_purged_as_a_whole_or_not_at_all() -> None:
    manager = manager_with(EVERYTHING, on={"a::n": EVERYTHING - {P.CONSUME}})
    assert [queue.name for queue in queues_at(manager, "a")] == ["q", "n"]
    text = manager.failure("address.a", operation="purge")
    assert "does not have permission='CONSUME' for queue n on address a" in text
    assert manager.read("queue.q", "MessageCount") == 1


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_a_queue_stays_if_its_address_that_must_go_with_it_may_not_be_deleted(delay_ms: int) -> None:
    """Without a delay the address goes with its last queue anyway, which requires no permission."""
    keeps = {"#": AddressSettings(auto_delete_addresses_delay_ms=delay_ms)}
    manager = manager_with(EVERYTHING - {P.DELETE_ADDRESS}, address_settings=keeps)
    assert manager.call("broker", "destroyQueue", "n", True, True) is None
    addresses = manager.peer.stage.node.kernel.address_manager.addresses
    assert "a" in addresses
    if delay_ms:
        text = manager.failure("broker", operation="destroyQueue", body='["q",true,true]')
        assert text == "AMQ229032: User: tester does not have permission='DELETE_ADDRESS' on address a"
        assert manager.read("queue.q", "MessageCount") == 1
        assert manager.call("broker", "destroyQueue", "q", True, False) is None
        assert "a" in addresses
    else:
        assert manager.call("broker", "destroyQueue", "q", True, True) is None
        assert "a" not in addresses


def test_an_address_that_its_settings_keep_goes_with_its_last_queue_on_request() -> None:
    keeps = {"#": AddressSettings(auto_delete_addresses_delay_ms=60_000)}
    manager = manager_with(EVERYTHING, address_settings=keeps)
    addresses = manager.peer.stage.node.kernel.address_manager.addresses
    for name in ("n", "q"):
        assert "a" in addresses
        assert manager.call("broker", "destroyQueue", name, True, True) is None
    assert "a" not in addresses


@pytest.mark.parametrize("operation", ["moveMessages", "copyMessage"])
def test_what_goes_to_one_queue_requires_the_permission_to_send_to_that_queue(operation: str) -> None:
    """As a send to its FQQN does: a setting of the queue holds before that of its address."""
    may_not = manager_with(EVERYTHING, on={"a::n": EVERYTHING - {P.SEND}})
    body = '["","n"]' if operation == "moveMessages" else f'[{message_id(may_not)},"n"]'
    text = may_not.failure("queue.q", operation=operation, body=body)
    assert text == "AMQ229213: User: tester does not have permission='SEND' for queue n on address a"
    assert may_not.read("queue.n", "MessageCount") == 0
    may = manager_with(EVERYTHING - {P.SEND}, on={"a::n": EVERYTHING})
    body = '["","n"]' if operation == "moveMessages" else f'[{message_id(may)},"n"]'
    may.send(request_of("queue.q", operation=operation, body=body))
    assert may.read("queue.n", "MessageCount") == 1


def test_dead_letters_stay_if_the_session_may_not_send_to_their_queue_which_is_reported_once() -> None:
    dead = {"#": AddressSettings(dead_letter_address="DLQ", auto_create_dead_letter_resources=False)}
    manager = manager_with(EVERYTHING, on={"a::q": EVERYTHING - {P.SEND}}, address_settings=dead)
    for _ in range(2):
        assert manager.call("address.a", "sendMessage", None, 3, "more", False, None, None)
    moved = manager.call("queue.q", "sendMessagesToDeadLetterAddress", "")
    moved += manager.call("queue.n", "sendMessagesToDeadLetterAddress", "")
    assert moved == 3
    rows = json.loads(manager.call("queue.DLQ", "listMessagesAsJSON", None))
    of_q = sum(row["_AMQ_ORIG_QUEUE"] == "q" for row in rows)
    assert of_q == 2
    security = manager.peer.stage.node.core.security
    assert security is not None
    refused = security.statistics().refused
    assert manager.call("queue.DLQ", "retryMessages") == 1
    assert manager.read("queue.DLQ", "MessageCount") == of_q
    assert security.statistics().refused == refused + 1


def checked_manager(permission: Permission, *addresses: str, **config: Any) -> Manager:
    """A tester with one of `view` and `edit` on some methods, and every other permission everywhere."""
    everything = SecuritySetting.all("*")
    others = setting(EVERYTHING - {P.VIEW, P.EDIT})
    methods = {address: SecuritySetting(**{permission.name.lower(): ["tester"]}) for address in addresses}
    settings = {"#": others, "replies": everything, "activemq.management": everything, **methods}
    stage = Stage(users=[ADMIN, TESTER], security_settings=settings, management_message_rbac=True, **config)
    stage.connect().open_session(user="admin", password="a").send(
        CreateQueueV2("a", "q", None, True, False, True, False, 1)
    )
    return Manager(stage.connect().open_session(user="tester", password="t"))


def test_view_is_for_methods_that_read_and_edit_for_all_others() -> None:
    viewer = checked_manager(P.VIEW, "mops.#")
    assert viewer.read("queue.q", "MessageCount") == 0
    assert viewer.read("queue.q", "durable") is True
    assert viewer.call("queue.q", "getMessageCount") == 0
    assert viewer.call("queue.q", "countMessages") == 0
    refused = viewer.failure("queue.q", operation="removeAllMessages")
    assert refused == (
        "AMQ229032: User: tester does not have permission='EDIT' on address mops.queue.q.removeAllMessages"
    )
    editor = checked_manager(P.EDIT, "mops.#")
    assert editor.call("queue.q", "removeAllMessages") == 0
    assert "'VIEW'" in editor.failure("queue.q", operation="countMessages")
    assert editor.failure("queue.q", attribute="MessageCount") == "Problem while retrieving attribute MessageCount"


def test_view_and_edit_are_checked_for_each_method_of_each_resource() -> None:
    manager = checked_manager(P.VIEW, "mops.queue.q.getMessageCount", "mops.queue.q.isDurable")
    assert manager.read("queue.q", "messageCount") == 0
    assert manager.read("queue.q", "Durable") is True
    assert manager.failure("queue.q", attribute="ConsumerCount") == "Problem while retrieving attribute ConsumerCount"
    assert "mops.broker.getVersion" in manager.failure("broker", operation="getVersion")
    # What does not exist is reported as such.
    assert manager.failure("queue.q", operation="nope") == "AMQ229069: no operation nope/0"


def test_users_are_listed_with_view_and_changed_with_edit() -> None:
    viewer = checked_manager(P.VIEW, "mops.broker.#")
    assert '"tester"' in viewer.call("broker", "listUser", "")
    body = '["new","p","tester",true]'
    assert "'EDIT' on address mops.broker.addUser" in viewer.failure("broker", operation="addUser", body=body)
    assert '"new"' not in viewer.call("broker", "listUser", "")
    editor = checked_manager(P.EDIT, "mops.broker.addUser")
    assert editor.call("broker", "addUser", "new", "p", "tester", True) is None
    for operation, body in (("removeUser", '["new"]'), ("resetUser", '["new","p",null]')):
        assert "'EDIT'" in editor.failure("broker", operation=operation, body=body)
    assert "'VIEW'" in editor.failure("broker", operation="listUser", body='[""]')


def test_prefix_and_pattern_are_configured() -> None:
    manager = checked_manager(
        P.EDIT, "ops.#", management_rbac_prefix="ops", view_permission_method_match_pattern="is.*"
    )
    assert manager.read("queue.q", "MessageCount") == 0
    assert manager.failure("queue.q", attribute="Durable") == "Problem while retrieving attribute Durable"


def test_without_the_setting_a_request_needs_no_permission_of_its_method() -> None:
    assert manager_with(EVERYTHING - {P.VIEW, P.EDIT}).read("queue.q", "MessageCount") == 1
