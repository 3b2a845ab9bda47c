"""Groups of discovery, in time that the test names: entries come, are renewed, are replaced and expire."""

from __future__ import annotations

import json
from itertools import islice
from random import Random

import pytest

from embedclient.engine.core._discovery import (
    BroadcastGroup,
    DiscoveryChange,
    DiscoveryEntry,
    DiscoveryGroup,
    EntryAdded,
    EntryExpired,
    EntryReplaced,
    NodeIdShared,
)
from embedclient.errors import LocalProtocolError, RemoteProtocolError
from embedclient.model import TCP_CONNECTOR_FACTORY, TransportConfiguration
from embedclient.wire.core import DiscoveryDatagram, decode_discovery_datagram, encode_discovery_datagram
from tests.fuzz.mutations import mutations
from tests.vectors.captures import FOLDER, captured_datagrams

A, B = captured_datagrams()


def connector(port: int) -> TransportConfiguration:
    return TransportConfiguration("c", TCP_CONNECTOR_FACTORY, {"port": str(port), "host": "127.0.0.1"})


def datagram(node_id: str, unique_id: str, *ports: int) -> bytes:
    connectors = tuple(connector(port) for port in ports or (61616,))
    return encode_discovery_datagram(DiscoveryDatagram(node_id, unique_id, connectors))


def entry(node_id: str, unique_id: str, port: int = 61616) -> DiscoveryEntry:
    return DiscoveryEntry(node_id, unique_id, connector(port))


# -- discovery -------------------------------------------------------------------------------------------------------


def test_a_node_is_added_once_and_renewed_by_each_datagram() -> None:
    group = DiscoveryGroup(refresh_timeout_ms=10_000)
    assert group.next_deadline() is None
    assert group.on_datagram(datagram("n", "u"), 0.0) == [EntryAdded(entry("n", "u"))]
    assert group.next_deadline() == 10.0
    assert group.on_datagram(datagram("n", "u"), 9.0) == []
    assert group.next_deadline() == 19.0
    assert group.entries == [entry("n", "u")]


def test_a_silent_node_leaves_at_the_refresh_timeout_without_a_datagram_of_another_node() -> None:
    group = DiscoveryGroup(refresh_timeout_ms=10_000)
    group.on_datagram(datagram("n", "u"), 1.0)
    assert group.on_time(10.999) == []
    assert group.on_time(11.0) == [EntryExpired(entry("n", "u"))]
    assert group.entries == []
    assert group.next_deadline() is None


def test_a_datagram_expires_other_nodes_but_not_its_own() -> None:
    """The owner may be late; the node that just announced itself is there."""
    group = DiscoveryGroup(refresh_timeout_ms=1_000)
    group.on_datagram(datagram("first", "u"), 0.0)
    group.on_datagram(datagram("second", "u"), 0.5)
    assert group.on_datagram(datagram("first", "u"), 5.0) == [EntryExpired(entry("second", "u"))]
    assert group.entries == [entry("first", "u")]


def test_entries_expire_in_the_order_of_their_last_datagrams() -> None:
    group = DiscoveryGroup(refresh_timeout_ms=1_000)
    for node_id, now in (("a", 0.0), ("b", 0.1), ("c", 0.2), ("a", 0.3)):
        group.on_datagram(datagram(node_id, "u"), now)
    assert group.next_deadline() == pytest.approx(1.1)
    assert group.on_time(1.25) == [EntryExpired(entry("b", "u")), EntryExpired(entry("c", "u"))]
    assert group.on_time(1.3) == [EntryExpired(entry("a", "u"))]


def test_a_node_that_comes_back_with_another_unique_id_replaces_its_entry() -> None:
    group = DiscoveryGroup(refresh_timeout_ms=10_000)
    group.on_datagram(datagram("n", "u1", 1), 0.0)
    assert group.on_datagram(datagram("n", "u2", 2), 4.0) == [EntryReplaced(entry("n", "u2", 2), entry("n", "u1", 1))]
    assert group.entries == [entry("n", "u2", 2)]
    assert group.next_deadline() == 14.0


