"""What management sees of the bridges, cluster connections and broadcast groups of a broker, outside of the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from embedbroker.config import BridgeConfig, BroadcastGroup, ClusterConnection

__all__ = ["BridgeView", "BroadcastGroupView", "ClusterConnectionView"]


class BridgeView(Protocol):
    """Describe a bridge, and switch it on request of management."""

    @property
    def config(self) -> BridgeConfig:
        """Return its configuration."""

    @property
    def is_started(self) -> bool:
        """Return True if it is started, with a connection or without."""

    @property
    def is_connected(self) -> bool:
        """Return True if it has a connection and sends."""

    @property
    def pending_count(self) -> int:
        """Return the number of messages that were sent and are not confirmed."""

    @property
    def acknowledged_count(self) -> int:
        """Return the number of messages that the other broker has confirmed."""

    def start(self) -> str | None:
        """Start it; return why that is not possible now."""

    def stop(self) -> str | None:
        """Stop it, with a wait for confirmations; return why that is not possible now."""

    def pause(self) -> str | None:
        """Pause it, with a wait for confirmations; return why that is not possible now."""

    def resume(self) -> str | None:
        """Start it again after a pause; return why that is not possible."""


class ClusterConnectionView(Protocol):
    """Describe a cluster connection, and switch its bridges on request of management."""

    @property
    def settings(self) -> ClusterConnection:
        """Return its configuration."""

    @property
    def is_started(self) -> bool:
        """Return True if it bridges to the members of the cluster."""

    @property
    def connected_nodes(self) -> dict[str, str]:
        """Return the places of the members to which there is a connection, by node id."""

    def is_connected_to(self, node_id: str) -> bool:
        """Return True if there is a connection to a member."""

    @property
    def nodes_down(self) -> list[str]:
        """Return the node ids of members that were given up, and were not announced since."""

    def describe_topology(self) -> str:
        """Return all members of the cluster as text."""

    def counts(self, node_id: str | None = None) -> tuple[int, int] | None:
        """Return how many messages wait for confirmation, and how many are confirmed.

        Args:
            node_id: Count what goes to this member; the result is None without a bridge to it. None counts everything.
        """

    def start(self) -> None:
        """Bridge to the members, unless it does so already."""

    def stop(self) -> None:
        """End all bridges: what is not confirmed returns to the queues, and nothing is routed to other members."""


class BroadcastGroupView(Protocol):
    """Describe a broadcast group, and switch it on request of management."""

    @property
    def settings(self) -> BroadcastGroup:
        """Return its configuration."""

    @property
    def connectors(self) -> Sequence[str]:
        """Return the names of the connectors that it announces."""

    @property
    def is_started(self) -> bool:
        """Return True if it announces this broker."""

    def start(self) -> bool:
        """Announce this broker; return False if it does so already, or is not live."""

    def stop(self) -> bool:
        """Announce this broker no more; return False if it is not announced."""
