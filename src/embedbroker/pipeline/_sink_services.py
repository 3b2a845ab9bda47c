"""What the sink asks of the broker's services: the number of the last committed batch, and commits of many branches.

Responsible for asking again when an answer was lost, which these two can bear. Refuses to know branches' names.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence

from embedclient.blocking import ClientSession
from embedclient.errors import ConnectionTimedOutException, JMSException
from embedclient.model import Properties, RoutingType, Xid
from embedclient.wire.core import MessageType, decode_text, encode_text

__all__ = ["Markers", "ServiceRefused", "has_services"]

ADDRESS = "embedbroker.services"
BRANCHES_MAX = 10_000
"""So many branches one commit may have."""
# A reply is lost with the connection that it was sent on: how long one is awaited, and how often it is asked for.
REPLY_TIMEOUT_S = 10.0
ASKED_MAX = 12


class ServiceRefused(JMSException):
    """The broker refused a request; `status` is its word for the reason."""

    def __init__(self, operation: str, status: str, body: dict[str, object]) -> None:
        super().__init__(f"{operation}: {status}: {body.get('text', '')}")
        self.status = status
        self.body = body


def has_services(session: ClientSession) -> bool:
    """Whether the broker has them. Asks for nothing that another broker would create."""
    return session.query_address(ADDRESS).exists


class Markers:
    """The markers and commit sets of one broker, asked for through one session."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._replies = f"{ADDRESS}.{uuid.uuid4()}"
        session.create_queue(self._replies, self._replies, RoutingType.ANYCAST, durable=False, temporary=True)
        self._consumer = session.create_consumer(self._replies)
        session.start()
        self._producer = session.create_producer(ADDRESS)

    def get(self, name: str) -> int | None:
        """The number of this name, None where there is none."""
        value = self._ask("marker.get", name=name)["value"]
        return value if isinstance(value, int) else None

    def create(self, name: str, value: int) -> None:
        """Begin a number that is not there. Raises ServiceRefused: `moved`, it is."""
        self._ask("marker.set", name=name, expected=None, value=value)

    def remove(self, name: str) -> None:
        """Forget the number."""
        self._ask("marker.remove", name=name)

    def commit(self, name: str, expected: int | None, value: int, branches: Sequence[Xid]) -> bool:
        """Commit the branches and set the number, all or nothing. False: it was that high already, and the branches are
        rolled back.

        Raises ServiceRefused: `moved`, `no-such-branch`.
        """
        xids = [
            {
                "format": xid.format_id,
                "global": xid.global_transaction_id.hex(),
                "branch": xid.branch_qualifier.hex(),
            }
            for xid in branches
        ]
        answer = self._ask("commit-set", marker=name, expected=expected, value=value, branches=xids)
        return answer["result"] == "committed"

    def _ask(self, operation: str, **fields: object) -> dict[str, object]:
        text = encode_text(json.dumps({"operation": operation, **fields}))
        correlation_id = str(uuid.uuid4())
        properties = Properties({"JMSReplyTo": self._replies, "JMSCorrelationID": correlation_id})
        for _ in range(ASKED_MAX):
            request = self._session.create_message(text, durable=False, type=MessageType.TEXT, properties=properties)
            self._producer.send(request)
            reply = self._reply(correlation_id)
            if reply is not None:
                status, body = reply
                if status != "ok":
                    raise ServiceRefused(operation, status, body)
                return body
        waited_s = ASKED_MAX * REPLY_TIMEOUT_S
        raise ConnectionTimedOutException(f"the broker did not answer {operation} within {waited_s:g} seconds")

    def _reply(self, correlation_id: str) -> tuple[str, dict[str, object]] | None:
        """What answers this request; the second answer to one that was repeated is dropped."""
        while (reply := self._consumer.receive(REPLY_TIMEOUT_S)) is not None:
            reply.acknowledge()
            if reply.properties.get("JMSCorrelationID") == correlation_id:
                return str(reply.properties["embedbroker_status"]), json.loads(decode_text(reply.body) or "{}")
        return None
