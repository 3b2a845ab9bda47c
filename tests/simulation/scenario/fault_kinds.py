"""The kinds of faults, and how often each strikes.

It draws them; it carries nothing out.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from random import Random

__all__ = [
    "FaultKind",
    "draw_bridge_faults",
    "draw_failover_faults",
    "draw_faults",
    "draw_group_faults",
    "draw_replica_faults",
    "draw_vote_faults",
]


class FaultKind(IntEnum):
    CRASH = 0
    CRASH_WHILE_WRITING = 1
    CRASH_WHILE_SWITCHING = 2
    CRASH_WHILE_COMPACTING = 3
    CRASH_TWICE = 4
    RESTART = 5
    CUT_ONE = 6
    CUT_ALL = 7
    HOLD_ONE_WAY = 8
    PARTITION = 9
    DELAY = 10
    SLOW_DISK = 11
    FULL_DISK = 12
    DISK_ERROR = 13
    CLIENT_CRASH = 14
    HALF_OPEN = 15
    # Of groups: the broker that has the journal, or one that waits, or what they share.
    CRASH_WAITER = 16
    CRASH_ALL = 17
    FAIL_OVER = 18
    FREEZE = 19
    LOSE_STORE = 20
    BREAK_STORE = 21
    FULL_HERE = 22
    CLOCK_JUMP = 23
    FREEZE_RETURNING = 24
    CRASH_WHILE_CLAIMING = 25
    # Of groups that replicate: what is between their members, and each on its own way to the lock manager.
    PART_MEMBERS = 26
    HOLD_MEMBERS_ONE_WAY = 27
    CUT_MEMBERS = 28
    SLOW_MEMBERS = 29
    CUT_OFF_STORE = 30
    CRASH_WHILE_COPYING = 31
    # Of pairs that vote: the others of the cluster, and what is between all of them.
    SPLIT_MEMBERS = 32
    CUT_OFF_MEMBER = 33
    CRASH_VOTER = 34
    STOP_VOTER = 35
    FREEZE_VOTER = 36
    CRASH_WHILE_VOTING = 37
    START_CUT_OFF = 38
    # Of brokers with bridges: one end of a bridge, with sends that are not confirmed.
    CRASH_WHILE_FORWARDING = 39
    # Of nodes of a cluster that move everything to another node when they stop in order.
    SCALE_DOWN = 40
    CRASH_WHILE_SCALING_DOWN = 41


_WEIGHTS = {
    FaultKind.CRASH: 3,
    FaultKind.CRASH_WHILE_WRITING: 4,
    FaultKind.CRASH_WHILE_SWITCHING: 3,
    FaultKind.CRASH_WHILE_COMPACTING: 3,
    FaultKind.CRASH_TWICE: 2,
    FaultKind.RESTART: 2,
    FaultKind.CUT_ONE: 9,
    FaultKind.CUT_ALL: 3,
    FaultKind.HOLD_ONE_WAY: 2,
    FaultKind.PARTITION: 2,
    FaultKind.DELAY: 2,
    FaultKind.SLOW_DISK: 2,
    FaultKind.FULL_DISK: 1,
    FaultKind.DISK_ERROR: 1,
    FaultKind.CLIENT_CRASH: 3,
    FaultKind.HALF_OPEN: 4,
}

#: A crash that waits for its moment kills the broker that has the journal then; a second one kills its successor.
_GROUP_WEIGHTS = {
    FaultKind.CRASH: 5,
    FaultKind.CRASH_WHILE_WRITING: 4,
    FaultKind.CRASH_WHILE_SWITCHING: 2,
    FaultKind.CRASH_WHILE_COMPACTING: 2,
    FaultKind.CRASH_TWICE: 4,
    FaultKind.CRASH_WAITER: 2,
    FaultKind.CRASH_ALL: 2,
    FaultKind.CRASH_WHILE_CLAIMING: 2,
    FaultKind.RESTART: 2,
    FaultKind.FAIL_OVER: 3,
    FaultKind.FREEZE: 12,
    FaultKind.FREEZE_RETURNING: 4,
    FaultKind.LOSE_STORE: 2,
    FaultKind.BREAK_STORE: 3,
    FaultKind.FULL_HERE: 2,
    FaultKind.CLOCK_JUMP: 1,
    FaultKind.SLOW_DISK: 1,
    FaultKind.FULL_DISK: 1,
    FaultKind.DISK_ERROR: 1,
    FaultKind.CUT_ONE: 4,
    FaultKind.CUT_ALL: 1,
    FaultKind.HOLD_ONE_WAY: 1,
    FaultKind.PARTITION: 1,
    FaultKind.DELAY: 1,
    FaultKind.CLIENT_CRASH: 2,
    FaultKind.HALF_OPEN: 2,
}

#: Here the faults are about copies: which broker has one, which gets one, and which may go on without.
_REPLICA_WEIGHTS = {
    FaultKind.CRASH: 6,
    FaultKind.CRASH_WHILE_WRITING: 4,
    FaultKind.CRASH_WHILE_SWITCHING: 2,
    FaultKind.CRASH_WHILE_COMPACTING: 2,
    FaultKind.CRASH_TWICE: 4,
    FaultKind.CRASH_WAITER: 9,
    FaultKind.CRASH_ALL: 4,
    FaultKind.CRASH_WHILE_CLAIMING: 4,
    FaultKind.CRASH_WHILE_COPYING: 8,
    FaultKind.RESTART: 2,
    FaultKind.FAIL_OVER: 3,
    FaultKind.FREEZE: 8,
    FaultKind.LOSE_STORE: 3,
    FaultKind.BREAK_STORE: 4,
    FaultKind.CUT_OFF_STORE: 3,
    FaultKind.PART_MEMBERS: 6,
    FaultKind.HOLD_MEMBERS_ONE_WAY: 4,
    FaultKind.CUT_MEMBERS: 9,
    FaultKind.SLOW_MEMBERS: 3,
    FaultKind.FULL_HERE: 2,
    FaultKind.CLOCK_JUMP: 1,
    FaultKind.SLOW_DISK: 2,
    FaultKind.FULL_DISK: 1,
    FaultKind.DISK_ERROR: 2,
    FaultKind.CUT_ONE: 4,
    FaultKind.CUT_ALL: 2,
    FaultKind.HOLD_ONE_WAY: 1,
    FaultKind.PARTITION: 1,
    FaultKind.DELAY: 1,
    FaultKind.CLIENT_CRASH: 2,
    FaultKind.HALF_OPEN: 3,
}


#: Here it matters which brokers see each other, and which of those that are asked are there.
_VOTE_WEIGHTS = {
    FaultKind.CRASH: 6,
    FaultKind.CRASH_WHILE_WRITING: 5,
    FaultKind.CRASH_TWICE: 2,
    FaultKind.CRASH_WAITER: 7,
    FaultKind.CRASH_ALL: 2,
    FaultKind.CRASH_WHILE_COPYING: 2,
    FaultKind.CRASH_WHILE_VOTING: 6,
    FaultKind.RESTART: 2,
    FaultKind.FAIL_OVER: 3,
    FaultKind.FREEZE: 6,
    FaultKind.PART_MEMBERS: 6,
    FaultKind.HOLD_MEMBERS_ONE_WAY: 4,
    FaultKind.CUT_MEMBERS: 8,
    FaultKind.SLOW_MEMBERS: 2,
    FaultKind.SPLIT_MEMBERS: 9,
    FaultKind.CUT_OFF_MEMBER: 6,
    FaultKind.START_CUT_OFF: 9,
    FaultKind.CRASH_VOTER: 9,
    FaultKind.STOP_VOTER: 3,
    FaultKind.FREEZE_VOTER: 4,
    FaultKind.FULL_HERE: 1,
    FaultKind.CLOCK_JUMP: 1,
    FaultKind.SLOW_DISK: 1,
    FaultKind.DISK_ERROR: 1,
    FaultKind.CUT_ONE: 3,
    FaultKind.DELAY: 1,
    FaultKind.CLIENT_CRASH: 1,
    FaultKind.HALF_OPEN: 2,
}


#: Here it matters what is on its way between two brokers.
_BRIDGE_WEIGHTS = {
    FaultKind.CRASH: 5,
    FaultKind.CRASH_WHILE_FORWARDING: 12,
    FaultKind.CRASH_WHILE_WRITING: 5,
    FaultKind.CRASH_WHILE_COMPACTING: 2,
    FaultKind.CRASH_TWICE: 3,
    FaultKind.RESTART: 4,
    FaultKind.FREEZE: 4,
    FaultKind.PART_MEMBERS: 6,
    FaultKind.HOLD_MEMBERS_ONE_WAY: 5,
    FaultKind.CUT_MEMBERS: 9,
    FaultKind.SLOW_MEMBERS: 4,
    FaultKind.HALF_OPEN: 3,
    FaultKind.CUT_ALL: 2,
    FaultKind.SLOW_DISK: 5,
    FaultKind.FULL_DISK: 1,
    FaultKind.DISK_ERROR: 2,
    FaultKind.CLOCK_JUMP: 1,
}


#: Here the member of a pair that serves goes away, at any moment of a bridge.
_FAILOVER_WEIGHTS = {
    FaultKind.CRASH: 6,
    FaultKind.CRASH_WHILE_FORWARDING: 16,
    FaultKind.CRASH_WHILE_WRITING: 6,
    FaultKind.CRASH_TWICE: 3,
    FaultKind.RESTART: 2,
    FaultKind.FREEZE: 2,
    FaultKind.CUT_MEMBERS: 3,
    FaultKind.PART_MEMBERS: 2,
    FaultKind.SLOW_MEMBERS: 2,
}


def draw_faults(random: Random, count: int) -> list[FaultKind]:
    """A random selection for one broker."""
    return _draw(random, count, _WEIGHTS)


def draw_group_faults(random: Random, count: int) -> list[FaultKind]:
    """A random selection for brokers that share a store."""
    return _draw(random, count, _GROUP_WEIGHTS)


def draw_replica_faults(random: Random, count: int) -> list[FaultKind]:
    """A random selection for brokers that replicate."""
    return _draw(random, count, _REPLICA_WEIGHTS)


def draw_vote_faults(random: Random, count: int) -> list[FaultKind]:
    """A random selection for pairs that vote."""
    return _draw(random, count, _VOTE_WEIGHTS)


def draw_bridge_faults(random: Random, count: int) -> list[FaultKind]:
    """A random selection for brokers with bridges between them."""
    return _draw(random, count, _BRIDGE_WEIGHTS)


def draw_failover_faults(random: Random, count: int) -> list[FaultKind]:
    """A random selection for clusters of pairs."""
    return _draw(random, count, _FAILOVER_WEIGHTS)


def _draw(random: Random, count: int, weights: Mapping[FaultKind, int]) -> list[FaultKind]:
    kinds = list(weights)
    return random.choices(kinds, weights=[weights[kind] for kind in kinds], k=count)
