"""Announcements in a shared directory: files that change are datagrams, and a closed sender leaves none."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import trio

from embedclient.model import SharedDirectory
from embedclient.transport import DirectoryReader, SystemDatagrams, TransportLost, _directory, run_in_thread
from embedclient.transport._datagrams import DatagramReceiver


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_directory, "LOOK_EVERY_S", 0.01)


async def next_of(receiver: DatagramReceiver) -> bytes:
    with trio.fail_after(60):
        return await receiver.receive()


async def nothing_from(receiver: DatagramReceiver) -> bool:
    with trio.move_on_after(0.2) as scope:
        await receiver.receive()
    return scope.cancelled_caught


async def until(condition: object) -> None:
    assert callable(condition)
    with trio.fail_after(60):
        while not condition():
            await trio.lowlevel.checkpoint()


async def test_each_change_of_a_file_is_a_datagram_also_for_those_that_come_later(tmp_path: Path) -> None:
    datagrams, directory = SystemDatagrams(), SharedDirectory(str(tmp_path / "new"), "channel")
    early = await datagrams.open_receiver(directory)
    assert await nothing_from(early)
    sender = await datagrams.open_sender(directory)
    sender.send_nowait(b"one")
    assert await next_of(early) == b"one"
    sender.send_nowait(b"one")
    assert await next_of(early) == b"one"
    assert await nothing_from(early)
    late = await datagrams.open_receiver(directory)
    assert await next_of(late) == b"one"
    elsewhere = await datagrams.open_receiver(SharedDirectory(directory.location, "another"))
    assert await nothing_from(elsewhere)
    sender.close()
    await until(lambda: not list(Path(directory.place).iterdir()))
    with pytest.raises(TransportLost, match="closed here"):
        sender.send_nowait(b"two")


async def test_what_a_crashed_sender_left_is_received_once_and_removed_after_an_hour(tmp_path: Path) -> None:
    datagrams, directory = SystemDatagrams(), SharedDirectory(str(tmp_path), "channel")
    folder = tmp_path / "channel"
    folder.mkdir()
    (folder / "list.of.jgroups.list").write_bytes(b"another format")
    for name, age_s in (("old", 7_200), ("young", 60)):
        (folder / f"{name}.announcement").write_bytes(name.encode())
        then = (folder / f"{name}.announcement").stat().st_mtime - age_s
        os.utime(folder / f"{name}.announcement", (then, then))
    receiver = await datagrams.open_receiver(directory)
    assert [await next_of(receiver), await next_of(receiver)] == [b"old", b"young"]
    searching = await SystemDatagrams(newest_first=True).open_receiver(directory)
    assert [await next_of(searching), await next_of(searching)] == [b"young", b"old"]
    searching.close()
    sender = await datagrams.open_sender(directory)
    sender.send_nowait(b"present")
    assert await next_of(receiver) == b"present"
    assert await nothing_from(receiver)
    await until(lambda: not (folder / "old.announcement").exists())
    assert (folder / "young.announcement").exists()
    sender.close()
    receiver.close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name")
async def test_what_is_no_file_is_left_out_and_a_pipe_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "channel").mkdir()
    (tmp_path / "channel" / "folder.announcement").mkdir()
    pipe = tmp_path / "channel" / "pipe.announcement"
    os.mkfifo(pipe)
    (tmp_path / "channel" / "file.announcement").write_bytes(b"one")
    directory = SharedDirectory(str(tmp_path), "channel")
    with trio.fail_after(60):
        assert await run_in_thread(DirectoryReader(directory).look, "a test", abandon_on_cancel=True) == [b"one"]
        # One that takes the place of a file behind the look.
        monkeypatch.setattr(stat, "S_ISREG", lambda _: True)
        assert await run_in_thread(DirectoryReader(directory).look, "a test", abandon_on_cancel=True) == [b"one"]


async def test_a_place_that_is_no_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    datagrams, directory = SystemDatagrams(), SharedDirectory(str(tmp_path / "file"), "channel")
    with pytest.raises(TransportLost, match=f"cannot read directory {tmp_path / 'file'}/channel"):
        await next_of(await datagrams.open_receiver(directory))
    sender = await datagrams.open_sender(directory)
    with pytest.raises(OSError, match=f"cannot write to directory {tmp_path / 'file'}/channel"):
        while True:
            sender.send_nowait(b"one")
            await trio.lowlevel.checkpoint()
    sender.close()


@pytest.mark.parametrize("channel", ["", "..", "a/b", "a:b", "a\0b", "a\ud800b"])
def test_a_channel_is_the_name_of_a_subdirectory(channel: str) -> None:
    with pytest.raises(ValueError, match="must be the name of a subdirectory"):
        SharedDirectory("/shared", channel)


@pytest.mark.parametrize("location", ["", "/a\0b", "/a\ud800b"])
def test_a_location_is_the_name_of_a_directory(location: str) -> None:
    with pytest.raises(ValueError, match="must be a path"):
        SharedDirectory(location, "channel")
