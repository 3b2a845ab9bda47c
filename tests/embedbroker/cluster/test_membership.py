"""Brokers find each other, announce members to each other and their clients, and notice departures."""

from __future__ import annotations

import pytest

from embedbroker.cluster._topology import NewsResult
from embedclient.wire.core import (
    ClusterTopologyV2,
    ClusterTopologyV4,
    DisconnectV3,
    NodeAnnounce,
)

from .town import CREDENTIALS, Town, connector

SETTLED_S = 5.0


def a_pair(**changes: object) -> Town:
    """A live broker A and its backup B."""
    town = Town()
    town.start("A", "B", **changes)
    town.stand_by("B", "A", town.node_id("A"), **changes)
    town.run(SETTLED_S)
    return town


# -- a pair ------------------------------------------------------------------------------------------------------------


def test_a_client_learns_the_backup_when_it_announces_itself() -> None:
    town = Town()
    town.start("A", "B")
    client = town.visit("A")
    (alone,) = client.news()
    assert isinstance(alone, ClusterTopologyV4)
    assert alone == ClusterTopologyV4(
        False, town.node_id("A"), town.member("A", "A").event_id, connector("A"), None, True, None, None, 136
    )
    town.run(SETTLED_S)
    client.news()
    town.stand_by("B", "A", town.node_id("A"))
    town.run(1.0)
    (pair,) = client.news()
    assert isinstance(pair, ClusterTopologyV4)
    assert (pair.primary, pair.backup, pair.last) == (connector("A"), connector("B"), False)
    assert pair.unique_event_id > alone.unique_event_id


def test_a_live_broker_repeats_its_announcement_twice_a_second_apart() -> None:
    town = Town()
    town.start("A", "B")
    client = town.visit("A")
    town.run(SETTLED_S)
    ids = [packet.unique_event_id for packet in client.packets(ClusterTopologyV4)]
    assert [after - ids[0] for after in ids] == [0, 1000, 2000]


def test_nobody_dials_the_backup_once_it_is_known() -> None:
    town = a_pair()
    before = town.dials("A") + town.dials("B")
    town.run(60.0)
    assert town.dials("A") + town.dials("B") == before
    assert town.known("A") == town.known("B") == {"A": "B"}


def test_clients_keep_the_backup_when_it_dies_as_they_do_with_artemis() -> None:
    town = a_pair()
    client = town.visit("A")
    client.news()
    town.hosts["B"].crash()
    town.run(SETTLED_S)
    assert client.news() == []
    assert town.known("A") == {"A": "B"}


def test_a_backup_that_takes_over_is_live_and_newer_than_everything_before() -> None:
    town = a_pair()
    node_id, before = town.node_id("A"), town.member("A", "A").event_id
    town.hosts["A"].crash()
    town.run(1.0)
    backup = town.membership("B")
    backup.now = town.world.instant
    backup.become_live(node_id)
    member = backup.topology.members[node_id]
    assert member.event_id > before
    assert (member.live, member.backup) == (connector("B"), None)


def test_an_orderly_stop_tells_subscribers_and_brokers_that_it_is_no_redirection() -> None:
    town = a_pair()
    client = town.visit("A")
    node_id = town.node_id("A")
    town.hosts["A"].stop()
    town.run(1.0)
    assert client.packets(DisconnectV3) == [DisconnectV3(node_id, 2, None, None)]
    assert town.hosts["B"].notices[-1] == "the connection to A (A:61616) is over: it stops"


# -- clusters ----------------------------------------------------------------------------------------------------------


def test_three_live_brokers_know_each_other_from_one_static_connector_each() -> None:
    town = Town()
    for name, static in [("A", ""), ("B", "A"), ("C", "A")]:
        town.start(name, static)
    town.run(SETTLED_S)
    for name in "ABC":
        assert town.known(name) == {"A": None, "B": None, "C": None}
        assert {link.connector.name for link in town.membership(name).links} == set("ABC") - {name}


