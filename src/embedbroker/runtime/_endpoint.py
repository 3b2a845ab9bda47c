"""The addresses that a broker listens on, and its connections to other brokers: over TCP, or over a given network.

The address of a broker of a cluster is known before its first step, and reserved while the broker accepts no
connections.

A member announces its address before it accepts connections; a backup announces it long before. With port 0 the address
would be unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import trio
from attrs import evolve

from embedbroker.config import AcceptorConfig, BrokerConfig
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

__all__ = ["Acceptor", "Endpoint", "Network", "open_endpoint", "place_of"]


class Network(Protocol):
    """The replacement of TCP and the ``vm://`` names for a broker."""

    async def listen(self, config: BrokerConfig) -> list[Listener]:
        """Accept peers at the first acceptor. A first listener without a port is for the ``vm://`` name of the broker.

        Raises:
            OSError: the address is not available; the text names it.
        """

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        """Open the byte pipe to another broker that a connector names.

        Raises:
            TransportLost: no answer came within ``timeout_s`` seconds.
        """


@runtime_checkable
class NetworkOfAcceptors(Network, Protocol):
    """A `Network` in which a broker may have several acceptors."""

    async def listen_at(self, config: BrokerConfig, number: int) -> list[Listener]:
        """Accept peers at an acceptor beside the first one, given by its index.

        Raises:
            OSError: the address is not available; the text names it.
        """


class Acceptor:
    """One place where a broker listens."""

    def __init__(self, config: AcceptorConfig, title: str, reservation: TcpReservation | None = None) -> None:
        self.config = config
        #: The port that it had last; 0 before the first time.
        self.port = 0
        self._title = title
        self._reservation = reservation
        self._tls = None if config.tls is None else AcceptorTLS(config.tls)

    async def listen(self, port: int, listen: Callable[[], Awaitable[list[Listener]]] | None) -> list[Listener]:
        """Accept peers.

        Args:
            port: Port to listen on, if the configuration leaves it open; 0 takes a free one.
            listen: What listens in place of TCP; None: TCP.

        Raises:
            ResourceAllocationException: the text names the address that is not available.
        """
        tls = self._tls
        try:
            if tls is not None:
                tls.check()
            listeners = await (self._listen_tcp(port) if listen is None else listen())
        except (TransportLost, OSError, TLSStoreError) as error:
            self.give_back()
            raise _refused(self.config, self._title, error) from error
        self.port = listeners[0].port if listeners else 0
        # A listener without a port is for clients of this process, whose bytes leave it for no network.
        return [TLSListener(each, tls) if tls is not None and each.port else each for each in listeners]

    async def _listen_tcp(self, port: int) -> list[Listener]:
        if self._reservation is not None:
            return [*self._reservation.listen()]
        return [*await listen_tcp(self.config.host, self.config.port or port)]

    def reload(self) -> None:
        """Read the files of TLS again, for connections from now on.

        Raises:
            ResourceAllocationException: the files cannot be used, and what they were before stays in force.
        """
        if self._tls is not None:
            try:
                self._tls.reload()
            except TLSStoreError as error:
                raise ResourceAllocationException(str(error)) from error

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
            raise _refused(self.config, self._title, error) from error

    def give_back(self) -> None:
        """Release the port; this broker will not listen on it."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.close()


class Endpoint:
    """The addresses of one broker. ``config`` names the TCP ports, ``reservations`` has those that are taken already.

    The acceptors, and what belongs to them, have the order of `BrokerConfig.listens_at`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        reservations: Mapping[str, TcpReservation],
        network: Network | None = None,
        datagrams: Datagrams | None = None,
    ) -> None:
        self.config = config
        #: What opens multicast groups; None is UDP.
        self.datagrams = datagrams
        #: Whether clients in the same trio run find the broker by its name, too.
        self.has_vm_name = network is None
        self.acceptors = [
            Acceptor(each, _title(config, each), reservations.get(each.name)) for each in config.listens_at
        ]
        self._network = network

    async def listen(self) -> list[list[Listener]]:
        """Accept peers at every acceptor that starts with the broker, or at none of them.

        Raises:
            ResourceAllocationException: the text names the address that is not available.
        """
        opened: list[list[Listener]] = []
        try:
            for number, acceptor in enumerate(self.acceptors):
                opened.append(await self.listen_at(number) if acceptor.config.auto_start else [])
        except BaseException:  # a cancellation, too, must not leave ports taken
            for listener in chain.from_iterable(opened):
                listener.close()
            self.give_back()
            raise
        return opened

    async def listen_at(self, number: int, port: int = 0) -> list[Listener]:
        """Accept peers at one acceptor.

        Args:
            number: Its index.
            port: Port to listen on again, if the configuration leaves it open; 0 takes a free one.

        Raises:
            ResourceAllocationException: the text names the address that is not available.
        """
        acceptor, network = self.acceptors[number], self._network
        if network is None:
            return await acceptor.listen(port, None)
        return await acceptor.listen(port, lambda: listen_in(network, self.config, number))

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        """Open the byte pipe to another broker, with the TLS settings of this one.

        Raises:
            TransportLost: no answer came within ``timeout_s`` seconds, or TLS could not be established.
        """
        if connector not in self.config.connectors.values():  # a peer announced it
            connector = connector.without_local_address
        is_secure = connector.is_secure
        if is_secure:
            connector = connector.with_local_tls(*self._local_tls())
        if self._network is None:
            return await dial(connector, timeout_s)
        if not is_secure:
            return await self._network.dial(connector, timeout_s)
        deadline = trio.current_time() + timeout_s
        tls = TLSDial(connector)
        return await tls.establish(await self._network.dial(connector, timeout_s), deadline)

    def _local_tls(self) -> tuple[list[TransportConfiguration], TLS | None]:
        """Return the connectors of this broker, the one it announces first, and what holds without any of them."""
        config = self.config
        # Other brokers join at these first: their TLS is that of the cluster.
        acceptors = [*map(config.acceptor_of, config.cluster_connections), *config.listens_at]
        tls = next((each.tls for each in acceptors if each.tls is not None), None)
        named = [each.connector for each in config.cluster_connections if each.connector is not None]
        own = [config.connectors[name] for name in named]
        # The names that the acceptor allows are none that a connector requests.
        otherwise = evolve(tls, sni_host=None) if isinstance(tls, TLSSettings) else None
        return [*own, *config.connectors.values()], otherwise

    def give_back(self) -> None:
        """Release the ports; this broker will not listen on them."""
        for acceptor in self.acceptors:
            acceptor.give_back()


