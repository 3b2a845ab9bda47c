"""News about nodes, by the rules of core-protocol 7.13."""

from __future__ import annotations

from embedclient.agent import Topology
from embedclient.model import TransportConfiguration
from embedclient.wire.core import ClusterTopologyV2, ClusterTopologyV4


def connector(port: int) -> TransportConfiguration:
    return TransportConfiguration(f"c{port}", parameters={"host": "h", "port": port})


USED, OTHER, BACKUP = connector(1), connector(2), connector(3)


def up(
    node_id: str,
    event_id: int,
    primary: TransportConfiguration | None,
    backup: TransportConfiguration | None = None,
    last: bool = False,
) -> ClusterTopologyV4:
    return ClusterTopologyV4(False, node_id, event_id, primary, backup, last, None, None, 136)


def down(node_id: str, event_id: int) -> ClusterTopologyV2:
    return ClusterTopologyV2(True, node_id, event_id)


def test_a_broker_outside_a_cluster_is_the_one_the_client_reached() -> None:
    topology = Topology()
    topology.on_packet(up("n", 1, None, last=True), USED, False)
    assert topology.complete
    assert [(node.node_id, node.primary) for node in topology.nodes.values()] == [("n", USED)]


def test_older_news_are_ignored_and_missing_halves_are_kept() -> None:
    topology = Topology()
    topology.on_packet(up("n", 5, USED, BACKUP), USED, True)
    topology.on_packet(up("n", 4, OTHER), USED, True)
    assert topology.nodes["n"].primary == USED
    topology.on_packet(up("n", 6, OTHER), USED, True)
    assert (topology.nodes["n"].primary, topology.nodes["n"].backup) == (OTHER, BACKUP)


def test_a_missing_backup_is_filled_in_even_by_old_news() -> None:
    topology = Topology()
    topology.on_packet(up("n", 5, USED), USED, True)
    topology.on_packet(up("n", 5, USED, BACKUP), USED, True)
    assert topology.nodes["n"].backup == BACKUP


def test_a_node_that_went_down_does_not_return_by_older_news() -> None:
    topology = Topology()
    topology.on_packet(up("n", 5, USED), USED, True)
    topology.on_packet(down("n", 7), USED, True)
    topology.on_packet(up("n", 6, USED), USED, True)
    assert topology.nodes == {}
    topology.on_packet(up("n", 8, USED), USED, True)
    assert topology.connectors() == [USED]


def test_without_high_availability_a_node_stays_known() -> None:
    topology = Topology()
    topology.on_packet(up("n", 5, USED), USED, False)
    topology.on_packet(down("n", 7), USED, False)
    assert "n" in topology.nodes
