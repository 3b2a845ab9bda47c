"""CORE protocol state machines: confirmation numbering of a channel and what is known about the peer's count."""

from ._channel import RESEND_BYTES_MAX, Channel
from ._peer_count import PeerCount

__all__ = ["RESEND_BYTES_MAX", "Channel", "PeerCount"]
