"""The programs that a drill can run: this project's command, or real Artemis brokers, for comparison.

Responsible for command lines and for the meaning of each program's output lines. Does not depend on processes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from .._failure import CannotStart
from ._directories import with_properties
from ._member import MemberState
from ._pair_files import BrokerFile

__all__ = ["ArtemisProgram", "EmbeddedProgram"]

_EVENTS = {"ready": MemberState.LIVE, "backup": MemberState.BACKUP}
# A backup with its own directory can take over when it has a whole copy, and not before.
_COPYING_EVENTS = {
    "ready": MemberState.LIVE,
    "backup": MemberState.STARTING,
    "backup in-sync": MemberState.BACKUP,
    "backup out-of-sync": MemberState.STARTING,
}


class EmbeddedProgram:
    """Run `embedbroker run` on a file, with further ``options``.

    With ``slowable`` its disk can be made slow; a ``copying`` broker replicates.
    """

    orderly_codes: tuple[int, ...] = (0,)

    def __init__(self, file: BrokerFile, *, slowable: bool, copying: bool, options: Sequence[str] = ()) -> None:
        self.environment: Mapping[str, str] = os.environ
        self._file = file
        self._options = options
        self._events = _COPYING_EVENTS if copying else _EVENTS
        self._module = "embedbroker.cli.drill._slowed" if slowable else "embedbroker.cli"

    async def prepare(self) -> None:
        """Do nothing: no preparation is needed."""

    def command(self) -> Sequence[str]:
        """Return `run`, with its events as lines."""
        file = self._file
        command = [sys.executable, "-m", self._module, "run", "--json", "--config", str(file.path), *self._options]
        for setting in file.properties:
            command += ["-D", setting]
        return [*command, "--port", str(file.listens)] if file.is_relayed else command

    def read(self, line: str) -> MemberState | None:
        """Return the state that an event, a line of JSON, reports."""
        try:
            event = json.loads(line)
            return self._events.get(f"{event['role']} {event['event']}" if "role" in event else event["event"])
        except (ValueError, TypeError, KeyError):
            return None


class ArtemisProgram:
    """Run an instance of Artemis, made in ``directory`` by its own command, with the same file as its broker.xml."""

    #: The exit code of a JVM that SIGTERM has stopped, whether the stop was clean or not.
    orderly_codes: tuple[int, ...] = (0, 143)
    _READY = re.compile(r"AMQ2210(07|10): (Backup )?Server is now (active|live)")
    # A backup that could take over: announced (shared store), or with a whole copy (replication).
    _BACKUP = re.compile(r"AMQ221031: backup announced|AMQ221024: Backup server .* is synchronized")
    _MEMORY = "512M"

    def __init__(self, home: Path, directory: Path, file: BrokerFile, log: Path, properties: Mapping[str, str]) -> None:
        self.environment: Mapping[str, str] = os.environ
        self._properties = properties
        self._home = home
        self._directory = directory
        self._file = file
        self._log = log

    async def prepare(self) -> None:
        """Create the instance.

        Raises:
            CannotStart: its command failed.
        """
        flags = "--no-web --silent --allow-anonymous --user drill --password drill --nio --no-autotune --host 127.0.0.1"
        command = [str(self._home / "bin" / "artemis"), "create", str(self._directory), *flags.split()]
        command += ["--java-memory", self._MEMORY]
        result = await trio.run_process(
            command, check=False, capture_stdout=True, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        if result.returncode != 0:
            lines = result.stdout.decode(errors="replace").strip().splitlines()
            raise CannotStart(f"artemis create failed: {lines[-1] if lines else 'it wrote no output'}")
        text = with_properties(self._file.path.read_text(encoding="utf-8"), self._properties)
        (self._directory / "etc" / "broker.xml").write_text(text, encoding="utf-8")

    def command(self) -> Sequence[str]:
        """Return the instance's script, which replaces itself by the JVM."""
        return [str(self._directory / "bin" / "artemis"), "run"]

    def read(self, line: str) -> MemberState | None:
        """Return the state that a line of its log reports; the log goes to stdout."""
        with self._log.open("a", encoding="utf-8") as log:
            log.write(line + "\n")
        if self._READY.search(line):
            return MemberState.LIVE
        return MemberState.BACKUP if self._BACKUP.search(line) else None
