"""Bridges: messages of a local queue move to an address of another broker."""

from ._bridge import Bridge
from ._bridged_message import BridgedMessage
from ._bridges import Bridges

__all__ = ["Bridge", "BridgedMessage", "Bridges"]
