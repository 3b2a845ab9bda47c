"""A broker process with fewer file descriptors than peers: the peers at work go on, and so does the broker."""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from embedbroker.runtime._descriptors import DESCRIPTORS_KEPT_FREE
from embedclient import JMSException, Queue
from embedclient.blocking import Connection, ConnectionFactory
from embedclient.wire.core import Ping, encode_packet

LIMIT, PEERS = 256, 400
PING = b"ARTEMIS" + encode_packet(Ping(60_000), 0, 0)
BODY = b"x" * 50_000


@contextmanager
def broker(directory: Path, soft: int, hard: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [
        sys.executable,
        "-m",
        "embedbroker.cli",
        "run",
        "--json",
        "--port",
        "0",
        "--data",
        str(directory / "data"),
    ]
    with (
        (directory / "log").open("w") as log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


def work(connection: Connection, count: int = 20) -> None:
    with connection.session() as session, session.create_consumer(Queue("orders")) as consumer:
        producer = session.create_producer(Queue("orders"))
        for _number in range(count):
            producer.send(BODY)
        for _number in range(count):
            assert consumer.receive(timeout=30) is not None


def idle_peers(url: str, count: int, stack: ExitStack, said: bytes) -> list[socket.socket]:
    host, _, port = url.removeprefix("tcp://").rpartition(":")
    peers = []
    for _number in range(count):
        peer = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
        if said:
            peer.sendall(said)
        peers.append(peer)
    return peers


def leak_all(url: str, stack: ExitStack) -> None:
    """Connect and send a request again and again, until one is refused."""
    answer = b"begin"
    while answer:
        (peer,) = idle_peers(url, 1, stack, b"")
        try:
            peer.sendall(PING)
            answer = peer.recv(65_536)
        except ConnectionError:
            return


def is_open(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return bool(peer.recv(65_536))
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


@pytest.mark.parametrize("said", [b"", b"ARTEMIS\0"], ids=["nothing", "half a request"])
def test_peers_that_send_no_request_give_way_to_those_that_do(said: bytes, tmp_path: Path) -> None:
    with ExitStack() as stack:
        process, url = stack.enter_context(broker(tmp_path, LIMIT, LIMIT))
        factory = ConnectionFactory(f"{url}?reconnectAttempts=0")
        connection = stack.enter_context(factory.connect())
        peers: list[socket.socket] = []
        for _round in range(PEERS // 50):
            peers += idle_peers(url, 50, stack, said)
            work(connection)
        # More than a segment of the journal: the next ones are made and removed meanwhile.
        work(connection, 250)
        with factory.connect() as another:
            work(another)
        opened = [is_open(peer) for peer in peers]
        assert LIMIT - DESCRIPTORS_KEPT_FREE - 40 <= sum(opened) <= LIMIT - DESCRIPTORS_KEPT_FREE
        assert opened == sorted(opened), "the oldest go first"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    log = (tmp_path / "log").read_text()
    assert log.count("\n") == log.count("closed, it has sent no request and another connection needs its room") == 1


def test_when_all_peers_have_sent_requests_the_next_ones_are_refused_and_the_broker_goes_on(tmp_path: Path) -> None:
    with ExitStack() as stack:
        process, url = stack.enter_context(broker(tmp_path, LIMIT, LIMIT))
        factory = ConnectionFactory(f"{url}?reconnectAttempts=0")
        connection = stack.enter_context(factory.connect())
        with ExitStack() as leak:
            leak_all(url, leak)
            # Files are closed meanwhile, and what they leave goes to peers.
            work(connection, 250)
            leak_all(url, leak)
            with pytest.raises(JMSException), factory.connect() as another:
                work(another)
            work(connection)
        # Those that leaked are gone.
        work(connection)
        with ConnectionFactory(f"{url}?initialConnectAttempts=50&retryInterval=100").connect() as another:
            work(another)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert "refuses connections for the moment" in (tmp_path / "log").read_text()


def test_a_broker_process_has_as_many_descriptors_as_it_may_have(tmp_path: Path) -> None:
    with ExitStack() as stack:
        process, url = stack.enter_context(broker(tmp_path, 128, PEERS + 200))
        peers = idle_peers(url, PEERS, stack, b"")
        with ConnectionFactory(f"{url}?reconnectAttempts=0").connect() as connection:
            work(connection)
        assert all(is_open(peer) for peer in peers)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert (tmp_path / "log").read_text() == ""
