"""The account of a cluster: what was sent, what users took, and whether both fit together.

Responsible for the verdict on loss, duplicates and wrong queues. Does not depend on how messages travel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from attrs import define, field

from embedbroker.testing._messages import Letter
from embedbroker.testing._scene import Moment, Scene

from .bridge_plan import takes
from .cluster_plan import AUTOMATIC, QUEUE, TOPIC, ClusterPlan, MakerPlan
from .leaving import Leaving
from .makers import Comings
from .send_book import Entry, Outcome, SendBook
from .takers import TakeBook, TakenTogether

__all__ = ["ClusterAccount", "ClusterSendBook"]


@define(eq=False)
class ClusterSendBook(SendBook):
    """Note for each message whether its node had the whole cluster, from the first send to the confirmation.

    ``life_of`` returns what changes with each life of a node, or None if the node is down; ``life_that_reaches`` the
    same, or None if the node lacks bindings of subscriptions.
    ``is_leaving`` returns True while a node scales down. ``left_in_doubt``: keys of messages that were in doubt at
    such a moment: they are sent again, and their ids may not be at the other node yet.
    """

    life_of: Callable[[str], str | None] = field(kw_only=True)
    life_that_reaches: Callable[[str], str | None] = field(kw_only=True)
    is_leaving: Callable[[str], bool] = field(kw_only=True)
    homes: dict[str, str] = field(kw_only=True)
    has_binding: Callable[[str, MakerPlan], bool] = field(kw_only=True)
    comings: Comings = field(factory=Comings, init=False)
    complete: dict[str, str | None] = field(factory=dict, init=False)
    #: By key: the life of the node that a message was first sent to.
    lives: dict[str, str | None] = field(factory=dict, init=False)
    left_in_doubt: set[str] = field(factory=set, init=False)

    def sent(self, sender: str, letter: Letter) -> None:
        first = letter.key not in self.entries
        super().sent(sender, letter)
        known = self.life_that_reaches(self.homes[sender])
        self.lives.setdefault(letter.key, self.life_of(self.homes[sender]))
        if first and letter.address == TOPIC:
            self.comings.sent(letter.key, partial(self.has_binding, self.homes[sender]))
        if first or self.complete[letter.key] != known:
            self.complete[letter.key] = known if first else None

    def confirmed(self, letter: Letter) -> None:
        super().confirmed(letter)
        home = self.homes[self.entries[letter.key].sender]
        if self.complete[letter.key] != self.life_that_reaches(home):
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
        self._check_transactions()
        for key, entry in self.book.entries.items():
            self._check(key, entry, lives_ended=lives_ended)

    def _check_transactions(self) -> None:
        """Check that transactions hold as wholes: one of which a message was taken counts as confirmed.

        The account then requires all its messages, in the queues of the sender's node at least.
        """
        taken = {key for _, key in self.takes.taken}
        for each in self.book.transactions:
            found = [key for key in each.keys if key in taken]
            if each.outcome is Outcome.ABSENT and found:
                self.scene.fail(f"{found[0]} was taken, and its transaction {each.keys} was not committed")
            if each.outcome is Outcome.IN_DOUBT:
                self.scene.hit(Moment.IN_DOUBT_WHOLE if found else Moment.IN_DOUBT_ABSENT)
                for key in each.keys if found else ():
                    self.book.entries[key].is_confirmed, self.book.complete[key] = True, None
        for one in self.takes.in_doubt:
            self._check_taken_together(one)

    def _check_taken_together(self, together: TakenTogether) -> None:
        """Check that a transaction in doubt has taken all of its messages, or that all of them came again."""
        keys = [key for key in together.keys if self.book.entries[key].letter.durable and not self._is_doubtful(key)]
        again = [key for key in keys if any(each.is_confirmed for each in self.takes.taken[(together.queue, key)])]
        if again and len(again) < len(keys):
            self.scene.fail(f"of a transaction in doubt that took {keys} from {together.queue}, {again} came again")

    def _is_doubtful(self, key: str) -> bool:
        return key in self.book.left_in_doubt or any(key in each.doubtful for each in self.leaving.values())

    def _wanted(self, entry: Entry) -> dict[str, list[str]]:
        """Return the queues that a message may reach, with the nodes that have them."""
        if entry.letter.address in (QUEUE, *AUTOMATIC):
            return {entry.letter.address: [node.name for node in self.plan.nodes]}
        wanted: dict[str, list[str]] = {}
        for node in self.plan.nodes:
            for queue in node.subscriptions:
                if takes(queue.color, entry.letter.color):
                    wanted.setdefault(queue.name, []).append(node.name)
        for maker in self.plan.makers:
            if takes(maker.color, entry.letter.color):
                wanted[maker.queue] = [maker.node]
        return wanted

    def _check(self, key: str, entry: Entry, *, lives_ended: bool) -> None:
        home, letter = self.book.homes[entry.sender], entry.letter
        is_complete = self.book.complete[key] is not None
        self.scene.hit(Moment.SENT_IN_FORMED_CLUSTER if is_complete else Moment.SENT_IN_PART_OF_CLUSTER)
        comings = {maker.queue for maker in self.plan.makers}
        owed = {maker.queue for maker in self.book.comings.must_reach(key)}
        self.scene.hits[Moment.OWED_TO_SUBSCRIPTION] += len(owed)
        for queue, nodes in self._wanted(entry).items():
            taken = self.takes.taken.get((queue, key), [])
            confirmed = [each for each in taken if each.is_confirmed]
            if any(each.node != home for each in confirmed):
                self.scene.hit(Moment.TAKEN_ELSEWHERE)
            # One that is not durable may go on before its id is on disk, and the node before repeats it after a crash.
            goes_on_early = not letter.durable and lives_ended and self.plan.direct_only
            is_repeated = goes_on_early or (entry.was_in_doubt and not letter.durable) or self._is_doubtful(key)
            if len(confirmed) > 1 and self.plan.detects_duplicates and not is_repeated:
                self.scene.fail(f"{key} was taken from {queue} {len(confirmed)} times: {confirmed}")
            if taken or not entry.is_confirmed or (lives_ended and not letter.durable):
                continue
            if queue in comings and queue not in owed:
                continue
            if all(self.plan.distance(home, node) is None for node in nodes):
                continue
            is_near = any(self.plan.distance(home, node) == 1 for node in nodes)
            is_behind = not is_near and len(self.started_anew - {home}) > 1
            if home in nodes or (is_complete and not is_behind):
                self.scene.fail(f"{key}, sent to {home}, was confirmed and never taken from {queue}")
