"""Notifications: which events reach a queue of their address, and with which properties."""

from __future__ import annotations

from embedbroker.config import DivertConfiguration
from embedbroker.kernel import Divert
from embedbroker.node import TaskDone
from embedclient.wire.core import (
    CreateQueueV2,
    DeleteQueue,
    SessionClose,
    SessionConsumerClose,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionReceiveMessage,
    SessionSend,
    SessionStart,
)

from .managing import manager_of
from .scripted import Peer, Stage, letter

ADDRESS = "activemq.notifications"
MULTICAST, ANYCAST = 0, 1


class Listener:
    """Consumes a queue of the notification address."""

    def __init__(self, stage: Stage, *, filter: str | None = None, durable: bool = False) -> None:
        self.peer = stage.connect().open_session("listener")
        self.peer.send(CreateQueueV2(ADDRESS, "notes", filter, durable, not durable, True, False, MULTICAST))
        self.listen()

    def listen(self) -> None:
        self.peer.send(
            SessionCreateConsumer(9, "notes", None, False, False), SessionConsumerFlowCredit(9, -1), SessionStart()
        )

    def take(self) -> list[dict[str, object]]:
        """The properties of what came since the last time, without the two that all have."""
        self.peer.stage.settle_disk()
        found = []
        for packet in self.peer.clear():
            if isinstance(packet, SessionReceiveMessage):
                assert packet.message.durable and packet.message.priority == 0 and packet.message.type == 0
                properties: dict[str, object] = dict(packet.message.properties)
                assert properties.pop("_AMQ_NotifTimestamp") == packet.message.timestamp > 0
                found.append(properties)
        return found

    def kinds(self) -> list[object]:
        return [properties["_AMQ_NotifType"] for properties in self.take()]


def other(stage: Stage) -> Peer:
    return stage.connect().open_session("other")


def test_an_acceptor_that_is_stopped_and_started() -> None:
    stage = Stage()
    listener, manager = Listener(stage), manager_of(stage)
    listener.take()
    stage.on_task = lambda task: stage.step(TaskDone(task.number, 61616, None))
    for operation in ("stop", "start"):
        manager.call("acceptor.artemis", operation)
    stopped, started = listener.take()
    common = {
        "factory": "org.apache.activemq.artemis.core.remoting.impl.netty.NettyAcceptorFactory",
        "host": "127.0.0.1", "port": 61616,
    }  # fmt: skip
    assert stopped == {**common, "_AMQ_NotifType": "ACCEPTOR_STOPPED"}
    assert started == {**common, "_AMQ_NotifType": "ACCEPTOR_STARTED"}
    # What changes nothing is no event.
    stage.on_task = lambda task: stage.step(TaskDone(task.number, 0, None))
    manager.call("acceptor.artemis", "stop")
    assert listener.take() == []


def test_nothing_is_made_while_no_queue_is_bound() -> None:
    stage = Stage()
    peer = other(stage)
    peer.create_queue()
    peer.consume()
    events = stage.node.kernel.observers.commit
    assert not (events.session_added or events.session_removed or events.consumer_added or events.consumer_removed)
    # What begins with the first such queue, and what finds messages for new queues.
    observers = {type(getattr(each, "__self__", None)).__name__ for each in events.queue_added}
    assert observers == {"NotificationWatch", "Redistribution"}
    assert ADDRESS not in stage.node.kernel.address_manager.addresses


def test_nothing_is_made_after_the_last_queue_is_gone() -> None:
    stage = Stage()
    listener = Listener(stage)
    listener.peer.lose()
    last = stage.node.kernel.ids.next_id
    other(stage)
    assert stage.node.kernel.ids.next_id == last


