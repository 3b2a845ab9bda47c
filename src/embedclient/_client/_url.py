"""Artemis URLs: from the text a user typed to locator settings, factory settings and connectors.

Responsible for the grammar (single URLs, lists, fragments), for the parameter names and their types, and for errors
that name the parameter and its place. An unknown name is rejected, with a similar one if there is one, because an
undetected typing error costs days. Errors show no values: one may be a password, or a part of it. Does not depend on
the effect of a setting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

from attrs import evolve, field, frozen

from embedclient.agent import LocatorSettings
from embedclient.errors import InvalidURLException
from embedclient.model import (
    IN_VM_CONNECTOR_FACTORY,
    TCP_CONNECTOR_FACTORY,
    TLS_PARAMETERS,
    TransportConfiguration,
    describe_name,
    describe_url,
    is_host_name,
    split_members,
    unsupported_scheme,
    url_parameters,
)

from ._url_parameters import (
    ACCEPTOR_ONLY,
    CONNECTOR_SETTINGS,
    DISCOVERY_PARAMETERS,
    FACTORY_PARAMETERS,
    LOCATOR_PARAMETERS,
    SYNONYMS,
    TRANSPORT_PARAMETERS,
    UNSUPPORTED,
    VM_PARAMETERS,
    Reader,
    Value,
)

if TYPE_CHECKING:
    from embedclient.model import BroadcastEndpoint, MulticastGroup

T = TypeVar("T")
DEFAULT_PORT = 61616
_DISCOVERY = "udp://"
_STACK = "jgroups://"
_DISCOVERY_PORT = 9876
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_HOST_AND_PORT = re.compile(r"[\w.-]+:[0-9]{1,5}", re.ASCII)
_NAMES = (
    *(*LOCATOR_PARAMETERS, *FACTORY_PARAMETERS, *TRANSPORT_PARAMETERS, *VM_PARAMETERS, *UNSUPPORTED),
    *DISCOVERY_PARAMETERS,
)
_KNOWN = frozenset((*_NAMES, *ACCEPTOR_ONLY))
_DEFAULTS = LocatorSettings()
_TIMES_OF_LIFE = frozenset(("connection_ttl_ms", "client_failure_check_period_ms"))
# The placeholder for hidden text in a description.
HIDDEN = "***"
_SIGNS = frozenset("&;=#:")
_SWITCHED_OFF = ("", "false", "null")
_NOT_YET = {
    "udp": "udp:// finds all brokers of its group and stands alone, as in udp://231.7.7.7:9876",
    "jgroups": "jgroups:// finds all brokers of its group and stands alone, as in jgroups://channel?file=stack.xml",
}


@frozen
class FactorySettings:
    """The parameters of a URL beyond the locator's settings.

    - `policy`: the simple name of a load-balancing policy.
    - `user`, `password`: credentials; None without them. The password is not in the `repr`.
    - `client_id`: the client id of each connection; None without one.
    - `enable_shared_client_id`: several connections may have the same client id.
    - `type`: one of `FACTORY_TYPES`.
    """

    policy: str = "RoundRobin"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    client_id: str | None = None
    enable_shared_client_id: bool = False
    type: str = "CF"


@frozen
class DiscoverySettings:
    """Where a client finds its first broker.

    - `group`: the multicast group, or the shared directory, to which brokers announce themselves.
    - `initial_wait_timeout_ms`: milliseconds that an attempt waits for an announcement; 0 for no limit.
    - `refresh_timeout_ms`: milliseconds for which a broker that was found is dialled again without a search; 0: never.
    """

    group: BroadcastEndpoint
    initial_wait_timeout_ms: int = 10_000
    refresh_timeout_ms: int = 0


@frozen
class ClientURL:
    """One parsed URL. `text` is safe to show: it contains hosts and names of parameters, and no values."""

    text: str
    settings: LocatorSettings
    factory: FactorySettings
    connectors: tuple[TransportConfiguration, ...]
    # Parameters of acceptors, which have no effect in a client.
    ignored: tuple[str, ...] = ()
    # In place of connectors.
    discovery: DiscoverySettings | None = None
    # One text for each element of a JGroups file without a meaning here.
    notes: tuple[str, ...] = ()


def parse_url(text: str) -> ClientURL:
    """Read an Artemis URL.

    Raises:
        InvalidURLException: the text is not such a URL; the error contains the part and the reason.
    """
    return _Parser(url_text(text).strip()).parse()


@lru_cache(16)
def _settings_in_vm(settings: LocatorSettings, given: frozenset[str]) -> LocatorSettings:
    """Return the settings of connections inside a process, but for the times that the URL has given."""
    # A peer in the same process cannot disappear unnoticed, so Artemis checks in-VM connections only on demand.
    ttl_ms = settings.connection_ttl_ms if "connection_ttl_ms" in given else -1
    check_ms = settings.client_failure_check_period_ms
    # A connection with an explicit time to live needs pings.
    if "client_failure_check_period_ms" not in given and ttl_ms < 0:
        check_ms = -1
    return evolve(settings, connection_ttl_ms=ttl_ms, client_failure_check_period_ms=check_ms)


def url_text(url: object) -> str:
    """Return the URL that a user passed. Raises InvalidURLException if it is not text, without showing its value."""
    if not isinstance(url, str):
        kind = "None" if url is None else type(url).__name__
        raise InvalidURLException(f"the URL of a broker is a str such as 'tcp://localhost:61616', not {kind}")
    return url


class _Parser:
    """Hold the text while it is parsed, so that every error can describe it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.shown = describe_url(text, _KNOWN)
        self._settings = _DEFAULTS
        self._given: set[str] = set()
        self._factory: dict[str, Value] = {}
        self._ignored: list[str] = []
        self._notes: tuple[str, ...] = ()

    def parse(self) -> ClientURL:
        advice = unsupported_scheme(self.text)
        if advice is not None:
            raise self._error(advice)
        members, main_query = self._split()
        if len(members) == 1 and not self.text.startswith("("):
            for scheme in (_DISCOVERY, _STACK):
                if members[0].lower().startswith(scheme):
                    return self._discovery(scheme, members[0][len(scheme) :], main_query)
        split = [member.partition("?") for member in members]
        shown = [self._described(member) for member in members]
        queries = [self._pairs(query, where) for (_, _, query), where in zip(split, shown, strict=True)]
        if self.text.startswith("("):
            # As in Artemis, the first entry of a list may contain settings of the whole list.
            for name, value in queries[0]:
                if name not in CONNECTOR_SETTINGS:
                    self._set(name, value)
            queries[0] = [pair for pair in queries[0] if pair[0] in CONNECTOR_SETTINGS or not _concerns_all(pair[0])]
        shared: dict[str, bool | int | str] = {}
        for name, value in self._pairs(main_query, self.shown):
            if not self._set(name, value):
                shared[name] = self._transport_value(name, value, self.shown)
        connectors = tuple(
            self._connector(place, index, shared, queries[index], shown[index])
            for index, (place, _, _) in enumerate(split)
        )
        settings = self._settings
        if all(connector.factory == IN_VM_CONNECTOR_FACTORY for connector in connectors):
            settings = _settings_in_vm(settings, _TIMES_OF_LIFE.intersection(self._given))
        factory_settings = FactorySettings(**self._factory)  # type: ignore[arg-type]  # each was read as its field's type
        return ClientURL(self.shown, settings, factory_settings, connectors, tuple(dict.fromkeys(self._ignored)))

    def _discovery(self, scheme: str, place: str, query: str) -> ClientURL:
        """Read the parts of a URL that names a multicast group, or a file with one, in place of brokers."""
        given: dict[str, int | str] = {}
        for name, value in self._pairs(query, self.shown):
            if name in DISCOVERY_PARAMETERS:
                given[name] = self._read(DISCOVERY_PARAMETERS[name], name, value)
            elif not self._set(name, value) and name != "name":
                if name in UNSUPPORTED:
                    raise self._error(f"parameter {name!r} in {self.shown}: {UNSUPPORTED[name]}")
                raise self._error(
                    f"parameter {name!r} in {self.shown} concerns one broker, and {scheme} leads to brokers that "
                    "announce the parameters of their connections themselves"
                )
        if "@" in place:
            raise self._error(f"{self.shown!r}: credentials go into the parameters user and password")
        group = self._group(place.rstrip("/"), given) if scheme == _DISCOVERY else self._group_of_stack(place, given)
        wait_ms = int(given.get("discoveryInitialWaitTimeout", 10_000))
        factory = FactorySettings(**self._factory)  # type: ignore[arg-type]  # each was read as its field's type
        ignored = tuple(dict.fromkeys(self._ignored))
        discovery = DiscoverySettings(group, wait_ms, int(given.get("refreshTimeout", 0)))
        return ClientURL(self.shown, self._settings, factory, (), ignored, discovery, self._notes)

    def _group(self, place: str, given: Mapping[str, int | str]) -> MulticastGroup:
        from embedclient.model import MulticastGroup

        if "file" in given:
            raise self._error(
                f"parameter 'file' in {self.shown} needs jgroups://, as in jgroups://channel?file=stack.xml"
            )
        address, port = self._host_and_port(place, self.shown, _DISCOVERY_PORT)
        interface = str(given.get("localBindAddress", "")) or None
        try:
            return MulticastGroup(address, port, interface, int(given.get("localBindPort", -1)))
        except ValueError:
            reason = "names no IPv4 multicast address, from 224.0.0.0 to 239.255.255.255: write udp://231.7.7.7:9876"
            raise self._error(f"{self.shown!r} {reason}") from None

    def _group_of_stack(self, channel: str, given: Mapping[str, int | str]) -> BroadcastEndpoint:
        """Return the multicast group of a JGroups file, its hosts, or its directory, in which channels are apart."""
        from embedclient.model import MulticastGroup, parse_jgroups_stack

        file = str(given.get("file", ""))
        if not file or not channel.strip("/"):
            raise self._error(f"{self.shown!r} needs a channel and a file, as in jgroups://channel?file=stack.xml")
        try:
            stack = parse_jgroups_stack(Path(file).read_text("utf-8"), channel.strip("/"))
        except OSError as error:
            raise self._error(f"the JGroups file {describe_name(file)!r} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise self._error(f"the JGroups file {describe_name(file)!r}: {error}") from None
        self._notes = tuple(f"the JGroups file {describe_name(file)!r}: {note}" for note in stack.notes)
        group = stack.group
        if not isinstance(group, MulticastGroup):
            return group
        interface = str(given.get("localBindAddress", "")) or group.local_bind_address
        return evolve(group, local_bind_address=interface)

    def _described(self, member: str) -> str:
        """Return a member in a form for errors. A part that the whole URL's description hides may be a password."""
        shown = describe_url(member, _KNOWN)
        return shown if shown in self.shown else self.shown

    def _set(self, name: str, value: str) -> bool:
        """Store a parameter of the whole list. Return False if it is a parameter of a connector."""
        if name in LOCATOR_PARAMETERS:
            attribute, reader = LOCATOR_PARAMETERS[name]
            self._settings = self._read(partial(_changed, self._settings, attribute, reader), name, value)
            self._given.add(attribute)
        elif name in FACTORY_PARAMETERS:
            attribute, factory_reader = FACTORY_PARAMETERS[name]
            if attribute:
                self._factory[attribute] = self._read(factory_reader, name, value)
        return _concerns_all(name)

    def _split(self) -> tuple[list[str], str]:
        """Return the connectors' URLs and the query that applies to all of them."""
        if self.text.startswith("("):
            inside, closed, rest = self.text[1:].partition(")")
            if not closed:
                raise self._error("the list of brokers has no closing bracket")
            if rest and not rest.startswith("?"):
                raise self._error("unexpected text after the list of brokers; parameters follow a question mark")
            return self._members(inside), rest[1:]
        main, _, fragment = self.text.partition("#")
        first, _, query = main.partition("?")
        if len(split_members(first)) > 1:
            raise self._error("a list of brokers stands in brackets: (tcp://a:61616,tcp://b:61616)?name=value")
        return [first, *(self._members(fragment) if fragment else [])], query

    def _members(self, text: str) -> list[str]:
        members = split_members(text)
        if not all(members):
            raise self._error("the list of brokers is empty or has an empty entry")
        return members

    def _connector(
        self,
        member: str,
        index: int,
        shared: Mapping[str, bool | int | str],
        pairs: list[tuple[str, str]],
        shown: str,
    ) -> TransportConfiguration:
        matched = _SCHEME.fullmatch(member)
        if matched is None:
            meant = f"tcp://{member}" if _HOST_AND_PORT.fullmatch(member) else "tcp://host:port or vm://name"
            what = f"an entry of {self.shown}" if self.text.startswith("(") or index else "the URL"
            raise self._error(f"{what} has no scheme; write {meant}")
        scheme = matched["scheme"].lower()
        place = matched["rest"]
        parameters = dict(shared)
        for name, value in pairs:
            if name in CONNECTOR_SETTINGS:
                parameters[name] = self._read(CONNECTOR_SETTINGS[name], name, value, shown)
            elif _concerns_all(name):
                raise self._error(f"{name!r} concerns the whole list and cannot stand in its entry {shown!r}")
            else:
                parameters[name] = self._transport_value(name, value, shown)
        self._check_tls(parameters, shown)
        connector_name = str(parameters.pop("name", f"{scheme}-{index}"))
        if "@" in place:
            raise self._error(f"{shown!r}: credentials go into the parameters user and password")
        if scheme == "vm":
            if _SIGNS.intersection(place):
                raise self._error(f"{shown!r}: the name of a broker has a sign that must be escaped, as & by %26")
            if not place.strip("/"):
                raise self._error(f"{shown!r} has no broker name; write vm://name")
            return TransportConfiguration(
                connector_name, IN_VM_CONNECTOR_FACTORY, {**parameters, "serverId": unquote(place.strip("/"))}
            )
        if scheme != "tcp":
            named = f"unknown scheme {scheme!r}" if f"{scheme}://" in shown.lower() else "unknown scheme"
            reason = _NOT_YET.get(scheme, f"{named}; write tcp://host:port or vm://name")
            raise self._error(reason)
        host, port = self._host_and_port(place.rstrip("/"), shown)
        # As in Artemis, a parameter takes precedence over host and port of the URL.
        return TransportConfiguration(connector_name, TCP_CONNECTOR_FACTORY, {"host": host, "port": port, **parameters})

    def _check_tls(self, parameters: Mapping[str, bool | int | str], shown: str) -> None:
        """Refuse settings of TLS without TLS: to continue in plain text would be worse than an error."""
        if "sslEnabled" not in parameters:
            wanted = [name for name in TLS_PARAMETERS & parameters.keys() if parameters[name] not in (False, "")]
            if wanted:
                names = ", ".join(sorted(wanted))
                raise self._error(f"{names} in {shown} needs sslEnabled=true; write sslEnabled=false to go without TLS")

    def _host_and_port(self, place: str, shown: str, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
        host, port_text = place, ""
        if place.startswith("["):
            host, closed, rest = place[1:].partition("]")
            if not closed or (rest and not rest.startswith(":")):
                raise self._error(f"{shown!r}: an IPv6 address is written as tcp://[::1]:61616")
            port_text = rest[1:]
        elif "," in place:
            raise self._error(f"{shown!r}: several hosts are a list, as in (tcp://a:61616,tcp://b:61616)")
        elif ":" in place:
            host, _, port_text = place.rpartition(":")
        if ":" in host and not place.startswith("["):
            raise self._error(f"{shown!r}: an IPv6 address needs brackets, as in tcp://[::1]:61616")
        if not is_host_name(host):
            raise self._error(f"{shown!r}: the host has a sign that no host has; parameters follow a question mark")
        if not port_text:
            return unquote(host) or "localhost", default_port
        if not (port_text.isascii() and port_text.isdigit() and len(port_text) < 30 and 0 < int(port_text) < 65536):
            raise self._error(f"{shown!r}: the port is not a number from 1 to 65535")
        return unquote(host) or "localhost", int(port_text)

    def _pairs(self, query: str, where: str) -> list[tuple[str, str]]:
        pairs = []
        for parameter in url_parameters(query):
            if parameter.value is None:
                hint = "" if parameter.is_safe else "; write & and ; in a value as %26 and %3B"
                raise self._error(f"parameter {parameter.shown(_KNOWN)} in {where} has no value{hint}")
            name = SYNONYMS.get(parameter.name, parameter.name)
            if name not in _KNOWN:
                raise self._error(f"unknown parameter {parameter.shown()} in {where}{parameter.advice(_NAMES)}")
            if name in ACCEPTOR_ONLY:
                self._ignored.append(name)
            elif not (name in UNSUPPORTED and parameter.value.lower() in _SWITCHED_OFF):
                pairs.append((name, parameter.value))
        return pairs

    def _transport_value(self, name: str, value: str, where: str) -> bool | int | str:
        if name in UNSUPPORTED:
            raise self._error(f"parameter {name!r} in {where}: {UNSUPPORTED[name]}")
        if name in DISCOVERY_PARAMETERS:
            raise self._error(f"parameter {name!r} in {where} needs discovery, as in udp://231.7.7.7:9876")
        return self._read(TRANSPORT_PARAMETERS.get(name) or VM_PARAMETERS[name], name, value, where)

    def _read(self, reader: Callable[[str], T], name: str, value: str, where: str | None = None) -> T:
        try:
            return reader(value)
        except ValueError as error:
            raise self._error(f"parameter {name!r} in {where or self.shown}: {_reason(error)}") from None

    def _error(self, reason: str) -> InvalidURLException:
        is_clear = self.shown in reason or self.shown == HIDDEN
        return InvalidURLException(reason if is_clear else f"{reason} (in {self.shown})")


def _concerns_all(name: str) -> bool:
    return name in LOCATOR_PARAMETERS or name in FACTORY_PARAMETERS


def _changed(settings: LocatorSettings, attribute: str, reader: Reader, text: str) -> LocatorSettings:
    return evolve(settings, **{attribute: reader(text)})  # type: ignore[arg-type]  # it was read as its field's type


def _reason(error: ValueError) -> str:
    """Return the reason without the field's name and the value that surround it in a validator's error."""
    return re.sub(r"^\w+ (must be .*), not .*$", r"\1", str(error.args[0]))
