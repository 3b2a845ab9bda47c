"""The queues of other brokers that take part in routing: of several ways to one queue, one at a time.

Responsible for the choice among ways, for binding the chosen one, and for announcing it to observers. Does not depend
on the members that the ways lead over.

In a ring, and in a symmetric cluster with more than one hop, several members announce the same queue. Artemis keeps the
way that it learns first, and none when that one ends. Here the shortest way counts that is connected. When a way ends,
or is disconnected, another one takes its place unless it is longer: a longer one may lead back over this broker.
"""

from __future__ import annotations

from itertools import chain, repeat

from embedbroker.kernel import Kernel, RemoteBinding

__all__ = ["Ways"]


class Ways:
    """One instance per broker. Invariant: of the bindings with one cluster name, at most one is bound."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._by_name: dict[str, list[RemoteBinding]] = {}

    def add(self, binding: RemoteBinding) -> None:
        """Add a way. It is bound if it is the first, or better than the bound one."""
        ways = self._by_name.setdefault(binding.cluster_name, [])
        ways.append(binding)
        bound = _bound(ways)
        if bound is None:
            self._bind(binding)
        else:
            self._improve(ways, bound)

    def remove(self, binding: RemoteBinding) -> None:
        """Remove a way."""
        ways = self._by_name[binding.cluster_name]
        ways.remove(binding)
        if not ways:
            del self._by_name[binding.cluster_name]
        if binding.id:
            self._unbind(binding)
            others = [way for way in ways if way.distance <= binding.distance]
            if others:
                self._bind(min(others, key=_rank))

    def review(self, binding: RemoteBinding) -> None:
        """Choose again, because a way is connected or disconnected."""
        ways = self._by_name[binding.cluster_name]
        bound = _bound(ways)
        if bound is not None:
            self._improve(ways, bound)
        if binding.id and binding.is_connected and binding.consumer_count:
            self._kernel.redistribution.on_remote_consumer(binding)

    def _improve(self, ways: list[RemoteBinding], bound: RemoteBinding) -> None:
        best = min((way for way in ways if way.distance <= bound.distance), key=_rank)
        if _rank(best) < _rank(bound):
            self._unbind(bound)
            self._bind(best)

    def _bind(self, binding: RemoteBinding) -> None:
        observers = self._kernel.observers
        self._kernel.address_manager.add_remote_binding(binding)
        observers.call(observers.commit.remote_binding_added, binding, binding.announced_id)
        filters: list[str | None] = [text for text, count in binding.consumer_filters.items() for _ in range(count)]
        unfiltered = repeat(None, binding.consumer_count - len(filters))
        for count, filter in enumerate(chain(unfiltered, filters), 1):
            observers.call(observers.commit.remote_consumer_added, binding, binding.address, filter, count)
        if binding.consumer_count:
            self._kernel.redistribution.on_remote_consumer(binding)

    def _unbind(self, binding: RemoteBinding) -> None:
        observers = self._kernel.observers
        self._kernel.address_manager.remove_remote_binding(binding)
        observers.call(observers.commit.remote_binding_removed, binding, binding.announced_id)


def _bound(ways: list[RemoteBinding]) -> RemoteBinding | None:
    return next((way for way in ways if way.id), None)


def _rank(way: RemoteBinding) -> tuple[bool, int]:
    return not way.is_connected, way.distance
