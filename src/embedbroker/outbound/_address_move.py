"""The move of all messages of one address to the same address of another broker.

Responsible for their order, for sending a message of several queues once, and for what is sent and not confirmed:
confirmed messages leave their queues here, all others return to their places. Does not depend on connections.

The queues are read together, by priority and position. A message that went to several of them has the same place in
each, so that it is at the front of all of them at once. If it has not, it is sent more than once, each time for other
queues.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

from attrs import define

from embedbroker.kernel import Kernel, Leaving, Message, Outcome, Queue, Reference, StoredMessage
from embedclient.agent import Call, CoreMessage
from embedclient.errors import ErrorCode, JMSException, RemoteProtocolError
from embedclient.wire.core import ROUTE_TO

from ._bridged_message import NotForwarded
from ._bridged_upload import BridgedUpload
from ._remote_broker import RemoteBroker, Work

__all__ = ["AddressMove", "Composer", "MoveCounts", "Route", "ToSameQueues"]

Group: TypeAlias = "list[tuple[Queue, Reference]]"
"""One message, with the queues in which it is."""

_BRIDGE_DUPLICATE_ID: Final = "_AMQ_BRIDGE_DUP"
# What may be on its way without a confirmation.
_UNCONFIRMED_BYTES_MAX: Final = 1024 * 1024
_UNCONFIRMED_MAX: Final = 1_000
# Messages of one transaction here, where the configuration sets no number.
_COMMITTED_TOGETHER: Final = 64
_COMMITTED_MAX: Final = 1_000
_ORIGIN: Final = "_AMQ_ORIG_ADDRESS"
_SCHEDULED_AT_ONCE: Final = 64
_OF_THE_CONNECTION: Final = frozenset(
    (
        ErrorCode.NOT_CONNECTED,
        ErrorCode.CONNECTION_TIMEDOUT,
        ErrorCode.DISCONNECTED,
        ErrorCode.UNBLOCKED,
        ErrorCode.OBJECT_CLOSED,
    )
)
_NEVER: Final = 1 << 63


@define(eq=False)
class MoveCounts:
    """The progress of a move over all addresses. ``kept`` are messages that stay here, with the last reason."""

    moved: int = 0
    kept: int = 0
    reason: str = ""


@define(eq=False)
class Route:
    """What the messages of a move have in common.

    Attributes:
        node: The 16 bytes of this broker's node id.
        chunk_bytes: Size of the chunks of large messages.
        commit_interval: Messages of one transaction here; -1: a number that is chosen here.
    """

    node: bytes
    chunk_bytes: int
    commit_interval: int


class Composer(Protocol):
    """Make the copies that a move sends."""

    def prepare(self, queue: Queue) -> Work[None]:
        """Find out what the copies of messages of a queue need.

        Raises:
            JMSException: The other broker does not take messages of the queue.
        """

    def copy(self, message: Message, queues: list[Queue]) -> CoreMessage:
        """Return the copy of a message for queues; of a large message, its headers and properties.

        Raises:
            RemoteProtocolError, NotForwarded: It cannot be copied.
        """


class ToSameQueues:
    """Send messages to the queues of the same names at the other broker.

    Args:
        address: Name of the address.
        remote: The other broker.
        node: The 16 bytes of this broker's node id.
        uses_ids_of_clients: Whether ids of clients serve, so that they are in force there with their messages.
    """

    def __init__(self, address: str, remote: RemoteBroker, node: bytes, *, uses_ids_of_clients: bool) -> None:
        self._address = address
        self._remote = remote
        self._node = node
        self._uses_ids_of_clients = uses_ids_of_clients
        self._ids: dict[Queue, int] = {}

    def prepare(self, queue: Queue) -> Work[None]:
        """Find out the id of the queue there, which is created unless it exists."""
        self._ids[queue] = yield from self._remote.queue_id(queue.definition)

    def copy(self, message: Message, queues: list[Queue]) -> CoreMessage:
        """Return a copy with the queues it is for, and with an id for duplicate detection.

        The id is the same each time the message is sent for these queues. The id of a client serves in place of it only
        if no other queue may have the message, and the queue no other message with this id, which came by a move. A
        broker of this project does not check it: a message that moves on over brokers may come back.
        """
        original = message.to_core()
        assert isinstance(original, CoreMessage), original
        queue_ids = b"".join([self._ids[queue].to_bytes(8, "big", signed=True) for queue in queues])
        copy = original.with_bytes_behind(self._address, ROUTE_TO, queue_ids)
        if self._uses_ids_of_clients and original.duplicate_id is not None and original.property(_ORIGIN) is None:
            return copy
        of_queues = min([queue.id for queue in queues]).to_bytes(8, "big")
        duplicate_id = self._node + message.message_id.to_bytes(8, "big") + of_queues
        return copy.with_bytes_behind(self._address, _BRIDGE_DUPLICATE_ID, duplicate_id)


class AddressMove:
    """The move of one address.

    Args:
        kernel: Kernel of this broker.
        queues: Queues of the address whose messages move.
        composer: Makes the copies.
        remote: The other broker.
        route: Settings of the move.
        counts: Grows with each message.
    """

    def __init__(
        self,
        kernel: Kernel,
        queues: list[Queue],
        composer: Composer,
        remote: RemoteBroker,
        route: Route,
        counts: MoveCounts,
    ) -> None:
        self._kernel = kernel
        self._queues = queues
        self._composer = composer
        self._remote = remote
        self._route = route
        self._counts = counts
        # The first message of each queue that is not sent.
        self._heads: dict[Queue, Reference] = {}
        self._pending: dict[Call[None], tuple[Group, int]] = {}
        self._pending_bytes = 0
        self._confirmed: list[Group] = []
        # They return to their queues at the end: before, they would be in front again.
        self._kept: list[Group] = []
        self._refusal: str | None = None
        self._upload: BridgedUpload | None = None
        self._change: Call[None] = Call(None)

    def work(self) -> Work[None]:
        """Move all messages.

        Raises:
            JMSException: A queue cannot be created there.
        """
        for queue in self._queues:
            yield from self._release_scheduled(queue)
            yield from self._composer.prepare(queue)
        while self._refusal is None and (group := self._next_group()) is not None:
            yield from self._send(group)
            self._settle()
            while len(self._pending) >= _UNCONFIRMED_MAX or self._pending_bytes >= _UNCONFIRMED_BYTES_MAX:
                yield from self._wait()
            yield None
        while self._pending:
            yield from self._wait()
        self._settle(at_end=True)
        self._count_rest()
        self.give_back()

    def _wait(self) -> Work[None]:
        """Wait for a confirmation, or for room."""
        self._change = Call(None)
        yield self._change
        self._settle()

    # -- reading -------------------------------------------------------------------------------------------------

    def _release_scheduled(self, queue: Queue) -> Work[None]:
        """Put messages that are not due to their places. Those with a time of delivery have it there, too."""
        while queue.scheduled:
            for reference in queue.scheduled.take_due(_NEVER, _SCHEDULED_AT_ONCE):
                queue.backlog.give_back(reference)
            yield None

    def _next_group(self) -> Group | None:
        """Take the next message from its queues; return None without one."""
        heads = self._heads
        for queue in self._queues:
            if queue not in heads and queue.backlog.size:
                heads[queue] = queue.backlog.pop()
                queue.delivering_count += 1
        if not heads:
            return None
        first = min(heads.values(), key=lambda each: (-each.message.priority, each.position))
        message_id = first.message.message_id
        return [(queue, heads.pop(queue)) for queue in self._queues if self._is_at_front(queue, message_id)]

    def _is_at_front(self, queue: Queue, message_id: int) -> bool:
        head = self._heads.get(queue)
        return head is not None and head.message.message_id == message_id

    # -- sending -------------------------------------------------------------------------------------------------

    def _send(self, group: Group) -> Work[None]:
        message = group[0][1].message
        try:
            copy = self._composer.copy(message, [queue for queue, _reference in group])
            if isinstance(message, StoredMessage) and message.body_number:
                yield from self._send_large(group, message, copy)
                return
            call = self._remote.producer.send_confirmed(copy)
            if call.done and call.error is not None:
                raise call.error
        except (RemoteProtocolError, NotForwarded, JMSException) as error:
            self._keep(group, str(error))
            return
        self._expect(call, group)

    def _send_large(self, group: Group, message: StoredMessage, header: CoreMessage) -> Work[None]:
        upload = self._remote.producer.open_upload(header, confirmed=True)
        self._expect(upload.call, group)
        bridged = self._upload = BridgedUpload(self._kernel, message, upload, self._route.chunk_bytes, self)
        while True:
            bridged.advance()
            if bridged.is_over:
                break
            yield from self._wait()
        self._upload = None

    def _expect(self, call: Call[None], group: Group) -> None:
        size = group[0][1].message.encoded_size
        self._pending[call] = group, size
        self._pending_bytes += size
        call.when_done(lambda: self._on_done(call))

    def on_output(self) -> None:
        """Go on with a large message: its body was read, or there is room for more of it."""
        self._change.succeed(None)

    def on_unreadable(self, upload: BridgedUpload, reason: str) -> None:
        """Keep a large message whose body cannot be read."""
        upload.end()
        found = self._pending.pop(upload.call, None)
        if found is not None:
            self._pending_bytes -= found[1]
            self._keep(found[0], reason)
        upload.abort(reason)

    # -- confirmations -------------------------------------------------------------------------------------------

    def _on_done(self, call: Call[None]) -> None:
        found = self._pending.pop(call, None)
        if found is None:
            return
        group, size = found
        self._pending_bytes -= size
        if call.error is None:
            self._confirmed.append(group)
        elif call.error.error_code in _OF_THE_CONNECTION:
            # In doubt: it is sent again over the next connection.
            self._kept.append(group)
        else:
            # The other broker takes no more for this address: it is full, or something refuses the login.
            self._refusal = str(call.error)
            self._keep(group, self._refusal)
        self._change.succeed(None)

    def _settle(self, *, at_end: bool = False) -> None:
        """Remove what is confirmed, in transactions of the configured size."""
        interval = self._route.commit_interval
        # A larger transaction would be one long step.
        size = _COMMITTED_TOGETHER if interval < 1 else min(interval, _COMMITTED_MAX)
        confirmed = self._confirmed
        while len(confirmed) >= size or (confirmed and (at_end or interval < 1)):
            self._commit(confirmed[:size])
            del confirmed[:size]

    def _commit(self, groups: list[Group]) -> None:
        kernel = self._kernel
        transaction = kernel.transactions.begin()
        for group in groups:
            for queue, reference in group:
                transaction.take(queue, (reference,), Outcome.ACCEPTED)
                kernel.removal.leave(queue, (reference,), Leaving.ACKNOWLEDGED, transaction)
        transaction.commit()
        self._counts.moved += len(groups)

    # -- what stays ----------------------------------------------------------------------------------------------

    def _keep(self, group: Group, reason: str) -> None:
        if not self._counts.kept:
            name, message_id = group[0][0].name, group[0][1].message.message_id
            self._kernel.log(f"scale-down: message {message_id} stays in queue {name!r}: {reason}")
        self._counts.kept += 1
        self._counts.reason = reason
        self._kept.append(group)

    def _count_rest(self) -> None:
        if self._refusal is not None:
            self._counts.kept += sum(queue.backlog.size for queue in self._queues) + len(self._heads)

    def give_back(self) -> None:
        """Return what is not confirmed to its place. What is confirmed leaves."""
        self._settle(at_end=True)
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.end()
        pending = [group for group, _size in self._pending.values()]
        self._pending.clear()
        self._pending_bytes = 0
        for group in [*self._kept, *pending, list(self._heads.items())]:
            for queue, reference in group:
                queue.delivering_count -= 1
                queue.backlog.give_back(reference)
        self._kept.clear()
        self._heads.clear()
