"""A request and its outcome, without threads, tasks or callbacks that run at a bad moment.

Responsible for `Call`, for the queue of callbacks that are due, and for running a sequence of calls written as a
generator. Does not depend on packets, sessions or time.

Two kinds of followers wait for a call. Sequences inside the agent continue at once, in the middle of the step that
completed their call. The edge's `on_done` runs when the step is over, because it may make further requests.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import Final, Generic, TypeVar

from embedclient.errors import ErrorCode, JMSException

T = TypeVar("T")

CONNECTION_ERRORS: Final = frozenset(
    (
        ErrorCode.NOT_CONNECTED,
        ErrorCode.CONNECTION_TIMEDOUT,
        ErrorCode.DISCONNECTED,
        ErrorCode.UNBLOCKED,
        ErrorCode.OBJECT_CLOSED,
    )
)
"""Codes of calls that ended because the connection or the session did, not by an error of the broker."""

Continuation = Callable[[], None]
Steps = Generator[Callable[[Continuation], None], None, T]
"""A sequence of calls: a generator that uses `yield from wait(call)` and returns the result of the whole."""


class DueCallbacks:
    """Callbacks of the edge that wait for the end of the step."""

    __slots__ = ("_due", "_on_first")

    def __init__(self, on_first: Continuation | None = None) -> None:
        self._due: deque[Continuation] = deque()
        self._on_first = on_first

    def __bool__(self) -> bool:
        return bool(self._due)

    def add(self, callback: Continuation) -> None:
        if not self._due and self._on_first is not None:
            self._on_first()
        self._due.append(callback)

    def run(self) -> None:
        """Run the callbacks that are due, and those that become due meanwhile."""
        due = self._due
        while due:
            due.popleft()()


class Call(Generic[T]):
    """The outcome of a request, now or later.

    When `done`, either `error` is set or `result` holds the value. `on_done` is set by the edge and fires once, at the
    end of the step that completes the call; it never fires for a call that is done already.

    `sent` is True once the request has left. A request that failed and was not sent has had no effect.
    """

    __slots__ = ("_due", "_followers", "_result", "_withdraw", "done", "error", "on_done", "sent")

    def __init__(self, due: DueCallbacks | None) -> None:
        self.done = False
        self.sent = False
        self.error: JMSException | None = None
        self.on_done: Callable[[Call[T]], None] | None = None
        self._result: T | None = None
        self._due = due
        self._followers: list[Continuation] | None = None
        self._withdraw: Callable[[], bool] | None = None

    @property
    def result(self) -> T:
        """Return the value of the request; only when done without error."""
        assert self.done
        assert self.error is None
        return self._result  # type: ignore[return-value]  # None is a T whenever it is the result

    def value(self) -> T:
        """Return the result of a call that is done. Raise its error."""
        if self.error is not None:
            raise self.error
        return self.result

    def cancel(self) -> bool:
        """Withdraw a request that has not left yet. Return True if nothing was and nothing will be sent."""
        if self.done or self._withdraw is None or not self._withdraw():
            return False
        self.on_done = None
        self.fail(JMSException("the request was withdrawn"))
        # Every other end has cleared this.
        self._withdraw = _was_withdrawn
        return True

    @property
    def withdrawn(self) -> bool:
        """Return True if `cancel` took the call back: then it is done with an error, and nothing was sent."""
        return self._withdraw is _was_withdrawn

    def withdraw_with(self, withdraw: Callable[[], bool] | None) -> None:
        """Set how the request can be taken back while it waits; None once it has left."""
        self._withdraw = withdraw

    def when_done(self, continuation: Continuation) -> None:
        """Run `continuation` at once or as soon as the call is done (inside the agent only)."""
        if self.done:
            continuation()
        elif self._followers is None:
            self._followers = [continuation]
        else:
            self._followers.append(continuation)

    def succeed(self, result: T) -> None:
        if not self.done:
            self._result = result
            self._finish()

    def fail(self, error: JMSException) -> None:
        if not self.done:
            self.error = error
            self._finish()

    def _finish(self) -> None:
        self.done = True
        self._withdraw = None
        followers, self._followers = self._followers, None
        if followers is not None:
            for follower in followers:
                follower()
        if self.on_done is not None:
            assert self._due is not None
            self._due.add(self._notify)

    def _notify(self) -> None:
        on_done, self.on_done = self.on_done, None
        if on_done is not None:
            on_done(self)


def _was_withdrawn() -> bool:
    return False


def done_call(result: T) -> Call[T]:
    call: Call[T] = Call(None)
    call.succeed(result)
    return call


def failed_call(error: JMSException) -> "Call[T]":
    call: Call[T] = Call(None)
    call.fail(error)
    return call


DONE: Final[Call[None]] = done_call(None)
"""Shared by every request that needs no answer."""


def wait(call: Call[T]) -> Steps[T]:
    """Wait for one call inside a sequence. Return its result or raise its error."""
    if not call.done:
        yield call.when_done
    return call.value()


def settled(call: Call[T]) -> Steps[JMSException | None]:
    """Wait for one call inside a sequence. Return its error, None when it succeeded."""
    if not call.done:
        yield call.when_done
    return call.error


def run_sequence(steps: Steps[T], due: DueCallbacks) -> Call[T]:
    """Run a sequence as far as it goes. Return the call for its outcome."""
    outcome: Call[T] = Call(due)

    def advance() -> None:
        try:
            subscribe = next(steps)
        except StopIteration as stop:
            outcome.succeed(stop.value)
        except JMSException as error:
            outcome.fail(error)
        else:
            subscribe(advance)

    advance()
    return outcome
