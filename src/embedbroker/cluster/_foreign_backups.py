"""Backups of another make that want a copy: there is none for them.

Responsible for the answer that ends their attempt at once, and for the line that tells the operator, once for each
place. Refuses to know whether this broker would take another one.
"""

from __future__ import annotations

from collections.abc import Callable

from embedclient.wire.core import BackupRegistration, BackupRegistrationFailed, BackupRegistrationProblem, Record

from ._inbound import Guest
from ._membership import Membership
from ._peer import CONTROL_CHANNEL

__all__ = ["refuse_other_backups"]

_PLACES_MAX = 100


def refuse_other_backups(membership: Membership, say: Callable[[str], None]) -> None:
    """Answer every registration of Artemis, whatever this broker is."""

    told: dict[str, None] = {}

    def refuse(guest: Guest, _packet: Record) -> None:
        place = guest.name.rpartition(":")[0] or guest.name
        if place not in told and len(told) < _PLACES_MAX:
            told[place] = None
            say(f"{guest.name}: refused as backup, replication is between embedbrokers, and that is another broker")
        guest.peer.send(BackupRegistrationFailed(BackupRegistrationProblem.EXCEPTION), CONTROL_CHANNEL)

    membership.guests.handlers[BackupRegistration] = refuse
