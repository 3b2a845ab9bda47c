"""An administrator that changes queues by management messages while users work, and restores them in the end.

Responsible for the orders, for their answers, and for what is known about an order without one. The checkers of
`_administration` judge what the broker makes of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from random import Random
from typing import Any

from attrs import define, evolve, field

from embedbroker.testing._administration import PauseChecker, Purge, PurgeChecker
from embedbroker.testing._broker_view import BrokerView
from embedbroker.testing._checkers import BrokerChecker
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._scene import Moment, Phase, Scene, Topic
from embedbroker.testing._scripts import Arrival, Steps
from embedclient.agent import Call, Consumer, LocatorSettings, Session, SessionMode
from embedclient.errors import JMSException
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage, MessageType, decode_text, encode_text

from .plan import AdministratorRole, ScenarioPlan

__all__ = ["Administrator", "with_administrator"]

_ANSWER_S = 2.0
_NAME = "administrator"


def with_administrator(plan: ScenarioPlan) -> ScenarioPlan:
    """Return the plan with an administrator. It changes values; what a seed stands for without it stays what it is."""
    random = Random(f"administrator {plan.seed}")
    # It gives up a connection that fails, and looks what came of its order.
    settings = LocatorSettings(
        call_timeout_ms=1_000,
        client_failure_check_period_ms=300,
        connection_ttl_ms=1_000,
        connect_timeout_ms=1_000,
        reconnect_attempts=0,
        ha=plan.group is not None,
        use_topology_for_load_balancing=plan.hosts[0].settings.use_topology_for_load_balancing,
    )
    return evolve(plan, administrator=AdministratorRole(settings, random.choice((0.02, 0.1, 0.4))))


class _NoAnswer(Exception):
    """An order has no answer: it may be carried out, now or later, as long as its session lives."""


@define(eq=False)
class _Desk:
    """A session for orders, with the queue of their answers."""

    session: Session
    answers: Consumer
    reply_to: str
    orders: int = 0


@define(eq=False)
class Administrator:
    """One administrator, through all its sessions. In the end it resumes what it has paused."""

    scene: Scene
    host: ClientHost
    broker: BrokerView
    #: Without those that come and go, and those with a cursor.
    topics: list[Topic]
    pauses: PauseChecker
    purges: PurgeChecker
    pause_s: float
    name: str = field(default=_NAME, init=False)
    finished: bool = field(default=False, init=False)
    #: Nothing else is drawn from it.
    _random: Random = field(init=False)
    #: Resources that are paused, or may be, with their queues.
    _held: dict[str, list[str]] = field(factory=dict, init=False)
    _session_name: str | None = field(default=None, init=False)
    _purge: Purge | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._random = Random(f"orders {self.scene.world.seed}")

    def watch(self, checker: BrokerChecker) -> None:
        """Let the checkers look at the broker from now on."""
        for each in (self.pauses, self.purges):
            each.watch()
            checker.on_delivery.append(each.on_delivery)

    def steps(self) -> Steps:
        """The script of the administrator."""
        while not self.finished:
            yield from self._await_end_of_session()
            session: Session | None = None
            try:
                session = yield self.host.agent().create_session_for(SessionMode.AUTO)
                self._session_name = session.name
                yield from self._work(session)
            except JMSException as error:
                self.scene.world.note(self.name, "loses its session", f"{error.error_code} {error}")
            except _NoAnswer:
                self.scene.world.note(self.name, "gets no answer")
            if session is not None:
                yield session.close()
            yield self._random.random() * 0.2

    def give_up(self) -> None:
        """Its client is gone. What is in doubt is decided when the broker has forgotten its session."""

    def _await_end_of_session(self) -> Steps:
        """Wait until nothing that was ordered can happen any more."""
        if self._session_name is not None:
            while not self._has_ended(self._session_name):
                yield 0.02
            self._session_name = None
        if self._purge is not None:
            self.purges.end(self._purge, None)
            self._purge = None

    def _has_ended(self, session: str) -> bool:
        node = self.broker.node
        if node is None or not self.broker.ready:
            return False
        return not self.broker.has_session(session) and not node.kernel.deferred.waiting

    def _work(self, session: Session) -> Steps:
        reply_to: str = yield session.destinations.create_temporary_queue()
        answers: Consumer = yield session.create_consumer(reply_to)
        yield session.start()
        desk = _Desk(session, answers, reply_to)
        while not session.closed:
            if self.scene.phase is not Phase.WORK:
                while self._held:
                    yield from self._resume(desk, next(iter(self._held)))
                self.finished = True
                return
            yield from self._act(desk)
            yield self._random.random() * 2 * self.pause_s

    def _act(self, desk: _Desk) -> Steps:
        # A broker without room cannot answer, and a pause would leave it without room for ever.
        pauses = self.broker.config.global_max_size_bytes is None
        verbs: list[tuple[int, Callable[[_Desk], Steps]]] = [
            (3 * pauses, self._pause_queue),
            (pauses, self._pause_address),
            (1 + len(self._held), self._resume_any),
            (2, self._purge_queue),
        ]
        weights = [weight for weight, _ in verbs]
        _, verb = self._random.choices(verbs, weights)[0]
        yield from verb(desk)

    # Pauses

    def _pause_queue(self, desk: _Desk) -> Steps:
        topic = self._random.choice(self.topics)
        name = self._random.choice(list(topic.subscriptions))
        yield from self._pause(desk, f"queue.{name}", [name])

    def _pause_address(self, desk: _Desk) -> Steps:
        topic = self._random.choice(self.topics)
        yield from self._pause(desk, f"address.{topic.address}", list(topic.subscriptions))

    def _pause(self, desk: _Desk, resource: str, queues: list[str]) -> Steps:
        is_persisted = self._random.random() < 0.7
        self._held[resource] = queues
        for queue in queues:
            self.pauses.pausing(queue)
        yield from self._order(desk, resource, "pause", is_persisted)
        self.scene.hit(Moment.QUEUE_PAUSED)
        for queue in queues:
            self.pauses.paused(queue, resource, is_persisted=is_persisted)

    def _resume_any(self, desk: _Desk) -> Steps:
        if self._held:
            yield from self._resume(desk, self._random.choice(list(self._held)))

    def _resume(self, desk: _Desk, resource: str) -> Steps:
        queues = self._held[resource]
        # An address is resumed with all its queues, also those that were paused by themselves.
        resources = [resource]
        if resource.startswith("address."):
            resources += [f"queue.{queue}" for queue in queues]
        for each in resources:
            for queue in queues:
                self.pauses.resuming(queue, each)
        yield from self._order(desk, resource, "resume")
        for each in resources:
            self._held.pop(each, None)
        for queue in queues:
            if not any(queue in held for held in self._held.values()):
                self.pauses.resumed(queue)

    # Purges

    def _purge_queue(self, desk: _Desk) -> Steps:
        topic = self._random.choice(self.topics)
        name = self._random.choice(list(topic.subscriptions))
        self._purge = self.purges.begin(name)
        removed = yield from self._order(desk, f"queue.{name}", "removeAllMessages")
        assert isinstance(removed, int), "a purge answers with a number"
        self.purges.end(self._purge, removed)
        self._purge = None

    # Orders

    def _order(
        self, desk: _Desk, resource: str, operation: str, *arguments: object
    ) -> Generator[Call[Any] | float | Arrival, Any, object]:
        """Give an order, and return the result.

        Raises:
            _NoAnswer: The answer does not come in time, or the session is lost.
        """
        self.scene.operate(self.name, operation, f"{resource} {arguments}")
        desk.orders += 1
        number = f"{desk.reply_to} {desk.orders}"
        request = _request(resource, operation, arguments, desk.reply_to, number)
        yield desk.session.create_producer("activemq.management").send(request)
        gives_up_at = self.scene.world.now + _ANSWER_S
        consumer = desk.answers
        consumer.want()
        while not consumer.closed and self.scene.world.now < gives_up_at:
            delivery = consumer.next(self.scene.world.instant)
            if delivery is None:
                yield Arrival(consumer, 0.5)
                continue
            yield desk.session.consumed(delivery)
            answer = delivery.message
            assert answer.property("JMSCorrelationID") == number, "there is one order at a time"
            result = json.loads(decode_text(answer.body) or "[null]")[0]
            if not answer.property("_AMQ_OperationSucceeded"):
                self.scene.fail(f"{resource} {operation}{arguments}: {result}")
            return result
        raise _NoAnswer


def _request(
    resource: str, operation: str, arguments: tuple[object, ...], reply_to: str, correlation_id: str
) -> CoreMessage:
    properties = Properties()
    properties["_AMQ_ResourceName"] = resource
    properties["_AMQ_OperationName"] = operation
    properties["JMSReplyTo"] = reply_to
    properties["JMSCorrelationID"] = correlation_id
    return CoreMessage.build(
        type=MessageType.TEXT,
        address="activemq.management",
        durable=True,
        properties=properties,
        body=encode_text(json.dumps(arguments)),
    )
