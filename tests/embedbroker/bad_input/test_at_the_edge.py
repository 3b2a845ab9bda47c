"""Bad input over real sockets: the connection that brought it ends, with one line in the log. Nothing else changes."""

from __future__ import annotations

import resource
import socket
import struct
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from embedclient.errors import ErrorCode
from embedclient.wire.core import (
    BackupRequest,
    CreateAddress,
    CreateQueueV2,
    DisconnectConsumer,
    ExceptionResponse,
    NullResponse,
    Packet,
    Ping,
    SessionAcknowledge,
    SessionCommit,
    SessionCreateConsumer,
    SessionIndividualAcknowledge,
    SessionQueueQuery,
    SessionQueueQueryResponseV3,
    SessionRollback,
    SessionSend,
    encode_packet,
)
from tests.embedbroker.node.scripted import letter

from .guarded import Intruder, guarded_broker

PING = encode_packet(Ping(60_000), 0, 136)
HEADER = b"\x00\x00\x00"


@pytest.mark.parametrize("vm", [False, True], ids=["tcp", "vm"])
@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 64,
        bytes(64),
        b"\x80\x00\x00\x00" + bytes(60),
        b"hello, is anybody there?\r\n",
        b"ARTEMIS" + b"\xde\xad\xbe\xef" * 16,
        b"ARTEMIS" + PING + b"\x00\x00\x00\x01\x00",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(60),
        bytes(range(256)) * 300,
    ],
    ids=["ones", "zeros", "negative", "text", "garbage behind", "short frame", "ssh", "tls", "ramp"],
)
async def test_garbage(data: bytes, vm: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog) as guarded:
        intruder = await guarded.connect(vm=vm)
        await intruder.send(data)
        await intruder.wait_closed()
        assert len(guarded.lines()) == 1


@pytest.mark.parametrize("length", [100 * 1024 * 1024 + 1, 0x7FFFFFFF])
async def test_a_frame_longer_than_allowed_ends_it_at_once(length: int, caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog) as guarded:
        intruder = await guarded.connect()
        await intruder.open_session()
        await intruder.send(length.to_bytes(4, "big") + bytes(100))
        assert await intruder.wait_closed() == b""
        assert len(guarded.lines()) == 1


async def test_the_longest_frame_is_configured(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog, frame_size_bytes_max=10_000) as guarded:
        intruder = await guarded.connect()
        await intruder.open_session()
        await intruder.send_packets(SessionSend(letter("x" * 9000, "sink", anycast=False), True, -2))
        assert await intruder.next_packet() == NullResponse(-2)
        await intruder.send_packets(SessionSend(letter("x" * 10_000, "sink", anycast=False), True, -3))
        await intruder.wait_closed()
        assert len(guarded.lines()) == 1


@pytest.mark.parametrize("channel", [0, 1, 10])
@pytest.mark.parametrize("packet_type", [0, 99, 119, 0x80])
async def test_unknown_packet_types(channel: int, packet_type: int, caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog) as guarded:
        intruder = await guarded.connect()
        await intruder.open_session()
        await intruder.send((9).to_bytes(4, "big") + bytes([packet_type]) + channel.to_bytes(8, "big"))
        assert await intruder.wait_closed() == b""
        assert len(guarded.lines()) == 1


async def test_packets_of_brokers(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog) as guarded:
        intruder = await guarded.connect()
        await intruder.open_session()
        await intruder.send_packets(BackupRequest(1, None, "x"), channel=3)
        await intruder.wait_closed()
        assert len(guarded.lines()) == 1


async def test_half_a_body_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog) as guarded:
        intruder = await guarded.connect()
        await intruder.open_session()
        whole = encode_packet(SessionQueueQuery("a queue"), 10, 136)
        half = whole[:20]
        await intruder.send((len(half) - 4).to_bytes(4, "big") + half[4:])
        await intruder.wait_closed()
        assert len(guarded.lines()) == 1


async def test_packets_for_channels_that_are_not_open_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog) as guarded:
        intruder = await guarded.connect()
        await intruder.open_session()
        for channel in (11, 4711, 1 << 40, -1):
            await intruder.send_packets(SessionQueueQuery("x"), SessionCommit(-2), channel=channel)
        await intruder.send_packets(SessionQueueQuery("x"), channel=1)
        await intruder.send(PING)
        assert await intruder.next_packet() == Ping(60_000)
        (line,) = guarded.lines()
        assert "for channel 11 was dropped" in line
        await intruder.send_packets(SessionQueueQuery("x"), channel=11)
        await intruder.send(PING)
        assert await intruder.next_packet() == Ping(60_000)
        assert guarded.lines() == []  # already reported
        intruder.stream.close()


