"""The deadline of a plain test: the thread in which it waits is interrupted, and raises the reason itself.

Responsible for interrupting one thread once it is late. Does not depend on what the thread waits for: a call of a
blocking client, an event, or a loop that goes on for ever.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

__all__ = ["Deadline", "can_interrupt"]

# No other program uses it, and a process that does not handle it is not ended by it. SIGALRM belongs to pytest-timeout.
_SIGNAL = getattr(signal, "SIGURG", None)


def can_interrupt() -> bool:
    """Return True if this thread can be interrupted.

    Python handles signals in its main thread, if the system has any.
    """
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and _SIGNAL is not None and hasattr(signal, "pthread_kill")


class Deadline:
    """Raise ``reason()`` in a block, wherever it is after ``seconds``, and again each time as much has passed.

    Again, because the exception may have been caught, or code that it passes on its way out may wait, too.
    """

    def __init__(self, seconds: float, reason: Callable[[], Exception]) -> None:
        self._seconds = seconds
        self._reason = reason
        self._late: Exception | None = None
        self._thread_id = threading.get_ident()
        self._begun = False
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._watch_it, name="embedbroker deadline", daemon=True)

    def begin(self) -> None:
        """Count from now on, in the main thread, which is the one to be interrupted."""
        assert _SIGNAL is not None and can_interrupt()
        self._begun = True
        self._previous = signal.signal(_SIGNAL, self._interrupt)
        self._watch.start()

    def end(self) -> None:
        """Raise nothing any more. A deadline that has not begun may be ended, too."""
        if not self._begun:
            return
        assert _SIGNAL is not None
        self._over.set()
        self._watch.join()
        # What was sent before is handled in here, and finds that it is over.
        signal.signal(_SIGNAL, self._previous if self._previous is not None else signal.SIG_DFL)

    def _watch_it(self) -> None:
        assert _SIGNAL is not None
        while not self._over.wait(self._seconds):
            self._late = self._reason()
            signal.pthread_kill(self._thread_id, _SIGNAL)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        late, self._late = self._late, None
        if late is not None and not self._over.is_set():
            raise late