def test_nothing_is_made_that_all_filters_refuse() -> None:
    stage = Stage()
    wanted = "_AMQ_NotifType IN ('BINDING_ADDED', 'BINDING_REMOVED') AND _AMQ_Distance < 1"
    listener = Listener(stage, filter=f"{wanted} AND (_AMQ_Address NOT LIKE 'a%') AND _AMQ_FilterString IS NULL")
    assert listener.take() == []
    ids = stage.node.kernel.ids
    peer = other(stage)
    last = ids.next_id
    peer.send(SessionClose())
    assert ids.next_id == last
    listener.peer.send(CreateQueueV2("apples", "a1", None, True, False, True, False, MULTICAST))
    # What depends on more than type, address and distance is decided by the whole filter.
    for filter in ("a = 1", None):
        listener.peer.send(CreateQueueV2("prices", f"mine {filter}", filter, True, False, True, False, MULTICAST))
    assert [each["_AMQ_ClusterName"] for each in listener.take()] == [f"mine None{stage.node.node_id}"]
    # Another queue wants more, and its end is the end of that.
    second = stage.connect().open_session("second")
    second.send(CreateQueueV2(ADDRESS, "all", None, False, True, True, False, MULTICAST))
    other(stage)
    assert stage.node.kernel.address_manager.queues["all"].message_count == 2
    second.lose()
    last = ids.next_id
    other(stage)
    assert ids.next_id == last


def test_the_binding_of_the_notification_queue_is_the_first_event() -> None:
    stage = Stage()
    assert Listener(stage).kinds() == ["BINDING_ADDED", "CONSUMER_CREATED"]


def test_bindings() -> None:
    stage = Stage()
    listener = Listener(stage)
    listener.take()
    peer = listener.peer
    peer.send(CreateQueueV2("prices", "mine", "a = 1", True, False, True, False, MULTICAST))
    (added,) = listener.take()
    queue = stage.node.kernel.address_manager.queues["mine"]
    assert added == {
        "_AMQ_NotifType": "BINDING_ADDED", "_AMQ_Address": "prices", "_AMQ_RoutingName": "mine", "_AMQ_Distance": 0,
        "_AMQ_ClusterName": f"mine{stage.node.node_id}", "_AMQ_Binding_ID": queue.id, "_AMQ_Binding_Type": 0,
        "_AMQ_FilterString": "a = 1",
    }  # fmt: skip
    peer.send(DeleteQueue("mine"))
    (removed,) = listener.take()
    assert removed.pop("_AMQ_NotifType") == "BINDING_REMOVED"
    del added["_AMQ_NotifType"], added["_AMQ_Binding_Type"]
    assert removed == added


def test_a_durable_queue_is_announced_once_it_is_on_the_disk_and_what_follows_comes_behind() -> None:
    stage = Stage(durable=True)
    stage.settle_disk()
    listener = Listener(stage)
    listener.take()
    peer = other(stage)
    listener.take()
    peer.send(CreateQueueV2("prices", "mine", None, True, False, True, False, MULTICAST))
    peer.send(SessionCreateConsumer(1, "mine", None, False, False))
    stage.run()
    assert [packet for packet in listener.peer.clear() if isinstance(packet, SessionReceiveMessage)] == []
    assert stage.work
    assert listener.kinds() == ["BINDING_ADDED", "CONSUMER_CREATED"]


def test_the_routing_name_of_an_anycast_queue_is_its_address() -> None:
    stage = Stage()
    listener = Listener(stage)
    listener.take()
    listener.peer.send(CreateQueueV2("prices", "mine", None, True, False, True, False, ANYCAST))
    other(stage).send(
        SessionCreateConsumer(1, "prices::mine", None, False, False),
        SessionConsumerClose(1),
        SessionCreateConsumer(2, "mine", None, False, False),
    )
    found = [each for each in listener.take() if each["_AMQ_NotifType"] != "SESSION_CREATED"]
    names = [(each["_AMQ_NotifType"], each["_AMQ_Address"], each["_AMQ_RoutingName"]) for each in found]
    assert names == [
        ("BINDING_ADDED", "prices", "prices"),
        # Only the first names the queue as the consumer did, as in Artemis.
        ("CONSUMER_CREATED", "prices::mine", "prices"),
        ("CONSUMER_CLOSED", "prices", "prices"),
        ("CONSUMER_CREATED", "prices", "prices"),
    ]


