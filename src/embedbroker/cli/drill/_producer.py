"""The drill's producers: one durable message at a time, transactions, or XA branches; what is in doubt is sent again.

Producers report each result to the ledger at the moment they learn it. They do not depend on what happens to brokers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

import trio

from embedclient import BytesMessage, Message, MessageProducer, Queue, Session, XAConnectionFactory, XASession
from embedclient.errors import JMSException

from ._branch import Branches
from ._persistence import Work, on_loss, persist, work_of
from ._run import QUEUE
from ._stage import Stage
from ._transaction import Outcome, run_transaction

__all__ = ["Producer", "body_of", "key_of"]

_TRANSACTION_MAX = 10
_KEY_PROPERTY = "key"


def body_of(key: str, size_bytes: int) -> bytes:
    """Return the body that belongs to a key, so that a consumer notices bytes that are not its own."""
    pattern = key.encode() + b" "
    return (pattern * (size_bytes // len(pattern) + 1))[:size_bytes]


def key_of(message: Message) -> str:
    """Return the ledger's key of a message.

    A message of another program has none; the ledger counts it as never sent.
    """
    return str(message.properties.get(_KEY_PROPERTY))


class Producer:
    """Run producer ``number``, with its own connection, through all faults."""

    def __init__(self, stage: Stage, factory: XAConnectionFactory, number: int) -> None:
        self._stage = stage
        self._factory = factory
        self._name = f"{stage.prefix}p{number}"
        self._work = work_of(number)
        self._branches = Branches(stage)
        self._made = 0
        self._transactions = 0
        self._again: deque[str] = deque()
        #: Of the transaction that is under way.
        self._keys: list[str] = []
        self._began = 0.0

    async def run(self) -> None:
        """Send until the stage ends sending, and until nothing is in doubt any more."""
        await persist(self._stage, self._name, self._open_and_send)

    @property
    def _has_work(self) -> bool:
        return self._stage.run.sending or bool(self._again) or self._branches.unfinished

    async def _open_and_send(self, opened: Callable[[], None]) -> None:
        if self._work is Work.BRANCHES:
            await self._open_and_send_branches(opened)
            return
        transacted = self._work is Work.TRANSACTIONS
        async with self._factory.connect() as connection, connection.session(transacted=transacted) as session:
            on_loss(connection, self._stage, self._name)

            async def send(producer: MessageProducer) -> None:
                await (self._send_transaction(session, producer) if transacted else self._send_one(producer))

            await self._send(opened, session, send)

    async def _open_and_send_branches(self, opened: Callable[[], None]) -> None:
        factory = self._factory
        async with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
            on_loss(connection, self._stage, self._name)
            await self._send(opened, session, lambda producer: self._send_branch(session, producer))

    async def _send(
        self, opened: Callable[[], None], session: Session, send: Callable[[MessageProducer], Awaitable[None]]
    ) -> None:
        producer = session.create_producer(Queue(QUEUE))
        opened()
        while self._has_work and not session.closed:
            await self._stage.run.room()
            await send(producer)

    async def _send_one(self, producer: MessageProducer) -> None:
        stage = self._stage
        key = self._next_key(None)
        began = stage.run.now()
        stage.waiting_sends += 1
        stage.look()
        try:
            await producer.send(self._message(key))
        except JMSException:
            stage.ledger.in_doubt(key)
            self._again.append(key)
        else:
            stage.ledger.confirmed(key, stage.run.now())
            stage.confirmed(1)
            stage.succeeded(self._name, began)
        finally:
            stage.waiting_sends -= 1

    async def _send_transaction(self, session: Session, producer: MessageProducer) -> None:
        transaction = self._new_transaction()
        outcome = await run_transaction(
            self._stage,
            transaction,
            lambda worked: self._send_some(producer, transaction, worked),
            session.commit,
            session.rollback,
            transacted=True,
        )
        self._ended(outcome)

    async def _send_branch(self, session: XASession, producer: MessageProducer) -> None:
        if self._branches.unfinished:
            self._ended(await self._branches.finish(session.xa_resource))
            return
        transaction = self._new_transaction()
        outcome = await self._branches.run(
            session.xa_resource, transaction, lambda worked: self._send_some(producer, transaction, worked)
        )
        self._ended(outcome)

    def _new_transaction(self) -> str:
        self._transactions += 1
        self._keys = []
        self._began = self._stage.run.now()
        return f"{self._name}#{self._transactions}"

    async def _send_some(self, producer: MessageProducer, transaction: str, worked: Callable[[], None]) -> None:
        for _ in range(self._stage.random.randint(1, _TRANSACTION_MAX)):
            self._keys.append(self._next_key(transaction))
            await producer.send(self._message(self._keys[-1]))
            worked()
            # Work between two sends: the transaction is open for the others, and on the wire.
            await trio.lowlevel.checkpoint()

    def _ended(self, outcome: Outcome) -> None:
        if outcome is Outcome.COMMITTED:
            self._stage.confirmed(len(self._keys))
            self._stage.succeeded(self._name, self._began)
        else:
            self._again.extend(self._keys)

    def _next_key(self, transaction: str | None) -> str:
        stage = self._stage
        if self._again:
            key = self._again.popleft()
            stage.ledger.resent(key, stage.run.now(), transaction=transaction)
        else:
            self._made += 1
            key = f"{self._name}-{self._made}"
            stage.run.sent(key)
            stage.ledger.sent(key, QUEUE, stage.run.now(), producer=self._name, transaction=transaction)
        return key

    def _message(self, key: str) -> BytesMessage:
        return BytesMessage(body_of(key, self._stage.plan.size_bytes), properties={_KEY_PROPERTY: key})
