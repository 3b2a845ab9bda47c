"""The grouping handler of a node: it agrees with other brokers on the queue of each message group.

Responsible for what the handler needs of the broker: records, notifications behind their records, the queues that there
are, and its turn in a step. Does not depend on decisions.
"""

from __future__ import annotations

from collections import deque

from embedbroker.cluster import LocalGrouping, RemoteGrouping
from embedbroker.config import GroupingHandlerConfig, GroupingHandlerType
from embedbroker.kernel import (
    CommitObserver,
    GroupDecision,
    GroupDecisionRemoved,
    GroupNotice,
    Kernel,
    Queue,
    RemoteBinding,
)
from embedclient.model import Instant

from ._current_step import CurrentStep
from ._part import Part

__all__ = ["Grouping", "GroupingPart"]


class Grouping(CommitObserver):
    """One instance per node. ``active`` has an entry while its part has work in each step."""

    def __init__(self, config: GroupingHandlerConfig, kernel: Kernel) -> None:
        self.active: dict[str, None] = {}
        self._config = config
        self._kernel = kernel
        self._groups = kernel.cluster_groups
        self._node_id = ""
        self._handler: LocalGrouping | RemoteGrouping | None = None
        # Notifications, each with the point of the journal that it waits for.
        self._held: deque[tuple[int, GroupNotice]] = deque()
        self._remote: dict[str, None] = {}
        # Queues that are gone, unless they are there again by the end of the step.
        self._gone: dict[str, None] = {}
        self._has_news = False

    def become_live(self, node_id: str, now: Instant) -> None:
        """Begin with the decisions of the journal, before clients send."""
        self._node_id = self._groups.node_id = node_id
        is_local = self._config.type is GroupingHandlerType.LOCAL
        handler = LocalGrouping(self._config, self) if is_local else RemoteGrouping(self._config, self)
        self._handler = self._groups.handler = handler
        self._kernel.address_manager.resolution.decisions = self._groups
        self._kernel.observers.subscribe(self)
        self._groups.receiver = self
        restored, self._groups.restored = self._groups.restored, ()
        handler.begin(restored, now.monotonic)

    def leave(self) -> None:
        """Stop before queues of other brokers go: that must not end their groups."""
        if self._handler is not None:
            self._kernel.observers.unsubscribe(self)
            self._handler = self._groups.handler = self._kernel.address_manager.resolution.decisions = None
            self._held.clear()
            self._gone.clear()

    # -- what the handler needs ----------------------------------------------------------------------------------

    def publish(self, notice: GroupNotice) -> None:
        """Send a notification once everything is durable that is recorded by now."""
        self._held.append((self._kernel.store.point(), notice))
        self.active["held"] = None

    def record(self, key: str, queue: str) -> int:
        """Record a decision; return its id."""
        decision = GroupDecision(self._kernel.ids.take(), key, queue)
        self._kernel.store.note(decision)
        return decision.id

    def forget(self, decision_id: int) -> None:
        """Record the end of a decision."""
        self._kernel.store.note(GroupDecisionRemoved(decision_id))

    def unpin(self, key: str) -> None:
        """Have local queues forget the consumer of a group, so that the next message chooses one."""
        addresses = self._kernel.address_manager
        # Ids of groups and routing names may have dots.
        at = key.find(".")
        while at != -1:
            group, name = key[:at], key[at + 1 :]
            address, queue = addresses.addresses.get(name), addresses.queues.get(name)
            for each in address.anycast if address is not None else ():
                each.reset_groups(group)
            if queue is not None:
                queue.reset_groups(group)
            at = key.find(".", at + 1)

    def has_queue(self, queue: str) -> bool:
        """Return True if a queue of this name in the cluster can get messages."""
        if queue in self._remote:
            return True
        return (
            queue.endswith(self._node_id) and queue.removesuffix(self._node_id) in self._kernel.address_manager.queues
        )

    def log(self, text: str) -> None:
        """Log one line for the operator."""
        self._kernel.log(text)

    # -- events --------------------------------------------------------------------------------------------------

    def receive(self, notice: GroupNotice) -> None:
        """Pass a notification of another broker to the handler."""
        if self._handler is None:
            return
        self._handler.on_notice(notice, self._kernel.monotonic)
        self.active["news"] = None

    def queue_added(self, queue: Queue) -> None:
        """Note a queue of this broker."""
        self._add(queue.name + self._node_id)

    def remote_binding_added(self, binding: RemoteBinding, _binding_id: int) -> None:
        """Note a queue of another broker, which may be the one that decides."""
        self._remote[binding.cluster_name] = None
        self._has_news = True
        self._add(binding.cluster_name)

    def _add(self, queue: str) -> None:
        assert self._handler is not None
        self._gone.pop(queue, None)
        self._handler.on_queue_added(queue)
        self.active["news"] = None

    def queue_removed(self, queue: Queue) -> None:
        """Note that a queue of this broker is gone."""
        self._gone[queue.name + self._node_id] = None
        self.active["news"] = None

    def remote_binding_removed(self, binding: RemoteBinding, _binding_id: int) -> None:
        """Note that a queue of another broker is gone, or that another way leads there now."""
        self._remote.pop(binding.cluster_name, None)
        self._gone[binding.cluster_name] = None
        self.active["news"] = None

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self, now: Instant) -> None:
        """Do what is due."""
        handler = self._handler
        self.active.pop("news", None)
        if handler is None:
            self.active.clear()
            return
        gone, self._gone = self._gone, {}
        for queue in gone:
            if not self.has_queue(queue):
                handler.on_queue_removed(queue)
        if self._has_news:
            self._has_news = False
            handler.on_link()
        due = handler.next_deadline_s
        if due is not None and now.monotonic >= due:
            handler.on_time(now.monotonic)
        held, store = self._held, self._kernel.store
        while held and held[0][0] <= store.reached:
            self._groups.publish(held.popleft()[1])
        if not held:
            self.active.pop("held", None)

    def next_deadline(self, now: Instant) -> float | None:
        """Return when `run` is due, in monotonic seconds; the present moment if work was left."""
        if self._handler is None:
            return None
        is_left = "news" in self.active or (self._held and self._held[0][0] <= self._kernel.store.reached)
        return now.monotonic if is_left else self._handler.next_deadline_s


class GroupingPart(Part):
    """What the grouping handler has to do, then the messages that waited for a decision."""

    def __init__(self, grouping: Grouping, kernel: Kernel) -> None:
        self._grouping = grouping
        self._ready = kernel.cluster_groups.ready

    def run(self, step: CurrentStep) -> None:
        self._grouping.run(step.now)
        while self._ready:
            self._ready.pop(0)()

    def next_deadline(self, now: Instant) -> float | None:
        return now.monotonic if self._ready else self._grouping.next_deadline(now)
