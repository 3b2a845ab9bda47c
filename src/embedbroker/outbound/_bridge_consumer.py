"""The consumer of a bridge in the queue of this broker.

Responsible for what was taken and is not confirmed: confirmed messages are acknowledged, all others return to their
places. Also responsible for messages that cannot be forwarded. Does not depend on connections: a link sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
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
# Copies that are made before any of them leaves, and messages that leave in one step: about 5 ms.
_RUN_MAX: Final = 64
STEP_MAX: Final = 1_024
_FULL_THERE: Final = (
    " at the other broker, and nothing passes the message: consume from the queues of that address there, or raise its"
    " max_size_bytes"
)
# A broker that syncs its disk slowly confirms all that came meanwhile at once.
_SETTLED_MAX: Final = 512
# A wait for room at the other broker is worth a line after this time, and the next line after some more.
_WAIT_LOGGED_AFTER_S: Final = 10.0
_WAIT_LOGGED_AGAIN_S: Final = 600.0


class Sender(Protocol):
    """Send messages to the other broker. ``failure`` is set once it cannot."""

    failure: str | None

    @property
    def is_clear(self) -> bool:
        """Return True if nothing waits in front of a message that is sent now."""

    def send_run(self, address: str, messages: Sequence[bytes | bytearray], receipts: Sequence[Receipt]) -> int:
        """Send the first of these messages to an address, as many as may leave now; return how many.

        The receipts of those get the outcomes. The others may leave when something has arrived, or an upload is over.

        Raises:
            JMSException: The first one cannot be sent; its receipt gets nothing.
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
        # Messages that were taken and have not left, and the copies of the first of them, with their receipts.
        self._taken: deque[tuple[Message, _Sent]] = deque()
        self._copies: list[bytes | bytearray] = []
        self._address = ""
        self._receipts: list[_Sent] = []
        # Large messages in the order of their deliveries: the first one is on its way.
        self._uploads: deque[BridgedUpload] = deque()
        self._logged: set[int] = set()
        # Since when messages wait for room at the other broker, and from when on that may be logged.
        self._waits_since: float | None = None
        self._wait_line_due = 0.0
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
        if consumer.port is self:
            # No observer looks at each delivery.
            consumer.run_port = self
        consumer.add_credit(self._config.confirmation_window_size)
        return None

    def stop(self) -> None:
        """Take nothing more. What was sent may still be confirmed."""
        self._session.stop()

    def detach(self) -> None:
        """Take nothing more, and return what is not confirmed to its place in the queue."""
        while self.confirmed:
            self.settle_confirmed()
        self._forget()
        self._sender = None
        self._session.close_consumer(_KEY)

    def _forget(self) -> None:
        self.pending.clear()
        self.confirmed.clear()
        self._refused.clear()
        self._taken.clear()
        self._copies, self._receipts = [], []
        self._consumer = self._waits_since = None
        for upload in self._uploads:
            upload.end()
        self._uploads.clear()

    # -- deliveries of the queue ---------------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        """Take one message, and return its size. It is sent in this step, or when the other broker has room."""
        sender = self._sender
        if sender is None or sender.failure is not None:
            # `detach` returns it with the others.
            return 0
        message = reference.message
        message_id, size = message.message_id, message.encoded_size
        sent = self.pending[message_id] = _Sent(self, message_id, size)
        if not self._taken:
            self._owner.on_output()
        self._taken.append((message, sent))
        return size

    def deliver_run(self, references: Sequence[Reference]) -> int:
        """Take messages as `deliver` does, and return the size of all."""
        sender, pending, taken = self._sender, self.pending, self._taken
        if sender is None or sender.failure is not None:
            return 0
        if not taken:
            self._owner.on_output()
        cost = 0
        for reference in references:
            message = reference.message
            message_id, size = message.message_id, message.encoded_size
            sent = pending[message_id] = _Sent(self, message_id, size)
            taken.append((message, sent))
            cost += size
        return cost

    def _send_taken(self) -> None:
        """Send what was taken, as much as may leave now; what is left of a lot leaves in the next steps."""
        taken, left = self._taken, STEP_MAX
        while (sender := self._sender) is not None and sender.failure is None:
            if not self._copies:
                if not taken:
                    return
                if taken[0][0].body_number:
                    if not sender.is_clear:
                        return
                    self._begin_upload(sender, *taken.popleft())
                    continue
                self._copy_run()
                continue
            try:
                count = sender.send_run(self._address, self._copies, self._receipts)
            except JMSException as reason:
                self._refuse(self._receipts[0], reason)
                count = 1
            if not count and self._copies:
                self._note_wait()
                return
            self._waits_since = None
            del self._copies[:count], self._receipts[:count]
            left -= count
            if left <= 0:
                self._owner.on_output()
                return

    def _note_wait(self) -> None:
        """Log a long wait for room. At the latest the next ping brings a call here."""
        now, since = self._kernel.monotonic, self._waits_since
        if since is None:
            self._waits_since = now
        elif now - since >= _WAIT_LOGGED_AFTER_S and now >= self._wait_line_due and not self._uploads:
            self._wait_line_due = now + _WAIT_LOGGED_AGAIN_S
            self._kernel.log(
                f"bridge {self._config.name!r} waits, because address {self._address!r} has no room{_FULL_THERE}"
            )

    def _copy_run(self) -> None:
        """Make the copies of the first messages that were taken: those to one address, without a large body."""
        taken, encoded = self._taken, self._forwarding.encoded
        copies, receipts = self._copies, self._receipts
        while taken and len(copies) < _RUN_MAX:
            message, sent = taken[0]
            if message.body_number:
                return
            try:
                address, copy = encoded(message)
            except NotForwarded as reason:
                taken.popleft()
                self._refuse(sent, reason)
                continue
            if address != self._address:
                if copies:
                    return
                self._address = address
            taken.popleft()
            copies.append(copy)
            receipts.append(sent)

    def _refuse(self, sent: _Sent, reason: Exception) -> None:
        """Settle a message that cannot be forwarded, later in this call of `advance`."""
        if self.pending.pop(sent.message_id, None) is not None and self._consumer is not None:
            self._refused.append((sent.message_id, str(reason), self._forwarding.left_behind))
            self._consumer.add_credit(sent.size)

    def _begin_upload(self, sender: Sender, message: Message, sent: _Sent) -> None:
        """Begin to send a large message."""
        assert isinstance(message, StoredMessage)
        try:
            upload = sender.open_upload(self._forwarding.forwarded(message))
        except (NotForwarded, JMSException) as reason:
            self._refuse(sent, reason)
            return
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
        """Acknowledge what the other broker has confirmed, as much as a step may take; `advance` does the rest."""
        if not self.confirmed:
            return
        confirmed, self.confirmed = self.confirmed, []
        if len(confirmed) > _SETTLED_MAX:
            self.confirmed = confirmed[_SETTLED_MAX:]
            del confirmed[_SETTLED_MAX:]
            self._owner.on_output()
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
        if self.confirmed:
            self.settle_confirmed()
        if self._uploads:
            self._advance_uploads()
        if self._taken or self._copies:
            self._send_taken()
            self._advance_uploads()
        if not self._refused:
            return
        refused, self._refused = self._refused, []
        for message_id, reason, outcome in refused:
            self._session.settle(_KEY, message_id, outcome)
            if message_id not in self._logged and len(self._logged) < _LOGGED_MAX:
                self._logged.add(message_id)
                self._kernel.log(self._line_for(message_id, reason, outcome))

    def _advance_uploads(self) -> None:
        uploads = self._uploads
        while uploads:
            uploads[0].advance()
            if not uploads or not uploads[0].is_over:
                break
            uploads.popleft()

    def _line_for(self, message_id: int, reason: str, outcome: Outcome) -> str:
        name, queue = self._config.name, self._config.queue
        if outcome.leaves:
            return f"bridge {name!r} removes message {message_id} from queue {queue!r}: {reason}"
        return f"bridge {name!r} leaves message {message_id} in queue {queue!r}: {reason}"
