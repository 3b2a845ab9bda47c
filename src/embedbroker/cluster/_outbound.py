"""The places where a broker searches for others: dialled until a broker answers, and again when the connection is lost.

Responsible for the attempts at each place and the pauses between them. Does not depend on which places are needed, and
not on the packets of a link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from embedbroker.config import ClusterConnection
from embedclient.engine import ConnectionDialer, Pipe
from embedclient.model import Instant, TransportConfiguration
from embedclient.wire.core import ClusterConnect, Packet

from ._control_link import ControlLink, LinkEnd, LinkOwner, LinkState, where

__all__ = ["OutboundPeer", "OutboundPeerOwner"]

# A broker that is started a little later than its peer is not worth a log line.
_UNREACHED_LOGGED_AFTER_S = 10.0
# The password of a broker does not change while it runs; but the peer may be another one by then.
_REFUSED_PAUSE_S = 30.0
# A running peer answers at once, or when the operating system has repeated the request, after one second and after
# three.
_DIAL_SECONDS_MAX = 5.0


class OutboundPeerOwner(LinkOwner, Protocol):
    """The owner of an `OutboundPeer`, which uses its link. After the link's end the peer dials again by itself."""

    def rearm(self) -> None:
        """Note that the deadline of the peer is earlier than it was."""


class OutboundPeer:
    """One place, which is dialled until the owner gives it up.

    Args:
        connector: The place.
        settings: The cluster connection, with the pauses between attempts in milliseconds.
        credentials: Cluster user and password, which the peer must accept.
        version: The newest protocol version of this broker.
        dialer: Opens the connections.
        owner: Receives the link when it is authorized, and its end.
        log: Receives lines for the operator.
        now: The time of the first attempt.
    """

    def __init__(
        self,
        connector: TransportConfiguration,
        settings: ClusterConnection,
        credentials: ClusterConnect,
        version: int,
        dialer: ConnectionDialer,
        owner: OutboundPeerOwner,
        log: Callable[[str], None],
        now: Instant,
    ) -> None:
        self.connector = connector
        self.link: ControlLink | None = None
        self._settings = settings
        self._credentials = credentials
        self._version = version
        self._dialer = dialer
        self._owner = owner
        self._log = log
        self._now = now
        self._number: int | None = None
        self._interval_ms: float = settings.retry_interval_ms
        self._due = now.monotonic
        self._unreached_since: float | None = now.monotonic
        #: Whether it is known which broker is at this place, or that none is.
        self.is_settled = False

    @property
    def authorized_link(self) -> ControlLink | None:
        """Return the link, once the peer has accepted the cluster user and password."""
        link = self.link
        return link if link is not None and link.state is LinkState.AUTHORIZED else None

    def give_up(self, reason: str) -> None:
        """Give this place up."""
        if self._number is not None and self.link is None:
            self._dialer.hang_up(self._number)
        self._number = None
        link, self.link = self.link, None
        if link is not None:
            link.close(reason)

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds; None while a connection is on its way."""
        if self.link is not None:
            return self.link.next_deadline()
        return self._due if self._number is None else None

    def on_time(self, now: Instant) -> None:
        """Dial if there is no connection; otherwise run the timed work of the link."""
        self._now = now
        if self.link is not None:
            self.link.on_time(now)
        elif self._number is None and now.monotonic >= self._due:
            timeout_s = min(self._settings.call_timeout_ms / 1000, _DIAL_SECONDS_MAX)
            self._number = self._dialer.dial(self, self.connector, timeout_s)

    def _pause(self, seconds: float) -> None:
        self.is_settled = True
        self._number = None
        self.link = None
        self._due = self._now.monotonic + seconds
        self._owner.rearm()

    def _pause_before_retry(self) -> None:
        settings, pause_ms = self._settings, self._interval_ms
        longest_ms = max(settings.max_retry_interval_ms, settings.retry_interval_ms)
        # Bounded before it is multiplied again: any number of attempts must not overflow.
        self._interval_ms = min(pause_ms * settings.retry_interval_multiplier, longest_ms)
        self._pause(pause_ms / 1000)

    # -- what becomes of an attempt ------------------------------------------------------------------------------

    def opened(self, pipe: Pipe, now: Instant) -> None:
        self._now = now
        link = ControlLink(self, pipe, self.connector, self._settings, self._credentials, self._version, now)
        self.link = link
        self._owner.rearm()

    def not_opened(self, reason: str, now: Instant) -> None:
        self._now = now
        since = self._unreached_since
        if since is None:
            self._unreached_since = now.monotonic
        elif now.monotonic - since >= _UNREACHED_LOGGED_AFTER_S:
            # Logged once: no time is later than this by ten seconds.
            self._unreached_since = float("inf")
            self._log(f"no broker answers at {where(self.connector)}, which is tried again: {reason}")
        self._pause_before_retry()

    def receive(self, data: bytes, now: Instant) -> None:
        self._now = now
        if self.link is not None:
            self.link.receive(data, now)

    def written(self, count: int, now: Instant) -> None:
        """Do nothing: control packets are few."""

    def lost(self, reason: str, now: Instant) -> None:
        self._now = now
        if self.link is not None:
            self.link.lost(reason)

    def on_authorized(self, link: ControlLink) -> None:
        """Forget failed attempts, and pass the link on."""
        self._interval_ms = self._settings.retry_interval_ms
        self._unreached_since = None
        self._owner.on_authorized(link)

    def on_packet(self, link: ControlLink, packet: Packet) -> None:
        """Pass a packet on."""
        self._owner.on_packet(link, packet)

    def on_end(self, link: ControlLink, end: LinkEnd, reason: str) -> None:
        """Dial again after a pause."""
        if end is LinkEnd.REFUSED:
            self._pause(_REFUSED_PAUSE_S)
        else:
            self._pause_before_retry()
        self._owner.on_end(link, end, reason)
