"""Users whose files change while the broker runs: they are read again with the next connection."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest

from embedbroker import EmbeddedBroker, User, load_config
from embedclient import ConnectionFactory
from embedclient.errors import JMSSecurityException

MODULE = "org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule"
XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<persistence-enabled>false</persistence-enabled>
<acceptors><acceptor name="a">tcp://127.0.0.1:0</acceptor></acceptors>
<security-settings><security-setting match="#">
  <permission type="send" roles="amq"/><permission type="createAddress" roles="amq"/>
  <permission type="createDurableQueue" roles="amq"/>
</security-setting></security-settings></core></configuration>"""
LOGIN = f"""activemq {{ {MODULE} required reload=true
  org.apache.activemq.jaas.properties.user="users.properties"
  org.apache.activemq.jaas.properties.role="roles.properties"; }};"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "broker.xml").write_text(XML)
    (tmp_path / "login.config").write_text(LOGIN)
    (tmp_path / "users.properties").write_text("app=one\n")
    (tmp_path / "roles.properties").write_text("amq=app\n")
    return tmp_path


async def is_admitted(broker: EmbeddedBroker, password: str) -> bool:
    try:
        async with ConnectionFactory(broker.url).connect("app", password):
            return True
    except JMSSecurityException:
        return False


async def test_a_changed_password_counts_from_the_next_connection_on(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = load_config(folder / "broker.xml")
    async with (
        EmbeddedBroker(config, port=0, failed_login_delay_ms=0) as broker,
        ConnectionFactory(broker.url).connect("app", "one") as before,
        before.session() as session,
    ):
        (folder / "users.properties").write_text("app=changed\n")
        assert await is_admitted(broker, "changed") and not await is_admitted(broker, "one")
        # Sessions that exist keep their user.
        await session.create_producer("queue://orders").send("x")
        (folder / "users.properties").write_text("app=ENC(nonsense)\n")
        for _ in range(3):
            assert await is_admitted(broker, "changed")
    (line,) = [record.getMessage() for record in caplog.records if "users stay" in record.getMessage()]
    assert "the password of user 'app'" in line and "nonsense" not in line


@pytest.mark.parametrize("name", ["login.config", "bootstrap.xml", "users.properties"])
async def test_change_that_cannot_be_read_for_a_moment_counts_later(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "bootstrap.xml").write_text('<broker><jaas-security domain="activemq"/></broker>')
    config = load_config(folder / "broker.xml")
    async with EmbeddedBroker(config, port=0, failed_login_delay_ms=0) as broker:
        (folder / "users.properties").write_text("app=changed\n")
        with monkeypatch.context() as patch:
            fail_to_open(patch, folder / name)
            for _ in range(3):
                assert await is_admitted(broker, "one")
        assert await is_admitted(broker, "changed") and not await is_admitted(broker, "one")
    (line,) = [record.getMessage() for record in caplog.records if "users stay" in record.getMessage()]
    assert name in line and "Too many open files" in line


def fail_to_open(patch: pytest.MonkeyPatch, path: Path) -> None:
    """Let no open of a file succeed, as when all file descriptors are in use."""
    opened = io.open

    def fail(file: Any, *arguments: Any, **named: Any) -> Any:
        if file == path:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return opened(file, *arguments, **named)

    patch.setattr(io, "open", fail)


async def test_users_that_the_program_gives_are_not_replaced(folder: Path) -> None:
    config = load_config(folder / "broker.xml")
    async with EmbeddedBroker(config, port=0, users=[User("app", "mine", roles=["amq"])]) as broker:
        (folder / "users.properties").write_text("app=changed\n")
        assert await is_admitted(broker, "mine") and not await is_admitted(broker, "changed")
