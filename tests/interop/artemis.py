"""Apache Artemis as a peer: a separate broker instance on a free port, and its command line as clients.

Readiness is what the broker logs; stopping is SIGTERM. It does not depend on our broker.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.interop.artemis_instance import create_instance
from tests.interop.jvm import SMALL_PROGRAM
from tests.interop.programs import Program
from tests.interop.registry import ARTEMIS_VERSION, artemis_home

START_SECONDS_MAX = 120
READY = r"AMQ2210(07|10): (Backup )?Server is now (active|live)"
# A backup that could take over: announced (shared store) or synchronised (replication).
READY_AS_BACKUP = r"AMQ221031: backup announced|AMQ221024: Backup server .* is synchronized"


def free_port() -> int:
    """A port that is free now; the broker that gets it binds it a moment later."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert isinstance(port, int)
    return port


class ArtemisBroker:
    """One broker instance: created on first start, restarted on the same port and data."""

    def __init__(
        self,
        directory: Path,
        *,
        journal: str = "nio",
        memory: str = "1G",
        port: int | None = None,
        options: Sequence[str | Path] = (),
        changes: Mapping[str, str] | None = None,
        version: str = ARTEMIS_VERSION,
    ) -> None:
        """`options` are further ones of `artemis create`; `changes` replace texts of the broker.xml that it makes."""
        self.directory = directory
        self.port = port or free_port()
        self.url = f"tcp://127.0.0.1:{self.port}"
        self._journal = journal
        self._version = version
        self._memory = memory
        self._options = options
        self._changes = changes or {}
        self._program: Program | None = None

    @property
    def pid(self) -> int:
        """The process id of the JVM, which replaced the script that started it."""
        assert self._program is not None
        return self._program.pid

    @property
    def running(self) -> bool:
        """Whether it was started and not ended from here."""
        return self._program is not None

    def start(self, *, ready: str = READY) -> None:
        """Return when the broker accepts connections, or has logged that it is ready for something else."""
        self.launch()
        self.wait_for(ready)

    def launch(self) -> None:
        """Returns when its process exists."""
        if not self.directory.exists():
            self._create()
        self._program = Program([self.directory / "bin" / "artemis", "run"])

    def wait_for(self, pattern: str) -> str:
        """Returns what it found, when the broker has logged a line like this."""
        assert self._program is not None
        return self._program.wait_for(pattern, seconds_max=START_SECONDS_MAX)[0]

    def stop(self) -> None:
        """Stops in an orderly way."""
        if self._program is not None:
            self._program.interrupt()
            self._program.kill()
            self._program = None

    def kill(self) -> None:
        """Stops as a power cut would, but for the disk's cache."""
        if self._program is not None:
            self._program.kill()
            self._program = None

    def restart(self) -> None:
        """Stops in an orderly way and starts on the same data."""
        self.stop()
        self.start()

    def __enter__(self) -> ArtemisBroker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _create(self) -> None:
        options = f"--no-web --allow-anonymous --silent --host 127.0.0.1 --default-port {self.port} --{self._journal}"
        off = "--no-amqp-acceptor --no-mqtt-acceptor --no-stomp-acceptor --no-hornetq-acceptor"
        user = f"--user admin --password admin --java-memory {self._memory}"
        create_instance(self.directory, [*f"{options} {off} {user}".split(), *self._options], self._version)
        settings = self.directory / "etc" / "broker.xml"
        # Clients of 1.x call a queue jms.queue.NAME; Artemis takes that only from an acceptor configured for it.
        prefixes = r"\1anycastPrefix=jms.queue.;multicastPrefix=jms.topic.;"
        text = re.sub(r"(tcp://127\.0\.0\.1:\d+\?)", prefixes, settings.read_text())
        for old, new in self._changes.items():
            assert old in text, f"broker.xml has no {old!r}"
            text = text.replace(old, new)
        settings.write_text(text)
        profile = self.directory / "etc" / "artemis.profile"
        text = re.sub(r"-Xms\S+", "-Xms256M", profile.read_text())
        profile.write_text(text.replace("-XX:+UseG1GC -XX:+UseStringDeduplication", "-XX:+UseSerialGC"))


def command_line(*words: str | int, seconds_max: float = 60) -> list[str]:
    """Runs one command of `artemis` (producer, consumer, browser, perf) to its end and returns what it printed."""
    command: Sequence[str | Path] = [artemis_home() / "bin" / "artemis", *map(str, words)]
    with Program(command, environment={"JAVA_ARGS": " ".join(SMALL_PROGRAM)}) as program:
        return program.output(seconds_max=seconds_max)
