"""Reads the dead letter queue in the end: a dead letter is settled, if it has really been delivered so often."""

from __future__ import annotations

from attrs import define

from embedbroker.testing._checkers import BrokerChecker
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import key_of
from embedbroker.testing._scene import Moment, Phase, Scene
from embedbroker.testing._scripts import Arrival, Steps
from embedclient.agent import Consumer, Session, SessionMode
from embedclient.errors import JMSException

__all__ = ["DeadLetterReader"]


@define(eq=False)
class DeadLetterReader:
    """The one consumer of the dead letter queue."""

    scene: Scene
    host: ClientHost
    checker: BrokerChecker

    def steps(self) -> Steps:
        while not self._over():
            try:
                session: Session = yield self.host.agent().create_session_for(SessionMode.AUTO)
                consumer: Consumer = yield session.create_consumer("DLQ")
                yield session.start()
                while not consumer.closed and not self._over():
                    delivery = consumer.next(self.scene.world.instant)
                    if delivery is None:
                        yield Arrival(consumer, 0.5)
                        continue
                    key = key_of(delivery.message)
                    subscription = delivery.message.property("_AMQ_ORIG_QUEUE")
                    assert isinstance(subscription, str), "a dead letter names the queue it comes from"
                    self.scene.operate("dead letters", "reads", f"{key} of {subscription}")
                    self._judge(subscription, key)
                    yield session.consumed(delivery)
                yield session.close()
            except JMSException as error:
                self.scene.world.note("dead letters", "loses its session", error.error_code)
                yield 0.1

    def _over(self) -> bool:
        return self.scene.phase is Phase.LEAVE

    def _judge(self, subscription: str, key: str) -> None:
        scene = self.scene
        attempts = self.checker.broker.config.address_settings["#"].max_delivery_attempts
        assert attempts is not None, "the scenario sets it"
        deliveries = self.checker.deliveries.get(key, 0)
        if attempts < 0 or deliveries < attempts:
            scene.fail(
                f"{key} of {subscription} is a dead letter after {deliveries} deliveries, {attempts} are allowed"
            )
        scene.hit(Moment.DEAD_LETTER)
        scene.ledger.dead_lettered(subscription, key)
