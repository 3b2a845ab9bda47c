"""A replicating pair as a benchmark has it, ours or Artemis': its primary alone first, then backups that copy.

Responsible for how both are started and when a copy is whole. Does not depend on the load.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Protocol

from benchmarks.broker_cases import artemis_journal
from embedbroker.cli.drill._pair_files import BrokerFile, write_files
from embedbroker.cli.drill._plan import Ha
from tests.interop.artemis import READY_AS_BACKUP, free_port
from tests.interop.artemis_pair import ArtemisPair
from tests.interop.programs import Program

SECONDS_MAX = 120


class ReplicatingPair(Protocol):
    """A context manager: it starts the primary, and leaves no process behind."""

    url: str
    #: Directory of the primary's journal.
    journal: Path

    @property
    def pid(self) -> int:
        """The process of the primary."""

    def __enter__(self) -> ReplicatingPair:
        """Start the primary, and return when it serves, alone."""

    def __exit__(self, *_: object) -> None:
        """Kill both."""

    def copy(self) -> float:
        """Start an empty backup. Return, when it is a whole copy, the seconds since it began to copy."""

    def drop_backup(self) -> None:
        """Kill the backup, and remove its files."""


class OurPair:
    """Two processes of `embedbroker run`, with a folder of locks that decides which of them is live."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._files = write_files(directory, Ha.REPLICATION, iter([free_port(), free_port()]), relayed=False)
        self._programs: dict[str, Program] = {}
        self.url = f"tcp://127.0.0.1:{self._files[0].port}"
        self.journal = self._files[0].store

    @property
    def pid(self) -> int:
        return self._programs["primary"].pid

    def __enter__(self) -> OurPair:
        self._start(self._files[0], '"event": "ready"')
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs.values():
            program.kill()

    def copy(self) -> float:
        backup = self._start(self._files[1], '"event": "backup"')
        began = time.monotonic()
        backup.wait_for('"event": "in-sync"', seconds_max=SECONDS_MAX)
        return time.monotonic() - began

    def drop_backup(self) -> None:
        self._programs.pop("backup").kill()
        shutil.rmtree(self._files[1].store.parent)

    def _start(self, file: BrokerFile, pattern: str) -> Program:
        command: list[str | Path] = [sys.executable, "-m", "embedbroker.cli", "run", "--json", "--config", file.path]
        program = Program(command, errors_to=self._directory / f"{file.name}.log")
        self._programs[file.name] = program
        program.wait_for(pattern, seconds_max=SECONDS_MAX)
        return program


class TheirPair:
    """Two real Artemis brokers, with the fastest journal that they have here."""

    #: What the primary logs of each file of its journal that it sends.
    _COPIES = "AMQ221025"

    def __init__(self, directory: Path) -> None:
        self._pair = ArtemisPair(directory, replicated=True, journal=artemis_journal(), memory="3G")
        self.url = self._pair.primary.url
        self.journal = directory / "primary" / "data" / "journal"

    @property
    def pid(self) -> int:
        return self._pair.primary.pid

    def __enter__(self) -> TheirPair:
        self._pair.primary.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pair.__exit__()

    def copy(self) -> float:
        # The time does not include the start of a JVM: it begins when the primary logs that it has begun to send.
        self._pair.backup.launch()
        self._pair.primary.wait_for(self._COPIES)
        began = time.monotonic()
        self._pair.backup.wait_for(READY_AS_BACKUP)
        return time.monotonic() - began

    def drop_backup(self) -> None:
        self._pair.backup.kill()
        shutil.rmtree(self._pair.backup.directory / "data")


def journal_bytes(pair: ReplicatingPair) -> int:
    """Return the bytes that a copy has to transfer."""
    return sum(path.stat().st_size for path in pair.journal.iterdir())
