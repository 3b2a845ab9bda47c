"""Protocols of the broker: peers' bytes to kernel commands, the kernel's effects to peers' bytes."""

from ._detect import DETECT_BYTES, Detected, detect
from ._encodings import restore_message
from ._port import Link
from .core._connection import CoreConnection
from .core._resend import ResendAccount
from .core._service import SERVER_VERSION, Cluster, CoreService, Gate, Releasable

__all__ = [
    "DETECT_BYTES",
    "SERVER_VERSION",
    "Cluster",
    "CoreConnection",
    "CoreService",
    "Detected",
    "Gate",
    "Link",
    "Releasable",
    "ResendAccount",
    "detect",
    "restore_message",
]
