"""Management messages: attributes, operations, replies and refusals, as a client sees them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import cast

import pytest

from embedbroker.config import MessageLoadBalancing, SharedStoreBackup, SharedStorePrimary
from embedbroker.kernel import RemoteBinding, Session
from embedbroker.locks import Acquire, LiveState, Lock, StoreRecord, WriteRecord
from embedbroker.management import CONTROLS
from embedbroker.management._dates import time_text
from embedbroker.management._registry import BrokerView, Call
from embedbroker.node import Command, CommandKind, TaskDone, TaskKind
from embedbroker.testing._locks import SimulatedLocks
from embedclient.model import TLSSettings, TransportConfiguration
from embedclient.wire.core import (
    CreateQueueV2,
    MessageType,
    NullResponse,
    SessionAcknowledge,
    SessionQueueQuery,
    SessionQueueQueryResponseV3,
    SessionReceiveMessage,
    SessionSend,
    decode_text,
)

from .managing import Manager, manager_of, request_of
from .scripted import Peer, Stage, letter, text_of

ADD_HEADERS = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"


@pytest.fixture
def peer() -> Peer:
    return Stage().connect().open_session()


@pytest.fixture
def manager(peer: Peer) -> Manager:
    return Manager(peer)


# -- replies ---------------------------------------------------------------------------------------------------------


def test_an_attribute_is_in_a_reply_of_the_form_of_artemis(manager: Manager) -> None:
    reply = manager.send(request_of("broker", attribute="Started"))
    assert (reply.type, reply.durable, reply.priority, reply.timestamp, reply.user_id) == (
        MessageType.TEXT, False, 0, 0, None,
    )  # fmt: skip
    assert decode_text(reply.body) == "[true]"
    assert dict(reply.properties) == {
        "JMSReplyTo": "replies",
        "_AMQ_OperationSucceeded": True,
        # Artemis sends this text if a request has neither correlation id nor message id.
        "JMSCorrelationID": "null",
    }


@pytest.mark.parametrize(
    ("correlation_id", "user_id", "expected"),
    [
        ("mine", bytes(16), "mine"),
        (None, bytes.fromhex("00112233445516778899aabbccddeeff"), "00112233-4455-1677-8899-aabbccddeeff"),
    ],
)
def test_a_reply_repeats_the_correlation_id_or_the_message_id(
    manager: Manager, correlation_id: str | None, user_id: bytes, expected: str
) -> None:
    request = request_of("broker", attribute="Name", correlation_id=correlation_id, user_id=user_id)
    assert manager.send(request).property("JMSCorrelationID") == expected


def test_the_prefix_of_a_jms_reply_to_is_cut(manager: Manager) -> None:
    reply = manager.send(request_of("broker", attribute="Name", reply_to="temp-queue://replies"))
    assert decode_text(reply.body) == '["embedbroker"]'
    assert reply.property("JMSReplyTo") == "temp-queue://replies"


def test_a_request_without_operation_and_attribute_gets_an_empty_reply(manager: Manager) -> None:
    reply = manager.send(request_of("broker"))
    assert decode_text(reply.body) is None
    assert reply.property("_AMQ_OperationSucceeded") is None


def test_a_void_operation_has_a_null_text(manager: Manager) -> None:
    reply = manager.send(request_of("broker", operation="createAddress", body='["a","ANYCAST"]'))
    assert decode_text(reply.body) == '["Address [name=a, routingTypes={ANYCAST}, autoCreated=false]"]'
    reply = manager.send(request_of("broker", operation="deleteAddress", body='["a"]'))
    assert decode_text(reply.body) is None and reply.property("_AMQ_OperationSucceeded") is True


@pytest.mark.parametrize("reply_to", [None, "", "nowhere", "activemq.management"])
def test_a_request_without_a_place_for_the_reply_is_carried_out_and_leaves_nothing(
    peer: Peer, reply_to: str | None
) -> None:
    before = dict(peer.stage.node.kernel.address_manager.queues)
    request = request_of("broker", operation="createAddress", body='["a","ANYCAST"]', reply_to=reply_to)
    peer.send(SessionSend(request, True, -2))
    peer.stage.settle_disk()
    assert peer.clear() == [NullResponse(-2)] and not peer.stage.warnings()
    assert "a" in peer.stage.node.kernel.address_manager.addresses
    assert peer.stage.node.kernel.address_manager.queues == before
    assert peer.stage.node.kernel.memory.used_bytes == 0


def test_a_request_in_a_transaction_is_carried_out_at_once(peer: Peer) -> None:
    transacted = peer.stage.connect().open_session(transacted=True)
    transacted.send(SessionSend(request_of("broker", operation="createAddress", body='["a","ANYCAST"]'), False, -1))
    assert "a" in peer.stage.node.kernel.address_manager.addresses


# -- attributes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["MessageCount", "messageCount"])
def test_the_first_letter_of_an_attribute_may_be_small(manager: Manager, name: str) -> None:
    manager.peer.create_queue("q")
    manager.peer.send(SessionSend(letter("one"), False, -1))
    assert manager.read("queue.q", name) == 1


def test_a_getter_is_an_operation_without_parameters(manager: Manager) -> None:
    assert manager.call("broker", "getNodeID") == manager.peer.stage.node.node_id
    assert manager.call("broker", "isStarted") is True


def test_an_operation_without_parameters_can_be_read_as_an_attribute(manager: Manager) -> None:
    # Any getter without arguments, as in Artemis; other operations are no attributes.
    assert (
        manager.failure("broker", attribute="listConnectionIDs")
        == "Problem while retrieving attribute listConnectionIDs"
    )


def test_every_attribute_of_every_control_can_be_read(manager: Manager) -> None:
    from embedbroker.management import CONTROLS

    manager.peer.create_queue("q")
    manager.peer.send(SessionSend(letter("one"), False, -1))
    java = {"boolean": bool, "int": int, "long": int, "String": str, "Long": int, "String[]": list, "double": float}
    java |= {"Map": dict, "Object[]": list}
    stage = manager.peer.stage
    # What the host answers.
    answers = {TaskKind.MEASURE_DISK: 0.25, TaskKind.LOOK_AT_ACCEPTOR: True}
    stage.on_task = lambda task: stage.step(TaskDone(task.number, answers[task.kind], None))
    manager.call("broker", "createDivert", "d", "r", "q", "other", False, "a = 1", ADD_HEADERS, '{"k":"v"}', "PASS")
    resources = ("broker", "address.q", "queue.q", "divert.d", "acceptor.artemis")
    # Other tests read what this broker does not have.
    others = ("bridge", "clusterconnection", "broadcastgroup")
    controls = [control for control in CONTROLS if control.name not in others]
    for control, resource in zip(controls, resources, strict=True):
        for attribute in control.attributes.values():
            value = manager.read(resource, attribute.name)
            assert value is None or type(value) is java[attribute.type], attribute.name


NETTY = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"
IN_VM = "org.apache.activemq.artemis.core.remoting.impl.invm.InVMConnectorFactory"


def test_connectors_are_those_of_the_configuration_without_passwords() -> None:
    tls = TLSSettings(trust_store_path="ca.pem", trust_store_password="hush", enabled_protocols=["TLSv1.3"])
    other: dict[str, bool | int | str] = {"host": "c", "port": 1, "proxyPassword": "hush"}
    stage = Stage(
        connectors={
            "b": "tcp://b:61617?sslEnabled=true&keyStorePath=k.p12&keyStorePassword=hush",
            "c": TransportConfiguration("", parameters=other, extra={"aPassword": "hush", "k": "v"}, tls=tls),
            "d": "vm://d",
        }
    )
    manager = Manager(stage.connect().open_session())
    of_b = {"host": "b", "port": "61617", "sslEnabled": "true", "keyStorePath": "k.p12", "keyStorePassword": "****"}
    of_c = {
        "host": "c", "port": 1, "proxyPassword": "****", "sslEnabled": "true", "trustStorePath": "ca.pem",
        "trustStorePassword": "****", "enabledProtocols": "TLSv1.3",
    }  # fmt: skip
    rows = manager.read("broker", "Connectors")
    assert rows == [["b", NETTY, of_b], ["c", NETTY, of_c], ["d", IN_VM, {"serverId": "d"}]]
    text = manager.read("broker", "ConnectorsAsJSON")
    assert "hush" not in text
    assert json.loads(text) == [
        {"name": name, "factoryClassName": factory, "params": parameters, "extraProps": extra}
        for (name, factory, parameters), extra in zip(rows, [{}, {"aPassword": "****", "k": "v"}, {}], strict=True)
    ]
    assert manager.read("broker", "ConnectorServices") == []


def test_a_broker_without_connectors_lists_none(manager: Manager) -> None:
    assert (manager.read("broker", "Connectors"), manager.read("broker", "ConnectorsAsJSON")) == ([], "[]")


@pytest.mark.parametrize("fails_over", [False, True])
@pytest.mark.parametrize("policy", [SharedStorePrimary, SharedStoreBackup])
def test_the_failover_at_a_stop_is_that_of_a_backup_that_waits(
    policy: type[SharedStorePrimary | SharedStoreBackup], fails_over: bool
) -> None:
    """ActiveMQServerControlImpl.isFailoverOnServerShutdown: a backup that took over has the policy of a primary."""
    locks = SimulatedLocks()
    # A backup takes over from a broker that was active.
    before = locks.open("primary 'before'")
    before.run((Acquire(Lock.LIVE), WriteRecord(StoreRecord(LiveState.ACTIVE, "the node", 7))))
    before.close()
    stage = Stage(durable=True, locks=locks, start=False, ha_policy=policy(failover_on_shutdown=fails_over))
    stage.step(Command(CommandKind.START))
    for _ in range(3):
        stage.settle_disk()
        stage.advance(0.1)
    assert stage.ready
    manager = manager_of(stage)
    assert manager.read("broker", "FailoverOnServerShutdown") is False
    # A backup that waits serves no client that could send the request.
    waiting = cast(BrokerView, SimpleNamespace(kernel=stage.node.kernel, started=False))
    (control,) = [each for each in CONTROLS if each.name == "broker"]
    value = control.attributes["FailoverOnServerShutdown"].read(Call(waiting, cast(Session, None), ""))
    assert value is (policy is SharedStoreBackup and fails_over)
    # There are no copies.
    assert (manager.read("broker", "ReplicaSync"), manager.read("broker", "ActivationSequence")) == (False, -1)


def test_a_broker_without_a_policy_has_no_other_broker(manager: Manager) -> None:
    names = ("FailoverOnServerShutdown", "ReplicaSync", "ActivationSequence")
    assert [manager.read("broker", name) for name in names] == [False, False, -1]


def test_work_of_a_queue_is_flushed_at_once(manager: Manager) -> None:
    manager.peer.create_queue("q")
    assert manager.call("queue.q", "flushExecutor") is None


# -- pause and update ------------------------------------------------------------------------------------------------


def test_a_queue_is_paused_and_resumed(manager: Manager) -> None:
    manager.peer.create_queue("q")
    manager.call("queue.q", "pause", True)
    assert manager.read("queue.q", "Paused") is True and manager.read("queue.q", "PersistedPause") is True
    manager.call("address.q", "pause")
    manager.call("queue.q", "resume")
    assert manager.read("queue.q", "Paused") is True and manager.read("queue.q", "PersistedPause") is False
    manager.call("address.q", "resume")
    assert manager.read("queue.q", "Paused") is False and manager.read("address.q", "Paused") is False


def test_a_queue_is_updated_in_part(manager: Manager) -> None:
    """Artemis' RedeployTest.testQueuePartialReconfiguration and ActiveMQServerControlTest.testRemoveQueueFilter."""
    manager.peer.create_queue("q")
    text = manager.call("broker", "updateQueue", '{"name":"q","filter-string":"a = 1","user":"me"}')
    assert json.loads(text)["filter-string"] == "a = 1"
    manager.call("broker", "updateQueue", '{"name":"q","max-consumers":5}')
    manager.call("broker", "updateQueue", "q", None, 6, None, True)
    found = {name: manager.read("queue.q", name) for name in ("Filter", "User", "MaxConsumers", "Exclusive")}
    assert found == {"Filter": "a = 1", "User": "me", "MaxConsumers": 6, "Exclusive": True}
    for empty in ('""', "null"):
        manager.call("broker", "updateQueue", '{"name":"q","filter-string":"a = 1"}')
        manager.call("broker", "updateQueue", f'{{"name":"q","filter-string":{empty}}}')
        assert manager.read("queue.q", "Filter") is None
    assert manager.failure("broker", operation="updateQueue", body='["{\\"name\\":\\"x\\"}"]') == (
        "AMQ229017: Queue x does not exist"
    )
    ring = manager.failure("broker", operation="updateQueue", body='["{\\"name\\":\\"q\\",\\"ring-size\\":1}"]')
    assert ring == "queue 'q': ring-size is not supported by this broker yet"


