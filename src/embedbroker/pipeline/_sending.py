"""Messages that exist already, sent as they are into one queue, in transactions.

Responsible for the shape of such a message (address, duplicate id) and for what "it was there before" means. Refuses to
know why it is sent: `import` and `repair` do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attrs import define

from embedclient.blocking import ClientProducer, ClientSession, ServerLocator
from embedclient.errors import DuplicateIDException, InvalidDestinationException, TransactionRolledBackException
from embedclient.model import RoutingType
from embedclient.wire.core import CoreMessage

from ._options import ConnectionOptions

__all__ = ["QueueSender", "SentMessage", "queue_sender"]

DUPLICATE_ID = "_AMQ_DUPL_ID"


@define(frozen=True)
class SentMessage:
    """A message as it is stored, in the CORE encoding, and the duplicate id it gets if it has none."""

    raw: bytes
    duplicate_id: bytes


@define(eq=False)
class QueueSender:
    """Sends into one queue. Not for several threads."""

    target: str
    _session: ClientSession
    _producer: ClientProducer

    def send_once(self, messages: Sequence[SentMessage]) -> int:
        """Send all of these in one transaction, unless they were sent before; how many were sent.

        Messages that bring a duplicate id of their own go one by one: the broker may know some of them. The others were
        sent all or none, so the first that the broker knows says that it knows all.

        Raises:
            JMSException: the broker refused; nothing of what was under way was sent.
        """
        sent = 0
        together: list[CoreMessage] = []
        for message in messages:
            core = CoreMessage.parse(bytearray(message.raw))
            own = core.duplicate_id is not None
            changes = {} if own else {DUPLICATE_ID: message.duplicate_id}
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
        try:
            refused = self._producer.send_encoded([message.raw for message in messages])
            if refused:
                raise refused[0][1]
            self._session.commit()
        except DuplicateIDException:
            self._session.rollback()
            return 0
        except TransactionRolledBackException as error:
            if not isinstance(error.__cause__, DuplicateIDException):
                raise
            return 0
        return len(messages)


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
        ServerLocator(connection.url).create_session_factory() as factory,
        factory.create_session(
            username=connection.user, password=connection.password, auto_commit_sends=False, auto_commit_acks=False
        ) as session,
    ):
        state = session.query_queue(queue)
        if not state.exists:
            session.create_queue(address, queue, routing)
        elif state.address != address:
            raise InvalidDestinationException(f"queue {queue!r} belongs to address {state.address!r}, not {address!r}")
        # The name of both is for addresses with several queues, because it stays in the message.
        target = address if session.query_address(address).queue_names == (queue,) else f"{address}::{queue}"
        with session.create_producer(target) as producer:
            yield QueueSender(target, session, producer)
