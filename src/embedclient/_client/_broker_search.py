"""The search of a client for its first broker: datagrams of a group in, connectors out.

Responsible for which datagrams end the search, and for the error of one that found nothing. Does not depend on the
event loop, which moves the datagrams and keeps the time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from embedclient.agent import DiscoveryEntry, announced_entry
from embedclient.errors import ConnectionTimedOutException, RemoteProtocolError
from embedclient.model import TCP_CONNECTOR_FACTORY, AnnouncementHosts, SharedDirectory, can_be_dialled

from ._url import DiscoverySettings

_log = logging.getLogger("embedclient")


class BrokerSearch:
    """One search. The first broker that this client can connect to ends it.

    Args:
        settings: The group, and how long to wait.
        avoided: Node ids of brokers that end the search with their second datagram only, so that others come first.
    """

    def __init__(self, settings: DiscoverySettings, avoided: Iterable[str] = ()) -> None:
        self.group = settings.group
        wait_ms = settings.initial_wait_timeout_ms
        #: Seconds until the search must end; None for no limit.
        self.timeout_s = wait_ms / 1000 if wait_ms else None
        #: The broker that was found; None before.
        self.found: DiscoveryEntry | None = None
        self._avoided = set(avoided)
        self._unusable = 0
        self._last_reason = ""

    def on_datagram(self, data: bytes) -> bool:
        """Handle a datagram. Return True if the search has found a broker.

        Nothing is kept of a datagram that is of no use.
        """
        try:
            entry = announced_entry(data)
        except RemoteProtocolError as error:
            self._reject(str(error))
            return False
        # A connector inside one process means the process that announced it.
        if entry is None or entry.connector.factory != TCP_CONNECTOR_FACTORY or not can_be_dialled(entry.connector):
            self._reject("its connector names no way that is known here")
            return False
        self.found = entry
        is_avoided = entry.node_id in self._avoided
        self._avoided.discard(entry.node_id)
        return not is_avoided

    def _reject(self, reason: str) -> None:
        if not self._unusable:
            _log.warning("%s: a datagram is of no use: %s", self.group, reason)
        self._unusable += 1
        self._last_reason = reason

    def failure(self) -> ConnectionTimedOutException:
        """Return the error of a search that found no broker in time."""
        got = "no datagram came"
        if self._unusable:
            got = f"{self._unusable} datagrams came, and none was of use (the last one: {self._last_reason})"
        advice = "with this address and port, and localBindAddress must name an interface on which it sends"
        if isinstance(self.group, SharedDirectory):
            got = got.replace("datagram came", "announcement is there")
            advice = "with this directory and channel"
        elif isinstance(self.group, AnnouncementHosts):
            got = got.replace("datagram came", "announcement came")
            advice = "with this channel, and one of these ports must be its listen_port"
        return ConnectionTimedOutException(
            f"{self.group}: {got} within {self.timeout_s:g} s; a broker must have a broadcast-group {advice}"
        )