# -- disabled queues -------------------------------------------------------------------------------------------------


def count_of(manager: Manager, name: str) -> object:
    return manager.read(f"queue.{name}", "MessageCount")


def delivered(peer: Peer) -> list[str]:
    return [text_of(each.message) for each in peer.clear() if isinstance(each, SessionReceiveMessage)]


def test_a_disabled_queue_takes_no_messages_and_delivers_what_it_has(manager: Manager) -> None:
    """Artemis' QueueControlTest.testDisable and testEnable: nothing is routed to a disabled queue."""
    peer = manager.peer
    peer.create_queue("q")
    peer.post("one")
    manager.call("queue.q", "disable")
    assert manager.read("queue.q", "Enabled") is False
    peer.post("two")
    assert count_of(manager, "q") == 1 and manager.read("address.q", "UnRoutedMessageCount") == 1
    options = json.dumps({"field": "name", "operation": "EQUALS", "value": "q"})
    (row,) = json.loads(manager.call("broker", "listQueues", options, 1, 10))["data"]
    assert row["enabled"] == "false"
    peer.consume()
    assert delivered(peer) == ["one"]
    manager.call("queue.q", "enable")
    peer.post("three")
    assert delivered(peer) == ["three"]


def test_the_filter_of_a_queue_is_in_force_again_once_it_is_enabled(manager: Manager) -> None:
    manager.peer.create_queue("q")
    manager.call("queue.q", "disable")
    manager.call("broker", "updateQueue", '{"name":"q","filter-string":"a = \'2\'"}')
    for wanted, state in ((0, "enable"), (1, "disable")):
        for value in ("1", "2"):
            manager.call("address.q", "sendMessage", {"a": value}, 3, "x", False, None, None)
        assert count_of(manager, "q") == wanted
        manager.call("queue.q", state)
    assert manager.read("queue.q", "Filter") == "a = '2'"


