"""What reading and acknowledging with a cursor costs a broker: CPU per row, without sockets and disk.

Run ``python -m benchmarks.cursor_rows [rows]``. The steps of one node are timed, with a journal whose disk is
simulated. The client's work on the rows is not included.
"""

from __future__ import annotations

import gc
import sys
import time
from struct import unpack_from
from typing import Any

from attrs import define

from embedbroker.node import Input, Output
from tests.embedbroker.node.scripted import MEMORY_LIMIT_BYTES, Stage, letter
from tests.embedbroker.node.services import Asker

BODY = "x" * 100
ROWS = 200_000


@define
class _Clock:
    """Measure the CPU time of the steps since the last reading, and the longest of them."""

    seconds: float = 0.0
    longest_s: float = 0.0

    def take(self, name: str, rows: int) -> None:
        per_row = self.seconds / rows * 1e6
        rate = rows / self.seconds
        print(f"{name:<12}{per_row:8.2f} us per row {rate:12,.0f} rows/s   longest step {self.longest_s * 1e3:.1f} ms")
        self.seconds = self.longest_s = 0.0


class _TimedStage(Stage):
    clock = _Clock()

    def take_step(self, input: Input) -> list[Output]:
        began = time.process_time()
        outputs = super().take_step(input)
        took = time.process_time() - began
        self.clock.seconds += took
        self.clock.longest_s = max(self.clock.longest_s, took)
        return outputs


def _ask(asker: Asker, operation: str, **fields: object) -> Any:
    correlation_id = asker.put(operation, queue="q", cursor="c", **fields)
    asker.peer.stage.settle_disk()
    status, body = asker.answer(correlation_id)
    assert status == "ok", body
    return body


def main(rows: int) -> None:
    gc.disable()  # a full collection belongs to the process, not to the step in which it happens
    stage = _TimedStage(durable=True, segment_size_bytes=10 << 20, memory_limit_bytes=64 * MEMORY_LIMIT_BYTES)
    clock = stage.clock
    peer = stage.connect().open_session()
    peer.create_queue()
    asker = Asker(peer)
    for first in range(0, rows, 1000):
        stage.node.kernel.now_ms += 1
        for _ in range(first, min(first + 1000, rows)):
            stage.node.kernel.router.send(letter(BODY, durable=True), 1, None)
        stage.settle_disk()
    clock.seconds = clock.longest_s = 0.0
    _ask(asker, "cursor.open", owner="job", lease_ms=60_000)
    pin = _ask(asker, "cursor.pin", owner="job", start=0, max_rows=0, max_bytes=0)
    assert pin["rows"] == rows
    clock.take("pinning", rows)
    for name in ("reading", "once more"):
        reached = 0
        while reached < pin["end"]:
            body = _ask(asker, "cursor.read", after=reached, until=pin["end"])
            (reached,) = unpack_from("<q", body, 4)
        clock.take(name, rows)
    _ask(asker, "cursor.acknowledge", owner="job", until=pin["end"])
    clock.take("leaving", rows)
    assert not stage.node.kernel.address_manager.queues["q"].message_count


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
