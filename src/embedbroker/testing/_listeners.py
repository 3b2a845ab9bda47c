"""Simulated listeners: subscribers of a topic whose subscriptions live and die with their connections.

What is promised to them ends with every interruption that their session does not survive, and with every crash.
"""

from __future__ import annotations

from attrs import define, field

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import key_of, selector_of
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Phase, Scene, Topic
from embedbroker.testing._scripts import Arrival, Steps
from embedclient.agent import Consumer, FailoverCompleted, Notification, Session, SessionMode
from embedclient.errors import JMSException

__all__ = ["TopicListener"]


@define(eq=False)
class TopicListener:
    """One listener; each time it comes it has a new subscription."""

    scene: Scene
    host: ClientHost
    broker: NodeHost
    name: str
    topic: Topic
    color: str | None
    think_s: float
    leave_chance: float
    _lives: int = field(default=0, init=False)
    _subscription: str | None = field(default=None, init=False)

    def steps(self) -> Steps:
        """The script of this listener."""
        self.host.on_notification.append(self._on_notification)
        while self.scene.phase is not Phase.LEAVE:
            session: Session | None = None
            try:
                session = yield self.host.agent().create_session_for(SessionMode.AUTO)
                yield from self._listen(session)
            except JMSException as error:
                self.scene.world.note(self.name, "loses its session", f"{error.error_code} {error}")
            self.give_up()
            if session is not None:
                yield session.close()
            yield self.scene.world.random.random() * 0.1
        self.host.on_notification.remove(self._on_notification)

    def give_up(self) -> None:
        """The subscription is gone, and with it every promise."""
        if self._subscription is not None:
            self.scene.ledger.suspend(self._subscription)
            del self.topic.listeners[self._subscription]
            self._subscription = None

    def _listen(self, session: Session) -> Steps:
        scene = self.scene
        self._lives += 1
        name = f"{self.name}.{self._lives}"
        filter_text = None if self.color is None else selector_of(self.color)
        yield session.start()
        consumer: Consumer = yield session.open_topic_consumer(
            self.topic.address, queue=name, durable=False, shared=False, filter=filter_text
        )
        scene.operate(self.name, "subscribes as", name)
        scene.ledger.subscribe(name, self.topic.address, durable=False)
        self.topic.listeners[name] = self.color
        self._subscription = name
        while not session.closed and not consumer.closed:
            delivery = consumer.next(scene.world.instant)
            if delivery is None:
                if scene.phase is Phase.LEAVE:
                    break
                consumer.want()
                yield Arrival(consumer, 0.5)
                continue
            key = key_of(delivery.message)
            scene.operate(self.name, "hears", key)
            stale = not self.broker.knows_session(session.name)
            finding = scene.ledger.delivered(
                name,
                key,
                scene.world.now,
                redelivered=delivery.redelivered,
                consumer=name,
                stale=stale,
            )
            scene.judge(finding, self.name, key)
            if not stale:
                scene.ledger.acknowledging(name, key)
            yield session.consumed(delivery)
            if scene.phase is Phase.WORK and scene.chance(self.leave_chance):
                break
            if self.think_s:
                yield scene.world.random.random() * 2 * self.think_s

    def _on_notification(self, notification: Notification) -> None:
        if self._subscription is None or not isinstance(notification, FailoverCompleted) or notification.reattached:
            return
        # The queue was made again; what came in between went nowhere, and what it held is gone.
        self.scene.ledger.suspend(self._subscription)
        self.scene.ledger.resume(self._subscription)
