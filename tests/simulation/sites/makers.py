"""Users that create queues while messages flow, and delete some of them again.

Responsible for durable subscriptions that come and go, and for which messages each of them must get. Does not depend on
how other nodes learn of queues.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import define, field, frozen

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import selector_of
from embedbroker.testing._scene import Moment, Phase, Scene
from embedbroker.testing._scripts import Steps
from embedclient.agent import Session, SessionMode
from embedclient.errors import ErrorCode, JMSException
from embedclient.model import RoutingType

from .cluster_plan import TOPIC, MakerPlan
from .takers import Taker

__all__ = ["Comings", "Maker"]


@frozen
class _Stay:
    """One subscription of a name, from its creation on; later ones of that name are others."""

    maker: MakerPlan
    number: int


@define(eq=False)
class Comings:
    """The subscriptions that makers have now, and the messages that they must get.

    A message is owed to a subscription that is there from its first send to the end, if its node had the binding.
    """

    #: By the name of the queue, those that the broker has confirmed, and that have not been asked to go.
    present: dict[str, _Stay] = field(factory=dict)
    #: By the key of the message.
    owed: dict[str, list[_Stay]] = field(factory=dict)

    def sent(self, key: str, has_binding: Callable[[MakerPlan], bool]) -> None:
        """Note the first send of a message."""
        self.owed[key] = [stay for stay in self.present.values() if has_binding(stay.maker)]

    def must_reach(self, key: str) -> list[MakerPlan]:
        """Return the makers whose subscription must have got a message, in the end."""
        return [stay.maker for stay in self.owed.get(key, ()) if self.present.get(stay.maker.queue) is stay]


@define(eq=False)
class Maker:
    """One user with one durable subscription at a time, always of the same name."""

    scene: Scene
    host: ClientHost
    plan: MakerPlan
    comings: Comings
    #: Takes messages of the subscription, in each of its sessions.
    taker: Taker
    _is_leaving: bool = field(default=False, init=False)
    _stays: int = field(default=0, init=False)

    def steps(self) -> Steps:
        """The script of the user. In the end the subscription stays, unless its deletion is in doubt."""
        while self.scene.phase is Phase.WORK or self._is_leaving:
            session: Session | None = None
            try:
                session = yield self.host.agent().create_session_for(SessionMode.AUTO)
                yield from self._work(session)
            except JMSException as error:
                self.scene.world.note(self.plan.name, "loses its session", f"{error.error_code} {error}")
            if session is not None:
                yield session.close()
            yield self._pause_s()

    def _work(self, session: Session) -> Steps:
        while not session.closed and (self.scene.phase is Phase.WORK or self._is_leaving):
            if self._is_leaving:
                yield from self._delete(session)
            elif self.plan.queue not in self.comings.present:
                yield from self._create(session)
            elif self.scene.chance(self.plan.leave_chance):
                del self.comings.present[self.plan.queue]
                self._is_leaving = True
            else:
                until = self.scene.world.now + self._pause_s() * 4
                yield from self.taker.work(session, partial(self._is_past, until))
            yield self._pause_s()

    def _is_past(self, until: float) -> bool:
        return self.scene.world.now >= until

    def _create(self, session: Session) -> Steps:
        plan = self.plan
        self.scene.operate(plan.name, "creates", plan.queue)
        selector = selector_of(plan.color) if plan.color is not None else None
        try:
            yield session.addressing.create_queue(TOPIC, plan.queue, RoutingType.MULTICAST, filter=selector)
        except JMSException as error:
            if error.error_code != ErrorCode.QUEUE_EXISTS:
                raise
        self.scene.hit(Moment.SUBSCRIPTION_CREATED)
        self._stays += 1
        self.comings.present[plan.queue] = _Stay(plan, self._stays)

    def _delete(self, session: Session) -> Steps:
        self.scene.operate(self.plan.name, "deletes", self.plan.queue)
        try:
            yield session.addressing.delete_queue(self.plan.queue)
        except JMSException as error:
            if error.error_code != ErrorCode.QUEUE_DOES_NOT_EXIST:
                raise
        self.scene.hit(Moment.SUBSCRIPTION_DELETED)
        self._is_leaving = False

    def _pause_s(self) -> float:
        return self.scene.world.random.random() * 2 * self.plan.pause_s