def test_the_filter_of_a_queue_changes() -> None:
    stage = Stage()
    listener = Listener(stage)
    listener.take()
    listener.peer.send(CreateQueueV2("prices", "mine", "a = 1", True, False, True, False, MULTICAST))
    listener.take()
    manager = manager_of(stage)
    listener.take()
    common = {
        "_AMQ_NotifType": "BINDING_UPDATED", "_AMQ_Address": "prices", "_AMQ_Distance": 0,
        "_AMQ_ClusterName": f"mine{stage.node.node_id}",
    }  # fmt: skip
    manager.call("broker", "updateQueue", '{"name": "mine", "filter-string": "a = 2"}')
    assert listener.take() == [{**common, "_AMQ_FilterString": "a = 2"}]
    manager.call("broker", "updateQueue", '{"name": "mine", "filter-string": ""}')
    assert listener.take() == [common]


def test_a_binding_without_a_filter_is_removed_with_a_null() -> None:
    stage = Stage()
    listener = Listener(stage)
    listener.peer.create_queue("plain")
    listener.peer.send(DeleteQueue("plain"))
    removed = listener.take()[-1]
    assert removed["_AMQ_NotifType"] == "BINDING_REMOVED" and removed["_AMQ_FilterString"] is None


def test_sessions_and_consumers() -> None:
    stage = Stage()
    listener = Listener(stage)
    listener.peer.create_queue("q")
    listener.take()
    peer = other(stage)
    peer.consume("q", 3)
    peer.send(SessionConsumerClose(3))
    peer.send(SessionClose())
    opened, created, closed, ended = listener.take()
    assert opened == {
        "_AMQ_NotifType": "SESSION_CREATED", "_AMQ_ConnectionName": opened["_AMQ_ConnectionName"], "_AMQ_User": None,
        "_AMQ_SessionName": "other", "_AMQ_Client_ID": None, "_AMQ_Protocol_Name": "CORE", "_AMQ_Address": ADDRESS,
        "_AMQ_Distance": 0,
    }  # fmt: skip
    assert ended == {**opened, "_AMQ_NotifType": "SESSION_CLOSED"}
    assert created == {
        "_AMQ_NotifType": "CONSUMER_CREATED", "_AMQ_Address": "q", "_AMQ_RoutingName": "q", "_AMQ_Distance": 0,
        "_AMQ_ClusterName": f"q{stage.node.node_id}", "_AMQ_ConsumerCount": 1, "_AMQ_User": None,
        "_AMQ_ValidatedUser": None, "_AMQ_CertSubjectDN": "unavailable", "_AMQ_SessionName": "other",
        "_AMQ_ConsumerName": 3, "_AMQ_RemoteAddress": created["_AMQ_RemoteAddress"],
    }  # fmt: skip
    del created["_AMQ_ValidatedUser"], created["_AMQ_CertSubjectDN"]
    expected = {"_AMQ_NotifType": "CONSUMER_CLOSED", "_AMQ_ConsumerCount": 0, "_AMQ_FilterString": None}
    assert closed == {**created, **expected}


def test_a_consumer_with_an_empty_filter_has_no_filter_property() -> None:
    """Artemis' NotificationTest.testConsumerCreatedWithEmptyFilterString."""
    stage = Stage()
    listener = Listener(stage)
    listener.peer.create_queue("q")
    listener.take()
    other(stage).send(
        SessionCreateConsumer(1, "q", "", False, False), SessionCreateConsumer(2, "q", "a = 1", False, False)
    )
    _session, empty, filtered = listener.take()
    assert "_AMQ_FilterString" not in empty and filtered["_AMQ_FilterString"] == "a = 1"


def test_no_other_broker_learns_of_sessions_of_the_cluster_user() -> None:
    """Members select notifications with a distance."""
    stage = Stage()
    listener = Listener(stage)
    listener.take()
    stage.connect().open_session("client", user="anyone")
    stage.connect().open_session("bridge", user=stage.node.config.cluster_user)
    client, bridge = listener.take()
    assert client.pop("_AMQ_Distance") == 0 and "_AMQ_Distance" not in bridge
    assert client.keys() == bridge.keys()


