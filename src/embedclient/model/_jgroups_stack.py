"""The file of a JGroups protocol stack, as far as it names where members find each other.

Responsible for the multicast group or the directory in it, and for one note for each protocol without a meaning here.
A channel of Java is not joined: its protocols are those of JGroups, and brokers here send the datagrams of broadcast
groups. Does not depend on files: the parser gets the whole text, and document types, which could name files, are
refused.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

from attrs import frozen

from ._broadcast_endpoint import BroadcastEndpoint, SharedDirectory
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
_PROTECTIONS: Final = ("ENCRYPT", "SYM_ENCRYPT", "ASYM_ENCRYPT", "AUTH", "SASL")
_REFERENCE: Final = re.compile(r"\$\{([^}:]*)(?::([^}]*))?\}")
# Words for an interface that JGroups chooses itself.
_CHOSEN: Final = ("GLOBAL", "SITE_LOCAL", "LINK_LOCAL", "NON_LOOPBACK")
_DEPTH_MAX: Final = 2
# The default of FILE_PING.
_LOCATION: Final = "/tmp/jgroups"  # the name, nothing is created here


@frozen
class JGroupsStack:
    """What a stack means here: where members meet, and one note for each protocol without a meaning."""

    group: BroadcastEndpoint
    notes: tuple[str, ...]


def parse_jgroups_stack(text: str, channel: str) -> JGroupsStack:
    """Return the multicast group of a stack, or the directory of its FILE_PING.

    References such as ``${name:default}`` become their default.

    Args:
        text: The content of the file.
        channel: Name of the channel; brokers with another one do not meet in a directory.

    Raises:
        ValueError: the text is no stack, or members cannot find each other by it here; the text names the protocol.
    """
    protocols = _protocols(text)
    if not protocols or protocols[0][0] not in _TRANSPORTS:
        raise ValueError(f"it must begin with a transport, one of {', '.join(_TRANSPORTS)}")
    places: list[tuple[str, dict[str, str]]] = []
    directories: list[str] = []
    notes: list[str] = []
    for index, (name, attributes) in enumerate(protocols):
        if name in _MULTICAST:
            places.append((name, {"bind_addr": protocols[0][1].get("bind_addr", ""), **attributes}))
        elif name == "FILE_PING":
            directories.append(attributes.get("location", _LOCATION))
        elif _DISCOVERIES.fullmatch(name) and not (name == "PING" and protocols[0][0] == "UDP"):
            raise ValueError(
                f"{name} is not supported: members find each other by UDP with PING, or by TCP with MPING or FILE_PING;"
                " or write static-connectors, or a group-address, without a JGroups file"
            )
        elif name in _PROTECTIONS:
            notes.append(f"{name} has no meaning here: datagrams are neither encrypted nor authenticated")
        elif index > 0 and name != "PING":
            notes.append(f"{name} has no meaning here")
    if directories:
        return JGroupsStack(SharedDirectory(directories[-1], channel), tuple(notes))
    if not places:
        raise ValueError(f"{protocols[0][0]} without MPING or FILE_PING does not name where members find each other")
    return JGroupsStack(_group(*places[-1]), tuple(notes))


def _group(name: str, attributes: dict[str, str]) -> MulticastGroup:
    address_key, address, port_key, port = _MULTICAST[name]
    text = attributes.get(port_key, str(port))
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f"{name}: {port_key} must be a port, not {describe_name(text)!r}")
    interface: str | None = attributes.get("bind_addr", "") or None
    if interface is not None and (interface.upper() in _CHOSEN or interface.startswith("match-")):
        interface = None
    elif interface is not None and interface.upper() == "LOOPBACK":
        interface = "127.0.0.1"
    try:
        return MulticastGroup(attributes.get(address_key, address), int(text), interface)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


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
