"""Where the sessions of a lost connection may be: the servers of one pair, as far as they are known to this client.

Responsible for the id of the broker's node, for the server that replaces the present one, and for the order in which
these servers are tried (core-protocol 7.13, 10.3). Does not depend on connections, pauses or the number of attempts.

An Artemis client tries the present connector, its backup, the previous connector, and the first. There are two cases in
which it never gets any further with endless attempts, or only after long waits:

1. The connection breaks before the broker has announced its backup. The user has named the backup, but the client tries
   only the lost server. Here a named connector that no other node claims may be the other server of the pair, if it
   supports the query whether it replaces the node (CHECK_FOR_FAILOVER). Where addresses are translated, they do not
   show which of several nodes the present one is. The client queries it, and the server may name its node when it
   stops. Until the node is known, sessions avoid servers that they have never been on, which may belong to another
   node.
2. The server is present but silent: a frozen process, or a host lost without notice. Each attempt to reach it costs a
   whole time-out, in front of the one that would succeed. Here such a server comes last, and so does one that has
   announced its stop.
"""

from collections.abc import Collection, Iterator, Sequence

from embedclient.model import TransportConfiguration

from ._topology import Topology, TopologyNode, distinct_servers, same_server


class SessionServers:
    """The servers that may have the sessions. `connectors` are those that the user named."""

    def __init__(self, connectors: Sequence[TransportConfiguration], topology: Topology, ha: bool) -> None:
        self.node_id: str | None = None
        self.current: TransportConfiguration | None = None
        self._connectors = connectors
        self._topology = topology
        self._ha = ha
        self._backup: TransportConfiguration | None = None
        self._previous: TransportConfiguration | None = None
        self._first: TransportConfiguration | None = None
        self._away = False
        self._heir: str | None = None
        # Where it is, if the broker has named the place.
        self._heir_place: TransportConfiguration | None = None
        # The nodes that the present broker, or the last one, has announced. Announcements of other brokers may be out
        # of date.
        self._announced: Collection[str] = ()

    def on_connected(self, connector: TransportConfiguration) -> None:
        """Record that the sessions are at `connector` now."""
        if self.current is not None and not any(same_server(connector, each) for each in self.servers()):
            # The sessions have left the pair: its recorded state is obsolete.
            self.node_id = self._backup = self._previous = self._first = self.current = None
        if self.current is not connector:
            self._previous = self.current
            self.current = connector
        if self._first is None:
            self._first = connector
        self._away = False
        self._heir = self._heir_place = None

    def on_lost(
        self,
        *,
        away: bool,
        heir: str | None,
        place: TransportConfiguration | None = None,
        node_id: str | None = None,
    ) -> None:
        """Record the loss of the connection.

        `away`: the server is silent or stops; `heir`: the node that has its messages, and `place`: where that is.

        `node_id`: the name that the server gave for itself at its end.
        """
        self._away = away
        self._heir = heir
        self._heir_place = place
        self._identify(node_id)

    @property
    def candidates(self) -> Collection[str]:
        """Return the nodes that include the present one, while it is not known which.

        Empty where the answer would have no use.
        """
        unused = [named for named in self._connectors if not self._is_current(named)]
        return () if self._is_certain or not self._ha or not unused else self._announced

    def on_answers(self, taken_over: Sequence[str]) -> None:
        """Record for which `candidates` the present broker claims to act; some brokers claim all of them."""
        if len(taken_over) == 1:
            self._identify(taken_over[0])

    def _identify(self, node_id: str | None) -> None:
        if self.node_id is None and node_id is not None:
            self.node_id = node_id
            self._look_for_backup(self._topology.nodes.get(node_id))

    @property
    def _is_certain(self) -> bool:
        return self.node_id is not None or len(self._announced) <= 1

    def on_news(self, announced: Collection[str]) -> None:
        """Record a change of the topology, with the nodes that the present broker has announced."""
        self._announced = tuple(announced)
        node = self._own_node()
        if node is None:
            return
        self.node_id = node.node_id
        self._look_for_backup(node)

    def _look_for_backup(self, node: TopologyNode | None) -> None:
        if node is None:
            return
        stands_in = node.primary if node.backup is not None and self._is_current(node.backup) else node.backup
        if stands_in is not None and not self._is_current(stands_in):
            self._backup = stands_in

    def _announced_nodes(self) -> list[TopologyNode]:
        return [self._topology.nodes[node_id] for node_id in self._announced if node_id in self._topology.nodes]

    def _own_node(self) -> TopologyNode | None:
        nodes = self._announced_nodes()
        for node in nodes:
            if any(self._is_current(each) for each in node.connectors()):
                return node
        # True under any name it was reached by: a broker that announces one node announces itself.
        return nodes[0] if len(nodes) == 1 else None

    def _is_current(self, connector: TransportConfiguration) -> bool:
        return self.current is not None and same_server(connector, self.current)

    def servers(self) -> list[TransportConfiguration]:
        """Return the servers to try for the sessions, in this order, each server once."""
        assert self.current is not None
        others = [each for each in self._others() if not self._is_current(each)]
        servers = [*others, self.current] if self._away else [self.current, *others]
        node = None if self._heir is None else self._topology.nodes.get(self._heir)
        heirs = [] if node is None else node.connectors()
        if self._heir_place is not None:
            heirs.append(self._heir_place)
        return distinct_servers([*heirs, *servers])

    def _others(self) -> Iterator[TransportConfiguration]:
        if self._backup is not None:
            # The user's connector may hold more about the route than the broker's.
            for named in self._connectors:
                if named.name == self._backup.name or same_server(named, self._backup):
                    yield named
            yield self._backup
        for used in (self._previous, self._first):
            if used is not None:
                yield used
        if self._ha and self._is_certain:
            yield from (named for named in self._connectors if not self._is_claimed(named))

    def _is_claimed(self, connector: TransportConfiguration) -> bool:
        return any(
            node.node_id != self.node_id and any(same_server(connector, each) for each in node.connectors())
            for node in self._announced_nodes()
        )
