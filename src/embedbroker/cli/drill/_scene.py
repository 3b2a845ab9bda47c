"""Sets a drill's scene: the files, programs and relays of its plan, and the URLs at which clients reach the nodes.

Responsible for ports and for directories. Does not depend on what happens on the scene.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import trio
from attrs import frozen

from embedclient import XAConnectionFactory

from .._broker_process import free_ports
from ._group import Group
from ._member import Member, Program
from ._node import Node
from ._pair_files import BrokerFile, read_files, write_files
from ._plan import DrillPlan, Fault, Ha, Peer
from ._programs import ArtemisProgram, EmbeddedProgram
from ._relay import Relay
from ._run import Run
from ._stage import Stage

__all__ = ["Setting"]

# Clients reconnect as soon as they can, for ever: the drill measures the brokers. Between the two brokers of a pair
# they retry at the interval that clients of a pair are given.
_ALONE = "reconnectAttempts=-1&retryInterval=20&retryIntervalMultiplier=1.0&maxRetryInterval=20"
_PAIRED = "ha=true&reconnectAttempts=-1&initialConnectAttempts=-1&retryInterval=100&callFailoverTimeout=-1"
# In a cluster clients stay at their node: each node has its load, and waits for nothing else to prove itself.
_AT_HOME = "&useTopologyForLoadBalancing=false"


@frozen
class Setting:
    """What a drill needs besides its plan.

    ``directory`` belongs to the drill; ``configs`` are the user's files, if any.
    """

    plan: DrillPlan
    directory: Path
    configs: tuple[Path, ...] = ()
    properties: Mapping[str, str] = {}
    artemis_home: Path | None = None
    two_lives: bool = False

    def files(self) -> list[BrokerFile]:
        """Return the brokers' files, written or checked.

        Raises:
            WrongInput: the user's files do not fit.
        """
        plan = self.plan
        if self.configs:
            return read_files(
                list(self.configs),
                plan.ha,
                plan.faults,
                self.properties,
                free_ports(),
                peer=plan.peer,
                two_lives=self.two_lives,
            )
        relayed = Fault.PARTITION in plan.faults
        return write_files(self.directory, plan.ha, free_ports(), relayed=relayed, nodes=plan.nodes)

    def url(self, files: Sequence[BrokerFile]) -> str:
        """Return the URL for clients of a node."""
        places = ",".join(f"tcp://{file.host}:{file.port}" for file in files)
        url = f"{places}?{_ALONE}" if self.plan.ha is Ha.NONE else f"({places})?{_PAIRED}"
        return url + _AT_HOME if self.plan.nodes > 1 else url

    async def nodes(self, files: Sequence[BrokerFile], run: Run, nursery: trio.Nursery) -> list[Node]:
        """Return the nodes, whose brokers are ready to be started.

        Raises:
            CannotStart: an instance of Artemis could not be made.
        """
        found = []
        for name, each in groupby(files, key=lambda file: file.node):
            own = list(each)
            stage = Stage(run, name)
            found.append(Node(stage, await self._group(own, stage, nursery), XAConnectionFactory(self.url(own))))
        return found

    async def _group(self, files: Sequence[BrokerFile], stage: Stage, nursery: trio.Nursery) -> Group:
        members = []
        for file in files:
            log = self.directory / f"{file.name}.log"
            program = self._program(file, log)
            await program.prepare()
            members.append(Member(file.name, program, log, stage.became))
        relays = [Relay(file.host, file.port, file.listens) for file in files if file.is_relayed]
        return Group(members, relays, nursery)

    def clear(self, files: list[BrokerFile]) -> None:
        """Remove what the brokers wrote into the directories that the user's files name."""
        for file in files:
            for directory in file.directories:
                directory.clear()

    def _program(self, file: BrokerFile, log: Path) -> Program:
        if self.plan.peer is Peer.ARTEMIS:
            assert self.artemis_home is not None
            instance = self.directory / f"{file.name}-instance"
            return ArtemisProgram(self.artemis_home, instance, file, log, self.properties)
        plan = self.plan
        return EmbeddedProgram(file, slowable=Fault.SLOW_DISK in plan.faults, copying=plan.ha is Ha.REPLICATION)
