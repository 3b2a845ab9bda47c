"""The table of another broker's queues: recorded notifications of Artemis, and messages that are malformed."""

from __future__ import annotations

import pytest
from attrs import define, field

from embedbroker.cluster import (
    BindingAdded,
    BindingChange,
    BindingConnected,
    BindingDisconnected,
    BindingRemoved,
    BindingUpdated,
    ConsumerClosed,
    ConsumerCreated,
    RemoteBindings,
    SessionCreated,
    notification_filter,
    session_filter,
)
from embedbroker.config import MessageLoadBalancing
from embedbroker.kernel import RemoteBinding
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import CoreMessage

from ..kernel.stage import Stage
from .bridge_traffic import notifications_of, subscription_of

FORMATION, CHAIN = "cluster-formation-two-nodes", "cluster-chain-max-hops-2"
A, B = "0ff6d701-e552-11f1-a1ea-02fc00000001", "12d89a32-e552-11f1-a912-02fc00000001"
# Of the chain.
MIDDLE, LAST = "9e653e19-e552-11f1-bf04-02fc00000001", "a94dc06d-e552-11f1-b42b-02fc00000001"
FIRST = "9b3d985a-e552-11f1-bcb7-02fc00000001"
OWN, OTHER = "own-id", "other-id"
QUEUE = Stage().queue("store-and-forward")


@define
class Bench:
    """A table, and the lines of its log."""

    max_hops: int = 1
    node_id: str = OTHER
    own: str = OWN
    log: list[str] = field(factory=list)
    table: RemoteBindings = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.table = RemoteBindings(
            self.node_id, self.own, self.max_hops, QUEUE, MessageLoadBalancing.STRICT, self.log.append
        )

    def play(self, scenario: str, connection: int, sender: str) -> list[BindingChange]:
        return [
            change
            for _data, packet in notifications_of(scenario, connection, sender)
            for change in self.table.on_message(packet.message)
        ]

    def get(self, kind: str | None, **named: object) -> list[BindingChange]:
        """One notification: ``address`` is ``_AMQ_Address``, and so on."""
        values: dict[str, object] = {} if kind is None else {"_AMQ_NotifType": kind}
        values.update((f"_AMQ_{name}", value) for name, value in named.items())
        return self.table.on_message(message_of(values))

    def snapshot(self, *notifications: dict[str, object]) -> list[BindingChange]:
        changes = self.get(None, RESET_QUEUE_DATA=True)
        for each in notifications:
            changes += self.table.on_message(message_of(each))
        return changes + self.get(None, RESET_QUEUE_DATA_COMPLETE=True)

    @property
    def line(self) -> str:
        """The only line since the last time."""
        (line,) = self.log
        self.log.clear()
        return line

    @property
    def q(self) -> RemoteBinding:
        return self.table.by_cluster_name[f"q{OTHER}"]


def message_of(values: dict[str, object]) -> CoreMessage:
    properties = Properties(values)  # type: ignore[arg-type]  # only values that properties have
    return CoreMessage.build(address="notif", durable=False, properties=properties, body=bytes(4))


def binding(queue: str = "q", /, **changed: object) -> dict[str, object]:
    values: dict[str, object] = {
        "_AMQ_NotifType": "BINDING_ADDED", "_AMQ_Address": queue, "_AMQ_RoutingName": queue, "_AMQ_Distance": 0,
        "_AMQ_ClusterName": f"{queue}{OTHER}", "_AMQ_Binding_ID": 7,
    }  # fmt: skip
    values.update((f"_AMQ_{key}", value) for key, value in changed.items())
    return {key: value for key, value in values.items() if value != "left out"}


def consumer(kind: str = "CONSUMER_CREATED", filter: str | None = None, /, **changed: object) -> dict[str, object]:
    values = binding(NotifType=kind, Binding_ID="left out", **changed)
    return values if filter is None else {**values, "_AMQ_FilterString": filter}


def begun(*more: dict[str, object], max_hops: int = 1) -> Bench:
    """A bench whose snapshot had the queue ``q``."""
    bench = Bench(max_hops)
    bench.snapshot(binding(), *more)
    return bench


