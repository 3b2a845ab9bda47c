"""Datagrams between the brokers of a test in virtual time, with the faults of their links.

Responsible for what the link of two brokers does to datagrams: loss, delay, duplication. Does not depend on what they
carry. It is loaded with the first datagram, because few tests send any.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from embedclient.transport import MemoryMulticast

from ._link import Link

__all__ = ["LinkedMulticast"]


class LinkedMulticast(MemoryMulticast):
    """A network for datagrams with the faults of the links. Hosts are named as brokers.

    Args:
        between: Returns the link between two brokers.
        random: Seeded source of what is lost and repeated.
    """

    def __init__(self, between: Callable[[str, str], Link], random: Random) -> None:
        super().__init__(random)
        self._between = between

    def separates(self, sender: str, receiver: str) -> bool:
        """Return True if the link between two brokers is partitioned."""
        if sender == receiver:
            return False
        link = self._between(sender, receiver)
        return link.holds("to_broker") and link.holds("from_broker")

    def delays(self, sender: str, receiver: str) -> list[float]:
        """Return when each copy arrives: a broker receives its own datagrams at once."""
        if sender == receiver:
            return [0.0]
        link = self._between(sender, receiver)
        # The directions of a link are those of connections, which either broker may have dialled.
        delay_s = max(link.delay_of("to_broker"), link.delay_of("from_broker"))
        return [delay_s] * self.copies(link.datagram_loss, link.datagram_duplication)
