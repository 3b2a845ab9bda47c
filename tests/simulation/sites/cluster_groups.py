"""The message groups of a cluster: each has one queue, one consumer at a time there, and keeps its order.

Responsible for the verdict on groups. Does not depend on how nodes decide.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import define

from embedbroker.testing._scene import Moment, Scene

from .cluster_account import ClusterSendBook
from .cluster_plan import QUEUE
from .takers import TakeBook, Taken

__all__ = ["GroupChecker"]

#: Log lines of a node that gives groups another queue, as the guide states, and of one that gives a group any queue.
_CHANGES = (
    "of earlier decisions did not come back within",
    "is gone, deleted or with a broker that stopped; its groups",
)
_UNDECIDED = "has no decision after"


@define(eq=False)
class GroupChecker:
    """The checker of one scenario, when all messages are taken."""

    scene: Scene
    book: ClusterSendBook
    takes: TakeBook
    #: Keys of decisions that have ended, so that their groups have got another queue.
    ended: Collection[str]
    notices: Sequence[str]

    def check(self, *, has_filters: bool, passing_from: int | None) -> None:
        """End the run if a group was at two nodes, went back to a consumer, or out of its order.

        ``has_filters``: some consumers leave messages for others. ``passing_from``: the size from which large messages
        have no order, because a disk had no room for a body, or could not read it.
        """
        found: dict[str, list[tuple[str, Taken]]] = {}
        for queue, key, taken in self.takes.history:
            entry = self.book.entries.get(key)
            if queue == QUEUE and entry is not None and entry.letter.group:
                found.setdefault(entry.letter.group, []).append((key, taken))
        for group, takes in found.items():
            nodes = {taken.node for _, taken in takes}
            if len(nodes) > 1 and not self._is_decided_anew(group):
                self.scene.fail(f"group {group} was at nodes {sorted(nodes)}: {takes}")
            for node in sorted(nodes):
                self._check_consumers(group, [taken for _, taken in takes if taken.is_confirmed and taken.node == node])
            if len(nodes) == 1:
                self.scene.hits[Moment.TAKEN_OF_GROUP] += len(takes)
                if not has_filters:
                    self._check_order(group, [key for key, _ in takes], passing_from)

    def _is_decided_anew(self, group: str) -> bool:
        if any(_UNDECIDED in notice and f"'{group}." in notice for notice in self.notices):
            return True
        has_reason = any(text in notice for text in _CHANGES for notice in self.notices)
        return has_reason and any(key.startswith(f"{group}.") for key in self.ended)

    def _check_consumers(self, group: str, takes: list[Taken]) -> None:
        """Check that no consumer of a queue gets a group back: another one gets it when the one before is gone."""
        seen: dict[tuple[str, int], None] = {}
        last = None
        for taken in takes:
            if taken.consumer != last and taken.consumer in seen:
                self.scene.fail(f"group {group} was with {list(seen)}, and then with {taken.consumer} again")
            seen[taken.consumer], last = None, taken.consumer

    def _check_order(self, group: str, keys: list[str], passing_from: int | None) -> None:
        """Check that the messages of each sender keep their order, when they are taken for the first time.

        A consumer that goes before its transaction ends returns what that had not acknowledged first.
        """
        newest: dict[str, int] = {}
        for key in dict.fromkeys(keys):
            entry = self.book.entries[key]
            if entry.was_in_doubt or (QUEUE, key) in self.takes.returned:
                continue
            if passing_from is not None and entry.letter.size >= passing_from:
                continue
            if entry.number < newest.get(entry.sender, -1):
                self.scene.fail(f"group {group}: {key} was taken behind later ones of its sender")
            newest[entry.sender] = entry.number
