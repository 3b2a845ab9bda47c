"""One broker of a drill as a process: started, watched, signalled, ended.

Responsible for the state of the process at each moment, as far as its own output shows it. Does not depend on which
program the broker runs, and on why it is signalled.
"""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol

import trio

from .._failure import CannotStart

__all__ = ["Member", "MemberState", "Program"]

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
# The process is killed with the drill: the system ends the read when the other end is gone.
_WITH_US = """
exec 3<&0 0</dev/null
( read -r _ <&3; kill -9 $$ ) >/dev/null 2>&1 &
exec 3<&-
exec "$@"
"""


class MemberState(Enum):
    """The state of a broker."""

    DOWN = "down"
    STARTING = "starting"
    BACKUP = "backup"
    LIVE = "live"
    FROZEN = "frozen"


class Program(Protocol):
    """How a broker is started, and how its lines are read."""

    environment: Mapping[str, str]
    #: Exit codes of an orderly stop.
    orderly_codes: tuple[int, ...]

    async def prepare(self) -> None:
        """Prepare the first start."""

    def command(self) -> Sequence[str]:
        """Return the command line to run."""

    def read(self, line: str) -> MemberState | None:
        """Return the state that a line of stdout reports; None if the line reports none."""


class Member:
    """A broker's process.

    ``start`` may be called again after the process has ended. ``on_state`` is called when its state has changed.
    """

    def __init__(self, name: str, program: Program, log: Path, on_state: Callable[[str, MemberState], None]) -> None:
        self.name = name
        self.log = log
        self.standing = MemberState.DOWN
        self._program = program
        self._on_state = on_state
        self._process: trio.Process | None = None
        self._changed = trio.Event()
        self._thawed = MemberState.LIVE

    async def start(self, nursery: trio.Nursery) -> None:
        """Start the process, and return when it exists; a task of ``nursery`` reads its output."""
        assert self.standing is MemberState.DOWN
        command = ["/bin/sh", "-c", _WITH_US, "sh", *self._program.command()]
        with self.log.open("ab") as log:
            self._process = await trio.lowlevel.open_process(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=dict(self._program.environment),
                start_new_session=True,
            )
        self._become(MemberState.STARTING)
        nursery.start_soon(self._listen, self._process)

    async def wait_for(self, *wanted: MemberState, seconds_max: float = START_TIMEOUT_S) -> None:
        """Wait until it has one of these states.

        Raises:
            CannotStart: it ended, or reached none of them in time; the text has its last line.
        """
        with trio.move_on_after(seconds_max):
            while self.standing not in wanted:
                if self.standing is MemberState.DOWN:
                    raise CannotStart(f"broker {self.name!r} ended: {self.last_output()}")
                await self._changed.wait()
            return
        states = " or ".join(standing.value for standing in wanted)
        raise CannotStart(f"broker {self.name!r} was not {states} within {seconds_max:.0f} s: {self.last_output()}")

    async def change(self) -> None:
        """Wait until its state changes."""
        await self._changed.wait()

    def last_output(self) -> str:
        """Return the last line of its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        return lines[-1] if lines else "it wrote no output"

    def kill(self) -> None:
        """Send SIGKILL at this moment."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM, for an orderly stop."""
        self._signal(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop the process with SIGSTOP; no client is notified."""
        self._signal(signal.SIGSTOP)
        self._thawed = self.standing
        self._become(MemberState.FROZEN)

    def thaw(self) -> None:
        """Continue a frozen process."""
        self._signal(signal.SIGCONT)
        self._become(self._thawed)

    def slow_disk_down(self) -> None:
        """Make syncs take longer from now on, for a program that handles this signal."""
        self._signal(signal.SIGUSR1)

    def speed_disk_up(self) -> None:
        """Make syncs take their normal time again."""
        self._signal(signal.SIGUSR2)

    def limit_files(self, size_bytes: int) -> None:
        """Make writes behind ``size_bytes`` of any file fail from now on, as if the disk were full."""
        if self._process is not None and self._process.returncode is None:
            # Only the soft limit, which a process may raise again: it is gone with this process.
            _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size_bytes, hard))

    async def ended(self) -> int:
        """Wait for its end. Return the exit code, negative for a signal."""
        process = self._process
        if process is None:
            return 0
        while self.standing is not MemberState.DOWN:
            await self._changed.wait()
        code = process.returncode
        assert code is not None
        return code

    async def stop(self) -> int:
        """Stop it in an orderly way; if it does not end in time, it is killed. Return 0 after an orderly stop."""
        if self.standing is not MemberState.DOWN:
            self.terminate()
        with trio.move_on_after(STOP_TIMEOUT_S) as patience:
            await self.ended()
        if patience.cancelled_caught:
            self.kill()
        return self.orderly(await self.ended())

    def orderly(self, code: int) -> int:
        """Return the exit code, or 0 if it is that of an orderly stop."""
        return 0 if code in self._program.orderly_codes else code

    async def dispose(self) -> None:
        """End the process."""
        if self._process is not None:
            self.kill()
            await self._process.wait()
            await _close(self._process)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def _become(self, standing: MemberState) -> None:
        if standing is not self.standing:
            self.standing = standing
            self._on_state(self.name, standing)
            changed, self._changed = self._changed, trio.Event()
            changed.set()

    async def _listen(self, process: trio.Process) -> None:
        assert process.stdout is not None
        rest = b""
        async for piece in process.stdout:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._on_line(line.decode(errors="replace"))
        await process.wait()
        await _close(process)
        self._become(MemberState.DOWN)

    def _on_line(self, line: str) -> None:
        standing = self._program.read(line)
        if standing is None:
            return
        if self.standing is MemberState.FROZEN:
            self._thawed = standing  # written before the freeze, read after it
        else:
            self._become(standing)


async def _close(process: trio.Process) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            await pipe.aclose()