@pytest.mark.parametrize(
    ("packet", "answer"),
    [
        (SessionAcknowledge(0, 4711, True), ErrorCode.ILLEGAL_STATE),
        (SessionIndividualAcknowledge(7, 4711, True), ErrorCode.ILLEGAL_STATE),
        (SessionCreateConsumer(1, "witness", "colour = = 'red'", False, True), ErrorCode.INVALID_FILTER_EXPRESSION),
        (SessionCreateConsumer(1, "witness", "(" * 5000, False, True), ErrorCode.INVALID_FILTER_EXPRESSION),
        (SessionCreateConsumer(1, "nowhere", None, False, True), ErrorCode.QUEUE_DOES_NOT_EXIST),
        (SessionCreateConsumer(1, "", None, False, True), ErrorCode.QUEUE_DOES_NOT_EXIST),
        (SessionCreateConsumer(1, "q::", None, False, True), ErrorCode.QUEUE_DOES_NOT_EXIST),
        (SessionCreateConsumer(1, "::", None, False, True), ErrorCode.QUEUE_DOES_NOT_EXIST),
        (CreateQueueV2("", "", None, True, False, True, False, 1), ErrorCode.INVALID_QUEUE_CONFIGURATION),
        (CreateQueueV2("a", "b", "NOT", True, False, True, False, 1), ErrorCode.INVALID_FILTER_EXPRESSION),
        (SessionSend(letter("m", ""), True, -2), ErrorCode.ILLEGAL_STATE),
        (SessionCommit(-2), None),
        (SessionRollback(False), None),
        (CreateAddress("", (), True, False), ErrorCode.ILLEGAL_STATE),
    ],
    ids=[
        "acknowledge what was not delivered",
        "acknowledge with an unknown consumer",
        "wrong selector",
        "deep selector",
        "missing queue",
        "empty queue name",
        "no queue behind the colons",
        "only colons",
        "queue without a name",
        "queue with a wrong filter",
        "send without address",
        "commit without transaction",
        "rollback without transaction",
        "address without a name",
    ],
)
async def test_wrong_requests_are_answered_and_the_connection_lives(
    packet: Packet, answer: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded_broker(caplog) as guarded:
        intruder = await guarded.connect()
        await intruder.open_session()
        await intruder.send_packets(packet)
        reply = await intruder.next_packet()
        if answer is None:
            assert isinstance(reply, NullResponse)
        else:
            assert isinstance(reply, ExceptionResponse) and reply.code == answer
        await intruder.send(PING)
        assert await intruder.next_packet() == Ping(60_000)
        assert guarded.lines() == []  # the requester receives the answer
        intruder.stream.close()


@pytest.mark.parametrize(
    "packet",
    [
        SessionAcknowledge(0, 4711, False),
        SessionIndividualAcknowledge(7, 4711, False),
        SessionCreateConsumer(1, "witness", "colour = = 'red'", False, False),
        SessionCreateConsumer(1, "nowhere", None, False, False),
        CreateQueueV2("a", "b", "NOT", True, False, False, False, 1),
        SessionSend(letter("m", ""), False),
    ],
    ids=[
        "acknowledge what was not delivered",
        "acknowledge with an unknown consumer",
        "wrong selector",
        "missing queue",
        "queue with a wrong filter",
        "send without address",
    ],
)
async def test_wrong_requests_that_nobody_waits_for_are_a_line_in_the_log(
    packet: Packet, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded_broker(caplog) as guarded:
        intruder = await guarded.connect()
        await intruder.open_session()
        await intruder.send_packets(packet)
        await intruder.send(PING)
        if isinstance(packet, SessionCreateConsumer):
            # The client takes its consumer for open until the broker disconnects it.
            assert await intruder.next_packet() == DisconnectConsumer(packet.consumer_id)
        assert await intruder.next_packet() == Ping(60_000)
        (line,) = guarded.lines()
        assert "refused" in line and "127.0.0.1" in line
        intruder.stream.close()


@pytest.mark.parametrize(
    "name",
    ["a" * 5000, "\x00", "\ud800", "a::b::c", "..", "a#", "*b", " ", "a\nb"],
    ids=["long", "nul", "surrogate", "twice qualified", "dots", "hash", "star", "space", "newline"],
)
async def test_odd_addresses_are_names_like_others(name: str, caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog) as guarded:
        intruder = await guarded.connect()
        await intruder.open_session()
        queue = CreateQueueV2(name, name, None, False, True, True, False, 1)
        await intruder.send_packets(queue, SessionSend(letter("m", name), True, -2), SessionQueueQuery(name))
        assert await intruder.next_packet() == NullResponse(-1)
        assert await intruder.next_packet() == NullResponse(-2)
        found = await intruder.next_packet()
        assert isinstance(found, SessionQueueQueryResponseV3)
        # Only the first two colons divide address and queue.
        expected = ("a", "b::c") if name == "a::b::c" else (name, name)
        assert (found.exists, found.message_count, (found.address, found.name)) == (True, 1, expected)
        await intruder.send(PING)
        assert await intruder.next_packet() == Ping(60_000)
        assert guarded.lines() == []
        intruder.stream.close()


async def test_a_port_scan(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog) as guarded:
        for _ in range(50):
            intruder = await guarded.connect()
            await intruder.send(b"ARTE")
            intruder.stream.close()
        await trio.testing.wait_all_tasks_blocked()
        lines = guarded.lines()
        assert len(lines) == 50
        assert all("gone without a handshake, 4 bytes came" in line for line in lines)


def kill(intruder: Intruder, *, reset: bool) -> None:
    """End it as its system would; with a reset where bytes were unread, so without a farewell."""
    if reset:
        assert intruder.socket is not None
        intruder.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    intruder.stream.close()


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_client_killed_in_the_middle_of_a_frame(reset: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog) as guarded:
        for cut in (1, 3, 4, 12, 13, 20, 60):
            intruder = await guarded.connect()
            await intruder.open_session()
            await intruder.send_packets(SessionSend(letter("whole", "sink", anycast=False), False))
            await intruder.send(encode_packet(SessionSend(letter("cut", "sink"), True, -2), 10, 136)[:cut])
            await trio.testing.wait_all_tasks_blocked()
            kill(intruder, reset=reset)
            await trio.testing.wait_all_tasks_blocked()
            (line,) = guarded.lines()
            assert f"in the middle of a frame, of which {cut} bytes came" in line


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_client_killed_in_the_middle_of_its_work(reset: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog) as guarded:
        intruder = await guarded.connect()
        await intruder.open_session()
        await intruder.send_packets(
            CreateQueueV2("t", "t", None, False, True, False, False, 1),
            *[SessionSend(letter("x" * 1000, "t"), False)] * 20,
            SessionCreateConsumer(0, "t", None, False, False),
        )
        await intruder.send(PING)
        assert await intruder.next_packet() == Ping(60_000)
        assert guarded.holdings()[-1] > 20_000
        kill(intruder, reset=reset)
        await trio.testing.wait_all_tasks_blocked()
        assert guarded.lines() == []  # clients go without a word every day: only half a frame is worth a line


async def test_a_thousand_silent_connections(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    async with guarded_broker(caplog, handshake_timeout_ms=300) as guarded:
        silent = [await guarded.connect(vm=True) for _ in range(1000)]
        await guarded.look()
        for intruder in silent:
            await intruder.wait_closed()
        lines = guarded.lines()
        assert len(lines) == 1000 and "no handshake" in lines[0]


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both ends of a thousand sockets are open files of this process; shells often allow 1,024."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 4096:
        # Only the system's owner can allow more. The test above meets as many peers without a socket.
        pytest.skip(f"no more than {before[1]} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 4096), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_files")
async def test_a_thousand_silent_sockets_leave_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog) as guarded:
        silent = [await guarded.connect() for _ in range(1000)]
        await guarded.look()
        for intruder in silent:
            intruder.stream.close()


async def test_more_connections_than_allowed(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog, connections_max=5) as guarded:
        silent = [await guarded.connect() for _ in range(4)]
        for intruder in silent:
            await intruder.send(b"ARTEMIS" + PING)
            await intruder.next_packet()
        late = await guarded.connect()
        await late.wait_closed()
        assert len(guarded.lines()) == 1
        for intruder in silent:
            intruder.stream.close()


async def test_a_peer_that_does_not_read(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    async with guarded_broker(caplog, output_bytes_max=100_000, output_high_water_bytes=50_000) as guarded:
        intruder = await guarded.connect(vm=True)
        await intruder.open_session()
        for _ in range(400):
            await intruder.send(PING * 100)
            await trio.lowlevel.checkpoint()
        assert sum("it does not read" in line for line in guarded.lines()) == 1
        await intruder.wait_closed()