@pytest.mark.parametrize("routing_type", ["ANYCAST", "MULTICAST"])
def test_other_queues_take_what_a_disabled_one_does_not(manager: Manager, routing_type: str) -> None:
    """Artemis' AddressingTest.testQueueEnabledDisabled."""
    for name, settings in (("default", {}), ("disabled", {"enabled": False})):
        created = {"name": name, "address": "a", "routing-type": routing_type, **settings}
        shown = json.loads(manager.call("broker", "createQueue", json.dumps(created)))
        assert {key: value for key, value in shown.items() if key == "enabled"} == settings
    is_anycast = routing_type == "ANYCAST"
    manager.peer.send(*(SessionSend(letter("x", address="a", anycast=is_anycast), False, -1) for _ in range(4)))
    assert (count_of(manager, "default"), count_of(manager, "disabled")) == (4, 0)
    manager.peer.send(SessionSend(letter("x", address="a::disabled", anycast=is_anycast), False, -1))
    assert count_of(manager, "disabled") == 0
    manager.call("broker", "updateQueue", '{"name":"default","enabled":false}')
    manager.peer.send(SessionSend(letter("x", address="a", anycast=is_anycast), False, -1))
    assert count_of(manager, "default") == 4


def test_moves_copies_and_retries_do_not_lose_messages_in_a_disabled_queue(manager: Manager) -> None:
    for name in ("q", "other"):
        manager.peer.create_queue(name)
    manager.peer.post("one")
    manager.call("queue.other", "disable")
    for operation, arguments in (("moveMessages", '[null,"other"]'), ("copyMessage", '[1,"other"]')):
        assert manager.failure("queue.q", operation=operation, body=arguments) == (
            "queue 'other' is disabled and takes no messages: enable it first"
        )
    manager.call("queue.other", "enable")
    assert manager.call("queue.q", "moveMessages", None, "other") == 1
    manager.call("queue.q", "disable")
    assert manager.call("queue.other", "retryMessages") == 0 and count_of(manager, "other") == 1
    manager.call("queue.q", "enable")
    assert manager.call("queue.other", "retryMessages") == 1 and count_of(manager, "q") == 1


@pytest.mark.parametrize(
    ("operation", "target"), [("sendMessagesToDeadLetterAddress", "DLQ"), ("expireMessages", "ExpiryQueue")]
)
def test_messages_that_must_leave_their_queue_are_not_lost_at_a_disabled_one(
    manager: Manager, operation: str, target: str
) -> None:
    peer = manager.peer
    peer.create_queue("q")
    for name, settings in ((f"{target}.orders", {"filter-string": "a = 'x'"}), (target, {})):
        created = {"name": name, "address": target, "routing-type": "ANYCAST", "enabled": False, **settings}
        manager.call("broker", "createQueue", json.dumps(created), True)
    manager.call(f"queue.{target}", "disable")
    peer.post("one")
    assert manager.call("queue.q", operation, None) == 1
    # The filters of disabled queues hold, and another queue that takes the message comes first.
    assert (count_of(manager, f"{target}.orders"), count_of(manager, target)) == (0, 1)
    manager.call("broker", "createQueue", json.dumps({"name": "more", "address": target, "routing-type": "ANYCAST"}))
    peer.post("two")
    assert manager.call("queue.q", operation, None) == 1
    assert (count_of(manager, "more"), count_of(manager, target)) == (1, 1)