def filter_of(found: RemoteBinding) -> str | None:
    return found.filter.text if found.filter is not None else None


def state_of(found: RemoteBinding) -> tuple[bool, int]:
    return found.is_connected, found.consumer_count


def kinds(changes: list[BindingChange]) -> list[type]:
    return [type(change) for change in changes]


# -- recorded ----------------------------------------------------------------------------------------------------------


def test_the_recorded_snapshot() -> None:
    bench = Bench(node_id=A, own=B)
    changes = bench.play(FORMATION, 7, "A")
    names = ["q1", "ExpiryQueue", "t1.sub", "DLQ", "$sys.mqtt.sessions"]
    assert list(bench.table.by_cluster_name) == [name + A for name in names]
    assert kinds(changes) == [BindingAdded, *[ConsumerCreated] * 3, *[BindingAdded] * 4]
    q1, sub = bench.table.by_cluster_name["q1" + A], bench.table.by_cluster_name["t1.sub" + A]
    assert (q1.address, q1.routing_name, q1.distance, q1.filter) == ("q1", "q1", 1, None)
    assert (q1.consumer_count, q1.consumer_filters) == (3, {"size > 5": 2})
    assert (sub.address, sub.routing_name, sub.consumer_count) == ("t1", "t1.sub", 0)
    assert sub.filter is not None and sub.filter.text == "colour='red'"
    assert bench.log == []


def test_recorded_notifications() -> None:
    recorded = notifications_of("cluster-notifications", 4, "A")
    node_id = str(recorded[0][1].message.properties["_AMQ_ClusterName"])[2:]
    bench = Bench(node_id=node_id)
    bench.snapshot()
    changes = bench.play("cluster-notifications", 4, "A")
    created, closed = [ConsumerCreated], [ConsumerClosed]
    assert kinds(changes) == [
        BindingAdded, *created, *created, *closed, *closed,
        BindingAdded, *created, *closed, BindingRemoved, SessionCreated,
    ]  # fmt: skip
    assert changes[-1] == SessionCreated("0c5d30da", None, None, "CORE", 1)
    (q7,) = bench.table.by_cluster_name.values()
    assert (q7.consumer_count, q7.consumer_filters, bench.log) == (0, {}, [])


def test_recorded_consumers_with_filters() -> None:
    bench = Bench()
    recorded = notifications_of("cluster-on-demand-filter", 3, "B")
    (created,) = [packet.message for _data, packet in recorded]
    cluster_name = str(created.properties["_AMQ_ClusterName"])
    bench.snapshot(binding("q1", ClusterName=cluster_name))
    assert kinds(bench.table.on_message(created)) == [ConsumerCreated]
    found = bench.table.by_cluster_name[cluster_name]
    assert found.has_matching_consumer(message_of({"colour": "red"}))
    assert not found.has_matching_consumer(message_of({"colour": "blue"}))


def test_a_recorded_chain_as_its_first_broker_sees_it() -> None:
    bench = Bench(2, MIDDLE, FIRST)
    bench.play(CHAIN, 3, "B")
    near = {name: found.distance for name, found in bench.table.by_cluster_name.items() if name.startswith("q1")}
    assert near == {"q1" + MIDDLE: 1, "q1" + LAST: 2}
    far = bench.table.by_cluster_name["q1" + LAST]
    assert (far.remote_queue_id, far.routing_name, far.consumer_count) == (65, "q1", 0)
    assert bench.log == []


def test_a_recorded_chain_as_its_last_broker_sees_it() -> None:
    """Its own queues come back over the middle, with their consumers: they are left out without a line."""
    bench = Bench(2, MIDDLE, LAST)
    changes = bench.play(CHAIN, 8, "B")
    assert {name[-36:] for name in bench.table.by_cluster_name} == {MIDDLE}
    assert ConsumerCreated not in kinds(changes) and bench.log == []


def test_a_recorded_chain_as_its_middle_sees_it() -> None:
    bench = Bench(2, LAST, MIDDLE)
    changes = bench.play(CHAIN, 6, "C")
    assert {name[-36:] for name in bench.table.by_cluster_name} == {LAST}
    assert kinds(changes)[-2:] == [ConsumerCreated, ConsumerClosed]
    assert bench.log == []


