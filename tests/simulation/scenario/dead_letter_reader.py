"""Reads the dead letter and the expiry queue in the end: what lies there is settled, if it lies there rightly."""

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
    """The one consumer of a dead letter or expiry queue."""

    scene: Scene
    host: ClientHost
    checker: BrokerChecker
    queue: str

    def steps(self) -> Steps:
        """The script of this reader."""
        while not self._over():
            session: Session | None = None
            try:
                session = yield self.host.agent().create_session_for(SessionMode.AUTO)
                consumer: Consumer = yield session.create_consumer(self.queue)
                yield session.start()
                while not consumer.closed and not self._over():
                    delivery = consumer.next(self.scene.world.instant)
                    if delivery is None:
                        yield Arrival(consumer, 0.5)
                        continue
                    key = key_of(delivery.message)
                    subscription = delivery.message.property("_AMQ_ORIG_QUEUE")
                    assert isinstance(subscription, str), "it names the queue it comes from"
                    self.scene.operate(f"reader of {self.queue}", "takes", f"{key} of {subscription}")
                    if not self.scene.ledger.knows(subscription):
                        pass  # made for a listener that gave up before the answer came: nothing was promised to it
                    elif delivery.message.property("_AMQ_ACTUAL_EXPIRY") is None:
                        self._judge_dead_letter(subscription, key)
                    else:
                        self._judge_expired(subscription, key)
                    yield session.consumed(delivery)
            except JMSException as error:
                self.scene.world.note(f"reader of {self.queue}", "loses its session", error.error_code)
            if session is not None:
                yield session.close()
            yield 0.1

    def _over(self) -> bool:
        return self.scene.phase is Phase.LEAVE

    def _judge_dead_letter(self, subscription: str, key: str) -> None:
        scene = self.scene
        attempts = self.checker.broker.config.address_settings["#"].max_delivery_attempts
        assert attempts is not None, "the scenario sets it"
        deliveries = self.checker.deliveries.get(key, 0)
        if attempts < 0 or deliveries < attempts:
            scene.fail(f"{key} of {subscription} is a dead letter after {deliveries} of {attempts} deliveries")
        scene.hit(Moment.DEAD_LETTER)
        scene.ledger.dead_lettered(subscription, key)

    def _judge_expired(self, subscription: str, key: str) -> None:
        scene = self.scene
        scene.hit(Moment.EXPIRY)
        scene.judge(scene.ledger.expired(subscription, key, scene.world.now), f"expiry of {subscription}", key)
