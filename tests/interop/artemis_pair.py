"""Two real Artemis brokers that stand in for each other: over a shared store, or by replication.

It holds how they are configured, started and failed; what their clients do is the tests' affair.
"""

from __future__ import annotations

from pathlib import Path

from tests.interop.artemis import READY, READY_AS_BACKUP, ArtemisBroker, free_port

MEMORY = "512M"
_VOTE = "</vote-on-replication-failure>"
# What replication needs for failing back: a returning primary that checks before it serves, a backup that gives way.
FAILS_BACK = {
    "primary": {_VOTE: f"{_VOTE}<check-for-active-server>true</check-for-active-server>"},
    "backup": {"<backup/>": "<backup><allow-failback>true</allow-failback></backup>"},
}


class ArtemisPair:
    """A context manager: the primary is active, and the backup is ready."""

    def __init__(self, directory: Path, *, replicated: bool, journal: str = "nio", memory: str = MEMORY) -> None:
        self._directory = directory
        self._replicated = replicated
        self._journal = journal
        self._memory = memory
        port, other = free_port(), free_port()
        self.primary = self._broker("primary", port, other)
        self.backup = self._broker("backup", other, port, "--backup")

    def _broker(self, name: str, port: int, other_port: int, *options: str | Path) -> ArtemisBroker:
        cluster = ["--clustered", "--cluster-user", "cluster-user", "--cluster-password", "cluster-password"]
        seen_by = ["--name", name, "--static-cluster", f"tcp://127.0.0.1:{other_port}"]
        store = ["--shared-store", "--failover-on-shutdown", "--data", self._directory / "store"]
        way = ["--replicated"] if self._replicated else store
        options = (*cluster, *seen_by, *way, *options)
        changes = FAILS_BACK[name] if self._replicated else {}
        return ArtemisBroker(
            self._directory / name,
            journal=self._journal,
            memory=self._memory,
            port=port,
            options=options,
            changes=changes,
        )

    def __enter__(self) -> ArtemisPair:
        try:
            self.primary.start()
            self.backup.start(ready=READY_AS_BACKUP)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.primary.kill()
        self.backup.kill()

    def kill(self) -> None:
        """The primary is killed; returns when the backup is active."""
        self.primary.kill()
        self.backup.wait_for(READY)

    def stop(self) -> None:
        """The primary stops in order; returns when the backup is active."""
        self.primary.stop()
        self.backup.wait_for(READY)

    def fail_back(self) -> None:
        """The primary comes back, and the backup becomes a backup again."""
        self.primary.start()
        if self._replicated:
            # It hands everything over, and its process may end while it restarts as a backup.
            self.backup.kill()
            self.backup.start(ready=READY_AS_BACKUP)
        else:
            self.backup.wait_for(READY_AS_BACKUP)
