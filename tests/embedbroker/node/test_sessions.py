"""Requests of a session and their answers, over the wire: what is refused, how, and that the connection lives on."""

from __future__ import annotations

import pytest

from embedbroker.config import AddressSettings
from embedbroker.protocols.core._connection import CoreConnection
from embedclient.errors import ErrorCode
from embedclient.model import PropertyType
from embedclient.wire.core import (
    CoreMessage,
    CreateAddress,
    CreateQueue,
    CreateQueueV2,
    CreateSharedQueueV2,
    DeleteQueue,
    DisconnectConsumer,
    ExceptionResponse,
    NullResponse,
    Packet,
    PacketType,
    SessionAcknowledge,
    SessionBindingQuery,
    SessionBindingQueryResponse,
    SessionBindingQueryResponseV2,
    SessionBindingQueryResponseV3,
    SessionBindingQueryResponseV4,
    SessionBindingQueryResponseV5,
    SessionClose,
    SessionCommit,
    SessionConsumerClose,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionForceConsumerDelivery,
    SessionIndividualAcknowledge,
    SessionQueueQuery,
    SessionQueueQueryResponse,
    SessionQueueQueryResponseV2,
    SessionQueueQueryResponseV3,
    SessionReceiveMessage,
    SessionRollback,
    SessionSend,
    SessionSendContinuation,
    SessionStart,
    SessionStop,
    encode_packet,
)

from .scripted import CHANNEL, Peer, Stage, fields_of, letter, text_of

DONE = NullResponse(-1)


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def peer(stage: Stage) -> Peer:
    peer = stage.connect().open_session()
    peer.create_queue()
    return peer


# -- sends ------------------------------------------------------------------------------------------------------------


def test_a_blocking_send_gets_its_number_back_and_others_get_nothing(peer: Peer) -> None:
    peer.send(SessionSend(letter("1"), True, -7, 1), SessionSend(letter("2"), False, 0, 1))
    assert peer.clear() == [NullResponse(-7)]


def test_asynchronous_sends_get_positive_numbers_back(peer: Peer) -> None:
    peer.send(SessionSend(letter("1"), True, 5), SessionSend(letter("2"), True, 6))
    assert peer.clear() == [NullResponse(5), NullResponse(6)]


def test_a_refused_send_carries_its_number() -> None:
    stage = Stage(address_settings={"#": AddressSettings(auto_create_addresses=False)})
    peer = stage.connect().open_session()
    peer.send(SessionSend(letter("1", "nowhere"), True, -3))
    refused = peer.refusal()
    assert (refused.code, refused.correlation_id) == (ErrorCode.ADDRESS_DOES_NOT_EXIST, -3)


def test_a_refused_send_that_nobody_waits_for_is_logged() -> None:
    stage = Stage(address_settings={"#": AddressSettings(auto_create_addresses=False)})
    peer = stage.connect().open_session()
    peer.send(SessionSend(letter("1", "nowhere"), False))
    assert peer.clear() == [] and len(stage.warnings()) == 1


def test_the_first_address_is_the_default_of_the_session(peer: Peer) -> None:
    peer.send(SessionSend(letter("0", ""), True, -2))
    assert peer.refusal().code == ErrorCode.ILLEGAL_STATE
    peer.send(SessionSend(letter("1", "q"), False), SessionSend(letter("2", ""), True, -3))
    assert peer.clear() == [NullResponse(-3)]
    peer.consume()
    peer.stage.run()
    assert peer.texts == ["1", "2"]
    assert [packet.message.address for packet in peer.packets(SessionReceiveMessage)] == ["q", "q"]


def test_a_chunk_without_a_large_message_is_refused(peer: Peer) -> None:
    peer.send(SessionSendContinuation(b"x", False, 101, True, -4))
    refused = peer.refusal()
    assert (refused.code, refused.correlation_id) == (ErrorCode.ILLEGAL_STATE, -4)


def test_a_message_may_have_properties_that_do_not_decode_only_once(peer: Peer) -> None:
    message = letter("m")
    raw = bytearray(message.raw)
    raw[-1:] = b""
    peer.send(SessionSend(CoreMessage.parse(raw), True, -2))
    assert peer.closed is not None and peer.received == []
    assert len(peer.stage.warnings()) == 1


# -- queues and addresses ---------------------------------------------------------------------------------------------


