"""Stored messages, sent unchanged into one queue, in transactions.

Responsible for the form of such a message (address, duplicate id) and for what "it was there before" means. It also
repeats a transaction that was lost with its connection. Does not depend on the reason for sending: `import` and
`repair` have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from attrs import define

from embedclient.blocking import ClientProducer, ClientSession
from embedclient.errors import (
    DuplicateIDException,
    ErrorCode,
    InvalidDestinationException,
    JMSException,
    TransactionOutcomeUnknownException,
    TransactionRolledBackException,
    UnblockedException,
)
from embedclient.model import PropertyValue, RoutingType
from embedclient.wire.core import CoreMessage

from ._broker_connection import BrokerConnection
from ._journal_records import KEPT_KEY
from ._options import ConnectionOptions

__all__ = ["QueueSender", "SentMessage", "queue_sender"]

DUPLICATE_ID = "_AMQ_DUPL_ID"
# A transaction is repeated when its connection is lost, which happens to one in a row, or two.
TRANSACTION_ATTEMPTS_MAX = 10


@define(frozen=True)
class SentMessage:
    """Hold a stored message, in the CORE encoding, and the duplicate id that it gets if it has none.

    Args:
        raw: the stored message, in the CORE encoding.
        duplicate_id: the id to set on a message that has none.
        key: value for `message_key`, needed where the duplicate id would change the key of the message.
    """

    raw: bytes
    duplicate_id: bytes
    key: str | None = None


@define(eq=False)
class QueueSender:
    """Send messages into one queue. Not thread-safe."""

    target: str
    _session: ClientSession
    _producer: ClientProducer

    def send_once(self, messages: Sequence[SentMessage], *, replacing: bool = False) -> int:
        """Send all of these in one transaction, unless they were sent before; return the number sent.

        Messages with duplicate ids from their producers go one by one: the broker may have received some of them. The
        others were sent all or none, so a refusal of the first one means that all were sent. A transaction that was
        lost with its connection, or perhaps not, is repeated: its ids prevent duplicates.

        Args:
            replacing: replace the messages' own duplicate ids. The broker may have received those with another message,
                such as the one that this message replaces.

        Raises:
            JMSException: the broker refused, and nothing under way was sent; or the broker is not there any more.
        """
        sent = 0
        together: list[CoreMessage] = []
        for message in messages:
            core = CoreMessage.parse(bytearray(message.raw))
            own = core.duplicate_id is not None and not replacing
            changes: dict[str, PropertyValue] = {} if own else {DUPLICATE_ID: message.duplicate_id}
            if message.key is not None:
                changes[KEPT_KEY] = message.key
            copy = core.copy_for(self.target, changes=changes, removals=(), expiration=core.expiration)
            if own:
                sent += self._transaction(together) + self._transaction([copy])
                together = []
            else:
                together.append(copy)
        return sent + self._transaction(together)

    def _transaction(self, messages: list[CoreMessage]) -> int:
        if not messages:
            return 0
        in_doubt = False
        for attempts_left in reversed(range(TRANSACTION_ATTEMPTS_MAX)):
            name = self._session.name
            try:
                return len(messages) if self._commits(messages) or in_doubt else 0
            except UnblockedException:
                if not attempts_left:
                    raise
                self._session.rollback()
            except TransactionRolledBackException as error:
                in_doubt = in_doubt or isinstance(error, TransactionOutcomeUnknownException)
                was_lost = in_doubt or self._session.name != name
                if not was_lost or not attempts_left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _commits(self, messages: list[CoreMessage]) -> bool:
        """Return True if the broker accepted them, False if it had their duplicate ids already."""
        try:
            refused = self._producer.send_encoded([message.raw for message in messages])
            if refused:
                raise refused[0][1]
            self._session.commit()
        except DuplicateIDException:
            self._session.rollback()
            return False
        except TransactionRolledBackException as error:
            if not isinstance(error.__cause__, DuplicateIDException):
                raise
            return False
        return True


@contextmanager
def queue_sender(
    connection: ConnectionOptions, address: str, queue: str, routing: RoutingType
) -> Iterator[QueueSender]:
    """Open a connection that sends to one queue, which is created if it does not exist.

    Raises:
        InvalidDestinationException: the queue exists and belongs to another address.
        JMSException: the broker cannot be reached, or refuses.
    """
    with (
        closing(BrokerConnection(connection)) as link,
        link.session(acknowledges_at_once=False, sends_at_once=False) as session,
    ):
        state = session.query_queue(queue)
        if not state.exists:
            try:
                session.create_queue(address, queue, routing)
            except JMSException as error:  # another task created it first
                if error.error_code != ErrorCode.QUEUE_EXISTS:
                    raise
        elif state.address != address:
            raise InvalidDestinationException(f"queue {queue!r} belongs to address {state.address!r}, not {address!r}")
        # The name with both parts is for addresses with several queues, because it stays in the message.
        target = address if session.query_address(address).queue_names == (queue,) else f"{address}::{queue}"
        with session.create_producer(target) as producer:
            yield QueueSender(target, session, producer)
