"""Load-balancing policies: which of several connectors comes next (core-protocol 10.3).

Responsible for the four policies of Artemis. A policy is any callable that gets the number of connectors and returns an
index. It must not depend on the connectors themselves.
"""

from collections.abc import Callable

from embedclient.model import Entropy, summary

LoadBalancingPolicy = Callable[[int], int]


class RoundRobinPolicy:
    """Start at a random connector, then take them in turn.

    Args:
        entropy: an object with ``random()``, such as ``random.Random(seed)``.
    """

    __slots__ = ("_entropy", "_position")

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._position: int | None = None

    def __repr__(self) -> str:
        return summary(self, f"at {self._position}" if self._position is not None else None)

    def __call__(self, count: int) -> int:
        if self._position is None:
            self._position = int(self._entropy.random() * count)
        else:
            self._position += 1
        # The list may have shrunk since the last choice.
        self._position %= count
        return self._position


class RandomPolicy:
    """Take any connector each time.

    Args:
        entropy: an object with ``random()``, such as ``random.Random(seed)``.
    """

    __slots__ = ("_entropy",)

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def __repr__(self) -> str:
        return summary(self)

    def __call__(self, count: int) -> int:
        return int(self._entropy.random() * count)


class RandomStickyPolicy:
    """Take any connector at first and the same one ever after.

    Args:
        entropy: an object with ``random()``, such as ``random.Random(seed)``.
    """

    __slots__ = ("_chosen", "_entropy")

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._chosen: int | None = None

    def __repr__(self) -> str:
        return summary(self, f"at {self._chosen}" if self._chosen is not None else None)

    def __call__(self, count: int) -> int:
        if self._chosen is None:
            self._chosen = int(self._entropy.random() * count)
        return self._chosen % count


class FirstElementPolicy:
    """Always take the first connector."""

    __slots__ = ()

    def __repr__(self) -> str:
        return summary(self)

    def __call__(self, count: int) -> int:
        assert count > 0
        return 0
