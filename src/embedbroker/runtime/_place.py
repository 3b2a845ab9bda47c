"""Where a broker of a cluster will listen: known before its first step, and kept free until it may serve.

A member says where it is before it lets anybody in; a backup says so long before. With port 0 nobody could tell.
"""

from __future__ import annotations

from attrs import evolve

from embedbroker.config import BrokerConfig
from embedclient.errors import ResourceAllocationException
from embedclient.transport import Listener, TcpReservation, TransportLost, listen_tcp, reserve_tcp

__all__ = ["Place", "take_place"]


class Place:
    """The TCP addresses of one broker. ``config`` names the port."""

    def __init__(self, config: BrokerConfig, reservation: TcpReservation | None) -> None:
        self.config = config
        self._reservation = reservation

    async def listen(self) -> list[Listener]:
        """Let peers in.

        Raises:
            ResourceAllocationException: the text names the address that is not to be had.
        """
        config = self.config
        reservation, self._reservation = self._reservation, None
        try:
            if reservation is not None:
                return [*reservation.listen()]
            return [*await listen_tcp(config.host, config.port)]
        except (TransportLost, OSError) as error:
            if reservation is not None:
                reservation.close()
            raise _refused(config, error) from error

    def give_back(self) -> None:
        """Nobody will listen here."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.close()


async def take_place(config: BrokerConfig) -> Place:
    """Take a free port now for a broker that has to tell others where it will be.

    Raises:
        ResourceAllocationException: the text names the address that is not to be had.
    """
    cluster = config.cluster_connection
    if cluster is None or cluster.connector is not None or config.port != 0:
        return Place(config, None)
    try:
        reservation = await reserve_tcp(config.host, 0)
    except (TransportLost, OSError) as error:
        raise _refused(config, error) from error
    return Place(evolve(config, port=reservation.port), reservation)


def _refused(config: BrokerConfig, error: Exception) -> ResourceAllocationException:
    reason = getattr(error, "strerror", None) or str(error)
    place = "" if reason.startswith("cannot listen") else f"cannot listen on {config.host}:{config.port}: "
    return ResourceAllocationException(f"{place}{reason}")