def test_a_node_that_announces_another_connector_replaces_its_entry() -> None:
    group = DiscoveryGroup()
    group.on_datagram(datagram("n", "u", 1), 0.0)
    assert group.on_datagram(datagram("n", "u", 2), 1.0) == [EntryReplaced(entry("n", "u", 2), entry("n", "u", 1))]
    # Nothing was restarted, so the node may change its connector back.
    assert group.on_datagram(datagram("n", "u", 1), 2.0) == [EntryReplaced(entry("n", "u", 1), entry("n", "u", 2))]


def test_a_delayed_datagram_of_the_last_start_changes_nothing() -> None:
    group = DiscoveryGroup(refresh_timeout_ms=10_000)
    group.on_datagram(datagram("n", "u1", 1), 0.0)
    group.on_datagram(datagram("n", "u2", 2), 4.0)
    assert group.on_datagram(datagram("n", "u1", 1), 4.1) == []
    assert group.entries == [entry("n", "u2", 2)]
    assert group.next_deadline() == 14.0


def test_two_brokers_with_one_node_id_are_reported_once_and_the_entry_does_not_flap() -> None:
    group = DiscoveryGroup(refresh_timeout_ms=10_000)
    seen: list[DiscoveryChange] = []
    for second in range(20):
        seen += group.on_datagram(datagram("n", "u1", 1), float(second))
        seen += group.on_datagram(datagram("n", "u2", 2), second + 0.5)
    replaced = EntryReplaced(entry("n", "u2", 2), entry("n", "u1", 1))
    assert seen == [EntryAdded(entry("n", "u1", 1)), replaced, NodeIdShared("n")]
    # The second one stops: the first one takes the place after the time-out.
    assert group.on_time(29.5) == [EntryExpired(entry("n", "u2", 2))]
    assert group.on_datagram(datagram("n", "u1", 1), 30.0) == [EntryAdded(entry("n", "u1", 1))]


def test_of_several_connectors_the_last_one_counts() -> None:
    group = DiscoveryGroup()
    assert group.on_datagram(datagram("n", "u", 1, 2, 3), 0.0) == [EntryAdded(entry("n", "u", 3))]


def test_a_datagram_without_connectors_is_no_entry_and_renews_none() -> None:
    group = DiscoveryGroup(refresh_timeout_ms=1_000)
    empty = encode_discovery_datagram(DiscoveryDatagram("n", "u", ()))
    assert group.on_datagram(empty, 0.0) == []
    group.on_datagram(datagram("n", "u"), 0.0)
    assert group.on_datagram(empty, 1.0) == [EntryExpired(entry("n", "u"))]


def test_datagrams_of_this_broker_are_no_entries_but_let_others_expire() -> None:
    group = DiscoveryGroup(refresh_timeout_ms=1_000)
    group.own_node_id, group.own_unique_id = "own", "u"
    group.on_datagram(datagram("other", "u"), 0.0)
    assert group.on_datagram(datagram("own", "u"), 0.5) == []
    assert group.on_datagram(datagram("own", "u"), 1.0) == [EntryExpired(entry("other", "u"))]
    assert group.entries == []


def test_another_broker_with_the_node_id_of_this_one_is_reported_once_per_start() -> None:
    group = DiscoveryGroup()
    group.own_node_id, group.own_unique_id = "own", "u"
    seen = [
        group.on_datagram(datagram("own", copy), float(second)) for second in range(3) for copy in ("copy 1", "copy 2")
    ]
    # A single datagram may be what an earlier start of this broker left in a shared directory.
    assert seen == [[], [], [NodeIdShared("own")], [NodeIdShared("own")], [], []]
    assert group.entries == []


