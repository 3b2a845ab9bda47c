"""One suite for everything that is a lock manager (a real ZooKeeper has it in the interop tests), and what only one of
them can meet."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from embedbroker.config import LockManager
from embedbroker.locks import (
    KeepLease,
    Lease,
    LockFault,
    LockManagers,
    MemoryLockManager,
    ReadLeaseHolder,
    ReadSequence,
    SwapSequence,
    TakeLease,
)
from embedbroker.runtime._coordination import lock_manager_of
from embedbroker.runtime._file_leases import FileLockManager
from embedbroker.runtime._zookeeper import ZooKeeperLockManager, ZooKeeperSettings
from embedbroker.testing._leases import SimulatedLockManager

from .lease_suite import FILES_AND_NODES, KEY, SUITE


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("kind", ["memory", "files", "simulated", "simulated leases"])
@pytest.mark.parametrize("case", SUITE, ids=lambda case: case.__name__)
def test_a_lock_manager(case: Callable[[LockManagers], None], kind: str, tmp_path: Path) -> None:
    if kind == "memory":
        case(MemoryLockManager())
    elif kind == "files":
        case(FileLockManager(tmp_path))
    else:
        case(SimulatedLockManager(Clock(), 3.0 if kind == "simulated leases" else None))


@pytest.mark.parametrize("case", FILES_AND_NODES, ids=lambda case: case.__name__)
def test_a_lock_manager_in_files(case: Callable[[LockManagers], None], tmp_path: Path) -> None:
    case(FileLockManager(tmp_path))


def test_a_simulated_lease_runs_out_and_goes_on_when_it_is_kept() -> None:
    clock = Clock()
    manager = SimulatedLockManager(clock, 3.0)
    first, second = manager.open("first"), manager.open("second")
    assert first.run((TakeLease(KEY),)) == (Lease(3.0),)
    clock.now = 2.0
    assert first.run((KeepLease(KEY),)) == (Lease(3.0),)
    first.close()
    clock.now = 4.9
    assert second.run((TakeLease(KEY),)) == (None,)
    clock.now = 5.0
    assert second.run((TakeLease(KEY),)) == (Lease(3.0),)


def test_a_lock_manager_can_be_out_of_reach_for_one_broker() -> None:
    manager = SimulatedLockManager(Clock())
    first, second = manager.open("first"), manager.open("second")
    manager.cut_off["first"] = None
    with pytest.raises(LockFault, match="cannot be reached"):
        first.run((TakeLease(KEY),))
    assert second.run((TakeLease(KEY),)) == (Lease(None),)
    manager.reachable = False
    with pytest.raises(LockFault, match="cannot be reached"):
        second.run((KeepLease(KEY),))


# -- files ---------------------------------------------------------------------------------------------------------

HOLD = """
import sys
from embedbroker.locks import TakeLease, SwapSequence
from embedbroker.runtime._file_leases import FileLockManager
session = FileLockManager(sys.argv[1]).open("primary 'other'")
print(session.run((TakeLease(sys.argv[2]), SwapSequence(sys.argv[2], 0, 3)))[1], flush=True)
sys.stdin.read()
"""


def test_a_killed_process_has_given_its_lease_back_and_its_number_stays(tmp_path: Path) -> None:
    mine = FileLockManager(tmp_path).open("mine")
    command = [sys.executable, "-c", HOLD, str(tmp_path), KEY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "True\n"
        answer = mine.run((TakeLease(KEY), ReadLeaseHolder(KEY)))
        assert answer == (None, f"primary 'other' in process {process.pid}")
        process.kill()
        process.wait()
    assert mine.run((ReadLeaseHolder(KEY), ReadSequence(KEY), TakeLease(KEY))) == (None, 3, Lease())
    mine.close()


def test_the_files_are_those_of_artemis(tmp_path: Path) -> None:
    session = FileLockManager(tmp_path).open("mine")
    session.run((TakeLease(KEY), SwapSequence(KEY, 0, -258)))
    assert sorted(path.name for path in tmp_path.iterdir()) == [KEY, f"ML:{KEY}"]
    assert (tmp_path / f"ML:{KEY}").read_bytes() == (-258).to_bytes(8, "big", signed=True)
    session.close()


def test_a_lock_file_that_was_removed_is_no_lease_any_more(tmp_path: Path) -> None:
    first, second = FileLockManager(tmp_path).open("first"), FileLockManager(tmp_path).open("second")
    first.run((TakeLease(KEY),))
    (tmp_path / KEY).unlink()
    assert second.run((TakeLease(KEY),)) == (Lease(),)
    assert first.run((KeepLease(KEY),)) == (None,)
    first.close()
    second.close()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LockFault, match=r"the locks-folder .*/nowhere is no directory"):
        FileLockManager(tmp_path / "nowhere").open("mine")


# -- configuration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "class_name",
    [
        "FileBasedLockManager",
        "org.apache.activemq.artemis.lockmanager.file.FileBasedLockManager",
        "org.apache.activemq.artemis.quorum.file.FileBasedPrimitiveManager",
    ],
)
def test_a_manager_in_files_is_configured_as_in_artemis(class_name: str, tmp_path: Path) -> None:
    manager = lock_manager_of(LockManager(class_name, {"locks-folder": str(tmp_path)}))
    assert isinstance(manager, FileLockManager) and manager.folder == tmp_path


def test_a_manager_in_zookeeper_is_configured_as_in_artemis() -> None:
    name = "org.apache.activemq.artemis.lockmanager.zookeeper.CuratorDistributedLockManager"
    manager = lock_manager_of(
        LockManager(name, {"connect-string": "a:1,b:2", "namespace": "/brokers", "retries": "-1"})
    )
    assert isinstance(manager, ZooKeeperLockManager)
    assert manager.settings == ZooKeeperSettings("a:1,b:2", "brokers", 18_000, 33, 8_000, -1, 1_000)
    assert manager.settings.lease_of(18_000) == Lease(5.94)


@pytest.mark.parametrize(
    ("configured", "text"),
    [
        (LockManager("com.example.Mine"), "no class_name 'com.example.Mine' here"),
        (LockManager("FileBasedLockManager"), "FileBasedLockManager: needs the property locks-folder"),
        (
            LockManager("FileBasedLockManager", {"lock-folder": "x"}),
            "'lock-folder' is unknown; the only one is locks-folder",
        ),
        (LockManager("CuratorDistributedLockManager"), "needs the property connect-string"),
        (
            LockManager("CuratorDistributedLockManager", {"connect-string": "a", "session-ms": "soon"}),
            "session-ms must be a number from 1000 to 3600000, not 'soon'",
        ),
        (
            LockManager("CuratorDistributedLockManager", {"connect-string": "a", "session-percent": "101"}),
            "session-percent must be a number from 1 to 100",
        ),
        (LockManager("CuratorDistributedLockManager", {"connect-string": "a", "x": "1"}), "property 'x' is not one of"),
    ],
)
def test_a_wrong_configuration_is_refused_in_words(configured: LockManager, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        lock_manager_of(configured)


def test_an_ensemble_that_is_not_there_is_a_fault_that_names_it() -> None:
    settings = ZooKeeperSettings.of({"connect-string": "127.0.0.1:1", "connection-ms": "300"})
    session = ZooKeeperLockManager(settings).open("mine")
    with pytest.raises(LockFault, match=r"ZooKeeper at 127\.0\.0\.1:1 does not answer"):
        session.run((TakeLease(KEY),))
    session.close()


@pytest.mark.parametrize("data", [b"\0", b"\0" * 7, b"\0" * 9])
def test_a_damaged_number_is_not_taken_for_none(tmp_path: Path, data: bytes) -> None:
    """That would let a copy that was left behind be live."""
    session = FileLockManager(tmp_path).open("mine")
    (tmp_path / "ML:node").write_bytes(data)
    for operation in (ReadSequence("node"), SwapSequence("node", 0, 1)):
        with pytest.raises(LockFault, match=r"ML:node is damaged.*live last"):
            session.run((operation,))
    assert (tmp_path / "ML:node").read_bytes() == data
    session.close()
