"""Requests and chores that concern many messages at once, with another client beside them, and what each step costs.

Responsible for setting such work up, for running it to its end with traffic between the steps, and for measuring.
Refuses to judge.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable
from time import thread_time
from types import FrameType
from typing import TYPE_CHECKING, TypeAlias

from attrs import define

from embedbroker.kernel import Consumer
from embedbroker.node import Command, CommandKind, Input, Output, Tick
from embedbroker.storage import Lane, Remove
from embedbroker.storage.journal._segments import COMPACTING
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import (
    CoreMessage,
    ExceptionResponse,
    NullResponse,
    Packet,
    Ping,
    SessionAcknowledge,
    SessionCommit,
    SessionConsumerClose,
    SessionIndividualAcknowledge,
    SessionRollback,
    SessionSend,
    SessionXaCommit,
    SessionXaEnd,
    SessionXaPrepare,
    SessionXaResponse,
    SessionXaRollback,
    SessionXaStart,
    encode_packet,
)

from .branches import xid
from .scripted import CHANNEL, Peer, Stage, letter

if TYPE_CHECKING:
    from _typeshed import TraceFunction

__all__ = ["WORKS", "LargeWork", "Measure", "Measured", "WorkStage", "lines_of", "run", "seconds_of"]

Measure: TypeAlias = Callable[[Callable[[], object]], float]
_PER_READ = 500
_XA_OK = SessionXaResponse(False, 0)


def seconds_of(action: Callable[[], object]) -> float:
    """CPU time of this thread."""
    start = thread_time()
    action()
    return thread_time() - start


def lines_of(action: Callable[[], object]) -> float:
    """Lines of Python that ran: the same on every machine, however busy it is."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal lines
        if event == "line":
            lines += 1
        return count

    tracer = sys.gettrace()
    sys.settrace(count)
    try:
        action()
    finally:
        sys.settrace(tracer)
    return lines


class WorkStage(Stage):
    """A stage that can measure steps. One follows the other: none is taken while another is."""

    def __init__(self, **options: object) -> None:
        self.measure: Measure | None = None
        self.costs: list[float] = []
        self._inputs: deque[Input] = deque()
        self._is_busy = False
        super().__init__(durable=True, memory_limit_bytes=1 << 30, id_cache_size=1 << 20, **options)  # type: ignore[arg-type]  # real options

    def step(self, input: Input) -> list[Output]:
        self._inputs.append(input)
        outputs: list[Output] = []
        if not self._is_busy:
            self._is_busy = True
            while self._inputs:
                outputs += super().step(self._inputs.popleft())
            self._is_busy = False
        return outputs

    def take_step(self, input: Input) -> list[Output]:
        if self.measure is None:
            return super().take_step(input)
        taken: list[list[Output]] = []
        self.costs.append(self.measure(lambda: taken.append(self.node.step(input, self.now))))
        return taken[0]

    @property
    def has_work(self) -> bool:
        """Whether the disk or the node would go on at once."""
        deadline = self.node.next_deadline()
        return bool(self.work) or (deadline is not None and deadline <= self.seconds)

    def go_on(self) -> None:
        """The next thing there is to do."""
        if self.work:
            self.finish_work(self.work[0])
        else:
            self.step(Tick())

    def count(self, queue: str = "q") -> int:
        return self.node.kernel.address_manager.queues[queue].message_count

    def consumer(self, peer: Peer) -> Consumer:
        return self.node.core.sessions[f"session-{peer.number}-{CHANNEL}"].kernel_session.consumers[0]


# -- setting work up -------------------------------------------------------------------------------------------------


def _send_many(peer: Peer, frames: Callable[[int], bytes], count: int) -> None:
    for start in range(0, count, _PER_READ):
        peer.send_bytes(b"".join(map(frames, range(start, min(start + _PER_READ, count)))))
        peer.stage.settle_disk()


def _send(peer: Peer, count: int, message: CoreMessage | None = None) -> None:
    frame = encode_packet(SessionSend(message or letter("m", durable=True), False), CHANNEL, 136)
    _send_many(peer, lambda _number: frame, count)