@pytest.mark.parametrize(
    ("scenario", "connection", "sender", "max_hops"),
    [(FORMATION, 7, "B", 1), (FORMATION, 5, "A", 1), (CHAIN, 8, "C", 2)],
)
def test_the_filter_is_the_recorded_one(scenario: str, connection: int, sender: str, max_hops: int) -> None:
    recorded = subscription_of(scenario, connection, sender)
    excluded = ("$.artemis.internal.sf.", "activemq.management")
    assert notification_filter("", max_hops, excluded, recorded.address) == recorded.filter


@pytest.mark.parametrize(
    ("addresses", "selected"),
    [
        ("eu", "(((_AMQ_Address LIKE 'eu%')) AND ((_AMQ_Address NOT LIKE 'x%')))"),
        ("eu,us", "(((_AMQ_Address LIKE 'eu%') OR (_AMQ_Address LIKE 'us%')) AND ((_AMQ_Address NOT LIKE 'x%')))"),
        ("!eu", "((_AMQ_Address NOT LIKE 'eu%') AND (_AMQ_Address NOT LIKE 'x%'))"),
        (
            "eu,!eu.uk",
            "(((_AMQ_Address LIKE 'eu%')) AND ((_AMQ_Address NOT LIKE 'eu.uk%') AND (_AMQ_Address NOT LIKE 'x%')))",
        ),
        ("it's", "(((_AMQ_Address LIKE 'it''s%')) AND ((_AMQ_Address NOT LIKE 'x%')))"),
    ],
)
def test_the_filter_has_the_addresses_of_the_cluster_connection(addresses: str, selected: str) -> None:
    assert f" AND ({selected}) AND " in notification_filter(addresses, 1, ["x"], "activemq.notifications")
    assert session_filter(addresses, 1, ["x"]).endswith(f" AND ({selected})")


# -- the rules ---------------------------------------------------------------------------------------------------------


def test_what_comes_before_the_snapshot_is_ignored_without_a_line() -> None:
    bench = Bench()
    assert bench.table.on_message(message_of(binding())) == []
    assert (bench.table.by_cluster_name, bench.log) == ({}, [])


def test_a_binding_that_is_announced_twice_is_a_line() -> None:
    bench = begun()
    assert bench.table.on_message(message_of(binding())) == []
    assert "announced twice: max_hops is too large, or two cluster connections" in bench.line


def test_a_queue_that_was_created_again_replaces_the_binding() -> None:
    bench = begun(consumer())
    old = bench.q
    changes = bench.table.on_message(message_of(binding(Binding_ID=8)))
    assert changes == [BindingRemoved(old), BindingAdded(bench.q)]
    assert (bench.q.remote_queue_id, bench.q.consumer_count) == (8, 0)


def test_a_removed_binding() -> None:
    bench = begun()
    old = bench.q
    assert bench.table.on_message(message_of(binding(NotifType="BINDING_REMOVED"))) == [BindingRemoved(old)]
    assert bench.table.by_cluster_name == {}
    assert bench.table.on_message(message_of(binding(NotifType="BINDING_REMOVED"))) == []
    assert "no binding 'qother-id' was announced before" in bench.line


def test_the_filter_of_a_queue_changes() -> None:
    bench = begun()
    name = f"q{OTHER}"
    assert bench.get("BINDING_UPDATED", ClusterName=name, FilterString="a = 1") == [BindingUpdated(bench.q)]
    assert filter_of(bench.q) == "a = 1"
    assert bench.get("BINDING_UPDATED", ClusterName=name) == [BindingUpdated(bench.q)]
    assert filter_of(bench.q) is None
    # Artemis ignores that of an unknown binding, too.
    assert bench.get("BINDING_UPDATED", ClusterName="none") == [] and bench.log == []


