"""State that all CORE connections of a broker share: the kernel, the broker's identity, sessions by name.

Responsible for the registry that reattachment and metadata need, and for the gate through which replies leave. Does not
depend on packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from embedbroker.kernel import InternalBinding, Kernel, Refused, Session
from embedclient.model import Entropy, Instant

from ._management import management_binding
from ._resend import ResendAccount

if TYPE_CHECKING:
    from embedbroker.services import Services
    from embedclient.wire.core import CoreMessage

    from ._connection import CoreConnection
    from ._session import CoreSession

__all__ = ["SERVER_VERSION", "SERVICES_ADDRESS", "Cluster", "CoreService", "Gate", "Releasable"]

SERVER_VERSION = 136
"""The protocol level the broker announces (core-protocol 3.1)."""

SERVICES_ADDRESS = "embedbroker.services"
"""The address of requests to the broker itself. Another broker has no address of this name."""


class Releasable(Protocol):
    """Hold replies until records are durable."""

    def release(self, reached: int) -> bool:
        """Release what is durable; return True if anything is still held."""


class Gate(Protocol):
    """Define the one durability gate of a node."""

    def hold(self, holder: Releasable) -> None:
        """Call ``holder.release`` whenever more became durable."""


class Cluster(Protocol):
    """Handle connections of other brokers, for a broker with a cluster connection."""

    def subscribe(self, peer: CoreConnection) -> None:
        """Send a peer every member now, and every change while its connection lasts."""

    def is_broker(self, peer: CoreConnection) -> bool:
        """Return True if a peer is another broker of this cluster."""

    def on_frame(
        self, peer: CoreConnection, channel_id: int, packet_type: int, buffer: bytes | bytearray, start: int, end: int
    ) -> None:
        """Handle a frame of a channel that only brokers use."""

    def forget(self, peer: CoreConnection) -> None:
        """Forget a connection that is gone."""

    def refuses_login(self, user: str | None, password: str | None) -> bool:
        """Return True if a session claims to be a broker of this cluster, and is not."""


class CoreService:
    """Hold the shared state of all CORE connections."""

    __slots__ = (
        "cluster",
        "entropy",
        "gate",
        "kernel",
        "metadata",
        "node_id",
        "now",
        "resend",
        "services",
        "sessions",
        "started",
        "waits",
    )

    def __init__(self, kernel: Kernel, gate: Gate, entropy: Entropy, node_id: str, resend: ResendAccount) -> None:
        self.kernel = kernel
        self.gate = gate
        self.entropy = entropy
        self.resend = resend
        self.node_id = node_id
        # Created for the first request.
        self.services: Services | None = None
        self.now = Instant(0.0, 0)
        self.sessions: dict[str, CoreSession] = {}
        # How many sessions carry a pair. JMS clients check for each connection whether its client id is in use.
        self.metadata: dict[tuple[str, str], int] = {}
        # False while the journal is read: sessions are refused with "starting", so that clients retry.
        self.started = False
        # True while other brokers are admitted, and clients are not: they would wait here for a broker that may never
        # be live.
        self.waits = False
        # None on a broker without a cluster connection.
        self.cluster: Cluster | None = None
        kernel.address_manager.bind_internal(management_binding(kernel))
        kernel.address_manager.bind_internal(InternalBinding(SERVICES_ADDRESS, self._serve))

    def _serve(self, request: CoreMessage, session: Session, _sender_waits: bool) -> Refused | None:
        # Few brokers get requests: what serves them is loaded with the first.
        from ._services import serve_request

        return serve_request(self, request, session)

    def holds_metadata(self, key: str, value: str, asking: CoreSession) -> bool:
        """Return True if another session carries this pair."""
        return self.metadata.get((key, value), 0) > (asking.metadata.get(key) == value)

    def carry_metadata(self, session: CoreSession, key: str, value: str) -> None:
        """Record that a session carries this pair from now on, instead of its earlier value under the key."""
        self._forget_pair(key, session.metadata.get(key))
        session.metadata[key] = value
        self.metadata[key, value] = self.metadata.get((key, value), 0) + 1

    def forget_metadata(self, session: CoreSession) -> None:
        """Forget the metadata of a session that is over."""
        for key, value in session.metadata.items():
            self._forget_pair(key, value)
        session.metadata.clear()

    def _forget_pair(self, key: str, value: str | None) -> None:
        if value is None:
            return
        count = self.metadata.pop((key, value)) - 1
        if count:
            self.metadata[key, value] = count
