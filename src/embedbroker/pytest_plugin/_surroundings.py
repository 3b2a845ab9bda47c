"""Interfaces of what surrounds the brokers of a test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

from embedbroker import EmbeddedBroker

from ._carrier import Carrier
from ._disk import DiskSwitch
from ._ledger import GroupLedger
from ._link import Link
from ._network import Port
from ._waiting import Waiting

__all__ = ["Around", "Surroundings"]


class Around(Protocol):
    """The services that a test provides to all of its brokers."""

    waiting: Waiting
    random: Random
    is_over: bool
    carrier: Carrier | None

    def note(self, text: str) -> None:
        """Add a line to the trace."""

    def start_soon(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a task until the test is over."""


class Surroundings(Protocol):
    """The surroundings of one broker."""

    port: Port
    link: Link
    disk: DiskSwitch
    #: True for a broker of a pair that replicates.
    replicates: bool
    ledger: GroupLedger

    def make(self) -> EmbeddedBroker:
        """Return the broker, not started."""
