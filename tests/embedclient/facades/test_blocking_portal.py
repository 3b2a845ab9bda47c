"""What only threads have: Ctrl-C in the middle of a call, calls from many threads, and threads that must end."""

from __future__ import annotations

import _thread
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
import trio

from embedclient.blocking import ConnectionFactory
from embedclient.blocking._event_loop import EventLoop
from embedclient.blocking._portal import Job, Portal
from embedclient.errors import (
    ConnectionClosedException,
    ConnectionLostException,
    IllegalStateException,
    ResourceAllocationException,
)
from embedclient.model import Place


def portal_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "embedclient"]


def test_the_thread_ends_with_the_connection(url: str) -> None:
    before = portal_threads()
    connection = ConnectionFactory(url).connect()
    assert len(portal_threads()) == len(before) + 1
    connection.close()
    connection.close()
    assert portal_threads() == before


def test_a_refused_connection_leaves_no_thread() -> None:
    before = portal_threads()
    with pytest.raises(ConnectionLostException):
        ConnectionFactory("tcp://127.0.0.1:1").connect()
    assert portal_threads() == before


def test_an_interrupted_receive_leaves_the_message(url: str) -> None:
    with ConnectionFactory(url).connect() as connection, connection.session() as session:
        consumer = session.create_consumer("q")
        threading.Timer(0.05, _thread.interrupt_main).start()
        with pytest.raises(KeyboardInterrupt):
            consumer.receive()
        with connection.session() as other:
            other.create_producer("q").send("x")
        message = consumer.receive(timeout=60)
        assert message is not None and message.body == "x"


Interruption = Callable[[Callable[..., Any]], Callable[..., Any]]


def before(function: Callable[..., Any]) -> Callable[..., Any]:
    """Ctrl-C comes as the first call of the function begins."""
    calls = count()

    def interrupted(*arguments: Any) -> Any:
        if next(calls) == 0:
            raise KeyboardInterrupt
        return function(*arguments)

    return interrupted


def behind(function: Callable[..., Any]) -> Callable[..., Any]:
    """Ctrl-C comes when the first call of the function has done its work, and before its caller has the result."""
    calls = count()

    def interrupted(*arguments: Any) -> Any:
        result = function(*arguments)
        if next(calls) == 0:
            raise KeyboardInterrupt
        return result

    return interrupted


@pytest.mark.parametrize("interruption", [before, behind])
@pytest.mark.parametrize(
    "place", [(Portal, "submit"), (EventLoop, "soon"), (Job, "finished")], ids=lambda place: place[1]
)
def test_ctrl_c_at_any_moment_of_a_receive_neither_hangs_nor_loses_the_message(
    url: str, monkeypatch: pytest.MonkeyPatch, place: tuple[type, str], interruption: Interruption
) -> None:
    owner, name = place
    with ConnectionFactory(url).connect() as connection, connection.session() as session:
        session.create_producer("q").send("x")
        consumer = session.create_consumer("q")
        messages: list[object] = []
        interruptions = 0
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interruption(getattr(owner, name)))
            while not messages or not interruptions:
                try:
                    message = consumer.receive(timeout=5 if not messages else 0)
                    messages += [message] if message is not None else []
                except KeyboardInterrupt:
                    interruptions += 1
        assert (len(messages), interruptions) == (1, 1)
        with session.create_browser("q") as browser:
            assert list(browser) == []


@pytest.mark.parametrize("interruption", [before, behind])
def test_ctrl_c_as_a_scope_is_left_ends_it_all_the_same(
    url: str, monkeypatch: pytest.MonkeyPatch, interruption: Interruption
) -> None:
    threads = portal_threads()
    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch, ConnectionFactory(url).connect():
        patch.setattr(Job, "finished", interruption(Job.finished))
    assert portal_threads() == threads


def test_a_connection_serves_many_threads(url: str) -> None:
    with ConnectionFactory(url).connect() as connection:

        def send(name: str) -> None:
            with connection.session() as session:
                producer = session.create_producer("q")
                for index in range(20):
                    producer.send(f"{name} {index}")

        threads = [threading.Thread(target=send, args=(str(number),)) for number in range(4)]
        for thread in threads:
            thread.start()
        with connection.session() as session, session.create_consumer("q") as consumer:
            bodies: list[object] = []
            while len(bodies) < 80:
                message = consumer.receive(timeout=60)
                assert message is not None
                bodies.append(message.body)
        for thread in threads:
            thread.join()
        assert sorted(map(str, bodies)) == sorted(f"{name} {index}" for name in range(4) for index in range(20))


def test_closing_the_connection_in_another_thread_ends_a_waiting_receive(url: str) -> None:
    connection = ConnectionFactory(url).connect()
    session = connection.session()
    consumer = session.create_consumer("q")
    ended: list[object] = []

    def receive() -> None:
        try:
            ended.append(consumer.receive())
        except ConnectionClosedException as error:
            ended.append(error)

    waiting = threading.Thread(target=receive)
    waiting.start()
    connection.close()
    waiting.join(60)
    assert len(ended) == 1 and (ended[0] is None or isinstance(ended[0], ConnectionClosedException))