def test_a_broker_that_keeps_to_direct_connections_dials_nobody_it_merely_hears_of() -> None:
    town = Town()
    town.start("A", "")
    town.start("B", "A")
    town.start("C", "A", allow_direct_connections_only=True)
    town.run(SETTLED_S)
    assert town.known("C") == {"A": None, "B": None, "C": None}
    assert [link.connector.name for link in town.membership("C").links] == ["A"]


def test_a_broker_that_starts_later_is_dialled_until_it_answers() -> None:
    town = Town()
    town.build("B", "")
    town.start("A", "B", retry_interval_ms=100, retry_interval_multiplier=2.0, max_retry_interval_ms=1000)
    town.run(15.0)
    # At once, then after 0.1, 0.2, 0.4, 0.8 and every second.
    assert town.dials("A", "B") in range(17, 20)
    (said,) = town.hosts["A"].notices
    assert said == "no broker answers at B (B:61616), which is tried again: connection refused"
    town.start("B")
    town.run(SETTLED_S)
    assert town.known("A") == {"A": None, "B": None}


def test_however_fast_the_pauses_grow_they_stay_under_their_maximum() -> None:
    town = Town()
    town.build("B", "")
    town.start("A", "B", retry_interval_ms=100, retry_interval_multiplier=1e300, max_retry_interval_ms=1000)
    town.run(15.0)
    # At once, then after 0.1 and every second.
    assert town.dials("A", "B") in range(15, 18)


@pytest.mark.parametrize("way", ["crash", "stop"])
def test_clients_are_told_of_a_live_broker_that_is_gone_and_of_its_return(way: str) -> None:
    town = Town()
    town.start("A", "B")
    town.start("B", "A")
    town.run(SETTLED_S)
    client = town.visit("B")
    client.news()
    gone = town.node_id("A")
    getattr(town.hosts["A"], way)()
    town.run(1.0)
    (down,) = client.news()
    assert isinstance(down, ClusterTopologyV2)
    assert (down.exit, down.node_id) == (True, gone)
    assert town.known("B") == {"B": None}
    town.start("A")
    town.run(SETTLED_S)
    news = [packet for packet in client.news() if isinstance(packet, ClusterTopologyV4)]
    assert {packet.node_id for packet in news} == {town.node_id("A")}
    assert town.known("B") == {"B": None, "A": None}


def test_a_member_that_was_given_up_comes_back_by_itself() -> None:
    town = Town()
    town.start("A", "C")
    town.start("C", "A")
    town.run(SETTLED_S)
    for link in town.network.between("A", "C"):
        link.cut("cable pulled")
    town.network.hold("A", "C")
    town.network.hold("C", "A")
    town.run(0.2)
    assert town.known("A") == {"A": None}
    assert town.known("C") == {"C": None}
    town.network.heal()
    town.run(2 * SETTLED_S)
    assert town.known("A") == {"A": None, "C": None}
    assert town.known("C") == {"C": None, "A": None}


def test_a_removal_is_void_when_the_broker_it_came_from_starts_anew_and_has_the_member() -> None:
    town = Town()
    for name, static in [("A", "B"), ("B", "C"), ("C", "")]:
        town.start(name, static, allow_direct_connections_only=True, retry_interval_ms=500)
    town.run(SETTLED_S)
    for link in town.network.between("B", "C"):
        link.cut("cable pulled")
    town.run(0.1)
    assert set(town.known("A")) == {"A", "B"}
    # B forgets that it has removed C, whose last announcement is older than that.
    town.hosts["B"].crash()
    town.start("B")
    town.run(SETTLED_S)
    assert set(town.known("B")) == set(town.known("A")) == {"A", "B", "C"}
    assert town.member("A", "C").event_id > town.member("B", "C").event_id
    # Older news of C do not count after the next removal.
    older = town.member("A", "C")
    town.hosts["C"].crash()
    town.run(SETTLED_S)
    town.membership("B").topology.repeat(town.node_id("B"), town.world.instant.wall_ms)
    town.run(1.0)
    assert set(town.known("B")) == set(town.known("A")) == {"A", "B"}
    assert town.membership("A").topology.update(older) is NewsResult.REMOVED