def test_what_earlier_starts_left_is_read_again_after_a_failed_directory_and_is_no_second_broker() -> None:
    group = DiscoveryGroup()
    group.own_node_id, group.own_unique_id = "own", "u2"
    group.on_datagram(datagram("n", "u1", 1), 0.0)
    group.on_datagram(datagram("n", "u2", 2), 0.0)
    for second in range(3):
        group.on_rejoined()
        assert group.on_datagram(datagram("own", "u1"), float(second)) == []
        assert group.on_datagram(datagram("n", "u1", 1), float(second)) == []
    assert group.entries == [entry("n", "u2", 2)]


def test_a_backup_that_broadcasts_nothing_shares_the_node_id_of_its_live_broker_without_a_report() -> None:
    group = DiscoveryGroup()
    group.own_node_id = "pair"
    assert group.on_datagram(datagram("pair", "of the live broker"), 0.0) == []


def test_one_node_too_many_replaces_the_one_that_was_silent_longest() -> None:
    group = DiscoveryGroup(refresh_timeout_ms=1_000)
    for number in range(200):
        assert len(group.on_datagram(datagram(f"n{number}", "u"), 0.0)) == 1
    group.on_datagram(datagram("n0", "u"), 0.1)
    changes = [EntryExpired(entry("n1", "u")), EntryAdded(entry("one more", "u"))]
    assert group.on_datagram(datagram("one more", "u"), 0.1) == changes
    assert len(group.entries) == 200
    assert group.entries[-2:] == [entry("n0", "u"), entry("one more", "u")]


@pytest.mark.parametrize("number, size", [(201, 1), (1, 9_000)], ids=["many", "long"])
def test_a_datagram_with_more_than_an_entry_holds_is_an_error_and_changes_nothing(number: int, size: int) -> None:
    parameters: dict[str, bool | int | str] = {f"p{index}": "x" * size for index in range(number)}
    large = TransportConfiguration("c", TCP_CONNECTOR_FACTORY, parameters)
    group = DiscoveryGroup()
    with pytest.raises(RemoteProtocolError, match=r"holds at most 200 parameters and 8192 characters"):
        group.on_datagram(encode_discovery_datagram(DiscoveryDatagram("n", "u", (large,))), 0.0)
    assert group.entries == []
    # Only the last one would be kept.
    group.on_datagram(encode_discovery_datagram(DiscoveryDatagram("n", "u", (large, connector(1)))), 0.0)
    assert group.entries == [entry("n", "u", 1)]


def test_ids_that_are_too_long_are_an_error() -> None:
    for node_id, unique_id in (("n" * 9_000, "u"), ("n", "u" * 9_000)):
        with pytest.raises(RemoteProtocolError, match="holds at most"):
            DiscoveryGroup().on_datagram(datagram(node_id, unique_id), 0.0)


def test_bytes_that_are_no_datagram_are_an_error_and_change_nothing() -> None:
    group = DiscoveryGroup(refresh_timeout_ms=1_000)
    group.on_datagram(A, 0.0)
    before = group.entries
    for bad in (b"", b"hello", A[:-1], bytes(65_535)[:3], A[:50] + b"\xff" * 20):
        with pytest.raises(RemoteProtocolError, match=f"a datagram of {len(bad)} bytes is not from a broadcast group"):
            group.on_datagram(bad, 0.9)
    assert group.entries == before
    assert group.next_deadline() == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_mutated_datagrams_are_entries_or_errors_of_one_kind(seed: int) -> None:
    group = DiscoveryGroup(refresh_timeout_ms=1_000)
    refused = taken = 0
    for number, (_, data) in enumerate(islice(mutations([A, B], seed), 2_000)):
        try:
            taken += bool(group.on_datagram(data, number / 100))
        except RemoteProtocolError:
            refused += 1
        assert len({one.node_id for one in group.entries}) == len(group.entries) <= 102
    assert refused > 200
    assert taken > 200


