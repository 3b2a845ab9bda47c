"""Discovery of other brokers by groups, and the announcements of this one (cluster-and-ha 6).

Responsible for the groups of the configuration in each role, for the places at which others announce themselves, and
for the lines of the log. Does not depend on sockets, and on what the finders of a place do there.

A backup listens, because it needs its live broker, and announces nothing. So it must not leave out the node id that it
shares with that broker. An active broker leaves out its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, TypeAlias

from embedbroker.config import BroadcastGroup, BrokerConfig, DiscoveryGroup, Role
from embedbroker.kernel import LineBudget
from embedclient.engine import JoinGroup, LeaveGroup, SendDatagram
from embedclient.engine import core as engine
from embedclient.errors import LocalProtocolError, RemoteProtocolError
from embedclient.model import Instant, TransportConfiguration, describe_name

from ._control_link import where
from ._membership import own_connector

__all__ = ["Discovery", "DiscoveryLog"]

# Pause before a group is joined again, in seconds: its network interface may come up.
_JOIN_AGAIN_S = 5.0

_Order: TypeAlias = JoinGroup | SendDatagram | LeaveGroup


class DiscoveryLog(Protocol):
    """Receive lines for the operator."""

    def info(self, text: str) -> None:
        """Write a line about what is normal."""

    def warning(self, text: str) -> None:
        """Write a line about what needs attention."""


class Discovery:
    """The groups of one node. `follow` must be called in each step that may change the role.

    Args:
        config: The configuration, with broadcast groups and discovery groups.
        make_id: Returns a new random text.
        log: Receives lines for the operator.
    """

    def __init__(self, config: BrokerConfig, make_id: Callable[[], str], log: DiscoveryLog) -> None:
        #: Called with the name of a discovery group when its places changed.
        self.on_change: Callable[[str], None] = lambda name: None
        self._config = config
        self._make_id = make_id
        self._log = log
        self._orders: list[_Order] = []
        self._listeners = {
            listener.endpoint: listener
            for group in config.discovery_groups
            for listener in [_Listener(group, self._orders, log)]
        }
        #: What management has switched, for the next step.
        self.active: dict[object, None] = {}
        self._announcers = {
            announcer.endpoint: announcer
            for group in config.broadcast_groups
            for announcer in [Announcer(group, _connectors(config, group), self._orders, self.active, log)]
        }
        self._role = Role.STOPPED

    @property
    def broadcast_groups(self) -> dict[str, Announcer]:
        """Return the broadcast groups by name."""
        return {announcer.settings.name: announcer for announcer in self._announcers.values()}

    def places(self, name: str) -> list[TransportConfiguration]:
        """Return where other brokers announce themselves to a discovery group, one connector per place."""
        return [place for each in self._listeners.values() if each.name == name for place in each.places]

    def follow(self, role: Role, node_id: str, now: Instant) -> None:
        """Listen as a live broker or a backup, and announce this broker while it is live."""
        if role is self._role:
            return
        self._role = role
        is_live, listens = role is Role.LIVE, role in (Role.LIVE, Role.BACKUP)
        unique_id = self._make_id() if is_live and self._announcers else None
        for announcer in self._announcers.values():
            announcer.leave()
            if unique_id is not None:
                announcer.become_live(node_id, unique_id)
        for listener in self._listeners.values():
            listener.identify(node_id if is_live else None, unique_id)
            if listens:
                listener.begin(now)
            else:
                listener.end()
            self._report_changes(listener)

    # -- inputs --------------------------------------------------------------------------------------------------

    def on_datagram(self, endpoint: str, data: bytes, now: Instant) -> None:
        """Handle a datagram of a group."""
        listener = self._listeners.get(endpoint)
        if listener is not None and listener.is_joined:
            listener.on_datagram(data, now)
            self._report_changes(listener)

    def on_failed(self, endpoint: str, reason: str, now: Instant) -> None:
        """Handle that a group cannot be joined or sent to: it is tried again."""
        part: _Listener | Announcer | None = self._listeners.get(endpoint) or self._announcers.get(endpoint)
        if part is not None:
            part.on_failed(reason, now)

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds; None if it never is."""
        parts: list[_Listener | Announcer] = [*self._listeners.values(), *self._announcers.values()]
        return min([due for part in parts if (due := part.next_deadline()) is not None], default=None)

    def on_time(self, now: Instant) -> None:
        """Announce this broker, remove silent ones, and join groups again, as far as this is due."""
        for announcer in self._announcers.values():
            announcer.on_time(now)
        for listener in self._listeners.values():
            listener.on_time(now)
            self._report_changes(listener)

    def take_orders(self) -> list[_Order]:
        """Return what the host must do, in order."""
        orders = list(self._orders)
        self._orders.clear()
        return orders

    def _report_changes(self, listener: _Listener) -> None:
        if listener.take_change():
            self.on_change(listener.name)


