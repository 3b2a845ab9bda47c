"""The way to the right to be active through a lock manager: the newest data, and the lease.

Responsible for the rules of epochs, and for keeping a lease that was taken. Does not run operations, does not read a
clock, and does not write the broker's own epoch: it returns the epoch to write, and waits for `on_written`.

Every copy of the data has an epoch, and the lock manager has one for all of them, under the node id. Artemis calls it
the activation sequence. Each time a broker begins to confirm what no other copy has, both grow by one. The epoch shows
which copies are left behind.

Why an epoch is claimed before it is noted, and only then set (`sequential`):

1. P is active at 4, and its backup B is lost. P writes -5 at the manager, 5 at itself, 5 at the manager.
2. P dies behind the first: B, which has 4 and finds -5, can conclude that nothing was confirmed without it. It may go
   on at 5.
3. P dies behind the second: P has 5 and finds -5. The same holds for both; the first one to take the lease goes on.
4. P dies behind the third: B has 4 and finds 5. It is left behind.
5. P is frozen behind the second, and B goes on at 5, then at 6: P's last step does not find -5 any more, and P ends.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum

from attrs import frozen

from ._leases import (
    GiveLease,
    KeepLease,
    Lease,
    LeaseOperation,
    LeaseWork,
    ReadLeaseHolder,
    ReadSequence,
    SwapSequence,
    TakeLease,
)
from ._operations import LockFault

__all__ = ["ActivationAttempt", "AttemptResult", "LeaseActivation"]

#: How long a broker with the newest data requests the lease, and the interval of its requests, in seconds.
TAKE_WITHIN_S = 2.0
TAKE_EVERY_S = 0.05
#: Seconds between checks of a lease without an end; a lease with an end is renewed several times before it is over.
LOOK_EVERY_S = 0.5
KEEPS_PER_LEASE = 3
#: What is taken off the end of a lease, in seconds and as a share: more than any step takes.
GRACE_S = 0.5
GRACE_SHARE = 0.2
#: Seconds without a request to a manager that failed, while this broker holds a lease.
AFTER_FAULT_S = 0.25
#: How long a lease without an end counts while the manager is short of something that comes back, in seconds.
SHORT_FOR_S = 15.0


class AttemptResult(Enum):
    """The result of an attempt. FAILED: the manager did not decide; another attempt is allowed."""

    GRANTED = "granted"
    STALE = "stale"
    TAKEN = "taken"
    FAILED = "failed"


@frozen
class ActivationAttempt:
    """The result of an attempt with its reason. ``text`` is the reason for everything but GRANTED; ``epoch`` is the
    epoch of this broker now."""

    verdict: AttemptResult
    epoch: int
    text: str = ""


@frozen
class _Write:
    epoch: int


@frozen
class _Pause:
    seconds: float


_Request = tuple[LeaseOperation, ...] | _Write | _Pause
_Way = Generator[_Request, tuple[object, ...], ActivationAttempt]


class LeaseActivation:
    """The lease and the attempts of one broker start. ``failure`` is set when a right that was there is gone: its
    broker must end."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.failure: str | None = None
        #: The outcome of the last attempt, None while one is under way.
        self.attempt: ActivationAttempt | None = None
        self.holds = False
        self._until: float | None = None
        self._way: _Way | None = None
        # It is an attempt of a broker that is not active: a lease that was taken for it is no right yet.
        self._activates = False
        self._request: _Request | None = None
        self._pause_until = 0.0
        self._epoch_given = False
        self._keep_due: float | None = None
        self._ending = False
        # The lease goes back, and the next one is of another key.
        self._drops = False
        # Leases that this broker may have at the manager, which failed as one was taken or given back. It gives them
        # back until that is done: otherwise no other broker could be active.
        self._owed: dict[str, None] = {}
        self._owed_due = 0.0
        self._next_key = key
        self._batches = 0
        self._under_way: tuple[LeaseOperation, ...] | None = None
        self._handed_out = 0.0
        # When the lease was held for sure the last time.
        self._kept_at = 0.0
        self._now = 0.0

    # -- requests of the node ------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Return True if an attempt is under way."""
        return self._way is not None

    def try_to_activate(self, epoch: int, now: float) -> None:
        """Take the lease if this data is the newest. With GRANTED no other broker has it, and the epoch is this
        broker's."""
        self._begin(_activating(self._next_key, epoch), now)
        self._activates = True

    def renew(self, epoch: int, now: float) -> None:
        """Go on without a backup: leave all other copies behind. After FAILED another attempt is allowed."""
        assert self.holds, "claims an epoch without the lease"
        self._begin(_under_lease(self.key, epoch), now)
        self._activates = False

    def drop(self) -> None:
        """Give the lease back for now: other brokers may have it until the next attempt."""
        assert self._way is None
        self._drops = self.holds

    def change_key(self, key: str) -> None:
        """Use another key: the data is that of another node from now on."""
        assert self._way is None
        self._next_key = key
        if self.holds:
            self._drops = True
        else:
            self.key = key

    def leave(self) -> None:
        """Give the lease back, as soon as what is under way is over; `is_over` is True then."""
        self._way = self._request = None
        self._ending = True

    @property
    def is_leaving(self) -> bool:
        """Return True if `leave` was called."""
        return self._ending

    @property
    def is_over(self) -> bool:
        """Return True if everything is given back."""
        return self._ending and self._under_way is None and not self.holds

    def is_lapsed(self, now: float) -> bool:
        """Return True if the right is not sure any more: nothing must be confirmed."""
        return self._until is not None and now >= self._until

    def take_attempt(self) -> ActivationAttempt | None:
        """Return the outcome of an attempt, once."""
        attempt, self.attempt = self.attempt, None
        return attempt

    def epoch_to_write(self) -> int | None:
        """Return the epoch that this broker must write for itself, durably; each is returned once."""
        if isinstance(self._request, _Write) and not self._epoch_given:
            self._epoch_given = True
            return self._request.epoch
        return None

    def on_written(self, epoch: int) -> None:
        """Go on after the epoch is written."""
        # The request may be from an attempt that ended meanwhile.
        if self._request == _Write(epoch):
            self._go_on(())

    # -- work and answers ----------------------------------------------------------------------------------------

    def take_work(self, now: float) -> LeaseWork | None:
        """Return the operations to do now, one batch at a time."""
        self._now = now
        if isinstance(self._request, _Pause) and now >= self._pause_until:
            self._go_on(())
        if self._under_way is not None or self.failure is not None:
            return None
        operations: tuple[LeaseOperation, ...]
        if self._ending or self._drops:
            if not self.holds:
                return None
            operations = (GiveLease(self.key),)
        elif self._keep_due is not None and now >= self._keep_due:
            operations = (KeepLease(self.key),)
        elif isinstance(self._request, tuple):
            operations = self._request
        elif self._owed and self._way is None and now >= self._owed_due:
            operations = (GiveLease(next(iter(self._owed))),)
        else:
            return None
        self._batches += 1
        self._under_way = operations
        self._handed_out = now
        return LeaseWork(self._batches, operations)

    def next_deadline(self) -> float | None:
        """Return when there is work to take, or a right ends, in monotonic seconds."""
        if self.failure is not None:
            return None
        dues = [] if self._until is None else [self._until]
        if self._under_way is None:
            if self._keep_due is not None and not self._ending:
                dues.append(self._keep_due)
            if isinstance(self._request, _Pause):
                dues.append(self._pause_until)
            elif isinstance(self._request, tuple) or ((self._ending or self._drops) and self.holds):
                dues.append(self._now)
            elif self._owed and self._way is None and not self._ending:
                dues.append(self._owed_due)
        return min(dues, default=None)

    def on_time(self, now: float) -> None:
        """Check whether the right has ended."""
        self._now = now
        if self.is_lapsed(now) and self.failure is None and not self._ending:
            self._fail("the lock manager has not answered in time: another broker may be live")

    def on_done(self, batch: int, results: tuple[object, ...], now: float) -> None:
        """Handle the results of a batch."""
        operations = self._finish(batch, now)
        for operation, result in zip(operations, results, strict=True):
            if isinstance(operation, TakeLease | KeepLease):
                self._on_lease(operation, result)
            elif isinstance(operation, GiveLease):
                self._owed.pop(operation.key, None)
                self._forget(operation.key)
        if operations is self._request:
            self._go_on(results)

    def on_failed(self, batch: int, fault: LockFault, now: float) -> None:
        """Handle a failure of the manager: an attempt ends, and a right goes on until it ends by itself."""
        operations = self._finish(batch, now)
        first = operations[0]
        if isinstance(first, GiveLease):
            # At the end closing the session gives it back as well.
            self._owe(first.key, now)
            self._forget(first.key)
        elif isinstance(first, TakeLease):
            if not self.holds:
                self._owe(first.key, now)
        elif isinstance(first, KeepLease):
            if self._until is None and not (fault.passes and now < self._kept_at + SHORT_FOR_S):
                self._fail(str(fault))
            else:
                self._keep_due = now + AFTER_FAULT_S
        if operations is self._request:
            assert self._way is not None
            self._way.close()
            self._end_way(ActivationAttempt(AttemptResult.FAILED, 0, str(fault)))

    # -- inside --------------------------------------------------------------------------------------------------

    def _finish(self, batch: int, now: float) -> tuple[LeaseOperation, ...]:
        assert batch == self._batches and self._under_way is not None, batch
        self._now = now
        operations, self._under_way = self._under_way, None
        return operations

    def _owe(self, key: str, now: float) -> None:
        self._owed[key] = None
        self._owed_due = now + AFTER_FAULT_S

    def _forget(self, key: str) -> None:
        if key == self.key:
            self._lose()

    def _on_lease(self, operation: TakeLease | KeepLease, result: object) -> None:
        self._owed.pop(operation.key, None)
        if isinstance(result, Lease):
            self.holds = True
            self._kept_at = self._handed_out
            lasts = result.lasts_s
            if lasts is None:
                self._until, every = None, LOOK_EVERY_S
            else:
                self._until = self._handed_out + lasts - min(GRACE_S, lasts * GRACE_SHARE)
                every = lasts / KEEPS_PER_LEASE
            self._keep_due = self._handed_out + every
        elif isinstance(operation, KeepLease):
            self._lose()
            if not self._ending:
                self._fail("the lease is lost: another broker may be live")

    def _lose(self) -> None:
        self.holds = self._drops = False
        self._until = self._keep_due = None
        self.key = self._next_key

    def _fail(self, reason: str) -> None:
        """Handle the loss of a sure lease: an active broker ends, and one that only requests to be active gives it
        back."""
        if self._way is None or not self._activates:
            self.failure = reason
            self._way = self._request = None
            return
        self._way.close()
        self._until = self._keep_due = None
        self._drops = self.holds
        self._end_way(ActivationAttempt(AttemptResult.FAILED, 0, reason))

    def _begin(self, way: _Way, now: float) -> None:
        assert self._way is None, "one attempt at a time"
        self._now = now
        self._way, self.attempt = way, None
        self._go_on(None)

    def _go_on(self, results: tuple[object, ...] | None) -> None:
        way, self._request = self._way, None
        assert way is not None
        try:
            request = next(way) if results is None else way.send(results)
        except StopIteration as end:
            self._end_way(end.value)
            return
        self._request = request
        self._epoch_given = False
        if isinstance(request, _Pause):
            self._pause_until = self._now + request.seconds

    def _end_way(self, attempt: ActivationAttempt) -> None:
        self._way = self._request = None
        self.attempt = attempt


