"""Two brokers that host the backups of each other, in two processes, of which one is killed and comes back."""

from __future__ import annotations

import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from embedclient import Queue
from embedclient.blocking import ConnectionFactory
from tests.embedbroker.cli.command_processes import CommandProcess, started

OFFSET = 100
XML = """
<configuration><core xmlns="urn:activemq:core">
  <name>{name}</name>
  <journal-directory>{directory}</journal-directory>
  <acceptors><acceptor name="here">tcp://127.0.0.1:{port}</acceptor></acceptors>
  <security-enabled>false</security-enabled>
  <connectors>
    <connector name="here">tcp://127.0.0.1:{port}</connector>
    <connector name="there">tcp://127.0.0.1:{other}</connector>
  </connectors>
  <cluster-password>of this test</cluster-password>
  <cluster-connections>
    <cluster-connection name="cluster">
      <connector-ref>here</connector-ref>
      <retry-interval>100</retry-interval>
      <static-connectors><connector-ref>there</connector-ref></static-connectors>
    </cluster-connection>
  </cluster-connections>
  <ha-policy><{kind}><colocated>
    <request-backup>true</request-backup>
    <backup-request-retry-interval>100</backup-request-retry-interval>
    <excludes><connector-ref>there</connector-ref></excludes>
    {parts}
  </colocated></{kind}></ha-policy>
</core></configuration>
"""
PARTS = {
    "shared-store": "",
    "replication": "<primary><check-for-active-server>true</check-for-active-server></primary>"
    "<backup><allow-failback>true</allow-failback></backup>",
}


def free_port() -> int:
    """A port that is free, and so is that of the backup that a broker there hosts."""
    while True:
        with ExitStack() as stack:
            first = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port: int = first.getsockname()[1]
            try:
                stack.enter_context(socket.create_server(("127.0.0.1", port + OFFSET)))
            except OSError:
                continue
            return port


def wait_for_backup(process: CommandProcess, role: str) -> dict[str, object]:
    """Read events until the process hosts a backup in this role."""
    while True:
        event = process.event()
        if event["event"] == "hosted-backup" and event["role"] == role:
            return event


def wait_for_copies(directory: Path, count: int) -> None:
    """Wait until the records of so many hosted backups name a whole copy."""
    copies: list[Path] = []
    while len(copies) < count:
        records = directory.glob("*colocated_backup*/node.state")
        copies = [each for each in records if "in sync: yes" in each.read_text()]


@pytest.mark.parametrize("kind", ["shared-store", pytest.param("replication", marks=pytest.mark.search)])
def test_a_killed_process_goes_on_inside_the_other_one_and_comes_back(tmp_path: Path, kind: str) -> None:
    ports = {"a": free_port(), "b": free_port()}
    for name, other in (("a", "b"), ("b", "a")):
        text = XML.format(
            name=name, directory=tmp_path / name, port=ports[name], other=ports[other], kind=kind, parts=PARTS[kind]
        )
        (tmp_path / f"{name}.xml").write_text(text)

    with ExitStack() as stack:

        def start(name: str) -> CommandProcess:
            process = stack.enter_context(started("run", "--json", "--config", tmp_path / f"{name}.xml"))
            while process.event()["event"] != "ready":
                pass
            return process

        a, b = start("a"), start("b")
        wait_for_backup(a, "backup")
        wait_for_backup(b, "backup")
        wait_for_copies(tmp_path, 2 if kind == "replication" else 0)
        url = f"tcp://127.0.0.1:{ports['a']}?ha=true&reconnectAttempts=-1&retryInterval=50"
        with ConnectionFactory(url).connect() as connection, connection.session() as session:
            producer = session.create_producer(Queue("orders"))
            producer.send("at home")
            a.send(signal.SIGKILL)
            live = wait_for_backup(b, "live")
            assert live["url"] == f"tcp://127.0.0.1:{ports['b'] + OFFSET}"
            assert live["name"] == "b-colocated_backup_01"
            producer.send("inside the other one")
            a = start("a")
            wait_for_backup(b, "backup")
            wait_for_backup(a, "backup")
            producer.send("at home again")
            consumer = session.create_consumer(Queue("orders"))
            connection.start()
            found = [consumer.receive_body(str, 10.0) for _ in range(3)]
            assert found == ["at home", "inside the other one", "at home again"]
        for process in (a, b):
            process.send(signal.SIGTERM)
        assert [a.exit_code(), b.exit_code()] == [0, 0]
