"""The view that users and checkers have of a broker in a scenario: one host, or the member of a group with the journal.

It provides what can be observed. Does not depend on what starts, stops and damages brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from embedbroker.config import BrokerConfig
from embedbroker.node import Node
from embedbroker.storage import DiskWork, JournalSettings, Lane

from ._disk import SimulatedDisk

__all__ = ["BrokerView"]


class BrokerView(Protocol):
    """A broker, life after life. ``names`` are those that clients connect to."""

    settings: JournalSettings
    config: BrokerConfig
    life: int
    on_start: list[Callable[[], None]]
    after_step: list[Callable[[], None]]
    on_ready: list[Callable[[], None]]
    on_send: list[Callable[[int, str, bytes], None]]

    @property
    def disk(self) -> SimulatedDisk: ...

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def node(self) -> Node | None: ...

    @property
    def under_way(self) -> Mapping[Lane, DiskWork]: ...

    @property
    def notices(self) -> Sequence[str]: ...

    @property
    def ready(self) -> bool: ...

    @property
    def recovering(self) -> bool: ...

    @property
    def connections(self) -> int: ...

    def has_session(self, name: str) -> bool:
        """Return True if this life of the broker has a session of that name."""

    def start(self) -> None:
        """Begin the first life."""
