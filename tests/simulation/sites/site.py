"""A site: one broker, or a pair on one disk, which clients and other brokers take for one broker.

Responsible for which of its hosts serves. Does not depend on faults, and on what is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from embedbroker.kernel import Kernel, Queue
from embedbroker.testing._node_host import NodeHost

__all__ = ["Site", "live_kernel"]


@frozen(eq=False)
class Site:
    """A broker, or the members of a pair, the primary first."""

    name: str
    hosts: Sequence[NodeHost]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that clients and other brokers connect to."""
        return tuple([host.name for host in self.hosts])

    @property
    def live(self) -> NodeHost | None:
        """The host that serves, if one does and is not frozen."""
        return next((host for host in self.hosts if host.ready and not host.frozen), None)

    def queue(self, name: str) -> Queue | None:
        """Return a queue of the broker that serves."""
        kernel = live_kernel(self.live)
        return kernel.address_manager.queues.get(name) if kernel is not None else None


def live_kernel(host: NodeHost | None) -> Kernel | None:
    """Return the kernel of a host that serves."""
    return host.node.kernel if host is not None and host.node is not None else None
