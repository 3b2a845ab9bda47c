"""Detection of the protocol of a new connection, from its first eight bytes (core-protocol 1.2).

Does not depend on the work of the protocols.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["DETECT_BYTES", "Detected", "detect"]

DETECT_BYTES = 8

_HTTP = (b"GE", b"PO", b"PU", b"HE", b"OP", b"PA", b"DE", b"TR")


class Detected(Enum):
    """Classify the first bytes. CORE also covers clients that send no handshake."""

    CORE = "CORE"
    CORE_WITH_HANDSHAKE = "CORE with handshake"
    HORNETQ = "HORNETQ"
    AMQP = "AMQP"
    HTTP = "HTTP"
    PROXY = "PROXY"
    STOMP = "STOMP"
    MQTT = "MQTT"
    OPENWIRE = "OPENWIRE"
    TLS = "TLS"


def detect(head: bytes) -> Detected:
    """Classify the first eight bytes of a connection."""
    assert len(head) >= DETECT_BYTES, head
    if head.startswith((b"PROX", b"\r\n\r\n")):
        return Detected.PROXY
    if head.startswith(_HTTP):
        return Detected.HTTP
    if head.startswith(b"ARTEMIS"):
        return Detected.CORE_WITH_HANDSHAKE
    if head.startswith(b"\x16\x03"):
        return Detected.TLS
    if head.startswith(b"HORNETQ"):
        return Detected.HORNETQ
    if head.startswith(b"AMQP"):
        return Detected.AMQP
    if head.startswith((b"CONNECT", b"STOMP")):
        return Detected.STOMP
    if head[0] == 0x10 and b"MQ" in head[2:8]:
        return Detected.MQTT
    if head[4] == 1 and head[5:8] == b"Act":
        return Detected.OPENWIRE
    return Detected.CORE
