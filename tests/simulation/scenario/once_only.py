"""Producers whose messages carry duplicate ids: what is in doubt they send again, and it must come once and only once.

Responsible for how such a producer behaves after a failure, and for turning a drawn plan into one of theirs. The ledger
takes a message that is sent again for the same one, so it finds every second copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field, frozen

from embedbroker.testing._messages import Letter
from embedbroker.testing._scene import Moment, Topic
from embedbroker.testing._scripts import Steps
from embedclient.agent import Producer, Session
from embedclient.errors import ErrorCode, JMSException
from embedclient.wire.core import CoreMessage

from .plan import ScenarioPlan
from .producers import SimulatedProducer
from .promises import check_commit

__all__ = ["IdentifiedLetter", "OnceOnlyProducer", "once_only"]


@frozen
class IdentifiedLetter(Letter):
    """A letter whose key is its duplicate id."""

    def build(self, wall_ms: int) -> CoreMessage:
        message = super().build(wall_ms)
        changes = {"_AMQ_DUPL_ID": self.key}
        return message.copy_for(self.address, changes=changes, removals=(), expiration=self.expiration)


@define(eq=False)
class OnceOnlyProducer(SimulatedProducer):
    """It sends again until the outcome is known. A transaction in doubt goes again with the same messages alone."""

    _retry: list[Letter] = field(factory=list, init=False)

    def _new_letter(self) -> tuple[Letter, Topic]:
        letter, topic = super()._new_letter()
        values = {name: getattr(letter, name) for name in Letter.__match_args__}
        return IdentifiedLetter(**values), topic

    def _next_letter(self, transaction: str | None) -> Letter:
        if not self._again:
            return super()._next_letter(transaction)
        letter = self._again.popleft()
        self._send_again(letter, transaction)
        return letter

    def _send_again(self, letter: Letter, transaction: str | None) -> None:
        scene = self.scene
        scene.ledger.resent(letter.key, scene.world.now, transaction=transaction, once=True)
        scene.hit(Moment.SENT_AGAIN_WITH_ID)
        self._pending[letter.key] = letter

    def _has_work(self) -> bool:
        return super()._has_work() or bool(self._retry)

    def _send_transaction(self, session: Session, producers: dict[str, Producer]) -> Steps:
        if self._retry:
            yield from self._repeat_transaction(session, producers)
        else:
            yield from super()._send_transaction(session, producers)

    def _repeat_transaction(self, session: Session, producers: dict[str, Producer]) -> Steps:
        scene, letters = self.scene, self._retry
        self._transactions += 1
        transaction = self._transaction = f"{self.name}#{self._transactions}"
        for letter in letters:
            self._send_again(letter, transaction)
            yield self._send(producers, letter)
        self._committing = True
        scene.operate(self.name, "commits again", transaction)
        sent = self.host.commits.of(session)
        try:
            yield session.commit()
        except JMSException as error:
            check_commit(scene, self.name, error, self.host.commits.of(session) - sent)
            scene.world.note(self.name, "commit fails", error.error_code)
            match error.error_code:
                case ErrorCode.DUPLICATE_ID_REJECTED:
                    # The one in doubt held, and so all of it did.
                    scene.hit(Moment.DUPLICATE_REJECTED)
                    scene.ledger.rolled_back(transaction)
                    for letter in letters:
                        self._confirm(letter)
                    self._retry = []
                case ErrorCode.TRANSACTION_ROLLED_BACK:
                    scene.ledger.rolled_back(transaction)
                case _:
                    self._doubt_transaction(transaction, letters)
        else:
            scene.judge(scene.ledger.committed(transaction, scene.world.now), self.name, transaction)
            scene.world.note(self.name, "has committed", transaction)
            self._retry = []
        self._pending.clear()
        self._transaction = None
        self._committing = False

    def _doubt_transaction(self, transaction: str, letters: list[Letter]) -> None:
        self.scene.ledger.transaction_in_doubt(transaction)
        self.scene.hit(Moment.COMMIT_IN_DOUBT)
        self._retry = list(letters)

    def _requeue(self, letters: Sequence[Letter]) -> None:
        super()._requeue([letter for letter in letters if letter not in self._retry])


def once_only(plan: ScenarioPlan) -> ScenarioPlan:
    """The same plan with producers of this kind.

    Nothing expires, because what expired is not sent again; no address goes, because its ids would go with it.
    """
    topics = tuple([evolve(topic, automatic=False) for topic in plan.topics])
    producers = tuple(
        [
            evolve(role, plan=evolve(role.plan, identifies=True, expire_chance=0.0, resend_chance=1.0))
            for role in plan.producers
        ]
    )
    return evolve(plan, topics=topics, producers=producers)
