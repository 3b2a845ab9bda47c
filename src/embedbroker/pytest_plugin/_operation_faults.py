"""Faults of single operations of clients: a request fails, or its answer is late or lost.

Responsible for which requests a fault is for, and for what a client receives instead. Does not depend on tests.
Only connections over a broker's link are concerned: not those of brokers and of the plugin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

from attrs import define

from embedbroker.kernel import Refused
from embedbroker.protocols import CoreSession
from embedclient.errors import ErrorCode
from embedclient.wire.core import PacketType, decode_packet

from ._arguments import check_count, check_queue, check_seconds
from ._link import Link

__all__ = ["Operation", "OperationFaults"]

Operation: TypeAlias = Literal[
    "send", "acknowledge", "commit", "rollback", "create_consumer", "create_queue", "create_address", "query"
]

_OPERATIONS: dict[int, Operation] = {
    PacketType.SESS_SEND: "send",
    PacketType.SESS_ACKNOWLEDGE: "acknowledge",
    PacketType.SESS_INDIVIDUAL_ACKNOWLEDGE: "acknowledge",
    PacketType.SESS_COMMIT: "commit",
    PacketType.SESS_ROLLBACK: "rollback",
    PacketType.SESS_CREATECONSUMER: "create_consumer",
    PacketType.CREATE_QUEUE: "create_queue",
    PacketType.CREATE_QUEUE_V2: "create_queue",
    PacketType.CREATE_SHARED_QUEUE: "create_queue",
    PacketType.CREATE_SHARED_QUEUE_V2: "create_queue",
    PacketType.CREATE_ADDRESS: "create_address",
    PacketType.SESS_QUEUEQUERY: "query",
    PacketType.SESS_BINDINGQUERY: "query",
}
_WITHOUT_DESTINATION = ("commit", "rollback")


@define
class _Fault:
    """One fault. ``left`` is how many requests it is still for, None for all."""

    effect: Literal["fail", "delay", "drop_reply"]
    operation: Operation
    destination: str | None
    left: int | None
    code: ErrorCode = ErrorCode.GENERIC_EXCEPTION
    seconds: float = 0.0


class OperationFaults:
    """The faults of one broker, through all of its starts."""

    def __init__(self, link: Callable[[], Link], note: Callable[[str], None]) -> None:
        self._link = link
        self._note = note
        self._faults: list[_Fault] = []
        self.session_type = _session_type(self)

    def add(
        self,
        effect: Literal["fail", "delay", "drop_reply"],
        operation: Operation,
        destination: str | None,
        n: int | None,
        *,
        code: int | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Add a fault.

        Raises:
            TypeError: an argument has the wrong type, or the operation has no destination.
            ValueError: there is no such operation, or a number is negative.
        """
        if operation not in get_args(Operation):
            raise ValueError(f"an operation is one of {', '.join(get_args(Operation))}, not {operation!r}")
        if n is not None:
            check_count("the number of requests", n)
        check_seconds("a delay", seconds)
        if destination is not None:
            check_queue(destination)
            if operation in _WITHOUT_DESTINATION:
                raise TypeError(f"a {operation} has no destination")
        if code is None:
            code = ErrorCode.TRANSACTION_ROLLED_BACK if operation == "commit" else ErrorCode.GENERIC_EXCEPTION
        self._faults.append(_Fault(effect, operation, destination, n, ErrorCode(code), seconds))

    def heal(self) -> None:
        """Forget all faults."""
        self._faults.clear()

    @property
    def are_there(self) -> bool:
        """Return True if a request may meet a fault."""
        return bool(self._faults)

    def meet(self, session: CoreSession, packet_type: int, packet: Any) -> Refused | None:
        """Apply the first fault that is for a request; return why it fails, None if it is carried out."""
        operation, peer = _OPERATIONS[packet_type], session.connection.link.peer
        link = self._link()
        if not link.carries(peer):
            return None
        fault = self._take(operation, _destinations(session, operation, packet))
        if fault is None:
            return None
        self._note(f"fault: {fault.effect} {operation} of {peer}")
        if fault.effect == "fail":
            return Refused(fault.code, f"{operation} fails in this test")
        if fault.effect == "delay":
            link.delay_answer(peer, fault.seconds)
        else:
            link.drop_answer(peer)
        return None

    def _take(self, operation: Operation, destinations: set[str]) -> _Fault | None:
        for fault in self._faults:
            if fault.operation == operation and fault.destination in (None, *destinations):
                if fault.left is not None:
                    fault.left -= 1
                    if fault.left <= 0:
                        self._faults.remove(fault)
                return fault
        return None


def _destinations(session: CoreSession, operation: Operation, packet: Any) -> set[str]:
    """Return the names by which a test may name the destination of a request."""
    if operation == "send":
        return {packet.message.address or session.default_address}
    if operation == "acknowledge":
        consumer = session.kernel_session.consumers.get(packet.consumer_id)
        return set() if consumer is None else {consumer.queue.name, consumer.queue.definition.address}
    return {name for name in (getattr(packet, "queue_name", None), getattr(packet, "address", None)) if name}


def _session_type(faults: OperationFaults) -> type[CoreSession]:
    """Return the class of sessions of a broker with these faults."""

    class FaultySession(CoreSession):
        __slots__ = ()

        def on_frame(self, packet_type: int, buffer: bytes | bytearray, start: int, end: int) -> int:
            if faults.are_there and packet_type in _OPERATIONS:
                packet = decode_packet(buffer, start, end, self.version, True)
                refused = faults.meet(self, packet_type, packet)
                if refused is not None:
                    self._fail(packet_type, packet, refused)
                    self.count_request(packet_type, buffer, start, end)
                    return end
            return super().on_frame(packet_type, buffer, start, end)

        def _fail(self, packet_type: int, packet: Any, refused: Refused) -> None:
            """Answer a request as if it had failed."""
            if packet_type == PacketType.SESS_SEND:
                self.kernel_session.fail_transaction(refused.text)
                self._refuse_send(packet.message, refused, packet.requires_response, packet.correlation_id)
                return
            if packet_type == PacketType.SESS_COMMIT:
                self.kernel_session.rollback(last_delivered=False)
            if getattr(packet, "requires_response", True):
                self.refuse(refused, getattr(packet, "correlation_id", None))

    return FaultySession