def test_hearsay_does_not_remove_a_member_that_a_broker_talks_to() -> None:
    town = Town()
    for name, static in [("A", "B"), ("B", "AC"), ("C", "B")]:
        town.start(name, static)
    town.run(SETTLED_S)
    for link in town.network.between("A", "C"):
        link.cut("cable pulled")
    town.run(60.0)
    for name in "ABC":
        assert set(town.known(name)) == {"A", "B", "C"}


def test_others_learn_of_a_take_over_from_the_broker_that_took_over() -> None:
    town = a_pair()
    town.start("C", "AB")
    town.run(SETTLED_S)
    client = town.visit("C")
    assert town.known("C") == {"C": None, "A": "B"}
    node_id = town.node_id("A")
    town.hosts["A"].crash()
    town.run(1.0)
    client.news()
    backup = town.membership("B")
    backup.now = town.world.instant
    backup.become_live(node_id)
    town.run(SETTLED_S)
    assert town.known("C") == {"C": None, "B": None}
    last = client.news()[-1]
    assert isinstance(last, ClusterTopologyV4)
    assert (last.node_id, last.primary, last.backup) == (node_id, connector("B"), None)


def test_a_second_broker_that_is_live_with_the_same_node_id_is_told_about_and_not_listened_to() -> None:
    town = Town()
    town.start("A")
    rival = town.visit("A")
    rival.send(CREDENTIALS, 3)
    rival.send(NodeAnnounce(town.node_id("A"), None, False, 2**62, connector("X"), None, None), 3)
    rival.send(NodeAnnounce(town.node_id("A"), None, False, 2**62 + 1, connector("X"), None, None), 3)
    town.run(1.0)
    assert town.known("A") == {"A": None}
    (said,) = town.hosts["A"].notices
    assert said.startswith("another broker, X (X:61616), announces that it is live with node id ")
    assert said.endswith("its data directory is a copy of this one, or both took over; stop one of the two")


def test_two_live_brokers_with_one_node_id_do_not_outbid_each_other_for_ever() -> None:
    """This one answers newer news a few times. It stays a member for itself, and others choose one of the two."""
    town = Town()
    town.start("A")
    town.run(SETTLED_S)
    rival = town.visit("A")
    rival.send(CREDENTIALS, 3)
    for _ in range(30):
        rival.send(
            NodeAnnounce(
                town.node_id("A"), None, False, town.member("A", "A").event_id + 60_000, connector("X"), None, None
            ),
            3,
        )
        town.run(0.1)
    assert town.known("A") == {"A": None}
    first, *answers = [packet.unique_event_id for packet in rival.packets(ClusterTopologyV4)]
    assert [after - first for after in answers] == [60_001 * (n + 1) for n in range(10)]


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_silent_peer_is_given_up_after_its_time_to_live_and_dialled_again() -> None:
    town = Town()
    town.start("A", "B", check_period_ms=1_000, connection_ttl_ms=3_000)
    town.start("B", "")
    town.run(60.0)
    assert set(town.known("A")) == {"A", "B"}
    assert town.hosts["A"].notices == []
    town.network.hold("B", "A")
    town.run(4.5)
    assert town.known("A") == {"A": None}
    assert town.hosts["A"].notices[-1].endswith("nothing was received from B (B:61616) for 3000 ms")
    town.network.heal()
    town.run(60.0)
    assert set(town.known("A")) == {"A", "B"}


@pytest.mark.parametrize(("period_ms", "ttl_ms"), [(30_000, 4_000), (-1, 4_000), (4_000, 4_000)])
def test_a_quiet_connection_lasts_whatever_the_check_period(period_ms: int, ttl_ms: int) -> None:
    """Pings come twice in a time to live, also where the check period is longer, or off."""
    town = Town()
    town.start("B", "")
    town.start("A", "B", check_period_ms=period_ms, connection_ttl_ms=ttl_ms)
    town.run(120.0)
    assert set(town.known("A")) == {"A", "B"}
    assert town.hosts["A"].notices == []
    assert town.dials("A", "B") == 1


