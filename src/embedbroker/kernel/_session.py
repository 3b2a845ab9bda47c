"""One client session as the broker sees it: its consumers, its transaction, its settlements.

Responsible for acknowledge rules (cumulative, individual, transacted), commit, rollback and close. Refuses to know
packets; a protocol translates them into these calls and their results into replies.
"""

from __future__ import annotations

from collections.abc import Sequence

from embedclient.errors import ErrorCode
from embedclient.model import Message, Xid

from ._audit_trail import ObservedDelivery
from ._deferred import AT_ONCE_MAX
from ._kernel import Kernel
from ._memory import Reservation
from ._refusal import Refused
from .addressing._addresses import split_fqqn
from .queueing._backlog import Reference
from .queueing._backpressure import Backpressure
from .queueing._consumer import Consumer, ConsumerPort
from .queueing._credit import ByteCredit, Credit
from .queueing._deliveries import Bundle
from .queueing._queue import Queue
from .settling._delivery_count import PersistedDeliveryCount
from .settling._outcome import Outcome
from .transactions._transaction import Transaction, TransactionState
from .xa._branch import Branch

__all__ = ["Session"]

_ACCEPTED, _EXPIRED = Outcome.ACCEPTED, Outcome.EXPIRED


class Session:
    """One session. ``auto_commit_sends`` and ``auto_commit_acknowledges`` say what bypasses the transaction."""

    __slots__ = (
        "_commits_outside",
        "auto_commit_acknowledges",
        "auto_commit_sends",
        "backpressure",
        "branch",
        "closed",
        "consumers",
        "kernel",
        "left_xid",
        "name",
        "pre_acknowledge",
        "reservation",
        "started",
        "transaction",
        "unfinished",
        "xa_timeout",
    )

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        *,
        auto_commit_sends: bool,
        auto_commit_acknowledges: bool,
        pre_acknowledge: bool,
        backpressure: Backpressure | None = None,
    ) -> None:
        self.kernel = kernel
        self.name = name
        self.auto_commit_sends = auto_commit_sends
        self.auto_commit_acknowledges = auto_commit_acknowledges
        self.pre_acknowledge = pre_acknowledge
        self.started = False
        self.closed = False
        # What its connection stops all its consumers with.
        self.backpressure = backpressure if backpressure is not None else kernel.make_backpressure()
        self.consumers: dict[int, Consumer] = {}
        # What it does now, for itself or in a branch.
        self.transaction: Transaction | None = None
        self.branch: Branch | None = None
        self._commits_outside = auto_commit_sends, auto_commit_acknowledges
        # The branch it worked in last.
        self.left_xid: Xid | None = None
        # Seconds for its branches; None is the broker's time-out.
        self.xa_timeout: int | None = None
        # Large requests that are still being carried out: what is answered now promises less than it seems to.
        self.unfinished = 0
        # Room for what its producers were granted credit for.
        self.reservation = Reservation(kernel.memory)

    def enter(self, branch: Branch, transaction: Transaction) -> None:
        """From now on, everything belongs to a branch."""
        self.branch, self.transaction = branch, transaction
        self._commits_outside = self.auto_commit_sends, self.auto_commit_acknowledges
        self.auto_commit_sends = self.auto_commit_acknowledges = False

    def leave(self) -> Transaction:
        """From now on, nothing belongs to a branch; returns what gathered what did."""
        transaction = self.transaction
        assert self.branch is not None and transaction is not None
        self.branch = self.transaction = None
        self.auto_commit_sends, self.auto_commit_acknowledges = self._commits_outside
        return transaction

    def _current(self) -> Transaction:
        transaction = self.transaction
        if transaction is None:
            transaction = self.transaction = self.kernel.begin()
        return transaction

    # -- sending -------------------------------------------------------------------------------------------------

    def send(self, message: Message, routing_type: int | None, duplicate_id: bytes | None = None) -> Refused | None:
        """Send one message, inside the transaction unless sends commit by themselves."""
        memory = self.kernel.memory
        if memory.used_bytes >= memory.limit_bytes:
            refused = self.reservation.take(message.address, len(message.raw))
            if refused is not None:
                self.fail_transaction(refused.text)
                return refused
        transaction = None if self.auto_commit_sends else self._current()
        return self.kernel.send(message, routing_type, transaction, duplicate_id)

    # -- consumers -----------------------------------------------------------------------------------------------

    def create_consumer(
        self,
        key: int,
        queue_name: str,
        filter_text: str | None,
        port: ConsumerPort,
        *,
        browse: bool,
        priority: int,
        credit: Credit | None = None,
    ) -> Consumer | Refused:
        """Attach a consumer or a browser to a queue. A key that is in use is replaced by the new consumer.

        Without a ``credit``, it is of bytes.
        """
        _address, qualified = split_fqqn(queue_name)
        name = qualified if qualified is not None else queue_name
        queue = self.kernel.address_manager.queues.get(name)
        if queue is None:
            return Refused(ErrorCode.QUEUE_DOES_NOT_EXIST, f"queue {name!r} does not exist")
        selector = self.kernel.address_manager.selector(filter_text)
        if isinstance(selector, Refused):
            return selector
        limit = queue.definition.max_consumers
        if not browse and limit != -1 and queue.consumer_count >= limit:
            return Refused(
                ErrorCode.MAX_CONSUMER_LIMIT_EXCEEDED, f"queue {name!r} has its maximum of {limit} consumers"
            )
        replaced = self.consumers.get(key)
        limit = self.kernel.config.consumers_per_session_max
        if replaced is None and len(self.consumers) >= limit:
            return Refused(
                ErrorCode.MAX_CONSUMER_LIMIT_EXCEEDED, f"the session has {limit} consumers, consumers_per_session_max"
            )
        refused = None if browse else self.kernel.cursors.give_way(queue)
        if refused is not None:
            return refused
        credit = credit if credit is not None else ByteCredit()
        if self.kernel.config.persist_delivery_count_before_delivery and queue.durable and not browse:
            # Of a message that is acknowledged by being delivered, too: a crash may come before that is on disk.
            port = PersistedDeliveryCount(port, self.kernel.store)
        if self.kernel.audit is not None and not browse:
            port = ObservedDelivery(port, self.kernel)
        consumer = Consumer(key, queue, port, selector, self.backpressure, credit, browse=browse, priority=priority)
        consumer.session = self.name
        consumer.pre_acknowledge = self.pre_acknowledge and not browse
        consumer.started = browse or self.started
        self.consumers[key] = consumer
        queue.add_consumer(consumer)
        if replaced is not None:
            # Not before the new one is there: a queue may live as long as it has a consumer.
            self.kernel.detach(replaced, Outcome.RELEASED)
        return consumer

    def close_consumer(self, key: int) -> None:
        """Detach a consumer; what it had not settled returns as if never delivered. Unknown keys are ignored."""
        consumer = self.consumers.pop(key, None)
        if consumer is not None and not consumer.closed:
            self.kernel.detach(consumer, Outcome.RELEASED)

    def start(self) -> None:
        """Let messages flow."""
        self.started = True
        for consumer in self.consumers.values():
            consumer.started = True
            consumer.queue.consumer_ready(consumer)

    def stop(self) -> None:
        """Hold deliveries back; browsers go on."""
        self.started = False
        for consumer in self.consumers.values():
            consumer.started = consumer.browse

    def move(self, backpressure: Backpressure) -> None:
        """The session goes on over another connection."""
        self.backpressure = backpressure
        for consumer in self.consumers.values():
            consumer.backpressure.forget(consumer)
            consumer.backpressure = backpressure
            consumer.queue.consumer_ready(consumer)

    # -- settling ------------------------------------------------------------------------------------------------

    def settle(
        self, key: int, message_id: int, outcome: Outcome = Outcome.ACCEPTED, *, through: bool = False
    ) -> Refused | None:
        """Say what became of a message that a consumer was given; ``through`` it: of everything given before, too.

        That belongs to the transaction unless acknowledgements commit by themselves. What a client found expired never
        does, as in Artemis: no rollback makes it fresh.
        """
        transacted = not (self.auto_commit_acknowledges or outcome is _EXPIRED)
        consumer = self.consumers.get(key)
        if consumer is None:
            return self._no_consumer(key, transacted)
        unsettled = consumer.unsettled
        oldest = unsettled.oldest
        if message_id not in oldest and message_id not in unsettled:
            return self._unknown(consumer, message_id, transacted)
        kernel, queue = self.kernel, consumer.queue
        transaction = self._current() if transacted else None
        if not through:
            kernel.settle(queue, (unsettled.pop(message_id),), outcome, transaction, consumer)
            return None
        current, reference = oldest.popitem(last=False)
        if current == message_id:
            if not oldest:
                unsettled.trim()
            kernel.settle(queue, (reference,), outcome, transaction, consumer)
            return None
        taken = [reference]
        while oldest and current != message_id and len(taken) < AT_ONCE_MAX:
            current, reference = oldest.popitem(last=False)
            taken.append(reference)
        unsettled.trim()
        kernel.settle(queue, taken, outcome, transaction, consumer)
        if current != message_id:
            # A large one is put off: what is asked for behind it has to wait for it.
            self.unfinished += 1
            rest = unsettled.take_through(message_id)
            kernel.settle(queue, rest, outcome, transaction, consumer, finished=self._finish)
        return None

    def settle_run(self, key: int, message_ids: Sequence[int]) -> list[Refused]:
        """Accept everything through each of these messages in turn; return why any of that was refused.

        It is what as many calls of `settle` do. Mostly each message is the oldest that is left: those are settled by
        one call, which spares 8 % of the instructions of a message (42 in a read).
        """
        consumer = self.consumers.get(key)
        refusals: list[Refused] = []
        taken: list[Reference] = []
        for message_id in message_ids:
            if consumer is not None and len(taken) < AT_ONCE_MAX:
                oldest = consumer.unsettled.oldest
                if next(iter(oldest), None) == message_id:
                    taken.append(oldest.popitem(last=False)[1])
                    if not oldest:
                        consumer.unsettled.trim()
                    continue
            if consumer is not None and taken:
                self._accept(consumer, taken)
                taken = []
            refused = self.settle(key, message_id, through=True)
            if refused is not None:
                refusals.append(refused)
        if consumer is not None and taken:
            self._accept(consumer, taken)
        return refusals

    def _accept(self, consumer: Consumer, taken: list[Reference]) -> None:
        transaction = None if self.auto_commit_acknowledges else self._current()
        self.kernel.settle(consumer.queue, taken, _ACCEPTED, transaction, consumer)

    def _finish(self) -> None:
        self.unfinished -= 1

    def _no_consumer(self, key: int, transacted: bool) -> Refused:
        """What it was given is back in its queue: a transaction that counts on it must not commit."""
        text = f"session {self.name} has no consumer {key}"
        if transacted:
            self._current().fail(text)
        return Refused(ErrorCode.ILLEGAL_STATE, text)

    def _unknown(self, consumer: Consumer, message_id: int, transacted: bool) -> Refused | None:
        if consumer.browse or consumer.pre_acknowledge:
            return None
        text = (
            f"consumer {consumer.key} of queue {consumer.queue.name!r} was not given message {message_id}, "
            "or settled it before"
        )
        if transacted:
            self._current().fail(text)
        return Refused(ErrorCode.ILLEGAL_STATE, text)

    # -- transactions --------------------------------------------------------------------------------------------

    def commit(self) -> Refused | None:
        """Commit what was done since the last decision; a rollback-only transaction is rolled back and says why."""
        if self.branch is not None:
            return Refused(ErrorCode.ILLEGAL_STATE, "the session works in an XA branch, which is not its to commit")
        transaction, self.transaction = self.transaction, None
        if transaction is None:
            return None
        self.kernel.duplicates.hold(transaction)
        if transaction.state is TransactionState.ROLLBACK_ONLY:
            self.kernel.rollback(transaction)
            return Refused(transaction.failure_code, f"the transaction was rolled back: {transaction.failure}")
        if self.unfinished:
            # Behind the acknowledgements it commits, and behind the commits that were made to wait before it.
            self.unfinished += 1
            self.kernel.deferred.add_action(lambda: self._commit(transaction))
        else:
            self.kernel.commit(transaction)
        return None

    def _commit(self, transaction: Transaction) -> None:
        self.kernel.commit(transaction)
        self.unfinished -= 1

    def fail_transaction(self, reason: str) -> None:
        """Make the current transaction rollback-only; nothing happens where sends commit by themselves."""
        if not self.auto_commit_sends:
            self._current().fail(reason)

    def rollback(self, *, last_delivered: bool) -> None:
        """Undo the transaction and take back what consumers hold.

        Messages that were only prefetched lose the delivery count they got; with ``last_delivered`` the first unsettled
        message of each consumer keeps it (a listener failed on it, or the application recovers the session).
        """
        self.return_held(last_delivered=last_delivered)
        if self.branch is not None:
            self.kernel.branches.undo_work(self)
        transaction, self.transaction = self.transaction, None
        if transaction is not None:
            self.kernel.rollback(transaction)

    def return_held(self, *, last_delivered: bool = False) -> None:
        """Take back what consumers hold; see `rollback`."""
        held: list[tuple[Queue, tuple[Reference, ...], Bundle]] = []
        for consumer in self.consumers.values():
            unsettled, first = consumer.unsettled, tuple[Reference, ...]()
            if last_delivered and unsettled.oldest:
                first = (unsettled.oldest.popitem(last=False)[1],)
                unsettled.trim()
            held.append((consumer.queue, first, unsettled.take_all()))
        for queue, first, rest in held:
            self.kernel.settle(queue, first, Outcome.FAILED)
            self.kernel.settle(queue, rest, Outcome.RELEASED)

    def close(self, *, failed: bool) -> None:
        """End the session. After a lost connection (``failed``) deliveries stay counted."""
        if self.closed:
            return
        self.closed = True
        for consumer in list(self.consumers.values()):
            if not consumer.closed:
                self.kernel.detach(consumer, Outcome.FAILED if failed else Outcome.RELEASED)
        self.consumers.clear()
        self.kernel.branches.on_closed(self, failed=failed)
        transaction, self.transaction = self.transaction, None
        if transaction is not None:
            self.kernel.rollback(transaction)
        self.reservation.give_up()

    def unsettled(self) -> list[Reference]:
        """Everything consumers hold, for inspection."""
        return [reference for consumer in self.consumers.values() for reference in consumer.unsettled.values()]
