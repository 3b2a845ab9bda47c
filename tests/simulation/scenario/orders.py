"""Orders to a broker by management messages, one at a time, over a session with a queue for the answers.

Responsible for requests and answers. Does not depend on what orders change.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

from attrs import define

from embedbroker.testing._scene import Scene
from embedbroker.testing._scripts import Arrival
from embedclient.agent import Call, Consumer, Session
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage, MessageType, decode_text, encode_text

__all__ = ["Desk", "OrderRefused", "OrderUnanswered", "open_desk"]

_ANSWER_S = 2.0


class OrderRefused(Exception):
    """The broker refuses an order for the reason that its user expects."""


class OrderUnanswered(Exception):
    """An order has no answer: it may be carried out, now or later, as long as its session lives."""


@define(eq=False)
class Desk:
    """A session for orders, with the queue of their answers."""

    scene: Scene
    name: str
    session: Session
    answers: Consumer
    reply_to: str
    orders: int = 0

    def order(
        self, resource: str, operation: str, *arguments: object, refusal: str | None = None
    ) -> Generator[Call[Any] | float | Arrival, Any, object]:
        """Give an order, and return the result.

        Raises:
            OrderUnanswered: The answer does not come in time, or the session is lost.
            OrderRefused: The broker refuses the order with a text that begins with ``refusal``.
        """
        self.scene.operate(self.name, operation, f"{resource} {arguments}")
        self.orders += 1
        number = f"{self.reply_to} {self.orders}"
        request = _request(resource, operation, arguments, self.reply_to, number)
        yield self.session.create_producer("activemq.management").send(request)
        gives_up_at = self.scene.world.now + _ANSWER_S
        consumer = self.answers
        consumer.want()
        while not consumer.closed and self.scene.world.now < gives_up_at:
            delivery = consumer.next(self.scene.world.instant)
            if delivery is None:
                yield Arrival(consumer, 0.5)
                continue
            yield self.session.consumed(delivery)
            answer = delivery.message
            assert answer.property("JMSCorrelationID") == number, "there is one order at a time"
            result = json.loads(decode_text(answer.body) or "[null]")[0]
            if not answer.property("_AMQ_OperationSucceeded"):
                if refusal is not None and isinstance(result, str) and result.startswith(refusal):
                    raise OrderRefused
                self.scene.fail(f"{resource} {operation}{arguments}: {result}")
            return result
        raise OrderUnanswered


def open_desk(scene: Scene, name: str, session: Session) -> Generator[Call[Any] | float | Arrival, Any, Desk]:
    """Make the queue for answers, and return a desk. The session is started."""
    reply_to: str = yield session.destinations.create_temporary_queue()
    answers: Consumer = yield session.create_consumer(reply_to)
    yield session.start()
    return Desk(scene, name, session, answers, reply_to)


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
