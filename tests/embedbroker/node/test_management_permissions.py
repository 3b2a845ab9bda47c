"""Permissions of management calls: `manage`, and those that a client needs for the same effect."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from embedbroker.config import SecuritySetting, User
from embedbroker.kernel import Permission
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
]


def setting(granted: frozenset[Permission]) -> SecuritySetting:
    return SecuritySetting(**{one.name.lower(): ["admin", "tester"] if one in granted else ["admin"] for one in P})


def manager_with(granted: frozenset[Permission]) -> Manager:
    """A tester with these permissions on all addresses but those of requests and replies."""
    always = SecuritySetting.all("*")
    settings = {"#": setting(granted), "replies": always, "activemq.management": always}
    stage = Stage(users=[ADMIN, TESTER], security_settings=settings)
    admin = stage.connect().open_session(user="admin", password="a")
    admin.send(
        CreateQueueV2("a", "q", None, True, False, True, False, 1),
        CreateQueueV2("a", "n", None, False, False, True, False, 1),
        SessionSend(letter("one", "a::q"), False, -1),
    )
    return Manager(stage.connect().open_session(user="tester", password="t"))


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
