"""Messages come back in slices while the journal already works in the background."""

from __future__ import annotations

from pathlib import Path
from random import Random

from embedbroker.config import BrokerConfig
from embedbroker.node import BytesReceived, Command, CommandKind, DiskDone, Input, Node, Tick
from embedbroker.node._inputs import Accepted
from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import DiskWork, JournalSettings, Lane
from embedclient.model import Instant
from embedclient.wire.core import CoreMessage, CreateQueueV2, CreateSessionV2, encode_packet, encode_send

MESSAGES = 308
SLICE = 10


class Chance:
    def __init__(self) -> None:
        self._random = Random(1)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def random(self) -> float:
        return self._random.random()


class Stage:
    """One node over real files; `feed` carries out whatever disk work an input causes, one lane's or both."""

    def __init__(self, disk: FileDisk) -> None:
        settings = JournalSettings(identity=1, segment_size_bytes=64 * 1024)
        self.node = Node(BrokerConfig(work_per_step_max=SLICE), Chance(), 1 << 30, settings)
        self.disk = disk
        self.now = Instant(1.0, 1_700_000_000_000)
        self.background: list[DiskWork] = []

    def feed(self, input: Input) -> None:
        inputs = [input]
        while inputs:
            for output in self.node.step(inputs.pop(0), self.now):
                if isinstance(output, DiskWork) and output.lane is Lane.BACKGROUND:
                    self.background.append(output)
                elif isinstance(output, DiskWork):
                    inputs.append(DiskDone(output.batch, self.disk.run(output.operations)))

    def finish_background(self) -> int:
        done = 0
        while self.background:
            work = self.background.pop(0)
            self.feed(DiskDone(work.batch, self.disk.run(work.operations)))
            done += 1
        return done


def test_background_work_that_ends_between_two_slices_loses_no_message(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    first = Stage(disk)
    first.feed(Command(CommandKind.START))
    first.feed(Accepted(1, "peer"))
    create = CreateSessionV2("one", 10, 136, None, None, 1, False, True, True, -1, False, None, None)
    queue = CreateQueueV2("orders", "orders", None, True, False, True, False, 1)
    message = CoreMessage.build(address="orders", body=bytes(1000))
    send = b"".join(encode_send(message.raw, 10, 136, True, 1))
    hello = b"ARTEMIS" + encode_packet(create, 1, 136) + encode_packet(queue, 10, 136)
    for number, data in enumerate((hello, *[send] * MESSAGES)):
        first.feed(BytesReceived(1, data))
        if number < MESSAGES - 20:  # it dies while the next segment is being prepared
            first.finish_background()

    second = Stage(disk)  # the first one is gone without a word
    second.feed(Command(CommandKind.START))
    between = 0
    while not second.node.is_running:
        between += second.finish_background()
        second.feed(Tick())
    disk.close()
    assert between > 0, "the journal had nothing to do while messages came back"
    assert second.node.kernel.address_manager.queues["orders"].message_count == MESSAGES
