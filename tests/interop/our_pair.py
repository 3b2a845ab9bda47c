"""Two of our brokers that stand in for each other, each in a separate process, and pairs of either make.

It holds how they are configured, started and failed; what their clients do is the tests' affair.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Protocol

from embedbroker.cli.drill._pair_files import BrokerFile, write_files
from embedbroker.cli.drill._plan import Ha
from tests.interop.artemis import free_port
from tests.interop.artemis_pair import ArtemisPair
from tests.interop.programs import Program

SECONDS_MAX = 90


class PairMember(Protocol):
    """One broker of a pair."""

    url: str

    @property
    def running(self) -> bool:
        """Whether it was started and not ended from here."""


class PairUnderTest(Protocol):
    """A primary that is live and a backup that could take over, once it is entered."""

    @property
    def primary(self) -> PairMember:
        """The one that clients receive."""

    def kill(self) -> None:
        """The primary is killed; returns when the backup is live."""

    def stop(self) -> None:
        """The primary stops in order; returns when the backup is live."""

    def fail_back(self) -> None:
        """The primary comes back, and the backup becomes a backup again."""

    def __enter__(self) -> PairUnderTest: ...

    def __exit__(self, *_: object) -> None: ...


class Member:
    """One of our brokers as a process, which reports its changes of role on its standard output."""

    def __init__(self, file: BrokerFile) -> None:
        self.url = f"tcp://{file.host}:{file.port}"
        self.errors = file.path.with_suffix(".log")
        self._path = file.path
        self._program: Program | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and not ended from here."""
        return self._program is not None

    @property
    def _running(self) -> Program:
        assert self._program is not None
        return self._program

    def start(self) -> None:
        """Returns at once; what becomes of it is for `wait_for`."""
        script = Path(sys.executable).with_name("embedbroker")
        command: list[str | Path] = [script, "run", "--config", self._path, "--json"]
        self._program = Program(command, errors_to=self.errors)

    def wait_for(self, event: str) -> None:
        """Read until the broker has reported this."""
        while json.loads(self._running.wait_for(r"^\{", seconds_max=SECONDS_MAX).string)["event"] != event:
            pass

    def kill(self) -> None:
        """SIGKILL; harmless when it does not run."""
        if self._program is not None:
            self._program.kill()
            self._program = None

    def stop(self) -> None:
        """Stops in an orderly way."""
        code = self._running.interrupt()
        self.kill()
        assert code == 0, f"exit code {code}"

    def freeze(self) -> None:
        """Returns when the whole process stands still."""
        os.kill(self._running.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self._running.pid, os.WSTOPPED)  # its threads stop one after the other

    def thaw(self) -> None:
        """It goes on."""
        os.kill(self._running.pid, signal.SIGCONT)

    def exit_code(self) -> int:
        """Waits for an end that it decides on itself."""
        code = self._running.ended(seconds_max=SECONDS_MAX)
        self.kill()
        return code


class EmbeddedPair:
    """A context manager: the primary is live, and the backup is ready."""

    def __init__(self, directory: Path, *, replicated: bool, changes: Mapping[str, str] | None = None) -> None:
        """`changes` replace texts of both broker.xml files."""
        self._replicated = replicated
        ha = Ha.REPLICATION if replicated else Ha.SHARED_STORE
        files = write_files(directory, ha, (free_port() for _ in count()), relayed=False)
        for file in files:
            text = file.path.read_text()
            for old, new in (changes or {}).items():
                assert old in text, f"{file.path.name} has no {old!r}"
                text = text.replace(old, new)
            file.path.write_text(text)
        self.primary, self.backup = map(Member, files)

    def __enter__(self) -> EmbeddedPair:
        try:
            self.primary.start()
            self.backup.start()
            self.primary.wait_for("ready")
            self._wait_for_backup()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.primary.kill()
        self.backup.kill()

    def kill(self) -> None:
        """The primary is killed; returns when the backup is live."""
        self.primary.kill()
        self.backup.wait_for("ready")

    def stop(self) -> None:
        """The primary stops in order; returns when the backup is live."""
        self.primary.stop()
        self.backup.wait_for("ready")

    def fail_back(self) -> None:
        """The primary comes back, and the backup becomes a backup again."""
        self.primary.start()
        self.primary.wait_for("ready")
        self._wait_for_backup()

    def _wait_for_backup(self) -> None:
        self.backup.wait_for("backup")
        if self._replicated:
            self.backup.wait_for("in-sync")


def make_pair(kind: str, directory: Path, *, replicated: bool) -> PairUnderTest:
    """A pair that is not started yet; `kind` is `ours` or `artemis`."""
    if kind == "artemis":
        return ArtemisPair(directory, replicated=replicated)
    return EmbeddedPair(directory, replicated=replicated)