def _identified(number: int) -> CoreMessage:
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    properties.set("_AMQ_DUPL_ID", b"id %07d" % number, PropertyType.BYTES)
    return CoreMessage.build(address="q", durable=True, properties=properties, body=b"m")


def _send_identified(peer: Peer, count: int) -> None:
    def frame(number: int) -> bytes:
        return encode_packet(SessionSend(_identified(number), False), CHANNEL, 136)

    _send_many(peer, frame, count)


def _open(stage: WorkStage, *, xa: bool = False, transacted: bool = True) -> Peer:
    peer = stage.connect().open_session(transacted=transacted, xa=xa)
    stage.settle_disk()
    if xa:
        peer.send(SessionXaStart(xid()))
    return peer


def _fill(stage: WorkStage, count: int, message: CoreMessage | None = None) -> None:
    peer = stage.connect().open_session()
    _send(peer, count, message)
    peer.lose()


def _given(stage: WorkStage, count: int, *, xa: bool = False, transacted: bool = True) -> tuple[Peer, list[int]]:
    """A client that was given everything in the queue, and the ids of that."""
    _fill(stage, count)
    peer = _open(stage, xa=xa, transacted=transacted)
    peer.listens = False
    peer.consume()
    stage.settle_disk()
    peer.listens = True
    peer.clear()
    ids = list(stage.consumer(peer).unsettled)
    assert len(ids) == count
    return peer, ids


Begin: TypeAlias = Callable[[], object]


@define
class LargeWork:
    """``begin`` starts it; when it is over ``answers`` have come, and ``left`` messages are in the queue."""

    peer: Peer
    begin: Begin
    answers: list[Packet] | None
    left: int


def commit(stage: WorkStage, count: int) -> LargeWork:
    peer = _open(stage)
    _send(peer, count)
    return LargeWork(peer, lambda: peer.send(SessionCommit(-2)), [NullResponse(-2)], count)


def rollback(stage: WorkStage, count: int) -> LargeWork:
    peer = _open(stage)
    _send(peer, count)
    return LargeWork(peer, lambda: peer.send(SessionRollback(False)), [NullResponse(-1)], 0)


def acknowledge_and_commit(stage: WorkStage, count: int) -> LargeWork:
    peer, ids = _given(stage, count)
    packets = SessionAcknowledge(0, ids[-1], False), SessionCommit(-2)
    return LargeWork(peer, lambda: peer.send(*packets), [NullResponse(-2)], 0)


def acknowledge_nearly_all(stage: WorkStage, count: int) -> LargeWork:
    peer, ids = _given(stage, count)
    packets = SessionAcknowledge(0, ids[-2], False), SessionCommit(-2)
    return LargeWork(peer, lambda: peer.send(*packets), [NullResponse(-2)], 1)


def commit_acknowledged(stage: WorkStage, count: int) -> LargeWork:
    peer, ids = _given(stage, count)
    peer.send(SessionAcknowledge(0, ids[-1], False))
    stage.settle_disk()
    return LargeWork(peer, lambda: peer.send(SessionCommit(-2)), [NullResponse(-2)], 0)


def rollback_acknowledged(stage: WorkStage, count: int) -> LargeWork:
    peer, ids = _given(stage, count)
    peer.send(SessionAcknowledge(0, ids[-1], False))
    stage.settle_disk()
    peer.listens = False
    return LargeWork(peer, lambda: peer.send(SessionRollback(False)), None, count)


def rollback_delivered(stage: WorkStage, count: int) -> LargeWork:
    peer, _ids = _given(stage, count)
    peer.listens = False
    return LargeWork(peer, lambda: peer.send(SessionRollback(True)), None, count)


def close_consumer(stage: WorkStage, count: int) -> LargeWork:
    peer, _ids = _given(stage, count)
    return LargeWork(peer, lambda: peer.send(SessionConsumerClose(0)), [NullResponse(-1)], count)


def lose_connection(stage: WorkStage, count: int) -> LargeWork:
    peer, _ids = _given(stage, count)
    return LargeWork(peer, peer.lose, None, count)


