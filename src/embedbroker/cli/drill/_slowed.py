"""`embedbroker` in a process whose disk can be made slow: after SIGUSR1 each sync takes longer, after SIGUSR2 not.

Responsible for this process alone, between Python and the operating system; the broker in it does not depend on that.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from .. import main

__all__: list[str] = []

#: Additional time of a sync, seconds: a disk that is shared with others and busy.
DELAY_S = 0.1
_delay_s = 0.0


def _make_slow(number: int, _: object) -> None:
    global _delay_s
    _delay_s = DELAY_S if number == signal.SIGUSR1 else 0.0


def _slowed(sync: Callable[[int], None]) -> Callable[[int], None]:
    def slow_sync(descriptor: int) -> None:
        if _delay_s:
            time.sleep(_delay_s)
        sync(descriptor)

    return slow_sync


if __name__ == "__main__":
    os.fdatasync, os.fsync = _slowed(os.fdatasync), _slowed(os.fsync)  # type: ignore[assignment]  # by position only
    for each in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, _make_slow)
    main()
