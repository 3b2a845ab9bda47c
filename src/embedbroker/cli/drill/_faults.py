"""What happens to the broker that serves, and what ends it again.

Responsible for each kind of fault, from its strike to the moment when service may go on. Does not depend on which
broker serves then.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

import trio

from .._failure import BrokerStopped, CannotStart
from ._group import Group
from ._outage import NewTime, Outage
from ._plan import Fault, Ha
from ._stage import Stage

__all__ = ["carry_out"]

# Journals are longer, logs are not. A disk that is really full strikes at no moment that can be chosen: a journal goes
# on in the files that it has.
_FILE_BYTES_MAX = 262_144
# Time limits: a broker must notice that it cannot write, and stop; a broker that is stopped must write what it holds.
_END_TIMEOUT_S = 60.0


async def carry_out(fault: Fault, stage: Stage, group: Group) -> Outage:
    """Strike the broker that serves. Return when it has ended or goes on.

    Raises:
        CannotStart: a broker that had to end did not.
        BrokerStopped: it had ended already.
    """
    victim = group.live
    if fault is Fault.FREEZE:
        return await _pause(fault, stage, NewTime.WHEN_HEALED, victim.freeze, victim.thaw)
    if fault is Fault.SLOW_DISK:
        # No client is cut off: what counts is how long the first sends on the slow disk take.
        return await _pause(fault, stage, NewTime.AT_ONCE, victim.slow_disk_down, victim.speed_disk_up)
    if fault is Fault.PARTITION:
        return await _partition(stage, group)
    strike: Callable[[], None]
    if fault is Fault.KILL:
        began, strike = NewTime.AT_ONCE, victim.kill
    elif fault is Fault.STOP:
        began, strike = NewTime.WITH_THE_LOSS, victim.terminate
    else:
        began, strike = NewTime.WITH_THE_LOSS, lambda: victim.limit_files(_FILE_BYTES_MAX)
    outage = stage.strike(fault.value, began, strike, ends_life=True)
    code = 0
    with trio.move_on_after(_END_TIMEOUT_S) as patience:
        code = await victim.ended()
    if patience.cancelled_caught:
        raise CannotStart(f"broker {victim.name!r} did not end {_END_TIMEOUT_S:.0f} s after the {fault.value}")
    if fault is Fault.KILL and code != -signal.SIGKILL:
        raise BrokerStopped(f"broker {victim.name!r} stopped by itself before the kill: {victim.last_output()}")
    if fault is Fault.STOP:
        stage.run.end_codes.append(victim.orderly(code))
    return outage


async def _pause(
    fault: Fault, stage: Stage, new_time: NewTime, begin: Callable[[], None], end: Callable[[], None]
) -> Outage:
    # A frozen broker on a shared store stays live. With replication the backup may take over, if the lease expires
    # meanwhile.
    may_end = fault is Fault.FREEZE and stage.plan.ha is Ha.REPLICATION
    outage = stage.strike(fault.value, new_time, begin, ends_life=may_end)
    try:
        await trio.sleep(stage.plan.fault_s)
    finally:
        end()
    outage.healed(stage.run.now())
    return outage


async def _partition(stage: Stage, group: Group) -> Outage:
    def cut() -> None:
        for relay in group.relays:
            relay.cut()
        stage.buffers_are_stale()

    def heal() -> None:
        for relay in group.relays:
            relay.heal()

    return await _pause(Fault.PARTITION, stage, NewTime.WHEN_HEALED, cut, heal)
