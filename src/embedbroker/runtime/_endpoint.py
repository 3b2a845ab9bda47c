"""The addresses that a broker listens on, and its connections to other brokers: over TCP, or over a given network.

The address of a broker of a cluster is known before its first step, and reserved while the broker accepts no
connections.

A member announces its address before it accepts connections; a backup announces it long before. With port 0 the address
would be unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import trio
from attrs import evolve

from embedbroker.config import BrokerConfig
from embedclient.errors import ResourceAllocationException
from embedclient.model import TLS, TLSSettings, TransportConfiguration
from embedclient.tls import AcceptorTLS, TLSStoreError
from embedclient.transport import (
    ByteStream,
    Listener,
    TcpReservation,
    TLSDial,
    TLSListener,
    TransportLost,
    dial,
    listen_tcp,
    reserve_tcp,
)

if TYPE_CHECKING:
    from embedclient.transport import Datagrams

__all__ = ["Endpoint", "Network", "open_endpoint"]


class Network(Protocol):
    """The replacement of TCP and the ``vm://`` names for a broker."""

    async def listen(self, config: BrokerConfig) -> list[Listener]:
        """Accept peers. A first listener without a port is one for the ``vm://`` name of the broker.

        Raises:
            OSError: the address is not available; the text names it.
        """

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        """Open the byte pipe to another broker that a connector names.

        Raises:
            TransportLost: no answer came within ``timeout_s`` seconds.
        """


class Endpoint:
    """The addresses of one broker. ``config`` names the TCP port."""

    def __init__(
        self,
        config: BrokerConfig,
        reservation: TcpReservation | None,
        network: Network | None = None,
        datagrams: Datagrams | None = None,
    ) -> None:
        self.config = config
        #: What opens multicast groups; None is UDP.
        self.datagrams = datagrams
        #: Whether clients in the same trio run find the broker by its name, too.
        self.has_vm_name = network is None
        self._network = network
        self._reservation = reservation
        self._acceptor_tls = None if config.tls is None else AcceptorTLS(config.tls)

    async def listen(self, port: int = 0) -> list[Listener]:
        """Accept peers.

        Args:
            port: Port to listen on again, if the configuration leaves it open; 0 takes a free one.

        Raises:
            ResourceAllocationException: the text names the address that is not available.
        """
        tls = self._acceptor_tls
        try:
            if tls is not None:
                tls.check()
            listeners = await self._listen(port)
        except (TransportLost, OSError, TLSStoreError) as error:
            self.give_back()
            raise _refused(self.config, error) from error
        # A listener without a port is for clients of this process, whose bytes leave it for no network.
        return [TLSListener(each, tls) if tls is not None and each.port else each for each in listeners]

    def reload(self) -> None:
        """Read the files of TLS again, for connections from now on.

        Raises:
            ResourceAllocationException: the files cannot be used, and what they were before stays in force.
        """
        if self._acceptor_tls is not None:
            try:
                self._acceptor_tls.reload()
            except TLSStoreError as error:
                raise ResourceAllocationException(str(error)) from error

    async def _listen(self, port: int) -> list[Listener]:
        config, reservation = self.config, self._reservation
        if self._network is not None:
            return await self._network.listen(config)
        if reservation is not None:
            return [*reservation.listen()]
        return [*await listen_tcp(config.host, config.port or port)]

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        """Open the byte pipe to another broker, with the TLS settings of this one.

        Raises:
            TransportLost: no answer came within ``timeout_s`` seconds, or TLS could not be established.
        """
        if connector not in self.config.connectors.values():  # a peer announced it
            connector = connector.without_local_address
        connector = connector.with_local_tls(*self._local_tls())
        if self._network is None:
            return await dial(connector, timeout_s)
        deadline = trio.current_time() + timeout_s
        tls = TLSDial(connector)
        return await tls.establish(await self._network.dial(connector, timeout_s), deadline)

    def _local_tls(self) -> tuple[list[TransportConfiguration], TLS | None]:
        """Return the connectors of this broker, the one it announces first, and what holds without any of them."""
        config = self.config
        named = [each.connector for each in config.cluster_connections if each.connector is not None]
        own = [config.connectors[name] for name in named]
        # The names that the acceptor allows are none that a connector requests.
        otherwise = evolve(config.tls, sni_host=None) if isinstance(config.tls, TLSSettings) else None
        return [*own, *config.connectors.values()], otherwise

    def keep(self) -> None:
        """Reserve the port while the listeners are closed: the broker will listen again.

        Raises:
            ResourceAllocationException: the port is in use already.
        """
        if self._reservation is None:
            return
        try:
            self._reservation.take_back()
        except OSError as error:
            self._reservation = None
            raise _refused(self.config, error) from error

    def give_back(self) -> None:
        """Release the port; this broker will not listen on it."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.close()


async def open_endpoint(
    config: BrokerConfig, network: Network | None = None, datagrams: Datagrams | None = None
) -> Endpoint:
    """Take a free port now for a broker that must announce its address before it listens.

    Raises:
        ResourceAllocationException: the text names the address that is not available.
    """
    if network is not None:
        return Endpoint(config, None, network, datagrams)
    cluster = config.cluster_connection
    is_announced = any(each.connector is None for each in config.cluster_connections) or (
        any(not group.connectors for group in config.broadcast_groups)
        and (cluster is None or cluster.connector is None)
    )
    if not is_announced or config.port != 0:
        return Endpoint(config, None, None, datagrams)
    try:
        reservation = await reserve_tcp(config.host, 0)
    except (TransportLost, OSError) as error:
        raise _refused(config, error) from error
    return Endpoint(evolve(config, port=reservation.port), reservation, None, datagrams)


def _refused(config: BrokerConfig, error: Exception) -> ResourceAllocationException:
    reason = getattr(error, "strerror", None) or str(error)
    place = "" if reason.startswith("cannot listen") else f"cannot listen on {config.host}:{config.port}: "
    return ResourceAllocationException(f"{place}{reason}")