class _Listener:
    """One discovery group: the brokers that announce themselves there."""

    def __init__(self, group: DiscoveryGroup, orders: list[_Order], log: DiscoveryLog) -> None:
        self.name = group.name
        self.endpoint = f"discovery group {describe_name(group.name)!r}"
        self.places: list[TransportConfiguration] = []
        self.is_joined = False
        self._group = group
        self._orders = orders
        self._log = log
        self._state = engine.DiscoveryGroup(refresh_timeout_ms=group.refresh_timeout_ms)
        self._has_changed = False
        # When to join again, and when to warn that no broker is there.
        self._joins_at: float | None = None
        self._warns_at: float | None = None
        self._failure = ""
        self._has_seen_unusable = False
        # Datagrams need no password, and each may bring a change.
        self._budget = LineBudget(
            log.warning,
            f"{self.endpoint}: more brokers announce themselves at {group.group} than belong there, or one that sends"
            " something else; use another group",
        )
        # Where `places` lead.
        self._destinations: set[Hashable] = set()

    def identify(self, own_node_id: str | None, own_unique_id: str | None) -> None:
        """Leave out the datagrams of this broker from now on; None: it sends none."""
        self._state.own_node_id, self._state.own_unique_id = own_node_id, own_unique_id
        self._compare()

    def begin(self, now: Instant) -> None:
        """Join the group, unless it is joined."""
        if not self.is_joined and self._joins_at is None:
            self._join(now)

    def end(self) -> None:
        """Leave the group, and forget what was found there."""
        if self.is_joined:
            self._orders.append(LeaveGroup(self.endpoint))
        self.is_joined = False
        self._joins_at = self._warns_at = None
        self._state = engine.DiscoveryGroup(refresh_timeout_ms=self._group.refresh_timeout_ms)
        self._compare()

    def _join(self, now: Instant) -> None:
        self._joins_at = None
        if not self.places:
            self._warns_at = now.monotonic + self._group.initial_wait_timeout_ms / 1000
        self.is_joined = True
        self._state.on_rejoined()
        self._orders.append(JoinGroup(self.endpoint, self._group.group))

    def on_failed(self, reason: str, now: Instant) -> None:
        if not self.is_joined:
            return
        self.is_joined = False
        self._joins_at, self._warns_at = now.monotonic + _JOIN_AGAIN_S, None
        if reason != self._failure:
            self._failure = reason
            self._log.warning(f"{self.endpoint}: {reason}; it is tried again every {_JOIN_AGAIN_S:g} s")

    def on_datagram(self, data: bytes, now: Instant) -> None:
        self._failure = ""
        try:
            changes = self._state.on_datagram(data, now.monotonic)
        except RemoteProtocolError as error:
            if not self._has_seen_unusable:
                self._has_seen_unusable = True
                self._log.warning(f"{self.endpoint}: a datagram at {self._group.group} is ignored: {error}")
            return
        self._apply(changes, now)

    def next_deadline(self) -> float | None:
        dues = (self._joins_at, self._warns_at, self._state.next_deadline())
        return min([due for due in dues if due is not None], default=None)

    def on_time(self, now: Instant) -> None:
        if self._joins_at is not None and now.monotonic >= self._joins_at:
            self._join(now)
        if self._warns_at is not None and now.monotonic >= self._warns_at:
            self._warns_at = None
            seconds = self._group.initial_wait_timeout_ms / 1000
            advice = "this address and port, and local-bind-address must name a network interface on which it sends"
            if self._group.shared_directory is not None:
                advice = "this directory and channel"
            elif self._group.hosts:
                advice = "this channel and one of these ports as its listen_port"
            self._log.warning(
                f"{self.endpoint}: no other broker has announced itself at {self._group.group} within {seconds:g} s;"
                f" another broker must have a broadcast-group with {advice}. This broker goes on listening"
            )
        self._apply(self._state.on_time(now.monotonic), now)

    def _apply(self, changes: Iterable[engine.DiscoveryChange], now: Instant) -> None:
        has_changed = False
        for change in changes:
            match change:
                case engine.EntryAdded(entry):
                    self._warns_at = None
                    self._report(self._log.info, f"found {_text_of(entry)}", now)
                case engine.EntryReplaced(entry):
                    self._report(self._log.info, f"{_text_of(entry)} announces itself anew", now)
                case engine.EntryExpired(entry):
                    self._report(self._log.info, f"{_text_of(entry)} is silent", now)
                case engine.NodeIdShared(node_id):
                    text = (
                        f"two brokers announce themselves with node id {describe_name(node_id)}: the data directory of"
                        " one is a copy of the other's; stop the one whose data you do not need, and start it with an"
                        " empty directory"
                    )
                    self._report(self._log.warning, text, now)
            has_changed |= not isinstance(change, engine.NodeIdShared)
        if has_changed:
            self._compare()

    def _report(self, log: Callable[[str], None], text: str, now: Instant) -> None:
        """Write a line about another broker, unless there were too many within this minute."""
        if self._budget.takes_line(now.monotonic):
            log(f"{self.endpoint}: {text}")

    def _compare(self) -> None:
        """Update the places: one connector per place, although the broker there may have another node id now."""
        # Looked up and not compared one by one: datagrams need no password, and each may change the list.
        places: dict[Hashable, TransportConfiguration] = {}
        for entry in self._state.entries:
            if entry.node_id != self._state.own_node_id:
                places.setdefault(entry.connector.destination, entry.connector)
        if places.keys() != self._destinations:
            self._destinations = set(places)
            self.places = list(places.values())
            self._has_changed = True

    def take_change(self) -> bool:
        """Return True if the places changed since the last call."""
        has_changed, self._has_changed = self._has_changed, False
        return has_changed


