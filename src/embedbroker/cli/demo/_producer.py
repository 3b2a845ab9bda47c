"""The demo's producer, in its own process: orders in transactions, through a failover, each once.

A transaction's first message carries a duplicate id for the whole of it. After a commit with an unknown outcome, the
transaction is sent again, and the broker reports whether it had been committed. Standard input contains the number of
the last order that may be sent, so that no more is under way than the demo wants. Standard output reports what is
confirmed, in JSON lines. At most one transaction is in memory. Does not depend on brokers: the client finds the one
that serves.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

import trio

from embedclient import ConnectionFactory, MessageProducer, Queue, Session, TextMessage
from embedclient.errors import DuplicateIDException, JMSException, TransactionRolledBackException

from ._orders import Order, Orders, body_of

__all__ = ["QUEUE", "main"]

QUEUE = "orders"
_ATTEMPTS_MAX = 20


async def main(url: str, count: int, seed: int, transaction: int) -> None:
    """Send ``count`` orders and the closing one, ``transaction`` at a time."""
    orders = Orders(count, seed)
    async with ConnectionFactory(url).connect() as connection, connection.session(transacted=True) as session:
        sender = _Sender(session, session.create_producer(Queue(QUEUE)))
        for chunk in orders.chunks():
            for first in range(0, len(chunk), transaction):
                await sender.send(chunk[first : first + transaction])
        await sender.send([orders.closing()])


class _Sender:
    def __init__(self, session: Session, producer: MessageProducer) -> None:
        self._session = session
        self._producer = producer
        self._confirmed = 0
        self._allowed = 0
        self._again = 0

    async def send(self, orders: Sequence[Order]) -> None:
        """Send the orders in one transaction, and return when they are confirmed."""
        while self._confirmed + len(orders) > self._allowed:
            line = await trio.to_thread.run_sync(sys.stdin.readline)
            if not line:
                sys.exit(0)  # the reader of standard output has gone
            self._allowed = int(line)
        for _ in range(_ATTEMPTS_MAX):
            began = time.monotonic()
            if await self._attempt(orders):
                self._confirmed += len(orders)
                progress = {"confirmed": self._confirmed, "began": began, "at": time.monotonic(), "again": self._again}
                print(json.dumps(progress), flush=True)
                return
            self._again += 1
        sys.exit(f"orders from {orders[0].number} were tried {_ATTEMPTS_MAX} times")

    async def _attempt(self, orders: Sequence[Order]) -> bool:
        """Return True if the broker has the orders now."""
        try:
            for number, order in enumerate(orders):
                properties = {} if number else {"_AMQ_DUPL_ID": f"orders from {order.number}"}
                await self._producer.send(TextMessage(body_of(order), properties=properties))
            await self._session.commit()
        except DuplicateIDException:
            await self._session.rollback()
            return True
        except TransactionRolledBackException as error:
            return isinstance(error.__cause__, DuplicateIDException)
        except JMSException:
            # Lost while it was being sent: a commit was not requested.
            await self._session.rollback()
            return False
        return True


if __name__ == "__main__":
    _count, _seed, _transaction = map(int, sys.argv[2:])
    trio.run(main, sys.argv[1], _count, _seed, _transaction)
