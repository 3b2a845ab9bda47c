"""One TLS connection as a state machine: encrypted bytes in, plain bytes out, and the reverse.

Responsible for the handshake, for the two directions, and for the text of a failure. Does not depend on sockets, tasks
or time: the owner moves the bytes, and limits how long a handshake may take.
"""

from __future__ import annotations

import ssl
from typing import Final

from embedclient.model import TLSContext

from ._failures import explain
from ._subject import subject_text

__all__ = ["PLAIN_BYTES_ALERT", "STALLED", "TLSConnection", "TLSError"]

# Longest plain text of one record.
_RECORD_BYTES: Final = 16_384
_HANDSHAKE: Final = 0x16
_ALERT: Final = 0x15
#: Why a handshake without an end has failed.
STALLED: Final = "the TLS handshake was not complete in time; the acceptor may have no TLS"
#: What an acceptor answers to bytes that are not TLS: the alert "unexpected message", from which a client sees the
#: reason.
PLAIN_BYTES_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x0a"


class TLSError(Exception):
    """The connection cannot continue; the text names the reason and what to do.

    ``is_handshake`` is True if the connection was never established.
    """

    def __init__(self, reason: str, *, is_handshake: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_handshake = is_handshake


class TLSConnection:
    """One end of a TLS connection.

    Call `receive` with what came from the peer, `send` with what is to be encrypted, and write what `take` returns
    after each of them. ``is_established``: the handshake is complete. ``is_closed``: the peer has ended its direction.

    Args:
        context: certificates and rules.
        server_side: True for the end that was connected to.
        host: host name or address that a client connects to; empty without one.
    """

    __slots__ = ("_begun", "_host", "_incoming", "_object", "_outgoing", "_server_side", "is_closed", "is_established")

    def __init__(self, context: TLSContext, *, server_side: bool, host: str = "") -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._host = host
        self._server_side = server_side
        self._begun = False
        self.is_established = False
        self.is_closed = False
        try:
            self._object: ssl.SSLObject = context.wrap_bio(
                self._incoming, self._outgoing, server_side=server_side, server_hostname=host or None
            )
        # A context that checks host names without one, or a name that no host has: a NUL in it is a TypeError.
        except (ValueError, TypeError) as error:
            raise TLSError(f"TLS is not possible with host {host!r}: {error}", is_handshake=True) from error
        except ssl.SSLError as error:  # a context for the other side
            raise TLSError(explain(error, server_side=server_side, host=host), is_handshake=True) from error

    @property
    def version(self) -> str | None:
        """Return the version in use, as ``TLSv1.3``; None before it is agreed on."""
        return self._object.version()

    @property
    def peer_certificate(self) -> bytes | None:
        """Return the peer's certificate in DER form; None if it sent none."""
        return self._object.getpeercert(True) if self.is_established else None

    @property
    def peer_subject(self) -> str | None:
        """Return the subject of the peer's certificate, in Java's form ``CN=app, O=Example``.

        None if the peer sent no certificate, or if the rules of the context verify none.
        """
        # Empty for a certificate that was not verified.
        decoded = self._object.getpeercert() if self.is_established else None
        return subject_text(decoded) if decoded else None

    @property
    def has_output(self) -> bool:
        """Return True if `take` has bytes for the peer."""
        return self._outgoing.pending > 0

    def take(self) -> bytes:
        """Return the bytes that the peer must receive next."""
        return self._outgoing.read()

    def start(self) -> None:
        """Begin the handshake. A client sends first.

        Raises:
            TLSError: the rules of the context allow no handshake.
        """
        self._shake_hands()

    def receive(self, data: bytes) -> bytes:
        """Process bytes from the peer. Return the plain bytes that are complete, which may be none.

        Raises:
            TLSError: the handshake failed, or the bytes are wrong. `take` has the alert for the peer.
        """
        if not self._begun and data:
            self._check_first(data)
        self._incoming.write(data)
        if not self.is_established and not self._shake_hands():
            return b""
        return self._decrypt()

    def receive_end(self) -> None:
        """Process the end of the peer's bytes.

        Raises:
            TLSError: the handshake was not complete.
        """
        self._incoming.write_eof()
        self.is_closed = True
        if self.is_established:
            # CORE marks the ends of its frames, so that a missing close_notify loses nothing unnoticed.
            return
        if self._server_side:
            reason = "the client closed the connection before the TLS handshake was complete"
        else:
            reason = (
                "the peer closed the connection during the TLS handshake: its acceptor has no TLS, or refuses this "
                "client; remove sslEnabled=true for an acceptor without TLS"
            )
        raise TLSError(reason, is_handshake=True)

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt bytes for the peer, in as few records as possible; `take` has them.

        Raises:
            TLSError: the connection is broken.
        """
        assert self.is_established
        try:
            self._object.write(data)
        except ssl.SSLError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """End this direction; `take` has the notice for the peer. Without effect on a connection that is broken."""
        if self.is_established:
            try:
                self._object.unwrap()
            except (ssl.SSLError, OSError, ValueError):
                return  # the notice is written; the answer is not waited for

    def _check_first(self, data: bytes) -> None:
        self._begun = True
        if data[0] in (_HANDSHAKE, _ALERT):
            return
        if self._server_side:
            self._outgoing.write(PLAIN_BYTES_ALERT)
            reason = "the bytes are not TLS, and this acceptor has TLS; add sslEnabled=true to the client's URL"
        else:
            reason = "the peer does not answer with TLS; remove sslEnabled=true from the URL, or set it on the acceptor"
        raise TLSError(reason, is_handshake=True)

    def _shake_hands(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise self._failed(error) from error
        self.is_established = True
        return True

    def _decrypt(self) -> bytes:
        """Return the plain text of all complete records. Most reads are one record, which is not copied again."""
        incoming, read = self._incoming, self._object.read
        pieces: list[bytes] = []
        try:
            while incoming.pending:
                piece = read(_RECORD_BYTES)
                if not piece:
                    self.is_closed = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_closed = True
        except ssl.SSLError as error:
            raise self._failed(error) from error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _failed(self, error: ssl.SSLError) -> TLSError:
        reason = explain(error, server_side=self._server_side, host=self._host)
        return TLSError(reason, is_handshake=not self.is_established)
