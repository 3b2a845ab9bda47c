"""A broker whose disk fills up, run by `test_full_disk` in a separate process; prints what happened as JSON.

    python -m tests.embedbroker.runtime.full_disk_program FOLDER tmpfs|limit

``tmpfs`` mounts a small file system over the folder, which takes a separate user namespace. ``limit`` stands in where
that is not allowed: files may not become as large as a segment any more, so no further one can be made.
"""

from __future__ import annotations

import json
import logging
import resource
import subprocess
import sys

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, JMSException, Queue

SEGMENT_BYTES = 256 * 1024
# Two segments fit, and a third does not.
DISK_BYTES = 2 * SEGMENT_BYTES + SEGMENT_BYTES // 2
BODY = b"x" * 2000
SENDS_MAX = 5 * SEGMENT_BYTES // len(BODY)
# What one message takes on the disk, alone in its batch.
STORED_BYTES = 2560


class Warnings(logging.Handler):
    """Lines of the broker's log, each with how many messages had been confirmed by then."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.confirmed = 0
        self.lines: list[tuple[int, str]] = []
        self.came = trio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((self.confirmed, record.getMessage()))
        self.came.set()


def shrink(folder: str, how: str) -> None:
    if how == "tmpfs":
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder], check=True)


def limit(how: str) -> None:
    """Called when the first segment is there."""
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (SEGMENT_BYTES - 1, resource.RLIM_INFINITY))


def widen(folder: str, how: str) -> None:
    if how == "tmpfs":
        subprocess.run(["mount", "-o", f"remount,size={10 * DISK_BYTES}", folder], check=True)
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


async def fill(folder: str, how: str, warnings: Warnings) -> tuple[str, str]:
    """Send until a send is not confirmed; returns the client's error and the broker's reason.

    The next segment is tried in the background once half of the last one is used. Somewhat later this waits for what
    comes of it: a busy machine may take longer for that than for all the sends that still fit.
    """
    error = ""
    segments = 2 if how == "tmpfs" else 1
    waits_at = int((segments - 0.4) * SEGMENT_BYTES / STORED_BYTES)
    async with (
        EmbeddedBroker(data_directory=folder, segment_size_bytes=SEGMENT_BYTES) as broker,
        ConnectionFactory(f"{broker.url}?reconnectAttempts=0").connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer(Queue("orders"))
        try:
            while warnings.confirmed < SENDS_MAX:
                await producer.send(BODY)
                warnings.confirmed += 1
                if warnings.confirmed == 1:
                    limit(how)
                if warnings.confirmed == waits_at:
                    await warnings.came.wait()
        except JMSException as failure:
            error = type(failure).__name__
        reason = await broker.wait_failed()
    return error, reason


async def receive_all(folder: str) -> int:
    count = 0
    async with (
        EmbeddedBroker(data_directory=folder, segment_size_bytes=SEGMENT_BYTES) as broker,
        ConnectionFactory(broker.url).connect() as connection,
        connection.session() as session,
        session.create_consumer(Queue("orders")) as consumer,
    ):
        await session.create_producer(Queue("orders")).send("there is space again")
        message = await consumer.receive(timeout=30)
        while message is not None and message.body != "there is space again":
            count += 1
            message = await consumer.receive(timeout=30)
    return count


def main(folder: str, how: str) -> None:
    shrink(folder, how)
    warnings = Warnings()
    logging.getLogger("embedbroker").addHandler(warnings)
    error, reason = trio.run(fill, folder, how, warnings)
    widen(folder, how)
    found = {
        "confirmed": warnings.confirmed,
        "lines": warnings.lines,
        "error": error,
        "reason": reason,
        "received": trio.run(receive_all, folder),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