def test_addresses_and_queues_are_created_and_deleted(stage: Stage, peer: Peer) -> None:
    peer.send(CreateAddress("a", (1, 0), True, False))
    assert peer.clear() == [DONE]
    address = stage.node.kernel.address_manager.addresses["a"].definition
    assert (address.anycast, address.multicast, address.auto_created) == (True, True, False)
    peer.send(CreateQueueV2("a", "x", "colour = 'red'", True, False, True, False, 0, exclusive=True, auto_delete=True))
    assert peer.clear() == [DONE]
    definition = stage.node.kernel.address_manager.queues["x"].definition
    assert (definition.filter, definition.exclusive, definition.auto_delete) == ("colour = 'red'", True, True)
    peer.send(DeleteQueue("x"))
    assert peer.clear() == [DONE] and "x" not in stage.node.kernel.address_manager.queues


def test_deleting_a_missing_queue_has_an_empty_text(peer: Peer) -> None:
    peer.send(DeleteQueue("nowhere"))
    assert peer.refusal() == ExceptionResponse(ErrorCode.QUEUE_DOES_NOT_EXIST, "", None)


def test_a_queue_with_consumers_is_not_deleted(peer: Peer) -> None:
    peer.consume()
    peer.send(DeleteQueue("q"))
    assert peer.refusal().code == ErrorCode.ILLEGAL_STATE


def test_consumers_of_a_queue_that_goes_are_told(stage: Stage, peer: Peer) -> None:
    peer.create_queue("t", temporary=True)
    other = stage.connect().open_session()
    other.consume("t", 3)
    peer.lose()
    assert other.clear() == [DisconnectConsumer(3)]


@pytest.mark.parametrize("waits", [True, False])
def test_a_consumer_for_whom_there_is_no_room_is_told_even_if_nobody_waits_for_an_answer(
    stage: Stage, peer: Peer, waits: bool
) -> None:
    """A client that rebuilds its session takes its consumers for granted; it would wait for messages for ever."""
    peer.send(CreateQueueV2("one", "one", None, True, False, True, False, 1, 1, False))
    peer.consume("one", 1)
    other = stage.connect().open_session()
    other.clear()
    other.send(SessionCreateConsumer(7, "one", None, False, waits, 0))
    if waits:
        assert other.refusal().code == ErrorCode.MAX_CONSUMER_LIMIT_EXCEEDED
        assert other.packets(DisconnectConsumer) == []
    else:
        assert other.clear() == [DisconnectConsumer(7)]
    other.send(SessionConsumerClose(3))
    assert other.clear() == [DONE]


def test_temporary_queues_end_with_the_connection_and_not_with_the_session(stage: Stage, peer: Peer) -> None:
    peer.create_queue("t", temporary=True)
    peer.send(SessionClose())
    assert "t" in stage.node.kernel.address_manager.queues
    peer.lose()
    assert (
        "t" not in stage.node.kernel.address_manager.queues and "t" not in stage.node.kernel.address_manager.addresses
    )


def test_a_connection_forgets_a_temporary_queue_that_another_one_deleted(stage: Stage, peer: Peer) -> None:
    (connection,) = stage.node.kernel.clients.connections
    assert isinstance(connection, CoreConnection)
    other = stage.connect().open_session()
    for number in range(3):
        peer.create_queue(f"t{number}", temporary=True)
    assert len(connection.temporary_queues) == 3
    for number in range(3):
        other.send(DeleteQueue(f"t{number}"))
    assert other.clear() == [DONE] * 3
    assert len(connection.temporary_queues) == 0


def test_a_temporary_queue_ends_with_the_connection_that_asked_for_it_last(stage: Stage, peer: Peer) -> None:
    peer.create_queue("t", temporary=True)
    other = stage.connect().open_session()
    # As a client does that builds its session again behind a failover, while its old connection is not known as lost.
    other.send(CreateQueueV2("t", "t", None, False, True, False, False, 1))
    peer.lose()
    assert "t" in stage.node.kernel.address_manager.queues
    other.lose()
    assert "t" not in stage.node.kernel.address_manager.queues


def test_a_durable_queue_outlives_a_connection_that_asked_for_a_temporary_one_of_its_name(
    stage: Stage, peer: Peer
) -> None:
    other = stage.connect().open_session()
    other.send(CreateQueueV2("q", "q", None, False, True, False, False, 1))
    other.lose()
    assert "q" in stage.node.kernel.address_manager.queues


def test_a_queue_that_has_the_name_of_a_temporary_one_stays_when_that_ones_connection_ends(
    stage: Stage, peer: Peer
) -> None:
    peer.create_queue("t", temporary=True)
    other = stage.connect().open_session()
    other.send(DeleteQueue("t"))
    other.create_queue("t")
    later = stage.node.kernel.address_manager.queues["t"]
    peer.lose()
    assert stage.node.kernel.address_manager.queues["t"] is later and not later.deleted


