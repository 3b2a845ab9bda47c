"""Discovery by datagrams: which brokers of a multicast group are there, and when a broker announces itself to it.

Responsible for entries by node id, their time-out, and the schedule of a broker's own datagram (cluster-and-ha 6).
Does not depend on sockets or clocks: the owner moves the datagrams, and names the time in monotonic seconds.

Two differences from Artemis. An entry expires at its time, and not at the next datagram, so the last node that goes
silent leaves too. A new unique id is a restart, and no warning; the return of the replaced one is the warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from attrs import define, frozen

from ...errors import RemoteProtocolError
from ...model import TransportConfiguration
from ...wire.core import DiscoveryDatagram, decode_discovery_datagram, encode_discovery_datagram

__all__ = [
    "BroadcastGroup",
    "DiscoveryChange",
    "DiscoveryEntry",
    "DiscoveryGroup",
    "EntryAdded",
    "EntryExpired",
    "EntryReplaced",
    "NodeIdShared",
    "announced_entry",
]

# A sender of datagrams needs no password: their number must not take the memory of a receiver.
_ENTRIES_MAX: Final = 200
_ENTRY_PARAMETERS_MAX: Final = 200
_ENTRY_CHARACTERS_MAX: Final = 8_192
# One datagram of an earlier start may have been on its way, or left in a shared directory; a second one shows that its
# broker still runs.
_SIGHTINGS_OF_A_RUNNING_ONE: Final = 2
# Starts with the node id of this broker whose sightings are counted.
_OWN_STARTS_MAX: Final = 200


@frozen
class DiscoveryEntry:
    """A broker that announces itself. ``unique_id`` is new for each start of its broadcast group."""

    node_id: str
    unique_id: str
    connector: TransportConfiguration


@frozen
class EntryAdded:
    """A node that has no entry announced itself."""

    entry: DiscoveryEntry


@frozen
class EntryReplaced:
    """A node announced itself with another unique id or another connector."""

    entry: DiscoveryEntry
    previous: DiscoveryEntry


@frozen
class EntryExpired:
    """A node was silent for the refresh time-out."""

    entry: DiscoveryEntry


@frozen
class NodeIdShared:
    """Two brokers announce themselves with one node id. A directory that was copied is the usual cause."""

    node_id: str


DiscoveryChange: TypeAlias = EntryAdded | EntryReplaced | EntryExpired | NodeIdShared


@define(eq=False)
class _Node:
    """What is known of one node."""

    entry: DiscoveryEntry
    expires_at: float
    replaced_unique_id: str | None = None
    returns: int = 0


class DiscoveryGroup:
    """The brokers that announce themselves to one multicast group.

    Args:
        refresh_timeout_ms: Milliseconds without a datagram after which the entry of a node expires.
    """

    def __init__(self, *, refresh_timeout_ms: int = 10_000) -> None:
        #: Node id of this broker, whose datagrams are not entries; None for a client.
        self.own_node_id: str | None = None
        #: Unique id of the broadcast group of this broker; None while it broadcasts nothing.
        self.own_unique_id: str | None = None
        self._refresh_timeout = refresh_timeout_ms / 1000
        # The node that was silent longest comes first: each datagram moves its node to the end.
        self._nodes: dict[str, _Node] = {}
        # How often other starts with the node id of this broker were seen, by unique id.
        self._own_sightings: dict[str, int] = {}

    @property
    def entries(self) -> list[DiscoveryEntry]:
        """Return one entry per node."""
        return [node.entry for node in self._nodes.values()]

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due; None without entries."""
        for node in self._nodes.values():
            return node.expires_at
        return None

    def on_time(self, now: float) -> list[DiscoveryChange]:
        """Return the entries that expire at the time ``now`` or before."""
        changes: list[DiscoveryChange] = []
        while self._nodes:
            node_id, node = next(iter(self._nodes.items()))
            if node.expires_at > now:
                break
            del self._nodes[node_id]
            changes.append(EntryExpired(node.entry))
        return changes

    def on_rejoined(self) -> None:
        """Forget how often earlier starts were seen: what crashed ones left in a shared directory comes once more."""
        self._own_sightings.clear()
        for node in self._nodes.values():
            node.returns = 0

    def on_datagram(self, data: bytes, now: float) -> list[DiscoveryChange]:
        """Handle a datagram, and return what it and the time changed.

        Of several connectors the last one counts. A datagram without connectors changes no entry. A new node replaces
        the one that was silent longest if there are too many.

        Raises:
            RemoteProtocolError: the bytes are not a datagram of a broker, or its texts are too long; nothing changed.
        """
        datagram = decode_discovery_datagram(data)
        _check_size(datagram)
        if datagram.node_id == self.own_node_id:
            changes = self._check_own(datagram)
        elif datagram.connectors:
            changes = self._take(_entry(datagram), now)
        else:
            changes = []
        return changes + self.on_time(now)

    def _take(self, entry: DiscoveryEntry, now: float) -> list[DiscoveryChange]:
        expires_at = now + self._refresh_timeout
        node = self._nodes.get(entry.node_id)
        if node is None:
            changes: list[DiscoveryChange] = []
            if len(self._nodes) >= _ENTRIES_MAX:
                # Refused instead, a broker would stay unseen for as long as forged datagrams fill the table.
                changes.append(EntryExpired(self._nodes.pop(next(iter(self._nodes))).entry))
            self._nodes[entry.node_id] = _Node(entry, expires_at)
            return [*changes, EntryAdded(entry)]
        if entry.unique_id == node.replaced_unique_id:
            node.returns += 1
            return [NodeIdShared(entry.node_id)] if node.returns == _SIGHTINGS_OF_A_RUNNING_ONE else []
        previous = node.entry
        node.entry = entry
        node.expires_at = expires_at
        self._nodes[entry.node_id] = self._nodes.pop(entry.node_id)
        if entry == previous:
            return []
        if entry.unique_id != previous.unique_id:
            node.replaced_unique_id = previous.unique_id
            node.returns = 0
        return [EntryReplaced(entry, previous)]

    def _check_own(self, datagram: DiscoveryDatagram) -> list[DiscoveryChange]:
        """Return a change if another broker uses the node id of this one. Each start of it is reported once."""
        unique_id = datagram.unique_id
        if self.own_unique_id in (None, unique_id):
            return []
        if unique_id not in self._own_sightings and len(self._own_sightings) >= _OWN_STARTS_MAX:
            self._own_sightings.clear()
        sightings = self._own_sightings[unique_id] = self._own_sightings.get(unique_id, 0) + 1
        return [NodeIdShared(datagram.node_id)] if sightings == _SIGHTINGS_OF_A_RUNNING_ONE else []