def test_a_client_creates_a_disabled_queue_and_queries_it(manager: Manager) -> None:
    peer = manager.peer
    peer.send(CreateQueueV2("q", "q", None, True, False, True, False, 1, enabled=False))
    peer.stage.settle_disk()
    assert manager.read("queue.q", "Enabled") is False
    peer.send(SessionQueueQuery("q"))
    (view,) = [each for each in peer.clear() if isinstance(each, SessionQueueQueryResponseV3)]
    assert view.enabled is False


def test_an_address_names_queues_of_other_brokers(manager: Manager) -> None:
    manager.peer.create_queue("q")
    addresses = manager.peer.stage.node.kernel.address_manager
    sf = addresses.queues["DLQ"]
    binding = RemoteBinding("q", "q-node", "q", 7, 1, sf, MessageLoadBalancing.OFF)
    addresses.add_remote_binding(binding)
    names = ("QueueNames", "RemoteQueueNames", "AllQueueNames", "BindingNames")
    found = [manager.read("address.q", name) for name in names]
    assert found == [["q"], ["q-node"], ["q", "q-node"], ["q", "q-node"]]
    addresses.remove_remote_binding(binding)
    assert manager.read("address.q", "RemoteQueueNames") == []


# -- diverts ---------------------------------------------------------------------------------------------------------


def test_a_divert_is_created_read_changed_and_removed(manager: Manager) -> None:
    manager.peer.create_queue("q")
    manager.peer.create_queue("other")
    assert manager.call("broker", "createDivert", "d", None, "q", "nowhere", True, None, None) is None
    assert manager.read("broker", "DivertNames") == ["d"] and manager.call("broker", "getDivertNames") == ["d"]
    assert manager.read("address.q", "BindingNames") == ["q", "d"]
    assert manager.call("broker", "listDivertNames") == ["d"]
    queue, divert = manager.call("broker", "listBindingsForAddress", "q").split("\n")
    assert queue.startswith("Queue [name=q, ")
    assert divert.startswith("DivertBinding [id=")
    assert divert.endswith(", name=d, address=q, forwardingAddress=nowhere, exclusive=true]")
    assert manager.read("divert.d", "RoutingName") == "d" and manager.read("divert.d", "Exclusive") is True
    manager.call("broker", "updateDivert", "d", "other", "a = 1", ADD_HEADERS, {"k": "v"}, "ANYCAST")
    read = {name: manager.read("divert.d", name) for name in ("ForwardingAddress", "Filter", "RoutingType")}
    assert read == {"ForwardingAddress": "other", "Filter": "a = 1", "RoutingType": "ANYCAST"}
    assert manager.read("divert.d", "TransformerPropertiesAsJSON") == '{"k":"v"}'
    assert manager.read("divert.d", "TransformerClassName") == ADD_HEADERS
    manager.call("broker", "updateDivert", '{"name":"d","forwarding-address":"other"}')
    assert manager.read("divert.d", "Filter") is None
    manager.peer.send(SessionSend(letter("one"), False, -1))
    assert manager.read("queue.other", "MessageCount") == 1 and manager.read("queue.q", "MessageCount") == 0
    manager.call("broker", "destroyDivert", "d")
    assert manager.read("broker", "DivertNames") == []


def test_a_divert_from_json(manager: Manager) -> None:
    text = json.dumps(
        {
            "name": "d",
            "address": "a",
            "forwarding-address": "b",
            "exclusive": "true",
            "filter-string": None,
            "routing-type": "MULTICAST",
            "transformer-configuration": {"class-name": ADD_HEADERS, "properties": {"k": "v", "n": 1}},
        }
    )
    manager.call("broker", "createDivert", text)
    assert manager.read("divert.d", "Exclusive") is True
    assert manager.read("divert.d", "TransformerProperties") == {"k": "v", "n": "1"}


@pytest.mark.parametrize(
    ("operation", "arguments", "text"),
    [
        ("destroyDivert", ["x"], "AMQ229012: No binding for divert x"),
        ("destroyDivert", ["q"], "AMQ229013: Binding q is not a divert"),
        ("updateDivert", ["x", "b", None, None, None, None], "AMQ229231: Divert Does Not Exist: x"),
        (
            "createDivert",
            [None, None, "a", "b", False, None, None],
            "AMQ229015: Must specify a name for each divert. This one will not be deployed.",
        ),
        (
            "createDivert",
            ["d", None, "a", "b", False, None, None, "BOTH"],
            "No enum constant org.apache.activemq.artemis.core.server.ComponentConfigurationRoutingType.BOTH",
        ),
        (
            "createDivert",
            ["d", None, "a", "b", False, None, "com.acme.Upper"],
            f"the transformer 'com.acme.Upper' is a class of Java; only {ADD_HEADERS} exists here",
        ),
        (
            "createDivert",
            ["d", None, "a", "b, a", False, None, None],
            "divert 'd': forwarding_address 'b, a' contains 'a', the address of the divert: each message would be "
            "diverted for ever; name another address",
        ),
        (
            "createDivert",
            ["q", None, "a", "b", False, None, None],
            "divert 'q': a queue has this name; choose another one",
        ),
        (
            "createDivert",
            ['{"name":"d","adress":"a"}'],
            "the divert configuration has an unknown field 'adress'; did you mean 'address'?",
        ),
        ("createDivert", ['{"name":5}'], "field 'name' of the divert configuration must be a text"),
        ("createDivert", ['{"name":"d","address":["a"]}'], "divert 'd': "),
        (
            "createDivert",
            ['{"name":"d","address":"a","forwarding-address":"b","transformer-configuration":[]}'],
            "the transformer configuration must be an object of JSON with a class-name",
        ),
    ],
)
def test_a_wrong_divert_is_refused(manager: Manager, operation: str, arguments: list[object], text: str) -> None:
    manager.peer.create_queue("q")
    assert manager.failure("broker", operation=operation, body=json.dumps(arguments)).startswith(text)
    assert manager.read("broker", "DivertNames") == []


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "request_", "text"),
    [
        ("queue.nope", {"operation": "removeAllMessages"}, "AMQ229067: Cannot find resource with name queue.nope"),
        (None, {"operation": "x"}, "AMQ229067: Cannot find resource with name None"),
        ("broker.x", {"operation": "getVersion"}, "AMQ229067: Cannot find resource with name broker.x"),
        ("broker", {"operation": "nope"}, "AMQ229069: no operation nope/0"),
        ("broker", {"operation": "createAddress", "body": '["a"]'}, "AMQ229069: no operation createAddress/1"),
        ("broker", {"operation": "createAddress", "body": '["a",1]'}, "AMQ229069: no operation createAddress/2"),
        ("broker", {"operation": "createAddress", "body": '["a",[]]'}, "AMQ229069: no operation createAddress/2"),
        ("broker", {"operation": "listQueues", "body": '["",1.5,1]'}, "AMQ229069: no operation listQueues/3"),
        ("broker", {"operation": "listQueues", "body": '["",3000000000,1]'}, "AMQ229069: no operation listQueues/3"),
        ("broker", {"operation": "listQueues", "body": '["",true,1]'}, "AMQ229069: no operation listQueues/3"),
        ("broker", {"attribute": "Nope"}, "Problem while retrieving attribute Nope"),
        ("queue.nope", {"attribute": "Name"}, "Problem while retrieving attribute Name"),
        ("broker", {"operation": "createAddress", "body": '["a","NOCAST"]'},
         "No enum constant org.apache.activemq.artemis.api.core.RoutingType.NOCAST"),
        ("broker", {"operation": "destroyQueue", "body": '["nope"]'}, "AMQ229017: Queue nope does not exist"),
        ("broker", {"operation": "deleteAddress", "body": '["nope"]'}, "AMQ229203: Address Does Not Exist: nope"),
        ("broker", {"operation": "x", "body": "{}"}, "the body of the request must be a JSON array with the arguments"),
    ],
)  # fmt: skip
def test_a_request_that_fails_has_the_text_of_artemis_and_one_line_in_the_log(
    manager: Manager, resource: str | None, request_: dict[str, str], text: str
) -> None:
    before = len([text for _level, text in manager.peer.stage.notices])
    assert manager.failure(resource, **request_) == text
    (line,) = [text for _level, text in manager.peer.stage.notices][before:]
    assert "management request" in line
    assert manager.read("broker", "Started") is True


