"""What nodes that scale down hold meanwhile: these messages alone may be at two nodes, if that does not end well.

Responsible for the exceptions that the guide of scale-down names, and for how each scale-down ends. Does not depend on
what moves, and how.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from embedbroker.kernel import Queue, Reference
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

from .site import live_kernel
from .site_faults import is_scaling_down, scales_down

__all__ = ["Leaving", "lives_ended_otherwise"]

_INTERNAL = "$.artemis.internal."
_MOVED = "scaled down: "


@define(eq=False)
class Leaving:
    """The watch over one node that scales down.

    ``doubtful``: keys of messages that may be at two nodes, because a scale-down was interrupted while the node held
    them. ``has_begun``: something may have moved.
    """

    scene: Scene
    host: NodeHost
    doubtful: set[str] = field(factory=set, init=False)
    has_begun: bool = field(default=False, init=False)
    _held: set[str] = field(factory=set, init=False)
    # By queue: how many messages it had got, and how many were scheduled, when it was looked at last. Without a change
    # it holds none that is new.
    _looked_at: dict[Queue, tuple[int, int]] = field(factory=dict, init=False)
    _is_under_way: bool = field(default=False, init=False)
    _moved_before: int = field(default=0, init=False)

    def watch(self) -> None:
        """Look after each step, and at each end of a life."""
        self.host.after_step.append(self._look)

    def _look(self) -> None:
        if is_scaling_down(self.host):
            if not self._is_under_way:
                self.has_begun = self._is_under_way = True
                self._moved_before = self._moved_count
            for queue in self._queues():
                counts = (queue.added_count, len(queue.scheduled or ()))
                if self._looked_at.get(queue) != counts:
                    self._looked_at[queue] = counts
                    self._held.update([str(each.message.property("key")) for each in _held_in(queue)])
        elif self._is_under_way:
            self._end()

    def _end(self) -> None:
        """The node has ended a scale-down, or another life of it has begun since."""
        self._is_under_way = False
        if self._moved_count > self._moved_before:
            self.scene.hit(Moment.SCALED_DOWN)
        else:
            # Whatever it was moving may be at two nodes.
            self.scene.hit(Moment.SCALE_DOWN_INTERRUPTED)
            self.doubtful |= self._held
        self._held.clear()
        self._looked_at.clear()

    @property
    def _moved_count(self) -> int:
        return sum(text.startswith(_MOVED) for text in self.host.notices)

    def _queues(self) -> list[Queue]:
        kernel = live_kernel(self.host)
        if kernel is None:
            return []
        return [
            queue
            for queue in kernel.address_manager.queues.values()
            if queue.message_count and (queue.definition.durable or queue.name.startswith(_INTERNAL))
        ]


def _held_in(queue: Queue) -> Iterator[Reference]:
    yield from queue.undelivered()
    for consumer in queue.consumers:
        yield from consumer.unsettled.values()


def lives_ended_otherwise(host: NodeHost) -> bool:
    """Return True if a life of a node has not ended with a scale-down that moved everything."""
    return host.life - 1 > (sum(text.startswith(_MOVED) for text in host.notices) if scales_down(host) else 0)
