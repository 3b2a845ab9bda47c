"""Messages that exist already, sent as they are into one queue, in transactions.

Responsible for the shape of such a message (address, duplicate id), for what "it was there before" means, and for doing
a transaction again that a lost connection took along. Refuses to know why it is sent: `import` and `repair` do.
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
# A transaction is done again when its connection is lost, which happens to one in a row, or two.
TRANSACTION_ATTEMPTS_MAX = 10


@define(frozen=True)
class SentMessage:
    """A message as it is stored, in the CORE encoding, and the duplicate id it gets if it has none.

    ``key`` goes along for `message_key`, where the duplicate id would change what the message is found again by.
    """

    raw: bytes
    duplicate_id: bytes
    key: str | None = None


@define(eq=False)
class QueueSender:
    """Sends into one queue. Not for several threads."""

    target: str
    _session: ClientSession
    _producer: ClientProducer

    def send_once(self, messages: Sequence[SentMessage], *, replacing: bool = False) -> int:
        """Send all of these in one transaction, unless they were sent before; how many were sent.

        Messages that bring a duplicate id of their own go one by one: the broker may know some of them. The others were
        sent all or none, so the first that the broker knows says that it knows all. A transaction that was lost with
        its connection, or perhaps not, is done again: its ids keep it from being there twice.

        ``replacing``: ours take the place of the messages' own duplicate ids, which the broker may know from another
        message, as from the one that this one is sent instead of.

        Raises:
            JMSException: the broker refused, and nothing of what was under way was sent; or it is not there any more.
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
        """Whether the broker took them; it does not if it knows them."""
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
    """A connection that sends to one queue, which is made if it is not there.

    Raises:
        InvalidDestinationException: the queue is there and belongs to another address.
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
            except JMSException as error:  # another task was faster
                if error.error_code != ErrorCode.QUEUE_EXISTS:
                    raise
        elif state.address != address:
            raise InvalidDestinationException(f"queue {queue!r} belongs to address {state.address!r}, not {address!r}")
        # The name of both is for addresses with several queues, because it stays in the message.
        target = address if session.query_address(address).queue_names == (queue,) else f"{address}::{queue}"
        with session.create_producer(target) as producer:
            yield QueueSender(target, session, producer)
