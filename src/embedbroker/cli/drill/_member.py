"""One broker of a drill as a process: started, watched, signalled, ended.

Responsible for what the process is at each moment, as far as it says so itself. Refuses to know whose broker it is,
and why it is signalled.
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
# A process that is killed with the drill: whoever reads here is told by the system when its other end is gone.
_WITH_US = """
exec 3<&0 0</dev/null
( read -r _ <&3; kill -9 $$ ) >/dev/null 2>&1 &
exec 3<&-
exec "$@"
"""


class MemberState(Enum):
    """What a broker is."""

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
        """Before the first start."""

    def command(self) -> Sequence[str]:
        """What to run."""

    def read(self, line: str) -> MemberState | None:
        """What it says with a line of stdout that it has become; None if that is no news."""


class Member:
    """``start`` it again after it has ended. ``tell`` is called when its standing is another one."""

    def __init__(self, name: str, program: Program, log: Path, tell: Callable[[str, MemberState], None]) -> None:
        self.name = name
        self.log = log
        self.standing = MemberState.DOWN
        self._program = program
        self._tell = tell
        self._process: trio.Process | None = None
        self._changed = trio.Event()
        self._thawed = MemberState.LIVE

    async def start(self, nursery: trio.Nursery) -> None:
        """Returns when the process exists; a task of ``nursery`` reads what it says."""
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
        """Returns when it is one of these.

        Raises:
            CannotStart: it ended, or became none of them in time; the text has its last line.
        """
        with trio.move_on_after(seconds_max):
            while self.standing not in wanted:
                if self.standing is MemberState.DOWN:
                    raise CannotStart(f"broker {self.name!r} ended: {self.last_words()}")
                await self._changed.wait()
            return
        states = " or ".join(standing.value for standing in wanted)
        raise CannotStart(f"broker {self.name!r} was not {states} within {seconds_max:.0f} s: {self.last_words()}")

    async def change(self) -> None:
        """Returns when its standing is another one."""
        await self._changed.wait()

    def last_words(self) -> str:
        """The last line of its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        return lines[-1] if lines else "it said nothing"

    def kill(self) -> None:
        """SIGKILL, at this moment."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to stop in order."""
        self._signal(signal.SIGTERM)

    def freeze(self) -> None:
        """It does not run any more, and nobody is told."""
        self._signal(signal.SIGSTOP)
        self._thawed = self.standing
        self._become(MemberState.FROZEN)

    def thaw(self) -> None:
        """It goes on where it was."""
        self._signal(signal.SIGCONT)
        self._become(self._thawed)

    def slow_disk_down(self) -> None:
        """Syncs take longer from now on; for a program that listens to this signal."""
        self._signal(signal.SIGUSR1)

    def speed_disk_up(self) -> None:
        """They take what they take."""
        self._signal(signal.SIGUSR2)

    def limit_files(self, size_bytes: int) -> None:
        """What it writes behind ``size_bytes`` of any file fails from now on, as if the disk were full."""
        if self._process is not None and self._process.returncode is None:
            # Only the soft limit, which a process may raise again: it is gone with this process.
            _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size_bytes, hard))

    async def ended(self) -> int:
        """Wait for its end; returns the exit code, negative for a signal."""
        process = self._process
        if process is None:
            return 0
        while self.standing is not MemberState.DOWN:
            await self._changed.wait()
        code = process.returncode
        assert code is not None
        return code

    async def stop(self) -> int:
        """Stop it in an orderly way; one that does not obey in time is killed. Returns 0 if it obeyed."""
        if self.standing is not MemberState.DOWN:
            self.terminate()
        with trio.move_on_after(STOP_TIMEOUT_S) as patience:
            await self.ended()
        if patience.cancelled_caught:
            self.kill()
        return self.orderly(await self.ended())

    def orderly(self, code: int) -> int:
        """An exit code, or 0 if it is that of a broker that stopped in an orderly way."""
        return 0 if code in self._program.orderly_codes else code

    async def dispose(self) -> None:
        """Leave no process behind."""
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
            self._tell(self.name, standing)
            changed, self._changed = self._changed, trio.Event()
            changed.set()

    async def _listen(self, process: trio.Process) -> None:
        assert process.stdout is not None
        rest = b""
        async for piece in process.stdout:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._heard(line.decode(errors="replace"))
        await process.wait()
        await _close(process)
        self._become(MemberState.DOWN)

    def _heard(self, line: str) -> None:
        standing = self._program.read(line)
        if standing is None:
            return
        if self.standing is MemberState.FROZEN:
            self._thawed = standing  # said before it was frozen, read after
        else:
            self._become(standing)


async def _close(process: trio.Process) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            await pipe.aclose()
