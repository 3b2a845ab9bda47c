"""A run of messages of a bridge: each is what it is when it is read by itself."""

from __future__ import annotations

from random import Random

from embedbroker.kernel import BRIDGE_ID_PREFIX
from embedbroker.protocols.core._bridge_run import read_run
from embedbroker.protocols.core._message_traits import traits_of
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import SEND_TRAILER, CoreMessage, encode_send, known_address

VERSION = 135


def bridged(random: Random, number: int) -> CoreMessage:
    """A message as a bridge sends it. Some differ in more than the id."""
    properties = Properties()
    properties.set("count", int(random.random() < 0.02), PropertyType.INT)
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    properties.set("_AMQ_ROUTE_TO", (7).to_bytes(8, "big"), PropertyType.BYTES)
    properties.set("_AMQ_BRIDGE_DUP", b"n" * 16 + number.to_bytes(8, "big"), PropertyType.BYTES)
    return CoreMessage.build(
        type=random.choice((0, 3)),
        address="orders" if random.random() < 0.98 else "others",
        durable=random.random() < 0.98,
        priority=random.randrange(10),
        timestamp=random.randrange(1 << 40),
        expiration=random.choice((0, 99)),
        user_id=random.choice((None, random.randbytes(16))),
        properties=properties,
        body=random.randbytes(random.randrange(60)),
    )


def facts(message: CoreMessage) -> tuple[object, ...]:
    return (
        bytes(message.raw), message.address, message.durable, message.expiration, message.timestamp, message.priority,
        message.type, message.message_id, message.encoded_size, message.memory_size, message.properties_at,
        bytes(message.body), message.user_id, dict(message.properties),
    )  # fmt: skip


def test_messages_of_a_run_are_what_they_are_by_themselves() -> None:
    lengths, read_alike = set[int](), 0
    for seed in range(60):
        random = Random(seed)
        sent = [bridged(random, number) for number in range(80)]
        frames = [b"".join(encode_send(each.raw, 9, VERSION, True, number + 1)) for number, each in enumerate(sent)]
        buffer, known = b"".join(frames)[:-3], known_address(sent[0].address)
        arrival = traits_of(sent[0])
        run = read_run(buffer, 0, arrival, known, SEND_TRAILER)
        count = len(run.messages)
        lengths.add(count)
        assert run.end == sum(map(len, frames[:count])) and run.correlation_ids == list(range(1, count + 1))
        assert run.route == (7).to_bytes(8, "big")
        for number, (each, found, duplicate_id) in enumerate(zip(sent, run.messages, run.duplicate_ids, strict=False)):
            alone = CoreMessage.parse(bytearray(each.raw))
            alone.cut_properties(traits_of(alone).bridge_entries)
            assert facts(found) == facts(alone)
            assert duplicate_id == BRIDGE_ID_PREFIX + b"n" * 16 + number.to_bytes(8, "big")
            found.assign_id(number)
            assert CoreMessage.parse(found.raw).message_id == number
        if count < 64:
            # The next one is of another kind.
            last, following = sent[count - 1], sent[count]
            assert (last.address, last.durable) != (following.address, following.durable)
        # The next run of the session begins with what this one found out.
        again = read_run(buffer, 0, arrival, known, SEND_TRAILER)
        assert list(map(facts, again.messages[1:])) == list(map(facts, read_alone(sent[1:count])))
        read_alike += arrival.bridged_reader is not None
    assert 64 in lengths and len(lengths) > 10 and read_alike > 30


def read_alone(sent: list[CoreMessage]) -> list[CoreMessage]:
    found = [CoreMessage.parse(bytearray(each.raw)) for each in sent]
    for each in found:
        each.cut_properties(traits_of(each).bridge_entries)
    return found


def test_a_message_with_another_value_is_no_example_for_those_after_it() -> None:
    def numbered(number: int, count: int) -> CoreMessage:
        properties = Properties()
        properties.set("count", count, PropertyType.INT)
        properties.set("_AMQ_ROUTE_TO", (7).to_bytes(8, "big"), PropertyType.BYTES)
        properties.set("_AMQ_BRIDGE_DUP", b"n" * 16 + number.to_bytes(8, "big"), PropertyType.BYTES)
        return CoreMessage.build(address="orders", properties=properties)

    # Two messages that arrived alone differ in the id; the first one of the run differs in the count, too.
    first, second, *sent = numbered(1, 5), numbered(2, 5), numbered(3, 9), numbered(4, 5), numbered(5, 9)
    arrival = traits_of(first)
    assert arrival.covers(second.raw, second.properties_at)
    buffer = b"".join(b"".join(encode_send(each.raw, 9, VERSION, True, 1)) for each in sent)
    run = read_run(buffer, 0, arrival, known_address("orders"), SEND_TRAILER)
    assert [each.property("count") for each in run.messages] == [9, 5, 9]
    assert list(map(facts, run.messages)) == list(map(facts, read_alone(sent)))
