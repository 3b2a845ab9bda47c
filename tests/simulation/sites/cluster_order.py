"""The order of messages in a cluster: those of one sender come to a consumer in the order of their sends.

Responsible for the verdict on order, and for where order is promised. Does not depend on how messages travel.
"""

from __future__ import annotations

from collections.abc import Collection

from attrs import define

from embedbroker.testing._scene import Moment, Scene

from .cluster_account import ClusterSendBook
from .cluster_plan import QUEUE, ClusterPlan
from .takers import TakeBook

__all__ = ["OrderChecker"]


@define(eq=False)
class OrderChecker:
    """The checker of one scenario, when all messages are taken.

    Order is promised to one consumer of a queue that was there alone since it came: others may return messages behind
    later ones. The sender is at the same node or one bridge away, and no send of it in between was in doubt. Nothing
    moves messages of the queue: it is not redistributed, and no node scales down. Where messages go over several nodes,
    the sender's node has had one life: one that has just started may know of a queue beside it from behind itself
    first, and what it sends then returns, behind what it sends later. A message that is not durable may be under way in
    a slow connection of a life that has ended, and come behind what the next life sends. Large messages are exempt
    where a disk had no room for a body, or could not read it: ``passing_from`` is the size from which they are. Without
    duplicate detection a node that crashed may send a message again: this second copy is exempt, the first one is not.
    """

    scene: Scene
    plan: ClusterPlan
    book: ClusterSendBook
    takes: TakeBook
    passing_from: int | None
    #: Names of the nodes that have had several lives.
    started_anew: frozenset[str]

    def check(self) -> None:
        """End the run if a consumer took a message behind later ones of its sender."""
        if any(node.scales_down_to for node in self.plan.nodes):
            return
        lasting = self._queues_that_keep()
        newest: dict[tuple[str, str, tuple[str, int]], tuple[int, str]] = {}
        copies: dict[tuple[str, str], tuple[str, int]] = {}
        for queue, key, taken in self.takes.history:
            entry = self.book.entries[key]
            first = copies.setdefault((queue, key), (taken.node, taken.message_id))
            if not self.plan.detects_duplicates and first != (taken.node, taken.message_id):
                continue
            if queue not in lasting or not taken.was_alone or entry.was_in_doubt:
                continue
            if self.passing_from is not None and entry.letter.size >= self.passing_from:
                continue
            home = self.book.homes[entry.sender]
            distance = self.plan.distance(home, taken.node)
            if distance is None or distance > 1 or (self.plan.direct_only and home in self.started_anew):
                continue
            stream = queue, entry.sender, taken.consumer
            number, before = newest.get(stream, (-1, ""))
            is_late = distance == 1 and not entry.letter.durable
            if entry.number < number and not (is_late and self.book.lives[key] != self.book.lives[before]):
                self.scene.fail(f"{taken.consumer} took {key} of queue {queue} behind {before}")
            newest[stream] = max((number, before), (entry.number, key))
            self.scene.hit(Moment.TAKEN_IN_ORDER)

    def _queues_that_keep(self) -> Collection[str]:
        """Return the queues whose messages stay at their node: what has no equal elsewhere is not redistributed."""
        names = [queue.name for node in self.plan.nodes for queue in node.subscriptions]
        names += [maker.queue for maker in self.plan.makers]
        alone = [name for name in names if names.count(name) == 1]
        return {*alone, QUEUE} if self.plan.redistribution_delay_ms < 0 else set(alone)
