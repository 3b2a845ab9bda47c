"""Brokers of a cluster that stop in order: the others forget their queues, until the brokers are there again.

Responsible for how often each node has forgotten a subscription for that reason. A message that is routed meanwhile
reaches no subscription of the broker that stopped, as the guide of clusters states. Does not depend on messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

from attrs import define, field

from embedbroker.kernel import RemoteBinding
from embedbroker.testing._node_host import NodeHost

from .cluster_plan import TOPIC
from .site import Site

__all__ = ["Departures"]


@define(eq=False)
class Departures:
    """The watch over all nodes of a scenario.

    ``forgotten``: by the name of a node, how many subscriptions it has forgotten while any broker stopped in order, or
    afterwards. What it forgets without a broker that stopped is a fault, and does not count.
    """

    sites: Mapping[str, Site]
    forgotten: Counter[str] = field(factory=Counter, init=False)
    _has_stopped: bool = field(default=False, init=False)

    def watch(self) -> None:
        """Look at each removal of a binding, in all lives of the nodes."""
        for name, site in self.sites.items():
            for host in site.hosts:
                host.on_ready.append(partial(self._watch, name, host))
                host.on_stopped.append(self._on_stopped)

    def _watch(self, name: str, host: NodeHost) -> None:
        assert host.node is not None
        host.node.kernel.observers.commit.remote_binding_removed.append(partial(self._on_removed, name))

    def _on_stopped(self, failure: str | None) -> None:
        if failure is None:
            self._has_stopped = True

    def _on_removed(self, name: str, binding: RemoteBinding, _binding_id: int) -> None:
        if binding.address == TOPIC and (self._has_stopped or self._stops):
            self.forgotten[name] += 1

    @property
    def _stops(self) -> bool:
        return any(host.stopping for site in self.sites.values() for host in site.hosts)
