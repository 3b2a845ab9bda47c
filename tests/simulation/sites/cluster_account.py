"""The account of a cluster: what was sent, what users took, and whether both fit together.

Responsible for the verdict on loss, duplicates and wrong queues. Does not depend on how messages travel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field

from embedbroker.testing._messages import Letter
from embedbroker.testing._scene import Moment, Scene

from .bridge_plan import takes
from .cluster_plan import QUEUE, ClusterPlan
from .leaving import Leaving
from .send_book import Entry, SendBook
from .takers import TakeBook

__all__ = ["ClusterAccount", "ClusterSendBook"]


@define(eq=False)
class ClusterSendBook(SendBook):
    """Note for each message whether its node had the whole cluster, from the first send to the confirmation.

    ``life_of`` returns what changes with each life of a node, or None if the node lacks bindings of subscriptions.
    ``is_leaving`` returns True while a node scales down. ``left_in_doubt``: keys of messages that were in doubt at
    such a moment: they are sent again, and their ids may not be at the other node yet.
    """

    life_of: Callable[[str], str | None] = field(kw_only=True)
    is_leaving: Callable[[str], bool] = field(kw_only=True)
    homes: dict[str, str] = field(kw_only=True)
    complete: dict[str, str | None] = field(factory=dict, init=False)
    left_in_doubt: set[str] = field(factory=set, init=False)

    def sent(self, sender: str, letter: Letter) -> None:
        first = letter.key not in self.entries
        super().sent(sender, letter)
        known = self.life_of(self.homes[sender])
        if first or self.complete[letter.key] != known:
            self.complete[letter.key] = known if first else None

    def confirmed(self, letter: Letter) -> None:
        super().confirmed(letter)
        home = self.homes[self.entries[letter.key].sender]
        if self.complete[letter.key] != self.life_of(home):
            self.complete[letter.key] = None

    def in_doubt(self, letter: Letter) -> None:
        super().in_doubt(letter)
        if self.is_leaving(self.homes[self.entries[letter.key].sender]):
            self.left_in_doubt.add(letter.key)


@define(eq=False)
class ClusterAccount:
    """The account of one scenario, when everything has healed and all queues are empty.

    ``lives_ended``: a life of a node has ended, so that messages that are not durable may be gone.
    """

    scene: Scene
    plan: ClusterPlan
    book: ClusterSendBook
    takes: TakeBook
    #: By the name of the node.
    leaving: Mapping[str, Leaving]
    #: Names of the nodes that have had several lives.
    started_anew: frozenset[str]

    def check(self, *, lives_ended: bool) -> None:
        """End the run if a message was lost, or taken twice, or from a queue that it must not reach.

        A broker that starts on the way of a message, while one behind it has stopped, has no news of the queues there.
        """
        for queue, key in self.takes.taken:
            entry = self.book.entries.get(key)
            if entry is None or queue not in self._wanted(entry):
                self.scene.fail(f"{key} was taken from queue {queue}, and is not wanted there")
        for key, entry in self.book.entries.items():
            self._check(key, entry, lives_ended=lives_ended)

    def _wanted(self, entry: Entry) -> dict[str, list[str]]:
        """Return the queues that a message may reach, with the nodes that have them."""
        if entry.letter.address == QUEUE:
            return {QUEUE: [node.name for node in self.plan.nodes]}
        wanted: dict[str, list[str]] = {}
        for node in self.plan.nodes:
            for queue in node.subscriptions:
                if takes(queue.color, entry.letter.color):
                    wanted.setdefault(queue.name, []).append(node.name)
        return wanted

    def _check(self, key: str, entry: Entry, *, lives_ended: bool) -> None:
        home, letter = self.book.homes[entry.sender], entry.letter
        is_complete = self.book.complete[key] is not None
        self.scene.hit(Moment.SENT_IN_FORMED_CLUSTER if is_complete else Moment.SENT_IN_PART_OF_CLUSTER)
        for queue, nodes in self._wanted(entry).items():
            taken = self.takes.taken.get((queue, key), [])
            confirmed = [each for each in taken if each.is_confirmed]
            if any(each.node != home for each in confirmed):
                self.scene.hit(Moment.TAKEN_ELSEWHERE)
            # One that is not durable may go on before its id is on disk, and the node before repeats it after a crash.
            goes_on_early = not letter.durable and lives_ended and self.plan.direct_only
            is_repeated = goes_on_early or (entry.was_in_doubt and not letter.durable) or key in self.book.left_in_doubt
            is_doubtful = any(key in each.doubtful for each in self.leaving.values())
            if len(confirmed) > 1 and self.plan.detects_duplicates and not is_repeated and not is_doubtful:
                self.scene.fail(f"{key} was taken from {queue} {len(confirmed)} times: {confirmed}")
            if taken or not entry.is_confirmed or (lives_ended and not letter.durable):
                continue
            is_near = any(self.plan.distance(home, node) == 1 for node in nodes)
            is_behind = not is_near and len(self.started_anew - {home}) > 1
            if home in nodes or (is_complete and not is_behind):
                self.scene.fail(f"{key}, sent to {home}, was confirmed and never taken from {queue}")
