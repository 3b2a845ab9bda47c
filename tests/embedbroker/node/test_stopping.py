"""An orderly stop: clients receive the packets of their version, and the journal is sealed."""

from __future__ import annotations

import pytest

from embedbroker.node import CloseConnection, Command, CommandKind, NodeState, SendBytes, StopListening, Stopped
from embedbroker.node._stopping import FLUSH_SECONDS_MAX
from embedclient.wire.core import (
    Disconnect,
    DisconnectV2,
    DisconnectV3,
    Packet,
    PacketsConfirmed,
    SessionAcknowledge,
    SessionReceiveMessage,
    SessionSend,
)

from .scripted import Stage, letter


def stop(stage: Stage) -> None:
    stage.step(Command(CommandKind.STOP))


@pytest.mark.parametrize(
    ("version", "kind"),
    [(136, DisconnectV3), (131, DisconnectV3), (130, DisconnectV2), (126, DisconnectV2), (124, Disconnect)],
)
def test_clients_are_told_in_the_words_of_their_version(version: int, kind: type[Packet]) -> None:
    stage = Stage()
    peer = stage.connect(version).open_session()
    stop(stage)
    (packet,) = peer.clear()
    assert type(packet) is kind
    if isinstance(packet, DisconnectV3):
        # What Artemis sends at every orderly stop, scale-down configured or not (captured).
        assert (packet.reason, packet.target_node_id, packet.connector) == (2, None, None)
        assert packet.node_id == stage.node.core.node_id
    assert peer.state() == "the broker stops"
    assert stage.stopped is not None and stage.stopped.failure is None
    assert stage.node.next_deadline() is None


def test_nobody_is_let_in_any_more_before_clients_are_told() -> None:
    """A client that receives the news tries the same place again, and must find it closed."""
    stage = Stage(durable=True)
    stage.connect().open_session().post("kept", durable=True)
    before = len(stage.outputs)
    stop(stage)
    stage.settle_disk()
    order = [type(output) for output in stage.outputs[before:] if isinstance(output, SendBytes | StopListening)]
    assert order == [StopListening, SendBytes]


def about_to_fail() -> Stage:
    """A broker whose disk does nothing any more, with a message on its way there."""
    stage = Stage(durable=True)
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.post("m", durable=True)
    assert stage.disk is not None
    stage.disk.fail_at(stage.disk.operations)
    return stage


def test_nobody_is_let_in_any_more_when_a_broker_fails() -> None:
    """A client that loses its connection comes back at once, and would hang in a port that is not served."""
    stage = about_to_fail()
    before = len(stage.outputs)
    stage.settle_disk()
    assert stage.stopped is not None and stage.stopped.failure is not None
    kinds = StopListening, CloseConnection, Stopped
    assert [type(output) for output in stage.outputs[before:] if isinstance(output, kinds)] == [*kinds]


def test_a_broker_that_fails_while_it_stops_closes_its_port_once() -> None:
    stage = about_to_fail()
    stop(stage)
    stage.settle_disk()
    assert [output for output in stage.outputs if isinstance(output, StopListening)] == [StopListening()]


def test_owed_confirmations_come_first() -> None:
    stage = Stage()
    peer = stage.connect().open_session(window=1_000_000)
    peer.post("m")
    stop(stage)
    assert peer.names() == ["PacketsConfirmed", "DisconnectV3"]


def test_connections_that_never_spoke_are_closed() -> None:
    stage = Stage()
    silent = stage.accept()
    stop(stage)
    assert silent.state() == "the broker stops"


def test_a_stopping_broker_takes_nobody_and_does_nothing() -> None:
    stage = Stage()
    peer = stage.connect().open_session()
    peer.create_queue()
    stop(stage)
    assert stage.accept().state() == "the broker is not running"
    peer.send(SessionSend(letter("late"), True, -1))
    stop(stage)
    assert peer.names() == ["DisconnectV3"]
    assert sum(type(output).__name__ == "Stopped" for output in stage.outputs) == 1


def test_the_journal_is_sealed_before_it_is_over() -> None:
    stage = Stage(durable=True)
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.post("kept", durable=True)
    stop(stage)
    assert "Stopped" not in [type(output).__name__ for output in stage.outputs]
    stage.settle_disk()
    assert peer.state() == "the broker stops"
    assert stage.stopped is not None and stage.stopped.failure is None
    stage.boot()
    again = stage.connect().open_session()
    again.consume()
    stage.run()
    assert again.texts == ["kept"]


