"""The nodes of a cluster, as announced to the client (core-protocol 7.13).

Responsible for which news about a node counts, for the connectors in them, for the nodes among which connections are
balanced, and for when two connectors lead to the same server. Does not depend on connections; the agent passes the
connector it uses.
"""

from collections.abc import Collection, Sequence

from attrs import define, evolve, field, frozen

from embedclient.model import TransportConfiguration
from embedclient.wire.core import (
    ClusterTopology,
    ClusterTopologyV2,
    ClusterTopologyV3,
    ClusterTopologyV4,
    Packet,
)

TOPOLOGY_PACKETS = (ClusterTopology, ClusterTopologyV2, ClusterTopologyV3, ClusterTopologyV4)
DELETED_NODES_MAX = 1000
NODES_MAX = 1000
"""Maximum number of nodes; beyond it the oldest is forgotten. No packet reports that a node is gone for good."""


@frozen
class TopologyNode:
    """One node: its primary and, if present, its backup.

    `is_alone`: its broker is in no cluster, and the primary is the connector that the client used.
    """

    node_id: str
    event_id: int
    primary: TransportConfiguration | None
    backup: TransportConfiguration | None
    is_alone: bool = False

    def connectors(self) -> list[TransportConfiguration]:
        """Return its servers, the primary first."""
        return [connector for connector in (self.primary, self.backup) if connector is not None]


def same_server(one: TransportConfiguration, other: TransportConfiguration) -> bool:
    """Return True if two connectors have equal host and port. Other transports compare as a whole."""
    return one.leads_where(other)


def distinct_servers(connectors: Sequence[TransportConfiguration]) -> list[TransportConfiguration]:
    """Return the connectors in order, without those that lead to a server named before."""
    distinct: list[TransportConfiguration] = []
    for connector in connectors:
        if not any(same_server(connector, other) for other in distinct):
            distinct.append(connector)
    return distinct


@define(eq=False)
class Topology:
    """The known nodes of the cluster. `complete` once the first batch has ended.

    Several agents may share a topology, also agents in different threads.
    """

    nodes: dict[str, TopologyNode] = field(factory=dict)
    complete: bool = False
    # When a node was reported as gone, so that older news about it can be recognised.
    _deleted: dict[str, int] = field(factory=dict)
    # For each agent that is connected, the ids of the nodes that its broker announces.
    _reports: dict[object, Collection[str]] = field(factory=dict)

    def on_packet(self, packet: Packet, used: TransportConfiguration, ha: bool) -> bool:
        """Apply one topology packet that came over a connection to `used`.

        Return False if the node is of no interest, so that it does not count as announced.
        """
        assert isinstance(packet, TOPOLOGY_PACKETS), packet
        event_id = 0 if isinstance(packet, ClusterTopology) else packet.unique_event_id
        if packet.exit:
            self._on_down(packet.node_id, event_id, ha)
            return True
        # A broker outside any cluster names no connector: it is the one the client reached it by.
        alone = packet.primary is None and packet.backup is None
        primary, backup = [each and each.without_local_address for each in (packet.primary, packet.backup)]
        self._on_up(TopologyNode(packet.node_id, event_id, used if alone else primary, backup, alone))
        self.complete = self.complete or packet.last
        return True

    def _on_up(self, news: TopologyNode) -> None:
        deleted = self._deleted.get(news.node_id)
        if deleted is not None and news.event_id < deleted:
            return
        known = self.nodes.get(news.node_id)
        if known is None or news.event_id > known.event_id or (known.primary is None and news.primary is not None):
            if known is not None and not (news.primary and news.backup):
                news = evolve(news, primary=news.primary or known.primary, backup=news.backup or known.backup)
            self.nodes[news.node_id] = news
            if len(self.nodes) > NODES_MAX:
                self.nodes.pop(next(iter(self.nodes)), None)
        elif known.backup is None and news.backup is not None:
            self.nodes[news.node_id] = evolve(known, backup=news.backup)

    def _on_down(self, node_id: str, event_id: int, ha: bool) -> None:
        self._deleted.pop(node_id, None)
        self._deleted[node_id] = event_id
        if len(self._deleted) > DELETED_NODES_MAX:
            self._deleted.pop(next(iter(self._deleted)), None)
        known = self.nodes.get(node_id)
        if ha and known is not None and known.event_id <= event_id:
            self.nodes.pop(node_id, None)

    def forget_former(self, listed: Collection[str]) -> None:
        """Drop the nodes that a broker under a new id has replaced: at its server, and not announced by it.

        The argument holds the nodes that the present broker has announced. A broker without a journal has a new id
        after each restart.
        """
        present = [
            node.primary for node_id, node in list(self.nodes.items()) if node_id in listed and node.primary is not None
        ]
        for node in list(self.nodes.values()):
            primary = node.primary
            if node.node_id not in listed and primary and any(same_server(primary, each) for each in present):
                self.nodes.pop(node.node_id, None)

    def other_server(self, connector: TransportConfiguration) -> TransportConfiguration | None:
        """Return the server that forms a pair with the server at `connector`, None when none is known."""
        for node in list(self.nodes.values()):
            if node.primary is not None and node.backup is not None:
                if same_server(node.primary, connector):
                    return node.backup
                if same_server(node.backup, connector):
                    return node.primary
        return None

    def connectors(self) -> list[TransportConfiguration]:
        """Return the primaries, in the order in which they became known, each server once."""
        return distinct_servers([node.primary for node in list(self.nodes.values()) if node.primary is not None])

    def report(self, agent: object, announced: Collection[str]) -> None:
        """Record that an agent is connected. Its broker announces these nodes; the agent may change the collection."""
        self._reports[agent] = announced

    def end_report(self, agent: object) -> None:
        """Record that an agent is not connected any more."""
        self._reports.pop(agent, None)

    def members(self, *, former: bool) -> list[TransportConfiguration]:
        """Return the primaries among which new connections are balanced, each server once.

        These are the nodes that a connected agent's broker announces now. Without one, `former` adds the nodes that
        were announced before. A broker outside any cluster is not a member.
        """
        present = set().union(*list(self._reports.values()))
        nodes = [node for node in list(self.nodes.values()) if node.primary is not None and not node.is_alone]
        if present or not former:
            nodes = [node for node in nodes if node.node_id in present]
        return distinct_servers([node.primary for node in nodes if node.primary is not None])
