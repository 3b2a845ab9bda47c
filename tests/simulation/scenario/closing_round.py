"""The closing round: a scenario in which little happened goes on with ordinary sends and receives until it counts.

The effect of faults, filters and expirations on a workload is not known before, so a plan alone cannot promise how much
is done. The round comes when all other users have left, and changes nothing for scenarios that did enough.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from attrs import define, field

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import Letter, key_of
from embedbroker.testing._scene import Scene, Topic
from embedbroker.testing._scripts import Arrival, Steps
from embedclient.agent import Call, Consumer, Session, SessionMode

__all__ = ["OPERATIONS_MIN", "ClosingRound"]

#: Every scenario does at least so much.
OPERATIONS_MIN = 200
_NAME = "closer"


@define(eq=False)
class ClosingRound:
    """Sends to one address, and takes what arrives from every subscription of it."""

    scene: Scene
    host: ClientHost
    topic: Topic
    _letters: int = field(default=0, init=False)

    def steps(self) -> Steps:
        """The script of the one user that does both."""
        session: Session = yield self.host.agent().create_session_for(SessionMode.AUTO)
        consumers: dict[str, Consumer] = {}
        for subscription in self.topic.subscriptions:
            consumers[subscription] = yield session.create_consumer(subscription)
        yield session.start()
        while self.scene.operations < OPERATIONS_MIN:
            letter = yield from self._send(session)
            for subscription in self.topic.reached_by(letter.color):
                if subscription not in consumers:
                    consumers[subscription] = yield session.create_consumer(subscription)
                yield from self._take(session, subscription, consumers[subscription])
        yield session.close()

    def _send(self, session: Session) -> Generator[Call[None], Any, Letter]:
        scene, topic = self.scene, self.topic
        self._letters += 1
        letter = Letter(key=f"{_NAME}-{self._letters}", address=topic.address, color=scene.color())
        scene.operate(_NAME, "sends", letter.key)
        reaches = topic.reached_by(letter.color)
        scene.ledger.sent(letter.key, topic.account, scene.world.now, producer=_NAME, reaches=reaches)
        yield session.create_producer(topic.address).send(letter.build(scene.world.instant.wall_ms))
        scene.ledger.confirmed(letter.key, scene.world.now)
        return letter

    def _take(self, session: Session, subscription: str, consumer: Consumer) -> Steps:
        scene = self.scene
        consumer.want()
        delivery = consumer.next(scene.world.instant)
        while delivery is None:
            yield Arrival(consumer, 0.5)
            delivery = consumer.next(scene.world.instant)
        key = key_of(delivery.message)
        scene.operate(_NAME, "takes", key)
        finding = scene.ledger.delivered(
            subscription, key, scene.world.now, redelivered=delivery.redelivered, consumer=f"{_NAME} of {subscription}"
        )
        scene.judge(finding, _NAME, key)
        scene.ledger.acknowledging(subscription, key)
        yield session.consumed(delivery)
