"""The other broker of a bridge: where it may be, the login there, and how long its answers may take.

Responsible for the places of an attempt, and for recognizing another broker at one of them. Does not depend on
connections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import define, field

from embedclient.agent import TOPOLOGY_PACKETS, Topology
from embedclient.model import Entropy, TransportConfiguration
from embedclient.wire.core import Packet

__all__ = ["CALL_TIMEOUT_MS", "BridgeTarget", "ConfiguredTarget", "ConnectorsTarget", "MemberTarget", "Target"]

CALL_TIMEOUT_MS = 30_000
"""Longest wait of a bridge for an answer, which its configuration cannot change."""


class Target(Protocol):
    """The other broker of a bridge.

    Attributes:
        user: User of the other broker.
        password: Password of the user.
        entropy: Source of names and ids.
        call_timeout_ms: Longest wait for an answer.
    """

    user: str
    password: str | None
    entropy: Entropy
    call_timeout_ms: int

    @property
    def connectors(self) -> Sequence[TransportConfiguration]:
        """Return the places of one attempt, in their order; none if it cannot be reached at this moment."""

    @property
    def topology(self) -> Topology:
        """Return what the next connection may use of earlier ones, and adds to."""

    def refusal(self, node_id: str | None) -> str | None:
        """Return why the broker with this node id, if it is known, is not the other broker; None if it is."""


class BridgeTarget(Target, Protocol):
    """The other broker of a bridge, which tries again when a connection is lost."""

    def begin_attempt(self, number: int) -> None:
        """Prepare for an attempt; ``number`` counts from 1 since the last connection."""

    def note_connected(self, node_id: str | None, connector: TransportConfiguration | None) -> None:
        """Note the node id and the place of the broker to which there is a connection."""


@define
class ConnectorsTarget:
    """The broker that connectors lead to, whatever its node id."""

    connectors: Sequence[TransportConfiguration]
    user: str
    password: str | None
    entropy: Entropy
    call_timeout_ms: int = CALL_TIMEOUT_MS
    #: Outlives each connection: it names the backup of the broker that is lost.
    topology: Topology = field(factory=Topology)

    def refusal(self, node_id: str | None) -> str | None:
        """Return None: any broker is the right one."""
        return None


@define
class ConfiguredTarget:
    """The broker at the connectors of a bridge, or one that announces itself to its discovery group.

    After a lost connection the first attempts lead to the same node: where it was, and with ``follows`` its backup. So
    a restart of one of several brokers does not move a bridge to another one.

    Args:
        places: Returns where brokers are at this moment.
        same_node_attempts: Attempts that lead to the same node; -1: all.
        follows: Whether its backup counts as the same node.
    """

    places: Callable[[], Sequence[TransportConfiguration]]
    user: str
    password: str | None
    entropy: Entropy
    same_node_attempts: int
    follows: bool
    call_timeout_ms: int = CALL_TIMEOUT_MS
    #: Outlives each connection: it names the backup of the broker that is lost.
    topology: Topology = field(factory=Topology)
    _node_id: str | None = None
    _connector: TransportConfiguration | None = None
    _is_same_node: bool = False

    def begin_attempt(self, number: int) -> None:
        """Choose the places of an attempt."""
        limit = self.same_node_attempts
        self._is_same_node = self._connector is not None and (limit < 0 or number <= limit)

    def note_connected(self, node_id: str | None, connector: TransportConfiguration | None) -> None:
        """Note which node this is."""
        self._node_id, self._connector = node_id, connector

    @property
    def connectors(self) -> Sequence[TransportConfiguration]:
        """Return the places of the same node, or those that are known at this moment."""
        if not self._is_same_node or self._connector is None:
            return self.places()
        node = self.topology.nodes.get(self._node_id or "")
        known = node.connectors() if node is not None and self.follows else []
        return [self._connector, *(each for each in known if not each.leads_where(self._connector))]

    def refusal(self, node_id: str | None) -> str | None:
        """Return None: any broker is the right one."""
        return None


class _TopologyAtPlace(Topology):
    """Keep of the announced nodes the one at the place of the connection, which is all that a bridge needs.

    Each bridge has one: with all nodes in all of them, the memory of a broker would grow with their square.
    """

    def on_packet(self, packet: Packet, used: TransportConfiguration, ha: bool) -> bool:
        """Apply one topology packet that came over a connection to `used`; return False if its node is not kept."""
        assert isinstance(packet, TOPOLOGY_PACKETS), packet
        if packet.exit:
            is_kept = packet.node_id in self.nodes
        else:
            primary, backup = packet.primary, packet.backup
            # A broker outside any cluster names no place: it is the one at which it was reached.
            is_kept = (
                (primary is None and backup is None)
                or (primary is not None and primary.leads_where(used))
                or (backup is not None and backup.leads_where(used))
            )
            self.complete = self.complete or packet.last
        return is_kept and super().on_packet(packet, used, ha)


@define
class MemberTarget:
    """The member of a cluster with one node id: its active broker first, its backup after it.

    Args:
        node_id: Node id of the member.
        places: Returns where the active broker and the backup are at this moment.
    """

    node_id: str
    places: Callable[[], Sequence[TransportConfiguration]]
    user: str
    password: str | None
    entropy: Entropy
    call_timeout_ms: int

    def begin_attempt(self, number: int) -> None:
        """Do nothing: each attempt leads to the same member."""

    def note_connected(self, node_id: str | None, connector: TransportConfiguration | None) -> None:
        """Do nothing: the member is known."""

    @property
    def connectors(self) -> Sequence[TransportConfiguration]:
        """Return the places that the members of the cluster name at this moment."""
        return self.places()

    @property
    def topology(self) -> Topology:
        """Return an empty topology: this broker has the members from other connections."""
        return _TopologyAtPlace()

    def refusal(self, node_id: str | None) -> str | None:
        """Return a text if another member is at the place."""
        if node_id in (None, self.node_id):
            return None
        return f"node {node_id} is at the place of node {self.node_id}"
