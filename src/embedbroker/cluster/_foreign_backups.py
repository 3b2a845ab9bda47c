"""Backups of another make that request a copy, which this broker cannot give them.

Responsible for the answer that ends their attempt at once, and for one log line for each place. Does not depend on
whether this broker would accept another backup.
"""

from __future__ import annotations

from collections.abc import Callable

from embedclient.wire.core import BackupRegistration, BackupRegistrationFailed, BackupRegistrationProblem, Record

from ._inbound import InboundPeer
from ._membership import Membership
from ._peer import CONTROL_CHANNEL

__all__ = ["refuse_foreign_backups"]

_PLACES_MAX = 100


def refuse_foreign_backups(membership: Membership, log: Callable[[str], None]) -> None:
    """Answer every registration of Artemis, whatever the role of this broker."""

    logged: dict[str, None] = {}

    def refuse(inbound: InboundPeer, _packet: Record) -> None:
        place = inbound.name.rpartition(":")[0] or inbound.name
        if place not in logged and len(logged) < _PLACES_MAX:
            logged[place] = None
            log(f"{inbound.name}: refused as backup, replication is between embedbrokers, and that is another broker")
        inbound.peer.send(BackupRegistrationFailed(BackupRegistrationProblem.EXCEPTION), CONTROL_CHANNEL)

    membership.inbound_peers.handlers[BackupRegistration] = refuse
