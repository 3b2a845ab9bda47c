"""The drill's consumers: batches that end with a commit, or with an acknowledgement by the client.

They tell the ledger what their user saw and asked for. They refuse to know that brokers are killed, except that what
they still have in their buffer then is stale.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker.ledger import Finding
from embedclient import AcknowledgeMode, ConnectionFactory, Message, MessageConsumer, Queue, Session
from embedclient.errors import JMSException

from ._persistence import persist
from ._producer import KEY_PROPERTY, body_of
from ._stage import QUEUE, Stage
from ._transaction import Outcome, run_transaction

__all__ = ["Consumer"]

_BATCH_MAX = 10
_PATIENCE_S = 0.25


class Consumer:
    """One consumer with a connection of its own, through all kills."""

    def __init__(self, stage: Stage, factory: ConnectionFactory, name: str, *, transacted: bool) -> None:
        self.taken = 0
        self._stage = stage
        self._factory = factory
        self._name = name
        self._transacted = transacted
        self._batches = 0
        self._stale = False
        self._in_transaction = False
        self._gives_back = False

    def broker_died(self) -> None:
        """What comes out of the buffer from here on is nothing that a living broker knows of."""
        self._stale = True

    async def run(self) -> None:
        """Consume until everybody leaves and nothing is left."""
        await persist(self._stage, self._name, self._open_and_consume)

    async def _open_and_consume(self, opened: Callable[[], None]) -> None:
        mode = AcknowledgeMode.CLIENT
        self._stale = False
        async with self._factory.connect() as connection:
            connection.add_failure_listener(self._on_failure)
            async with (
                connection.session(transacted=self._transacted, acknowledge_mode=mode) as session,
                session.create_consumer(Queue(QUEUE)) as consumer,
            ):
                opened()
                while not session.closed:
                    if not await self._take_batch(session, consumer) and self._stage.leaving:
                        return

    def _on_failure(self, _: JMSException, failed_over: bool) -> None:
        self._stale = not failed_over
        self._stage.ledger.interrupted(QUEUE)
        if self._in_transaction and not self._gives_back:
            # The transaction will be rolled back, and with it goes what the new session has in its buffer by then.
            self._gives_back = True
            self._stage.ledger.giving_back(QUEUE)

    async def _take_batch(self, session: Session, consumer: MessageConsumer) -> bool:
        """Returns False when there was nothing to take."""
        stage = self._stage
        first = await consumer.receive(timeout=_PATIENCE_S)
        if first is None:
            return False
        self._batches += 1
        transaction = f"{self._name}#{self._batches}"
        taken: list[Message] = []

        async def take_more(worked: Callable[[], None]) -> None:
            message: Message | None = first
            while message is not None:
                taken.append(message)
                self._note(message, transaction)
                worked()
                message = await consumer.receive(timeout=_PATIENCE_S) if len(taken) < _BATCH_MAX else None

        async def settle() -> None:
            await (session.commit() if self._transacted else taken[-1].acknowledge())

        undo = session.rollback if self._transacted else session.recover
        self._in_transaction = True
        try:
            outcome = await run_transaction(stage, transaction, take_more, settle, undo, transacted=self._transacted)
        finally:
            self._in_transaction = False
            if self._gives_back:
                self._gives_back = False
                stage.ledger.gave_back(QUEUE)
        if outcome is Outcome.COMMITTED:
            stage.consumed(len(taken))
            self.taken += len(taken)
        return True

    def _note(self, message: Message, transaction: str) -> None:
        stage = self._stage
        key = message.properties[KEY_PROPERTY]
        assert isinstance(key, str)
        if message.body != body_of(key, stage.plan.size_bytes):
            key += " (with bytes that are not its own)"
        redelivered = message.redelivered
        found = stage.ledger.delivered(
            QUEUE, key, stage.now(), redelivered=redelivered, consumer=self._name, stale=self._stale
        )
        if not self._stale:
            stage.delivering.set()
        if not found & Finding.PHANTOM:
            if self._transacted:
                stage.ledger.acknowledging(QUEUE, key, transaction=transaction)
            else:
                stage.ledger.acknowledging(QUEUE, key, batch=transaction)
