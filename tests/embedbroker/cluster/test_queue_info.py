"""What a bridge of Artemis receives from a node: the snapshot that it requests, and the notifications behind it.

Compared with recorded frames, byte for byte, but for what differs from run to run: see ``in_place_of``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from embedbroker.cluster import RemoteBindings
from embedbroker.config import ClusterConnection, MessageLoadBalancing, SecuritySetting, User
from embedbroker.kernel import DeferredWork, QueueRequest
from embedclient.model import TransportConfiguration
from embedclient.wire.core import (
    CoreMessage,
    CreateQueueV2,
    DeleteQueue,
    MessageType,
    Packet,
    SessionClose,
    SessionConsumerClose,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionReceiveMessage,
    SessionSend,
    SessionStart,
    decode_text,
)
from tests.embedbroker.node.managing import manager_of, request_of
from tests.embedbroker.node.scripted import Peer, Stage, letter

from .bridge_traffic import in_place_of, notifications_of, subscription_of, traffic

ANYCAST, MULTICAST = 1, 0
FORMATION, LIVE = "cluster-formation-two-nodes", "cluster-notifications"
REQUEST = ("broker", "sendQueueInfoToQueue")


def kind_of(packet: SessionReceiveMessage) -> str:
    properties = packet.message.properties
    name = "_AMQ_NotifType" if "_AMQ_NotifType" in properties else next(iter(properties))
    return str(properties[name]) if name == "_AMQ_NotifType" else name


def key(packet: SessionReceiveMessage) -> tuple[str, str, str]:
    properties = packet.message.properties
    return kind_of(packet), str(properties.get("_AMQ_RoutingName")), str(properties.get("_AMQ_FilterString"))


def taken(peer: Peer) -> list[SessionReceiveMessage]:
    peer.stage.settle_disk()
    return [packet for packet in peer.clear() if isinstance(packet, SessionReceiveMessage)]


def create(stage: Stage, name: str, address: str, routing_type: int, filter: str | None = None) -> None:
    request = QueueRequest(address, name, filter, routing_type=routing_type)
    stage.node.kernel.address_manager.create_queue(request)


def consumers(*filters: str | None) -> list[SessionCreateConsumer]:
    return [SessionCreateConsumer(number, "q1", filter, False, False) for number, filter in enumerate(filters)]


def test_a_recorded_bridge_gets_the_recorded_snapshot() -> None:
    stage = Stage(
        connectors={"A": TransportConfiguration("A", parameters={"host": "127.0.0.1", "port": "64617"})},
        cluster_connections=ClusterConnection(connector="A"),
        cluster_user="clusterUser",
        cluster_password="clusterPass",
    )
    # What the recorded broker had.
    for name in ("DLQ", "ExpiryQueue", "$sys.mqtt.sessions", "q1"):
        create(stage, name, name, ANYCAST)
    create(stage, "t1.sub", "t1", MULTICAST, "colour='red'")
    stage.connect().open_session().send(*consumers("size > 5", None, "size > 5"))
    bridge = stage.accept()
    for each in traffic(FORMATION, 7, "B"):
        bridge.send_bytes(each.data)
        stage.settle_disk()
    ours, recorded = taken(bridge), notifications_of(FORMATION, 7, "A")
    assert [key(packet) for packet in ours[:1]] == [key(packet) for _data, packet in recorded[:1]]
    assert [key(packet) for packet in ours[-1:]] == [key(packet) for _data, packet in recorded[-1:]]
    # Artemis sends queues in no order, and the consumers of each behind it.
    at = [key(packet)[1] for packet in ours].index("q1")
    filters = ["None", "None", "size > 5", "size > 5"]
    assert [key(packet)[1:] for packet in ours[at : at + 4]] == [("q1", filter) for filter in filters]
    ours.sort(key=key)
    recorded.sort(key=lambda each: key(each[1]))
    assert [key(packet) for packet in ours] == [key(packet) for _data, packet in recorded]
    for packet, (data, model) in zip(ours, recorded, strict=True):
        assert in_place_of(model, packet, stage.node.node_id) == data


def test_live_notifications_are_the_recorded_ones() -> None:
    stage = Stage(
        users=[User("admin", "admin", roles=["admin"])], security_settings={"#": SecuritySetting.all("admin")}
    )
    bridge = stage.connect().open_session(user="admin", password="admin")
    wanted = subscription_of(FORMATION, 7, "B")
    bridge.send(
        wanted,
        SessionCreateConsumer(0, wanted.queue_name, None, False, False),
        SessionConsumerFlowCredit(0, -1),
        SessionStart(),
    )
    client = stage.connect().open_session("5e6df733-e552-11f1-9217-02fc00000001", user="admin", password="admin")
    taken(bridge)
    subscription = "a30c38cf-9bf9-4563-8ff2-32c6ab423abe"
    client.send(
        CreateQueueV2("q7", "q7", None, True, False, True, True, ANYCAST),
        SessionCreateConsumer(0, "q7", None, False, False),
        SessionCreateConsumer(1, "q7", "colour = 'red'", False, False),
        SessionConsumerClose(1),
        SessionConsumerClose(0),
        CreateQueueV2("t7", subscription, None, False, True, True, False, MULTICAST),
        SessionCreateConsumer(2, subscription, None, False, False),
        SessionConsumerClose(2),
        DeleteQueue(subscription),
    )
    other = stage.connect().open_session("60731605-e552-11f1-9217-02fc00000001", user="admin", password="admin")
    other.send(SessionClose())
    ours, recorded = taken(bridge), notifications_of(LIVE, 4, "A")
    assert [key(packet) for packet in ours] == [key(packet) for _data, packet in recorded]
    for packet, (data, model) in zip(ours, recorded, strict=True):
        assert in_place_of(model, packet, stage.node.node_id) == data


# -- the operation -----------------------------------------------------------------------------------------------------


def collecting(stage: Stage, filter: str | None = None, queue: str = "notif.b") -> Peer:
    peer = stage.connect().open_session()
    peer.send(
        CreateQueueV2("activemq.notifications", queue, filter, False, True, True, False, MULTICAST),
        SessionCreateConsumer(0, queue, None, False, False),
        SessionConsumerFlowCredit(0, -1),
    )
    taken(peer)
    return peer


def asking(queue: str = "notif.b") -> SessionSend:
    return SessionSend(
        request_of(*REQUEST[:1], operation=REQUEST[1], body=json.dumps([queue, ""]), reply_to=None), False, -1
    )


def names(packets: Iterable[SessionReceiveMessage]) -> list[str]:
    return [f"{kind} {name}" if kind[0] != "_" else kind for kind, name, _filter in map(key, packets)]


def test_the_snapshot_has_its_exact_place_among_the_notifications() -> None:
    stage = Stage()
    peer = collecting(stage, "_AMQ_Address LIKE 'q%'")
    for number in range(200):
        create(stage, f"q{number}", f"q{number}", ANYCAST)
    client = stage.connect().open_session()
    taken(peer)
    # One read: the snapshot takes several steps, and what happens behind it is not in it.
    client.send(
        SessionCreateConsumer(1, "q7", None, False, False),
        asking(),
        SessionCreateConsumer(2, "q9", None, False, False),
        CreateQueueV2("qlast", "qlast", None, False, False, False, False, ANYCAST),
    )
    found = names(taken(peer))
    begin, end = found.index("_AMQ_RESET_QUEUE_DATA"), found.index("_AMQ_RESET_QUEUE_DATA_COMPLETE")
    assert found[:begin] == ["CONSUMER_CREATED q7"]
    expected = [f"BINDING_ADDED q{number}" for number in range(200)]
    expected.insert(8, "CONSUMER_CREATED q7")
    assert found[begin + 1 : end] == expected
    assert found[end + 1 :] == ["CONSUMER_CREATED q9", "BINDING_ADDED qlast"]


def test_browsers_are_not_in_the_snapshot_and_the_filter_selects_addresses() -> None:
    stage = Stage()
    peer = collecting(stage, "_AMQ_Address LIKE 'eu.%'")
    for name in ("eu.orders", "us.orders"):
        create(stage, name, name, ANYCAST)
    client = stage.connect().open_session()
    client.consume("eu.orders", 1, browse=True)
    client.consume("us.orders", 2)
    taken(peer)
    client.send(asking())
    assert names(taken(peer)) == [
        "_AMQ_RESET_QUEUE_DATA", "BINDING_ADDED eu.orders", "_AMQ_RESET_QUEUE_DATA_COMPLETE",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "filter",
    [
        "_AMQ_RoutingName = 'eu.orders' AND _AMQ_Distance = 0",  # reads more than decides about most filters
        "_AMQ_Binding_Type IS NULL AND _AMQ_NotifType = 'BINDING_ADDED' AND _AMQ_Address LIKE 'eu.%'",
    ],
)
def test_the_filter_counts_for_each_message_of_the_snapshot(filter: str) -> None:
    stage = Stage()
    peer = collecting(stage, filter)
    client = stage.connect().open_session()
    for number, name in enumerate(("eu.orders", "us.orders")):
        create(stage, name, name, ANYCAST)
        client.consume(name, number)
    taken(peer)
    client.send(asking())
    kinds = [name for name in names(taken(peer)) if "RESET" not in name]
    assert kinds == ["BINDING_ADDED eu.orders", "CONSUMER_CREATED eu.orders"][: 2 if "Routing" in filter else 1]


def test_a_queue_that_is_deleted_gets_no_more_of_its_snapshot() -> None:
    stage = Stage()
    peer = collecting(stage)
    for number in range(200):
        create(stage, f"q{number}", f"q{number}", ANYCAST)
    taken(peer)
    peer.send(asking(), SessionConsumerClose(0), DeleteQueue("notif.b"))
    assert len(taken(peer)) < 202
    assert "notif.b" not in stage.node.kernel.address_manager.queues
    assert stage.node.kernel.memory.used_bytes == 0


def test_a_null_address_is_an_empty_one() -> None:
    """ActiveMQServerControlImpl.sendQueueInfoToQueue; every address begins with the empty one."""
    stage = Stage()
    create(stage, "q1", "q1", ANYCAST)
    peer = collecting(stage, "_AMQ_Address = 'q1'")
    request = request_of("broker", operation=REQUEST[1], body='["notif.b", null]', reply_to=None)
    peer.send(SessionSend(request, False, -1))
    assert names(taken(peer)) == ["_AMQ_RESET_QUEUE_DATA", "BINDING_ADDED q1", "_AMQ_RESET_QUEUE_DATA_COMPLETE"]


def test_a_snapshot_announces_a_durable_queue_once_it_is_on_the_disk() -> None:
    stage = Stage(durable=True)
    stage.settle_disk()
    peer = collecting(stage, "_AMQ_Address = 'q1'")
    taken(peer)
    create(stage, "q1", "q1", ANYCAST)
    request = request_of("broker", operation=REQUEST[1], body='["notif.b", null]', reply_to=None)
    peer.send(SessionSend(request, False, -1))
    stage.run()
    assert [packet for packet in peer.clear() if isinstance(packet, SessionReceiveMessage)] == []
    assert "BINDING_ADDED q1" in names(taken(peer))


def test_a_snapshot_does_not_wait_for_messages_that_the_disk_does_not_take() -> None:
    stage = Stage(durable=True)
    stage.settle_disk()
    peer = collecting(stage, "_AMQ_Address = 'q1'")
    other = stage.connect().open_session()
    other.send(CreateQueueV2("q1", "q1", None, True, False, True, True, ANYCAST))
    assert names(taken(peer)) == ["BINDING_ADDED q1"]
    other.send(SessionSend(letter("m", "q1", durable=True), False, -1))
    peer.send(asking())
    stage.run()
    assert stage.work
    found = [packet for packet in peer.clear() if isinstance(packet, SessionReceiveMessage)]
    assert names(found) == ["_AMQ_RESET_QUEUE_DATA", "BINDING_ADDED q1", "_AMQ_RESET_QUEUE_DATA_COMPLETE"]


def test_an_unknown_queue_is_refused() -> None:
    stage = Stage()
    manager = manager_of(stage)
    text = manager.failure("broker", operation=REQUEST[1], body='["missing", ""]')
    assert text == "AMQ229017: Queue missing does not exist"
    text = manager.failure("broker", operation=REQUEST[1], body="[null, null]")
    assert text == "AMQ229017: Queue null does not exist"


def test_a_broker_without_room_refuses_the_snapshot() -> None:
    stage = Stage(memory_limit_bytes=100_000)
    peer = collecting(stage, "_AMQ_Address = 'none'")
    for number in range(300):
        create(stage, f"q{number}", f"q{number}", ANYCAST)
    manager = manager_of(stage)
    text = manager.failure("broker", operation=REQUEST[1], body='["notif.b", ""]')
    assert text.startswith("the broker is full: there is no room for 30")
    assert taken(peer) == []


def many_queues(stage: Stage, count: int) -> None:
    for number in range(count):
        create(stage, f"q{number}", f"q{number}", ANYCAST)


def snapshots_in(stage: Stage, queues: Iterable[str]) -> int:
    """Return how many of these queues got a snapshot. Only what is complete counts."""
    sizes = [stage.node.kernel.address_manager.queues[name].backlog.size for name in queues]
    assert set(sizes) <= {0, 2 + len(stage.node.kernel.address_manager.queues)}
    return len(sizes) - sizes.count(0)


def test_what_snapshots_are_yet_to_send_counts_as_used() -> None:
    stage = Stage(memory_limit_bytes=1_000_000, global_max_size_margin_bytes=0)
    many_queues(stage, 200)
    targets = [f"t{number}" for number in range(20)]
    for name in targets:
        create(stage, name, name, ANYCAST)
    stage.connect().open_session().send(*map(asking, targets))
    stage.settle_disk()
    memory = stage.node.kernel.memory
    assert 0 < memory.used_bytes <= memory.limit_bytes
    assert snapshots_in(stage, targets) == 4
    # What has been sent counts no more as announced.
    stage.node.kernel.teardown.purge(stage.node.kernel.address_manager.queues["t0"])
    stage.settle_disk()
    stage.connect().open_session().send(asking("t9"))
    stage.settle_disk()
    assert snapshots_in(stage, ["t9"]) == 1


def test_a_queue_gets_one_snapshot_at_a_time() -> None:
    stage = Stage()
    peer = collecting(stage, queue="notif.b")
    many_queues(stage, 200)
    manager = manager_of(stage)
    taken(peer)
    body = json.dumps(["notif.b", ""])
    request = request_of("broker", operation=REQUEST[1], body=body)
    manager.peer.send(asking(), SessionSend(request, False, -1))
    manager.peer.stage.settle_disk()
    (refusal,) = [packet.message for packet in taken(manager.peer)]
    assert "a snapshot for queue 'notif.b' is under way: try again later" in (decode_text(refusal.body) or "")
    assert names(taken(peer)).count("_AMQ_RESET_QUEUE_DATA") == 1
    manager.call("broker", REQUEST[1], "notif.b", "")
    assert names(taken(peer)).count("_AMQ_RESET_QUEUE_DATA_COMPLETE") == 1


def test_only_some_snapshots_are_under_way_at_once() -> None:
    stage = Stage()
    many_queues(stage, 100)
    targets = [f"t{number}" for number in range(40)]
    for name in targets:
        create(stage, name, name, ANYCAST)
    stage.connect().open_session().send(*map(asking, targets))
    stage.settle_disk()
    assert snapshots_in(stage, targets) == 32


def test_a_bridge_that_connects_again_and_again_gets_its_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time with another queue: those of the lost connections neither count nor take steps."""
    stage = Stage(memory_limit_bytes=1_000_000, global_max_size_margin_bytes=0)
    many_queues(stage, 400)
    peer = collecting(stage, queue="notif.last")
    client = stage.connect().open_session()
    done: list[int] = []
    run = DeferredWork.run

    def counted(deferred: DeferredWork, budget: int) -> int:
        done.append(run(deferred, budget))
        return done[-1]

    monkeypatch.setattr(DeferredWork, "run", counted)
    client.send(asking("notif.last"))
    stage.run()
    work_of_one = sum(done)
    assert work_of_one > 10_000
    done.clear()
    assert names(taken(peer))[-1] == "_AMQ_RESET_QUEUE_DATA_COMPLETE"
    requests: list[Packet] = []
    for number in range(40):
        name = f"notif.{number}"
        requests += [
            CreateQueueV2("other", name, None, False, True, True, False, MULTICAST), asking(name), DeleteQueue(name),
        ]  # fmt: skip
    client.send(*requests, asking("notif.last"))
    stage.run()
    assert sum(done) < 3 * work_of_one
    found = names(taken(peer))
    begin = found.index("_AMQ_RESET_QUEUE_DATA")
    assert len([name for name in found[begin:] if name.startswith("BINDING_ADDED q")]) == 400
    assert found[-1] == "_AMQ_RESET_QUEUE_DATA_COMPLETE"