@pytest.mark.parametrize(
    "body",
    ["", "{", "[" * 5000, '["a",', "9" * 10_000, '["\ud800"]', "[NaN]", '["' + "x" * 100_000 + '"]'],
)
def test_no_body_harms_the_broker(manager: Manager, body: str) -> None:
    for operation in (
        "createQueue", "listQueues", "destroyQueue", "createAddress", "addAddressSettings", "addSecuritySettings",
    ):  # fmt: skip
        manager.failure("broker", operation=operation, body=body)
    manager.peer.create_queue("q")
    for operation in ("removeMessage", "moveMessages", "sendMessage", "deliverScheduledMessage"):
        manager.failure("queue.q", operation=operation, body=body)
    assert manager.read("queue.q", "MessageCount") == 0
    assert manager.read("broker", "Started") is True


# -- queues ----------------------------------------------------------------------------------------------------------


def test_a_queue_is_created_from_json(manager: Manager) -> None:
    text = json.dumps({"name": "mg.new", "address": "mg.new", "routing-type": "ANYCAST", "durable": True})
    created = json.loads(manager.call("broker", "createQueue", text))
    assert created["name"] == created["address"] == "mg.new"
    assert (created["routing-type"], created["max-consumers"], created["auto-created"]) == ("ANYCAST", -1, False)
    assert created["id"] == manager.read("queue.mg.new", "ID")
    failure = manager.failure("broker", operation="createQueue", body=json.dumps([text]))
    assert failure == "AMQ229019: Queue mg.new already exists on address mg.new"
    assert json.loads(manager.call("broker", "createQueue", text, True)) == created
    assert manager.call("broker", "destroyQueue", "mg.new") is None
    assert "mg.new" not in manager.read("broker", "QueueNames")