def announced_entry(data: bytes) -> DiscoveryEntry | None:
    """Return what a datagram announces; None if it has no connector.

    Raises:
        RemoteProtocolError: the bytes are not a datagram of a broker, or its texts are too long.
    """
    datagram = decode_discovery_datagram(data)
    _check_size(datagram)
    return _entry(datagram) if datagram.connectors else None


def _entry(datagram: DiscoveryDatagram) -> DiscoveryEntry:
    return DiscoveryEntry(datagram.node_id, datagram.unique_id, datagram.connectors[-1].without_local_address)


def _check_size(datagram: DiscoveryDatagram) -> None:
    """Raise RemoteProtocolError for a datagram with more than an entry may hold."""
    characters = len(datagram.node_id) + len(datagram.unique_id)
    parameters = 0
    for connector in datagram.connectors[-1:]:
        characters += len(connector.name) + len(connector.factory)
        for values in (connector.parameters, connector.extra):
            parameters += len(values)
            texts = [*values, *[value for value in values.values() if isinstance(value, str)]]
            characters += sum(map(len, texts))
    if characters > _ENTRY_CHARACTERS_MAX or parameters > _ENTRY_PARAMETERS_MAX:
        raise RemoteProtocolError(
            f"a datagram has {parameters} parameters and {characters} characters; a broker's entry holds at most "
            f"{_ENTRY_PARAMETERS_MAX} parameters and {_ENTRY_CHARACTERS_MAX} characters"
        )


class BroadcastGroup:
    """The schedule on which a broker announces its connectors. The first datagram is due at the start.

    Parameters of private keys are not sent.

    Args:
        node_id: Node id of the broker.
        unique_id: A random text, new for each start.
        connectors: The announced connectors. Artemis uses the last one.
        period_ms: Milliseconds from one datagram to the next.

    Raises:
        LocalProtocolError: the connectors do not fit into one datagram.
    """

    def __init__(
        self, node_id: str, unique_id: str, connectors: Sequence[TransportConfiguration], *, period_ms: int = 2_000
    ) -> None:
        announced = tuple([connector.announced for connector in connectors])
        self._datagram = encode_discovery_datagram(DiscoveryDatagram(node_id, unique_id, announced))
        self._period = period_ms / 1000
        self._next: float | None = None

    def start(self, now: float) -> None:
        """Make the first datagram due."""
        self._next = now

    def stop(self) -> None:
        """Send nothing any more. No datagram ends an announcement: receivers notice the silence."""
        self._next = None

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due; None if the group is not started."""
        return self._next

    def on_time(self, now: float) -> bytes | None:
        """Return the datagram to send if it is due, else None. Missed datagrams are not sent later."""
        if self._next is None or self._next > now:
            return None
        self._next = now + self._period
        return self._datagram
