"""The plan of a scenario: which users appear with which settings, and which faults strike when, as plain values.

A seed is drawn into a plan by ``_draw``; a plan that was written down does not change when drawing changes. It holds
values and reads and writes them; it runs nothing.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import IntEnum
from typing import TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
from attrs import frozen

from embedbroker.storage import JournalSettings
from embedclient.agent import LocatorSettings

from .consumers import ConsumerPlan
from .fault_kinds import FaultKind
from .producers import ProducerPlan

__all__ = [
    "PRIMARY",
    "AdministratorRole",
    "BrokerPlan",
    "BrowserRole",
    "ConsumerRole",
    "DivertPlan",
    "FaultStrike",
    "GroupMode",
    "GroupPlan",
    "HostPlan",
    "ListenerRole",
    "ProducerRole",
    "QueuePlan",
    "ReaderRole",
    "ScenarioPlan",
    "TopicPlan",
    "VisitorRole",
    "plan_of",
    "values_of",
]

#: The name of the broker that is live first.
PRIMARY = "primary"


@frozen
class QueuePlan:
    """One queue or durable subscription. ``color`` is its filter."""

    name: str
    color: str | None = None
    exclusive: bool = False
    max_consumers: int = -1


@frozen
class TopicPlan:
    """One address. ``automatic``: its queue comes with the first user that wants it, and goes when none does."""

    address: str
    is_topic: bool
    queues: tuple[QueuePlan, ...]
    automatic: bool = False


@frozen
class DivertPlan:
    """One divert. ``color`` is its filter, and ``tag`` the value of the property ``via`` that it adds to copies.

    ``managed``: a management message creates it, so that only the journal has it; otherwise the configuration does.
    """

    name: str
    address: str
    forwarding: tuple[str, ...]
    exclusive: bool = False
    color: str | None = None
    tag: str | None = None
    managed: bool = False


@frozen
class HostPlan:
    """One client process."""

    name: str
    settings: LocatorSettings
    #: The mean pause in seconds before all sessions are stopped and started; 0 for never.
    stop_pause_s: float = 0.0


@frozen
class ProducerRole:
    """One producer. Hosts and topics are named by their places in the plan."""

    name: str
    host: int
    topics: tuple[int, ...]
    plan: ProducerPlan


@frozen
class ConsumerRole:
    """One consumer of a queue or durable subscription."""

    name: str
    host: int
    queue: str
    plan: ConsumerPlan


@frozen
class ListenerRole:
    """A subscriber whose subscription is not durable. Those with the same ``shared`` name share one."""

    name: str
    host: int
    topic: int
    color: str | None
    think_s: float
    leave_chance: float
    shared: str | None = None


@frozen
class BrowserRole:
    """A user that looks into queues, on its own host."""

    settings: LocatorSettings
    pause_s: float


@frozen
class ReaderRole:
    """A reader of one queue with a cursor, on its own host."""

    name: str
    queue: str
    settings: LocatorSettings
    lease_ms: int
    think_s: float


@frozen
class VisitorRole:
    """A user with few rights, on its own host."""

    name: str
    settings: LocatorSettings
    pause_s: float


@frozen
class AdministratorRole:
    """A user that changes queues by management messages, on its own host."""

    settings: LocatorSettings
    pause_s: float


@frozen
class BrokerPlan:
    """What differs between brokers. ``memory_limit_bytes`` None: more than the scenario needs.

    ``counts_first``: it persists delivery counts before it delivers. ``rebalances``: a consumer that joins ends the
    assignments of groups, and waits for the messages in flight. The first message of a group is marked. ``secured``:
    clients need permissions, which the configuration contains, or only the journal (``permissions_are_managed``).
    """

    max_delivery_attempts: int
    message_expiry_scan_period_ms: int
    output_high_water_bytes: int
    work_per_step_max: int
    memory_limit_bytes: int | None = None
    counts_first: bool = False
    redelivery_delay_ms: int = 0
    rebalances: bool = False
    secured: bool = False
    permissions_are_managed: bool = False
    #: A user has permissions that an administrator changes.
    has_clerk: bool = False


class GroupMode(IntEnum):
    """What the brokers of a group have in common: one directory, or copies of each other's.

    With copies, a lock manager decides which broker may be live, or the votes of other pairs do.
    """

    SHARED_STORE = 0
    REPLICATION = 1
    VOTES = 2


@frozen
class GroupPlan:
    """A primary and so many backups, with their policies."""

    backups: int
    primary_hands_over: bool = False
    backups_hand_over: bool = False
    allow_failback: bool = True
    restart_backups: bool = True
    mode: GroupMode = GroupMode.SHARED_STORE
    #: Of replication: how long a lease of the lock manager lasts; None: as long as its holder's process.
    lease_s: float | None = None
    #: Of replication: after so long a broker that was not taken as backup offers itself again.
    retry_ms: int = 2_000
    #: Of votes: how many pairs there are, and how many live brokers a vote counts; -1: as many as were seen.
    pairs: int = 1
    quorum_size: int = -1
    #: Of votes: whether the others are pairs that ask for votes, too; or they only answer, and have no backup.
    voters_ask: bool = True
    #: Of votes: how often a backup requests them, and how long it waits in between.
    vote_retries: int = 12
    vote_retry_ms: int = 5_000

    @property
    def names(self) -> tuple[str, ...]:
        """Of the primary and its backups."""
        return (PRIMARY, *(f"backup{number}" for number in range(1, self.backups + 1)))

    @property
    def voters(self) -> tuple[tuple[str, ...], ...]:
        """Of the other pairs: the broker that is live first, and its backup."""
        names = [f"voter{number}" for number in range(1, self.pairs)]
        return tuple([(name, f"{name}-backup") if self.voters_ask else (name,) for name in names])


@frozen
class FaultStrike:
    """One fault, so many seconds after the start of the work."""

    kind: FaultKind
    at_s: float


@frozen
class ScenarioPlan:
    """Everything that is decided before the first event. What is decided later is drawn from ``seed``."""

    seed: int
    latency_s: float
    split_chance: float
    broker: BrokerPlan
    journal: JournalSettings
    topics: tuple[TopicPlan, ...]
    hosts: tuple[HostPlan, ...]
    producers: tuple[ProducerRole, ...]
    consumers: tuple[ConsumerRole, ...]
    listeners: tuple[ListenerRole, ...]
    browser: BrowserRole | None
    faults: tuple[FaultStrike, ...]
    #: None: a single broker.
    group: GroupPlan | None = None
    #: The mean pause in seconds before an operator looks at prepared branches, and decides some; 0 for never.
    operator_pause_s: float = 0.0
    #: The readers of one queue in ranges, in turns.
    readers: tuple[ReaderRole, ...] = ()
    #: With diverts there are wildcard subscriptions, too.
    diverts: tuple[DivertPlan, ...] = ()
    #: Users that try what they must not do.
    visitors: tuple[VisitorRole, ...] = ()
    #: A user that changes queues, addresses and settings by management messages.
    administrator: AdministratorRole | None = None


_Value = TypeVar("_Value")


def values_of(plan: object) -> object:
    """A plan, or a part of one, as values of JSON. What has its default is left out."""
    if isinstance(plan, IntEnum):
        return plan.name
    if isinstance(plan, tuple):
        return [values_of(each) for each in plan]
    kind = type(plan)
    if attrs.has(kind):
        named = ((field, getattr(plan, field.name)) for field in attrs.fields(kind) if field.init)
        return {field.name: values_of(value) for field, value in named if value != field.default}
    return plan


def plan_of(kind: type[_Value], values: object) -> _Value:
    """The inverse of `values_of`. A name that the class does not have any more is an error."""
    read = _read(kind, values)
    assert isinstance(read, kind), f"{values!r} is no {kind.__name__}"
    return read


def _read(kind: object, values: object) -> object:
    if get_origin(kind) is tuple:
        assert isinstance(values, list), f"a list is expected, not {values!r}"
        return tuple(_read(get_args(kind)[0], each) for each in values)
    if get_origin(kind) in (Union, types.UnionType):
        present = [each for each in get_args(kind) if each is not types.NoneType]
        return None if values is None else _read(present[0], values)
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return kind[str(values)]
    if isinstance(kind, type) and attrs.has(kind):
        assert isinstance(values, Mapping), f"fields of {kind.__name__} are expected, not {values!r}"
        hints = get_type_hints(kind)
        return kind(**{name: _read(hints[name], value) for name, value in values.items()})
    return values
