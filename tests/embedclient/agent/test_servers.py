"""Where a client looks for its sessions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from embedclient.agent import Topology
from embedclient.agent._servers import SessionServers
from embedclient.model import TransportConfiguration
from embedclient.wire.core import ClusterTopologyV2, ClusterTopologyV4


def connector(name: str, port: int, host: str = "h") -> TransportConfiguration:
    return TransportConfiguration(name, parameters={"host": host, "port": port})


A, B, C, D = connector("a", 1), connector("b", 2), connector("c", 3), connector("d", 4)


class News:
    """A pair, and a broker that sends it nodes."""

    def __init__(self, *named: TransportConfiguration, ha: bool = True) -> None:
        self.topology = Topology()
        self.pair = SessionServers(named, self.topology, ha)
        self.told: dict[str, None] = {}
        self._event_id = 0

    def connect(self, to: TransportConfiguration) -> None:
        self.pair.on_connected(to)
        self.told = {}

    def up(
        self, node_id: str, primary: TransportConfiguration | None, backup: TransportConfiguration | None = None
    ) -> None:
        self.hear(node_id, primary, backup)
        self.told[node_id] = None
        self.pair.on_news(self.told)

    def hear(
        self, node_id: str, primary: TransportConfiguration | None, backup: TransportConfiguration | None = None
    ) -> None:
        """The topology has it, the pair does not yet."""
        self._event_id += 1
        packet = ClusterTopologyV4(False, node_id, self._event_id, primary, backup, True, None, None, 136)
        self.topology.on_packet(packet, A, True)

    def down(self, node_id: str) -> None:
        self._event_id += 1
        self.topology.on_packet(ClusterTopologyV2(True, node_id, self._event_id), A, True)
        self.told.pop(node_id)
        self.pair.on_news(self.told)

    def lose(self, *, away: bool = False, heir: str | None = None) -> list[str]:
        """Names of the servers that are tried, in order."""
        self.pair.on_lost(away=away, heir=heir)
        return names(self.pair.servers())


def names(servers: Sequence[TransportConfiguration]) -> list[str]:
    return [server.name for server in servers]


def test_the_backup_is_known_from_what_the_broker_tells() -> None:
    news = News(A)
    news.connect(A)
    news.up("n", A)
    assert (news.pair.node_id, news.lose()) == ("n", ["a"])
    news.up("n", A, B)
    assert news.lose() == ["a", "b"]


def test_after_a_failover_the_way_back_is_known_before_the_backup_tells_anything() -> None:
    news = News(A)
    news.connect(A)
    news.up("n", A, B)
    news.lose()
    news.connect(B)
    assert (news.pair.node_id, news.lose()) == ("n", ["b", "a"])
    news.connect(A)
    assert news.lose() == ["a", "b"]


def test_a_backup_that_became_live_is_recognised_by_older_news_and_by_its_own() -> None:
    news = News(A)
    news.connect(B)
    news.up("n", A, B)
    assert (news.pair.node_id, news.lose()) == ("n", ["b", "a"])
    news.up("n", B)
    news.up("n", B, C)
    assert news.lose() == ["b", "c", "a"]


def test_the_servers_of_before_are_tried_last() -> None:
    news = News(A, ha=False)
    news.connect(A)
    news.up("n", A, B)
    news.connect(B)
    news.up("n", B, C)
    assert news.lose() == ["b", "c", "a"]
    news.connect(C)
    news.up("n", C, D)
    assert news.lose() == ["c", "d", "b", "a"]


def test_a_backup_that_went_is_still_looked_for() -> None:
    news = News(A)
    news.connect(A)
    news.up("n", A, B)
    news.down("n")
    assert (news.pair.node_id, news.lose()) == ("n", ["a", "b"])


def test_a_broker_that_tells_of_itself_under_another_name_is_the_one_that_was_reached() -> None:
    tunnel = connector("tunnel", 7, "127.0.0.1")
    news = News(tunnel)
    news.connect(tunnel)
    news.up("n", A, B)
    assert (news.pair.node_id, news.lose()) == ("n", ["tunnel", "b"])
    # Among several nodes it cannot be decided which one it is.
    news = News(tunnel)
    news.connect(tunnel)
    news.up("m", C, D)
    news.pair.node_id = None
    news.up("n", A, B)
    assert news.pair.node_id is None


def test_among_several_nodes_only_known_servers_are_tried_until_it_is_clear_which_one_it_was() -> None:
    """Behind translated addresses a named server may belong to any of the nodes."""
    tunnel, other = connector("tunnel", 7, "127.0.0.1"), connector("other", 8, "127.0.0.1")

    def reached() -> News:
        news = News(tunnel, other)
        news.connect(tunnel)
        for node_id, primary, backup in (("n", A, B), ("m", C, D)):
            news.hear(node_id, primary, backup)
            news.told[node_id] = None
        news.pair.on_news(news.told)
        return news

    news = reached()
    assert (news.pair.node_id, list(news.pair.candidates), news.lose()) == (None, ["n", "m"], ["tunnel"])
    news.pair.on_answers(["n", "m"])  # as brokers do that cannot scale down
    assert (news.pair.node_id, news.lose()) == (None, ["tunnel"])
    news.pair.on_answers(["m"])
    assert (news.pair.node_id, list(news.pair.candidates)) == ("m", [])
    assert news.lose() == ["tunnel", "d", "other"]
    news = reached()
    news.pair.on_lost(away=True, heir=None, node_id="n")
    assert (news.pair.node_id, names(news.pair.servers())) == ("n", ["b", "other", "tunnel"])


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "LOCALHOST"])
def test_all_names_of_the_own_host_are_one(host: str) -> None:
    used = connector("used", 1, host)
    news = News(used)
    news.connect(used)
    news.up("other", C, D)
    news.up("n", connector("told", 1, "localhost"), connector("backup", 2, "127.0.0.1"))
    assert (news.pair.node_id, news.lose()) == ("n", ["used", "backup"])


def test_a_named_connector_may_be_the_backup_that_was_never_told_of() -> None:
    news = News(A, B, C)
    news.connect(A)
    news.up("n", A)
    news.up("other", C)
    # C belongs to another node, whose brokers do not have the sessions.
    assert news.lose() == ["a", "b"]
    without = News(A, B, ha=False)
    without.connect(A)
    without.up("n", A)
    assert without.lose() == ["a"]


def test_brokers_that_know_nothing_of_each_other_can_stand_in_for_each_other() -> None:
    """Each announces itself alone, under a different id: that is no claim on the other one."""
    news = News(A, B)
    news.connect(A)
    news.up("one", A)
    assert news.lose() == ["a", "b"]
    for used, node_id, tried in ((B, "two", ["b", "a"]), (A, "three", ["a", "b"]), (B, "four", ["b", "a"])):
        # While sessions come back, the news is there before the connection counts.
        news.hear(node_id, used)
        news.pair.on_connected(used)
        news.told = {node_id: None}
        news.pair.on_news(news.told)
        assert (news.pair.node_id, news.lose()) == (node_id, tried)


def test_a_silent_server_and_one_that_stops_come_last() -> None:
    news = News(A)
    news.connect(A)
    news.up("n", A, B)
    assert news.lose(away=True) == ["b", "a"]
    news.connect(B)
    assert news.lose() == ["b", "a"]


def test_the_users_own_connector_stands_for_the_one_that_is_told() -> None:
    plain = TransportConfiguration("told", parameters={"host": "h", "port": 2})
    own = TransportConfiguration("own", parameters={"host": "h", "port": 2, "tcpNoDelay": False})
    news = News(A, own, ha=False)
    news.connect(A)
    news.up("n", A, plain)
    assert news.pair.servers() == [A, own]
    # One of the same name is another way to it, and both are tried.
    detour = connector("told", 9)
    news = News(A, detour, ha=False)
    news.connect(A)
    news.up("n", A, plain)
    assert news.pair.servers() == [A, detour, plain]


def test_the_node_that_took_the_messages_comes_first() -> None:
    news = News(A)
    news.connect(A)
    news.up("n", A, B)
    news.up("heir", C, D)
    assert news.lose(away=True, heir="heir") == ["c", "d", "b", "a"]
    assert news.lose(away=True, heir="unknown") == ["b", "a"]


def test_who_has_left_the_pair_looks_for_the_sessions_of_the_new_one() -> None:
    news = News(A)
    news.connect(A)
    news.up("n", A, B)
    news.up("other", C, D)
    news.lose()
    news.connect(C)
    assert (news.pair.node_id, news.lose()) == (None, ["c"])
    news.up("n", A, B)
    news.up("other", C, D)
    assert (news.pair.node_id, news.lose()) == ("other", ["c", "d"])
