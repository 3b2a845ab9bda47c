"""The nodes of a cluster as benchmarks have them, ours or Artemis', each a process with its own journal.

Responsible for configurations with the same settings, for the start of all nodes, and for their processor time. Does
not depend on the load.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, Self
from xml.sax.saxutils import escape

from benchmarks.broker_cases import artemis_journal
from benchmarks.measured import cpu_seconds
from tests.interop.artemis import READY, ArtemisBroker, free_port
from tests.interop.programs import Program

SECONDS_MAX = 120
USER, PASSWORD = "cluster-user", "cluster-password"
_REDISTRIBUTION = "<redistribution-delay>0</redistribution-delay>"

_TEXT = """<?xml version='1.0'?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>{name}</name>
    <persistence-enabled>true</persistence-enabled>
    <security-enabled>false</security-enabled>
    <journal-directory>{store}</journal-directory>
    <connectors>
      {connectors}
    </connectors>
    <acceptors>
      <acceptor name="core">tcp://127.0.0.1:{port}?protocols=CORE</acceptor>
    </acceptors>
    <cluster-user>{user}</cluster-user>
    <cluster-password>{password}</cluster-password>
    {cluster}
    <address-settings>
      <address-setting match="#">
        <dead-letter-address>DLQ</dead-letter-address>
        {redistribution}
        <auto-delete-queues>false</auto-delete-queues>
        <auto-delete-addresses>false</auto-delete-addresses>
      </address-setting>
    </address-settings>
    <addresses>
      <address name="DLQ"><anycast><queue name="DLQ"/></anycast></address>
    </addresses>
  </core>
</configuration>
"""
_CLUSTER_TEXT = """<cluster-connections>
      <cluster-connection name="my-cluster">
        <connector-ref>artemis</connector-ref>
        <message-load-balancing>ON_DEMAND</message-load-balancing>
        <max-hops>1</max-hops>
        <static-connectors>{references}</static-connectors>
      </cluster-connection>
    </cluster-connections>"""


class Node(Protocol):
    """A broker process."""

    url: str

    @property
    def pid(self) -> int:
        """The process whose processor time counts."""

    def prepare(self) -> None:
        """Make what its process needs, so that the time of a launch is that of the process."""

    def launch(self) -> None:
        """Return when its process exists."""

    def wait_ready(self) -> None:
        """Return when it serves clients."""

    def kill(self) -> None:
        """Stop it at once."""


class OurNode:
    """`embedbroker run` with a broker.xml that has the same settings as that of `TheirNode`."""

    def __init__(self, directory: Path, port: int, others: Sequence[int], *, redistributes: bool = False) -> None:
        directory.mkdir(parents=True)
        self.url = f"tcp://127.0.0.1:{port}"
        self._directory = directory
        self._program: Program | None = None
        names = {"artemis": port} | {f"node{number}": other for number, other in enumerate(others)}
        references = "".join(f"<connector-ref>node{number}</connector-ref>" for number in range(len(others)))
        connectors = (f'<connector name="{name}">tcp://127.0.0.1:{each}</connector>' for name, each in names.items())
        text = _TEXT.format(
            name=directory.name,
            store=escape(str(directory / "journal")),
            connectors="\n      ".join(connectors),
            port=port,
            user=USER,
            password=PASSWORD,
            cluster=_CLUSTER_TEXT.format(references=references) if others else "",
            redistribution=_REDISTRIBUTION if redistributes else "",
        )
        (directory / "broker.xml").write_text(text, encoding="utf-8")

    @property
    def pid(self) -> int:
        assert self._program is not None
        return self._program.pid

    def prepare(self) -> None:
        """Do nothing: the file is there."""

    def launch(self) -> None:
        file, errors = self._directory / "broker.xml", self._directory / "errors.txt"
        command: list[str | Path] = [sys.executable, "-m", "embedbroker.cli", "run", "--json", "--config", file]
        self._program = Program(command, errors_to=errors)

    def wait_ready(self) -> None:
        assert self._program is not None
        self._program.wait_for('"event": "ready"', seconds_max=SECONDS_MAX)

    def kill(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program = None


class TheirNode(ArtemisBroker):
    """A real Artemis of the cluster."""

    def __init__(self, directory: Path, port: int, others: Sequence[int], *, redistributes: bool = False) -> None:
        static = ",".join(f"tcp://127.0.0.1:{other}" for other in others)
        known = ["--clustered", "--cluster-user", USER, "--cluster-password", PASSWORD, "--max-hops", "1"]
        changes = {"<max-size-bytes>-1": f"{_REDISTRIBUTION}<max-size-bytes>-1"} if redistributes else {}
        super().__init__(
            directory,
            journal=artemis_journal(),
            memory="2G",
            port=port,
            options=[*known, "--name", directory.name, "--static-cluster", static],
            changes=changes,
        )

    def prepare(self) -> None:
        if not self.directory.exists():
            self._create()

    def wait_ready(self) -> None:
        self.wait_for(READY)


KINDS: dict[str, type[OurNode] | type[TheirNode]] = {"ours": OurNode, "artemis": TheirNode}


class Nodes:
    """Context manager of a symmetric cluster of ``count`` nodes of one kind, each with all others as its connectors."""

    def __init__(self, folder: Path, kind: str, count: int, *, redistributes: bool = False) -> None:
        ports = [free_port() for _ in range(count)]
        self.nodes: list[Node] = [
            KINDS[kind](
                folder / f"{kind}-{number}",
                port,
                [other for other in ports if other != port],
                redistributes=redistributes,
            )
            for number, port in enumerate(ports)
        ]

    @property
    def urls(self) -> list[str]:
        """Return where clients reach each."""
        return [node.url for node in self.nodes]

    @property
    def link(self) -> tuple[str, str]:
        """Return where clients reach the first two."""
        return self.nodes[0].url, self.nodes[1].url

    def cpu_seconds(self) -> float:
        """Return the processor time of all nodes so far."""
        return sum(cpu_seconds(node.pid) for node in self.nodes)

    def prepare(self) -> None:
        """Make what the processes need."""
        for node in self.nodes:
            node.prepare()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.__exit__)
            for node in self.nodes:
                node.launch()
            for node in self.nodes:
                node.wait_ready()
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()
