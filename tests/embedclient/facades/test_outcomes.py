"""Calls that were sent and done, but not answered, when the live broker died: the error, and what a retry does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from embedclient import Queue, TextMessage
from embedclient.errors import (
    DuplicateIDException,
    ErrorCode,
    TransactionOutcomeUnknownException,
    TransactionRolledBackException,
    UnblockedException,
)
from tests.embedclient.facades.conftest import Client, connected
from tests.embedclient.facades.test_failover import PATIENCE_S, Pair
from tests.embedclient.facades.test_failover import pair as pair
from tests.interop.relay import Relay

ORDERS = Queue("orders")


class LosesAnswers(Relay):
    """Carries what the client sends, and from `lose` on nothing of what the broker answers."""

    def __init__(self, port: int) -> None:
        self._loses = False
        #: The broker has answered since then.
        self.answered = threading.Event()
        super().__init__(port)

    def lose(self) -> None:
        self._loses = True

    def _carry(self, source: socket.socket, sink: socket.socket, from_broker: bool) -> None:
        if source.getsockname()[1] == self.port:
            super()._carry(source, sink, from_broker)
            return
        try:
            while data := source.recv(65536):
                if self._loses:
                    self.answered.set()
                else:
                    sink.sendall(data)
        except OSError:
            pass
        self.cut()


@contextmanager
def relayed(pair: Pair) -> Iterator[tuple[LosesAnswers, str]]:
    relay = LosesAnswers(int(pair.primary.url.rpartition(":")[2]))
    with relay:
        backup = pair.url.rstrip(")").rpartition(",")[2]
        yield relay, f"(tcp://127.0.0.1:{relay.port},{backup})?ha=true&reconnectAttempts=-1&retryInterval=20"


def order(text: str) -> TextMessage:
    return TextMessage(text, properties={"_AMQ_DUPL_ID": text})


async def test_a_commit_that_held_is_unknown_and_its_retry_is_refused(client: Client, pair: Pair) -> None:
    with relayed(pair) as (relay, url):
        async with connected(client, url) as connection, connection.session(transacted=True) as session:
            producer = session.create_producer(ORDERS)
            await producer.send(order("one"))

            async def commit() -> None:
                with pytest.raises(TransactionOutcomeUnknownException) as caught:
                    await session.commit()
                assert isinstance(caught.value, TransactionRolledBackException)
                assert caught.value.error_code == ErrorCode(115)

            relay.lose()
            await client.together(commit, lambda: client.aside(lambda: fail_over_behind(relay, pair)))
            await producer.send(order("one"))
            with pytest.raises(DuplicateIDException) as refused:
                await session.commit()
            assert refused.value.error_code == ErrorCode(113)
            consumer = await session.create_consumer(ORDERS)
            message = await consumer.receive(timeout=PATIENCE_S)
            assert message is not None and message.body == "one"
            assert await consumer.receive_nowait() is None


async def test_a_send_that_was_not_answered_is_unblocked_and_its_retry_adds_nothing(client: Client, pair: Pair) -> None:
    with relayed(pair) as (relay, url):
        async with connected(client, url) as connection, connection.session() as session:
            producer = session.create_producer(ORDERS)
            await producer.send(order("before"))

            async def send() -> None:
                with pytest.raises(UnblockedException) as caught:
                    await producer.send(order("one"))
                assert caught.value.error_code == ErrorCode.UNBLOCKED

            relay.lose()
            await client.together(send, lambda: client.aside(lambda: fail_over_behind(relay, pair)))
            await producer.send(order("one"))
            consumer = await session.create_consumer(ORDERS)
            received = [await consumer.receive(timeout=PATIENCE_S) for _ in range(2)]
            assert [message and message.body for message in received] == ["before", "one"]
            assert await consumer.receive_nowait() is None


def fail_over_behind(relay: LosesAnswers, pair: Pair) -> None:
    """As soon as the live broker has done what it was asked for, and its answer is lost."""
    assert relay.answered.wait(PATIENCE_S)
    pair.fail_over()
