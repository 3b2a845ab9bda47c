"""The groups by which brokers find each other without a list of places.

Responsible for the vocabulary of Artemis' ``broadcast-group`` and ``discovery-group`` elements and for their defaults.
Does not depend on datagrams, and on what a broker does with the places that it finds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from attrs import field, frozen

from embedclient import model
from embedclient.model import did_you_mean

from ._checks import as_path, named, optional, path, text, whole
from ._nested import listed

__all__ = ["BroadcastGroup", "DiscoveryGroup", "as_broadcast_groups", "as_discovery_groups", "check_discovery_group"]

_DEFAULT_PORT = 9876

G = TypeVar("G", "BroadcastGroup", "DiscoveryGroup")


def _as_hosts(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise TypeError(f"hosts must be a list such as ['a:7800', 'b:7800'], not {value!r}")
    return tuple(value)


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise TypeError(f"connectors must be a list of connector names, not {value!r}")
    for name in value:
        if not isinstance(name, str) or not name:
            raise TypeError(f"connectors must be a list of connector names, not of {name!r}")
    return tuple(dict.fromkeys(value))


@frozen
class BroadcastGroup:
    """Define where a live broker announces how it is reached: a multicast group, a shared directory, or a TCP port.

    Attributes:
        name: Name of the broadcast group.
        group_address: IPv4 multicast address, 224.0.0.0 to 239.255.255.255; None: there is another place.
        group_port: Port of the multicast group, 1 to 65,535.
        local_bind_address: Address or name of the network interface; None: the system chooses.
        local_bind_port: Port from which datagrams are sent; -1: a free one.
        broadcast_period_ms: Milliseconds from one datagram to the next.
        connectors: Names of the connectors that are announced; others use the last one. Empty: the connector of the
            cluster connection, or where the broker listens.
        shared_directory: Directory, used by all brokers of the group, in which each has a file with its announcement.
        channel: Subdirectory of the ``shared_directory``, or name of the group at the ``listen_port``.
        listen_port: TCP port of this broker at which others fetch its announcement.
        port_range: How many ports above the ``listen_port`` are tried if it is in use.
    """

    name: str = field(validator=named)
    group_address: str | None = field(default=None, validator=optional(text))
    group_port: int = field(default=_DEFAULT_PORT)
    local_bind_address: str | None = field(default=None, validator=optional(named))
    local_bind_port: int = field(default=-1)
    broadcast_period_ms: int = field(default=2_000, validator=whole(1))
    connectors: tuple[str, ...] = field(default=(), converter=_names)
    shared_directory: str | None = field(default=None, converter=as_path, validator=optional(path))
    channel: str = field(default="embedbroker", validator=named)
    listen_port: int | None = field(default=None, validator=optional(whole(1, 65_535)))
    port_range: int = field(default=0, validator=whole(0, 65_535))

    def __attrs_post_init__(self) -> None:
        _ = self.group

    @property
    def group(self) -> model.BroadcastEndpoint:
        """Return the multicast group and the interface that leads to it, the shared directory, or the port."""
        from embedclient.model import AnnouncementPort

        _check_place(self, "listen_port", self.listen_port is not None)
        if self.listen_port is not None:
            return AnnouncementPort(self.listen_port, self.port_range, self.channel, self.local_bind_address)
        return _endpoint(self, self.local_bind_port)


@frozen
class DiscoveryGroup:
    """Define where a broker finds others that announce themselves: a multicast group, a shared directory, or hosts.

    Attributes:
        name: Name of the discovery group, by which cluster connections and bridges use it.
        group_address: IPv4 multicast address, 224.0.0.0 to 239.255.255.255; None: there is another place.
        group_port: Port of the multicast group, 1 to 65,535.
        local_bind_address: Address or name of the network interface; None: the system chooses.
        refresh_timeout_ms: Milliseconds of silence after which a broker leaves the list.
        initial_wait_timeout_ms: Milliseconds without any announcement after which the log has a warning.
        shared_directory: Directory, used by all brokers of the group, in which each has a file with its announcement.
        channel: Subdirectory of the ``shared_directory``, or name of the group at the ``hosts``.
        hosts: Host and TCP port of other brokers, such as ``host:7800``, from which it fetches their announcements.
        port_range: How many ports above the one of each host may have a broker, too.
    """

    name: str = field(validator=named)
    group_address: str | None = field(default=None, validator=optional(text))
    group_port: int = field(default=_DEFAULT_PORT)
    local_bind_address: str | None = field(default=None, validator=optional(named))
    refresh_timeout_ms: int = field(default=10_000, validator=whole(1))
    initial_wait_timeout_ms: int = field(default=10_000, validator=whole(1))
    shared_directory: str | None = field(default=None, converter=as_path, validator=optional(path))
    channel: str = field(default="embedbroker", validator=named)
    hosts: tuple[str, ...] = field(default=(), converter=_as_hosts)
    port_range: int = field(default=0, validator=whole(0, 65_535))

    def __attrs_post_init__(self) -> None:
        _ = self.group

    @property
    def group(self) -> model.BroadcastEndpoint:
        """Return the multicast group and the interface that leads to it, the shared directory, or the hosts."""
        from embedclient.model import AnnouncementHosts

        _check_place(self, "list of hosts", bool(self.hosts))
        if self.hosts:
            return AnnouncementHosts(self.hosts, self.port_range, self.channel)
        return _endpoint(self)


def _check_place(group: BroadcastGroup | DiscoveryGroup, third: str, has_third: bool) -> None:
    places = [group.group_address is not None, group.shared_directory is not None, has_third]
    if sum(places) != 1:
        raise ValueError(
            f"group {group.name!r} needs one of group_address, shared_directory and {third}: it is where brokers meet"
        )


def _endpoint(group: BroadcastGroup | DiscoveryGroup, local_bind_port: int = -1) -> model.BroadcastEndpoint:
    from embedclient.model import MulticastGroup, SharedDirectory

    if group.shared_directory is not None:
        return SharedDirectory(group.shared_directory, group.channel)
    return MulticastGroup(group.group_address or "", group.group_port, group.local_bind_address, local_bind_port)


def as_broadcast_groups(value: object) -> tuple[BroadcastGroup, ...]:
    """Return broadcast groups, whose names differ."""
    return _as_groups(value, BroadcastGroup, "broadcast_groups")


def as_discovery_groups(value: object) -> tuple[DiscoveryGroup, ...]:
    """Return discovery groups, whose names differ."""
    return _as_groups(value, DiscoveryGroup, "discovery_groups")


def _as_groups(value: object, kind: type[G], name: str) -> tuple[G, ...]:
    value = listed(kind, value, name)
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise TypeError(f"{name} must be a list of {kind.__name__}s, not {value!r}")
    names: set[str] = set()
    for group in value:
        if not isinstance(group, kind):
            raise TypeError(f"{name} must be a list of {kind.__name__}s, not of {group!r}")
        if group.name in names:
            raise ValueError(f"{name}: there are two of the name {group.name!r}; give each another one")
        names.add(group.name)
    return tuple(value)


def check_discovery_group(place: str, name: str | None, groups: Iterable[DiscoveryGroup]) -> None:
    """Check the discovery group that a part of the configuration uses.

    Raises:
        ValueError: The group does not exist; the text names the part.
    """
    names: Collection[str] = [group.name for group in groups]
    if name is not None and name not in names:
        raise ValueError(f"{place}: there is no discovery group {name!r}{did_you_mean(name, names)}")
