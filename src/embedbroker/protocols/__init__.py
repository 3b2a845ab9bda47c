"""Protocols of the broker: peers' bytes to kernel commands, the kernel's effects to peers' bytes."""

from ._core_connection import CoreConnection
from ._core_resend import ResendAccount
from ._core_service import SERVER_VERSION, Cluster, CoreService, Gate, Releasable
from ._detect import DETECT_BYTES, Detected, detect
from ._encodings import restore_message
from ._link import Link

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
