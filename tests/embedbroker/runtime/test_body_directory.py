"""Bodies of large messages in a directory other than the journal's."""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from embedbroker import BrokerConfig, EmbeddedBroker, PrimaryOnly, SharedStorePrimary
from embedbroker.cli._commands import commands
from embedbroker.cli._run import with_options
from embedbroker.config import HAPolicy
from embedbroker.runtime import MARK_FILE, FileDisk
from embedbroker.storage import ListFiles, Read, Remove, Rename, Stat, Sync, SyncDirectory, WriteAt
from embedclient import ConnectionFactory, Session, TextMessage
from embedclient.errors import ResourceAllocationException

BODY = "large," * 60_000


def bodies_in(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.body"))


def config(tmp_path: Path, bodies: str | None = "bodies", **more: object) -> BrokerConfig:
    place = None if bodies is None else tmp_path / bodies
    return BrokerConfig(data_directory=tmp_path / "data", large_messages_directory=place, **more)  # type: ignore[arg-type]  # real fields


@asynccontextmanager
async def session_of(settings: BrokerConfig) -> AsyncIterator[Session]:
    """A session with a broker that runs meanwhile."""
    async with (
        EmbeddedBroker(settings) as broker,
        ConnectionFactory(broker.url).connect() as connection,
        connection.session() as session,
    ):
        yield session


async def put(settings: BrokerConfig) -> None:
    async with session_of(settings) as session:
        await session.create_producer("orders").send(BODY)


async def take(settings: BrokerConfig) -> list[str | None]:
    """All messages."""
    found = []
    async with session_of(settings) as session, session.create_consumer("orders") as consumer:
        while (message := await consumer.receive_nowait()) is not None:
            assert isinstance(message, TextMessage)
            found.append(message.text)
    return found


@pytest.mark.parametrize("policy", [PrimaryOnly(), SharedStorePrimary()], ids=["alone", "shared store"])
async def test_bodies_are_there_and_nowhere_else(tmp_path: Path, policy: HAPolicy) -> None:
    settings = config(tmp_path, ha_policy=policy)
    await put(settings)
    assert len(bodies_in(tmp_path / "bodies")) == 1 and bodies_in(tmp_path / "data") == []
    assert await take(settings) == [BODY]
    assert await take(settings) == []
    assert bodies_in(tmp_path / "bodies") == []


async def test_bodies_beside_the_journal_stay_readable(tmp_path: Path) -> None:
    await put(config(tmp_path, None))
    await put(config(tmp_path))
    assert [len(bodies_in(tmp_path / name)) for name in ("data", "bodies")] == [1, 1]
    assert await take(config(tmp_path)) == [BODY, BODY]
    # A file that is still there when the broker stops is removed at the next start.
    assert await take(config(tmp_path)) == []
    assert [len(bodies_in(tmp_path / name)) for name in ("data", "bodies")] == [0, 0]


async def refusal(settings: BrokerConfig) -> str:
    """Return why a broker does not start."""
    with pytest.raises(ResourceAllocationException) as caught:
        async with EmbeddedBroker(settings):
            pass
    return str(caught.value)


async def test_directory_without_the_bodies_is_refused(tmp_path: Path) -> None:
    await put(config(tmp_path))
    text = await refusal(config(tmp_path, "other"))
    assert f"{tmp_path / 'other'} does not hold the large messages of this journal" in text
    assert "set large_messages_directory to that one" in await refusal(config(tmp_path, None))
    # Nothing was lost meanwhile.
    assert await take(config(tmp_path)) == [BODY]


async def test_bodies_of_another_journal_are_not_touched(tmp_path: Path) -> None:
    await put(config(tmp_path))
    other = BrokerConfig(data_directory=tmp_path / "second", large_messages_directory=tmp_path / "bodies")
    assert f"{tmp_path / 'bodies'} holds large messages of another journal" in await refusal(other)
    async with EmbeddedBroker(config(tmp_path)):
        assert f"{tmp_path / 'bodies'} is used by" in await refusal(other)
    assert await take(config(tmp_path)) == [BODY]


async def test_a_directory_of_another_journal_without_bodies_is_marked_anew(tmp_path: Path) -> None:
    async with EmbeddedBroker(config(tmp_path)):
        pass
    other = BrokerConfig(data_directory=tmp_path / "second", large_messages_directory=tmp_path / "bodies")
    await put(other)
    assert "does not hold the large messages of this journal" in await refusal(config(tmp_path))
    assert await take(other) == [BODY]


async def test_body_in_both_directories_is_one_if_the_files_are_equal(tmp_path: Path) -> None:
    """A copy in place of a move. Both files are removed with the message."""
    await put(config(tmp_path))
    (body,) = bodies_in(tmp_path / "bodies")
    shutil.copy(body, tmp_path / "data")
    assert await take(config(tmp_path)) == [BODY]
    assert await take(config(tmp_path)) == []
    assert [bodies_in(tmp_path / name) for name in ("data", "bodies")] == [[], []]


@pytest.mark.parametrize("place", ["data", "bodies"])
@pytest.mark.parametrize("content", [b"", BODY.encode("utf-16")[:-2], BODY.replace("l", "m").encode("utf-16")])
async def test_body_in_both_directories_with_different_content_is_refused(
    tmp_path: Path, place: str, content: bytes
) -> None:
    """As after a copy that was cut short, in whatever direction: none of the two may win by its place."""
    await put(config(tmp_path))
    (body,) = bodies_in(tmp_path / "bodies")
    shutil.copy(body, tmp_path / "data")
    damaged = tmp_path / place / body.name
    damaged.write_bytes(content)
    text = await refusal(config(tmp_path))
    assert f"1 large messages are in {tmp_path / 'data'} and in {tmp_path / 'bodies'}" in text and body.name in text
    words = ["journal", "repair", str(tmp_path / "data"), str(tmp_path / "copy")]
    repair = CliRunner().invoke(commands, [*words, "--large-messages", str(tmp_path / "bodies")])
    assert repair.exit_code != 0 and "the two files differ" in repair.output
    damaged.unlink()
    assert await take(config(tmp_path)) == [BODY]


def test_no_file_turns_up_under_a_name_that_was_given_away(tmp_path: Path) -> None:
    name, aside = "large-0000000001.body", "oldreplica.1.large-0000000001.body"
    for place in ("data", "bodies"):
        (tmp_path / place).mkdir()
        (tmp_path / place / name).write_bytes(b"abc")
    disk = FileDisk(tmp_path / "data", body_directory=tmp_path / "bodies")
    assert disk.run((Rename(name, aside), Stat(name), ListFiles())) == (None, None, (aside,))
    (tmp_path / "bodies" / aside).write_bytes(b"abc")
    assert disk.run((Remove(aside), Stat(aside), ListFiles())) == (None, None, ())
    disk.close()


@pytest.mark.parametrize("directory", [None, "other"])
def test_another_data_directory_leaves_that_of_the_bodies_to_the_configuration(
    tmp_path: Path, directory: str | None
) -> None:
    """A program or a command line may put the journal of a broker.xml elsewhere, or keep it in memory."""
    place = directory and str(tmp_path / directory)
    broker = EmbeddedBroker(config(tmp_path), data_directory=place)
    assert (broker.config.data_directory, broker.config.large_messages_directory) == (place, None)
    changed = with_options(config(tmp_path), {"data": place})
    assert (changed.data_directory, changed.large_messages_directory) == (place, None)
    assert EmbeddedBroker(config(tmp_path), port=0).config.large_messages_directory == str(tmp_path / "bodies")


async def test_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "bodies").write_text("a file")
    assert str(tmp_path / "bodies") in await refusal(config(tmp_path))