def test_browsers_are_not_published() -> None:
    stage = Stage()
    listener = Listener(stage)
    listener.peer.create_queue("q")
    peer = other(stage)
    listener.take()
    peer.consume("q", 3, browse=True)
    peer.send(SessionConsumerClose(3))
    assert listener.take() == []


def test_a_lost_connection_closes_consumer_and_session() -> None:
    stage = Stage()
    listener = Listener(stage)
    listener.peer.create_queue("q")
    peer = other(stage)
    peer.consume("q", 3)
    listener.take()
    peer.lose()
    assert listener.kinds() == ["CONSUMER_CLOSED", "SESSION_CLOSED"]


def test_the_binding_of_a_divert() -> None:
    """Artemis publishes neither the change nor the removal of a divert."""
    stage = Stage()
    listener = Listener(stage, filter="_AMQ_NotifType LIKE 'BINDING%'")
    listener.take()
    diverts = stage.node.kernel.diverts
    wanted = DivertConfiguration("orders", "audit", routing_name="turns", filter="a = 1")
    for name, each in (("filtered", wanted), ("plain", DivertConfiguration("orders", "audit"))):
        assert isinstance(diverts.create(name, each), Divert)
    ids = [each.definition.id for each in diverts.by_name.values()]
    other(stage)
    assert listener.take() == [
        {
            "_AMQ_NotifType": "BINDING_ADDED", "_AMQ_Address": "orders", "_AMQ_RoutingName": "turns",
            "_AMQ_Distance": 0, "_AMQ_ClusterName": "filtered", "_AMQ_Binding_ID": ids[0], "_AMQ_Binding_Type": 2,
            "_AMQ_FilterString": "a = 1",
        },
        {
            "_AMQ_NotifType": "BINDING_ADDED", "_AMQ_Address": "orders", "_AMQ_RoutingName": "plain",
            "_AMQ_Distance": 0, "_AMQ_ClusterName": "plain", "_AMQ_Binding_ID": ids[1], "_AMQ_Binding_Type": 2,
        },
    ]  # fmt: skip
    diverts.update("plain", forwarding_address="other")
    diverts.remove("plain")
    other(stage)
    assert listener.take() == []


def test_events_that_a_filter_does_not_match_are_not_stored() -> None:
    """Artemis' NotificationTest.testBINDING_ADDEDWithNonMatchingFilter."""
    stage = Stage()
    listener = Listener(stage, filter="_AMQ_NotifType = 'BINDING_ADDED'")
    other(stage).create_queue("q")
    assert listener.kinds() == ["BINDING_ADDED", "BINDING_ADDED"]
    assert stage.node.kernel.memory.used_bytes == 0 or listener.peer.texts == []


def test_a_queue_that_a_restart_restored_gets_notifications() -> None:
    stage = Stage(durable=True)
    listener = Listener(stage, durable=True)
    listener.take()
    stage.boot()
    other(stage)
    listener.peer = stage.connect().open_session("again")
    listener.listen()
    kinds = listener.kinds()
    assert kinds.count("SESSION_CREATED") == 2 and "CONSUMER_CREATED" in kinds


def test_a_full_broker_notifies_only_of_what_other_brokers_count() -> None:
    stage = Stage(memory_limit_bytes=1_000_000)
    listener = Listener(stage)
    listener.peer.create_queue("q")
    listener.take()
    peer = other(stage)
    listener.take()
    memory = stage.node.kernel.memory
    while memory.used_bytes < memory.limit_bytes:
        peer.send(SessionSend(letter("x" * 10_000), False, -1))
    late = stage.connect().open_session("late")
    assert listener.take() == []
    late.send(SessionCreateConsumer(3, "q", None, False, False), SessionConsumerClose(3), DeleteQueue("q"))
    assert listener.kinds() == ["CONSUMER_CREATED", "CONSUMER_CLOSED", "BINDING_REMOVED"]


