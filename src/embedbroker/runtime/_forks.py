"""What a forked child may not go on with: the locks and the disks of its parent's brokers.

Responsible for ending them in the child, right after the fork. Refuses to touch anything of the parent: an flock
belongs to the open file, which both have. The child's copy, left open, would keep it after the parent's death, and
unlocking it would unlock the parent.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["ends_in_child"]


class _EndsInChild(Protocol):
    def end_in_child(self) -> None:
        """Be closed, without a wait: of the threads that were at work in the parent none is here."""


_alive: weakref.WeakSet[_EndsInChild] = weakref.WeakSet()


def ends_in_child(thing: _EndsInChild) -> None:
    """Have ``thing`` ended in every child that is forked while it is in use."""
    _alive.add(thing)


def _end_all() -> None:
    for thing in tuple(_alive):
        thing.end_in_child()
    _alive.clear()


os.register_at_fork(after_in_child=_end_all)