def _activating(key: str, epoch: int) -> _Way:
    """Check without the lease first, so that a broker that is left behind takes no lease. The check under the lease
    decides."""
    text = yield from _behind(key, epoch)
    if text is not None:
        return ActivationAttempt(AttemptResult.STALE, epoch, text)
    holder: object = None
    for _attempt in range(round(TAKE_WITHIN_S / TAKE_EVERY_S)):
        lease, holder = yield (TakeLease(key), ReadLeaseHolder(key))
        if lease is not None:
            break
        yield _Pause(TAKE_EVERY_S)
    else:
        return ActivationAttempt(AttemptResult.TAKEN, epoch, f"{holder or 'another broker'} has the right to be live")
    attempt = yield from _under_lease(key, epoch)
    if attempt.verdict is not AttemptResult.GRANTED:
        yield (GiveLease(key),)
    return attempt


def _under_lease(key: str, epoch: int) -> _Way:
    (shared,) = yield (ReadSequence(key),)
    assert isinstance(shared, int)
    if shared < 0 and epoch in (-shared, -shared - 1):
        # The broker that claimed that epoch is gone, and has confirmed nothing under it.
        yield _Write(-shared)
        (swapped,) = yield (SwapSequence(key, shared, -shared),)
        if not swapped:
            return ActivationAttempt(AttemptResult.FAILED, epoch, "another broker wrote the epoch")
        epoch = -shared
    elif shared != epoch:
        return ActivationAttempt(AttemptResult.STALE, epoch, _left_behind(shared, epoch))
    return (yield from _sequential(key, epoch))


