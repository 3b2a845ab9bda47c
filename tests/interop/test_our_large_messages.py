"""Large messages of `embedclient` against a real Artemis, with Java as the peer."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from struct import pack
from uuid import uuid4

import pytest
import trio

import embedclient.asyncio
import embedclient.blocking
from embedclient import (
    AcknowledgeMode,
    Body,
    BytesMessage,
    ConnectionFactory,
    MapMessage,
    Message,
    MessageConsumer,
    Queue,
    ServerLocator,
    TextMessage,
    errors,
)
from embedclient.errors import BodyTooLargeException, JMSException
from tests.interop.artemis import ArtemisBroker
from tests.interop.jms_matrix import JmsMatrix
from tests.interop.relay import Relay
from tests.interop.test_our_client import session_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

MIB = 1 << 20
WAIT = 20.0
PIECE = 8192
STREAMED = "maxLargeMessageBodySize=0"
RECONNECT = "reconnectAttempts=-1&retryInterval=50"
REATTACH = f"{RECONNECT}&confirmationWindowSize=1048576"


@pytest.fixture
def name() -> str:
    return f"our-large-{uuid4().hex[:8]}"


@pytest.fixture
def relay_to_artemis(artemis: ArtemisBroker) -> Iterator[Relay]:
    with Relay(artemis.port) as running:
        yield running


def numbers(size: int) -> Iterator[bytes]:
    """Numbers of eight bytes, from zero on: a body that both ends can make and compare."""
    for at in range(0, size, PIECE):
        yield pack(f">{PIECE // 8}q", *range(at // 8, (at + PIECE) // 8))


async def numbers_later(size: int) -> AsyncIterator[bytes]:
    for piece in numbers(size):
        yield piece


async def following(consumer: MessageConsumer) -> Message:
    message = await consumer.receive(timeout=WAIT)
    assert message is not None, "no message came"
    return message


async def check(message: Message, size: int) -> None:
    """The body is the numbers."""
    expected = numbers(size)
    gathered = bytearray()
    async for piece in message.chunks():
        gathered += piece
        while len(gathered) >= PIECE:
            assert gathered[:PIECE] == next(expected)
            del gathered[:PIECE]
    assert (bytes(gathered), next(expected, None)) == (b"", None)


@pytest.mark.parametrize("compressed", ["", "&compressLargeMessage=true"], ids=["plain", "compressed"])
async def test_bodies_of_every_kind_come_back(artemis: ArtemisBroker, name: str, compressed: str) -> None:
    bodies: list[Body] = [b"".join(numbers(MIB)), "ü😀" * 200_000, {"b": b"z" * 300_000, "n": 1}, [b"y" * 300_000, "x"]]
    async with session_of(f"{artemis.url}?{compressed}") as session, session.create_consumer(Queue(name)) as consumer:
        producer = session.create_producer(Queue(name))
        for body in bodies:
            await producer.send(body)
        for body in bodies:
            assert (await following(consumer)).body == body


@pytest.mark.parametrize("readable", ["file", "iterator", "async-iterator", "async-file"])
@pytest.mark.parametrize("size", [0, PIECE, MIB])
async def test_readables_of_every_kind_are_sent(
    artemis: ArtemisBroker, name: str, tmp_path: Path, readable: str, size: int
) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"".join(numbers(size)))
    seen: list[tuple[int, int | None]] = []
    async with session_of(artemis.url) as session, session.create_consumer(Queue(name)) as consumer:
        producer = session.create_producer(Queue(name))
        with path.open("rb") as file:
            match readable:
                case "file":
                    await producer.send(BytesMessage(file, properties={"n": 1}), progress=lambda *at: seen.append(at))
                case "iterator":
                    await producer.send(numbers(size), progress=lambda *at: seen.append(at))
                case "async-iterator":
                    await producer.send(numbers_later(size), progress=lambda *at: seen.append(at))
                case _:
                    async with await trio.open_file(path, "rb") as later:
                        await producer.send(later, progress=lambda *at: seen.append(at))
        got = await following(consumer)
        assert isinstance(got, BytesMessage)
        assert got.body == path.read_bytes()
    assert seen[-1] == (size, size if "file" in readable else None)
    assert all(before[0] <= after[0] for before, after in pairwise(seen))


async def test_java_reads_what_python_streams_and_the_other_way_round(
    artemis: ArtemisBroker, matrices: dict[str, JmsMatrix], tmp_path: Path
) -> None:
    matrix = matrices.get("2.44.0") or matrices.setdefault("2.44.0", JmsMatrix("2.44.0"))
    run = partial(matrix.run, url=artemis.url, answers={})
    async with (
        session_of(f"{artemis.url}?maxLargeMessageBodySize=4194304") as session,
        session_of(f"{artemis.url}?compressLargeMessage=true") as compressing,
    ):
        to_java = Queue("large-python-to-java")
        for sender, size in ((session, MIB), (session, 100 * MIB), (compressing, 8 * MIB)):
            message = BytesMessage(numbers(size), properties={"size": size})
            await sender.create_producer(to_java).send(message)
        producer = session.create_producer(to_java)
        await producer.send(TextMessage("ü😀" * 200_000))
        await producer.send(MapMessage({"b": b"z" * 300_000}))
        failure = await trio.to_thread.run_sync(partial(run, "takes-large-from-python"))
        assert failure is None, failure
        failure = await trio.to_thread.run_sync(partial(run, "leaves-large-for-python"))
        assert failure is None, failure
        async with session.create_consumer(Queue("large-java-to-python")) as consumer:
            for size in (100 * MIB, 8 * MIB):
                await check(await following(consumer), MIB)
                large = await following(consumer)
                with pytest.raises(BodyTooLargeException, match="maxLargeMessageBodySize"):
                    _ = large.body
                await large.save_to(tmp_path / "large")
                with (tmp_path / "large").open("rb") as file:
                    assert all(file.read(PIECE) == piece for piece in numbers(size))
                    assert file.read(1) == b""
                assert (await following(consumer)).body == "ü😀" * 200_000
                assert "o" * 200_000 in str((await following(consumer)).body)


MEMORY_PROGRAM = """
import resource, sys
from pathlib import Path
import trio
from embedclient import ConnectionFactory, Queue

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