def test_notifications_leave_room_for_the_answers_of_management() -> None:
    stage = Stage(memory_limit_bytes=2_000_000, global_max_size_margin_bytes=400_000)
    peer = other(stage)
    peer.send(CreateQueueV2("activemq.notifications", "audit", None, True, False, True, False, MULTICAST))
    peer.create_queue("q")
    memory = stage.node.kernel.memory
    while memory.used_bytes < memory.limit_bytes:
        peer.send(SessionSend(letter("x" * 10_000), False, -1))
    used = memory.used_bytes
    for _ in range(1_000):
        peer.send(SessionCreateConsumer(3, "q", None, True, False), SessionConsumerClose(3))
        peer.send(SessionCreateConsumer(3, "q", None, False, False), SessionConsumerClose(3))
    assert memory.used_bytes > used
    assert memory.has_room(64 * 1024)


def test_one_line_of_the_log_states_that_a_full_margin_drops_notifications() -> None:
    stage = Stage(memory_limit_bytes=1_000_000, global_max_size_margin_bytes=0)
    listener = Listener(stage)
    listener.peer.create_queue("q")
    peer = other(stage)
    listener.take()
    memory = stage.node.kernel.memory
    limit = memory.limit_bytes
    stage.warnings()
    for _ in range(2):
        memory.limit_bytes = memory.used_bytes
        # A browser has no events, so nothing is dropped.
        peer.send(SessionCreateConsumer(4, "q", None, True, False), SessionConsumerClose(4))
        assert stage.warnings() == []
        for _ in range(3):
            peer.send(SessionCreateConsumer(3, "q", None, False, False), SessionConsumerClose(3))
        assert listener.take() == []
        (line,) = stage.warnings()
        assert "notifications of bindings and consumers are dropped" in line
        memory.limit_bytes = limit
        peer.send(SessionCreateConsumer(3, "q", None, False, False), SessionConsumerClose(3))
        assert listener.kinds() == ["CONSUMER_CREATED", "CONSUMER_CLOSED"]


def test_addresses_are_notifications_where_the_configuration_wants_them() -> None:
    stage = Stage(send_address_notifications=True)
    listener = Listener(stage)
    listener.take()
    peer = other(stage)
    peer.send(CreateQueueV2("both", "one", None, False, False, True, False, 1))
    peer.send(CreateQueueV2("both", "two", None, False, False, True, False, MULTICAST))
    peer.send(DeleteQueue("one"), DeleteQueue("two"))
    events = [each for each in listener.take() if str(each["_AMQ_NotifType"]).startswith("ADDRESS_")]
    # The type is a byte; the second queue changes the address, which is no event.
    assert events == [
        {"_AMQ_NotifType": "ADDRESS_ADDED", "_AMQ_Address": "both", "_AMQ_Routing_Type": 1},
        {"_AMQ_NotifType": "ADDRESS_REMOVED", "_AMQ_Address": "both", "_AMQ_Routing_Type": 0},
    ]


def test_connections_are_notifications_where_the_configuration_wants_them() -> None:
    stage = Stage(send_connection_notifications=True)
    listener = Listener(stage, filter="_AMQ_NotifType LIKE 'CONNECTION_%'")
    listener.take()
    peer = other(stage)
    connection = next(reversed(stage.node.kernel.clients.connections))
    expected = {
        "_AMQ_ConnectionName": connection.connection_id,
        "_AMQ_CertSubjectDN": "unavailable",
        "_AMQ_RemoteAddress": connection.peer,
    }
    assert listener.take() == [{"_AMQ_NotifType": "CONNECTION_CREATED", **expected}]
    peer.lose()
    assert listener.take() == [{"_AMQ_NotifType": "CONNECTION_DESTROYED", **expected}]


def test_addresses_and_connections_are_no_notifications_by_default() -> None:
    stage = Stage()
    listener = Listener(stage)
    listener.take()
    other(stage).create_queue()
    kinds = listener.kinds()
    assert "BINDING_ADDED" in kinds and not [kind for kind in kinds if str(kind).startswith(("ADDRESS", "CONNECTION"))]
