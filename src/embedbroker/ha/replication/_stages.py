"""The stages of a replicating broker's activation, and the events that lead from one to the next.

Responsible for the table, which is all that may move an activation. `_decisions` chooses the event.

The ways to being active:

1. A primary reads its record. With ``check_for_active_server`` it searches the cluster for a broker that is active with
   its node id, and becomes the backup of that one, to fail back. Without such a broker it is active.
2. With a lock manager it requests the lease instead: granted if its data is the newest and the lease is free. A backup
   whose data may be the newest does the same when it starts.
3. A backup in sync is handed the node at the end of an orderly stop. Where votes are required, it starts one first: the
   grants keep the other broker from being active with the data that it had then.
4. A backup in sync loses its active broker: it requests the lease (2), or starts a vote.
5. No voter could answer, and this broker was active last, without a backup: no other copy can have gone on.
6. Its partner waits as well, and yields in a cold start (`ColdStartAgreement`).

A broker that fails at one of these is a backup again, and starts over.
"""

from __future__ import annotations

from enum import Enum

from embedbroker.config import Role

__all__ = ["BACKUP_PAUSE_S", "GAVE_WAY_PAUSE_S", "PAUSE_S", "ROLES", "SEARCH_S", "TRANSITIONS", "Event", "Stage"]

#: How long a primary searches for a broker that took its place.
SEARCH_S = 5.0
#: How long a broker that gave way leaves the node to the other one.
GAVE_WAY_PAUSE_S = 4.0
#: How long a refused broker waits before its next request; a backup waits longer, so that a pair does not collide.
PAUSE_S = 2.0
BACKUP_PAUSE_S = 3.0


class Stage(Enum):
    """The stages of one broker start."""

    NEW = "new"
    READING = "reading its record"
    SEARCHING = "searching for an active broker of its node"
    REQUESTING_LEASE = "requesting the lease"
    BACKUP = "backup"
    VOTING = "voting"
    GRANTED = "granted"
    RECORDING = "recording that it is active"
    ACTIVE = "active"
    LEAVING = "leaving"
    OVER = "over"


class Event(Enum):
    """What leads from one stage to the next."""

    STARTED = "started"
    #: The record was read: another broker may be active with the data that is here.
    ACTIVE_POSSIBLE = "another broker may be active"
    #: The data here is not to be begun with, or not yet.
    NO_CLAIM = "no claim"
    LEASE_NEEDED = "lease needed"
    VOTE_NEEDED = "vote needed"
    #: The lease or the vote is won, or neither is needed.
    GRANTED = "granted"
    REFUSED = "refused"
    ACTIVE_FOUND = "active broker found"
    #: The active broker did not accept this backup.
    NOT_ACCEPTED = "not accepted as backup"
    #: The active broker goes on without this copy.
    LEFT_BEHIND = "left behind"
    #: Cold start: this broker leaves the node to its partner.
    YIELDED = "yielded"
    #: Cold start: the partner leaves the node to this broker.
    PARTNER_YIELDED = "partner yielded"
    RECOVERED = "journal recovered"
    RECORDED = "recorded"
    JOURNAL_CLOSED = "journal closed"
    HANDED_OVER = "handed over"
    ENDED = "ended"


_STOPS = {Event.JOURNAL_CLOSED: Stage.OVER, Event.ENDED: Stage.OVER}

TRANSITIONS: dict[Stage, dict[Event, Stage]] = {
    Stage.NEW: {Event.STARTED: Stage.READING, **_STOPS},
    Stage.READING: {
        Event.ACTIVE_POSSIBLE: Stage.SEARCHING,
        Event.NO_CLAIM: Stage.BACKUP,
        Event.LEASE_NEEDED: Stage.REQUESTING_LEASE,
        Event.GRANTED: Stage.GRANTED,
        **_STOPS,
    },
    Stage.SEARCHING: {
        Event.ACTIVE_FOUND: Stage.BACKUP,
        Event.NO_CLAIM: Stage.BACKUP,
        Event.VOTE_NEEDED: Stage.VOTING,
        Event.GRANTED: Stage.GRANTED,
        **_STOPS,
    },
    Stage.REQUESTING_LEASE: {Event.GRANTED: Stage.GRANTED, Event.REFUSED: Stage.BACKUP, **_STOPS},
    Stage.BACKUP: {
        Event.LEASE_NEEDED: Stage.REQUESTING_LEASE,
        Event.VOTE_NEEDED: Stage.VOTING,
        Event.GRANTED: Stage.GRANTED,
        Event.PARTNER_YIELDED: Stage.GRANTED,
        Event.NOT_ACCEPTED: Stage.BACKUP,
        Event.LEFT_BEHIND: Stage.BACKUP,
        Event.YIELDED: Stage.BACKUP,
        **_STOPS,
    },
    Stage.VOTING: {
        Event.GRANTED: Stage.GRANTED,
        Event.PARTNER_YIELDED: Stage.GRANTED,
        Event.REFUSED: Stage.BACKUP,
        Event.YIELDED: Stage.BACKUP,
        **_STOPS,
    },
    Stage.GRANTED: {Event.RECOVERED: Stage.RECORDING, **_STOPS},
    Stage.RECORDING: {
        Event.RECORDED: Stage.ACTIVE,
        Event.JOURNAL_CLOSED: Stage.LEAVING,
        Event.ENDED: Stage.OVER,
    },
    Stage.ACTIVE: {Event.JOURNAL_CLOSED: Stage.LEAVING, Event.ENDED: Stage.OVER},
    Stage.LEAVING: {Event.HANDED_OVER: Stage.OVER, Event.ENDED: Stage.OVER},
    Stage.OVER: {},
}

#: In the other stages the node keeps its role.
ROLES = {
    Stage.BACKUP: Role.BACKUP,
    Stage.VOTING: Role.BACKUP,
    Stage.GRANTED: Role.ACTIVATING,
    Stage.RECORDING: Role.ACTIVATING,
    Stage.ACTIVE: Role.LIVE,
    Stage.OVER: Role.STOPPED,
}
