"""The connections of a node: newcomers without a known protocol, served connections, and lost ones.

Responsible for the way of a connection through these three, and for the limit on what they hold together. Combines the
output gathered in a step into one SendBytes each. Does not depend on the content, or on when a node stops.
"""

from __future__ import annotations

import math

from embedbroker.config import BrokerConfig
from embedbroker.protocols import DETECT_BYTES, ConnectionPort, CoreConnection, CoreService, Detected, detect
from embedclient.model import Instant, TransportConfiguration

from ._buffer_limits import BufferLimits
from ._current_step import CurrentStep, NodeLog
from ._inputs import Accepted, BytesReceived, CertificateReceived, PeerClosed, Written
from ._outputs import CloseConnection, PauseReading, ResumeReading, SendBytes
from ._part import Part

__all__ = ["Connections"]

_OUTPUT_COUNTED_FROM_BYTES = 64 * 1024
# How often the log warns of connections that had to make room for others.
_ROOM_WARNED_EVERY_S = 60.0


class _Newcomer:
    """A connection of which fewer than eight bytes are known."""

    __slots__ = ("deadline", "head", "link")

    def __init__(self, link: ConnectionPort, deadline: float | None) -> None:
        self.link = link
        self.head = b""
        self.deadline = deadline


class Connections(Part):
    """The connections of a node.

    ``newcomers`` have not shaken hands; ``lost`` ones have no socket, and their sessions wait for the client.
    """

    def __init__(
        self,
        config: BrokerConfig,
        core: CoreService,
        memory_limit_bytes: int,
        log: NodeLog,
    ) -> None:
        shares = config.memory_shares(memory_limit_bytes)
        self.newcomers: dict[int, _Newcomer] = {}
        self.served: dict[int, CoreConnection] = {}
        self.lost: dict[CoreConnection, None] = {}
        # Some of the served connections: those that have sent no request, oldest first, and some that have by now.
        self._silent: dict[int, CoreConnection] = {}
        self._room_warned_at = -math.inf
        self.partial_frames = BufferLimits(
            shares.partial_frames, "partial_frames_bytes_max", "a frame that has not come whole"
        )
        self.output = BufferLimits(shares.output, "output_total_bytes_max", "output that its peer does not read")
        self._config = config
        self._acceptors = config.listens_at
        # The connections of each acceptor that has a limit, and some that have ended since.
        self._of_limited = {
            number: dict[int, None]()
            for number, acceptor in enumerate(self._acceptors)
            if acceptor.connections_max is not None
        }
        self._core = core
        self._log = log
        # Links that gathered output, or were closed, since the last `run`.
        #: Ports with output, or with a change of state that the host must learn.
        self.waiting: list[ConnectionPort] = []

    def on_accepted(self, accepted: Accepted, now: Instant, *, serving: bool) -> None:
        link = ConnectionPort(
            accepted.connection, accepted.peer, self._config.output_high_water_bytes, self.waiting, accepted.acceptor
        )
        if not serving:
            link.close("the broker is not running")
        elif self._is_full(accepted.acceptor) and not self.make_room(now, accepted.acceptor):
            acceptor = self._acceptors[accepted.acceptor]
            self._log.warning(
                f"{accepted.peer}: refused, {acceptor.connections_max} connections are open at acceptor"
                f" {acceptor.name!r}"
            )
            link.close("too many connections")
        elif len(self.served) + len(self.newcomers) >= self._config.connections_max and not self.make_room(now):
            self._log.warning(f"{accepted.peer}: refused, {self._config.connections_max} connections are open")
            link.close("too many connections")
        else:
            timeout = self._handshake_timeout_ms(link)
            deadline = now.monotonic + timeout / 1000 if timeout else None
            self.newcomers[accepted.connection] = _Newcomer(link, deadline)
            if accepted.acceptor in self._of_limited:
                self._of_limited[accepted.acceptor][accepted.connection] = None

    def _is_full(self, number: int) -> bool:
        """Return True if an acceptor has as many connections as its own limit allows."""
        known = self._of_limited.get(number)
        limit = self._acceptors[number].connections_max
        if known is None or limit is None or len(known) < limit:
            return False
        for ended in [each for each in known if each not in self.served and each not in self.newcomers]:
            del known[ended]
        return len(known) >= limit

    def _handshake_timeout_ms(self, link: ConnectionPort) -> int:
        own = self._acceptors[link.acceptor].handshake_timeout_ms
        return self._config.handshake_timeout_ms if own is None else own

    def on_certificate(self, received: CertificateReceived) -> None:
        newcomer = self.newcomers.get(received.connection)
        if newcomer is not None:
            newcomer.link.certificate_subject = received.subject

    def make_room(self, now: Instant, acceptor: int | None = None) -> bool:
        """Close the oldest connection that has sent no request; return False without such a connection.

        ``acceptor`` is the index of the acceptor that needs the room; None: any connection makes it.
        """
        for silent in [each for each in self._silent.values() if each.has_identified_itself or not each.link.alive]:
            del self._silent[silent.link.id]
        wanted = [acceptor] if acceptor is not None else range(len(self._acceptors))
        newcomer = next((n for n, each in self.newcomers.items() if each.link.acceptor in wanted), None)
        silent_one = next((n for n, each in self._silent.items() if each.link.acceptor in wanted), None)
        if newcomer is not None and (silent_one is None or newcomer < silent_one):
            link = self.newcomers.pop(newcomer).link
        elif silent_one is not None:
            connection = self._silent.pop(silent_one)
            connection.abandon()
            link = connection.link
        else:
            return False
        warns = now.monotonic >= self._room_warned_at + _ROOM_WARNED_EVERY_S
        if warns:
            self._room_warned_at = now.monotonic
        log = self._log.warning if warns else self._log.info
        log(f"{link.peer}: closed, it has sent no request and another connection needs its room")
        link.close("no request")
        return True

    def on_bytes(self, received: BytesReceived, now: Instant) -> None:
        connection = self.served.get(received.connection)
        if connection is not None:
            self._receive(connection, received.data, now)
            return
        newcomer = self.newcomers.get(received.connection)
        if newcomer is None:
            return
        newcomer.head += received.data
        if len(newcomer.head) >= DETECT_BYTES:
            del self.newcomers[received.connection]
            self._greet(newcomer, now)

    def _greet(self, newcomer: _Newcomer, now: Instant) -> None:
        """Hand the connection to its protocol, now that eight bytes are there."""
        link, head = newcomer.link, newcomer.head
        detected = detect(head[:DETECT_BYTES])
        match detected:
            case Detected.CORE_WITH_HANDSHAKE | Detected.HORNETQ | Detected.CORE:
                pass
            case Detected.TLS:
                self._log.warning(
                    f"{link.peer}: closed, it uses TLS, and this acceptor does not; remove sslEnabled=true from the "
                    "client's URL, or set it on the acceptor"
                )
                link.close("TLS is not served")
                return
            case _:
                self._log.warning(f"{link.peer}: closed, {detected.value} is not served here")
                link.close(f"{detected.value} is not served")
                return
        connection = CoreConnection(self._core, link, self._log.warning)
        self.served[link.id] = connection
        self._receive(connection, head, now)
        if not connection.has_identified_itself:
            self._silent[link.id] = connection

    def _receive(self, connection: CoreConnection, data: bytes, now: Instant) -> None:
        connection.receive(data, now)
        held = connection.state.pending_size if connection.link.alive else 0
        if held or self.partial_frames.total_bytes:
            self.partial_frames.count(connection, held)

    def on_written(self, written: Written) -> None:
        connection = self.served.get(written.connection)
        if connection is not None:
            connection.link.written(written.count)
            if self.output.total_bytes:
                self._count_output(connection)

    def _count_output(self, connection: CoreConnection) -> None:
        """Count the output that waits. Small amounts are on their way, and not counted."""
        waiting = connection.link.high_water - connection.link.room
        self.output.count(connection, waiting if waiting > _OUTPUT_COUNTED_FROM_BYTES else 0)

    def on_peer_closed(self, closed: PeerClosed) -> None:
        newcomer = self.newcomers.pop(closed.connection, None)
        if newcomer is not None:
            newcomer.link.alive = False
            self._log.info(f"{newcomer.link.peer}: gone without a handshake, {len(newcomer.head)} bytes came")
            return
        connection = self.served.pop(closed.connection, None)
        if connection is not None:
            self._forget_buffers(connection)
            connection.closed()
            if connection.lost:
                self._keep_lost(connection)

    def _forget_buffers(self, connection: CoreConnection) -> None:
        self._silent.pop(connection.link.id, None)
        self.partial_frames.forget(connection)
        self.output.forget(connection)

    def _keep_lost(self, connection: CoreConnection) -> None:
        """Keep the sessions of a lost connection for their client.

        The oldest give way when as many wait as may be connected.
        """
        if len(self.lost) >= max(self._config.connections_max, 1):
            oldest = next(iter(self.lost))
            del self.lost[oldest]
            oldest.log("given up, too many lost connections wait for a reattachment")
            oldest.abandon()
        self.lost[connection] = None

    def check(self, now: Instant) -> None:
        """Check time to live, handshake time-outs and peers that do not read. Runs every check interval."""
        for newcomer in [n for n in self.newcomers.values() if n.deadline is not None and now.monotonic >= n.deadline]:
            del self.newcomers[newcomer.link.id]
            timeout = self._handshake_timeout_ms(newcomer.link)
            self._log.info(f"{newcomer.link.peer}: closed, no handshake within {timeout} ms")
            newcomer.link.close("no handshake")
        for silent in [each for each in self._silent.values() if each.has_identified_itself]:
            del self._silent[silent.link.id]
        for connection in [*self.served.values(), *self.lost]:
            connection.check(now)
        for lost in [connection for connection in self.lost if not connection.lost]:
            del self.lost[lost]

    def run(self, step: CurrentStep) -> None:
        """Combine what each connection gathered into one SendBytes."""
        dirty = self.waiting
        outputs = step.outputs
        bytes_max = self._config.output_bytes_max
        for link in dirty:
            if link.out:
                outputs.append(SendBytes(link.id, link.take()))
                if link.high_water - link.room > _OUTPUT_COUNTED_FROM_BYTES and link.alive:
                    self._count_output(self.served[link.id])
            if link.room + link.excess < link.high_water - bytes_max and link.alive:
                self._log.warning(f"{link.peer}: closed, it does not read: {bytes_max} bytes are waiting for it")
                link.close("the peer does not read")
                dirty_connection = self.served.get(link.id)
                if dirty_connection is not None:
                    dirty_connection.abandon()
            if link.reading_changed:
                link.reading_changed = False
                if link.alive:
                    outputs.append(PauseReading(link.id) if link.is_paused else ResumeReading(link.id))
            if not link.alive and link.close_reason is not None:
                outputs.append(CloseConnection(link.id, link.close_reason))
                link.close_reason = None
                connection = self.served.pop(link.id, None)
                if connection is not None:
                    self._forget_buffers(connection)
        dirty.clear()

    def disconnect_all(
        self,
        spared: object = None,
        target_node_id: str | None = None,
        connector: TransportConfiguration | None = None,
        *,
        keeps_bridges: bool = False,
    ) -> None:
        """Disconnect clients and end their sessions, except the connection ``spared``, which is a backup's.

        ``target_node_id`` and ``connector`` are for clients that follow their messages to another broker. Those whose
        cluster announces its place need no connector.

        With ``keeps_bridges`` the bridges of other members lose their connections without notice. A member that gets
        the notice unbinds the queues here at once, as an Artemis does, and a message for a topic misses them before
        another broker is active for this node. After a lost connection it keeps them, and tries again.
        """
        clusters = self._core.clusters.values()
        announcing = [each for each in clusters if target_node_id is not None and each.announces(target_node_id)]
        for connection in [each for each in self.served.values() if each is not spared]:
            if keeps_bridges and connection.is_of_bridge:
                connection.part()
            else:
                connection.disconnect(target_node_id, None if connection.cluster in announcing else connector)
            connection.abandon()
        for newcomer in list(self.newcomers.values()):
            newcomer.link.close("the broker stops")
        for lost in list(self.lost):
            lost.abandon()
        self.newcomers.clear()
        self.lost.clear()

    def send_away(self, reason: str) -> None:
        """Close everything with a reason, and forget it: the broker goes on without connections."""
        self.cut(reason)
        for connection in list(self.served.values()):
            connection.abandon()
        self.newcomers.clear()

    def cut(self, reason: str) -> None:
        """Close everything without notice to the peers."""
        for connection in list(self.served.values()):
            connection.link.close(reason)
        for newcomer in list(self.newcomers.values()):
            newcomer.link.close(reason)
