"""What only blocking programs have: listeners in threads, loops over calls, and objects that outlive their thread."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from attrs import define

from embedclient import Message
from embedclient.blocking import Connection, ConnectionFactory, Session
from embedclient.errors import ConnectionClosedException, ConnectionLostException

ENDINGS: dict[str, Callable[[Connection, Session], None]] = {
    "session.close": lambda _, session: session.close(),
    "connection.stop": lambda connection, _: connection.stop(),
    "connection.close": lambda connection, _: connection.close(),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_listener_does_not_wait_for_itself(url: str, ending: str) -> None:
    done = threading.Event()
    took: list[float] = []
    with (
        ConnectionFactory(f"{url}?onMessageCloseTimeout=60000").connect() as connection,
        connection.session() as session,
    ):

        def listen(_: Message) -> None:
            started = time.monotonic()
            ENDINGS[ending](connection, session)
            took.append(time.monotonic() - started)
            done.set()

        with connection.session() as other:
            other.create_producer("q").send("x")
        session.create_consumer("q").set_message_listener(listen)
        assert done.wait(200)
    assert took[0] < 60


async def _asynchronous(_: Message) -> None:
    raise AssertionError("called")


@pytest.mark.parametrize(("listener", "reason"), [("x", "'x' cannot be called"), (_asynchronous, "asynchronous")])
def test_what_cannot_be_a_listener_is_refused_at_once(url: str, listener: Any, reason: str) -> None:
    with ConnectionFactory(url).connect() as connection, connection.session() as session:
        consumer = session.create_consumer("q")
        for take in (consumer.set_message_listener, connection.add_failure_listener):
            with pytest.raises(TypeError, match=reason):
                take(listener)
        with pytest.raises(TypeError, match=reason):
            connection.exception_listener = listener
        assert consumer.message_listener is None


def test_a_listener_that_was_removed_is_not_kept(url: str) -> None:
    class Watcher:
        def __call__(self, *_: object) -> None:
            pass

    with ConnectionFactory(url).connect() as connection:
        for add, remove in (
            (connection.add_failure_listener, connection.remove_failure_listener),
            (connection.add_failover_listener, connection.remove_failover_listener),
        ):
            watcher = Watcher()
            kept = weakref.ref(watcher)
            add(watcher)
            remove(watcher)
            del watcher
            gc.collect()
            assert kept() is None


def test_a_listener_needs_no_hash(url: str) -> None:
    @define
    class Handler:
        heard: threading.Event

        def __call__(self, _: Message) -> None:
            self.heard.set()

    handler = Handler(threading.Event())
    with ConnectionFactory(url).connect() as connection, connection.session() as session:
        session.create_producer("q").send("x")
        consumer = session.create_consumer("q")
        consumer.set_message_listener(handler)
        assert consumer.message_listener is handler
        assert handler.heard.wait(60)


def test_a_loop_does_not_take_a_lost_connection_for_the_end(broker: Any) -> None:
    with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
        lost = threading.Event()
        connection.exception_listener = lambda _: lost.set()
        session.create_producer("q").send("x")
        received = []
        with pytest.raises(ConnectionLostException):
            for message in session.create_consumer("q"):
                received.append(message.body)
                broker.stop()
                assert lost.wait(60)
        assert received == ["x"]


def test_a_loop_ends_with_what_this_program_closes(url: str) -> None:
    with ConnectionFactory(url).connect() as connection, connection.session() as session:
        session.create_producer("q").send("x")
        consumer = session.create_consumer("q")
        for _ in consumer:
            connection.close()
        assert list(consumer) == []


def test_a_context_of_a_closed_connection_may_be_closed(url: str) -> None:
    context = ConnectionFactory(url).create_context()
    another = context.create_context(context.session_mode)
    context.close()
    another.close()


def test_an_exception_leaves_a_transaction_whose_connection_is_closed(url: str) -> None:
    with ConnectionFactory(url).connect() as connection:
        session = connection.create_session(transacted=True)
        with pytest.raises(ValueError, match="of the program"), session.transaction():
            connection.close()
            raise ValueError("of the program")
    with ConnectionFactory(url).connect() as connection:
        session = connection.create_session(transacted=True)
        with pytest.raises(ConnectionClosedException), session.transaction():
            connection.close()


def test_a_known_outcome_outlives_the_connection(url: str) -> None:
    with ConnectionFactory(f"{url}?confirmationWindowSize=65536").connect() as connection:
        receipt = connection.create_session().create_producer("q").send_nowait("x")
        receipt.wait()
    receipt.wait()
