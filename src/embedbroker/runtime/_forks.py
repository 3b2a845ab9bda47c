"""Resources that a forked child must not use: the locks and the disks of its parent's brokers.

Responsible for ending them in the child, right after the fork. Never touches anything of the parent: an flock belongs
to the open file, which both have. The child's copy, left open, would keep it after the parent's death, and unlocking it
would unlock the parent.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["ends_in_child"]


class _EndsInChild(Protocol):
    def end_in_child(self) -> None:
        """Close without a wait: the threads that were at work in the parent do not exist here."""


_alive: weakref.WeakSet[_EndsInChild] = weakref.WeakSet()


def ends_in_child(thing: _EndsInChild) -> None:
    """End ``thing`` in every child that is forked while it is in use."""
    _alive.add(thing)


def _end_all() -> None:
    for thing in tuple(_alive):
        thing.end_in_child()
    _alive.clear()


os.register_at_fork(after_in_child=_end_all)
