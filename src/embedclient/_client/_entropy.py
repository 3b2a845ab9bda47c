"""Randomness for the layers below, which must not generate any. Does not depend on its use."""

from __future__ import annotations

import os
import random


class SystemEntropy:
    """Randomness from the operating system, through a generator of this process."""

    def __init__(self) -> None:
        self._generator = random.Random(os.urandom(16))

    def random_bytes(self, count: int) -> bytes:
        return self._generator.randbytes(count)

    def random(self) -> float:
        return self._generator.random()
