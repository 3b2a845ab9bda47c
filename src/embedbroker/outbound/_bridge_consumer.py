"""The consumer of a bridge in the queue of this broker.

Responsible for what was taken and is not confirmed: confirmed messages are acknowledged, all others return to their
places. Also responsible for messages that cannot be forwarded. Does not depend on connections: a link sends.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from embedbroker.config import BridgeConfig
from embedbroker.kernel import (
    ALLOW_ALL,
    ByteCredit,
    Consumer,
    Kernel,
    Message,
    Outcome,
    Reference,
    Refused,
    Session,
    StoredMessage,
)
from embedclient.agent import CoreMessage, Receipt, Upload
from embedclient.errors import ErrorCode, JMSException

from ._bridged_message import Forwarding, NotForwarded
from ._bridged_upload import BridgedUpload

__all__ = ["BridgeConsumer", "ConsumerOwner", "Sender"]

_KEY: Final = 1
# Messages that stay are logged once each, up to this number.
_LOGGED_MAX: Final = 10_000
_FULL_THERE: Final = (
    " at the other broker, and nothing passes the message: consume from the queues of that address there, or raise its"
    " max_size_bytes"
)


class Sender(Protocol):
    """Send messages to the other broker. ``failure`` is set once it cannot."""

    failure: str | None

    def send(self, message: CoreMessage, receipt: Receipt) -> None:
        """Send a message. The receipt gets the outcome.

        Raises:
            JMSException: It cannot be sent; the receipt gets nothing.
        """

    def open_upload(self, header: CoreMessage) -> Upload:
        """Begin a large message.

        Raises:
            JMSException: Its headers are too long, or the connection is over.
        """

    def fail(self, reason: str) -> None:
        """Give the connection up."""


class ConsumerOwner(Protocol):
    """The owner of a consumer."""

    def on_output(self) -> None:
        """Note that `BridgeConsumer.advance` must be called in this step."""

    def on_confirmed(self) -> None:
        """Note that messages were confirmed."""

    def on_queue_gone(self) -> None:
        """Handle the deletion of the queue."""


class _Sent:
    """A message that was sent and is not acknowledged: its receipt."""

    __slots__ = ("_consumer", "message_id", "size")

    def __init__(self, consumer: BridgeConsumer, message_id: int, size: int) -> None:
        self._consumer = consumer
        self.message_id = message_id
        self.size = size

    def succeed(self, result: None, /) -> None:
        # Settled with all others that the other broker confirms in the same step.
        self._consumer.confirmed.append(self)

    def fail(self, error: JMSException, /) -> None:
        self._consumer.on_failed(self, error)


class BridgeConsumer:
    """One for each bridge, attached to the queue while there is a connection."""

    def __init__(self, kernel: Kernel, config: BridgeConfig, forwarding: Forwarding, owner: ConsumerOwner) -> None:
        self.acknowledged_count = 0
        #: Sends that are not acknowledged, by the id of their message.
        self.pending: dict[int, _Sent] = {}
        #: Those among them that are confirmed, in the order of the answers.
        self.confirmed: list[_Sent] = []
        self._kernel = kernel
        self._config = config
        self._forwarding = forwarding
        self._owner = owner
        self._sender: Sender | None = None
        self._consumer: Consumer | None = None
        self._refused: list[tuple[int, str, Outcome]] = []
        # Large messages in the order of their deliveries: the first one is on its way.
        self._uploads: deque[BridgedUpload] = deque()
        self._logged: set[int] = set()
        self._session = Session(
            kernel,
            f"bridge.{config.name}",
            auto_commit_sends=True,
            auto_commit_acknowledges=True,
            pre_acknowledge=False,
            authority=ALLOW_ALL,
        )

    def attach(self, sender: Sender) -> Refused | None:
        """Take messages and send them; return why that is not possible."""
        self._sender = sender
        self._session.start()
        consumer = self._session.create_consumer(
            _KEY, self._config.queue, self._config.filter, self, browse=False, priority=0, credit=ByteCredit()
        )
        if isinstance(consumer, Refused):
            return consumer
        self._consumer = consumer
        consumer.add_credit(self._config.confirmation_window_size)
        return None

    def stop(self) -> None:
        """Take nothing more. What was sent may still be confirmed."""
        self._session.stop()

    def detach(self) -> None:
        """Take nothing more, and return what is not confirmed to its place in the queue."""
        self.settle_confirmed()
        self._forget()
        self._sender = None
        self._session.close_consumer(_KEY)

    def _forget(self) -> None:
        self.pending.clear()
        self.confirmed.clear()
        self._refused.clear()
        self._consumer = None
        for upload in self._uploads:
            upload.end()
        self._uploads.clear()

    # -- deliveries of the queue ---------------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        """Send one message, and return its size."""
        message, sender = reference.message, self._sender
        if sender is None or sender.failure is not None:
            # `detach` returns it with the others.
            return 0
        message_id, size = message.message_id, message.encoded_size
        sent = self.pending[message_id] = _Sent(self, message_id, size)
        try:
            if message.body_number:
                self._begin_upload(sender, message, sent)
            else:
                sender.send(self._forwarding.forwarded(message), sent)
        except (NotForwarded, JMSException) as reason:
            del self.pending[message_id]
            # Settled after the delivery, which is under way.
            self._refused.append((message_id, str(reason), self._forwarding.left_behind))
            self._owner.on_output()
            return 0
        return size

    def _begin_upload(self, sender: Sender, message: Message, sent: _Sent) -> None:
        """Begin to send a large message.

        Raises:
            NotForwarded, JMSException: It cannot be sent.
        """
        assert isinstance(message, StoredMessage)
        upload = sender.open_upload(self._forwarding.forwarded(message))
        chunk_bytes = self._config.min_large_message_size
        self._uploads.append(BridgedUpload(self._kernel, message, upload, chunk_bytes, self))
        call = upload.call
        call.when_done(lambda: sent.succeed(None) if call.error is None else sent.fail(call.error))

    def deliver_behind(self, point: int, consumer: Consumer, reference: Reference) -> int:
        """Send one message: its count of deliveries means nothing to a bridge, and need not be on disk before."""
        return self.deliver(consumer, reference)

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        """Do nothing: a bridge requests no markers."""

    def closed_by_broker(self, consumer: Consumer) -> None:
        """Forget the consumer: its queue is deleted."""
        self._forget()
        self._owner.on_queue_gone()

    # -- large messages ------------------------------------------------------------------------------------------

    def on_output(self) -> None:
        """Let the node call `advance` in this step."""
        self._owner.on_output()

    def on_unreadable(self, upload: BridgedUpload, reason: str) -> None:
        """Leave a message in the queue whose body cannot be sent."""
        upload.end()
        found = self.pending.pop(upload.message_id, None)
        if found is not None and self._consumer is not None:
            # An error of the disk may pass: it removes no message, as no other consumer loses one by it.
            outcome = self._forwarding.left_behind if upload.is_damaged else Outcome.UNDELIVERABLE_HERE
            self._refused.append((upload.message_id, reason, outcome))
            self._consumer.add_credit(found.size)
        upload.abort(reason)

    # -- confirmations -------------------------------------------------------------------------------------------

    def on_failed(self, sent: _Sent, error: JMSException) -> None:
        """Give the connection up: a message was refused. Ignored after `detach`: it is back in the queue."""
        if self.pending.get(sent.message_id) is not sent or self._sender is None:
            return
        del self.pending[sent.message_id]
        hint = _FULL_THERE if error.error_code == ErrorCode.ADDRESS_FULL else ""
        self._sender.fail(f"message {sent.message_id} was not sent: {error}{hint}")

    def settle_confirmed(self) -> None:
        """Acknowledge what the other broker has confirmed since the last call."""
        if not self.confirmed:
            return
        confirmed, self.confirmed = self.confirmed, []
        pending, consumer = self.pending, self._consumer
        if consumer is None:
            return
        message_ids: list[int] = []
        size = 0
        for sent in confirmed:
            # Not of a connection before: such a message is back in the queue.
            if pending.get(sent.message_id) is sent:
                del pending[sent.message_id]
                message_ids.append(sent.message_id)
                size += sent.size
        if message_ids:
            self._session.settle_run(_KEY, message_ids, through=False)
            self.acknowledged_count += len(message_ids)
            consumer.add_credit(size)
            self._owner.on_confirmed()

    def advance(self) -> None:
        """Go on with large messages. Settle what was confirmed, and messages that cannot be forwarded."""
        self.settle_confirmed()
        uploads = self._uploads
        while uploads:
            uploads[0].advance()
            if not uploads or not uploads[0].is_over:
                break
            uploads.popleft()
        refused, self._refused = self._refused, []
        for message_id, reason, outcome in refused:
            self._session.settle(_KEY, message_id, outcome)
            if message_id not in self._logged and len(self._logged) < _LOGGED_MAX:
                self._logged.add(message_id)
                self._kernel.log(self._line_for(message_id, reason, outcome))

    def _line_for(self, message_id: int, reason: str, outcome: Outcome) -> str:
        name, queue = self._config.name, self._config.queue
        if outcome.leaves:
            return f"bridge {name!r} removes message {message_id} from queue {queue!r}: {reason}"
        return f"bridge {name!r} leaves message {message_id} in queue {queue!r}: {reason}"
