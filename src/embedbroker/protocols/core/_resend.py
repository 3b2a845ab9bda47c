"""What the sessions of a broker keep for being reattached, against one limit.

Responsible for the sum, and for who gives up when it is passed: those that keep the most lose the ability to come back.
Refuses to know frames; a session counts its own.

A refused reattachment is no loss (core-protocol 7.3): the client makes its session anew, what it had not settled is
delivered to it again, and calls under way are released.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

__all__ = ["KEPT_PACKET_OVERHEAD_BYTES", "Keeper", "ResendAccount"]

KEPT_PACKET_OVERHEAD_BYTES = 160
"""What a kept packet costs beside its bytes: its pieces and their list."""


class Keeper(Protocol):
    """A session that keeps packets."""

    kept_bytes: int

    def give_up_reattachment(self, reason: str) -> None:
        """Keep nothing any more."""


class ResendAccount:
    """Bytes that all sessions keep. ``each_bytes_max`` is what may be sent again over one connection at once."""

    __slots__ = ("each_bytes_max", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int, each_bytes_max: int) -> None:
        self.limit_bytes = limit_bytes
        self.each_bytes_max = each_bytes_max
        self.used_bytes = 0

    def count(self, keeper: Keeper, kept_bytes: int, everyone: Iterable[Keeper]) -> None:
        """A session keeps so many bytes now."""
        self.used_bytes += kept_bytes - keeper.kept_bytes
        keeper.kept_bytes = kept_bytes
        if kept_bytes > self.each_bytes_max:
            keeper.give_up_reattachment(f"{kept_bytes} bytes are unconfirmed, more than output_bytes_max")
        if self.used_bytes > self.limit_bytes:
            self._relieve(everyone)

    def _relieve(self, everyone: Iterable[Keeper]) -> None:
        """The greatest give up until there is room for some time, so that looking at all is rare."""
        enough = self.limit_bytes - self.limit_bytes // 8
        for keeper in sorted(everyone, key=lambda keeper: keeper.kept_bytes, reverse=True):
            if self.used_bytes <= enough:
                break
            keeper.give_up_reattachment(
                f"{keeper.kept_bytes} bytes are unconfirmed, and the sessions of the broker keep more than "
                "resend_bytes_max"
            )