def test_the_answer_to_a_creation_waits_for_the_disk() -> None:
    stage = Stage(durable=True)
    manager = Manager(stage.connect().open_session())
    manager.peer.send(
        SessionSend(request_of("broker", operation="createQueue", body='["{\\"name\\":\\"d\\"}"]'), False)
    )
    assert manager.peer.clear() == []
    stage.settle_disk()
    assert len(manager.peer.clear()) == 1


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": "q", "last-value": True}, "queue 'q': last-value is not supported by this broker yet"),
        ({"name": "q", "ring-size": "5"}, "queue 'q': ring-size is not supported by this broker yet"),
        ({"address": "q"}, "the queue configuration has no name"),
        ({"name": 5}, "field 'name' of the queue configuration must be a text, not 5"),
        ({"name": "q", "max-consumers": "x"},
         "field 'max-consumers' of the queue configuration must be an integer of 32 bits, not \"x\""),
        ({"name": "q", "durable": "maybe"},
         "field 'durable' of the queue configuration must be true or false, not \"maybe\""),
        ({"name": "q", "durabel": True},
         "the queue configuration has an unknown field 'durabel'; did you mean 'durable'?"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_of_a_queue(manager: Manager, fields: dict[str, object], text: str) -> None:
    body = json.dumps([json.dumps(fields)])
    assert manager.failure("broker", operation="createQueue", body=body) == text
    assert "q" not in manager.peer.stage.node.kernel.address_manager.queues


def test_a_queue_is_created_by_position_as_the_command_line_does(manager: Manager) -> None:
    text = manager.call("broker", "createQueue", "cli.new", "ANYCAST", "cli.new", None, True, -1, False, True)
    assert text == (
        "Queue [name=cli.new, address=cli.new, routingType=ANYCAST, durable=true, purgeOnNoConsumers=false, "
        "autoCreateAddress=false, exclusive=false, lastValue=false, lastValueKey=null, nonDestructive=false, "
        "consumersBeforeDispatch=0, delayBeforeDispatch=-1, autoCreateAddress=false]"
    )


def test_a_queue_with_consumers_is_deleted_only_on_demand(manager: Manager) -> None:
    manager.peer.create_queue("busy")
    manager.peer.consume("busy", 5)
    failure = manager.failure("broker", operation="destroyQueue", body='["busy"]')
    assert failure == "AMQ229025: Cannot delete queue busy on binding busy - it has consumers = 1"
    assert manager.call("broker", "destroyQueue", "busy", True) is None
    assert "busy" not in manager.read("broker", "QueueNames")


def test_an_address_with_queues_is_deleted_only_by_force(manager: Manager) -> None:
    manager.peer.create_queue("q")
    assert manager.failure("broker", operation="deleteAddress", body='["q"]') == "AMQ229205: Address q has bindings"
    assert manager.call("broker", "deleteAddress", "q", True) is None
    assert "q" not in manager.read("broker", "AddressNames")
    assert "q" not in manager.read("broker", "QueueNames")


# -- contents --------------------------------------------------------------------------------------------------------


def fill(manager: Manager, count: int) -> None:
    manager.peer.create_queue("q")
    manager.peer.send(*[SessionSend(letter(f"m{number}"), False, -1) for number in range(count)])


@pytest.mark.parametrize("count", [0, 3, 1000])
def test_a_purge_removes_what_waits_and_counts_it(manager: Manager, count: int) -> None:
    fill(manager, count)
    assert manager.call("queue.q", "removeAllMessages") == count
    assert manager.read("queue.q", "MessageCount") == 0
    assert manager.peer.stage.node.kernel.memory.address_bytes("q") == 0
    manager.peer.stage.node.kernel.check()


def test_one_message_is_removed_by_its_id(manager: Manager) -> None:
    fill(manager, 3)
    listed = json.loads(manager.call("queue.q", "listMessagesAsJSON", None))
    assert manager.call("queue.q", "removeMessage", listed[1]["messageID"]) is True
    assert manager.call("queue.q", "removeMessage", listed[1]["messageID"]) is False
    assert manager.read("queue.q", "MessageCount") == 2


def test_messages_are_listed_with_headers_and_properties_in_one_object(manager: Manager) -> None:
    fill(manager, 1)
    (shown,) = json.loads(manager.call("queue.q", "listMessagesAsJSON", None))
    assert shown == {
        "durable": False, "address": "q", "_AMQ_ROUTING_TYPE": 1, "messageID": shown["messageID"], "expiration": 0,
        "type": 0, "priority": 4, "timestamp": 0,
    }  # fmt: skip
    assert json.loads(manager.read("queue.q", "FirstMessageAsJSON")) == [shown]
    assert json.loads(manager.call("queue.q", "peekFirstMessageAsJSON")) == shown


def test_lists_and_filtered_counts_stop_at_200_messages(manager: Manager) -> None:
    """Artemis' QueueControlTest.testBrowseLimitOnListBrowseAndFilteredCount."""
    fill(manager, 300)
    assert len(json.loads(manager.call("queue.q", "listMessagesAsJSON", ""))) == 200
    assert manager.call("queue.q", "countMessages", "AMQPriority = 4") == 200
    assert manager.call("queue.q", "countMessages") == 300


def test_an_invalid_filter_changes_nothing(manager: Manager) -> None:
    fill(manager, 2)
    text = manager.failure("queue.q", operation="removeMessages", body='["a = = b"]')
    assert text.startswith("AMQ229020: Invalid filter:")
    assert manager.read("queue.q", "MessageCount") == 2


def test_messages_become_dead_letters(manager: Manager) -> None:
    fill(manager, 2)
    assert manager.call("queue.q", "sendMessagesToDeadLetterAddress", None) == 2
    assert manager.read("queue.DLQ", "MessageCount") == 2
    assert manager.read("queue.q", "MessagesKilled") == 2
    assert manager.read("queue.q", "MessagesAcknowledged") == 0
    manager.call("queue.q", "resetMessagesKilled")
    assert manager.read("queue.q", "AcknowledgeAttempts") == 2


def test_messages_expire(manager: Manager) -> None:
    fill(manager, 2)
    assert manager.call("queue.q", "expireMessages", "") == 2
    assert manager.read("queue.ExpiryQueue", "MessageCount") == 2
    assert manager.read("queue.q", "MessagesExpired") == 2


def test_routed_and_unrouted_messages_are_counted(manager: Manager) -> None:
    manager.call("broker", "createAddress", "t", "MULTICAST")
    manager.peer.send(SessionSend(letter("m", "t", anycast=False), False, -1))
    assert manager.read("address.t", "RoutedMessageCount") == 0
    assert manager.read("address.t", "UnRoutedMessageCount") == 1


# -- lists -----------------------------------------------------------------------------------------------------------


def names(manager: Manager, options: dict[str, str] | None, page: int = -1, size: int = -1) -> list[str]:
    text = manager.call("broker", "listQueues", "" if options is None else json.dumps(options), page, size)
    return [row["name"] for row in json.loads(text)["data"]]


def test_queues_are_listed_in_pages(manager: Manager) -> None:
    for number in range(5):
        manager.peer.create_queue(f"q{number}")
    contains = {"field": "name", "operation": "CONTAINS", "value": "q"}
    assert names(manager, contains) == ["q0", "q1", "q2", "q3", "q4"]
    assert names(manager, contains, 2, 2) == ["q2", "q3"]
    assert names(manager, contains, 9, 2) == []
    assert names(manager, {**contains, "sortField": "name", "sortOrder": "desc"}, 1, 2) == ["q4", "q3"]
    assert json.loads(manager.call("broker", "listQueues", json.dumps(contains), 1, 2))["count"] == 5


def test_fields_have_the_names_of_the_command_line_too(manager: Manager) -> None:
    fill(manager, 3)
    options = {"field": "MESSAGE_COUNT", "operation": "GREATER_THAN", "value": "2", "sortField": "NAME"}
    assert names(manager, options) == ["q"]


def test_the_options_of_the_command_line_select_everything(manager: Manager) -> None:
    manager.peer.create_queue("q")
    assert "q" in names(manager, {"field": "", "value": "", "operation": ""}, 1, 50)


def test_a_number_that_is_compared_with_a_text_matches_nothing(manager: Manager) -> None:
    """Artemis' ActiveMQServerControlTest.testListQueuesNumericFilterInvalid."""
    manager.peer.create_queue("q")
    assert names(manager, {"field": "messageCount", "operation": "GREATER_THAN", "value": "many"}) == []
    assert "q" in names(manager, {"field": "messageCount", "operation": "LESS_THAN", "value": "1"})


def test_an_element_of_the_list_of_queues_has_texts_only(manager: Manager) -> None:
    fill(manager, 2)
    options = {"field": "name", "operation": "EQUALS", "value": "q"}
    (row,) = json.loads(manager.call("broker", "listQueues", json.dumps(options), 1, 1))["data"]
    assert all(isinstance(value, str) for value in row.values())
    assert (row["messageCount"], row["routingType"], row["durable"], row["filter"]) == ("2", "ANYCAST", "true", "")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("{", "the options are not JSON"),
        ("[]", "the options must be a JSON object"),
        ('{"field":"name"}', "the options have no 'operation'"),
        ('{"field":"nope","operation":"EQUALS","value":"x"}', "the list has no field 'nope'"),
        ('{"field":"name","operation":"LIKE","value":"x"}', "there is no operation 'LIKE'"),
        ('{"field":{},"operation":[],"value":null,"sortField":"nope"}', "the list has no field 'nope'"),
    ],
)
def test_wrong_options(manager: Manager, options: str, text: str) -> None:
    body = json.dumps([options, 1, 1])
    assert manager.failure("broker", operation="listQueues", body=body).startswith(text)


