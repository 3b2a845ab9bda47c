"""The URLs of acceptors and connectors: ``tcp://host:port?name=value;name=value``.

Responsible for their grammar, as open as that of Artemis: unknown parameters are kept, the last of two values counts,
and an acceptor may have several hosts. Problems and notes show no values: one may be a password, or a part of it. Does
not depend on what a parameter does.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import unquote

from attrs import field, frozen

from embedclient.model import (
    TLS_PARAMETERS,
    describe_url,
    did_you_mean,
    is_host_name,
    unsupported_scheme,
    url_parameters,
)

from ._values import WrongValue

__all__ = ["TransportURL", "parse_transport_url"]

DEFAULT_PORT = 61616

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>[^?#]*)(?:\?(?P<query>[^#]*))?", re.DOTALL)
_SIGNS = frozenset("&;=:")
_SPACE = re.compile(r"\s+")
# Leading zeros are fine; Python refuses to count thousands of digits.
_DIGITS = re.compile(r"[0-9]{1,30}", re.ASCII)


def _names(parameters: dict[str, str]) -> str:
    return repr(list(parameters))


@frozen
class TransportURL:
    """Hold one URL. ``host`` of a ``vm`` URL is the broker's name, and its port has no meaning.

    ``other_hosts`` are those after the first. ``extra`` has the parameters that are unknown in Artemis, too. ``notes``
    are warnings about the text itself.
    """

    scheme: str
    host: str
    port: int
    parameters: dict[str, str] = field(repr=_names)
    other_hosts: tuple[str, ...] = ()
    extra: dict[str, str] = field(factory=dict, repr=_names)
    notes: tuple[str, ...] = ()


def parse_transport_url(text: str, known: Collection[str]) -> TransportURL:
    """Read one URL. ``known`` are the names of parameters that have a meaning in this place.

    Raises:
        WrongValue: It is not such a URL, or a parameter about TLS is misspelt or has no value.
    """
    text = _SPACE.sub("", text)
    advice = unsupported_scheme(text)
    if advice is not None:
        raise WrongValue(advice)
    matched = _URL.fullmatch(text)
    if matched is None:
        raise WrongValue("is no URL of one broker such as tcp://host:61616?name=value;name=value")
    scheme = matched["scheme"].lower()
    if scheme not in ("tcp", "vm"):
        raise WrongValue(f"has the scheme {scheme!r}; tcp:// and vm:// are known")
    place = matched["place"].rstrip("/")
    if "@" in place:
        raise WrongValue(f"has a user in front of its host; write {describe_url(text).partition('?')[0]}")
    query = _Query(matched["query"] or "", known)
    parameters = query.parameters
    if scheme == "vm":
        if not place:
            raise WrongValue("has no name; write vm://name")
        if _SIGNS.intersection(place):
            raise WrongValue("has a name with a sign that must be escaped, as & by %26")
        return TransportURL(scheme, unquote(place), DEFAULT_PORT, parameters, (), query.extra, tuple(query.notes))
    hosts, port = _hosts_and_port(place)
    if "host" in parameters:
        hosts = parameters.pop("host").split(",")
    if not all(hosts):
        raise WrongValue("has an empty host")
    port_number = _port(parameters.pop("port", port))
    return TransportURL(scheme, hosts[0], port_number, parameters, tuple(hosts[1:]), query.extra, tuple(query.notes))


class _Query:
    """Hold the parameters of a URL, the known and the other ones, and notes on unusual ones."""

    def __init__(self, query: str, known: Collection[str]) -> None:
        self.parameters: dict[str, str] = {}
        self.extra: dict[str, str] = {}
        self.notes: list[str] = []
        for parameter in url_parameters(query):
            name, shown = parameter.name, parameter.shown(known)
            if name not in known:
                near = did_you_mean(name, {*known, *TLS_PARAMETERS})
                if near and name not in TLS_PARAMETERS and near == did_you_mean(name, TLS_PARAMETERS):
                    raise WrongValue(f"has an unknown parameter {shown}, which would concern TLS{near}")
                self.notes.append(f"parameter {shown} is unknown here and has no effect{parameter.advice(known)}")
            if parameter.value is None:
                if name in TLS_PARAMETERS:
                    raise WrongValue(f"has a parameter {shown} without a value")
                if name in known:
                    self.notes.append(f"parameter {shown} has no value and no effect")
                continue
            taken = self.parameters if name in known else self.extra
            if name in taken:
                self.notes.append(f"parameter {shown} is there more than once; the last value counts")
            taken[name] = parameter.value


def _hosts_and_port(place: str) -> tuple[list[str], str]:
    if place.startswith("["):
        host, closed, rest = place[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise WrongValue("has a wrong IPv6 address; write tcp://[::1]:61616")
        return [host], rest[1:] or str(DEFAULT_PORT)
    if place.count(":") > 1 and "," not in place:
        raise WrongValue("has an IPv6 address without brackets; write tcp://[::1]:61616")
    names, _, port = place.rpartition(":") if ":" in place else (place, "", "")
    if ":" in names or "," in port:
        raise WrongValue("has several hosts with a port each; write tcp://host-a,host-b:61616")
    if not all(map(is_host_name, names.split(","))):
        raise WrongValue("has a host with a sign that no host has; parameters follow a question mark")
    return [unquote(host) or "localhost" for host in names.split(",")], port or str(DEFAULT_PORT)


def _port(text: str) -> int:
    if not _DIGITS.fullmatch(text) or int(text) > 65_535:
        raise WrongValue("has a port that is no number from 0 to 65535")
    return int(text)
