"""A byte pipe with TLS over any other byte pipe.

Responsible for moving encrypted bytes between a `TLSConnection` and a pipe. Does not depend on certificates, nor on the
kind of the pipe below.
"""

from __future__ import annotations

import trio

from embedclient.model import TransportConfiguration
from embedclient.tls import STALLED, AcceptorTLS, TLSConnection, TLSError, TLSStoreError, connector_tls

from ._stream import Buffer, ByteStream, Listener, TransportLost

__all__ = ["TLSDial", "TLSFailed", "TLSListener", "TLSStream"]

# Plain bytes that are encrypted at once. The bytes that a pipe does not take stay here until it does.
_WRITE_BYTES = 262_144


class TLSFailed(TransportLost):
    """TLS could not be established, or broke. ``detail`` is the reason without the peer, and names what to do."""

    def __init__(self, peer: str, detail: str) -> None:
        super().__init__(f"connection to {peer}: {detail}")
        self.detail = detail


class TLSStream:
    """A ByteStream that encrypts.

    The handshake runs in `receive`, so that the owner needs no further task. Until it is complete
    `send_nowait` takes nothing and `wait_writable` waits.
    """

    __slots__ = ("_claimed", "_closed", "_established", "_is_ready", "_plain", "_stream", "_tls", "_unsent", "peer")

    def __init__(self, stream: ByteStream, tls: TLSConnection) -> None:
        self._stream = stream
        self._tls = tls
        self.peer = stream.peer
        # Encrypted bytes that the pipe did not take yet.
        self._unsent: bytes | memoryview = b""
        # Plain bytes in `_unsent`, which the owner still has: they count as taken once `_unsent` is gone.
        self._claimed = 0
        # Plain bytes that were received and not read.
        self._plain = b""
        # The handshake is complete, and its last bytes are sent.
        self._is_ready = False
        self._closed = False
        self._established = trio.lowlevel.ParkingLot()

    @property
    def tls(self) -> TLSConnection:
        """Return the state of the connection: its version, and the peer's certificate."""
        return self._tls

    def send_nowait(self, data: Buffer) -> int:
        """Encrypt and hand over what fits; see `ByteStream`. What was not taken must be offered again."""
        if self._closed:
            raise TransportLost("closed here")
        if not self._is_ready or not self._flush():
            return 0
        taken = min(self._claimed, len(data))
        self._claimed -= taken
        size = len(data)
        if not taken and size <= _WRITE_BYTES:
            return size if size and self._send_piece(data) else 0
        # Views are released in any case: the owner may shorten its buffer while it handles an error.
        with memoryview(data) as view:
            while taken < size:
                with view[taken : taken + _WRITE_BYTES] as piece:
                    if not self._send_piece(piece):
                        return taken
                    taken += len(piece)
        return taken

    def _send_piece(self, piece: Buffer) -> bool:
        """Encrypt and hand over one piece. Return False if a part of it is left; it is claimed then."""
        try:
            self._tls.send(piece)
        except TLSError as error:
            raise self._failed(error) from error
        self._unsent = self._tls.take()
        if self._flush():
            return True
        self._claimed = len(piece)
        return False

    async def wait_writable(self) -> None:
        if not self._is_ready and not self._closed:
            await self._established.park()
        await self._stream.wait_writable()

    async def receive(self, max_bytes: int) -> bytes:
        if self._plain:
            await trio.lowlevel.checkpoint()
            return self._taken(max_bytes)
        while True:
            if not self._is_ready:
                await self._send_handshake()
            data = await self._stream.receive(max_bytes)
            self._plain = self._decrypt(data)
            if not data:
                return b""
            if self._tls.has_output and self._is_ready and not self._unsent:
                # An answer to a change of keys. It may wait for the owner's next bytes.
                self._unsent = self._tls.take()
                self._flush()
            elif not self._is_ready:
                await self._send_handshake()
            if self._plain:
                return self._taken(max_bytes)
            if self._tls.is_closed:
                return b""

    async def handshake(self) -> None:
        """Establish TLS as the end that connects.

        Raises:
            TLSFailed: the peer is not accepted, or did not accept this end.
            TransportLost: the pipe broke.
        """
        try:
            self._tls.start()
        except TLSError as error:
            raise self._failed(error) from error
        while True:
            await self._send_handshake()
            if self._is_ready:
                return
            self._plain += self._decrypt(await self._stream.receive(_WRITE_BYTES))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._is_ready and not self._unsent:
                self._tls.close()
                self._send_last()
            self._established.unpark_all()
        self._stream.close()

    def _decrypt(self, data: bytes) -> bytes:
        try:
            if data:
                return self._tls.receive(data)
            self._tls.receive_end()
            return b""
        except TLSError as error:
            raise self._failed(error) from error

    def _taken(self, max_bytes: int) -> bytes:
        plain, self._plain = self._plain, b""
        if len(plain) > max_bytes:
            plain, self._plain = plain[:max_bytes], plain[max_bytes:]
        return plain

    async def _send_handshake(self) -> None:
        """Send what the handshake has for the peer. A cancelled call continues with the next one."""
        while True:
            if not self._unsent:
                self._unsent = self._tls.take()
            if self._flush():
                break
            await self._stream.wait_writable()
        if self._tls.is_established:
            self._is_ready = True
            self._established.unpark_all()

    def _flush(self) -> bool:
        """Hand encrypted bytes to the pipe; return True when none are left."""
        unsent = self._unsent
        if not unsent:
            return True
        taken = self._stream.send_nowait(unsent)
        if taken == len(unsent):
            self._unsent = b""
            return True
        self._unsent = memoryview(unsent)[taken:]
        return False

    def _failed(self, error: TLSError) -> TLSFailed:
        """Send the alert, which explains the end to the peer, and return the error to raise."""
        self._send_last()
        return TLSFailed(self.peer, error.reason)

    def _send_last(self) -> None:
        if self._unsent:
            return  # part of a record is on its way, and nothing may stand within it
        try:
            self._stream.send_nowait(self._tls.take())
        except TransportLost:
            return  # the peer is gone, and needs no explanation


