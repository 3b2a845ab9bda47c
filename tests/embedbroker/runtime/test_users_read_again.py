"""Users whose files change while the broker runs: they are read again with the next connection."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from embedbroker import EmbeddedBroker, User, load_config
from embedclient import ConnectionFactory
from embedclient.errors import JMSException, JMSSecurityException

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


async def test_management_writes_the_files_and_the_users_hold_at_once_and_after_a_restart(folder: Path) -> None:
    # Without reload=true: a change of the files alone would count with the next start.
    (folder / "login.config").write_text(LOGIN.replace("reload=true", "reload=false"))
    config = load_config(folder / "broker.xml")
    async with EmbeddedBroker(config, port=0, failed_login_delay_ms=0) as broker:
        management = broker.management
        await management.add_user("new", "n", ["amq", "view"])
        assert await management.users() == {"app": ["amq"], "new": ["amq", "view"]}
        async with ConnectionFactory(broker.url).connect("new", "n") as connection, connection.session() as session:
            await session.create_producer("queue://orders").send("x")
        await management.reset_user("app", password="two", plaintext=True)
        assert await is_admitted(broker, "two") and not await is_admitted(broker, "one")
        with pytest.raises(JMSException, match="AMQ229223: User new already exists"):
            await management.add_user("new", "n", ["amq"])
        await broker.stop()
        await broker.start()
        assert await is_admitted(broker, "two")
        await management.remove_user("app")
        assert not await is_admitted(broker, "two")
        assert await management.users() == {"new": ["amq", "view"]}
    assert (folder / "roles.properties").read_text() == "amq = new\nview = new\n"
    assert [user.name for user in load_config(folder / "broker.xml").users] == ["new"]


async def test_many_changes_at_once_lose_nothing(folder: Path) -> None:
    config = load_config(folder / "broker.xml")
    async with EmbeddedBroker(config, port=0) as broker, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(broker.management.add_user, f"user{number}", "p", ["amq"])
    assert len(load_config(folder / "broker.xml").users) == 21


async def test_files_that_cannot_be_used_fail_the_call_and_leave_the_users(folder: Path) -> None:
    config = load_config(folder / "broker.xml")
    async with EmbeddedBroker(config, port=0, failed_login_delay_ms=0) as broker:
        (folder / "roles.properties").unlink()
        with pytest.raises(JMSException, match="AMQ229221: Failed to load role file"):
            await broker.management.remove_user("app")
        (folder / "roles.properties").write_text("amq=app\n")
        (folder / "users.properties").write_text("app=one\nbroken=ENC(nonsense)\n")
        with pytest.raises(JMSException, match="the password of user 'broken'"):
            await broker.management.reset_user("app", password="two")
        assert await is_admitted(broker, "one")


async def test_users_of_a_program_are_changed_until_the_broker_stops() -> None:
    async with EmbeddedBroker(users=[User("app", "one", roles=["amq"])], failed_login_delay_ms=0) as broker:
        await broker.management.reset_user("app", password="two")
        await broker.management.add_user("new", "n", ["amq"], plaintext=True)
        assert await is_admitted(broker, "two") and not await is_admitted(broker, "one")
        assert await broker.management.users() == {"app": ["amq"], "new": ["amq"]}
        await broker.crash()
        await broker.start()
        assert await is_admitted(broker, "one") and await broker.management.users() == {"app": ["amq"]}


def test_the_blocking_form_changes_users() -> None:
    with EmbeddedBroker.in_thread(users=[User("app", "one", roles=["amq"])]) as broker:
        broker.management.add_user("new", "n", ["amq"])
        broker.management.reset_user("new", roles=["view"])
        broker.management.remove_user("app")
        assert broker.management.users() == {"new": ["view"]}


async def test_users_that_the_program_gives_are_not_replaced(folder: Path) -> None:
    config = load_config(folder / "broker.xml")
    async with EmbeddedBroker(config, port=0, users=[User("app", "mine", roles=["amq"])]) as broker:
        (folder / "users.properties").write_text("app=changed\n")
        assert await is_admitted(broker, "mine") and not await is_admitted(broker, "changed")


async def test_users_of_a_configuration_that_the_program_changed_are_not_replaced(folder: Path) -> None:
    config = evolve(load_config(folder / "broker.xml"), users=[User("app", "mine", roles=["amq"])])
    # Also where the configuration file is not followed.
    for mine in (config, evolve(config, configuration_source=None)):
        async with EmbeddedBroker(mine, port=0, failed_login_delay_ms=0) as broker:
            assert await is_admitted(broker, "mine") and not await is_admitted(broker, "one")
            (folder / "users.properties").write_text("app=changed\n")
            assert await is_admitted(broker, "mine") and not await is_admitted(broker, "changed")
            await broker.management.reset_user("app", password="two")
            assert await is_admitted(broker, "two")
        assert (folder / "users.properties").read_text() == "app=changed\n"


async def test_a_guest_login_that_the_program_removes_stays_removed(folder: Path) -> None:
    guests = MODULE.replace("PropertiesLoginModule", "GuestLoginModule sufficient")
    (folder / "login.config").write_text(LOGIN.replace("required", "sufficient").replace("};", f"{guests}; }};"))
    config = load_config(folder / "broker.xml")
    async with EmbeddedBroker(config, failed_login_delay_ms=0) as broker, ConnectionFactory(broker.url).connect():
        pass
    async with EmbeddedBroker(evolve(config, guest=None), failed_login_delay_ms=0) as broker:
        with pytest.raises(JMSSecurityException):
            async with ConnectionFactory(broker.url).connect():
                pass
        assert await is_admitted(broker, "one")
