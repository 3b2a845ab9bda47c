"""The drill's consumers: batches that end with a commit, in one or two phases, or with an acknowledgement.

Consumers report to the ledger what they received and requested. They do not depend on what happens to brokers, with one
exception: what a consumer still has in its buffer after the end of a broker is stale.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from embedbroker.ledger import Finding
from embedclient import (
    AcknowledgeMode,
    Connection,
    Message,
    MessageConsumer,
    Queue,
    Session,
    XAConnectionFactory,
    XASession,
)
from embedclient.errors import JMSException

from ._branch import Branches
from ._persistence import Work, on_loss, persist
from ._producer import body_of, key_of
from ._run import QUEUE
from ._stage import Stage
from ._transaction import Outcome, run_transaction

__all__ = ["Consumer"]

_BATCH_MAX = 10
_PATIENCE_S = 0.25


class Consumer:
    """Run one consumer, with its own connection, through all faults."""

    def __init__(self, stage: Stage, factory: XAConnectionFactory, name: str, work: Work) -> None:
        self.taken = 0
        self._stage = stage
        self._factory = factory
        self._name = f"{stage.prefix}{name}"
        self._work = work
        self._branches = Branches(stage)
        self._batches = 0
        self._batch: list[Message] = []
        self._stale = False
        self._in_transaction = False
        self._gives_back = False
        stage.on_stale_buffers.append(self._buffer_is_stale)

    def _buffer_is_stale(self) -> None:
        self._stale = True

    async def run(self) -> None:
        """Consume until the stage ends the load and nothing is left."""
        await persist(self._stage, self._name, self._open_and_consume)

    async def _open_and_consume(self, opened: Callable[[], None]) -> None:
        self._stale = False
        if self._work is Work.BRANCHES:
            async with self._factory.create_xa_connection() as connection:
                self._listen(connection)
                async with connection.create_xa_session() as xa_session:
                    await self._consume(opened, xa_session, lambda consumer: self._take_branch(xa_session, consumer))
            return
        async with self._factory.connect() as connection:
            self._listen(connection)
            transacted, mode = self._work is Work.TRANSACTIONS, AcknowledgeMode.CLIENT
            async with connection.session(transacted=transacted, acknowledge_mode=mode) as session:
                await self._consume(opened, session, lambda consumer: self._take_batch(session, consumer))

    def _listen(self, connection: Connection) -> None:
        on_loss(connection, self._stage, self._name)
        connection.add_failure_listener(self._on_failure)

    async def _consume(
        self, opened: Callable[[], None], session: Session, take: Callable[[MessageConsumer], Awaitable[bool]]
    ) -> None:
        async with session.create_consumer(Queue(QUEUE)) as consumer:
            opened()
            while not session.closed:
                if not await take(consumer) and self._stage.run.leaving:
                    return

    def _on_failure(self, _: JMSException, failed_over: bool) -> None:
        self._stale = not failed_over
        self._stage.ledger.interrupted(QUEUE)
        if self._in_transaction and not self._gives_back:
            # The transaction will be rolled back, and with it goes what the new session has in its buffer by then.
            self._gives_back = True
            self._stage.ledger.giving_back(QUEUE)

    async def _take_batch(self, session: Session, consumer: MessageConsumer) -> bool:
        """Receive and settle a batch. Return False if there was nothing to receive."""
        stage = self._stage
        first = await consumer.receive(timeout=_PATIENCE_S)
        if first is None:
            return False
        transacted = self._work is Work.TRANSACTIONS
        transaction = self._new_batch()

        async def settle() -> None:
            await (session.commit() if transacted else self._batch[-1].acknowledge())

        await self._run(
            run_transaction(
                stage,
                transaction,
                lambda worked: self._take_more(first, consumer, transaction, worked),
                settle,
                session.rollback if transacted else session.recover,
                transacted=transacted,
            )
        )
        return True

    async def _take_branch(self, session: XASession, consumer: MessageConsumer) -> bool:
        """Receive and settle a batch in a branch.

        Received messages belong to the branch that was begun before, so a branch may stay empty.
        """
        if self._branches.unfinished:
            await self._run(self._branches.finish(session.xa_resource))
            return True
        transaction = self._new_batch()

        async def take(worked: Callable[[], None]) -> None:
            first = await consumer.receive(timeout=_PATIENCE_S)
            await self._take_more(first, consumer, transaction, worked)

        await self._run(self._branches.run(session.xa_resource, transaction, take))
        return bool(self._batch)

    def _new_batch(self) -> str:
        self._batches += 1
        self._batch = []
        return f"{self._name}#{self._batches}"

    async def _take_more(
        self, message: Message | None, consumer: MessageConsumer, transaction: str, worked: Callable[[], None]
    ) -> None:
        while message is not None:
            self._batch.append(message)
            self._note(message, transaction)
            worked()
            message = await consumer.receive(timeout=_PATIENCE_S) if len(self._batch) < _BATCH_MAX else None

    async def _run(self, batch: Awaitable[Outcome]) -> None:
        self._in_transaction = True
        try:
            outcome = await batch
        finally:
            self._in_transaction = False
            if self._gives_back:
                self._gives_back = False
                self._stage.ledger.gave_back(QUEUE)
        if outcome is Outcome.COMMITTED:
            self._stage.run.consumed(len(self._batch))
            self.taken += len(self._batch)

    def _note(self, message: Message, transaction: str) -> None:
        stage = self._stage
        key = key_of(message)
        if message.body != body_of(key, stage.plan.size_bytes):
            key += " (with bytes that are not its own)"
        redelivered = message.redelivered
        found = stage.ledger.delivered(
            QUEUE,
            key,
            stage.run.now(),
            redelivered=redelivered,
            consumer=self._name,
            broker=stage.name,
            stale=self._stale,
        )
        if not self._stale:
            stage.delivered(key)
        if not found & Finding.PHANTOM:
            if self._work is Work.SINGLE:
                stage.ledger.acknowledging(QUEUE, key, batch=transaction)
            else:
                stage.ledger.acknowledging(QUEUE, key, transaction=transaction)
