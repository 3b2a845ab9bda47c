"""What only TCP has: names, ports, refusals, time-outs, and a shortage of file descriptors."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import trio

from embedclient.model import TransportConfiguration
from embedclient.transport import TransportLost, connect_tcp, dial, listen_tcp, reserve_tcp
from embedclient.transport._tcp import TcpListener


async def test_port_0_listens_on_a_free_port_and_tells_it() -> None:
    (listener,) = await listen_tcp("127.0.0.1", 0)
    assert listener.port > 0
    assert listener.address == f"127.0.0.1:{listener.port}"
    listener.close()


async def test_all_addresses_of_a_name_share_the_free_port() -> None:
    listeners = await listen_tcp("localhost", 0)
    assert len({listener.port for listener in listeners}) == 1
    for listener in listeners:
        listener.close()


async def test_a_taken_port_is_named_in_the_error() -> None:
    (listener,) = await listen_tcp("127.0.0.1", 0)
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{listener.port}") as caught:
        await listen_tcp("127.0.0.1", listener.port)
    assert caught.value.errno == errno.EADDRINUSE
    listener.close()


async def test_a_refused_connection_names_the_address() -> None:
    (listener,) = await listen_tcp("127.0.0.1", 0)
    port = listener.port
    listener.close()
    with pytest.raises(TransportLost, match=rf"cannot connect to 127.0.0.1:{port}.*refused"):
        await connect_tcp("127.0.0.1", port, timeout_s=5)


async def test_an_unknown_name_is_reported_as_lost() -> None:
    with pytest.raises(TransportLost, match=r"cannot connect to no-such-host\.invalid:1"):
        await connect_tcp("no-such-host.invalid", 1, timeout_s=30)


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".invalid", "nul\0.invalid", "\udcff"])
async def test_what_cannot_be_a_name_is_an_unknown_name(host: str) -> None:
    with pytest.raises(TransportLost, match=r"cannot connect to .*(is not the name of a host|not known)"):
        await connect_tcp(host, 1, timeout_s=30)
    with pytest.raises(TransportLost, match=r"cannot connect to .*(is not the name of a host|not known)"):
        await connect_tcp("127.0.0.1", 1, timeout_s=30, local_address=(host, 0))
    with pytest.raises(OSError, match=r"is not the name of a host|not known"):
        await listen_tcp(host, 0)


@pytest.mark.parametrize("name", ["\0", "nul\0.invalid", "a..b", "a" * 64, "\udcff", ""])
async def test_a_requested_name_that_no_host_has_is_reported_as_lost(name: str) -> None:
    """A peer may announce any name, and its connector is dialled without a person in between."""
    connector = TransportConfiguration("c", parameters={"port": 1, "sslEnabled": "true", "sniHost": name})
    with pytest.raises(TransportLost, match="cannot connect to localhost:1"):
        await dial(connector, 5)


async def test_the_name_of_the_near_end_is_looked_up_within_the_time_of_the_attempt() -> None:
    class Silent(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *_: object) -> list[Any]:
            await trio.sleep_forever()
            raise AssertionError("for ever")

        async def getnameinfo(self, *_: object) -> tuple[str, str]:
            raise AssertionError("not called")

    trio.socket.set_custom_hostname_resolver(Silent())
    try:
        with pytest.raises(TransportLost, match=r"looking up the name took over 0\.05 s"):
            await connect_tcp("127.0.0.1", 1, timeout_s=0.05, local_address=("near.invalid", 0))
    finally:
        trio.socket.set_custom_hostname_resolver(None)


async def test_a_near_end_of_another_kind_is_named() -> None:
    [listener] = await listen_tcp("127.0.0.1", 0)
    with pytest.raises(TransportLost, match="the local address '::1' is of another kind"):
        await connect_tcp("127.0.0.1", listener.port, timeout_s=5, local_address=("::1", 0))
    listener.close()


class _Directory(trio.abc.HostnameResolver):
    """Resolves one name, with an address of a family that this kernel does not have in front of a good one."""

    unusable = (12345, socket.SOCK_STREAM, 0, "", ("address of another kind", 1))

    def __init__(self, *ports: int) -> None:
        self._good = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]

    async def getaddrinfo(self, *_: object) -> list[Any]:
        return [self.unusable, *self._good]

    async def getnameinfo(self, *_: object) -> tuple[str, str]:
        raise NotImplementedError


async def test_an_address_that_this_machine_has_no_sockets_for_is_passed_over() -> None:
    (listener,) = await listen_tcp("127.0.0.1", 0)
    trio.socket.set_custom_hostname_resolver(_Directory(listener.port))
    client = await connect_tcp("mixed.example", 1, timeout_s=5)
    assert client.peer == listener.address
    client.close()
    listener.close()


async def test_a_host_with_nothing_but_such_addresses_is_reported_as_lost() -> None:
    trio.socket.set_custom_hostname_resolver(_Directory())
    with pytest.raises(TransportLost, match="address of another kind:1: Address family not supported"):
        await connect_tcp("unusable.example", 1, timeout_s=5)


async def test_a_server_that_never_answers_costs_only_the_time_out() -> None:
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    port = full.getsockname()[1]
    waiting = [socket.socket() for _ in range(4)]
    for filler in waiting:  # the backlog is full: further handshakes get no answer
        filler.setblocking(False)
        filler.connect_ex(("127.0.0.1", port))
    with pytest.raises(TransportLost, match="no answer within"):
        await connect_tcp("127.0.0.1", port, timeout_s=0.05)
    for filler in waiting:
        filler.close()
    full.close()


async def test_a_connection_can_start_from_a_given_local_address() -> None:
    (listener,) = await listen_tcp("127.0.0.1", 0)
    client = await connect_tcp("127.0.0.1", listener.port, timeout_s=5, local_address=("127.0.0.2", 0))
    server = await listener.accept()
    assert server.peer.startswith("127.0.0.2:")
    client.close()
    server.close()
    listener.close()


async def test_closing_a_listener_wakes_its_acceptor() -> None:
    (listener,) = await listen_tcp("127.0.0.1", 0)

    async def accept() -> None:
        with pytest.raises(TransportLost, match="listener closed"):
            await listener.accept()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        await trio.testing.wait_all_tasks_blocked()
        listener.close()
        listener.close()


class _SocketWithoutDescriptors(socket.socket):
    """Runs out of descriptors for a while, as a process at its limit does."""

    failures = [errno.EMFILE, errno.EMFILE, errno.ECONNABORTED]

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        if self.failures:
            raise OSError(self.failures.pop(0), "scripted")
        return super().accept()


async def test_accepting_on_a_listener_that_is_closed_already_says_so() -> None:
    (listener,) = await listen_tcp("127.0.0.1", 0)
    listener.close()
    with pytest.raises(TransportLost, match="listener closed here"):
        await listener.accept()


async def test_a_shortage_of_descriptors_and_a_peer_that_gave_up_do_not_stop_the_listener(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.ERROR, "embedclient")
    bound = _SocketWithoutDescriptors()
    bound.bind(("127.0.0.1", 0))
    bound.listen()
    bound.setblocking(False)
    listener = TcpListener(bound, no_delay=True)
    client = await connect_tcp("127.0.0.1", listener.port, timeout_s=5)
    server = await listener.accept()
    assert _SocketWithoutDescriptors.failures == []
    assert [record.getMessage() for record in caplog.records] == [
        f"{listener.address} accepts no connection for the moment: scripted"
    ]
    client.close()
    server.close()
    listener.close()


async def test_a_listener_lets_a_peer_go_when_descriptors_run_out(autojump_clock: trio.testing.MockClock) -> None:
    bound = _SocketWithoutDescriptors()
    bound.bind(("127.0.0.1", 0))
    bound.listen()
    bound.setblocking(False)
    listener = TcpListener(bound, no_delay=True)
    _SocketWithoutDescriptors.failures[:] = [errno.EMFILE, errno.EMFILE, errno.ENFILE]
    answers = [True, True, False]
    listener.keep_free(0, lambda: answers.pop(0))
    client = await connect_tcp("127.0.0.1", listener.port, timeout_s=5)
    began = trio.current_time()
    (await listener.accept()).close()
    assert answers == [] and trio.current_time() - began == pytest.approx(0.1), "a pause only when no peer could go"
    client.close()
    listener.close()


def accepted_descriptors(port: int) -> list[int]:
    """Descriptors of this process with a connection that a listener at a port has accepted."""
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError), socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as same:
            if same.getsockname()[1:2] == (port,) and same.getpeername():
                found.append(number)
    return found


async def test_what_is_accepted_leaves_descriptors_to_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (listener,) = await listen_tcp("127.0.0.1", 0)
    clients, servers = [await connect_tcp("127.0.0.1", listener.port)], [await listener.accept()]
    (first,) = accepted_descriptors(listener.port)
    end = first + 1
    monkeypatch.setattr("resource.getrlimit", lambda _which: (end + 5, 5_000))

    def let_go() -> bool:
        if servers:
            servers.pop().close()
            return True
        return False

    listener.keep_free(5, let_go)
    clients.append(await connect_tcp("127.0.0.1", listener.port))
    accepted = await listener.accept()
    assert max(accepted_descriptors(listener.port)) < end and servers == []
    assert await clients[0].receive(1) == b""
    # No peer can go: the next one is sent away, and the one after that comes when there is room.
    clients.append(await connect_tcp("127.0.0.1", listener.port))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.accept)
        with suppress(TransportLost):
            assert await clients[2].receive(1) == b""
        nursery.cancel_scope.cancel()
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
        f"{listener.address} refuses connections for the moment: {end} file descriptors are in use, and the rest is"
        " for files"
    ]
    clients.append(await connect_tcp("127.0.0.1", listener.port))
    accepted.close()
    (await listener.accept()).close()
    for client in clients:
        client.close()
    listener.close()


async def test_a_reset_by_the_peer_is_lost_and_not_an_orderly_end() -> None:
    (listener,) = await listen_tcp("127.0.0.1", 0)
    raw = socket.create_connection(("127.0.0.1", listener.port))
    server = await listener.accept()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    raw.close()
    with pytest.raises(TransportLost, match="reset"):
        await server.receive(10)
    server.close()
    listener.close()


async def test_a_reserved_address_lets_nobody_in_until_it_listens_and_nobody_else_gets_it() -> None:
    reservation = await reserve_tcp("127.0.0.1", 0)
    with pytest.raises(TransportLost, match="refused"):
        await connect_tcp("127.0.0.1", reservation.port)
    (listener,) = reservation.listen()
    assert listener.port == reservation.port
    reservation.close()  # it has nothing any more that could be closed
    stream = await connect_tcp("127.0.0.1", listener.port)
    accepted = await listener.accept()
    for each in (stream, accepted, listener):
        each.close()


async def test_a_reservation_that_was_given_back_is_free() -> None:
    reservation = await reserve_tcp("127.0.0.1", 0)
    reservation.close()
    (listener,) = await listen_tcp("127.0.0.1", reservation.port)
    listener.close()


async def test_an_address_that_was_listened_at_is_taken_again_while_connections_last() -> None:
    reservation = await reserve_tcp("127.0.0.1", 0)
    (listener,) = reservation.listen()
    stream = await connect_tcp("127.0.0.1", listener.port)
    accepted = await listener.accept()
    listener.close()
    reservation.take_back()
    with pytest.raises(TransportLost, match="refused"):
        await connect_tcp("127.0.0.1", reservation.port)
    (again,) = reservation.listen()
    assert again.port == listener.port
    for each in (stream, accepted, again):
        each.close()


async def test_an_address_that_somebody_else_took_meanwhile_is_not_taken_again() -> None:
    reservation = await reserve_tcp("127.0.0.1", 0)
    (listener,) = reservation.listen()
    listener.close()
    (other,) = await listen_tcp("127.0.0.1", reservation.port)
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{reservation.port}: "):
        reservation.take_back()
    other.close()


async def test_a_reservation_of_an_address_where_somebody_listens_is_refused() -> None:
    (listener,) = await listen_tcp("127.0.0.1", 0)
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{listener.port}: "):
        await reserve_tcp("127.0.0.1", listener.port)
    listener.close()


_ACCEPTS_EVERYBODY = """
import trio
from embedclient.transport import listen_tcp

async def main():
    (listener,) = await listen_tcp("127.0.0.1", 0)
    print(listener.port, flush=True)
    streams = []
    while True:
        streams.append(await listener.accept())
        print("accepted", flush=True)

trio.run(main)
"""


def test_who_loses_a_connection_to_a_killed_process_finds_nobody_listening_any_more() -> None:
    """Let in once more, a Java client would wait for the dying process as long as a call may take."""
    process = subprocess.Popen([sys.executable, "-c", _ACCEPTS_EVERYBODY], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = "127.0.0.1", int(process.stdout.readline())
    with ExitStack() as stack:
        stack.enter_context(process)
        clients = []
        for _ in range(20):
            clients.append(stack.enter_context(socket.create_connection(address, timeout=60)))
            assert process.stdout.readline() == "accepted\n"
        process.kill()
        for client in reversed(clients):
            with suppress(ConnectionResetError):
                assert client.recv(1) == b""
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)


async def test_a_listener_that_may_have_no_higher_descriptor_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "so many are not allowed")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    (listener,) = await listen_tcp("127.0.0.1", 0)
    for _ in range(2):
        client = await connect_tcp("127.0.0.1", listener.port)
        (await listener.accept()).close()
        client.close()
    listener.close()
