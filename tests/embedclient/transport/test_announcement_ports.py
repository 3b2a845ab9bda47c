"""Announcements at TCP ports: each place is fetched from on its own, and what is no announcement is passed over."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio
import trio.testing

from embedclient.errors import RemoteProtocolError
from embedclient.model import AnnouncementHosts, AnnouncementPort
from embedclient.transport import SystemDatagrams, TransportLost, _announcement_ports, announcement_in
from embedclient.transport._announcement_ports import PortSender, framed

LOOPBACK = "127.0.0.1"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_announcement_ports, "FETCH_EVERY_S", 0.01)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        listening.listen()
        yield listening.getsockname()[1]


async def sender_at(port: int, port_range: int = 0) -> PortSender:
    opened = await SystemDatagrams().open_sender(AnnouncementPort(port, port_range, bind_address=LOOPBACK))
    assert isinstance(opened, PortSender)
    return opened


def hosts(*ports: int, channel: str = "embedbroker", port_range: int = 0) -> AnnouncementHosts:
    return AnnouncementHosts(tuple(f"{LOOPBACK}:{port}" for port in ports), port_range, channel)


async def until(receive: Callable[[], Awaitable[bytes]], wanted: bytes) -> None:
    with trio.fail_after(60):
        while await receive() != wanted:
            pass


async def test_a_receiver_gets_the_last_announcement_beside_places_that_are_dead_or_hang(silent_port: int) -> None:
    with socket.socket() as dead:  # bound and not listening: connections are refused
        dead.bind((LOOPBACK, 0))
        # The first port of the range is in use, so the sender takes another one.
        sender = await sender_at(silent_port, port_range=20)
        assert silent_port < sender.port <= silent_port + 20
        places = hosts(dead.getsockname()[1], silent_port, port_range=sender.port - silent_port)
        receiver = await SystemDatagrams().open_receiver(places)
        for data in (b"one", b"two" * 20_000):
            sender.send_nowait(data)
            await until(receiver.receive, data)
        sender.close()
        with pytest.raises(TransportLost, match="closed here"):
            sender.send_nowait(b"three")
        again = await sender_at(sender.port)
        again.send_nowait(b"of the next start")
        await until(receiver.receive, b"of the next start")
        receiver.close()
        with pytest.raises(TransportLost, match="closed here"):
            await receiver.receive()
        again.close()


async def test_wrong_data_and_another_channel_are_one_line_each_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "embedclient")
    babbled = 0

    async def babble(stream: trio.SocketStream) -> None:
        nonlocal babbled
        await stream.send_all(b"SSH-2.0-OpenSSH")
        babbled += 1

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host=LOOPBACK)
        port = listener.socket.getsockname()[1]
        another = await sender_at(port, port_range=20)
        another.send_nowait(b"of another group")
        nursery.start_soon(trio.serve_listeners, babble, [listener])
        receiver = await SystemDatagrams().open_receiver(hosts(port, another.port, channel="c"))
        with trio.fail_after(60):
            while caplog.text.count("no announcement of a broker at") < 2 or babbled < 3:
                await trio.lowlevel.checkpoint()
        receiver.close()
        another.close()
        nursery.cancel_scope.cancel()
    lines = sorted(record.getMessage().partition(": ")[2] for record in caplog.records if record.name == "embedclient")
    assert lines == ["something else than an announcement came from there", "the broker there has another channel"]


async def test_a_name_that_hangs_has_one_look_up_and_leaves_the_threads_of_the_program_alone(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, again, count = threading.Event(), threading.Event(), 0

    def hang(host: str | bytes, *_: object, **_options: object) -> list[object]:
        nonlocal count
        if threading.current_thread() is threading.main_thread():
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        count += 1
        if not released.is_set():
            released.wait(10)
        else:
            again.set()
        raise socket.gaierror(socket.EAI_NONAME, "released")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    receivers = [
        await SystemDatagrams().open_receiver(AnnouncementHosts(("hangs.invalid:7800",), port_range=3))
        for _ in range(2)
    ]
    try:
        # Each place is tried five times.
        with trio.move_on_after(5 * _announcement_ports.ANSWER_S):
            await receivers[0].receive()
        assert count == 1
        assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
    finally:
        released.set()
    # The name is looked up again after its end.
    assert await trio.to_thread.run_sync(again.wait, 60)
    for receiver in receivers:
        receiver.close()


async def test_a_port_in_use_is_named_with_the_way_out(silent_port: int) -> None:
    with pytest.raises(OSError, match=f"cannot announce at TCP port {silent_port} on the interface of {LOOPBACK}: .*"):
        await sender_at(silent_port)
    with pytest.raises(OSError, match="the local bind address must be one of this machine"):
        await SystemDatagrams().open_sender(AnnouncementPort(1, bind_address="203.0.113.1"))


def test_a_frame_may_come_in_pieces_and_ends_at_its_first_wrong_byte() -> None:
    frame = framed("c", b"data")
    assert [announcement_in(frame[:end], "c") for end in range(len(frame))] == [None] * len(frame)
    assert announcement_in(frame, "c") == b"data"
    with pytest.raises(RemoteProtocolError, match="another channel"):
        announcement_in(frame[:-4], "d")
    with pytest.raises(RemoteProtocolError, match="something else"):
        announcement_in(b"emb\0", "c")


def test_hosts_that_cannot_be_dialled_are_refused() -> None:
    for host in ("a", "a:", ":1", "a:0", "a:65536", "::1:7800", "a:-1", "", 5):
        with pytest.raises(ValueError, match="must be a host and a port, as in host:7800"):
            AnnouncementHosts((host,))  # type: ignore[arg-type]


async def test_each_end_has_its_own_kind_of_place() -> None:
    with pytest.raises(TypeError, match="a sender has a port"):
        await SystemDatagrams().open_sender(AnnouncementHosts(("a:1",)))
    with pytest.raises(TypeError, match="receivers have a list of hosts"):
        await SystemDatagrams().open_receiver(AnnouncementPort(1))
