"""Chance for everything below that may not draw any itself. Refuses to know what it is used for."""

from __future__ import annotations

import os
import random


class SystemEntropy:
    """Chance from the operating system, through a generator of this process."""

    def __init__(self) -> None:
        self._generator = random.Random(os.urandom(16))

    def random_bytes(self, count: int) -> bytes:
        return self._generator.randbytes(count)

    def random(self) -> float:
        return self._generator.random()
