"""Simulated listeners: subscribers of a topic whose subscriptions live and die with their connections.

What is promised to them ends with every interruption that their session does not survive, and with every crash. It
begins again when the broker has the subscription, which is later than the client has asked for it. A subscription that
several share lives as long as one of them is there.
"""

from __future__ import annotations

from attrs import define, field

from embedbroker.testing._broker_view import BrokerView
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import key_of, selector_of
from embedbroker.testing._scene import Moment, Phase, Scene, Topic
from embedbroker.testing._scripts import Arrival, Steps
from embedclient.agent import Consumer, FailoverCompleted, Notification, Session, SessionMode
from embedclient.errors import JMSException

__all__ = ["Lapses", "SharedSubscription", "TopicListener"]


@define(eq=False)
class Lapses:
    """Which subscriptions are promised nothing, as the broker may not have them."""

    scene: Scene
    broker: BrokerView
    _names: dict[str, None] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.broker.after_step.append(self._look)

    def add(self, name: str) -> None:
        """A client requests the subscription again. What comes until the broker has it goes nowhere."""
        self.scene.ledger.suspend(name)
        self._names[name] = None
        self._look()

    def end(self, name: str) -> None:
        """End the watch: from here on another component decides what is promised."""
        self._names.pop(name, None)

    def _look(self) -> None:
        node = self.broker.node
        if not self._names or node is None:
            return
        queues = node.kernel.address_manager.queues
        for name in [name for name in self._names if name in queues and queues[name].consumers]:
            self.scene.ledger.resume(name)
            del self._names[name]


@define(eq=False)
class SharedSubscription:
    """One subscription that is not durable, and the users that share it."""

    scene: Scene
    lapses: Lapses
    topic: Topic
    name: str
    color: str | None
    _members: dict[TopicListener, None] = field(factory=dict, init=False)
    _known: bool = field(default=False, init=False)

    def join(self, member: TopicListener) -> None:
        """A member consumes. What comes from now on is promised to the members together."""
        ledger = self.scene.ledger
        if not self._known:
            self._known = True
            ledger.subscribe(self.name, self.topic.account, durable=False)
        elif not self._members:
            self.lapses.end(self.name)
            ledger.resume(self.name)
        else:
            self.scene.hit(Moment.SUBSCRIPTION_SHARED)
        self._members[member] = None
        self.topic.listeners[self.name] = self.color

    def interrupt(self) -> None:
        """A member's session is gone: the broker may have given what it held to others, or lost it with the queue."""
        self.scene.ledger.interrupted(self.name)
        self.lapses.add(self.name)

    def leave(self, member: TopicListener) -> None:
        """A member is gone; with the last one the subscription goes."""
        self.interrupt()
        self._members.pop(member, None)
        if not self._members:
            self.lapses.end(self.name)
            self.scene.ledger.suspend(self.name)
            del self.topic.listeners[self.name]


@define(eq=False)
class TopicListener:
    """One listener; each time it comes it has a new subscription, or its part of a shared one."""

    scene: Scene
    host: ClientHost
    broker: BrokerView
    lapses: Lapses
    name: str
    topic: Topic
    color: str | None
    think_s: float
    leave_chance: float
    shared: SharedSubscription | None = None
    _lives: int = field(default=0, init=False)
    _subscription: str | None = field(default=None, init=False)
    _shown: list[str] = field(factory=list, init=False)

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
                self._on_close_in_doubt()  # it is closed below, perhaps at a broker that waits for its reattachment
            self.give_up()
            if session is not None:
                yield session.close()
            yield self.scene.world.random.random() * 0.1
        self.host.on_notification.remove(self._on_notification)

    def give_up(self) -> None:
        """The subscription is gone, and with it every promise."""
        if self._subscription is None:
            return
        if self.shared is not None:
            self.shared.leave(self)
        else:
            self.lapses.end(self._subscription)
            self.scene.ledger.suspend(self._subscription)
            del self.topic.listeners[self._subscription]
        self._subscription = None

    def _subscribe(self, name: str) -> None:
        self._subscription = name
        if self.shared is not None:
            self.shared.join(self)
        else:
            self.scene.ledger.subscribe(name, self.topic.account, durable=False)
            self.topic.listeners[name] = self.color

    def _listen(self, session: Session) -> Steps:
        scene = self.scene
        self._lives += 1
        name = f"{self.name}.{self._lives}" if self.shared is None else self.shared.name
        filter_text = None if self.color is None else selector_of(self.color)
        yield session.start()
        consumer: Consumer = yield session.destinations.open_topic_consumer(
            self.topic.address, queue=name, durable=False, shared=self.shared is not None, filter=filter_text
        )
        self._shown.clear()
        session.on_close_in_doubt = self._on_close_in_doubt
        scene.operate(self.name, "subscribes as", name)
        self._subscribe(name)
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
            stale = not self.broker.has_session(session.name)
            finding = scene.ledger.delivered(
                name,
                key,
                scene.world.now,
                redelivered=delivery.redelivered,
                consumer=f"{self.name}.{self._lives}",
                stale=stale,
            )
            scene.judge(finding, self.name, key)
            self._shown.append(key)
            if not stale:
                scene.ledger.acknowledging(name, key)
            yield session.consumed(delivery)
            if scene.phase is Phase.WORK and scene.chance(self.leave_chance):
                break
            if self.think_s:
                yield scene.world.random.random() * 2 * self.think_s

    def _on_close_in_doubt(self) -> None:
        """The client ends its session in order: what it has shown comes again to others, not flagged."""
        if self._subscription is not None:
            self.scene.ledger.interrupted(self._subscription, self._shown)

    def _on_notification(self, notification: Notification) -> None:
        if self._subscription is None or not isinstance(notification, FailoverCompleted) or notification.reattached:
            return
        # The queue was made again; what came in between went nowhere, and what it held is gone.
        if self.shared is not None:
            self.shared.interrupt()
        else:
            self.lapses.add(self._subscription)
