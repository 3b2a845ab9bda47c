"""What every byte pipe promises, run over TCP, memory and vm:// pipes, and with TLS."""

from __future__ import annotations

import pytest
import trio

from embedclient.transport import ByteStream, TransportLost
from tests.embedclient.transport.conftest import OpenPipes, open_narrow_pipes, over_tls

_READ_BYTES = 262_144


async def _send_all(stream: ByteStream, data: bytes) -> None:
    view = memoryview(data)
    while view:
        taken = stream.send_nowait(view)
        view = view[taken:]
        if not taken:
            await stream.wait_writable()


async def _receive_exactly(stream: ByteStream, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = await stream.receive(min(count, _READ_BYTES))
        assert part
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


async def _expect(receiver: ByteStream, expected: bytes) -> None:
    assert await _receive_exactly(receiver, len(expected)) == expected


async def test_bytes_arrive_in_order_in_both_directions_at_once(open_pipes: OpenPipes) -> None:
    data = bytes(range(256)) * 8_192  # 2 MiB: more than any buffer between the ends

    async with open_pipes() as (one, other), trio.open_nursery() as nursery:
        for sender, receiver in ((one, other), (other, one)):
            nursery.start_soon(_send_all, sender, data)
            nursery.start_soon(_expect, receiver, data)


async def test_tls_passes_a_pipe_that_holds_less_than_a_record() -> None:
    data = bytes(range(256)) * 512
    async with over_tls(open_narrow_pipes)() as (one, other), trio.open_nursery() as nursery:
        for sender, receiver in ((one, other), (other, one)):
            nursery.start_soon(_send_all, sender, data)
            nursery.start_soon(_expect, receiver, data)


async def test_several_sends_come_out_of_one_receive(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, other):
        for index in range(100):
            assert one.send_nowait(b"%03d" % index) == 3
        received = await _receive_exactly(other, 300)
        assert received == b"".join(b"%03d" % index for index in range(100))


async def test_receive_returns_no_more_than_asked_and_keeps_the_rest(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, other):
        one.send_nowait(b"abcdefghij")
        assert await other.receive(4) == b"abcd"
        assert await other.receive(1) == b"e"
        assert await _receive_exactly(other, 5) == b"fghij"


async def test_the_sender_may_reuse_its_buffer_after_a_send(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, other):
        buffer = bytearray(b"first")
        assert one.send_nowait(buffer) == 5
        buffer[:] = b"other"
        assert await _receive_exactly(other, 5) == b"first"


async def test_a_full_pipe_takes_nothing_and_becomes_writable_when_the_peer_reads(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, other):
        chunk = bytes(65_536)
        total = 0
        while taken := one.send_nowait(chunk):
            total += taken
        with trio.move_on_after(0.01) as scope:
            await one.wait_writable()
        assert scope.cancelled_caught
        # What was not taken is offered again, and then more.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send_all, one, chunk + b"more")
            nursery.start_soon(_expect, other, bytes(total) + chunk + b"more")


async def test_an_orderly_close_delivers_what_was_sent_before_it_and_then_the_end(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, other):
        one.send_nowait(b"last words")
        one.close()
        assert await _receive_exactly(other, 10) == b"last words"
        assert await other.receive(10) == b""
        assert await other.receive(10) == b""


async def test_sending_to_a_closed_peer_is_reported_as_lost(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, other):
        other.close()
        assert await one.receive(1) == b""
        with pytest.raises(TransportLost) as caught:
            for _ in range(10):  # TCP learns it from the answer to the first send
                one.send_nowait(b"anybody there?")
                await one.wait_writable()
        assert caught.value.reason


async def test_a_send_that_fails_leaves_the_buffer_of_the_sender_free(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, other):
        data = bytearray(1_000_000)
        other.close()
        with trio.fail_after(60):
            for _ in range(10):
                try:
                    del data[: one.send_nowait(data)]
                    await one.wait_writable()
                except TransportLost:
                    data.clear()  # while the error, and what its frames refer to, is alive
                    break
        assert not data


async def test_closing_wakes_a_pending_receive_and_a_pending_wait_to_write(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, _other):
        while one.send_nowait(bytes(65_536)):
            pass

        async def receive() -> None:
            with pytest.raises(TransportLost, match="closed here"):
                await one.receive(10)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            nursery.start_soon(one.wait_writable)
            await trio.testing.wait_all_tasks_blocked()
            one.close()


async def test_everything_after_a_local_close_is_refused_and_closing_twice_is_fine(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, _other):
        one.close()
        one.close()
        with pytest.raises(TransportLost, match="closed here"):
            one.send_nowait(b"x")
        with pytest.raises(TransportLost, match="closed here"):
            await one.receive(1)
        await one.wait_writable()


async def test_a_cancelled_receive_loses_no_bytes(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, other):
        one.send_nowait(b"kept")
        await trio.testing.wait_all_tasks_blocked(0.01)
        with trio.CancelScope() as scope:
            scope.cancel()
            await other.receive(10)
        assert scope.cancelled_caught
        assert await _receive_exactly(other, 4) == b"kept"


async def test_receive_and_wait_to_write_always_checkpoint(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, other):
        one.send_nowait(b"ready")
        await trio.testing.wait_all_tasks_blocked(0.01)
        with trio.testing.assert_checkpoints():
            await other.receive(10)
        with trio.testing.assert_checkpoints():
            await one.wait_writable()


async def test_a_pipe_names_its_peer(open_pipes: OpenPipes) -> None:
    async with open_pipes() as (one, other):
        assert one.peer and other.peer
        assert one.peer != other.peer
