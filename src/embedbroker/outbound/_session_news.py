"""Whether news of the sessions of other brokers are of use here.

Responsible for that decision. Each session of a client costs a message to each broker that collects such news, and most
of those would do nothing with it.
"""

from __future__ import annotations

from embedbroker.kernel import Kernel, Queue, may_match

__all__ = ["SessionNews"]

# What is known of such news here.
_NEWS = ("_AMQ_NotifType", "SESSION_CREATED"), ("_AMQ_Address", None), ("_AMQ_Distance", 1)


class SessionNews:
    """The interest of one cluster connection in sessions at the members.

    Args:
        kernel: Kernel of the broker.
        address: Address of notifications of this broker.
        max_hops: Largest distance of a queue, as seen from this broker.
    """

    def __init__(self, kernel: Kernel, address: str, max_hops: int) -> None:
        self._resolution = kernel.address_manager.resolution
        self._address = address
        self._max_hops = max_hops

    @property
    def is_wanted(self) -> bool:
        """Return True if there may be a broker behind this one, or if a queue may take such news here."""
        if self._max_hops > 1:
            return True
        address = self._resolution.find(self._address)
        if address is None:
            return False
        return address.others is not None or any(
            queue.filter is None or may_match(queue.filter.text, *_NEWS) for queue in address.queues
        )

    def concerns(self, queue: Queue) -> bool:
        """Return True if a queue takes notifications of this broker, by its address or by a wildcard."""
        if queue.definition.address == self._address:
            return True
        address = self._resolution.find(self._address)
        return address is not None and address.others is not None
