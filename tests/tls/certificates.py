"""Certificates for tests: an authority, and the files that brokers and clients need."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from embedbroker.cli._certificates import Authority, Signed
from embedclient import TLSSettings

HOSTS = ("127.0.0.1", "localhost", "broker.example")
PASSWORD = "sesame"


class Files:
    """Files of one authority in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority.make()
        self.trust = self.write("ca.pem", self.authority.pem())
        self.server = self.key("server", HOSTS)

    def write(self, name: str, content: bytes) -> str:
        path = self.directory / name
        path.write_bytes(content)
        return str(path)

    def sign(self, name: str, hosts: tuple[str, ...] = (), *, days_ago: int = 0, days: int = 10) -> Signed:
        return self.authority.sign(name, hosts, days, starts=datetime.now(UTC) - timedelta(days=days_ago, hours=1))

    def key(self, name: str, hosts: tuple[str, ...] = (), **times: int) -> str:
        return self.write(f"{name}.pem", self.sign(name, hosts, **times).pem())

    def serving(self, **changes: object) -> TLSSettings:
        return TLSSettings(**{"key_store_path": self.server, **changes})  # type: ignore[arg-type]

    def trusting(self, **changes: object) -> TLSSettings:
        return TLSSettings(**{"trust_store_path": self.trust, **changes})  # type: ignore[arg-type]
