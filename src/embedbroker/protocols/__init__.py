"""Protocols of the broker: peers' bytes to kernel commands, the kernel's effects to peers' bytes."""

from ._detect import DETECT_BYTES, Detected, detect
from ._encodings import CODECS, restore_message, route_copier
from ._port import ConnectionPort
from .core._connection import CoreConnection
from .core._interfaces import Cluster, Gate, Releasable, SessionConnection
from .core._resend import ResendAccount
from .core._session import SERVER_VERSION, SERVICES_ADDRESS, CoreService, CoreSession

__all__ = [
    "CODECS",
    "DETECT_BYTES",
    "SERVER_VERSION",
    "SERVICES_ADDRESS",
    "Cluster",
    "ConnectionPort",
    "CoreConnection",
    "CoreService",
    "CoreSession",
    "Detected",
    "Gate",
    "Releasable",
    "ResendAccount",
    "SessionConnection",
    "detect",
    "restore_message",
    "route_copier",
]