def test_a_peer_that_never_answers_the_login_is_given_up_after_the_call_timeout() -> None:
    town = Town()
    town.build("B")
    town.start("A", "B", call_timeout_ms=2_000)
    town.network.hold("B", "A")
    town.hosts["B"].start()
    town.run(20.0)
    assert town.dials("A", "B") in range(6, 12)
    assert town.known("A") == {"A": None}


def test_a_broker_that_stops_hangs_up_and_dials_nobody() -> None:
    town = Town()
    town.start("A", "BC")
    town.start("B", "")
    town.build("C")
    town.run(SETTLED_S)
    town.hosts["A"].stop()
    town.run(SETTLED_S)
    assert town.hosts["A"].node is None
    assert town.network.links == []
    before = town.dials("A")
    town.run(60.0)
    assert town.dials("A") == before


def test_a_member_that_announced_itself_is_gone_with_its_last_connection_when_nobody_here_reached_it() -> None:
    town = Town()
    town.start("A")
    one, other = town.visit("A"), town.visit("A")
    for visitor in (one, other):
        visitor.send(CREDENTIALS, 3)
        visitor.send(NodeAnnounce("x", None, False, 2**62, connector("X"), None, None), 3)
    town.run(0.5)
    assert set(town.known("A")) == {"A", "X"}
    one.leave()
    town.run(0.5)
    assert set(town.known("A")) == {"A", "X"}
    other.leave()
    town.run(0.5)
    assert set(town.known("A")) == {"A"}


def test_cluster_connections_that_share_an_acceptor_find_the_broker_that_announces_itself_there() -> None:
    town = Town()
    town.start("A", topics=True)
    node = town.hosts["A"].node
    assert node is not None
    topics = node.kernel.cluster_connections["topics"]
    announcement = NodeAnnounce("x", None, False, 5, connector("X"), None, None)
    visitor = town.visit("A")
    visitor.send(CREDENTIALS, 3)
    visitor.send(announcement, 3)
    town.run(0.5)
    assert "\nx: live X " in topics.describe_topology() and town.dials("A", "X") == 2
    # The removal is news of a moment when the broker was not active. It is there.
    visitor.leave()
    town.run(0.5)
    assert "\nx:" not in topics.describe_topology()
    visitor = town.visit("A")
    visitor.send(CREDENTIALS, 3)
    visitor.send(announcement, 3)
    town.run(0.5)
    assert "\nx:" in topics.describe_topology()


def test_a_member_that_is_gone_for_good_is_looked_for_some_minutes_and_then_no_more() -> None:
    town = Town()
    for name, static in [("A", ""), ("B", "A"), ("C", "A")]:
        town.start(name, static)
    town.run(SETTLED_S)
    town.hosts["C"].stop()
    town.run(30.0)
    soon = town.dials("A", "C") + town.dials("B", "C")
    town.run(600.0)
    later = town.dials("A", "C") + town.dials("B", "C")
    assert later > soon + 500
    town.run(600.0)
    assert town.dials("A", "C") + town.dials("B", "C") == later


def test_two_brokers_that_nobody_told_to_connect_find_each_other_again() -> None:
    """Both lost each other, and could not reach any broker with a correct view."""
    town = Town()
    for name, static in [("A", ""), ("B", "A"), ("C", "A")]:
        town.start(name, static)
    town.run(SETTLED_S)
    for one, other in [("B", "C"), ("A", "B"), ("A", "C")]:
        town.network.hold(one, other)
        town.network.hold(other, one)
        for link in town.network.between(one, other):
            link.cut("cable pulled")
    town.run(60.0)
    for name in "ABC":
        assert set(town.known(name)) == {name}
    town.network.heal()
    town.run(30.0)
    for name in "ABC":
        assert set(town.known(name)) == {"A", "B", "C"}