async def test_repair_copies_bodies_from_there(tmp_path: Path) -> None:
    await put(config(tmp_path))
    words = ["journal", "repair", str(tmp_path / "data"), str(tmp_path / "copy")]
    refused = CliRunner().invoke(commands, words)
    assert refused.exit_code != 0 and "--large-messages must name" in refused.output
    (tmp_path / "empty").mkdir()
    empty = CliRunner().invoke(commands, [*words, "--large-messages", str(tmp_path / "empty")])
    assert empty.exit_code != 0 and "holds no large messages of the journal in" in empty.output
    bodies = str(tmp_path / "bodies")
    among = CliRunner().invoke(commands, [*words[:3], bodies, "--large-messages", bodies])
    assert among.exit_code != 0 and "COPY must be another directory" in among.output
    assert not (tmp_path / "copy").exists()
    done = CliRunner().invoke(commands, [*words, "--large-messages", bodies])
    assert done.exit_code == 0, done.output
    assert await take(BrokerConfig(data_directory=tmp_path / "copy")) == [BODY]


def test_files_that_a_replication_puts_aside_stay_on_their_file_system(tmp_path: Path) -> None:
    for name in ("data", "bodies"):
        (tmp_path / name).mkdir()
    disk = FileDisk(tmp_path / "data", body_directory=tmp_path / "bodies")
    name, aside = "large-0000000001.body", "oldreplica.1.large-0000000001.body"
    disk.run((WriteAt(name, 0, (b"abc",)), Sync(name), WriteAt("node.state", 0, (b"n",)), SyncDirectory()))
    (tmp_path / "bodies" / "foreign").touch()
    assert disk.run((ListFiles(), Stat(name))) == ((name, "node.state"), 3)
    disk.run((Rename(name, aside),))
    assert [path.name for path in bodies_in(tmp_path / "bodies")] == [aside]
    assert disk.run((Read(aside, 1, 9), Stat(name), Remove(aside), ListFiles())) == (b"bc", None, None, ("node.state",))
    disk.close()


async def test_crash_between_the_marks_is_no_obstacle(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "bodies").mkdir()
    (tmp_path / "bodies" / MARK_FILE).write_text("00ff")
    with caplog.at_level(logging.WARNING):
        await put(config(tmp_path))
    assert (tmp_path / "data" / MARK_FILE).read_text() == (tmp_path / "bodies" / MARK_FILE).read_text()
    assert not caplog.records