def test_connections_sessions_and_consumers_are_listed(manager: Manager) -> None:
    (connection,) = json.loads(manager.call("broker", "listConnections", "", 1, 10))["data"]
    (session,) = json.loads(manager.call("broker", "listSessions", "", 1, 10))["data"]
    (consumer,) = json.loads(manager.call("broker", "listConsumers", "", 1, 10))["data"]
    assert connection["protocol"] == "CORE" and connection["sessionCount"] == 1
    assert session["connectionID"] == connection["connectionID"]
    assert (consumer["session"], consumer["queue"], session["consumerCount"]) == (session["id"], "replies", 1)
    assert manager.read("broker", "ConnectionCount") == manager.read("broker", "SessionCount") == 1
    assert manager.call("broker", "listConnectionIDs") == [connection["connectionID"]]
    assert manager.call("broker", "listSessions", connection["connectionID"]) == [session["id"]]


def test_a_consumer_shows_what_it_holds_and_has_a_number_in_the_broker(manager: Manager) -> None:
    stage = manager.peer.stage
    other = stage.connect().open_session("other", transacted=True)
    fill(manager, 3)
    other.consume()
    first = other.packets(SessionReceiveMessage)[0].message.message_id
    other.send(SessionAcknowledge(0, first, False))
    rows = json.loads(manager.call("broker", "listAllConsumersAsJSON"))
    (row,) = [each for each in rows if each["queueName"] == "q"]
    taken = [row[name] for name in ("messagesInTransit", "deliveringCount", "messagesAcknowledgedAwaitingCommit")]
    assert taken == [2, 2, 1] and row["messagesInTransitSize"] > 2 * len("x")
    # The key of a consumer is of its session; this number is of the broker.
    assert len({each["sequentialId"] for each in rows}) == len(rows) == 2
    (of_queue,) = json.loads(manager.call("queue.q", "listConsumersAsJSON"))
    assert of_queue == {name: value for name, value in row.items() if name not in ("queueName", "deliveringCount")}
    options = json.dumps({"field": "queue", "operation": "EQUALS", "value": "q"})
    (paged,) = json.loads(manager.call("broker", "listConsumers", options, 1, 10))["data"]
    assert paged["id"] == str(row["sequentialId"]) and paged["messagesAcknowledgedAwaitingCommit"] == "1"
    assert paged["creationTime"] == time_text(row["creationTime"])
    assert manager.call("broker", "closeConsumerWithID", "other", "77") is False
    assert manager.call("broker", "closeConsumerWithID", "other", paged["id"]) is True
    assert manager.read("queue.q", "ConsumerCount") == 0


def test_times_of_pages_are_texts_in_the_order_of_time(manager: Manager) -> None:
    stage = manager.peer.stage
    for name in ("second", "third"):
        stage.advance(20)
        stage.connect().open_session(name)
    # Artemis requires the parts of a filter in any case; empty ones are none.
    options = json.dumps({"field": "", "operation": "", "value": "", "sortField": "creationTime", "sortOrder": "desc"})
    rows = json.loads(manager.call("broker", "listSessions", options, 1, 10))["data"]
    assert [row["id"] for row in rows][:2] == ["third", "second"]
    assert rows[0]["creationTime"] == time_text(stage.node.kernel.now_ms)


def test_the_size_of_an_address_in_percent_of_its_limit(manager: Manager) -> None:
    assert manager.read("address.replies", "AddressLimitPercent") == 0
    fill(manager, 2)
    size = manager.read("address.q", "AddressSize")
    manager.call("broker", "addAddressSettings", "q", json.dumps({"maxSizeBytes": 2 * size}))
    assert manager.read("address.q", "AddressLimitPercent") == 50
    options = json.dumps({"field": "name", "operation": "EQUALS", "value": "q"})
    (row,) = json.loads(manager.call("broker", "listAddresses", options, 1, 1))["data"]
    assert row["addressLimitPercent"] == "50"


def test_the_next_message_is_shown_whole(manager: Manager) -> None:
    manager.peer.create_queue("q")
    manager.call("queue.q", "sendMessage", {"long": "x" * 300}, 3, "text", True, None, None)
    assert json.loads(manager.call("queue.q", "peekFirstMessageAsJSON"))["long"] == "x" * 300
    (listed,) = json.loads(manager.read("queue.q", "FirstMessageAsJSON"))
    assert listed["long"] == "x" * 256 + ", + 44 more"


