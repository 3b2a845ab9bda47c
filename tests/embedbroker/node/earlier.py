"""What a recorded broker already had when a scenario began: addresses and queues of scenarios before it.

Responsible for finding that out from the recorded answers to queries. Refuses to guess about messages.
"""

from __future__ import annotations

from embedbroker.kernel import Queue, QueueRequest
from embedbroker.protocols.core._old_names import plain_name, stated_routing_type
from embedclient.errors import RemoteProtocolError
from embedclient.model import RoutingType
from embedclient.wire.core import (
    CreateAddress,
    CreateQueue,
    CreateQueueV2,
    CreateSession,
    CreateSessionV2,
    CreateSharedQueue,
    CreateSharedQueueV2,
    Packet,
    SessionBindingQuery,
    SessionBindingQueryResponse,
    SessionBindingQueryResponseV2,
    SessionBindingQueryResponseV3,
    SessionBindingQueryResponseV4,
    SessionBindingQueryResponseV5,
    SessionQueueQueryResponse,
    SessionQueueQueryResponseV2,
    SessionQueueQueryResponseV3,
    SessionSend,
    decode_packet,
)

from .recording import Line
from .scripted import Stage, fields_of, letter

__all__ = ["provide_what_was_there"]

_QUEUES = (SessionQueueQueryResponse, SessionQueueQueryResponseV2, SessionQueueQueryResponseV3)
_ADDRESSES = (
    SessionBindingQueryResponse,
    SessionBindingQueryResponseV2,
    SessionBindingQueryResponseV3,
    SessionBindingQueryResponseV4,
    SessionBindingQueryResponseV5,
)
_CREATE = (CreateQueue, CreateQueueV2, CreateSharedQueue, CreateSharedQueueV2)


def _packets(lines: list[Line]) -> list[tuple[Line, Packet]]:
    versions: dict[int, int] = {}
    found = []
    for line in lines:
        if line.kind != "frame":
            continue
        try:
            packet = decode_packet(line.data, 0, len(line.data), versions.get(line.connection, 136), line.from_client)
        except RemoteProtocolError:
            continue
        if isinstance(packet, CreateSession | CreateSessionV2):
            versions[line.connection] = packet.version
        found.append((line, packet))
    return found


def provide_what_was_there(stage: Stage, lines: list[Line]) -> None:
    """Create what a query found although nothing in the scenario had created it."""
    made: set[str] = {*stage.node.kernel.address_manager.queues, stage.config.management_address}
    asked: dict[tuple[int, bytes], str] = {}
    for line, packet in _packets(lines):
        fields = fields_of(packet)
        if isinstance(packet, _CREATE):
            made |= {str(fields["address"]), str(fields["queue_name"]).rpartition("::")[2]}
        elif isinstance(packet, CreateAddress):
            made.add(packet.address)
        elif isinstance(packet, SessionSend):
            made |= {packet.message.address, packet.message.address.rpartition("::")[2]}
        elif isinstance(packet, SessionBindingQuery):
            asked[line.connection, line.data[5:13]] = packet.address
        elif isinstance(packet, _QUEUES) and fields["exists"] and fields["name"] not in made:
            _provide_queue(stage, fields)
            made |= {str(fields["name"]), str(fields["address"])}
        elif isinstance(packet, _ADDRESSES) and fields["exists"]:
            address = asked[line.connection, line.data[5:13]]
            if address not in made:
                _provide_address(stage, address.partition("::")[0], fields)
                made |= {address, *packet.queue_names}


def _provide_queue(stage: Stage, fields: dict[str, object]) -> None:
    """The queue, and as many messages as it held; their content is lost."""
    name = str(fields["name"])
    queue = stage.node.kernel.address_manager.create_queue(
        QueueRequest(
            plain_name(str(fields["address"])),
            plain_name(name),
            durable=bool(fields["durable"]),
            routing_type=1 if fields.get("routing_type", 1) else 0,
            auto_created=bool(fields.get("auto_created", True)),
        )
    )
    assert isinstance(queue, Queue)
    count = fields["message_count"]
    assert isinstance(count, int)
    for _ in range(count):
        stage.node.kernel.router.send(
            letter("from an earlier scenario", f"{queue.definition.address}::{queue.name}"), None, None
        )


def _provide_address(stage: Stage, address: str, fields: dict[str, object]) -> None:
    names = fields["queue_names"]
    assert isinstance(names, tuple)
    anycast = bool(fields.get("supports_anycast", stated_routing_type(address) != RoutingType.MULTICAST))
    address = plain_name(address)
    stage.node.kernel.address_manager.create_address(
        address, anycast=anycast, multicast=bool(fields.get("supports_multicast", not anycast)), auto_created=True
    )
    for name in names:
        stage.node.kernel.address_manager.create_queue(
            QueueRequest(address, plain_name(name), routing_type=int(anycast), auto_created=True)
        )
