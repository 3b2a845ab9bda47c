"""The garbage collector while a test runs in virtual time: it looks for garbage seldom.

Brokers that start make tens of thousands of objects, and nearly all of them live until the test ends. With Python's own
threshold the collector would look at each of them several times, which takes a tenth of the test.
"""

from __future__ import annotations

import gc
from threading import Lock
from typing import ClassVar

__all__ = ["CollectedSeldom"]

# A collection then finds what a test makes in 50 ms, which takes less than 20 MiB.
_YOUNG_OBJECTS = 50_000


class CollectedSeldom:
    """Context manager that raises the threshold of the youngest generation.

    The threshold of before returns with the exit, unless the test has set another one. Tests may overlap in threads:
    then the last exit counts. A threshold that is higher, or off, is not changed.
    """

    _lock = Lock()
    _entered: ClassVar[set[CollectedSeldom]] = set()
    _before: tuple[int, int, int] | None = None
    _raised: tuple[int, int, int] | None = None

    def __enter__(self) -> None:
        try:
            self._enter()
        except BaseException:  # Ctrl-C may come between any two steps
            self.__exit__()
            raise

    def _enter(self) -> None:
        kind = CollectedSeldom
        with kind._lock:
            before = gc.get_threshold()
            if not kind._entered and 0 < before[0] < _YOUNG_OBJECTS:
                kind._before, kind._raised = before, (_YOUNG_OBJECTS, *before[1:])
                gc.set_threshold(*kind._raised)
            kind._entered.add(self)

    def __exit__(self, *_error: object) -> None:
        kind = CollectedSeldom
        with kind._lock:
            kind._entered.discard(self)
            if not kind._entered and kind._before is not None:
                if gc.get_threshold() == kind._raised:
                    gc.set_threshold(*kind._before)
                kind._before = kind._raised = None