async def listen_in(network: Network, config: BrokerConfig, number: int) -> list[Listener]:
    """Accept peers at one acceptor, given by its index, in a network that replaces TCP."""
    if number == 0:
        return await network.listen(config)
    return await network.listen_at(config, number) if isinstance(network, NetworkOfAcceptors) else []


async def open_endpoint(
    config: BrokerConfig, network: Network | None = None, datagrams: Datagrams | None = None
) -> Endpoint:
    """Take free ports now for a broker that must announce its addresses before it listens.

    Raises:
        ResourceAllocationException: the text names the address that is not available.
    """
    if network is not None:
        return Endpoint(config, {}, network, datagrams)
    reservations: dict[str, TcpReservation] = {}
    ports: dict[str, int] = {}
    try:
        for acceptor in _announced(config):
            if acceptor.port == 0 and acceptor.name not in ports:
                try:
                    reservation = reservations[acceptor.name] = await reserve_tcp(acceptor.host, 0)
                except (TransportLost, OSError) as error:
                    raise _refused(acceptor, _title(config, acceptor), error) from error
                ports[acceptor.name] = reservation.port
    except BaseException:  # a cancellation, too, must not leave ports taken
        for reservation in reservations.values():
            reservation.close()
        raise
    return Endpoint(_with_ports(config, ports), reservations, None, datagrams)


def _announced(config: BrokerConfig) -> list[AcceptorConfig]:
    """Return the acceptors whose addresses others receive, some of them more than once."""
    found = [config.acceptor_of(each) for each in config.cluster_connections if each.connector is None]
    cluster = config.cluster_connection
    if any(not group.connectors for group in config.broadcast_groups) and (
        cluster is None or cluster.connector is None
    ):
        found.append(config.acceptor_of(cluster))
    return found


def _with_ports(config: BrokerConfig, ports: Mapping[str, int]) -> BrokerConfig:
    if not ports:
        return config
    if config.acceptors:
        acceptors = [evolve(each, port=ports.get(each.name, each.port)) for each in config.acceptors]
        return evolve(config, acceptors=acceptors)
    [port] = ports.values()
    return evolve(config, port=port)


def _title(config: BrokerConfig, acceptor: AcceptorConfig) -> str:
    """Return the beginning of an error: of several acceptors it names one."""
    return f"acceptor {acceptor.name!r}: " if config.acceptors else ""


def place_of(acceptor: AcceptorConfig, port: int) -> str:
    """Return host and port as a URL has them."""
    host = f"[{acceptor.host}]" if ":" in acceptor.host else acceptor.host
    return f"{host}:{port}"


def _refused(config: AcceptorConfig, title: str, error: Exception) -> ResourceAllocationException:
    reason = getattr(error, "strerror", None) or str(error)
    place = "" if reason.startswith("cannot listen") else f"cannot listen on {place_of(config, config.port)}: "
    return ResourceAllocationException(f"{title}{place}{reason}")
