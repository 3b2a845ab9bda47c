"""Where brokers announce themselves and find each other: a multicast group, a shared directory, or a list of hosts.

Does not depend on sockets and files.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import Attribute, field, frozen

from ._multicast import MulticastGroup
from ._url import describe_name

__all__ = ["AnnouncementHosts", "AnnouncementPort", "BroadcastEndpoint", "SharedDirectory", "received_at", "sent_to"]

_PORT_MAX: Final = 65_535
# A receiver connects to each of them once a second.
_PLACES_MAX: Final = 200
_CHANNEL_CHARACTERS_MAX: Final = 200


def _is_file_name(text: str) -> bool:
    """Return True if the operating system can have files with this text in their names."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _location(_: object, _attribute: Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not value or not _is_file_name(value):
        raise ValueError(f"the shared directory must be a path, not {value!r}")


def _channel(_: object, _attribute: Attribute[str], value: object) -> None:
    if (
        not isinstance(value, str)
        or not value.strip(".")
        or any(sign in value for sign in "/\\:")
        or not _is_file_name(value)
    ):
        raise ValueError(f"the channel {value!r} must be the name of a subdirectory")


@frozen
class SharedDirectory:
    """A directory in which each broker keeps one file with its announcement.

    Args:
        location: Path of the directory, which all brokers and clients share.
        channel: Name of its subdirectory; groups of brokers with different names do not find each other.

    Raises:
        ValueError: the path or the name cannot be used.
    """

    location: str = field(validator=_location)
    channel: str = field(validator=_channel)

    @property
    def place(self) -> str:
        """Return the path of the subdirectory."""
        return f"{self.location.rstrip('/')}/{self.channel}"

    def __str__(self) -> str:
        return f"directory {self.place}"


def _line(_: object, _attribute: Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= _CHANNEL_CHARACTERS_MAX or not value.isprintable():
        raise ValueError(f"the channel {value!r} must be a name of at most {_CHANNEL_CHARACTERS_MAX} characters")


def _port(_: object, attribute: Attribute[int], value: object) -> None:
    least = 1 if attribute.name == "port" else 0
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _PORT_MAX:
        raise ValueError(f"{attribute.name} is a number from {least} to {_PORT_MAX}, not {value!r}")


@frozen
class AnnouncementPort:
    """A TCP port of this machine at which others fetch the announcement of a broker.

    Args:
        port: The port, 1 to 65535.
        port_range: How many ports above it are tried if it is in use.
        channel: Name of the group; receivers with another one ignore the announcement.
        bind_address: Address or name of the interface; None for all of them.

    Raises:
        ValueError: a number is out of its range, or the name cannot be used.
    """

    port: int = field(validator=_port)
    port_range: int = field(default=0, validator=_port)
    channel: str = field(default="embedbroker", validator=_line)
    bind_address: str | None = None

    @property
    def ports(self) -> range:
        """Return all ports that may be used, in the order of the attempts."""
        return range(self.port, min(self.port + self.port_range, _PORT_MAX) + 1)

    def __str__(self) -> str:
        last = f" to {self.ports[-1]}" if self.port_range else ""
        on = "" if self.bind_address is None else f" on the interface of {describe_name(self.bind_address)}"
        return f"TCP port {self.port}{last}{on}"


def _hosts(_: object, _attribute: Attribute[tuple[str, ...]], value: object) -> None:
    if not isinstance(value, tuple) or not value:
        raise ValueError(f"hosts must be a list such as ['a:7800', 'b:7800'], not {value!r}")
    for text in value:
        _place(text)


def _place(text: object) -> tuple[str, int]:
    """Return host and port of a text such as ``host:7800`` or ``[::1]:7800``."""
    host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not port.isascii() or not port.isdecimal() or not 1 <= int(port) <= _PORT_MAX:
        raise ValueError(f"hosts: {describe_name(str(text))!r} must be a host and a port, as in host:7800")
    return host, int(port)


@frozen
class AnnouncementHosts:
    """The hosts from which a broker or a client fetches the announcements of others.

    Args:
        hosts: Host and port of each, such as ``host:7800``.
        port_range: How many ports above the one of each host may have a broker, too.
        channel: Name of the group; announcements of another one are ignored.

    Raises:
        ValueError: a host cannot be used, or there are too many of them.
    """

    hosts: tuple[str, ...] = field(validator=_hosts)
    port_range: int = field(default=0, validator=_port)
    channel: str = field(default="embedbroker", validator=_line)

    def __attrs_post_init__(self) -> None:
        if len(self.hosts) * (self.port_range + 1) > _PLACES_MAX:
            raise ValueError(
                f"{len(self.hosts)} hosts with {self.port_range} further ports each are more than {_PLACES_MAX} places:"
                " one broker of a cluster is enough to find all of it, so name fewer hosts, or a smaller port_range"
            )

    @property
    def places(self) -> list[tuple[str, int]]:
        """Return each host with each of its ports, without repetitions."""
        found: dict[tuple[str, int], None] = {}
        for host, port in map(_place, self.hosts):
            for each in range(port, min(port + self.port_range, _PORT_MAX) + 1):
                found[host, each] = None
        return list(found)

    def __str__(self) -> str:
        more = f" and {self.port_range} ports above each" if self.port_range else ""
        return f"hosts {', '.join(map(describe_name, self.hosts))}{more}"


BroadcastEndpoint: TypeAlias = MulticastGroup | SharedDirectory | AnnouncementPort | AnnouncementHosts


def received_at(group: BroadcastEndpoint) -> list[str]:
    """Return the meeting points of receivers in a network of tests."""
    if isinstance(group, AnnouncementHosts):
        return [f"{host}:{port}/{group.channel}" for host, port in group.places]
    if isinstance(group, AnnouncementPort):
        raise TypeError(f"at {group} is nothing to receive: receivers have a list of hosts")
    return [group.place]


def sent_to(group: BroadcastEndpoint, host: str, port: int | None = None) -> str:
    """Return the meeting point of a sender in a network of tests.

    Args:
        group: Where the sender announces a broker.
        host: Name of the host of the sender.
        port: The port that the sender has there, if it is not the first one of its range.
    """
    if isinstance(group, AnnouncementPort):
        return f"{host}:{group.port if port is None else port}/{group.channel}"
    if isinstance(group, AnnouncementHosts):
        raise TypeError(f"nothing can be sent to {group}: a sender has a port")
    return group.place
