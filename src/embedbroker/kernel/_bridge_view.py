"""What management sees of the bridges of a broker, which live outside of the kernel."""

from __future__ import annotations

from typing import Protocol

from embedbroker.config import BridgeConfig

__all__ = ["BridgeView"]


class BridgeView(Protocol):
    """Describe a bridge, and switch it on request of management."""

    @property
    def config(self) -> BridgeConfig:
        """Return its configuration."""

    @property
    def is_started(self) -> bool:
        """Return True if it is started, with a connection or without."""

    @property
    def is_connected(self) -> bool:
        """Return True if it has a connection and sends."""

    @property
    def pending_count(self) -> int:
        """Return the number of messages that were sent and are not confirmed."""

    @property
    def acknowledged_count(self) -> int:
        """Return the number of messages that the other broker has confirmed."""

    def start(self) -> str | None:
        """Start it; return why that is not possible now."""

    def stop(self) -> str | None:
        """Stop it, with a wait for confirmations; return why that is not possible now."""

    def pause(self) -> str | None:
        """Pause it, with a wait for confirmations; return why that is not possible now."""

    def resume(self) -> str | None:
        """Start it again after a pause; return why that is not possible."""