def test_consumers_are_counted_by_filter() -> None:
    bench = begun(
        consumer(),
        consumer("CONSUMER_CREATED", "a = 1"),
        consumer("CONSUMER_CREATED", "a = 1"),
        consumer("CONSUMER_CREATED", ""),
    )
    assert (bench.q.consumer_count, bench.q.consumer_filters) == (4, {"a = 1": 2})
    for filter, expected in (("a = 1", {"a = 1": 1}), (None, {"a = 1": 1}), ("a = 1", {}), (None, {})):
        (change,) = bench.table.on_message(message_of(consumer("CONSUMER_CLOSED", filter)))
        assert change == ConsumerClosed(bench.q, filter, 1)
        assert bench.q.consumer_filters == expected
    assert bench.q.consumer_count == 0


@pytest.mark.parametrize("filter", [None, "b = 2"])
def test_the_end_of_a_consumer_that_is_not_counted_is_a_line(filter: str | None) -> None:
    bench = begun(consumer("CONSUMER_CREATED", "a = 1"))
    assert bench.table.on_message(message_of(consumer("CONSUMER_CLOSED", filter))) == []
    assert "no such consumer of 'qother-id'" in bench.line
    assert (bench.q.consumer_count, bench.q.consumer_filters) == (1, {"a = 1": 1})


def test_a_consumer_of_an_unknown_queue_is_a_line() -> None:
    bench = Bench()
    bench.snapshot()
    assert bench.table.on_message(message_of(consumer())) == []
    assert "notification CONSUMER_CREATED is ignored: no binding 'qother-id'" in bench.line


def test_a_consumer_may_name_address_and_queue() -> None:
    bench = begun()
    (one,) = bench.table.on_message(message_of(consumer(Address="q::q")))
    (other,) = bench.table.on_message(message_of(consumer(Address="else")))
    assert (one, other) == (ConsumerCreated(bench.q, "q::q", None, 1), ConsumerCreated(bench.q, "q", None, 1))


def test_consumers_that_match() -> None:
    bench = begun()
    one = message_of({"a": 1})
    assert not bench.q.has_matching_consumer(one)
    bench.table.on_message(message_of(consumer("CONSUMER_CREATED", "a = 2")))
    assert not bench.q.has_matching_consumer(one)
    bench.table.on_message(message_of(consumer()))
    assert bench.q.has_matching_consumer(one)


@pytest.mark.parametrize(("max_hops", "distances"), [(0, []), (1, [1]), (2, [1, 2])])
def test_the_distance_is_limited(max_hops: int, distances: list[int]) -> None:
    bench = Bench(max_hops)
    bench.snapshot(*(binding(f"q{distance}", Distance=distance) for distance in range(3)))
    assert [found.distance for found in bench.table.by_cluster_name.values()] == distances
    assert bench.table.on_message(message_of(consumer(ClusterName="none", Distance=max_hops))) == []
    assert bench.get("SESSION_CREATED", Distance=max_hops) == []
    assert bench.log == []


def test_own_queues_are_left_out() -> None:
    bench = Bench()
    own = f"q{OWN}"
    changes = bench.snapshot(binding(ClusterName=own), consumer(ClusterName=own))
    changes += bench.table.on_message(message_of(consumer("CONSUMER_CLOSED", ClusterName=own)))
    changes += bench.table.on_message(message_of(binding(NotifType="BINDING_REMOVED", ClusterName=own)))
    assert (changes, bench.table.by_cluster_name, bench.log) == ([], {}, [])


# -- loss and return of the connection ---------------------------------------------------------------------------------


def test_a_connection_that_comes_back() -> None:
    bench = begun(binding("gone"), consumer(), consumer("CONSUMER_CREATED", "a = 1"))
    kept, gone = bench.q, bench.table.by_cluster_name[f"gone{OTHER}"]
    assert bench.table.disconnect() == [BindingDisconnected(kept), BindingDisconnected(gone)]
    assert state_of(kept) == (False, 2)
    # What is under way from the old connection is not applied.
    assert bench.table.on_message(message_of(consumer())) == []
    assert bench.table.begin() == [ConsumerClosed(kept, "a = 1", 1), ConsumerClosed(kept, None, 1)]
    assert (kept.consumer_count, kept.consumer_filters) == (0, {})
    changes = bench.snapshot(binding(FilterString="b = 2"), consumer())
    assert changes == [
        BindingConnected(kept), BindingUpdated(kept), ConsumerCreated(kept, "q", None, 1), BindingRemoved(gone),
    ]  # fmt: skip
    assert bench.q is kept and state_of(kept) == (True, 1)
    assert bench.log == []


