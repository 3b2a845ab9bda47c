"""Permissions of management calls: `manage`, and those that a client needs for the same effect."""

from __future__ import annotations

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
    case("queue.q", "removeAllMessages", None, P.CONSUME),
    case("queue.q", "removeMessages", '["AMQPriority = 4"]', P.CONSUME),
    case("queue.q", "expireMessages", '[""]', P.CONSUME),
    case("queue.q", "sendMessagesToDeadLetterAddress", '[""]', P.CONSUME),
    case("queue.q", "moveMessages", '["","n"]', P.CONSUME, P.SEND),
    case("queue.q", "resetMessagesAdded", None, P.CONSUME),
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
        assert f"permission {missing.name!r}" in text and "'tester'" in text
        assert state_of(refused.peer.stage) == before


def test_every_request_needs_the_permission_to_manage() -> None:
    stage = Stage(users=[ADMIN, TESTER], security_settings={"#": setting(EVERYTHING - {P.MANAGE})})
    peer = stage.connect().open_session(user="tester", password="t")
    peer.send(SessionSend(request_of("broker", attribute="Version"), True, -1))
    refused = peer.refusal()
    assert refused.message is not None and "'MANAGE'" in refused.message
