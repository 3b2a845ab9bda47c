"""Faults of single operations of clients: a request fails, or its answer is late or lost.

Responsible for which requests a fault is for, and for what a client receives instead. Does not depend on tests.
Only connections over a broker's link are concerned: not those of brokers and of the plugin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

from attrs import define

from embedbroker.kernel import Refused
from embedbroker.protocols import CoreSession, SessionConnection
from embedclient.errors import ErrorCode
from embedclient.model import XaCode
from embedclient.wire.core import CoreMessage, PacketType, SessionSendContinuation, SessionXaResponse, decode_packet

from ._arguments import check_count, check_queue, check_seconds
from ._link import Link

__all__ = ["Operation", "OperationFaults"]

Operation: TypeAlias = Literal[
    "send",
    "acknowledge",
    "commit",
    "rollback",
    "create_session",
    "create_consumer",
    "create_queue",
    "create_address",
    "query",
    "xa_start",
    "xa_end",
    "xa_prepare",
    "xa_commit",
    "xa_rollback",
    "xa_forget",
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
    PacketType.SESS_XA_START: "xa_start",
    PacketType.SESS_XA_END: "xa_end",
    PacketType.SESS_XA_PREPARE: "xa_prepare",
    PacketType.SESS_XA_COMMIT: "xa_commit",
    PacketType.SESS_XA_ROLLBACK: "xa_rollback",
    PacketType.SESS_XA_FORGET: "xa_forget",
}
_XA = "xa_"
_WITHOUT_DESTINATION = ("commit", "rollback", "create_session")


@define
class _Fault:
    """One fault. ``left`` is how many requests it is still for, None for all."""

    effect: Literal["fail", "delay", "drop_reply"]
    operation: Operation
    destination: str | None
    left: int | None
    code: int = ErrorCode.GENERIC_EXCEPTION
    seconds: float = 0.0


class OperationFaults:
    """The faults of one broker, through all of its starts."""

    def __init__(self, link: Callable[[], Link], note: Callable[[str], None]) -> None:
        self._link = link
        self._note = note
        self._faults: list[_Fault] = []
        #: For the answers to large messages that sessions are sending.
        self._of_uploads: dict[CoreSession, _Fault] = {}
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
            if operation in _WITHOUT_DESTINATION or operation.startswith(_XA):
                raise TypeError(f"{operation} has no destination")
        self._faults.append(_Fault(effect, operation, destination, n, _code_of(operation, code), seconds))

    def heal(self) -> None:
        """Forget all faults, also those of large messages that are being sent."""
        self._faults.clear()
        self._of_uploads.clear()

    @property
    def are_there(self) -> bool:
        """Return True if a request may meet a fault."""
        return bool(self._faults)

    def meet(self, session: CoreSession, packet_type: int, packet: Any) -> Refused | None:
        """Apply the first fault that is for a request; return why it fails, None if it is carried out."""
        operation = _OPERATIONS[packet_type]
        fault = self._find(session.connection, operation, _destinations(session, operation, packet))
        return None if fault is None else self._apply(session.connection, fault)

    def meet_new_session(self, connection: SessionConnection) -> Refused | None:
        """Apply the first fault for the creation of a session; return why it fails, None if it is carried out."""
        fault = self._find(connection, "create_session", set())
        return None if fault is None else self._apply(connection, fault)

    def meet_upload(self, session: CoreSession, address: str) -> Refused | None:
        """Choose the fault of a large message when it begins; return why it fails, None if it is taken."""
        self._of_uploads.pop(session, None)
        fault = self._find(session.connection, "send", {address})
        if fault is None:
            return None
        if fault.effect == "fail":
            return self._apply(session.connection, fault)
        self._of_uploads[session] = fault
        return None

    def meet_end_of_upload(self, session: CoreSession) -> None:
        """Apply the fault of a large message to its answer, which is next."""
        fault = self._of_uploads.pop(session, None)
        if fault is not None:
            self._apply(session.connection, fault)

    def end_session(self, session: CoreSession) -> None:
        """Forget the fault of a large message that a session was sending when it ended."""
        self._of_uploads.pop(session, None)

    def _apply(self, connection: SessionConnection, fault: _Fault) -> Refused | None:
        link, peer = self._link(), connection.link.peer
        self._note(f"fault: {fault.effect} {fault.operation} of {peer}")
        if fault.effect == "fail":
            return Refused(fault.code, f"{fault.operation} fails in this test")
        if fault.effect == "delay":
            link.delay_answer(peer, fault.seconds)
        else:
            link.drop_answer(peer)
        return None

    def _find(self, connection: SessionConnection, operation: Operation, destinations: set[str]) -> _Fault | None:
        if not self._faults or not self._link().carries(connection.link.peer):
            return None
        return self._take(operation, destinations)

    def _take(self, operation: Operation, destinations: set[str]) -> _Fault | None:
        for fault in self._faults:
            if fault.operation == operation and fault.destination in (None, *destinations):
                if fault.left is not None:
                    fault.left -= 1
                    if fault.left <= 0:
                        self._faults.remove(fault)
                return fault
        return None


def _code_of(operation: Operation, code: int | None) -> int:
    """Return the code that clients receive; without a wish, that of a request which can be made again."""
    if operation.startswith(_XA):
        return XaCode.XAER_RMFAIL if code is None else XaCode(code)
    if code is None:
        return ErrorCode.TRANSACTION_ROLLED_BACK if operation == "commit" else ErrorCode.GENERIC_EXCEPTION
    return ErrorCode(code)


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

        @classmethod
        def refusal(cls, connection: SessionConnection) -> Refused | None:
            return faults.meet_new_session(connection)

        def on_frame(self, packet_type: int, buffer: bytes | bytearray, start: int, end: int) -> int:
            if faults.are_there and packet_type in _OPERATIONS:
                packet = decode_packet(buffer, start, end, self.version, True)
                refused = faults.meet(self, packet_type, packet)
                if refused is not None:
                    self._fail(packet_type, packet, refused)
                    self.count_request(packet_type, buffer, start, end)
                    return end
            return CoreSession.on_frame(self, packet_type, buffer, start, end)

        def begin_upload(self, header: CoreMessage) -> None:
            super().begin_upload(header)
            assert self.upload is not None
            if self.upload.refused is None:
                self.upload.refused = faults.meet_upload(self, self.upload.header.address)

        def end_upload(
            self, header: CoreMessage, packet: SessionSendContinuation, refused: Refused | None, frame_size: int
        ) -> None:
            faults.meet_end_of_upload(self)
            super().end_upload(header, packet, refused, frame_size)

        def close(self, *, failed: bool) -> None:
            faults.end_session(self)
            super().close(failed=failed)

        def _fail(self, packet_type: int, packet: Any, refused: Refused) -> None:
            """Answer a request as if it had failed."""
            if packet_type == PacketType.SESS_SEND:
                self.kernel_session.fail_transaction(refused.text)
                self._refuse_send(packet.message, refused, packet.requires_response, packet.correlation_id)
                return
            if PacketType(packet_type).name.startswith("SESS_XA_"):
                self.reply(SessionXaResponse(True, refused.code, refused.text), durable=False)
                return
            if packet_type == PacketType.SESS_COMMIT:
                self.kernel_session.rollback(last_delivered=False)
            if getattr(packet, "requires_response", True):
                self.refuse(refused, getattr(packet, "correlation_id", None))

    return FaultySession
