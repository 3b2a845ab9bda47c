"""A real Apache ZooKeeper as a process, from Maven Central.

Responsible for its class path, its configuration and its life. Does not depend on what is kept in it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from attrs import define, field

from .jvm import QUICK_START
from .registry import cache_directory, fetch_dependencies, missing

__all__ = ["ZooKeeper", "zookeeper"]

ZOOKEEPER_VERSION = "3.9.3"
# Sessions of a second: tests that let one run out take no longer.
_TICK_MS = 250
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>embedbroker</groupId><artifactId>zookeeper-peer</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId><version>{ZOOKEEPER_VERSION}</version>
    </dependency>
    <!-- What a server needs, and a client does not. -->
    <dependency>
      <groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId><version>4.1.12.1</version>
    </dependency>
    <dependency>
      <groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId><version>1.1.10.5</version>
    </dependency>
  </dependencies>
</project>
"""


@cache
def _class_path() -> str:
    target = cache_directory() / f"zookeeper-{ZOOKEEPER_VERSION}"
    if not (target / "complete").exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        (target / "pom.xml").write_text(_POM)
        fetch_dependencies(target, target / "libraries")
        (target / "complete").touch()
    return f"{target / 'libraries'}/*"


@define(eq=False)
class ZooKeeper:
    """A server on its own directory, which it keeps from one start to the next."""

    directory: Path
    port: int = field(init=False)
    _process: subprocess.Popen[str] | None = field(init=False, default=None)

    @property
    def session_ms_max(self) -> int:
        """What it grants to a session that wants more: its default, in ticks."""
        return 20 * _TICK_MS

    @property
    def connect_string(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers."""
        if self._process is None:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
        configuration = self.directory / "zoo.cfg"
        configuration.write_text(
            f"tickTime={_TICK_MS}\ndataDir={self.directory / 'data'}\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        options = ["-Xmx128m", "-XX:+UseSerialGC", *QUICK_START]
        command = ["java", *options, "-cp", _class_path(), main, str(configuration)]
        log = self.directory / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, text=True)
        self._wait_until_it_listens(log)

    def _wait_until_it_listens(self, log: Path) -> None:
        assert self._process is not None
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                return
            except OSError:
                try:
                    self._process.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue
                missing(f"ZooKeeper {ZOOKEEPER_VERSION} did not start:\n{log.read_text()[-3000:]}")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # its threads stop one after the other

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def zookeeper(directory: Path) -> Iterator[ZooKeeper]:
    """A server that is killed at the end."""
    server = ZooKeeper(directory)
    server.start()
    try:
        yield server
    finally:
        server.kill()
