"""Bytes that the sessions of a broker keep for being reattached, against one limit.

Responsible for the sum, and for the choice of sessions when the limit is passed: those that keep the most lose the
ability to come back. Does not depend on frames; each session counts its frames.

A refused reattachment is no loss (core-protocol 7.3). The client creates its session again, what it had not settled is
delivered to it again, and calls under way are released.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

__all__ = ["KEPT_PACKET_OVERHEAD_BYTES", "Keeper", "ResendAccount"]

KEPT_PACKET_OVERHEAD_BYTES = 160
"""Cost in bytes of a kept packet beside its encoding: its pieces and their list."""


class Keeper(Protocol):
    """Keep packets of a session."""

    kept_bytes: int

    def give_up_reattachment(self, reason: str) -> None:
        """Drop all kept packets for good."""


class ResendAccount:
    """Count the bytes that all sessions keep.

    ``each_bytes_max`` is what may be sent again over one connection at once.
    """

    __slots__ = ("each_bytes_max", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int, each_bytes_max: int) -> None:
        self.limit_bytes = limit_bytes
        self.each_bytes_max = each_bytes_max
        self.used_bytes = 0

    def count(self, keeper: Keeper, kept_bytes: int, everyone: Iterable[Keeper]) -> None:
        """Count what a session keeps now."""
        self.used_bytes += kept_bytes - keeper.kept_bytes
        keeper.kept_bytes = kept_bytes
        if kept_bytes > self.each_bytes_max:
            keeper.give_up_reattachment(f"{kept_bytes} bytes are unconfirmed, more than output_bytes_max")
        if self.used_bytes > self.limit_bytes:
            self._relieve(everyone)

    def _relieve(self, everyone: Iterable[Keeper]) -> None:
        """Let the greatest keepers give up until there is room for some time, so that looking at all is rare."""
        enough = self.limit_bytes - self.limit_bytes // 8
        for keeper in sorted(everyone, key=lambda keeper: keeper.kept_bytes, reverse=True):
            if self.used_bytes <= enough:
                break
            keeper.give_up_reattachment(
                f"{keeper.kept_bytes} bytes are unconfirmed, and the sessions of the broker keep more than "
                "resend_bytes_max"
            )