def test_a_queue_that_comes_back_at_another_distance_is_another_way_after_a_moment() -> None:
    bench = begun(consumer(), max_hops=4)
    old = bench.q
    bench.table.disconnect()
    bench.table.begin()
    # The neighbour started anew, and has learnt of the queue from this broker.
    changes = bench.snapshot(binding(Distance=2), consumer("CONSUMER_CREATED", "a = 1", Distance=2))
    assert changes == [BindingConnected(old), ConsumerCreated(old, "q", "a = 1", 3)]
    doubts = bench.table.has_doubts
    assert doubts and (bench.q, old.distance) == (old, 1)
    assert bench.table.end_doubts() == [BindingRemoved(old), BindingAdded(bench.q)]
    assert (bench.q.distance, state_of(bench.q), bench.q.consumer_filters) == (3, (True, 1), {"a = 1": 1})
    assert not bench.table.has_doubts and bench.log == []


def test_a_queue_that_is_found_again_at_its_distance_was_never_away() -> None:
    bench = Bench(max_hops=4)
    bench.snapshot(binding(Distance=1))
    old = bench.q
    bench.table.disconnect()
    bench.table.begin()
    # The neighbour started anew, and has learnt of the queue from this broker.
    bench.snapshot(binding(Distance=3), consumer("CONSUMER_CREATED", "a = 1", Distance=3))
    changes = bench.table.on_message(message_of(binding(NotifType="BINDING_REMOVED", Distance=3)))
    assert changes == [ConsumerClosed(old, "a = 1", 2), BindingDisconnected(old)]
    assert bench.table.on_message(message_of(binding(Distance=1))) == [BindingConnected(old)]
    assert not bench.table.has_doubts and bench.table.end_doubts() == []
    assert (bench.q, old.distance, state_of(old)) == (old, 2, (True, 0))


def test_a_queue_behind_a_neighbour_that_started_anew_is_gone_after_a_moment() -> None:
    bench = Bench(max_hops=3)
    bench.snapshot(binding(Distance=1), binding("r", Distance=1))
    old, found = bench.q, bench.table.by_cluster_name[f"r{OTHER}"]
    bench.table.disconnect()
    bench.table.begin()
    assert bench.snapshot() == []
    # Over this broker and back, it is too far away.
    far = bench.table.on_message(message_of(binding(Distance=3)))
    far += bench.table.on_message(message_of(binding(NotifType="BINDING_REMOVED", Distance=3)))
    assert (far, bench.table.has_doubts) == ([], True)
    assert bench.table.on_message(message_of(binding("r", Distance=1))) == [BindingConnected(found)]
    assert bench.table.end_doubts() == [BindingRemoved(old)]
    assert bench.table.by_cluster_name == {found.cluster_name: found}
    assert not bench.table.has_doubts and bench.log == []


def test_a_broker_that_left() -> None:
    bench = begun()
    old = bench.q
    assert bench.table.clear() == [BindingRemoved(old)]
    assert bench.table.by_cluster_name == {}


