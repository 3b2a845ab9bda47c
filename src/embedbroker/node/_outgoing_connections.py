"""The connections that a node opens itself: requested, open, over.

Responsible for their numbers, and for delivering each read to the caller that requested the connection. Combines the
output gathered in a step into one SendBytes each. Does not depend on the content.

Their numbers are below zero: those above are the host's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedbroker.config import BrokerConfig
from embedbroker.protocols import ConnectionPort
from embedclient.model import Instant, TransportConfiguration

from ._current_step import NodeLog
from ._inputs import BytesReceived, Dialed, DialFailed, PeerClosed, Written
from ._outputs import CloseConnection, Dial, Output, SendBytes

if TYPE_CHECKING:
    from embedclient.engine import DialHandler

__all__ = ["OutgoingConnections"]


class OutgoingConnections:
    """For each number: the caller that requested the connection, and the link once it is open."""

    def __init__(self, config: BrokerConfig, log: NodeLog) -> None:
        self._config = config
        self._log = log
        self._callers: dict[int, DialHandler] = {}
        self._links: dict[int, ConnectionPort] = {}
        #: What `collect` has to take: connections with output, and requests.
        self.dirty: list[ConnectionPort] = []
        self.orders: list[Output] = []
        self._last = 0

    def dial(self, caller: DialHandler, connector: TransportConfiguration, timeout_s: float) -> int:
        """Request a connection; the caller is notified of the outcome."""
        self._last -= 1
        self._callers[self._last] = caller
        self.orders.append(Dial(self._last, connector, timeout_s))
        return self._last

    def hang_up(self, number: int) -> None:
        """Give up a connection that is no longer needed."""
        if self._callers.pop(number, None) is not None:
            self.orders.append(CloseConnection(number, "not wanted any more"))

    # -- what becomes of it --------------------------------------------------------------------------------------

    def on_dialed(self, dialed: Dialed, now: Instant) -> None:
        caller = self._callers.get(dialed.connection)
        if caller is not None:
            link = ConnectionPort(dialed.connection, dialed.peer, self._config.output_high_water_bytes, self.dirty)
            self._links[dialed.connection] = link
            caller.opened(link, now)

    def on_dial_failed(self, failed: DialFailed, now: Instant) -> None:
        caller = self._callers.pop(failed.connection, None)
        if caller is not None:
            caller.not_opened(failed.reason, now)

    def on_bytes(self, received: BytesReceived, now: Instant) -> None:
        caller = self._callers.get(received.connection)
        if caller is not None:
            caller.receive(received.data, now)

    def on_written(self, written: Written, now: Instant) -> None:
        link = self._links.get(written.connection)
        if link is not None:
            link.written(written.count)
            caller = self._callers.get(written.connection)
            if caller is not None:
                caller.written(written.count, now)

    def on_peer_closed(self, closed: PeerClosed, now: Instant) -> None:
        caller = self._callers.pop(closed.connection, None)
        link = self._links.pop(closed.connection, None)
        if caller is not None and link is not None:
            link.alive = False
            caller.lost(closed.reason, now)

    # -- the end of a step ---------------------------------------------------------------------------------------

    def collect(self, outputs: list[Output], now: Instant) -> None:
        """Collect the requests and the output gathered since the last call, if there are any."""
        bytes_max = self._config.output_bytes_max
        for link in self.dirty:
            if link.out:
                outputs.append(SendBytes(link.id, link.take()))
            if link.room + link.excess < link.high_water - bytes_max and link.alive:
                self._log.warning(f"{link.peer}: closed, it does not read: {bytes_max} bytes are waiting for it")
                link.close("the peer does not read")
                self._callers[link.id].lost("it does not read", now)
            if not link.alive and link.close_reason is not None:
                outputs.append(CloseConnection(link.id, link.close_reason))
                link.close_reason = None
                self._links.pop(link.id, None)
                self._callers.pop(link.id, None)
        self.dirty.clear()
        if self.orders:
            outputs += self.orders
            self.orders.clear()
