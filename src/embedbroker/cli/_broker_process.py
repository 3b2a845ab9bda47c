"""`embedbroker run` as a child process, for commands that need their own broker, and free ports for such brokers.

Responsible for the child's port, its ready line, its end and its stderr. Does not depend on its purpose.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import trio

from ._failure import CannotStart

__all__ = ["BrokerProcess", "free_port", "free_ports"]

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
_LINE_BYTES_MAX = 65_536


#: Ports below the range of automatic ports.
PORTS = range(15_000, 30_000)


def free_port(candidates: Iterable[int]) -> int:
    """Return the first of ``candidates`` on 127.0.0.1 that is free.

    A broker that comes back on its port needs a port below the range of automatic ports. Clients that dial while it is
    down could otherwise be given that very port, as the near end of a connection to itself.
    """
    for port in candidates:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise CannotStart("no free port was found on 127.0.0.1")


def free_ports() -> Iterator[int]:
    """Yield free ports of 127.0.0.1 below the range of automatic ports.

    Two programs with the same seed must not meet at the same port, so no seed decides which these are.
    """
    candidates = iter(random.sample(PORTS, 200))
    while True:
        yield free_port(candidates)


class BrokerProcess:
    """A broker on 127.0.0.1, in its own process. ``start`` may be called again after ``kill`` and ``ended``.

    ``directory`` holds its journal in ``data`` and its stderr in ``broker.log``; with ``durable`` False it keeps
    everything in memory.
    """

    def __init__(self, directory: Path, port: int, *, durable: bool = True) -> None:
        self.directory = directory
        self.url = ""
        self._port = port
        self._durable = durable
        self._process: trio.Process | None = None

    @property
    def log(self) -> Path:
        """The file with its stderr."""
        return self.directory / "broker.log"

    async def start(self) -> None:
        """Start the broker, and return when it serves.

        Raises:
            CannotStart: it ended, or reported nothing in time; the text is its last line.
        """
        command = [sys.executable, "-m", "embedbroker.cli", "run", "--json", "--until-eof"]
        command += ["--port", str(self._port)]
        if self._durable:
            command += ["--data", str(self.directory / "data")]
        with self.log.open("ab") as log:
            # Its stdin ends with this process, however that ends, so no broker is left behind.
            self._process = await trio.lowlevel.open_process(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        with trio.move_on_after(START_TIMEOUT_S):
            line = await self._first_line()
            if line:
                self.url = str(json.loads(line)["url"])
                return
        self.kill()
        await self.ended()
        lines = self.log.read_text(errors="replace").strip().splitlines()
        raise CannotStart(f"the broker process did not start: {lines[-1] if lines else 'it wrote no output'}")

    async def _first_line(self) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        received = b""
        while b"\n" not in received and len(received) < _LINE_BYTES_MAX:
            piece = await self._process.stdout.receive_some()
            if not piece:
                return b""
            received += piece
        return received.partition(b"\n")[0]

    def cpu_seconds(self) -> float:
        """Return the processor time it has used so far, in seconds; 0.0 where the system does not provide it."""
        assert self._process is not None
        try:
            text = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return 0.0
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """Send SIGKILL at this moment."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)

    async def ended(self) -> int:
        """Wait for its end. Return the exit code, negative for a signal."""
        assert self._process is not None
        process = self._process
        code = await process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                await pipe.aclose()
        return code

    async def stop(self) -> int:
        """Stop it in an orderly way; if it does not end in time, it is killed."""
        if self._process is None:
            return 0
        with trio.CancelScope(shield=True):
            self._process.send_signal(signal.SIGTERM)
            code = 0
            with trio.move_on_after(STOP_TIMEOUT_S) as patience:
                code = await self.ended()
            if patience.cancelled_caught:
                self.kill()
                code = await self.ended()
        return code
