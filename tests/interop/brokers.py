"""The broker under test, ours or the real Artemis, as the interop tests see it: url, restart, stop."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.interop.artemis import ArtemisBroker
from tests.interop.programs import Program
from tests.interop.registry import missing

START_SECONDS_MAX = 120


class BrokerUnderTest(Protocol):
    """A broker process on a separate port, with a data directory that survives `restart`."""

    port: int
    url: str

    @property
    def pid(self) -> int:
        """The process id of the broker, for its CPU time and memory."""

    def start(self) -> None:
        """Returns when the broker accepts connections."""

    def stop(self) -> None:
        """Stops in an orderly way."""

    def kill(self) -> None:
        """Stops at once."""

    def restart(self) -> None:
        """Stops in an orderly way and starts again on the same port and data."""


class EmbeddedBrokerProcess:
    """`embedbroker run` in a separate process. ``options`` are further words of its command line."""

    def __init__(self, directory: Path, options: Sequence[str | Path] = ()) -> None:
        self.directory = directory
        self.options = options
        self.port = 0
        self.url = ""
        self._program: Program | None = None

    @property
    def pid(self) -> int:
        """The process id of the broker."""
        assert self._program is not None
        return self._program.pid

    def start(self) -> None:
        """Return when the broker has reported that it is ready, and where."""
        self.directory.mkdir(parents=True, exist_ok=True)
        script = Path(sys.executable).with_name("embedbroker")
        command: list[str | Path] = [
            script,
            "run",
            "--port",
            str(self.port),
            "--data",
            self.directory / "data",
            "--json",
            *self.options,
        ]
        self._program = Program(command, errors_to=self.directory / "errors.txt")
        ready = json.loads(self._program.wait_for(r"^\{", seconds_max=START_SECONDS_MAX).string)
        assert ready["event"] == "ready", ready
        self.port = int(ready["url"].split("?")[0].rpartition(":")[2].strip("/"))
        self.url = f"tcp://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Stops in an orderly way; anything but exit code 0 is a failure."""
        if self._program is not None:
            code = self._program.interrupt()
            self._program.kill()
            self._program = None
            assert code == 0, f"exit code {code}"

    def kill(self) -> None:
        """Stops at once."""
        if self._program is not None:
            self._program.kill()
            self._program = None

    def restart(self) -> None:
        """Stops in an orderly way and starts again on the same port and data."""
        self.stop()
        self.start()


class RunningBroker:
    """A broker that was started outside the tests, for a look at it in a debugger; it cannot be restarted."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.port = int(url.split("?")[0].rpartition(":")[2])
        self._was_used = False

    @property
    def pid(self) -> int:
        """Missing: the process is not known."""
        missing(f"a broker whose process is known, for the test of its processor time or memory, not {self.url}")

    def start(self) -> None:
        """Do nothing the first time; a second start would need an end, which this broker did not have."""
        if self._was_used:
            missing(f"a broker that the test may end and start again, not {self.url}")
        self._was_used = True

    def stop(self) -> None:
        """Do nothing: it goes on."""

    def kill(self) -> None:
        """Do nothing: it goes on."""

    def restart(self) -> None:
        """Refuse, as `start` does."""
        self.start()


def make_broker(kind: str, directory: Path) -> BrokerUnderTest:
    """A broker that is not started yet; `kind` is `ours`, `artemis`, or the URL of one that runs."""
    if kind == "artemis":
        return ArtemisBroker(directory)
    if kind != "ours":
        return RunningBroker(kind)
    return EmbeddedBrokerProcess(directory)


def artemis_log(directory: Path) -> str:
    """Return the log of a broker of Artemis. It begins another file at midnight."""
    files = (directory / "log").glob("artemis.log*")
    return "".join([each.read_text() for each in sorted(files, key=lambda each: each.stat().st_mtime)])
