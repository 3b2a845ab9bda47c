"""The file of a JGroups protocol stack, as far as it names where members find each other.

Responsible for the multicast group, the directory or the hosts in it, and for one note for each protocol without a
meaning here. A channel of Java is not joined: its protocols are those of JGroups, and brokers here send the datagrams
of broadcast groups. Does not depend on files: the parser gets the whole text, and document types, which could name
files, are refused.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

from attrs import frozen

from ._broadcast_endpoint import AnnouncementHosts, AnnouncementPort, BroadcastEndpoint, SharedDirectory
from ._multicast import MulticastGroup
from ._url import describe_name

__all__ = ["JGroupsStack", "parse_jgroups_stack"]

# Protocols that carry the address of a multicast group: its attributes, with the defaults of JGroups.
_MULTICAST: Final = {
    "UDP": ("mcast_addr", "228.8.8.8", "mcast_port", 7600),
    "MPING": ("mcast_addr", "230.5.6.7", "mcast_port", 7555),
}
_TRANSPORTS: Final = ("UDP", "TCP", "TCP_NIO2", "TUNNEL")
# Protocols by which members find each other. Without one of ours, brokers would not find each other at all.
_DISCOVERIES: Final = re.compile(r".*PING\d*|TCPGOSSIP|LOCAL_PING")
# Those of them by which members find each other without multicast.
_LISTS: Final = ("FILE_PING", "TCPPING")
_PROTECTIONS: Final = ("ENCRYPT", "SYM_ENCRYPT", "ASYM_ENCRYPT", "AUTH", "SASL")
_REFERENCE: Final = re.compile(r"\$\{([^}:]*)(?::([^}]*))?\}")
# Words for an interface that JGroups chooses itself.
_CHOSEN: Final = ("GLOBAL", "SITE_LOCAL", "LINK_LOCAL", "NON_LOOPBACK")
_DEPTH_MAX: Final = 2
# The default of FILE_PING.
_LOCATION: Final = "/tmp/jgroups"  # the name, nothing is created here
# The defaults of JGroups: how many ports above its own a member may take, and how many above each host are asked.
_BIND_PORT_RANGE: Final = 10
_HOST_PORT_RANGE: Final = 1
_HOST: Final = re.compile(r"([^\s\[\]]+)\s*(?:\[\s*(\d+)\s*\])?")


@frozen
class JGroupsStack:
    """What a stack means here: where members meet, and one note for each protocol without a meaning.

    Attributes:
        group: Where a member finds others.
        announced_at: Where a member announces itself: the same, except for TCPPING.
        notes: One text for each protocol without a meaning here.
    """

    group: BroadcastEndpoint
    announced_at: BroadcastEndpoint
    notes: tuple[str, ...]


def parse_jgroups_stack(text: str, channel: str) -> JGroupsStack:
    """Return the multicast group of a stack, the directory of its FILE_PING, or the hosts of its TCPPING.

    References such as ``${name:default}`` become their default.

    Args:
        text: The content of the file.
        channel: Name of the channel; brokers with another one do not meet in a directory, or by hosts.

    Raises:
        ValueError: the text is no stack, or members cannot find each other by it here; the text names the protocol.
    """
    protocols = _protocols(text)
    if not protocols or protocols[0][0] not in _TRANSPORTS:
        raise ValueError(f"it must begin with a transport, one of {', '.join(_TRANSPORTS)}")
    transport, of_transport = protocols[0]
    places: list[tuple[str, dict[str, str]]] = []
    notes: list[str] = []
    for index, (name, attributes) in enumerate(protocols):
        if name in _MULTICAST:
            places.append((name, {"bind_addr": of_transport.get("bind_addr", ""), **attributes}))
        elif name == "FILE_PING" or (name == "TCPPING" and transport != "UDP"):
            places.append((name, attributes))
        elif _DISCOVERIES.fullmatch(name) and not (name == "PING" and transport == "UDP"):
            raise ValueError(
                f"{name} is not supported: members find each other by UDP with PING, or by TCP with MPING, FILE_PING or"
                " TCPPING; or write static-connectors, or a group-address, without a JGroups file"
            )
        elif name in _PROTECTIONS:
            notes.append(f"{name} has no meaning here: datagrams are neither encrypted nor authenticated")
        elif index > 0 and name != "PING":
            notes.append(f"{name} has no meaning here")
    if not places:
        raise ValueError(f"{transport} without MPING, FILE_PING or TCPPING does not name where members find each other")
    # A list or a directory wins over the multicast group of the transport.
    name, attributes = next((each for each in reversed(places) if each[0] in _LISTS), places[-1])
    if name == "TCPPING":
        port = _number(transport, of_transport, "bind_port", 0)
        return JGroupsStack(
            _hosts(attributes, port, channel), _announcement_port(transport, of_transport, port, channel), tuple(notes)
        )
    group: BroadcastEndpoint = (
        SharedDirectory(attributes.get("location", _LOCATION), channel)
        if name == "FILE_PING"
        else _group(name, attributes)
    )
    return JGroupsStack(group, group, tuple(notes))


def _hosts(attributes: dict[str, str], default_port: int, channel: str) -> AnnouncementHosts:
    """Return the hosts of TCPPING. One without a port has that of the transport."""
    hosts: list[str] = []
    port_range = _number("TCPPING", attributes, "port_range", _HOST_PORT_RANGE)
    for text in re.split(r"[,\s]+(?![^\[]*\])", attributes.get("initial_hosts", "").strip(", \t\r\n")):
        match = _HOST.fullmatch(text)
        if match is None:
            raise ValueError(
                f"TCPPING: initial_hosts must be a list such as a[7800],b[7800], which has no {describe_name(text)!r}"
            )
        host = f"[{match[1]}]" if ":" in match[1] else match[1]
        hosts.append(f"{host}:{match[2] or default_port}")
    try:
        return AnnouncementHosts(tuple(hosts), port_range, channel)
    except ValueError as error:
        raise ValueError(f"TCPPING: {error}") from None


def _announcement_port(name: str, attributes: dict[str, str], port: int, channel: str) -> AnnouncementPort:
    if port == 0:
        raise ValueError(f"{name} needs a bind_port with TCPPING, as bind_port='7800', so that others find it")
    port_range = _number(name, attributes, "port_range", _BIND_PORT_RANGE)
    try:
        return AnnouncementPort(port, port_range, channel, _interface(attributes))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _group(name: str, attributes: dict[str, str]) -> MulticastGroup:
    address_key, address, port_key, default_port = _MULTICAST[name]
    port = _number(name, attributes, port_key, default_port)
    try:
        return MulticastGroup(attributes.get(address_key, address), port, _interface(attributes))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _number(name: str, attributes: dict[str, str], key: str, default: int) -> int:
    text = attributes.get(key, str(default))
    if not text.isascii() or not text.isdecimal():
        kind = "a port" if key.endswith("port") else "a number"
        raise ValueError(f"{name}: {key} must be {kind}, not {describe_name(text)!r}")
    return int(text)


def _interface(attributes: dict[str, str]) -> str | None:
    """Return the interface that a stack names; None if JGroups would choose it."""
    interface = attributes.get("bind_addr", "")
    if not interface or interface.upper() in _CHOSEN or interface.startswith("match-"):
        return None
    return "127.0.0.1" if interface.upper() == "LOOPBACK" else interface


def _protocols(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return the protocols of a stack, from its transport upwards, with their attributes."""
    found: list[tuple[str, dict[str, str]]] = []
    path: list[str] = []

    def on_document_type(*_: object) -> None:
        raise ValueError("it has a document type, which is not allowed")

    def on_start(name: str, attributes: dict[str, str]) -> None:
        path.append(name)
        if len(path) == 1 and name.rpartition(":")[2] != "config":
            raise ValueError(f"its outermost element must be config, not {describe_name(name)}")
        if len(path) == _DEPTH_MAX:
            protocol = name.rpartition(":")[2].rpartition(".")[2]
            found.append((protocol, {key: _resolved(value) for key, value in attributes.items()}))

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = on_document_type
    parser.StartElementHandler = on_start
    parser.EndElementHandler = lambda _name: path.pop()
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise ValueError(f"it is no XML: {error}") from None
    return found


def _resolved(value: str) -> str:
    def default(match: re.Match[str]) -> str:
        if match[2] is None:
            raise ValueError(f"${{{match[1]}}} has no default: write ${{{match[1]}:value}}, or the value itself")
        return match[2]

    return _REFERENCE.sub(default, value.strip())