def test_without_a_flag_creating_an_existing_queue_is_silent(peer: Peer) -> None:
    peer.send(CreateQueueV2("q", "q", None, True, False, False, False, 1))
    assert peer.clear() == []
    peer.send(CreateQueueV2("q", "q", None, True, False, True, False, 1))
    assert peer.refusal().code == ErrorCode.QUEUE_EXISTS


def test_shared_queues_are_created_once(peer: Peer) -> None:
    for _ in range(2):
        peer.send(CreateSharedQueueV2("t", "s", None, False, 0, True))
    assert peer.clear() == [DONE, DONE]
    peer.send(CreateSharedQueueV2("t", "s", "a = 1", False, 0, True))
    assert peer.refusal().code == ErrorCode.INVALID_TRANSIENT_QUEUE_USE


@pytest.mark.parametrize(
    ("version", "queue", "address"),
    [
        (122, SessionQueueQueryResponse, SessionBindingQueryResponse),
        (126, SessionQueueQueryResponseV2, SessionBindingQueryResponseV2),
        (128, SessionQueueQueryResponseV2, SessionBindingQueryResponseV3),
        (129, SessionQueueQueryResponseV3, SessionBindingQueryResponseV4),
        (134, SessionQueueQueryResponseV3, SessionBindingQueryResponseV4),
        (135, SessionQueueQueryResponseV3, SessionBindingQueryResponseV5),
        (136, SessionQueueQueryResponseV3, SessionBindingQueryResponseV5),
    ],
)
def test_queries_are_answered_in_the_form_of_the_version(
    stage: Stage, version: int, queue: type[Packet], address: type[Packet]
) -> None:
    peer = stage.connect(version).open_session()
    for name in ("DLQ", "missing"):
        peer.send(SessionQueueQuery(name), SessionBindingQuery(name))
        packets = peer.clear()
        assert [type(packet) for packet in packets] == [queue, address]
        assert [fields_of(packet)["exists"] for packet in packets] == [name == "DLQ"] * 2
    peer.send(SessionCreateConsumer(0, "DLQ", None, False, True))
    assert [type(packet) for packet in peer.clear()] == [queue]


# -- consumers --------------------------------------------------------------------------------------------------------


def test_a_consumer_needs_credit_and_a_started_session(stage: Stage, peer: Peer) -> None:
    peer.send(SessionStop())
    peer.clear()
    peer.send(SessionCreateConsumer(0, "q", None, False, False))
    peer.post("1")
    stage.run()
    assert peer.clear() == []
    peer.send(SessionConsumerFlowCredit(0, 10))
    stage.run()
    assert peer.clear() == []
    peer.send(SessionStart())
    stage.run()
    assert peer.texts == ["1"]


def test_credit_counts_whole_frames(stage: Stage, peer: Peer) -> None:
    peer.consume(credit=1)
    peer.post("1", "2", "3")
    stage.run()
    (delivery,) = peer.packets(SessionReceiveMessage)
    size = len(encode_packet(delivery, CHANNEL, 136))
    peer.send(SessionConsumerFlowCredit(0, size - 1))
    stage.run()
    assert peer.texts == ["1"]
    peer.send(SessionConsumerFlowCredit(0, 1))
    stage.run()
    assert peer.texts == ["1", "2"]


def test_a_forced_delivery_is_answered_with_a_marker(stage: Stage, peer: Peer) -> None:
    peer.consume()
    peer.send(SessionForceConsumerDelivery(0, 7))
    (marker,) = peer.packets(SessionReceiveMessage)
    message = marker.message
    assert (marker.consumer_id, marker.delivery_count) == (0, 0)
    assert message.properties.get("_hornetq.forced.delivery.seq") == 7
    assert message.properties.type_of("_hornetq.forced.delivery.seq") is PropertyType.LONG
    assert (message.address, message.durable, bytes(message.body)) == ("q", False, bytes(4))
    assert message.message_id > 0


def test_unknown_consumers(peer: Peer) -> None:
    peer.send(SessionConsumerFlowCredit(9, 100), SessionForceConsumerDelivery(9, 1))
    assert peer.clear() == []
    peer.send(SessionConsumerClose(9))
    assert peer.clear() == [DONE]
    for packet in (SessionAcknowledge(9, 1, True), SessionIndividualAcknowledge(9, 1, True)):
        peer.send(packet)
        assert peer.refusal().code == ErrorCode.ILLEGAL_STATE
    peer.send(SessionAcknowledge(9, 1, False))
    assert peer.clear() == [] and len(peer.stage.warnings()) == 1