def test_the_other_side_understands_it() -> None:
    """The table of the requesting broker is that of this one, also behind changes."""
    stage = Stage()
    sf = stage.node.kernel.address_manager.queues["DLQ"]
    table = RemoteBindings(
        stage.node.node_id, "ffffffff-0000-0000-0000-000000000000", 1, sf, MessageLoadBalancing.OFF, print
    )
    wanted = subscription_of(FORMATION, 7, "B").filter
    peer = collecting(stage, wanted)
    create(stage, "orders", "shop.orders", ANYCAST)
    create(stage, "audit", "shop", MULTICAST, "size > 5")
    client = stage.connect().open_session()
    client.send(SessionCreateConsumer(1, "orders", "a = 1", False, False), asking())
    client.send(SessionCreateConsumer(2, "shop.orders::orders", None, False, False), DeleteQueue("audit"))
    client.send(SessionConsumerClose(1))
    for packet in taken(peer):
        table.on_message(packet.message)
    node = stage.node.node_id
    assert set(table.by_cluster_name) == {f"{name}{node}" for name in ("DLQ", "ExpiryQueue", "orders")}
    binding = table.by_cluster_name[f"orders{node}"]
    assert (binding.address, binding.routing_name) == ("shop.orders", "shop.orders")
    assert (binding.consumer_count, binding.consumer_filters, binding.distance) == (1, {}, 1)
    assert binding.remote_queue_id == stage.node.kernel.address_manager.queues["orders"].id


def test_the_messages_are_of_the_default_type() -> None:
    stage = Stage()
    peer = collecting(stage)
    peer.send(asking())
    for packet in taken(peer):
        message: CoreMessage = packet.message
        assert message.type == MessageType.DEFAULT and not message.durable and message.address == "notif.b"
