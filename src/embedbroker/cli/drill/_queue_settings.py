"""Effects of a user's address settings on the drill's own queue.

Responsible for settings that would take messages away, or prevent the queue. Does not depend on files.
"""

from __future__ import annotations

from typing import Any

from embedbroker import BrokerConfig

from ._run import QUEUE

__all__ = ["dead_letters_of", "objection_to"]

#: The matches that cover a name of one word, the narrowest first.
_MATCHES = (QUEUE, f"{QUEUE}.#", "*", "#")


def dead_letters_of(config: BrokerConfig) -> str | None:
    """Return the address for messages whose delivery attempts are exhausted; None if they are dropped."""
    found: str | None = _setting(config, "dead_letter_address")
    return found or None


def objection_to(config: BrokerConfig) -> str | None:
    """Return why a drill cannot have its queue there; None if it can."""
    delays = (_setting(config, name) for name in ("expiry_delay_ms", "max_expiry_delay_ms"))
    if any(delay not in (None, -1) for delay in delays):
        return f"messages expire (expiry-delay), and a drill would miss them: set -1 for address {QUEUE!r}"
    there = any(QUEUE in (address.anycast or {}) for address in config.addresses.values())
    if _setting(config, "auto_create_queues") is False and not there:
        return f"auto-create-queues is false, and there is no anycast queue {QUEUE!r}: add it, or set true for it"
    return None


def _setting(config: BrokerConfig, name: str) -> Any:
    """Return the value of the narrowest match that sets ``name``; None for the default."""
    for match in _MATCHES:
        settings = config.address_settings.get(match)
        value = None if settings is None else getattr(settings, name)
        if value is not None:
            return value
    return None