# -- malformed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("notification", "reason"),
    [
        *((binding(**{name: "left out"}), f"_AMQ_{name} is missing") for name in
          ("Address", "RoutingName", "ClusterName", "Distance", "Binding_ID")),
        *((binding(**{name: 5}), f"_AMQ_{name} must be a text, not 5") for name in
          ("Address", "RoutingName", "ClusterName", "FilterString")),
        *((binding(**{name: value}), f"_AMQ_{name} must be an integer, not {value}") for name in
          ("Distance", "Binding_ID") for value in ("1", True, 1.5)),
        (binding(Distance=-1), "_AMQ_Distance is -1, it must be at least 0"),
        (binding(ClusterName=""), "_AMQ_ClusterName is missing"),
        (binding(FilterString="a ="), "_AMQ_FilterString: invalid selector"),
        (binding(NotifType="BINDING_UPDATED", FilterString="a ="), "_AMQ_FilterString: invalid selector"),
        (consumer(ClusterName="left out"), "_AMQ_ClusterName is missing"),
        (consumer("CONSUMER_CLOSED", Distance="left out"), "_AMQ_Distance is missing"),
        (binding(NotifType="BINDING_REMOVED", ClusterName=b"q"), "_AMQ_ClusterName must be a text"),
        ({"_AMQ_NotifType": "SESSION_CREATED"}, "_AMQ_Distance is missing"),
        ({"_AMQ_NotifType": "SESSION_CREATED", "_AMQ_Distance": 0, "_AMQ_Client_ID": 1}, "_AMQ_Client_ID must be"),
        ({"_AMQ_NotifType": "ADDRESS_ADDED"}, "the type is unknown, or of no use to another broker"),
        ({"_AMQ_NotifType": "x\n" * 1000}, "the type is unknown"),
        ({"_AMQ_NotifType": "PROPOSAL"}, "_AMQ_Distance is missing"),
        ({"_AMQ_NotifType": "UNPROPOSAL", "_AMQ_Distance": 0}, "_JBM_ProposalGroupId is missing"),
        ({"_AMQ_NotifType": 1}, "_AMQ_NotifType must be a text"),
        ({"a": 1}, "_AMQ_NotifType is missing"),
        ({}, "_AMQ_NotifType is missing"),
    ],
)  # fmt: skip
def test_a_malformed_notification_is_one_line(notification: dict[str, object], reason: str) -> None:
    bench = begun(consumer("CONSUMER_CREATED", "a = 1"))
    assert bench.table.on_message(message_of(notification)) == []
    line = bench.line
    assert reason in line and "\n" not in line and len(line) < 1000
    assert list(bench.table.by_cluster_name) == [f"q{OTHER}"] and bench.q.consumer_count == 1


def test_what_a_broker_repeats_is_one_line_for_each_kind() -> None:
    bench = begun()
    for number in range(50):
        bench.get(f"MADE_UP_{number}", ClusterName=f"c{number}")
        bench.get("BINDING_ADDED", ClusterName=f"c{number}")
    assert len(bench.log) == 2


def test_queues_beyond_the_maximum_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedbroker.cluster._remote_bindings.BINDINGS_MAX", 2)
    bench = begun(*(binding(f"q{number}") for number in range(5)))
    assert len(bench.table.by_cluster_name) == 2
    assert "it has more than 2 queues; nothing is sent to those beyond" in bench.line


def test_properties_that_cannot_be_decoded_are_one_line() -> None:
    bench = begun()
    whole = message_of({"_AMQ_NotifType": "BINDING_ADDED"})
    raw = bytearray(whole.raw)
    at = whole.properties_at
    raw[at + 1 : at + 5] = (99).to_bytes(4, "big")
    assert bench.table.on_message(CoreMessage.parse(raw)) == []
    assert f"node {OTHER}: a notification is ignored: " in bench.line


def test_a_consumer_with_an_invalid_filter_is_counted_and_gets_nothing() -> None:
    bench = begun()
    assert kinds(bench.table.on_message(message_of(consumer("CONSUMER_CREATED", "a =")))) == [ConsumerCreated]
    assert "a consumer of 'qother-id' gets no message" in bench.line
    assert bench.q.consumer_count == 1 and not bench.q.has_matching_consumer(message_of({"a": 1}))
    assert kinds(bench.table.on_message(message_of(consumer("CONSUMER_CLOSED", "a =")))) == [ConsumerClosed]
    assert (bench.q.consumer_count, bench.q.consumer_filters) == (0, {})


def test_numbers_of_any_width_are_numbers() -> None:
    values = Properties(binding(Binding_ID="left out"))  # type: ignore[arg-type]  # only values that properties have
    values.set("_AMQ_Distance", 0, PropertyType.BYTE)
    values.set("_AMQ_Binding_ID", 7, PropertyType.SHORT)
    bench = Bench()
    bench.get(None, RESET_QUEUE_DATA=True)
    message = CoreMessage.build(address="notif", durable=False, properties=values, body=bytes(4))
    assert kinds(bench.table.on_message(message)) == [BindingAdded]