class Announcer:
    """One broadcast group: the datagrams of this broker."""

    def __init__(
        self,
        group: BroadcastGroup,
        connectors: list[TransportConfiguration],
        orders: list[_Order],
        active: dict[object, None],
        log: DiscoveryLog,
    ) -> None:
        self.settings = group
        self.endpoint = f"broadcast group {describe_name(group.name)!r}"
        self._connectors = connectors
        self._orders = orders
        self._active = active
        self._log = log
        self._schedule: engine.BroadcastGroup | None = None
        self._failure = ""
        # Node id and unique id while the broker is live.
        self._identity: tuple[str, str] | None = None

    @property
    def connectors(self) -> list[str]:
        """Return the names of the connectors that it announces."""
        return [connector.name for connector in self._connectors]

    @property
    def is_started(self) -> bool:
        """Return True if it announces this broker."""
        return self._schedule is not None

    def become_live(self, node_id: str, unique_id: str) -> None:
        """Announce this broker from now on."""
        self._identity = (node_id, unique_id)
        self.start()

    def leave(self) -> None:
        """Announce nothing, because the broker is not live."""
        self._identity = None
        self.stop()

    def start(self) -> bool:
        """Announce this broker; return False if it does so already, or is not live."""
        if self._identity is None or self._schedule is not None:
            return False
        try:
            schedule = engine.BroadcastGroup(
                *self._identity, self._connectors, period_ms=self.settings.broadcast_period_ms
            )
        except LocalProtocolError as error:
            self._log.warning(f"{self.endpoint}: this broker is not announced: {error}")
            return False
        # At once.
        schedule.start(0.0)
        self._schedule = schedule
        self._active[self] = None
        return True

    def stop(self) -> bool:
        """Announce this broker no more; return False if it is not announced."""
        if self._schedule is None:
            return False
        self._schedule = None
        self._orders.append(LeaveGroup(self.endpoint))
        self._active[self] = None
        return True

    def on_failed(self, reason: str, now: Instant) -> None:
        """Note a failure: the next datagram is the next attempt."""
        if self._schedule is not None and reason != self._failure:
            self._failure = reason
            self._log.warning(f"{self.endpoint}: {reason}; it is tried again with each datagram")

    def next_deadline(self) -> float | None:
        return None if self._schedule is None else self._schedule.next_deadline()

    def on_time(self, now: Instant) -> None:
        data = None if self._schedule is None else self._schedule.on_time(now.monotonic)
        if data is not None:
            self._orders.append(SendDatagram(self.endpoint, self.settings.group, data))


def _text_of(entry: engine.DiscoveryEntry) -> str:
    return f"node {describe_name(entry.node_id)} at {where(entry.connector)}"


def _connectors(config: BrokerConfig, group: BroadcastGroup) -> list[TransportConfiguration]:
    if group.connectors:
        return [config.connectors[name] for name in group.connectors]
    return [own_connector(config, config.cluster_connection)]
