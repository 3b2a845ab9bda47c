"""The demo's brokers: a live one and its backup, in their own processes, on files that are written for them.

Does not depend on what is sent to them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trio
from attrs import frozen

from .._broker_process import free_ports
from ..drill import BrokerFile, EmbeddedProgram, Group, Ha, Member, MemberState, write_files

__all__ = ["Pair"]

_CLIENTS = "ha=true&reconnectAttempts=-1&initialConnectAttempts=-1&retryInterval=100&callFailoverTimeout=-1"


@frozen
class Pair:
    """The two brokers.

    ``on_state`` receives each change of a broker's state. ``audits`` are the directories of their audit logs.
    """

    group: Group
    files: tuple[BrokerFile, ...]
    audits: tuple[Path, ...]

    @classmethod
    def in_directory(
        cls, directory: Path, ha: Ha, on_state: Callable[[str, MemberState], None], nursery: trio.Nursery
    ) -> Pair:
        """Make the pair; journals, logs and files are in ``directory``."""
        files = write_files(directory, ha, free_ports(), relayed=False)
        members, audits = [], []
        for file in files:
            audits.append(directory / f"{file.name}-audit")
            options = ("--audit", str(audits[-1]))
            program = EmbeddedProgram(file, slowable=False, copying=ha is Ha.REPLICATION, options=options)
            members.append(Member(file.name, program, directory / f"{file.name}.log", on_state))
        return cls(Group(members, [], nursery), tuple(files), tuple(audits))

    @property
    def places(self) -> str:
        """Their addresses, as a URL without reconnection options: Spark's tasks try for a minute."""
        return f"({','.join(f'tcp://{file.host}:{file.port}' for file in self.files)})"

    @property
    def url(self) -> str:
        """The URL for clients that wait for a broker without a limit."""
        return f"{self.places}?{_CLIENTS}"

    @property
    def records(self) -> list[Path]:
        """Journals, one if they share it, and audit logs: the input of an audit."""
        return [*dict.fromkeys(file.store for file in self.files), *self.audits]