def test_settings_are_attributes(manager: Manager) -> None:
    settings = {"deadLetterAddress": "dead", "expiryAddress": "expired"}
    manager.call("broker", "addAddressSettings", "q", json.dumps(settings))
    manager.peer.create_queue("q")
    found = [manager.read("queue.q", name) for name in ("DeadLetterAddress", "ExpiryAddress")]
    assert found == ["dead", "expired"]
    config = manager.peer.stage.node.kernel.config
    for name, expected in {
        "TransactionTimeout": config.transaction_timeout_ms, "IDCacheSize": config.id_cache_size,
        "JournalDirectory": config.data_directory, "AuthenticationSuccessCount": 0,
    }.items():  # fmt: skip
        assert manager.read("broker", name) == expected
    assert manager.call("broker", "getClusterConnectionNames") == []


def test_closing_a_connection(manager: Manager) -> None:
    other = manager.peer.stage.connect().open_session("other")
    identifier = manager.call("broker", "listConnectionIDs")[1]
    assert manager.call("broker", "closeConnectionWithID", "nope") is False
    assert manager.call("broker", "closeConnectionWithID", identifier) is True
    assert other.closed is not None
    assert manager.read("broker", "ConnectionCount") == 1
    assert manager.read("broker", "TotalConnectionCount") == 2


# -- moves -----------------------------------------------------------------------------------------------------------


def test_messages_are_moved_to_a_queue_with_their_origin(manager: Manager) -> None:
    fill(manager, 100)
    manager.peer.create_queue("other")
    assert manager.call("queue.q", "moveMessages", "", "other") == 100
    assert (manager.read("queue.q", "MessageCount"), manager.read("queue.other", "MessageCount")) == (0, 100)
    first, *_ = json.loads(manager.call("queue.other", "listMessagesAsJSON", None))
    assert (first["address"], first["_AMQ_ORIG_ADDRESS"], first["_AMQ_ORIG_QUEUE"]) == ("other", "q", "q")
    assert manager.call("queue.other", "moveMessage", first["messageID"], "q::q") is True
    assert manager.call("queue.other", "moveMessage", first["messageID"], "q") is False
    manager.peer.stage.node.kernel.check()


def test_a_move_goes_to_the_named_queue_alone(manager: Manager) -> None:
    """Artemis' QueueControlTest.testMoveMessageToFQQN."""
    fill(manager, 1)
    for name in ("one", "two"):
        manager.call("broker", "createQueue", "t", "MULTICAST", name, None, True, -1, False, True)
    assert manager.call("queue.q", "moveMessages", None, "t::two") == 1
    assert (manager.read("queue.one", "MessageCount"), manager.read("queue.two", "MessageCount")) == (0, 1)


def test_a_move_to_a_queue_that_does_not_exist_changes_nothing(manager: Manager) -> None:
    fill(manager, 2)
    text = manager.failure("queue.q", operation="moveMessages", body='["","nope"]')
    assert text == "AMQ229049: No queue found for nope"
    assert manager.read("queue.q", "MessageCount") == 2


def test_dead_letters_are_sent_back(manager: Manager) -> None:
    fill(manager, 3)
    manager.call("queue.q", "sendMessagesToDeadLetterAddress", None)
    one = json.loads(manager.call("queue.DLQ", "listMessagesAsJSON", None))[1]
    assert manager.call("queue.DLQ", "retryMessage", one["messageID"]) is True
    assert manager.call("queue.DLQ", "retryMessages") == 2
    assert (manager.read("queue.q", "MessageCount"), manager.read("queue.DLQ", "MessageCount")) == (3, 0)
    back = json.loads(manager.call("queue.q", "listMessagesAsJSON", None))
    assert all(message["_AMQ_ROUTING_TYPE"] == 1 for message in back)


def test_a_message_whose_queue_is_gone_stays(manager: Manager) -> None:
    """Artemis' QueueControlTest.testRetryMessageReturnedWhenNoOrigQueue."""
    fill(manager, 1)
    manager.call("queue.q", "sendMessagesToDeadLetterAddress", None)
    manager.call("broker", "destroyQueue", "q")
    assert manager.call("queue.DLQ", "retryMessages") == 0
    assert manager.read("queue.DLQ", "MessageCount") == 1


def test_a_retry_moves_only_messages_with_an_origin(manager: Manager) -> None:
    fill(manager, 2)
    manager.call("queue.q", "sendMessagesToDeadLetterAddress", "AMQPriority = 9")
    assert manager.call("queue.q", "retryMessages") == 0


# -- load ------------------------------------------------------------------------------------------------------------


def test_a_long_removal_is_done_in_portions(manager: Manager) -> None:
    stage = manager.peer.stage
    fill(manager, 20_000)
    manager.peer.send(SessionSend(request_of("queue.q", operation="removeAllMessages"), False))
    assert manager.peer.clear() == [], "the answer came in the step of the request"
    assert stage.node.kernel.has_work
    stage.run()
    (reply,) = manager.peer.clear()
    assert isinstance(reply, SessionReceiveMessage) and decode_text(reply.message.body) == "[20000]"
    assert manager.read("queue.q", "MessageCount") == 0


def test_too_many_long_operations_are_refused(manager: Manager) -> None:
    fill(manager, 20_000)
    request = request_of("queue.q", operation="countMessages", body='["AMQPriority = 1"]')
    manager.peer.send(*[SessionSend(request, False)] * 101)
    manager.peer.stage.run()
    texts = [decode_text(packet.message.body) for packet in manager.peer.packets(SessionReceiveMessage)]
    assert sum(text is not None and "AMQ229245" in text for text in texts) == 1
    assert manager.read("broker", "Started") is True


def test_a_result_that_is_too_large_is_refused(manager: Manager) -> None:
    kernel = manager.peer.stage.node.kernel
    for number in range(200):
        manager.peer.create_queue(f"{number:05}" + "x" * 1000)
    before = kernel.memory.limit_bytes
    kernel.memory.limit_bytes = 100_000
    text = manager.failure("broker", attribute="QueueNames")
    assert text == "the result is too large for a reply: request it in pages, or with a filter"
    kernel.memory.limit_bytes = before
    assert len(manager.read("broker", "QueueNames")) == 203