def test_what_was_asked_for_before_is_answered_before_clients_are_told() -> None:
    stage = Stage(durable=True)
    peer = stage.connect().open_session()
    peer.create_queue()
    # One batch is on its way to the disk, another one gathers.
    peer.post("1", durable=True, blocking=True)
    peer.post("2", "3", durable=True, blocking=True)
    stop(stage)
    assert peer.received == [] and peer.state() == "open"
    peer.post("late", durable=True, blocking=True)
    stage.settle_disk()
    assert peer.names() == ["NullResponse"] * 3 + ["DisconnectV3"]
    assert peer.state() == "the broker stops" and stage.stopped is not None
    stage.boot()
    assert stage.node.kernel.address_manager.queues["q"].message_count == 3


def test_a_large_acknowledgement_is_finished_first() -> None:
    stage = Stage(durable=True, work_per_step_max=50)
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.consume()
    for _ in range(5):
        peer.post(*["m"] * 100, durable=True)
    stage.settle_disk()
    last = peer.packets(SessionReceiveMessage)[-1].message.message_id
    peer.clear()
    peer.send(SessionAcknowledge(0, last, True))
    stop(stage)
    assert peer.received == []
    stage.settle_disk()
    assert peer.names() == ["NullResponse", "DisconnectV3"]
    stage.boot()
    assert stage.node.kernel.address_manager.queues["q"].message_count == 0


def test_a_disk_that_hangs_does_not_hold_up_the_good_bye_for_long() -> None:
    stage = Stage(durable=True)
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.post("m", durable=True, blocking=True)
    stop(stage)
    stage.advance(FLUSH_SECONDS_MAX - 0.1)
    assert peer.state() == "open"
    stage.advance(0.2)
    assert peer.names() == ["DisconnectV3"] and peer.state() == "the broker stops"
    assert "Stopped" not in [type(output).__name__ for output in stage.outputs]
    stage.settle_disk()
    assert stage.stopped is not None and stage.stopped.failure is None


def test_what_was_delivered_and_not_acknowledged_is_there_again() -> None:
    stage = Stage(durable=True)
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.consume()
    peer.post("m", durable=True)
    stage.settle_disk()
    assert peer.texts == ["m"]
    stop(stage)
    stage.settle_disk()
    stage.boot()
    again = stage.connect().open_session()
    again.consume()
    stage.run()
    assert again.texts == ["m"]


def test_a_disk_that_fails_while_stopping_is_told() -> None:
    stage = about_to_fail()
    stop(stage)
    while stage.work:
        stage.finish_work(stage.work[0])
    assert stage.stopped is not None and stage.stopped.failure is not None


def test_a_broker_can_be_stopped_while_it_reads_its_journal() -> None:
    stage = Stage(durable=True)
    stage.connect().open_session().create_queue()
    stage.boot(start=False)
    stage.step(Command(CommandKind.START))
    assert stage.node.state is NodeState.RECOVERING
    early = stage.connect()
    stop(stage)
    assert stage.stopped is not None and stage.stopped.failure is None
    assert early.state() == "the broker stops"
    while stage.work:
        stage.finish_work(stage.work[0])
    stage.boot()
    assert "q" in stage.node.kernel.address_manager.queues


def test_lost_sessions_end_with_the_broker() -> None:
    stage = Stage()
    peer = stage.connect().open_session("s", window=1000)
    peer.create_queue("t", temporary=True)
    peer.lose()
    stop(stage)
    assert stage.node.core.sessions == {}
    assert stage.stopped is not None


def test_temporary_queues_and_open_transactions_leave_nothing_in_the_journal() -> None:
    stage = Stage(durable=True)
    peer = stage.connect().open_session(transacted=True)
    peer.create_queue()
    peer.create_queue("t", temporary=True)
    peer.post("open", durable=True)
    stop(stage)
    stage.settle_disk()
    stage.boot()
    assert set(stage.node.kernel.address_manager.queues) == {"q", "DLQ", "ExpiryQueue"}
    assert stage.node.kernel.address_manager.queues["q"].message_count == 0
    assert stage.node.kernel.memory.used_bytes == 0


def test_confirmations_are_packets_of_the_session() -> None:
    stage = Stage()
    peer = stage.connect().open_session(window=1_000_000)
    peer.post("m")
    stop(stage)
    assert [channel for channel, packet in peer.received if isinstance(packet, PacketsConfirmed)] == [10]
