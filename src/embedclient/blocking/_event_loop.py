"""The thread of one connection: it runs trio from its start until `end` or `abandon` is called.

Responsible for the start and the end of the thread, and for the rules by which it accepts work. Does not depend on its
users: an object that a thread refers to is never garbage, and a connection without references must not be kept alive by
its thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import outcome
import trio

from embedclient.errors import ConnectionClosedException, IllegalStateException, ResourceAllocationException
from embedclient.model import start_thread

CLOSED = "the connection is closed"
_FORKED = "a connection cannot be used after a fork, for its thread stays in the parent: open another one"


class EventLoop:
    """A thread that runs trio. Made with `EventLoop.start()`."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._start_failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="embedclient", daemon=True)
        self._process_id = os.getpid()
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None

    @classmethod
    def start(cls) -> EventLoop:
        """Start the thread.

        Raises:
            ResourceAllocationException: the system has no descriptors left for an event loop, or starts no thread.
        """
        loop = cls()
        start_thread(loop._thread.start, "a connection of a blocking program")
        try:
            loop._ready.wait()
        except BaseException:  # KeyboardInterrupt: no caller has the loop and could end its thread
            loop._ready.wait()
            if loop._start_failure is None:
                loop.end()
            raise
        failure = loop._start_failure
        if failure is not None:
            loop._thread.join()
        if isinstance(failure, OSError):
            raise ResourceAllocationException(f"no event loop for the connection: {failure.strerror}") from failure
        if failure is not None:
            raise failure
        return loop

    @property
    def nursery(self) -> trio.Nursery:
        """Return the nursery for the tasks of the thread."""
        assert self._nursery is not None
        return self._nursery

    @property
    def is_alive(self) -> bool:
        """Return True if the thread is running."""
        return self._thread.is_alive()

    @property
    def is_inherited(self) -> bool:
        """Return True if this process was forked after the thread's start: it then does not have the thread."""
        return os.getpid() != self._process_id

    def soon(self, work: Callable[[], object]) -> None:
        """Schedule a call of a function in the thread.

        Raises:
            ConnectionClosedException: the thread has ended.
            IllegalStateException: the caller is in that thread, or in a process that was forked from the thread's.
        """
        if self.is_inherited:
            raise IllegalStateException(_FORKED)
        if threading.current_thread() is self._thread:
            raise IllegalStateException("a blocking call cannot be made inside the event loop's thread")
        assert self._token is not None
        try:
            self._token.run_sync_soon(work)
        except trio.RunFinishedError as error:
            raise ConnectionClosedException(CLOSED) from error

    def end(self) -> None:
        """End the tasks and the thread, and wait for their end."""
        self.soon(self.nursery.cancel_scope.cancel)
        self._thread.join()

    def abandon(self) -> bool:
        """Request the end of the thread without waiting. Any thread may call this, also the loop's thread.

        Return True if the thread was running.
        """
        if sys.is_finalizing() or self.is_inherited or not self.is_alive:
            return False
        assert self._token is not None
        try:
            self._token.run_sync_soon(self.nursery.cancel_scope.cancel)
        except trio.RunFinishedError:
            return False
        return True

    def _run(self) -> None:
        result = outcome.capture(trio.run, self._serve)
        if self._ready.is_set():
            result.unwrap()  # threading reports an exception that no thread waits for
        elif isinstance(result, outcome.Error):
            self._start_failure = result.error
            self._ready.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as self._nursery:
            self._ready.set()
            await trio.sleep_forever()
