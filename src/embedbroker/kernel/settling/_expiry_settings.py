"""Effect of an address' settings on a message's expiration (broker-semantics 4.6)."""

from __future__ import annotations

from embedbroker.config import AddressSettings

from ..message._message import Message

__all__ = ["adjusts_expiration", "with_expiry_settings"]

_LONG_MAX = 2**63 - 1


def adjusts_expiration(settings: AddressSettings) -> bool:
    """Return True if the settings change any expiration."""
    has_delays = not settings.expiry_delay_ms == settings.min_expiry_delay_ms == settings.max_expiry_delay_ms == -1
    return has_delays or bool(settings.no_expiry)


def with_expiry_settings(message: Message, settings: AddressSettings, now_ms: int) -> Message:
    """Apply no-expiry, expiry-delay, min- and max-expiry-delay; return the message itself if they change nothing."""
    delay, shortest, longest = settings.expiry_delay_ms, settings.min_expiry_delay_ms, settings.max_expiry_delay_ms
    assert delay is not None and shortest is not None and longest is not None
    expiration = message.expiration
    if settings.no_expiry:
        wanted = 0
    elif expiration == 0:
        chosen = next((value for value in (delay, longest, shortest) if value >= 0), None)
        wanted = 0 if chosen is None else now_ms + chosen
    elif longest >= 0 and expiration > now_ms + longest:
        wanted = now_ms + longest
    elif shortest >= 0 and expiration < now_ms + shortest and delay < 0:
        wanted = now_ms + shortest
    else:
        wanted = expiration
    # A delay of the largest long means "never" in files of Artemis.
    wanted = min(wanted, _LONG_MAX)
    return message if wanted == expiration else message.with_expiration(wanted)
