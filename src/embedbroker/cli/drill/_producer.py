"""The drill's producers: one durable message at a time, or transactions; what is in doubt goes out again.

They tell the ledger what they know, at the moment they know it. They refuse to know that brokers are killed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from embedclient import BytesMessage, ConnectionFactory, MessageProducer, Queue, Session
from embedclient.errors import JMSException

from ._persistence import persist
from ._stage import QUEUE, Stage
from ._transaction import Outcome, run_transaction

__all__ = ["KEY_PROPERTY", "Producer", "body_of"]

_TRANSACTION_MAX = 10
KEY_PROPERTY = "key"


def body_of(key: str, size_bytes: int) -> bytes:
    """The body that belongs to a key, so that a consumer notices bytes that are not its own."""
    pattern = key.encode() + b" "
    return (pattern * (size_bytes // len(pattern) + 1))[:size_bytes]


class Producer:
    """One producer with a connection of its own, through all kills."""

    def __init__(self, stage: Stage, factory: ConnectionFactory, name: str, *, transacted: bool) -> None:
        self._stage = stage
        self._factory = factory
        self._name = name
        self._transacted = transacted
        self._made = 0
        self._transactions = 0
        self._again: deque[str] = deque()

    async def run(self) -> None:
        """Send until the stage says stop, and until nothing is in doubt any more."""
        await persist(self._stage, self._name, self._open_and_send)

    async def _open_and_send(self, opened: Callable[[], None]) -> None:
        async with self._factory.connect() as connection, connection.session(transacted=self._transacted) as session:
            producer = session.create_producer(Queue(QUEUE))
            opened()
            while (self._stage.sending or self._again) and not session.closed:
                await self._stage.room()
                if self._transacted:
                    await self._send_transaction(session, producer)
                else:
                    await self._send_one(producer)

    async def _send_one(self, producer: MessageProducer) -> None:
        stage = self._stage
        key = self._next_key(None)
        stage.waiting_sends += 1
        stage.look()
        try:
            await producer.send(self._message(key))
        except JMSException:
            stage.ledger.in_doubt(key)
            self._again.append(key)
        else:
            stage.ledger.confirmed(key, stage.now())
            stage.confirmed(1)
        finally:
            stage.waiting_sends -= 1

    async def _send_transaction(self, session: Session, producer: MessageProducer) -> None:
        stage = self._stage
        self._transactions += 1
        transaction = f"{self._name}#{self._transactions}"
        keys: list[str] = []

        async def send_some(worked: Callable[[], None]) -> None:
            for _ in range(stage.random.randint(1, _TRANSACTION_MAX)):
                keys.append(self._next_key(transaction))
                await producer.send(self._message(keys[-1]))
                worked()
                # Work between two sends: the transaction is open for the others, and on the wire.
                await trio.lowlevel.checkpoint()

        outcome = await run_transaction(
            stage, transaction, send_some, session.commit, session.rollback, transacted=True
        )
        if outcome is Outcome.COMMITTED:
            stage.confirmed(len(keys))
        else:
            self._again.extend(keys)

    def _next_key(self, transaction: str | None) -> str:
        stage = self._stage
        if self._again:
            key = self._again.popleft()
            stage.ledger.resent(key, stage.now(), transaction=transaction)
        else:
            self._made += 1
            key = f"{self._name}-{self._made}"
            stage.ledger.sent(key, QUEUE, stage.now(), producer=self._name, transaction=transaction)
        return key

    def _message(self, key: str) -> BytesMessage:
        return BytesMessage(body_of(key, self._stage.plan.size_bytes), properties={KEY_PROPERTY: key})
