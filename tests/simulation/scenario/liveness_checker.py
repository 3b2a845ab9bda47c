"""The roll call: when everything works again, each consumer has to take a message, and those that did make room.

A queue that drains does not show a consumer that gets nothing any more while others take its share. Here a served
consumer goes, so that in the end each one is alone with what is left.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import Letter
from embedbroker.testing._scene import Moment, Scene
from embedbroker.testing._scripts import Steps
from embedclient.agent import Session, SessionMode
from embedclient.model import RoutingType

from .consumers import SimulatedConsumer

__all__ = ["LivenessChecker"]

#: Longer than the broker needs to serve all present consumers; one that was away may miss a round.
_ROUND_S = 3.0


@define(eq=False)
class LivenessChecker:
    """Calls consumers until each has answered."""

    scene: Scene
    host: ClientHost
    consumers: Sequence[SimulatedConsumer]
    _letters: int = field(default=0, init=False)

    @property
    def absent(self) -> list[SimulatedConsumer]:
        """The consumers that can get messages and have not been served yet."""
        return [consumer for consumer in self.consumers if consumer.takes_something and not consumer.present]

    def steps(self) -> Steps:
        """The script of the caller: in each round a message for every absent consumer."""
        session: Session = yield self.host.agent().create_session_for(SessionMode.AUTO)
        while absent := self.absent:
            for consumer in absent:
                yield from self._call(session, consumer)
            yield _ROUND_S
        self.scene.hits[Moment.ROLL_CALL_ANSWERED] += sum(consumer.present for consumer in self.consumers)
        yield session.close()

    def _call(self, session: Session, consumer: SimulatedConsumer) -> Steps:
        scene, home = self.scene, consumer.home
        self._letters += 1
        color = consumer.plan.color or home.subscriptions[consumer.subscription] or scene.color()
        while home.routes is not None and consumer.subscription not in home.reached_by(color):
            color = scene.color()  # an exclusive divert takes the other one
        letter = Letter(
            key=f"call-{self._letters}",
            address=home.address,
            color=color,
            routing_type=RoutingType.ANYCAST if home.automatic else None,
        )
        if home.automatic:
            yield session.destinations.prepare_destination(home.address, RoutingType.ANYCAST)
        scene.operate("roll call", "calls", f"{consumer.name} {letter.key}")
        scene.ledger.sent(
            letter.key, home.account, scene.world.now, producer="roll call", reaches=home.reached_by(letter.color)
        )
        yield session.create_producer(letter.address).send(letter.build(scene.world.instant.wall_ms))
        scene.ledger.confirmed(letter.key, scene.world.now)
