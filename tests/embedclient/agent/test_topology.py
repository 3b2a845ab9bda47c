"""News about nodes, by the rules of core-protocol 7.13."""

from __future__ import annotations

from embedclient.agent import Topology
from embedclient.agent._topology import NODES_MAX
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


def test_a_node_whose_place_another_one_has_taken_is_forgotten() -> None:
    topology = Topology()
    for event_id, node_id in enumerate(("first", "elsewhere", "second"), 1):
        topology.on_packet(up(node_id, event_id, OTHER if node_id == "elsewhere" else USED), USED, True)
    topology.forget_former({"second": None})
    assert list(topology.nodes) == ["elsewhere", "second"]
    # Nodes that say the same of themselves, as inside of containers, are not one because of that.
    topology.on_packet(up("third", 4, USED), USED, True)
    topology.forget_former({"second": None, "third": None})
    assert list(topology.nodes) == ["elsewhere", "second", "third"]
    assert topology.connectors() == [OTHER, USED]


def test_not_more_nodes_are_known_than_allowed() -> None:
    topology = Topology()
    for number in range(NODES_MAX + 2):
        topology.on_packet(up(str(number), number, connector(number)), USED, True)
    assert list(topology.nodes) == [str(number) for number in range(2, NODES_MAX + 2)]


def test_the_near_end_that_a_broker_announces_is_of_its_machine() -> None:
    topology = Topology()
    own = TransportConfiguration("c", parameters={"port": 1, "localAddress": "10.0.0.1"})
    there = TransportConfiguration("c", parameters={"port": 2, "localAddress": "10.0.0.2", "localPort": 9})
    topology.on_packet(up("a", 1, None), own, True)
    topology.on_packet(up("b", 1, there, there), own, True)
    assert topology.nodes["a"].primary is own
    node = topology.nodes["b"]
    assert node.primary == node.backup == TransportConfiguration("c", parameters={"port": 2})