def expiry_scan(stage: WorkStage, count: int) -> LargeWork:
    peer = _open(stage)
    message = letter("m", durable=True)
    soon = stage.now.wall_ms + 1
    _fill(stage, count, message.copy_for("q", changes={}, removals=(), expiration=soon))

    def wait() -> None:
        stage.seconds += 31

    return LargeWork(peer, wait, [], 0)


def commit_duplicate_ids(stage: WorkStage, count: int) -> LargeWork:
    peer = _open(stage)
    _send_identified(peer, count)
    return LargeWork(peer, lambda: peer.send(SessionCommit(-2)), [NullResponse(-2)], count)


def commit_a_duplicate(stage: WorkStage, count: int) -> LargeWork:
    """Another client has sent the last one meanwhile."""
    peer = _open(stage)
    _send_identified(peer, count)
    other = stage.connect().open_session()
    other.send(SessionSend(_identified(count - 1), False))
    stage.settle_disk()
    return LargeWork(peer, lambda: peer.send(SessionCommit(-2)), None, 1)


def rollback_duplicate_ids(stage: WorkStage, count: int) -> LargeWork:
    peer = _open(stage)
    _send_identified(peer, count)
    return LargeWork(peer, lambda: peer.send(SessionRollback(False)), [NullResponse(-1)], 0)


def _branch(stage: WorkStage, count: int, *decision: Packet) -> LargeWork:
    peer = _open(stage, xa=True)
    _send_identified(peer, count)
    peer.send(SessionXaEnd(xid()))
    stage.settle_disk()
    peer.clear()
    left = count if isinstance(decision[-1], SessionXaCommit) else 0
    return LargeWork(peer, lambda: peer.send(*decision), [_XA_OK] * len(decision), left)


def xa_prepare_and_commit(stage: WorkStage, count: int) -> LargeWork:
    return _branch(stage, count, SessionXaPrepare(xid()), SessionXaCommit(xid(), False))


def xa_prepare_and_rollback(stage: WorkStage, count: int) -> LargeWork:
    return _branch(stage, count, SessionXaPrepare(xid()), SessionXaRollback(xid()))


def _given_branch(stage: WorkStage, count: int) -> Peer:
    peer, ids = _given(stage, count, xa=True)
    peer.send(SessionAcknowledge(0, ids[-1], False), SessionXaEnd(xid()))
    stage.settle_disk()
    peer.clear()
    return peer


def xa_commit_acknowledged(stage: WorkStage, count: int) -> LargeWork:
    peer = _given_branch(stage, count)
    packets = SessionXaPrepare(xid()), SessionXaCommit(xid(), False)
    return LargeWork(peer, lambda: peer.send(*packets), [_XA_OK] * 2, 0)


def xa_rollback_acknowledged(stage: WorkStage, count: int) -> LargeWork:
    peer = _given_branch(stage, count)
    peer.listens = False
    packets = SessionXaPrepare(xid()), SessionXaRollback(xid())
    return LargeWork(peer, lambda: peer.send(*packets), None, count)


def compaction(stage: WorkStage, count: int) -> LargeWork:
    """Three of four messages are gone, and the background has done nothing about it yet."""
    peer, ids = _given(stage, count, transacted=False)
    gone = [message_id for number, message_id in enumerate(ids) if number % 4]
    for start in range(0, len(gone), _PER_READ):
        some = gone[start : start + _PER_READ]
        peer.send(*[SessionIndividualAcknowledge(0, message_id, False) for message_id in some])
        while journal_work := [work for work in stage.work if work.lane is Lane.JOURNAL]:
            stage.finish_work(journal_work[0])

    # What the background was doing before, and it may begin on its own.
    while stage.work and not any(operation == Remove(COMPACTING) for operation in stage.work[0].operations):
        stage.finish_work(stage.work[0])

    def wait() -> None:
        stage.seconds += 2

    return LargeWork(peer, wait, [], count - len(gone))


# -- after a restart -------------------------------------------------------------------------------------------------


def _restarted(stage: WorkStage, left: int) -> LargeWork:
    stage.settle_disk()
    stage.boot(start=False)
    # No client that could send is there yet.
    nobody = Peer(stage, 0, 136)
    return LargeWork(nobody, lambda: stage.step(Command(CommandKind.START)), [], left)