def _sequential(key: str, epoch: int) -> _Way:
    following = epoch + 1
    (claimed,) = yield (SwapSequence(key, epoch, -following),)
    if not claimed:
        # Perhaps by a broker that is gone, and has confirmed nothing under it: the next check finds out by the epoch.
        return ActivationAttempt(AttemptResult.FAILED, epoch, "another broker has claimed the epoch")
    yield _Write(following)
    (swapped,) = yield (SwapSequence(key, -following, following),)
    if not swapped:
        return ActivationAttempt(AttemptResult.STALE, following, "another broker has claimed the epoch")
    return ActivationAttempt(AttemptResult.GRANTED, following)


def _behind(key: str, epoch: int) -> Generator[_Request, tuple[object, ...], str | None]:
    (shared,) = yield (ReadSequence(key),)
    assert isinstance(shared, int)
    if shared == epoch or (shared < 0 and epoch in (-shared, -shared - 1)):
        return None
    return _left_behind(shared, epoch)


def _left_behind(shared: int, epoch: int) -> str:
    newest = abs(shared)
    if newest < epoch:
        return (
            f"the lock manager has epoch {newest} of this node, and the data here is of epoch {epoch}:"
            " it is another lock manager, or has lost its data; with the right one configured this broker goes on,"
            " and without the file node.state its data becomes a new node"
        )
    return f"the data here is of epoch {epoch}, and there has been epoch {newest}: another copy is newer"