async def main(url, name, path):
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
        session.create_consumer(Queue(name)) as consumer,
    ):
        producer = session.create_producer(Queue(name))
        await producer.send(bytes(1 << 20))
        await (await consumer.receive()).save_to(path)
        before = peak()
        await producer.send(bytes(1 << 20) for _ in range(100))
        sent = peak()
        await (await consumer.receive()).save_to(path)
        print(sent - before, peak() - before, Path(path).stat().st_size)

trio.run(main, *sys.argv[1:])
"""


async def test_a_hundred_mebibytes_take_a_few_of_memory(artemis: ArtemisBroker, name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", MEMORY_PROGRAM, artemis.url, name, str(tmp_path / "body")]
    done = await trio.run_process(command, capture_stdout=True)
    sent, saved, size = map(int, done.stdout.split())
    assert size == 100 * MIB
    assert max(sent, saved) <= 16, (sent, saved)


async def test_a_readable_that_fails_sends_nothing_and_the_session_goes_on(artemis: ArtemisBroker, name: str) -> None:
    def failing() -> Iterator[bytes]:
        yield from numbers(MIB)
        raise OSError("the disk is gone")

    async with session_of(artemis.url) as session, session.create_consumer(Queue(name)) as consumer:
        producer = session.create_producer(Queue(name))
        for _ in range(2):
            with pytest.raises(OSError, match="the disk is gone"):
                await producer.send(failing())
        await producer.send("small")
        await producer.send(numbers(MIB))
        assert (await following(consumer)).body == "small"
        await check(await following(consumer), MIB)
        assert await consumer.receive_nowait() is None


async def test_a_transaction_with_large_messages_is_seen_whole_or_not_at_all(artemis: ArtemisBroker, name: str) -> None:
    async with (
        session_of(artemis.url, transacted=True) as session,
        session_of(artemis.url) as other,
        other.create_consumer(Queue(name)) as consumer,
    ):
        producer = session.create_producer(Queue(name))
        await producer.send(numbers(MIB))
        await session.rollback()
        await producer.send(numbers(2 * MIB))
        assert await consumer.receive_nowait() is None
        await session.commit()
        await check(await following(consumer), 2 * MIB)


@pytest.mark.parametrize("window", [0, 1, 5_000, 1 << 20, -1])
@pytest.mark.parametrize("streamed", [False, True], ids=["loaded", "streamed"])
async def test_every_consumer_window_receives_large_and_small(
    artemis: ArtemisBroker, name: str, window: int, streamed: bool
) -> None:
    url = f"{artemis.url}?consumerWindowSize={window}{'&' + STREAMED if streamed else ''}"
    async with session_of(url) as session:
        producer = session.create_producer(Queue(name))
        for number in range(3):
            await producer.send(numbers(2 * MIB))
            await producer.send(f"small {number}")
        async with session.create_consumer(Queue(name)) as consumer:
            for number in range(3):
                large = await consumer.receive_nowait() if number == 1 else await following(consumer)
                assert large is not None
                await check(large, 2 * MIB)
                assert (await following(consumer)).body == f"small {number}"
            assert await consumer.receive_nowait() is None


@pytest.mark.parametrize("window", [0, 5_000, 1 << 20])
async def test_a_body_that_is_not_read_is_dropped_by_the_next_receive(
    artemis: ArtemisBroker, name: str, window: int
) -> None:
    async with session_of(f"{artemis.url}?consumerWindowSize={window}&{STREAMED}") as session:
        producer = session.create_producer(Queue(name))
        await producer.send(numbers(3 * MIB))
        await producer.send("small")
        async with session.create_consumer(Queue(name)) as consumer:
            large = await following(consumer)
            pieces = large.chunks()
            assert await anext(pieces)
            assert (await following(consumer)).body == "small"
            with pytest.raises(JMSException, match="dropped"):
                async for _ in pieces:
                    pass
        async with session.create_consumer(Queue(name)) as consumer:
            assert await consumer.receive_nowait() is None


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK, AcknowledgeMode.CLIENT])
async def test_a_consumer_that_closes_in_the_middle_of_a_body_returns_the_message(
    artemis: ArtemisBroker, name: str, mode: AcknowledgeMode
) -> None:
    async with session_of(f"{artemis.url}?{STREAMED}", mode=mode) as session:
        await session.create_producer(Queue(name)).send(numbers(3 * MIB))
        async with session.create_consumer(Queue(name)) as consumer:
            pieces = (await following(consumer)).chunks()
            assert await anext(pieces)
        with pytest.raises(JMSException, match="closed"):
            async for _ in pieces:
                pass
        if mode is AcknowledgeMode.CLIENT:
            await session.recover()  # the message counts as received until then, as in Java
        async with session.create_consumer(Queue(name)) as consumer:
            again = await following(consumer)
            await check(again, 3 * MIB)
            await again.acknowledge()
            assert await consumer.receive_nowait() is None


async def test_a_rollback_in_the_middle_of_a_body_brings_the_message_again(artemis: ArtemisBroker, name: str) -> None:
    async with session_of(f"{artemis.url}?{STREAMED}", transacted=True) as session:
        await session.create_producer(Queue(name)).send(numbers(3 * MIB))
        await session.commit()
        async with session.create_consumer(Queue(name)) as consumer:
            pieces = (await following(consumer)).chunks()
            assert await anext(pieces)
            await session.rollback()
            with pytest.raises(JMSException, match="again") as caught:
                await anext(pieces)
            assert caught.value.error_code == errors.ErrorCode.LARGE_MESSAGE_INTERRUPTED
            again = await following(consumer)
            assert again.redelivered
            await check(again, 3 * MIB)
            await session.commit()
            assert await consumer.receive_nowait() is None


@pytest.mark.parametrize("settings", [RECONNECT, REATTACH], ids=["rebuilt", "reattached"])
async def test_a_cut_in_the_middle_of_a_body_loses_nothing(
    artemis: ArtemisBroker, relay_to_artemis: Relay, name: str, settings: str
) -> None:
    """The broker repeats chunks of a reattached session with the bytes of later ones: it is made again."""
    url = f"tcp://127.0.0.1:{relay_to_artemis.port}?{settings}&{STREAMED}"
    async with session_of(url) as session, session.create_consumer(Queue(name)) as consumer:
        await session.create_producer(Queue(name)).send(numbers(4 * MIB))
        pieces = (await following(consumer)).chunks()
        assert await anext(pieces)
        relay_to_artemis.cut()
        whole = True
        try:
            async for _ in pieces:
                pass
        except JMSException as error:
            assert error.error_code == errors.ErrorCode.LARGE_MESSAGE_INTERRUPTED
            whole = False
        if not whole:
            again = await following(consumer)
            await check(again, 4 * MIB)
        assert await consumer.receive_nowait() is None


@pytest.mark.parametrize("settings", [RECONNECT, REATTACH], ids=["rebuilt", "reattached"])
@pytest.mark.parametrize("seekable", [True, False], ids=["file", "iterator"])
async def test_a_cut_in_the_middle_of_an_upload(
    artemis: ArtemisBroker, relay_to_artemis: Relay, name: str, settings: str, seekable: bool
) -> None:
    cuts = [2 * MIB]

    def cut(done: int, _: int | None) -> None:
        if cuts and done >= cuts[0]:
            cuts.pop()
            relay_to_artemis.cut()

    url = f"tcp://127.0.0.1:{relay_to_artemis.port}?{settings}"
    async with session_of(url) as session, session.create_consumer(Queue(name)) as consumer:
        producer = session.create_producer(Queue(name))
        body = io.BytesIO(b"".join(numbers(4 * MIB))) if seekable else numbers(4 * MIB)
        if seekable or settings == REATTACH:
            await producer.send(body, progress=cut)
        else:
            with pytest.raises(JMSException, match="send it again with a new body") as caught:
                await producer.send(body, progress=cut)
            assert caught.value.error_code == errors.ErrorCode.LARGE_MESSAGE_INTERRUPTED
            await producer.send(numbers(4 * MIB))
        assert not cuts
        await check(await following(consumer), 4 * MIB)
        assert await consumer.receive_nowait() is None


async def test_messages_that_are_passed_on_stream_through(artemis: ArtemisBroker, name: str) -> None:
    async with session_of(f"{artemis.url}?{STREAMED}") as session:
        await session.create_producer(Queue(name)).send(BytesMessage(numbers(3 * MIB), properties={"n": 7}))
        async with (
            session.create_consumer(Queue(name)) as consumer,
            session.create_consumer(Queue(f"{name}-2")) as second,
        ):
            await session.create_producer(Queue(f"{name}-2")).send(await following(consumer))
            got = await following(second)
            assert got.properties["n"] == 7
            await check(got, 3 * MIB)


async def test_listeners_and_browsers_read_large_messages(artemis: ArtemisBroker, name: str) -> None:
    sizes: list[int] = []
    done = trio.Event()

    async def listener(message: Message) -> None:
        sizes.append(len(b"".join([piece async for piece in message.chunks()])))
        if len(sizes) == 2:
            done.set()

    async with session_of(f"{artemis.url}?{STREAMED}") as session:
        producer = session.create_producer(Queue(name))
        for _ in range(2):
            await producer.send(numbers(2 * MIB))
        async with session.create_browser(Queue(name)) as browser:
            async for message in browser:
                await check(message, 2 * MIB)
        async with session.create_consumer(Queue(name)) as consumer:
            consumer.set_message_listener(listener)
            await done.wait()
    assert sizes == [2 * MIB] * 2


async def test_the_core_layer_streams_too(artemis: ArtemisBroker, name: str, tmp_path: Path) -> None:
    async with (
        ConnectionFactory(artemis.url).connect() as connection,
        connection.session() as session,
        ServerLocator(f"{artemis.url}?{STREAMED}").create_session_factory() as factory,
    ):
        for _ in range(2):
            await session.create_producer(Queue(name)).send(numbers(3 * MIB))
        core = await factory.create_session()
        await core.start()
        consumer = await core.create_consumer(name)
        for _ in range(2):
            message = await consumer.receive(timeout=WAIT)
            assert message is not None
            with pytest.raises(BodyTooLargeException):
                _ = message.body
            await message.save_to(tmp_path / "body")
            assert (tmp_path / "body").read_bytes() == b"".join(numbers(3 * MIB))
            await message.acknowledge()
        with pytest.raises(BodyTooLargeException):
            await session.create_producer(Queue(name)).send(numbers(3 * MIB))
            await consumer.receive_encoded()
        assert await consumer.receive(timeout=WAIT) is not None


def asyncio_program(url: str, name: str, path: Path) -> int:
    async def main() -> int:
        async with (
            embedclient.asyncio.ConnectionFactory(url).connect() as connection,
            connection.session() as session,
            session.create_consumer(Queue(name)) as consumer,
        ):
            producer = session.create_producer(Queue(name))
            with path.open("rb") as file:
                await producer.send(file)
                file.seek(0)
                await producer.send(file)
            await (await following(consumer)).save_to(path)
            return len(b"".join([piece async for piece in (await following(consumer)).chunks()]))

    return asyncio.run(main())


def blocking_program(url: str, name: str, path: Path) -> int:
    seen: list[tuple[int, int | None]] = []
    with (
        embedclient.blocking.ConnectionFactory(url).connect() as connection,
        connection.session() as session,
        session.create_consumer(Queue(name)) as consumer,
    ):
        producer = session.create_producer(Queue(name))
        with path.open("rb") as file:
            producer.send(file, progress=lambda *at: seen.append(at))
            producer.send(numbers(3 * MIB))
        first, second = consumer.receive(timeout=WAIT), None
        assert first is not None
        assert first.save_to(path) is None
        second = consumer.receive(timeout=WAIT)
        assert second is not None
        assert seen[-1] == (3 * MIB, 3 * MIB)
        return len(b"".join(second.chunks()))


@pytest.mark.parametrize("program", [asyncio_program, blocking_program], ids=["asyncio", "blocking"])
@pytest.mark.parametrize("streamed", ["", STREAMED], ids=["loaded", "streamed"])
def test_the_other_facades(
    artemis: ArtemisBroker, name: str, tmp_path: Path, program: Callable[[str, str, Path], int], streamed: str
) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"".join(numbers(3 * MIB)))
    assert program(f"{artemis.url}?{streamed}", name, path) == 3 * MIB
    assert path.read_bytes() == b"".join(numbers(3 * MIB))
