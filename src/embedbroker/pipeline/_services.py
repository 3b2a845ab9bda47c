"""Requests to the services of a broker: cursors, markers, sets of branches and lists of queues.

Responsible for sending requests only to brokers with services, for one reply to each request, and for the content of a
refusal. Does not depend on the meaning of the operations.

A request is repeated if its reply was lost with its connection, so every operation must be repeatable.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from uuid import uuid4

from attrs import frozen

from embedclient.blocking import ClientConsumer, ClientProducer, ClientSession
from embedclient.errors import ConnectionClosedException, ConnectionTimedOutException, JMSException
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage, MessageType, decode_text, encode_text

from ._broker_connection import BrokerConnection

__all__ = ["CLOSE_TIMEOUT_S", "SERVICES_ADDRESS", "ServiceRefused", "Services"]

SERVICES_ADDRESS = "embedbroker.services"
STATUS_PROPERTY = "embedbroker_status"
REQUEST_TIMEOUT_S = 120.0
# After so many seconds without a reply the request is repeated: it may have been lost with its connection.
REPEAT_AFTER_S = 10.0
CLOSE_TIMEOUT_S = 5.0
"""Longest wait, in seconds, for a broker that does not answer at the end of a query, an export or a sink."""


class ServiceRefused(Exception):
    """The broker refuses a request. `status` is the reason in one word, `body` the content of the reply."""

    def __init__(self, operation: str, status: str, body: Mapping[str, object]) -> None:
        super().__init__(f"{operation} was refused ({status}): {body.get('text', 'no reason was given')}")
        self.operation = operation
        self.status = status
        self.body = body


@frozen
class PendingRequest:
    """Hold a request that is under way."""

    operation: str
    text: str
    correlation_id: str


class Services:
    """The services of one broker, over one session. Threads may share it: one request at a time."""

    def __init__(self, link: BrokerConnection) -> None:
        self._link = link
        self._lock = threading.RLock()
        self._session: ClientSession | None = None
        self._producer: ClientProducer | None = None
        self._consumer: ClientConsumer | None = None
        self._reply_queue = ""
        self._capabilities: Mapping[str, object] | None = None
        self._was_requested = False
        # True while `close` waits for a request of another thread, which then ends with an error.
        self._is_closing = False

    def capabilities(self) -> Mapping[str, object] | None:
        """Return the broker's description of itself, or None for a broker without services, such as a real Artemis."""
        if not self._was_requested:
            with self._link.session() as session:
                is_there = session.query_address(SERVICES_ADDRESS).exists
            self._capabilities = self.call("capabilities") if is_there else None
            self._was_requested = True
        return self._capabilities

    def can(self, operation: str) -> bool:
        """Return True if the broker has this operation."""
        found = self.capabilities()
        operations = found.get("operations") if found is not None else None
        return isinstance(operations, list) and operation in operations

    def call(self, operation: str, **fields: object) -> Mapping[str, object]:
        """Send a request and wait for the reply, `REQUEST_TIMEOUT_S` at most.

        Raises:
            ServiceRefused: the broker refuses it.
            ConnectionTimedOutException: no reply came in time.
            ConnectionLostException: the connection is lost for good.
        """
        with self._lock:
            reply = self.finish(self.begin(operation, **fields))
        found = json.loads(decode_text(reply.body) or "null")
        if not isinstance(found, dict):
            raise ServiceRefused(operation, "bad-reply", {"text": f"the reply is {type(found).__name__}"})
        return found

    def received_bytes(self, pending: PendingRequest) -> bytes:
        """Return the reply to a request that `begin` has sent, where it is bytes. Raises what `call` does."""
        return bytes(self.finish(pending).body)

    def begin(self, operation: str, **fields: object) -> PendingRequest:
        """Send a request, and return before its reply; `finish` waits for it.

        One request at a time can be under way.
        """
        pending = PendingRequest(operation, json.dumps({"operation": operation, **fields}), str(uuid4()))
        with self._lock:
            try:
                self._send(pending)
            except JMSException:  # `finish` sends it again, or raises the error
                self._end_session()
        return pending

    def finish(self, pending: PendingRequest) -> CoreMessage:
        """Wait for the reply and return it. Raises what `call` does."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        with self._lock:
            reply: CoreMessage | None = None
            while reply is None:
                try:
                    reply = self._reply(pending, min(deadline, time.monotonic() + REPEAT_AFTER_S))
                except JMSException as error:
                    self._end_session()
                    if self._is_closing:
                        raise
                    if time.monotonic() >= deadline:
                        raise ConnectionTimedOutException(
                            f"no reply to {pending.operation} in {REQUEST_TIMEOUT_S:g} seconds: {error}"
                        ) from error
                    self._send(pending)
        status = str(reply.properties.get(STATUS_PROPERTY))
        if status != "ok":
            body = json.loads(decode_text(reply.body) or "{}") if reply.type == MessageType.TEXT else {}
            raise ServiceRefused(pending.operation, status, body)
        return reply

    def close(self) -> None:
        """End the session; the link stays. Closing twice is allowed.

        A request of another thread ends with an error, so this takes at most `CLOSE_TIMEOUT_S`.
        """
        self._is_closing = True
        session = self._session
        if not self._lock.acquire(blocking=False):
            if session is not None:
                with suppress(JMSException):
                    session.close()  # ends the wait for a reply
            if not self._lock.acquire(timeout=CLOSE_TIMEOUT_S):
                return  # the thread that waits for a connection ends its session itself
        try:
            self._end_session()
            self._is_closing = False
        finally:
            self._lock.release()

    def _reply(self, pending: PendingRequest, until: float) -> CoreMessage:
        if self._consumer is None:
            raise ConnectionTimedOutException("the request was not sent")
        while True:
            received = self._consumer.receive_encoded(1, timeout=max(0.0, until - time.monotonic()))
            if not received:
                raise ConnectionTimedOutException("the reply did not come")
            self._consumer.acknowledge_received()
            message = CoreMessage.parse(received[0][0])
            # A reply to a repeated request may come twice.
            if message.properties.get("JMSCorrelationID") == pending.correlation_id:
                return message

    def _send(self, pending: PendingRequest) -> None:
        if self._session is None:
            self._open_session()
        if self._is_closing:
            self._end_session()
            raise ConnectionClosedException("the services are closed")
        assert self._producer is not None
        properties = Properties()
        properties["JMSReplyTo"] = f"temp-queue://{self._reply_queue}"
        properties["JMSCorrelationID"] = pending.correlation_id
        request = CoreMessage.build(
            type=MessageType.TEXT,
            address=SERVICES_ADDRESS,
            durable=False,
            properties=properties,
            body=encode_text(pending.text),
        )
        for _, error in self._producer.send_encoded([request.raw], timeout=REPEAT_AFTER_S):
            raise error

    def _open_session(self) -> None:
        session = self._link.session()
        self._reply_queue = str(uuid4())
        session.create_queue(self._reply_queue, durable=False, temporary=True)
        self._consumer = session.create_consumer(self._reply_queue)
        self._producer = session.create_producer(SERVICES_ADDRESS)
        self._session = session

    def _end_session(self) -> None:
        session, self._session, self._consumer, self._producer = self._session, None, None, None
        if session is not None:
            try:
                session.close()
            except JMSException:  # it is gone already
                pass
