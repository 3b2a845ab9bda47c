"""A second encoding goes the whole way: routes, filters, dead letters, a deep backlog, the journal, a CORE consumer."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.config import AddressSettings
from embedbroker.kernel import Body, Consumer, Message, Refused, StoredMessage, parse_selector
from embedbroker.kernel._memory import MESSAGE_OVERHEAD_BYTES
from embedbroker.node import Tick
from embedbroker.protocols import CODECS
from embedclient.errors import ErrorCode, RemoteProtocolError
from embedclient.model import Origin
from embedclient.wire.core import CoreMessage, SessionAcknowledge, SessionReceiveMessage
from tests.embedbroker.kernel.letters import letter, text_of
from tests.embedbroker.kernel.message.lines import ENCODING, LINES, lines_message
from tests.embedbroker.kernel.stage import MULTICAST, Stage, Taker
from tests.embedbroker.node import scripted

DEFAULT = AddressSettings(dead_letter_address="DLQ", expiry_address="ExpiryQueue", max_delivery_attempts=1)
ELSEWHERE = Body(kind=7, number=12, size=1_000_000)


@pytest.fixture(autouse=True)
def lines_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CODECS, ENCODING, LINES)


def fields(message: Message) -> dict[str, str]:
    assert isinstance(message, StoredMessage)
    return LINES.fields(message)


def only(stage: Stage, queue: str) -> Message:
    (reference,) = list(stage.kernel.address_manager.queues[queue].backlog)
    return reference.message


# -- the stored form ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [ELSEWHERE, Body(0, 0, 0), Body(7, 12, 1_000_000, 0xFFFF_FFFE), Body(7, 12, 0, 0)])
def test_the_stored_bytes_hold_everything(body: Body) -> None:
    message = lines_message("x", "größe.\ud800", durable=True, priority=7, expiration=99, body=body, colour="red")
    message.assign_id(42)
    again = StoredMessage.restore(LINES, bytes(message.stored_bytes()))
    assert (again.message_id, again.address, again.durable, again.priority) == (42, "größe.\ud800", True, 7)
    assert (again.expiration, again.timestamp, again.body) == (99, 5, body)
    assert (again.property("colour"), text_of(again), again.encoding) == ("red", "x", ENCODING)
    assert again.stored_bytes() == message.stored_bytes()
    again.assign_id(43)
    assert StoredMessage.restore(LINES, again.stored_bytes()).message_id == 43
    assert message.message_id == 42


def test_malformed_headers_are_refused() -> None:
    stored = bytes(lines_message("x", "orders").stored_bytes())
    checked = bytes(lines_message("x", "orders", body=Body(7, 12, 3, 99)).stored_bytes())
    for whole, address_end in ((stored, 48 + len("orders")), (checked, 52 + len("orders"))):
        for size in range(address_end):
            with pytest.raises(RemoteProtocolError):
                StoredMessage.restore(LINES, whole[:size])
    for at, value in ((0, 3), (2, 10), (47, 0xFF), (48, 0xFF)):
        with pytest.raises(RemoteProtocolError):
            StoredMessage.restore(LINES, stored[:at] + bytes([value]) + stored[at + 1 :])
    random = Random(5)
    for _ in range(500):
        damaged = bytearray(stored)
        damaged[random.randrange(address_end)] = random.randrange(256)
        try:
            StoredMessage.restore(LINES, damaged)
        except RemoteProtocolError:
            continue


def test_sizes_answer_right_for_a_body_that_is_elsewhere() -> None:
    resident, elsewhere = lines_message("x" * 50), lines_message("x" * 50, body=ELSEWHERE)
    assert resident.memory_size == elsewhere.memory_size == len(elsewhere.stored_bytes())
    assert elsewhere.encoded_size == resident.encoded_size + 1_000_000
    for copy in (elsewhere.with_expiration(5), elsewhere.annotate(Origin("a", "q", 1), "DLQ")):
        assert isinstance(copy, StoredMessage) and copy.body == ELSEWHERE
        assert copy.memory_size == len(copy.stored_bytes()) and copy.encoded_size > 1_000_000


# -- in the kernel -----------------------------------------------------------------------------------------------


def test_queues_and_consumers_filter_by_its_properties() -> None:
    stage = Stage()
    stage.queue("red", "t", MULTICAST, filter="colour = 'red'")
    stage.queue("deep", "t", MULTICAST, filter="depth > 5 AND AMQGroupID = 'g' AND AMQUserID = 'ID:me'")
    stage.queue("all", "t", MULTICAST)
    _, urgent = stage.consumer(stage.session(pre_acknowledge=True), "all", filter="AMQPriority = 9")
    stage.send(
        lines_message("a", "t", colour="red", depth="3", group="g"),
        lines_message("b", "t", depth="6", group="g", id="me"),
        lines_message("c", "t", priority=9, colour="blue"),
        letter("core", "t", colour="red"),
    )
    stage.run_all()
    assert (stage.waiting("red"), stage.waiting("deep"), stage.waiting("all")) == (
        ["a", "core"],
        ["b"],
        ["a", "b", "core"],
    )
    assert urgent.texts == ["c"]


def test_a_selector_reads_the_size_of_the_whole_message() -> None:
    selector = parse_selector("AMQSize > 1000000")
    assert selector.matches(lines_message(body=ELSEWHERE)) and not selector.matches(lines_message())


def test_malformed_content_matches_no_selector() -> None:
    broken = StoredMessage(LINES, b"no sign\n\n", address="a", durable=False, priority=4, expiration=0, timestamp=0)
    with pytest.raises(RemoteProtocolError):
        broken.property("x")
    assert not parse_selector("x IS NULL").matches(broken)


def test_dead_letters_and_expired_messages_state_their_origin_in_names_of_the_encoding() -> None:
    stage = Stage({"#": DEFAULT})
    stage.queue("q")
    stage.send(lines_message("dead", "q", durable=True, colour="red"))
    session = stage.session()
    stage.consumer(session, "q")
    stage.run_all()
    session.close(failed=True)
    stage.run_all()
    dead = only(stage, "DLQ")
    number = fields(dead)["x_number"]
    assert fields(dead) == {"id": "1", "colour": "red", "x_from": "q", "x_queue": "q", "x_number": number}
    assert (dead.address, dead.durable, text_of(dead), int(number) < dead.message_id) == ("DLQ", True, "dead", True)

    stage.send(lines_message("late", "q", expiration=stage.kernel.now_ms + 500))
    stage.pass_time(60)
    late = only(stage, "ExpiryQueue")
    assert (fields(late)["x_from"], late.expiration, text_of(late)) == ("q", 0, "late")
    assert stage.kernel.now_ms - 60_000 < int(fields(late)["x_expired"]) <= stage.kernel.now_ms
    assert "x_expired" not in fields(dead)


def test_no_route_and_settings_of_expiry() -> None:
    routes = AddressSettings(send_to_dla_on_no_route=True)
    stage = Stage({"#": DEFAULT, "r.#": routes, "DLQ": AddressSettings(expiry_delay_ms=500)})
    stage.kernel.address_manager.create_address("r.a", anycast=False, multicast=True, auto_created=False)
    stage.send(lines_message("m", "r.a"), routing_type=MULTICAST)
    dead = only(stage, "DLQ")
    assert (fields(dead)["x_from"], fields(dead)["x_queue"]) == ("r.a", "None")
    assert (dead.expiration, str(dead.message_id)) == (stage.kernel.now_ms + 500, fields(dead)["x_number"])


def test_a_message_that_cannot_be_copied_is_dropped_with_a_warning() -> None:
    stage = Stage({"#": DEFAULT})
    queue = stage.queue("q")
    stage.send(StoredMessage(LINES, b"?\n\n", address="q", durable=False, priority=4, expiration=1, timestamp=0))
    stage.pass_time(60)
    assert (queue.message_count, stage.waiting("ExpiryQueue")) == (0, [])
    assert any("it cannot be copied" in line for line in stage.log)
    stage.assert_empty()


def test_a_temporary_destination_is_not_created_on_demand() -> None:
    stage = Stage()
    refused = stage.kernel.router.send(lines_message("m", "gone", x_temporary="yes"), 1, None)
    assert isinstance(refused, Refused) and refused.code == ErrorCode.QUEUE_DOES_NOT_EXIST
    assert stage.kernel.router.send(lines_message("m", "made"), 1, None) is None
    assert stage.waiting("made") == ["m"]


class SizeCredit:
    """Credit that notes the sizes it is offered."""

    def __init__(self) -> None:
        self.left = 1
        self.sizes: list[int] = []

    def can_take(self, size: int) -> bool:
        self.sizes.append(size)
        return True

    def grant(self, amount: int) -> None:
        pass

    def on_marker(self) -> None:
        pass


def test_memory_counts_what_is_resident_and_credit_the_whole_message() -> None:
    stage = Stage(memory_limit_bytes=100_000)
    stage.queue("q")
    message, credit = lines_message("x", "q", body=ELSEWHERE), SizeCredit()
    stage.send(message)
    assert stage.kernel.memory.used_bytes == message.memory_size + MESSAGE_OVERHEAD_BYTES < 1000
    session = stage.session(pre_acknowledge=True)
    consumer = session.create_consumer(1, "q", None, Taker(), browse=False, priority=0, credit=credit)
    assert isinstance(consumer, Consumer)
    stage.run_all()
    stage.assert_empty()
    # With a consumer that is ready, the size of a new message is known.
    stage.send(again := lines_message("y", "q", body=ELSEWHERE))
    stage.run_all()
    assert again.encoded_size in credit.sizes
    stage.assert_empty()


def test_a_deep_backlog_packs_and_restores_it() -> None:
    stage = Stage()
    queue = stage.queue("q")
    stage.send(*[message for n in range(2000) for message in (lines_message(f"l{n}", "q"), letter(f"c{n}", "q"))])
    assert queue.backlog.statistics().sealed_chunks > 0
    _, taker = stage.consumer(stage.session(pre_acknowledge=True), "q", filter="AMQAddress = 'q'")
    stage.run_all()
    assert taker.texts == [text for n in range(2000) for text in (f"l{n}", f"c{n}")]
    stage.assert_empty()


# -- through a node, its journal and a CORE client ---------------------------------------------------------------


def send_durable(stage: scripted.Stage, message: Message) -> None:
    refused = stage.node.kernel.router.send(message, 1, None)
    assert refused is None
    stage.step(Tick())
    stage.settle_disk()


def test_it_survives_a_restart_and_reaches_a_core_consumer() -> None:
    stage = scripted.Stage(durable=True)
    stage.connect().open_session().create_queue()
    send_durable(stage, lines_message("first", "q", durable=True, colour="red"))
    stage.connect().open_session().post("second", durable=True)
    send_durable(stage, lines_message("third", "q", durable=True))
    stage.settle_disk()
    waiting: list[Message] = []
    for _ in range(2):
        stage.boot()
        waiting = [reference.message for reference in stage.node.kernel.address_manager.queues["q"].backlog]
        assert [text_of(message) for message in waiting] == ["first", "second", "third"]
        assert [message.encoding for message in waiting] == [ENCODING, CoreMessage.encoding, ENCODING]
        assert (waiting[0].property("colour"), waiting[0].durable) == ("red", True)
        assert waiting[0].message_id < waiting[1].message_id < waiting[2].message_id
    peer = stage.connect().open_session(transacted=False)
    peer.consume()
    stage.run()
    assert peer.texts == ["first", "second", "third"]
    received = peer.packets(SessionReceiveMessage)[0].message
    assert (received.address, received.property("colour")) == ("q", "red")
    assert received.message_id == waiting[0].message_id
    peer.send(SessionAcknowledge(0, waiting[2].message_id, True))
    stage.settle_disk()
    stage.boot()
    assert not stage.node.kernel.address_manager.queues["q"].backlog.size


def test_a_dead_letter_in_the_encoding_survives_a_restart() -> None:
    settings = {"#": AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=1)}
    stage = scripted.Stage(durable=True, address_settings=settings)
    stage.connect().open_session().create_queue()
    send_durable(stage, lines_message("dead", "q", durable=True))
    peer = stage.connect().open_session(client=True)
    peer.consume()
    stage.run()
    peer.lose()
    stage.settle_disk()
    stage.boot()
    (reference,) = list(stage.node.kernel.address_manager.queues["DLQ"].backlog)
    assert (text_of(reference.message), fields(reference.message)["x_queue"]) == ("dead", "q")


def test_both_encodings_implement_the_stored_message() -> None:
    messages: list[Message] = [letter("m"), lines_message("m")]
    for message in messages:
        assert message.memory_size == len(message.stored_bytes())
        assert (message.to_core().encoding, text_of(message.to_core())) == (CoreMessage.encoding, "m")
