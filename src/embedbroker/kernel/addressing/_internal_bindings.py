"""Addresses that are bound to a part of the broker instead of queues: management, and services."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from .._authority import Permission
from .._refusal import Refused

__all__ = ["InternalBinding"]


@frozen
class InternalBinding:
    """Bind an address to a part of the broker that takes messages: no queue, no route, no transaction.

    ``take(message, session, sender_waits)`` carries out one request, and returns why it is refused. ``sender_waits``:
    the sender waits for an answer to the send itself. ``permission`` is required on the address for a send. A reserved
    address can have no queues, and queries report that it exists.
    """

    address: str
    take: Callable[..., Refused | None]
    permission: Permission = Permission.SEND
    is_reserved: bool = True