def recover_messages(stage: WorkStage, count: int) -> LargeWork:
    _fill(stage, count)
    return _restarted(stage, count)


def recover_a_commit(stage: WorkStage, count: int) -> LargeWork:
    work = commit_duplicate_ids(stage, count)
    work.begin()
    return _restarted(stage, count)


def recover_acknowledgements(stage: WorkStage, count: int) -> LargeWork:
    work = acknowledge_and_commit(stage, count)
    work.begin()
    return _restarted(stage, 0)


def recover_an_open_transaction(stage: WorkStage, count: int) -> LargeWork:
    rollback(stage, count)
    return _restarted(stage, 0)


def recover_a_prepared_branch(stage: WorkStage, count: int) -> LargeWork:
    _branch(stage, count, SessionXaPrepare(xid())).begin()
    return _restarted(stage, 0)


def recover_what_a_branch_acknowledged(stage: WorkStage, count: int) -> LargeWork:
    _given_branch(stage, count).send(SessionXaPrepare(xid()))
    return _restarted(stage, count)


WORKS: list[Callable[[WorkStage, int], LargeWork]] = [
    commit,
    rollback,
    acknowledge_and_commit,
    acknowledge_nearly_all,
    commit_acknowledged,
    rollback_acknowledged,
    rollback_delivered,
    close_consumer,
    lose_connection,
    expiry_scan,
    commit_duplicate_ids,
    commit_a_duplicate,
    rollback_duplicate_ids,
    xa_prepare_and_commit,
    xa_prepare_and_rollback,
    xa_commit_acknowledged,
    xa_rollback_acknowledged,
    compaction,
    recover_messages,
    recover_a_commit,
    recover_acknowledgements,
    recover_an_open_transaction,
    recover_a_prepared_branch,
    recover_what_a_branch_acknowledged,
]


# -- running it ------------------------------------------------------------------------------------------------------


@define
class Measured:
    """What the steps cost: of the other client alone, of it during the work, and all during the work."""

    alone: list[float]
    other: list[float]
    all: list[float]

    def at_best(self, again: Measured) -> Measured:
        """The same steps, each as short as it was in either run: a disturbance from outside meets one of them only."""
        runs = (self.alone, again.alone), (self.other, again.other), (self.all, again.all)
        return Measured(*([min(pair) for pair in zip(*both, strict=True)] for both in runs))


def run(work: Callable[[WorkStage, int], LargeWork], count: int, measure: Measure, **options: object) -> Measured:
    """Do the work to its end. Between any two steps the other client, if it can be there, is served at once."""
    stage = WorkStage(**options)
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.create_queue("other")
    peer.lose()
    large = work(stage, count)
    other: Peer | None = None
    frames = encode_packet(Ping(60_000), 0, 136)
    if stage.ready:
        other = stage.connect().open_session(pre_acknowledge=True)
        other.consume("other")
        frames += encode_packet(SessionSend(letter("x", "other"), True, -2), CHANNEL, 136)
        other.clear()
    collects = gc.isenabled()
    gc.collect()
    gc.disable()
    stage.measure = measure
    measured = Measured([], [], stage.costs)
    try:
        for _ in range(100 if other is not None else 0):
            _serve(stage, other, frames, measured.alone)
        stage.costs.clear()
        large.begin()
        while stage.has_work:
            _serve(stage, other, frames, measured.other)
            stage.go_on()
    finally:
        stage.measure = None
        if collects:
            gc.enable()
    assert stage.ready and stage.count() == large.left
    if large.answers is not None:
        assert large.peer.clear() == large.answers
    elif work is commit_a_duplicate:
        (refused,) = large.peer.clear()
        assert isinstance(refused, ExceptionResponse)
    return measured


def _serve(stage: WorkStage, other: Peer | None, frames: bytes, costs: list[float]) -> None:
    if other is None:
        return
    before = len(stage.costs)
    other.send_bytes(frames)
    costs.append(stage.costs[before])
    assert {"Ping", "NullResponse", "SessionReceiveMessage"} <= set(other.names())
