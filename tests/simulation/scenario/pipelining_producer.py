"""Producers that do not always wait for the end of a transaction, and go on with the next one.

Responsible for what such a user learns and when. They do not depend on the order in which the client ends transactions.
"""

from __future__ import annotations

from functools import partial
from random import Random

from attrs import define, evolve, field

from embedbroker.testing._messages import Letter
from embedbroker.testing._scene import Moment
from embedbroker.testing._scripts import Steps
from embedclient.agent import Call, Producer, Session

from .plan import ScenarioPlan
from .producers import ProducerKind, SimulatedProducer

__all__ = ["PipeliningProducer", "pipelining"]


@define(eq=False)
class PipeliningProducer(SimulatedProducer):
    """A transacted producer of this kind."""

    #: Commits that no script waits for, with what they are about. Their outcome is noted when it is there.
    _left_alone: dict[str, list[Letter]] = field(factory=dict, init=False)

    def give_up(self) -> None:
        left_alone, self._left_alone = self._left_alone, {}
        for transaction, letters in left_alone.items():
            self._doubt_transaction(transaction, letters)
        super().give_up()

    def _has_work(self) -> bool:
        return super()._has_work() or bool(self._left_alone)

    def _send_transaction(self, session: Session, producers: dict[str, Producer]) -> Steps:
        # A session that is started has to be stopped by a rollback, which then takes two requests.
        yield session.start()
        if super()._has_work():
            yield from super()._send_transaction(session, producers)

    def _roll_back(self, session: Session) -> Steps:
        call = session.rollback()
        if not self._is_impatient():
            yield call

    def _commit(self, session: Session, transaction: str, letters: list[Letter]) -> Steps:
        if self._left_alone and self.scene.chance(0.5):
            # The answer to the one before comes while this one is open, and then perhaps a failure.
            yield self.scene.world.random.random() * 0.5
        if not self._is_impatient():
            yield from super()._commit(session, transaction, letters)
            return
        call = session.commit()
        if call.done:
            self._conclude(transaction, letters, call.error)
        elif self.scene.chance(0.3) and call.cancel():
            # It waited for its turn behind others, and will not come to pass.
            self.scene.world.note(self.name, "takes back its commit", transaction)
            self.scene.ledger.rolled_back(transaction)
            self._requeue(letters)
            yield from self._roll_back(session)
        else:
            self._left_alone[transaction] = letters
            call.on_done = partial(self._on_end, transaction)

    @property
    def _other_endings_are_open(self) -> bool:
        return bool(self._left_alone)

    def _is_impatient(self) -> bool:
        pipelining = self.scene.chance(self.plan.impatient_chance)
        if pipelining:
            self.scene.hit(Moment.ENDING_LEFT_ALONE)
        return pipelining

    def _on_end(self, transaction: str, call: Call[None]) -> None:
        letters = self._left_alone.pop(transaction, None)
        if letters is not None:
            self._conclude(transaction, letters, call.error)


def pipelining(plan: ScenarioPlan) -> ScenarioPlan:
    """The same plan with users of this kind among the transacted producers."""
    random = Random(f"impatience {plan.seed}")
    producers = [
        evolve(role, plan=evolve(role.plan, impatient_chance=random.choice((0.2, 0.5, 0.8))))
        if role.plan.kind is ProducerKind.TRANSACTED
        else role
        for role in plan.producers
    ]
    return evolve(plan, producers=tuple(producers))
