"""How far a replicating broker has come on its way to being live, and what that makes of it.

The ways to being live:

1. A primary reads its record. With ``check_for_active_server`` it looks in the cluster for a broker that is live with
   its node id, and becomes the backup of that one, which wants to be live again. There is none: it is live.
2. With a lock manager it tries to activate instead: its data is the newest, and nobody has the lease. A backup whose
   data may be the newest does the same when it starts.
3. A backup in sync hears from its live broker that it is to take over, at the end of an orderly stop. Where votes are
   asked for, they are now, too: the voters keep the other one from being live with what it had then.
4. A backup in sync loses its live broker: it asks the lock manager (2), or the other live brokers of the cluster.
5. Votes were to be had from nobody, and this broker was live last, without a backup: nobody else can have gone on.
6. Or there was one, which waits as well, and gives way (`ColdStartAgreement`).

Whoever fails at one of these is a backup again, and begins anew.
"""

from __future__ import annotations

from enum import Enum

from embedbroker.config import Role

__all__ = ["ASKS_AGAIN_S", "BACKUP_ASKS_AGAIN_S", "GAVE_WAY_FOR_S", "LOOKS_FOR_S", "ROLES", "Stage"]

#: How long a primary looks for a broker that took its place.
LOOKS_FOR_S = 5.0
#: How long a broker that gave way leaves it to the other one to be live.
GAVE_WAY_FOR_S = 4.0
#: How long a lock manager that failed, or voters that said no, are left alone.
ASKS_AGAIN_S = 2.0
BACKUP_ASKS_AGAIN_S = 3.0


class Stage(Enum):
    """Of one life; every stage may end in LEAVING or OVER."""

    NEW = "new"
    READING = "reading its record"
    LOOKING = "looking for a broker that took its place"
    TRYING = "asking the lock manager"
    STANDING_BY = "standing by"
    VOTING = "asking the other live brokers"
    GRANTED = "granted"
    SETTLING = "noting that it is live"
    LIVE = "live"
    LEAVING = "leaving"
    OVER = "over"


#: In the others it stays what it is.
ROLES = {
    Stage.STANDING_BY: Role.BACKUP,
    Stage.VOTING: Role.BACKUP,
    Stage.GRANTED: Role.ACTIVATING,
    Stage.SETTLING: Role.ACTIVATING,
    Stage.LIVE: Role.LIVE,
    Stage.OVER: Role.STOPPED,
}