def test_a_listener_may_use_the_client(url: str) -> None:
    with ConnectionFactory(url).connect() as connection, connection.session() as session, connection.session() as other:
        replies = other.create_producer("replies")
        consumer = session.create_consumer("requests")
        consumer.set_message_listener(lambda message: replies.send(f"re: {message.body}"))
        with connection.session() as third:
            third.create_producer("requests").send("hello")
            reply = third.create_consumer("replies").receive(timeout=60)
        assert reply is not None and reply.body == "re: hello"


def test_a_blocking_call_in_the_event_loops_own_thread_is_refused() -> None:
    loop = EventLoop.start()
    portal = Portal(loop, Place.of_caller())

    async def call() -> None:
        portal.call_now(list)

    with pytest.raises(IllegalStateException, match="event loop's thread"):
        portal.call(call)
    loop.end()


@pytest.fixture
def no_descriptors() -> Iterator[None]:
    """Everything this process may open is open."""
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("no_descriptors")
def test_a_thread_that_gets_no_event_loop_says_so() -> None:
    before = portal_threads()
    with pytest.raises(ResourceAllocationException, match="no event loop for the connection: Too many open files"):
        ConnectionFactory("tcp://127.0.0.1:1").connect()
    assert portal_threads() == before


def test_ctrl_c_while_the_thread_starts_leaves_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    before = portal_threads()
    made = count()

    class Interrupted(threading.Event):
        """The first one is that of the loop; the next one is that of its thread."""

        def __init__(self) -> None:
            super().__init__()
            self.interrupts = next(made) == 0

        def wait(self, timeout: float | None = None) -> bool:
            if self.interrupts:
                self.interrupts = False
                raise KeyboardInterrupt
            return super().wait(timeout)

    def make(loop: EventLoop) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading, "Event", Interrupted)
            usual(loop)

    usual = EventLoop.__init__
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(EventLoop, "__init__", make)
        Portal.open()
    assert next(made) > 0
    assert portal_threads() == before


def said_by_a_forked_process(work: Callable[[], str]) -> str:
    """What the work returns in a child, which has none of this process's threads."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, work().encode())
        except BaseException as error:
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)  # whatever happens: the tests go on in the parent only
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        text = said.read().decode()
    os.waitpid(child, 0)
    return text


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_is_told_that_the_connection_is_its_parents(url: str) -> None:
    with ConnectionFactory(url).connect() as connection, connection.session() as session:
        producer, consumer = session.create_producer("q"), session.create_consumer("q")

        def use() -> str:
            said: list[str] = []
            calls = (lambda: producer.send("x"), consumer.receive, connection.session, lambda: next(iter(consumer)))
            for call in calls:
                try:
                    call()
                except IllegalStateException as error:
                    said.append(str(error))
            consumer.close()
            session.close()
            connection.close()
            assert len(set(said)) == 1, said
            return f"{len(said)} times: {said[0]}"

        assert said_by_a_forked_process(use).startswith("4 times: a connection cannot be used after a fork")
        producer.send("y")
        message = consumer.receive(timeout=60)
        assert message is not None and message.body == "y"


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_what_ends_a_block_in_a_forked_process_is_not_replaced(url: str) -> None:
    with ExitStack() as block:
        connection = block.enter_context(ConnectionFactory(url).connect())
        session = block.enter_context(connection.session(transacted=True))
        block.enter_context(session.transaction())

        def leave() -> str:
            with block:
                raise RuntimeError("of the child")

        assert said_by_a_forked_process(leave) == "RuntimeError('of the child')"
        session.create_producer("q").send("x")
    with ConnectionFactory(url).connect() as connection, connection.session() as session:
        message = session.create_consumer("q").receive(timeout=60)
        assert message is not None and message.body == "x"


def test_a_connection_that_is_garbage_ends_with_a_warning(broker: Any) -> None:
    before = portal_threads()
    session = ConnectionFactory(broker.url).connect().session()
    session.create_producer("q").send("the session holds what it needs")
    (thread,) = [thread for thread in portal_threads() if thread not in before]
    with pytest.warns(ResourceWarning, match="a connection was not closed, and is ended"):
        del session
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.filterwarnings("error")
def test_a_connection_with_a_listener_is_in_use(url: str) -> None:
    heard = threading.Event()
    with ConnectionFactory(url).connect() as sender, sender.session() as session:
        connection = ConnectionFactory(url).connect()
        close = connection.close
        connection.session().create_consumer("q").set_message_listener(lambda _: heard.set())
        del connection
        session.create_producer("q").send("x")
        assert heard.wait(60)
        close()


def test_a_call_that_comes_behind_the_end_of_the_loop_finds_a_closed_connection() -> None:
    """From a thread that is about to call while another one closes the connection."""

    async def work() -> None:
        raise AssertionError("nothing begins any more")

    async def end() -> None:
        async with trio.open_nursery() as nursery:
            pass
        job.begin(nursery)

    job = Job(work)
    trio.run(end)
    with pytest.raises(ConnectionClosedException):
        job.result()
