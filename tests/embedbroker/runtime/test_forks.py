"""A forked child has nothing of what its parent's brokers hold: it can neither keep it nor give it back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from embedbroker.locks import Acquire, Lock, ReadHolder
from embedbroker.runtime._file_locks import FileLocks
from embedbroker.runtime._lock import DirectoryLock, DirectoryLocked

# The child answers for itself, and leaves by _exit: an error of it must not run the rest of the parent's program.
PARENT = """
import os, sys
from pathlib import Path
from embedbroker.config import BrokerConfig
from embedbroker.locks import Acquire, Lock, LockFault, Verify
from embedbroker.runtime._directory import open_directory
from embedbroker.runtime._file_locks import FileLocks
from embedbroker.storage import DiskFault, WriteAt
from embedbroker.testing._disk import SimulatedDisk

opened = open_directory(BrokerConfig(data_directory=sys.argv[1]), None, late=False)
given = open_directory(BrokerConfig(), SimulatedDisk(), late=False)
session = FileLocks(sys.argv[1]).open("the parent")
session.run((Acquire(Lock.LIVE),))
if (child := os.fork()) == 0:
    refused = 0
    for attempt, fault in (
        (lambda: session.run((Verify(Lock.LIVE),)), LockFault),
        (lambda: opened.disk.run((WriteAt("a", 0, (b"x",)),)), DiskFault),
        (lambda: given.disk.run((WriteAt("a", 0, (b"x",)),)), DiskFault),
    ):
        try:
            attempt()
        except fault:
            refused += 1
    given.close()
    opened.close()
    session.close()
    print(refused, "refused", flush=True)
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""


def test_locks_are_held_as_long_as_the_parent_lives(tmp_path: Path) -> None:
    """Not shorter, although the child closes all it sees, and not longer, although the child lives on."""
    mine = FileLocks(tmp_path).open("mine")
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "3 refused\n"
        assert mine.run((Acquire(Lock.LIVE), ReadHolder(Lock.LIVE))) == (False, f"the parent in process {parent.pid}")
        with pytest.raises(DirectoryLocked, match=f"in process {parent.pid}"):
            DirectoryLock.acquire(tmp_path, "mine")
        parent.kill()
        parent.wait()
        assert mine.run((Acquire(Lock.LIVE),)) == (True,)
        DirectoryLock.acquire(tmp_path, "mine").release()
    mine.close()


IN_THREAD = """
import os, sys
from embedbroker import EmbeddedBroker
from embedclient.blocking import ConnectionFactory

started, entered = EmbeddedBroker.in_thread().start(), EmbeddedBroker.in_thread()
with entered:
    if (child := os.fork()) == 0:
        try:
            started.management
            started.start()
        except Exception as error:
            print(type(error).__name__, flush=True)
        entered.stop()
        sys.exit(7)  # leaves the block, and runs the parent's handlers of the end
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    for broker in (started, entered):
        with ConnectionFactory(broker.url).connect() as connection:
            connection.send("q", "x")
started.close()
started.close()
"""


def test_a_forked_child_leaves_brokers_in_threads_to_its_parent() -> None:
    # From 3.12 on Python warns of each fork of a process with threads.
    warnings = ["-W", "always::ResourceWarning", "-W", "ignore::DeprecationWarning"]
    done = subprocess.run([sys.executable, *warnings, "-c", IN_THREAD], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "IllegalStateException\n7\n", "")