class TLSListener:
    """A Listener whose peers must use TLS, over the listener ``inner``."""

    def __init__(self, listener: Listener, tls: AcceptorTLS) -> None:
        self.inner = listener
        self._tls = tls
        self.port = listener.port
        self.address = listener.address

    async def accept(self) -> ByteStream:
        stream = await self.inner.accept()
        return TLSStream(stream, TLSConnection(self._tls.context(), server_side=True))

    def close(self) -> None:
        self.inner.close()


class TLSDial:
    """The TLS part of a dial: made before the pipe is opened, so that wrong files cost no connection.

    Raises:
        TransportLost: the connector's files or settings cannot be used; the reason names them.
    """

    def __init__(self, configuration: TransportConfiguration) -> None:
        self._where = f"cannot connect to {configuration.host}:{configuration.port_text}"
        self._tls: TLSConnection | None = None
        try:
            secured = connector_tls(configuration)
            if secured is not None:
                self._tls = TLSConnection(secured[0], server_side=False, host=secured[1])
        except (TLSStoreError, TLSError) as error:
            raise TransportLost(f"{self._where}: {error}") from error

    async def establish(self, stream: ByteStream, deadline: float) -> ByteStream:
        """Establish TLS over a pipe; return the pipe itself for a connector without TLS. A failure closes the pipe.

        Args:
            stream: the pipe.
            deadline: time of trio's clock at which the handshake must be complete.

        Raises:
            TransportLost: TLS could not be established; the reason names what to do.
        """
        if self._tls is None:
            return stream
        encrypted = TLSStream(stream, self._tls)
        try:
            with trio.fail_at(deadline):
                await encrypted.handshake()
        except trio.TooSlowError:
            stream.close()
            raise TransportLost(f"{self._where}: {STALLED}") from None
        except TLSFailed as error:
            stream.close()
            raise TransportLost(f"{self._where}: {error.detail}") from error
        except BaseException:  # a cancellation, too, must not leave it open
            stream.close()
            raise
        return encrypted
