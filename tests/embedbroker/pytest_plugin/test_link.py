"""A link holds, delays and cuts, and a pipe keeps TCP's promises meanwhile."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from embedbroker.pytest_plugin import Link
from embedclient.transport import ByteStream, TransportLost


def link_and_pipe() -> tuple[Link, ByteStream, ByteStream]:
    link = Link("of a test", lambda text: None)
    return link, *link.pipe(("client", "broker"))


async def arrives_within(seconds: float, stream: ByteStream) -> bytes | None:
    with trio.move_on_after(seconds):
        return await stream.receive(1 << 20)
    return None


async def test_what_is_delayed_arrives_in_order_and_not_before_its_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, client, broker = link_and_pipe()
    begun = trio.current_time()
    link.delay(2.0, "to_broker")
    client.send_nowait(b"slow")
    link.delay(0.5, "to_broker")
    client.send_nowait(b" late")
    assert await broker.receive(100) == b"slow late"
    assert trio.current_time() - begun == 2.0
    broker.send_nowait(b"quick")
    assert await client.receive(100) == b"quick"
    client.close()
    assert await broker.receive(100) == b""
    assert trio.current_time() - begun == 2.5


async def test_a_partition_holds_everything_back_and_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    link, client, broker = link_and_pipe()
    link.partition("to_broker")
    client.send_nowait(b"held")
    client.close()
    assert await arrives_within(60, broker) is None
    assert broker.send_nowait(b"the other way is open, and nobody knows of the closing") > 0
    link.heal()
    assert await arrives_within(0.1, broker) == b"held"
    assert await arrives_within(0.1, broker) == b""


async def test_a_reader_that_waits_hears_of_the_healing(autojump_clock: trio.testing.MockClock) -> None:
    link, client, broker = link_and_pipe()
    link.partition()
    client.send_nowait(b"held")
    found: list[bytes | None] = []

    async def read() -> None:
        found.append(await broker.receive(100))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        link.heal()
    assert found == [b"held"]


@pytest.mark.parametrize("count", [0, 1, 5, 6])
async def test_a_connection_is_dropped_after_so_many_bytes(count: int, autojump_clock: trio.testing.MockClock) -> None:
    link, client, broker = link_and_pipe()
    link.drop_after(count)
    assert client.send_nowait(b"abc") == 3
    if count > 3:
        assert client.send_nowait(b"def") == 3
    if count:
        assert await broker.receive(100) == b"abcdef"[:count]
    with pytest.raises(TransportLost, match="reset"):
        await broker.receive(100)
    with pytest.raises(TransportLost, match="reset"):
        client.send_nowait(b"more")
    again, there = link.pipe(("client", "broker"))
    again.send_nowait(b"it happens once")
    assert await there.receive(100) == b"it happens once"


async def test_a_cut_loses_what_is_under_way_and_both_sides_learn_of_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    link, client, broker = link_and_pipe()
    client.send_nowait(b"lost")
    link.cut()
    for end in (client, broker):
        with pytest.raises(TransportLost, match="reset"):
            await end.receive(100)
        end.close()
    assert link.connection_count == 0


async def test_a_mistake_is_refused_with_what_would_be_right() -> None:
    link = Link("of a test", lambda text: None)
    with pytest.raises(ValueError, match="zero seconds or more, not -1"):
        link.delay(-1)
    with pytest.raises(ValueError, match="that still pass is zero or more, not -5"):
        link.drop_after(-5)
    with pytest.raises(ValueError, match="'both', 'to_broker', 'from_broker', not 'up'"):
        link.partition("up")  # type: ignore[arg-type]  # a user's mistake
