"""Clock: the time of the current step. The node sets it; nothing in the kernel reads a clock of the system."""

from __future__ import annotations

__all__ = ["Clock"]


class Clock:
    """Hold the time of a step: ``now_ms`` in milliseconds since 1970, ``monotonic`` in seconds since any moment."""

    __slots__ = ("monotonic", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self.monotonic = 0.0
