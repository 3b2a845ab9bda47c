"""The only door to the kernel for clients: each verb of a client is a method of its session, or of a part of it.

Responsible for the permission that each verb requires, for acknowledge rules (cumulative, individual, transacted),
commit, rollback and close. Does not depend on packets: a protocol translates them into these calls and their results
into replies.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from embedclient.errors import ErrorCode
from embedclient.model import Xid

from ._authority import ANONYMOUS, Access, Authority, Permission, Principal
from ._client_view import ClientConnection
from ._deferred import AT_ONCE_MAX
from ._kernel import Kernel
from ._memory import MESSAGE_OVERHEAD_BYTES, Reservation
from ._refusal import Refused
from ._session_addresses import SessionAddresses
from .addressing._addresses import split_fqqn
from .addressing._internal_bindings import InternalBinding
from .cursors._cursors import Cursors
from .message._message import Message
from .queueing._backlog import Reference
from .queueing._backpressure import Backpressure
from .queueing._credit import ByteCredit, Credit
from .queueing._deliveries import Bundle
from .queueing._first_in_group import FirstInGroup
from .queueing._observed_delivery import ObservedDelivery
from .queueing._queue import Consumer, ConsumerPort, Queue
from .settling._delivery_count import PersistedDeliveryCount
from .settling._outcome import Outcome
from .transactions._transaction import Transaction
from .xa._branch import Branch
from .xa._commit_set import CommitSets
from .xa._fencing_token import FencingTokens
from .xa._xa_resource import XaResource

__all__ = ["Session"]

_ACCEPTED, _EXPIRED = Outcome.ACCEPTED, Outcome.EXPIRED
# Address on which permissions for fencing tokens are granted, below Artemis' prefix for management operations.
_FENCING_TOKENS = "mops.fencing-tokens"
# Addresses that a session may send to are remembered up to this number and length.
_ADMITTED_MAX = 256
_ADMITTED_NAME_MAX = 1024
_ALL_QUEUES: frozenset[int] = frozenset()


class Session:
    """Carry out the verbs of one client session.

    Verbs check the permission of ``principal`` first. Acknowledgements, transactions, XA branches and queries require
    none, as in Artemis.

    Args:
        kernel: Kernel of the broker.
        name: Name of the session.
        auto_commit_sends: Whether sends bypass the transaction.
        auto_commit_acknowledges: Whether acknowledgements bypass the transaction.
        pre_acknowledge: Whether a delivery acknowledges its message.
        backpressure: Valve shared by the consumers of one connection; None creates one.
        principal: User of the session.
        connection: Connection of the client; None for a session of the broker itself.
        user: User that the client named; None for none.
        authority: Decides the permissions; None is that of the kernel.
    """

    __slots__ = (
        "_access",
        "_admitted",
        "_branches",
        "_commits_outside",
        "_internal",
        "_memory",
        "_router",
        "_settlement",
        "_teardown",
        "addresses",
        "auto_commit_acknowledges",
        "auto_commit_sends",
        "backpressure",
        "branch",
        "closed",
        "connection",
        "consumers",
        "created_ms",
        "kernel",
        "left_xid",
        "metadata",
        "name",
        "pre_acknowledge",
        "producers",
        "reservation",
        "started",
        "transaction",
        "unfinished",
        "user",
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
        principal: Principal = ANONYMOUS,
        connection: ClientConnection | None = None,
        user: str | None = None,
        authority: Authority | None = None,
    ) -> None:
        self.kernel = kernel
        self.name = name
        self._memory = kernel.memory
        self._router = kernel.router
        self._settlement = kernel.settlement
        self._teardown = kernel.teardown
        self._branches = kernel.branches
        self._access = Access(principal, kernel.authority if authority is None else authority, kernel.observers)
        self.addresses = SessionAddresses(
            self._access, kernel.address_manager, kernel.teardown, kernel.diverts, kernel.cursors, kernel.memory,
            kernel.duplicates,
        )  # fmt: skip
        self.connection = connection
        self.user = user
        self.created_ms = kernel.now_ms
        # What the client attached to the session, for the operator.
        self.metadata: dict[str, str] = {}
        # Addresses that it may send to, and that are no internal bindings.
        self._admitted: set[str] = set()
        self._internal = kernel.address_manager.internal
        self.auto_commit_sends = auto_commit_sends
        self.auto_commit_acknowledges = auto_commit_acknowledges
        self.pre_acknowledge = pre_acknowledge
        self.started = False
        self.closed = False
        # The valve with which its connection stops all its consumers.
        self.backpressure = backpressure if backpressure is not None else kernel.schedule.make_backpressure()
        self.consumers: dict[int, Consumer] = {}
        # Producers that the client announced, by number: the address, None for any, and the time. For management only.
        self.producers: dict[int, tuple[str | None, int]] = {}
        # Its current transaction, local or of a branch.
        self.transaction: Transaction | None = None
        self.branch: Branch | None = None
        self._commits_outside = auto_commit_sends, auto_commit_acknowledges
        # The branch it worked in last.
        self.left_xid: Xid | None = None
        # Seconds for its branches; None is the broker's time-out.
        self.xa_timeout: int | None = None
        # Large requests that are still being carried out: an answer sent now promises less than it appears to.
        self.unfinished = 0
        # Room for the credit that its producers were granted.
        self.reservation = Reservation(kernel.memory)
        kernel.clients.add_session(self)

    def has_taken_from(self, queue: Hashable) -> bool:
        return self.transaction is not None and queue in self.transaction.taken_from

    def enter(self, branch: Branch, transaction: Transaction) -> None:
        """Assign all work to a branch from now on."""
        self.branch, self.transaction = branch, transaction
        self._commits_outside = self.auto_commit_sends, self.auto_commit_acknowledges
        self.auto_commit_sends = self.auto_commit_acknowledges = False

    def leave(self) -> Transaction:
        """Assign no work to a branch from now on; return the transaction that gathered the branch's work."""
        transaction = self.transaction
        assert self.branch is not None and transaction is not None
        self.branch = self.transaction = None
        transaction.on_left()
        self.auto_commit_sends, self.auto_commit_acknowledges = self._commits_outside
        return transaction

    def _current(self) -> Transaction:
        transaction = self.transaction
        if transaction is None:
            transaction = self.transaction = self.kernel.transactions.begin()
        return transaction

    @property
    def principal(self) -> Principal:
        """Return the user of the session."""
        return self._access.principal

    @property
    def validated_user(self) -> str | None:
        """Return the authenticated user; None for an anonymous session."""
        return self._access.principal.user or None

    def _allow(self, permission: Permission, address: str, queue: str | None = None) -> Refused | None:
        """Return why the principal must not do this; None if it may."""
        return self._access.refusal(permission, address, queue)

    # -- services ------------------------------------------------------------------------------------------------

    def cursors(self, queue_name: str) -> Cursors | Refused:
        """Return the cursors of the kernel, for those of one queue: they consume what they read."""
        queue = self.kernel.address_manager.queues.get(queue_name)
        address = queue_name if queue is None else queue.definition.address
        refused = self._allow(Permission.CONSUME, address, queue_name)
        return self.kernel.cursors if refused is None else refused

    def fencing_tokens(self, permission: Permission) -> FencingTokens | Refused:
        """Return the fencing tokens, for reading (VIEW) or for changes (EDIT)."""
        refused = self._allow(permission, _FENCING_TOKENS)
        return self.kernel.fencing_tokens if refused is None else refused

    def commit_sets(self) -> CommitSets | Refused:
        """Return the object that commits sets of branches; each set moves a fencing token."""
        refused = self._allow(Permission.EDIT, _FENCING_TOKENS)
        return self.kernel.commit_sets if refused is None else refused

    # -- sending -------------------------------------------------------------------------------------------------

    def send(
        self,
        message: Message,
        routing_type: int | None,
        duplicate_id: bytes | None = None,
        *,
        sender_waits: bool = False,
        queue_ids: frozenset[int] = _ALL_QUEUES,
    ) -> Refused | None:
        """Send one message, inside the transaction unless sends commit by themselves.

        A message to an internal binding is carried out at once.

        Args:
            message: Message to route.
            routing_type: 0 for multicast, 1 for anycast; None if the sender named none.
            duplicate_id: Id for duplicate detection; None for a message without one.
            sender_waits: Whether the sender waits for the answer.
            queue_ids: Queues of the address that it is for, as another broker chose them; empty: all that take it.

        Returns:
            Why the send was refused; None if it was accepted.
        """
        if message.address not in self._admitted:
            binding = self._internal.get(message.address)
            if binding is not None:
                return self._request(binding, message, sender_waits)
            refused = self.admit_send(message.address)
            if refused is not None:
                self.fail_transaction(refused.text)
                return refused
        memory = self._memory
        if memory.used_bytes >= memory.limit_bytes:
            refused = self.reservation.take(message.address, message.memory_size)
            if refused is not None:
                self.fail_transaction(refused.text)
                return refused
        transaction = None if self.auto_commit_sends else self._current()
        return self._router.send(message, routing_type, transaction, duplicate_id, self._access, queue_ids)

    def send_run(self, messages: Sequence[Message], duplicate_ids: Sequence[bytes], queue_ids: frozenset[int]) -> bool:
        """Send messages of a bridge to one address, as `send` does with each; all are durable, or none is.

        Args:
            messages: Messages to route.
            duplicate_ids: Their ids for duplicate detection.
            queue_ids: Queues of the address that they are for, as another broker chose them.

        Returns:
            False, without effect: send each by itself.
        """
        memory = self._memory
        size = sum([message.memory_size for message in messages])
        if messages[0].address not in self._admitted or not self.auto_commit_sends:
            return False
        if memory.used_bytes + size + MESSAGE_OVERHEAD_BYTES * len(messages) >= memory.limit_bytes:
            return False
        return self._router.send_run(messages, duplicate_ids, queue_ids)

    def adopt(self, message: Message, queue_ids: frozenset[int]) -> Refused | None:
        """Take a message that the branch of this session has acknowledged at another broker, which scales down.

        Args:
            message: Message to place.
            queue_ids: Queues of its address in which it is acknowledged.

        Returns:
            Why it was refused; None if it was accepted.
        """
        refused = self.admit_send(message.address)
        if refused is None and self.auto_commit_sends:
            text = "a message that a branch has acknowledged came without a branch"
            refused = Refused(ErrorCode.ILLEGAL_STATE, text)
        if refused is not None:
            self.fail_transaction(refused.text)
            return refused
        return self.kernel.adoption.adopt(message, queue_ids, self._current())

    def send_on(
        self,
        message: Message,
        routing_type: int | None,
        remote_ids: frozenset[int],
        node_id: str | None,
        duplicate_id: bytes | None,
    ) -> Refused | None:
        """Take a message that a broker which scales down had for a third broker.

        Args:
            message: Message to send on.
            routing_type: Routing type of its send; None if its sender named none.
            remote_ids: Ids of its queues at the third broker.
            node_id: Node id of the third broker; None: any that has queues with these ids.
            duplicate_id: Id for duplicate detection; None without one.

        Returns:
            Why it was refused; None if it was accepted.
        """
        refused = self.admit_send(message.address)
        if refused is not None:
            return refused
        return self._router.send_on(message, routing_type, remote_ids, node_id, duplicate_id)

    def admit_send(self, name: str) -> Refused | None:
        """Return why this session must not send to an address or ``address::queue``; None if it may."""
        refused = self._allow(Permission.SEND, *split_fqqn(name))
        if refused is None and len(name) <= _ADMITTED_NAME_MAX and name not in self._internal:
            if len(self._admitted) >= _ADMITTED_MAX:
                self._admitted.clear()
            self._admitted.add(name)
        return refused

    def takes_requests(self, name: str) -> bool:
        """Return True if messages to an address are requests to the broker, and are never routed."""
        return name in self._internal

    def refusal_of_large(self, message: Message) -> Refused | None:
        """Return why a large message must not be sent, before its body arrives; None if it may.

        The same is checked again when it is sent.
        """
        if message.address in self._internal:
            return Refused(ErrorCode.ILLEGAL_STATE, f"a message to {message.address!r} must not be a large message")
        return self.admit_send(message.address)

    def send_at_once(self, message: Message) -> Refused | None:
        """Send one message outside of the transaction, as a management call does; return why it was refused."""
        if message.address in self._internal:
            return Refused(ErrorCode.ILLEGAL_STATE, f"{message.address!r} takes requests, and no such message")
        refused = self.admit_send(message.address)
        if refused is not None:
            return refused
        if self._memory.used_bytes >= self._memory.limit_bytes:
            return Refused(ErrorCode.ADDRESS_FULL, "the broker is full: there is no room for a message")
        return self._router.send(message, None, None, message.duplicate_id, self._access)

    def add_producer(self, number: int, address: str | None) -> None:
        """Keep a producer for management's lists; one beyond the limit of consumers is not kept."""
        if len(self.producers) < self.kernel.config.consumers_per_session_max:
            self.producers[number] = address, self.kernel.now_ms

    def remove_producer(self, number: int) -> None:
        """Forget a producer. Ignored for one that is not kept."""
        self.producers.pop(number, None)

    def forget_admitted(self) -> None:
        """Check the permission to send again for each address: permissions changed."""
        self._admitted.clear()

    def _request(self, binding: InternalBinding, message: Message, sender_waits: bool) -> Refused | None:
        refused = self._allow(binding.permission, binding.address)
        return binding.take(message, self, sender_waits) if refused is None else refused

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

        Args:
            key: Number of the consumer in this session.
            queue_name: Name or FQQN of the queue.
            filter_text: Selector of the consumer; None for all messages.
            port: Receives the deliveries.
            browse: Whether it is a browser, which takes nothing.
            priority: Consumer priority; higher ones receive messages first.
            credit: Counts what may be sent; None counts bytes.
        """
        queue = self.kernel.address_manager.find_queue(queue_name)
        if queue is None:
            missing = split_fqqn(queue_name)[1] or queue_name
            return Refused(ErrorCode.QUEUE_DOES_NOT_EXIST, f"queue {missing!r} does not exist")
        name = queue.name
        refused = self._allow(Permission.BROWSE if browse else Permission.CONSUME, queue.definition.address, name)
        if refused is not None:
            return refused
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
        if queue.definition.group_first_key and not browse:
            port = FirstInGroup(port, queue.definition.group_first_key)
        if self.kernel.config.persist_delivery_count_before_delivery and queue.durable and not browse:
            # Also for a message that its delivery acknowledges: a crash may come before the acknowledgement is on disk.
            port = PersistedDeliveryCount(port, self.kernel.store)
        observers = self.kernel.observers
        if observers.decision.delivered and not browse:
            port = ObservedDelivery(port, observers.decision.delivered)
        consumer = Consumer(key, queue, port, selector, self.backpressure, credit, browse=browse, priority=priority)
        consumer.session, consumer.owner = self.name, self
        consumer.filter_text = filter_text or None
        consumer.fqqn = queue_name if "::" in queue_name else None
        consumer.created_ms = self.kernel.now_ms
        consumer.sequential_id = self.kernel.clients.take_consumer_number()
        consumer.pre_acknowledge = self.pre_acknowledge and not browse
        consumer.started = browse or self.started
        self.consumers[key] = consumer
        self._teardown.attach(consumer)
        observers.call(observers.commit.consumer_added, consumer)
        if replaced is not None:
            # Not before the new one is there: a queue may exist only as long as it has a consumer.
            self._teardown.detach(replaced, Outcome.RELEASED)
        return consumer

    def close_consumer(self, key: int) -> None:
        """Detach a consumer; what it had not settled returns as if never delivered. Unknown keys are ignored."""
        consumer = self.consumers.pop(key, None)
        if consumer is not None and not consumer.closed:
            self._teardown.detach(consumer, Outcome.RELEASED)

    def start(self) -> None:
        """Start deliveries."""
        self.started = True
        for consumer in self.consumers.values():
            consumer.started = True
            consumer.queue.consumer_ready(consumer)

    def stop(self) -> None:
        """Pause deliveries; browsers continue."""
        self.started = False
        for consumer in self.consumers.values():
            consumer.started = consumer.browse

    def move(self, backpressure: Backpressure, connection: ClientConnection | None = None) -> None:
        """Continue the session over another connection."""
        self.backpressure = backpressure
        self.connection = connection
        for consumer in self.consumers.values():
            consumer.backpressure.forget(consumer)
            consumer.backpressure = backpressure
            consumer.queue.consumer_ready(consumer)

    # -- settling ------------------------------------------------------------------------------------------------

    def settle(
        self, key: int, message_id: int, outcome: Outcome = Outcome.ACCEPTED, *, through: bool = False
    ) -> Refused | None:
        """Settle a message that a consumer was given.

        The settlement belongs to the transaction unless acknowledgements commit by themselves. A message that a client
        found expired never does, as in Artemis: no rollback makes it fresh.

        Args:
            key: Number of the consumer in this session.
            message_id: Id of the message.
            outcome: How the delivery ended.
            through: Whether everything given to the consumer before is settled, too.

        Returns:
            Why the settlement was refused; None if it was accepted.
        """
        transacted = not (self.auto_commit_acknowledges or outcome is _EXPIRED)
        consumer = self.consumers.get(key)
        if consumer is None:
            return self._no_consumer(key, transacted)
        unsettled = consumer.unsettled
        oldest = unsettled.oldest
        if message_id not in oldest and message_id not in unsettled:
            return self._unknown(consumer, message_id, transacted)
        settlement, queue = self._settlement, consumer.queue
        transaction = self._current() if transacted else None
        if not through:
            settlement.settle(queue, (unsettled.pop(message_id),), outcome, transaction, consumer)
            return None
        current, reference = oldest.popitem(last=False)
        if current == message_id:
            if not oldest:
                unsettled.trim()
            settlement.settle(queue, (reference,), outcome, transaction, consumer)
            return None
        taken = [reference]
        while oldest and current != message_id and len(taken) < AT_ONCE_MAX:
            current, reference = oldest.popitem(last=False)
            taken.append(reference)
        unsettled.trim()
        settlement.settle(queue, taken, outcome, transaction, consumer)
        if current != message_id:
            # A large settlement is deferred: later requests must wait for it.
            self.unfinished += 1
            rest = unsettled.take_through(message_id)
            settlement.settle(queue, rest, outcome, transaction, consumer, finished=self._finish)
        return None

    def give_up(self, consumer: Consumer, message_id: int, *, is_damaged: bool) -> None:
        """Settle a delivery that cannot be completed, unless it was settled before; in no transaction.

        A damaged message is a dead letter at once. Where dead letters go it only counts as a failed delivery: it is
        already where it would be moved.
        """
        if message_id not in consumer.unsettled:
            return
        address = consumer.queue.definition.address
        is_dead = any(each.dead_letter_address == address for each in self.kernel.settings.entries.values())
        outcome = Outcome.REJECTED if is_damaged and not is_dead else Outcome.FAILED
        self._settlement.settle(consumer.queue, (consumer.unsettled.pop(message_id),), outcome, None, consumer)

    def settle_run(self, key: int, message_ids: Sequence[int], *, through: bool = True) -> list[Refused]:
        """Accept everything through each of these messages in turn; return why any of that was refused.

        Without ``through`` each of these messages alone is accepted, in any order, and ids of messages that the
        consumer does not hold are ignored.

        The effect is that of as many calls of `settle`. Mostly each message is the oldest that is left. Those are
        settled by one call, which spares 8 % of the instructions of a message (42 in a read).
        """
        consumer = self.consumers.get(key)
        refusals: list[Refused] = []
        if not through:
            if consumer is not None:
                self._accept_each(consumer, message_ids)
            return refusals
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

    def _accept_each(self, consumer: Consumer, message_ids: Sequence[int]) -> None:
        unsettled = consumer.unsettled
        oldest = unsettled.oldest
        taken: list[Reference] = []
        for message_id in message_ids:
            reference = oldest.pop(message_id, None)
            if reference is not None:
                if not oldest:
                    unsettled.trim()
                    oldest = unsettled.oldest
            elif message_id in unsettled:
                reference = unsettled.pop(message_id)
                oldest = unsettled.oldest
            else:
                continue
            taken.append(reference)
            if len(taken) == AT_ONCE_MAX:
                self._accept(consumer, taken)
                taken, oldest = [], unsettled.oldest
        if taken:
            self._accept(consumer, taken)

    def _accept(self, consumer: Consumer, taken: list[Reference]) -> None:
        transaction = None if self.auto_commit_acknowledges else self._current()
        self._settlement.settle(consumer.queue, taken, _ACCEPTED, transaction, consumer)

    def _finish(self) -> None:
        self.unfinished -= 1

    def _no_consumer(self, key: int, transacted: bool) -> Refused:
        """Refuse the settlement of a closed consumer's message.

        The message is back in its queue: a transaction that depends on it must not commit.
        """
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
        """Commit the work since the last decision; roll back a rollback-only transaction and return the reason."""
        if self.branch is not None:
            return Refused(ErrorCode.ILLEGAL_STATE, "the session works in an XA branch, which is not its to commit")
        transaction, self.transaction = self.transaction, None
        if transaction is None:
            return None
        if not transaction.hold():
            transaction.rollback()
            return Refused(transaction.failure_code, f"the transaction was rolled back: {transaction.failure}")
        if self.unfinished:
            # Behind the acknowledgements it commits, and behind the commits that were deferred before it.
            self.unfinished += 1
            transaction.on_left()
            self.kernel.deferred.add_action(lambda: self._commit(transaction))
        else:
            transaction.commit()
        return None

    def _commit(self, transaction: Transaction) -> None:
        transaction.commit()
        self.unfinished -= 1

    def fail_transaction(self, reason: str) -> None:
        """Make the current transaction rollback-only; without effect where sends commit by themselves."""
        if not self.auto_commit_sends:
            self._current().fail(reason)

    def rollback(self, *, last_delivered: bool) -> None:
        """Undo the transaction and take back what consumers hold.

        Messages that were only prefetched lose the delivery count they got. With ``last_delivered`` the first unsettled
        message of each consumer keeps it (a listener failed on it, or the application recovers the session).
        """
        self.return_held(last_delivered=last_delivered)
        if self.branch is not None:
            self._branches.undo_work(self)
        transaction, self.transaction = self.transaction, None
        if transaction is not None:
            transaction.rollback()

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
            self._settlement.settle(queue, first, Outcome.FAILED, is_rollback=True)
            self._settlement.settle(queue, rest, Outcome.RELEASED, is_rollback=True)

    @property
    def xa_resource(self) -> XaResource:
        """Return the session's verbs for XA branches."""
        return XaResource(self, self._branches, self.kernel.config.transaction_timeout_ms)

    # -- end -----------------------------------------------------------------------------------------------------

    def close(self, *, failed: bool) -> None:
        """End the session. After a lost connection (``failed``) deliveries stay counted."""
        if self.closed:
            return
        self.closed = True
        for consumer in list(self.consumers.values()):
            if not consumer.closed:
                self._teardown.detach(consumer, Outcome.FAILED if failed else Outcome.RELEASED)
        self.consumers.clear()
        self._branches.on_closed(self, failed=failed)
        transaction, self.transaction = self.transaction, None
        if transaction is not None:
            transaction.rollback()
        self.reservation.give_up()
        self.kernel.clients.remove_session(self)

    @property
    def unsettled(self) -> list[Reference]:
        """Return everything that consumers hold, for inspection."""
        return [reference for consumer in self.consumers.values() for reference in consumer.unsettled.values()]