def test_acknowledgements_are_answered_when_asked(stage: Stage, peer: Peer) -> None:
    peer.consume()
    peer.post("1", "2", "3")
    stage.run()
    ids = [packet.message.message_id for packet in peer.packets(SessionReceiveMessage)]
    peer.clear()
    peer.send(SessionIndividualAcknowledge(0, ids[1], True), SessionAcknowledge(0, ids[2], True))
    assert peer.clear() == [DONE, DONE]
    peer.send(SessionAcknowledge(0, ids[2], True))
    assert peer.refusal().code == ErrorCode.ILLEGAL_STATE


def test_a_rollback_returns_what_was_delivered(stage: Stage) -> None:
    peer = stage.connect().open_session(transacted=True)
    peer.create_queue()
    peer.consume()
    peer.post("1", "2")
    peer.send(SessionCommit(-2))
    stage.run()
    ids = [packet.message.message_id for packet in peer.packets(SessionReceiveMessage)]
    peer.clear()
    peer.send(SessionStop(), SessionAcknowledge(0, ids[0], False), SessionRollback(False))
    assert peer.clear() == [DONE, DONE]
    peer.send(SessionStart())
    stage.run()
    assert [(text_of(packet.message), packet.delivery_count) for packet in peer.packets(SessionReceiveMessage)] == [
        ("1", 2),
        ("2", 1),
    ]


def test_a_closed_session_leaves_its_channel(stage: Stage, peer: Peer) -> None:
    peer.send(SessionClose())
    assert peer.clear() == [DONE]
    peer.post("1", blocking=True)
    peer.send(SessionClose())
    assert peer.clear() == [] and peer.closed is None
    assert stage.node.kernel.address_manager.queues["q"].message_count == 0


def test_one_message_reaches_two_sessions_of_one_connection(stage: Stage) -> None:
    peer = stage.connect().open_session(channel=10).open_session(channel=11)
    for channel in (10, 11):
        peer.send(CreateQueueV2("t", f"s{channel}", None, True, False, True, False, 0), channel=channel)
        peer.consume(f"s{channel}", channel=channel)
    peer.clear()
    peer.send(SessionSend(letter("1", "t", anycast=False), False))
    stage.run()
    assert sorted(channel for channel, _packet in peer.received) == [10, 11]


# -- old forms --------------------------------------------------------------------------------------------------------


def test_the_old_form_of_creating_a_queue(stage: Stage) -> None:
    peer = stage.connect(128).open_session()
    peer.send(CreateQueue("topic", "sub", None, True, False, True))
    assert peer.clear() == [DONE]
    assert stage.node.kernel.address_manager.queues["sub"].definition.routing_type == 0


@pytest.mark.parametrize("version", [122, 128, 129, 130, 133, 134, 136])
def test_messages_travel_between_versions(stage: Stage, version: int) -> None:
    modern, peer = stage.connect().open_session(), stage.connect(version).open_session()
    modern.create_queue()
    peer.send(SessionSend(letter("old to new", "q"), True, -2))
    assert [type(packet) for packet in peer.clear()] == [NullResponse]
    modern.consume()
    stage.run()
    assert modern.texts == ["old to new"]
    modern.send(SessionConsumerClose(0))
    peer.consume()
    modern.post("new to old")
    stage.run()
    assert "new to old" in peer.texts


def test_every_packet_type_of_a_client_has_an_answer(stage: Stage) -> None:
    """No type that a client may send ends a connection, and none that it may not send is swallowed."""
    from embedbroker.protocols.core import _requests as _core_requests

    handled = {int(packet.TYPE) for packet in _core_requests.HANDLERS}
    hot = {
        PacketType.SESS_SEND,
        PacketType.SESS_ACKNOWLEDGE,
        PacketType.SESS_INDIVIDUAL_ACKNOWLEDGE,
        PacketType.SESS_FLOWTOKEN,
        PacketType.PACKETS_CONFIRMED,
    }
    expected = {
        packet_type
        for packet_type in PacketType
        if packet_type.name.startswith(("SESS_", "CREATE_", "DELETE_", "REMOVE_"))
        and not packet_type.name.endswith(("_RESP", "_RESP_V2", "_RESP_V3", "_RESP_V4", "_RESP_V5"))
        and not packet_type.name.startswith(("SESS_XA_", "SESS_RECEIVE", "SESS_PRODUCER_CREDITS", "SESS_PRODUCER_FAIL"))
    }
    assert {packet_type.name for packet_type in expected - hot if int(packet_type) not in handled} == set()
