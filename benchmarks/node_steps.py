"""What one message costs the steps of a node: instructions and processor time, without sockets and disk.

Run ``python -m benchmarks step``. Instructions are counted by callgrind (``apt-get install valgrind``): they are the
same from run to run, while processor time varies with the neighbours. A separate program takes the steps: it prepares
all input in any case and takes a given number of steps, so the difference of two runs is steps and nothing else.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.broker_cases import Effort
from benchmarks.report import Row
from embedbroker.node import BytesReceived, Input, SendBytes, Written
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import CoreMessage, SessionAcknowledge, SessionSend, encode_acknowledge, encode_send
from tests.embedbroker.node.scripted import CHANNEL, Stage

BODY = bytes(1024)
MESSAGES_PER_READ = 42
# Reads of messages; each is followed by one of as many acknowledgements.
FEW, MANY = 20, 220
# A host reports what was written once it is this much.
_WRITTEN_BYTES = 128 * 1024


# Which messages belong to groups: none, one that was sent before, or each.
NONE, ONE_BEFORE, EACH = "none", "before", "each"
_GROUPS = 8


def _letter(number: int, groups: str) -> CoreMessage:
    """Return a message as a JMS client sends it, with a property that differs in each."""
    properties = Properties()
    properties.set("__AMQ_CID", "8b1f3a52-7c1e-11ee-b962-0242ac120002", PropertyType.STRING)
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    properties.set("count", number, PropertyType.INT)
    if groups == EACH:
        properties.set("_AMQ_GROUP_ID", f"group {number % _GROUPS}", PropertyType.STRING)
    user_id = number.to_bytes(16, "big")
    return CoreMessage.build(
        type=4, address="q", durable=False, timestamp=1, user_id=user_id, properties=properties, body=BODY
    )


def _inputs(stage: Stage, groups: str) -> list[Input]:
    """Return all reads of one connection that sends and of one that acknowledges, in turn."""
    producer = stage.connect().open_session()
    producer.create_queue()
    consumer = stage.connect().open_session()
    consumer.consume()
    consumer.listens = False
    if groups == ONE_BEFORE:
        producer.send(SessionSend(_letter(0, EACH), False, -1))
        consumer.send(SessionAcknowledge(0, stage.node.kernel.ids.next_id - 1, False))
    next_id = stage.node.kernel.ids.next_id
    inputs: list[Input] = []
    for first in range(0, MANY * MESSAGES_PER_READ, MESSAGES_PER_READ):
        numbers = range(first, first + MESSAGES_PER_READ)
        sends = [piece for each in numbers for piece in encode_send(_letter(each, groups).raw, CHANNEL, 136, False)]
        acknowledgements = [encode_acknowledge(CHANNEL, 0, next_id + each, False) for each in numbers]
        inputs.append(BytesReceived(producer.number, b"".join(sends)))
        inputs.append(BytesReceived(consumer.number, b"".join(acknowledgements)))
    return inputs


def take_steps(reads: int, groups: str = NONE) -> float:
    """Take the steps of ``reads`` reads of messages. Return the processor time of a message in microseconds."""
    gc.disable()  # a full collection belongs to the process, not to the step in which it happens
    stage = Stage()
    inputs = _inputs(stage, groups)
    queue = stage.node.kernel.address_manager.queues["q"]
    before = queue.added_count
    node, now, unreported = stage.node, stage.now, 0
    began = time.process_time()
    for given in inputs[: 2 * reads]:
        for output in node.step(given, now):
            assert isinstance(output, SendBytes), output
            unreported += len(output.data)
            if unreported >= _WRITTEN_BYTES:
                node.step(Written(output.connection, unreported), now)
                unreported = 0
    took = time.process_time() - began
    sent = reads * MESSAGES_PER_READ
    assert (queue.added_count - before, queue.acknowledged_count, queue.message_count) == (sent, sent + before, 0)
    return took / sent * 1e6


def _instructions(reads: int, groups: str) -> int:
    """Return the instructions of a whole process that takes these steps."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "callgrind"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={found}"]
        subprocess.run(
            [*command, sys.executable, "-m", __name__, str(reads), groups],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        total = re.search(r"^totals: (\d+)", found.read_text(), re.MULTILINE)
    assert total is not None
    return int(total[1])


def _microseconds() -> float:
    command = [sys.executable, "-m", __name__, str(MANY)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def step(effort: Effort) -> list[Row]:
    """`Node.step` per message, non-durable 1 KiB, 42 a read, acknowledged: instructions by callgrind, and CPU time."""
    metric = f"of one message, {MESSAGES_PER_READ} in a read"
    took = median(_microseconds() for _ in range(5 * effort.rounds + 1))
    rows = [Row("step", f"CPU {metric} (median)", "µs", took, None, "lower")]
    if shutil.which("valgrind"):
        rows.append(Row("step", f"instructions {metric}", "instructions", _per_message(NONE), None, "lower"))
    return rows


def _per_message(groups: str) -> float:
    difference = _instructions(MANY, groups) - _instructions(FEW, groups)
    return difference / (MANY - FEW) / MESSAGES_PER_READ


def group_step(effort: Effort) -> list[Row]:
    """`step` in instructions with message groups: ungrouped messages, the same after a group, and grouped ones."""
    if not shutil.which("valgrind"):
        return []
    plain, after, grouped = [_per_message(groups) for groups in (NONE, ONE_BEFORE, EACH)]
    name = "group-step"
    return [
        Row(name, "instructions of a message without a group", "instructions", plain, None, "lower"),
        Row(name, "the same in a queue that has had a group", "instructions", after, None, "lower"),
        Row(name, f"instructions of a message of one of {_GROUPS} groups", "instructions", grouped, None, "lower"),
        Row(name, "grouped beside ungrouped", "x", grouped / plain, None, "lower"),
    ]


if __name__ == "__main__":
    print(take_steps(int(sys.argv[1]), *sys.argv[2:]))