def test_the_recorded_datagrams_of_two_brokers_give_the_history_of_their_cluster() -> None:
    """B starts later than A and is killed; its entry expires while A goes on."""
    lines = (FOLDER / "discovery-udp-datagrams.jsonl").read_text().splitlines()
    recorded = [line for line in map(json.loads, lines) if line.get("name") == "DATAGRAM"]
    group = DiscoveryGroup(refresh_timeout_ms=2_500)
    seen: list[tuple[float, DiscoveryChange]] = []
    for line in recorded:
        now = line["t"] / 1000
        seen += [(now, change) for change in group.on_datagram(bytes.fromhex(line["hex"]), now)]
    a, b = (decode_discovery_datagram(data) for data in (A, B))
    entries = [DiscoveryEntry(each.node_id, each.unique_id, each.connectors[-1]) for each in (a, b)]
    assert seen == [(1.877, EntryAdded(entries[0])), (5.66, EntryAdded(entries[1])), (11.893, EntryExpired(entries[1]))]


@pytest.mark.parametrize("seed", range(20))
def test_entries_are_the_nodes_that_were_not_silent_whatever_the_order(seed: int) -> None:
    """Compared with a model that keeps the time of each node's last datagram."""
    random = Random(seed)
    group = DiscoveryGroup(refresh_timeout_ms=1_000)
    last: dict[str, float] = {}
    present: set[str] = set()
    now = 0.0
    for _ in range(500):
        now += random.random() * 0.5
        if random.random() < 0.3:
            changes = group.on_time(now)
        else:
            node_id = random.choice("abcde")
            last[node_id] = now
            changes = group.on_datagram(datagram(node_id, "u"), now)
        for change in changes:
            if isinstance(change, EntryAdded):
                assert change.entry.node_id not in present
                present.add(change.entry.node_id)
            else:
                assert isinstance(change, EntryExpired)
                present.remove(change.entry.node_id)
        assert present == {one.node_id for one in group.entries}
        assert present == {node_id for node_id, when in last.items() if when + 1.0 > now}


# -- broadcast -------------------------------------------------------------------------------------------------------


def test_a_broadcast_group_sends_at_the_start_and_each_period_after_the_last_datagram() -> None:
    group = BroadcastGroup("n", "u", [connector(61616)], period_ms=2_000)
    assert group.next_deadline() is None
    assert group.on_time(0.0) is None
    group.start(5.0)
    assert group.next_deadline() == 5.0
    assert group.on_time(5.0) == datagram("n", "u")
    assert group.next_deadline() == 7.0
    assert group.on_time(6.9) is None
    # Late by more than a period: one datagram, and the next one a period later.
    assert group.on_time(12.5) == datagram("n", "u")
    assert group.on_time(12.5) is None
    assert group.next_deadline() == 14.5


def test_a_stopped_broadcast_group_sends_nothing_until_it_is_started_again() -> None:
    group = BroadcastGroup("n", "u", [connector(61616)])
    group.start(0.0)
    group.stop()
    assert group.next_deadline() is None
    assert group.on_time(100.0) is None
    group.start(100.0)
    assert group.on_time(100.0) == datagram("n", "u")


def test_the_datagram_of_a_broadcast_group_is_the_one_that_artemis_sends() -> None:
    recorded = decode_discovery_datagram(A)
    group = BroadcastGroup(recorded.node_id, recorded.unique_id, recorded.connectors)
    group.start(0.0)
    assert group.on_time(0.0) == A


def test_passwords_and_stores_of_private_keys_are_not_broadcast() -> None:
    parameters: dict[str, bool | int | str] = {"host": "h", "port": 1, "sslEnabled": True}
    parameters |= {"keyStorePath": "k", "keyStorePassword": "secret"}
    group = BroadcastGroup("n", "u", [TransportConfiguration("c", TCP_CONNECTOR_FACTORY, parameters)])
    group.start(0.0)
    sent = group.on_time(0.0)
    assert sent is not None
    assert decode_discovery_datagram(sent).connectors[0].parameters == {"host": "h", "port": 1, "sslEnabled": True}


def test_connectors_that_do_not_fit_into_a_datagram_are_an_error_before_the_start() -> None:
    with pytest.raises(LocalProtocolError, match="announce fewer connectors"):
        BroadcastGroup("n", "u", [connector(port) for port in range(1, 700)])
