"""Read recorded traffic between the bridges of a cluster.

Responsible for the files of ``tests/vectors/bridges``, and for putting recorded values in the place of those that
differ from run to run. Does not judge: a test compares the frames.
"""

from __future__ import annotations

import json

from attrs import frozen

from embedclient.model import Properties
from embedclient.wire.core import (
    CoreMessage,
    CreateQueueV2,
    Packet,
    SessionReceiveMessage,
    decode_packet,
    encode_packet,
)
from tests.vectors.captures import FOLDER

__all__ = ["CHANNEL", "Recorded", "in_place_of", "notifications_of", "subscription_of", "traffic"]

CHANNEL = 11
"""The channel of notifications on the connection of a bridge."""

_VERSION = 136
# No two runs have them in common.
_VOLATILE = {
    "_AMQ_NotifTimestamp",
    "_AMQ_Binding_ID",
    "_AMQ_ClusterName",
    "_AMQ_ConnectionName",
    "_AMQ_RemoteAddress",
}


# Types that a test reads, and whether clients send them.
_READ = {"SESS_RECEIVE_MSG": False, "CREATE_QUEUE_V2": True}


@frozen
class Recorded:
    """One frame, or the handshake. Only frames that a test reads have a packet."""

    data: bytes
    packet: Packet | None


def traffic(scenario: str, connection: int, sender: str) -> list[Recorded]:
    """The frames that one broker sent on one connection."""
    found = []
    for text in (FOLDER / "bridges" / f"{scenario}.jsonl").read_text().splitlines():
        line = json.loads(text)
        if line.get("conn") != connection or line.get("from") != sender or "hex" not in line:
            continue
        data = bytes.fromhex(line["hex"])
        from_client = _READ.get(line["name"])
        packet = None if from_client is None else decode_packet(data, 0, len(data), _VERSION, from_client)
        found.append(Recorded(data, packet))
    return found


def notifications_of(scenario: str, connection: int, sender: str) -> list[tuple[bytes, SessionReceiveMessage]]:
    """The frames to the notification queue of a bridge."""
    return [
        (each.data, each.packet)
        for each in traffic(scenario, connection, sender)
        if isinstance(each.packet, SessionReceiveMessage)
    ]


def subscription_of(scenario: str, connection: int, sender: str) -> CreateQueueV2:
    """The request for the notification queue of a bridge."""
    (found,) = [each.packet for each in traffic(scenario, connection, sender) if isinstance(each.packet, CreateQueueV2)]
    return found


def in_place_of(recorded: SessionReceiveMessage, ours: SessionReceiveMessage, node_id: str) -> bytes:
    """Our frame with the recorded ids, times and places, and its properties in the recorded order.

    A property has its recorded value only if its type is the recorded one.
    """
    model, message = recorded.message, ours.message
    properties = Properties()
    order = list(model.properties)
    for name in sorted(message.properties, key=lambda name: order.index(name) if name in order else len(order)):
        value, kind = message.properties[name], message.properties.type_of(name)
        if name in _VOLATILE and name in model.properties and model.properties.type_of(name) == kind:
            if name == "_AMQ_ClusterName":
                assert str(value).endswith(node_id)
            value = model.properties[name]
        properties.set(name, value, kind)
    assert bool(message.timestamp) == bool(model.timestamp)
    twin = CoreMessage.build(
        type=message.type,
        address=message.address,
        durable=message.durable,
        priority=message.priority,
        expiration=message.expiration,
        timestamp=model.timestamp,
        user_id=message.user_id,
        properties=properties,
        body=bytes(message.body),
    )
    twin.assign_id(model.message_id)
    return encode_packet(SessionReceiveMessage(twin, recorded.consumer_id, recorded.delivery_count), CHANNEL, _VERSION)
