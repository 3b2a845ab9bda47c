"""A large message on its way from a client: SESS_SEND_LARGE, then continuations (core-protocol 4.7).

Responsible for its body until the message is routed, and for what ends it early: a refusal, a fault of the disk, the
end of the session. The client is not read while too much waits for the disk, and while the end of the body does. So
what it sends behind the message, such as a commit, comes behind the message. Does not depend on routing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from embedbroker.kernel import LARGE, Body, LargeBodies, Refused, RoutingUndecided, Scope
from embedclient.errors import ErrorCode
from embedclient.wire.core import CoreMessage, SessionSendContinuation

if TYPE_CHECKING:
    from ._interfaces import LargeSession, SessionConnection

__all__ = ["Upload"]

_COMPRESSED = "_AMQ_LARGE_COMPRESSED"


class Upload:
    """One large message that is being sent. ``is_ending`` is True from its last chunk on, while the disk is at work."""

    __slots__ = ("_bodies", "_checksum", "_waits_on", "frame_size", "header", "is_ending", "is_over", "number",
                 "refused", "session", "size", "stated_type")  # fmt: skip

    def __init__(self, session: LargeSession, header: CoreMessage) -> None:
        kernel = session.kernel
        self.session = session
        header, self.stated_type = session.plain(header)
        self.header = session.with_address(header)
        self.size = 0
        self._checksum = 0
        self.frame_size = 0
        self.is_ending = False
        self.is_over = False
        self._waits_on: SessionConnection | None = None
        self._bodies: LargeBodies = kernel.large_bodies
        # Refused before its body arrives, so that a client without a permission cannot fill the disk.
        self.refused = session.kernel_session.refusal_of_large(self.header)
        self.number = kernel.ids.take()
        self._bodies.hold(self.number)

    def on_chunk(self, packet: SessionSendContinuation) -> None:
        """Take a chunk of the body; with the last one, the message is sent."""
        self.size += len(packet.chunk)
        self._checksum = crc32(packet.chunk, self._checksum)
        store = self.session.kernel.store.bodies
        if packet.chunk and self.refused is None and not store.append(self.number, packet.chunk):
            self._block()
            store.when_written(self.number, self._go_on)
        if packet.continues:
            if packet.requires_response:
                # Clients with a confirmation window wait for an answer to each packet; this one promises nothing.
                self.session.answer_chunk(packet)
            return
        if self.refused is None:
            self.refused = self._wrong_size(packet.body_size)
        if self.refused is not None:
            self._end(packet, self.refused)
            return
        self.is_ending = True
        self._block()
        store.finish(self.number, lambda failure: self._on_stored(packet, failure), durable=self.header.durable)

    def _wrong_size(self, announced: int) -> Refused | None:
        if announced < 0 or announced == self.size or self.header.property(_COMPRESSED):
            return None
        text = f"the body of a large message has {self.size} bytes, but {announced} were announced"
        self.session.connection.log(f"a message to {self.header.address!r} is refused: {text}")
        return Refused(ErrorCode.LARGE_MESSAGE_ERROR_BODY, text)

    def _on_stored(self, packet: SessionSendContinuation, failure: str | None) -> None:
        if self.is_over:
            return
        if failure is not None:
            # A sender that awaits no answer would count it among the packets that are confirmed.
            self._end(packet, Refused(ErrorCode.IO_ERROR, failure, Scope.CONNECTION))
        else:
            body = Body(LARGE, self.number, self.size, self._checksum)
            try:
                refused = self.session.send_large(self.header, body, self.stated_type, packet.body_size)
            except RoutingUndecided as undecided:
                undecided.wait(lambda: self._on_stored(packet, failure))
                return
            self._end(packet, refused)

    def _end(self, packet: SessionSendContinuation, refused: Refused | None) -> None:
        session = self.session
        if refused is not None:
            session.kernel_session.fail_transaction(refused.text)
        session.end_upload(self.header, packet, refused, self.frame_size)
        self._release()

    def abandon(self) -> None:
        """Give the body up, because the session is over or another message begins."""
        if not self.is_over:
            self._release()

    def _release(self) -> None:
        self.is_over = True
        self._bodies.release(self.number)
        self._go_on()

    def _block(self) -> None:
        self._waits_on = self.session.connection
        self._waits_on.block()

    def _go_on(self) -> None:
        if self.is_ending and not self.is_over:
            return  # room for more bytes, of a body that is at its end
        connection, self._waits_on = self._waits_on, None
        if connection is not None:
            # Not at once: this may be the end of a session, in the middle of other work.
            self.session.kernel.store.bodies.completed.append(connection.unblock)
