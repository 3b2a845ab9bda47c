"""Datagrams between the brokers of a test in virtual time, with the partitions of their links.

Responsible for the loss of datagrams between brokers whose link is partitioned. Does not depend on what they carry. It
is loaded with the first datagram, because few tests send any.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from embedclient.transport import MemoryMulticast

from ._link import Link

__all__ = ["LinkedMulticast"]


class LinkedMulticast(MemoryMulticast):
    """A network for datagrams that loses none but those of a partition. Hosts are named as brokers.

    Args:
        between: Returns the link between two brokers.
    """

    def __init__(self, between: Callable[[str, str], Link]) -> None:
        super().__init__(Random(0))
        self._between = between

    def separates(self, sender: str, receiver: str) -> bool:
        """Return True if the link between two brokers is partitioned."""
        if sender == receiver:
            return False
        link = self._between(sender, receiver)
        return link.holds("to_broker") and link.holds("from_broker")
