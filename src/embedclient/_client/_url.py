"""Artemis URLs: from the text a user typed to locator settings, factory settings and connectors.

Responsible for the grammar (single URLs, lists, fragments), for the parameter names and their types, and for errors
that name the parameter, the value and where it stands. A name nobody knows is refused, with a similar one if there is
one, because silence about a typing error costs days. Refuses to know what a setting does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar
from urllib.parse import unquote

from attrs import evolve, field, frozen

from embedclient._client._url_parameters import (
    FACTORY_PARAMETERS,
    LOCATOR_PARAMETERS,
    SYNONYMS,
    TRANSPORT_PARAMETERS,
    UNSUPPORTED,
    VM_PARAMETERS,
    Reader,
    Value,
)
from embedclient.agent import LocatorSettings
from embedclient.errors import InvalidURLException
from embedclient.model import IN_VM_CONNECTOR_FACTORY, TCP_CONNECTOR_FACTORY, TransportConfiguration, did_you_mean

T = TypeVar("T")
DEFAULT_PORT = 61616
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_NEXT_MEMBER = re.compile(r",\s*(?=[A-Za-z][A-Za-z0-9+.-]*://)")
_SECRET = re.compile(r"(?i)((?:^|[?&;#])[^=&;#]*password[^=&;#]*=)[^&;#,)]*")
_SWITCHED_OFF = ("", "false", "null")
_NOT_YET = {
    "udp": "discovery groups (udp://) are not supported by this client version: list the brokers, "
    "as in (tcp://a:61616,tcp://b:61616)",
    "jgroups": "jgroups:// needs a Java library and is not supported: list the brokers, "
    "as in (tcp://a:61616,tcp://b:61616)",
}


@frozen
class FactorySettings:
    """What a URL says beyond the locator's settings. `policy` is the simple name of a load-balancing policy."""

    policy: str = "RoundRobin"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    client_id: str | None = None
    enable_shared_client_id: bool = False
    type: str = "CF"


@frozen
class ClientURL:
    """One parsed URL. `text` is safe to show: passwords are masked."""

    text: str
    settings: LocatorSettings
    factory: FactorySettings
    connectors: tuple[TransportConfiguration, ...]


def parse_url(text: str) -> ClientURL:
    """Read an Artemis URL.

    Raises:
        InvalidURLException: the text is not such a URL; the message names the part and the reason.
    """
    return _Parser(url_text(text).strip()).parse()


def url_text(url: object) -> str:
    """What a user gave as a URL. Raises InvalidURLException for what is no text, without showing its secrets."""
    if not isinstance(url, str):
        kind = "None" if url is None else type(url).__name__
        raise InvalidURLException(f"the URL of a broker is a str such as 'tcp://localhost:61616', not {kind}")
    return url


def masked(text: str) -> str:
    """The same URL with the values of password parameters hidden."""
    return _SECRET.sub(r"\1***", text)


class _Parser:
    """Holds the text while it is read, so that every error can show it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.shown = masked(text)

    def parse(self) -> ClientURL:
        members, main_query = self._split()
        settings = LocatorSettings()
        given: set[str] = set()
        factory: dict[str, Value] = {}
        shared: dict[str, bool | int | str] = {}
        for name, value in self._pairs(main_query, self.shown):
            if name in LOCATOR_PARAMETERS:
                attribute, reader = LOCATOR_PARAMETERS[name]
                changed = partial(_changed, settings, attribute, reader)
                settings = self._read(changed, name, value)
                given.add(attribute)
            elif name in FACTORY_PARAMETERS:
                attribute, reader = FACTORY_PARAMETERS[name]
                if attribute:
                    factory[attribute] = self._read(reader, name, value)
            else:
                shared[name] = self._transport_value(name, value, self.shown)
        connectors = tuple(self._connector(member, index, shared) for index, member in enumerate(members))
        if all(connector.factory == IN_VM_CONNECTOR_FACTORY for connector in connectors):
            # Inside one process nothing vanishes without notice, so Artemis watches in-VM connections only on demand.
            unwatched = dict.fromkeys({"client_failure_check_period_ms", "connection_ttl_ms"} - given, -1)
            settings = evolve(settings, **unwatched)  # type: ignore[arg-type]  # both are whole numbers
        factory_settings = FactorySettings(**factory)  # type: ignore[arg-type]  # each was read as its field's type
        return ClientURL(self.shown, settings, factory_settings, connectors)

    def _split(self) -> tuple[list[str], str]:
        """The connectors' URLs and the query that is meant for all of them."""
        if self.text.startswith("("):
            inside, closed, rest = self.text[1:].partition(")")
            if not closed:
                raise self._error("the list of brokers has no closing bracket")
            if rest and not rest.startswith("?"):
                raise self._error(f"unexpected text after the list of brokers: {masked(rest)!r}")
            return self._members(inside), rest[1:]
        main, _, fragment = self.text.partition("#")
        first, _, query = main.partition("?")
        if _NEXT_MEMBER.search(first):
            raise self._error("a list of brokers stands in brackets: (tcp://a:61616,tcp://b:61616)?name=value")
        return [first, *(self._members(fragment) if fragment else [])], query

    def _members(self, text: str) -> list[str]:
        members = [member.strip() for member in _NEXT_MEMBER.split(text)]
        if not all(members):
            raise self._error("the list of brokers is empty or has an empty entry")
        return members

    def _connector(self, member: str, index: int, shared: Mapping[str, bool | int | str]) -> TransportConfiguration:
        matched = _SCHEME.fullmatch(member)
        if matched is None:
            raise self._error(f"{masked(member)!r} has no scheme; write tcp://host:port or vm://name")
        scheme = matched["scheme"].lower()
        place, _, query = matched["rest"].partition("?")
        parameters = dict(shared)
        for name, value in self._pairs(query, masked(member)):
            if name in LOCATOR_PARAMETERS or name in FACTORY_PARAMETERS:
                raise self._error(f"{name!r} concerns the whole list and cannot stand in its entry {masked(member)!r}")
            parameters[name] = self._transport_value(name, value, masked(member))
        connector_name = str(parameters.pop("name", f"{scheme}-{index}"))
        if scheme == "vm":
            if not place.strip("/"):
                raise self._error(f"{masked(member)!r} has no broker name; write vm://name")
            return TransportConfiguration(
                connector_name, IN_VM_CONNECTOR_FACTORY, {**parameters, "serverId": unquote(place.strip("/"))}
            )
        if scheme != "tcp":
            reason = _NOT_YET.get(scheme, f"unknown scheme {scheme!r}; write tcp://host:port or vm://name")
            raise self._error(reason)
        host, port = self._host_and_port(place.rstrip("/"), member)
        return TransportConfiguration(connector_name, TCP_CONNECTOR_FACTORY, {**parameters, "host": host, "port": port})

    def _host_and_port(self, place: str, member: str) -> tuple[str, int]:
        if "@" in place:
            raise self._error(f"{masked(member)!r}: credentials go into the parameters user and password")
        host, port_text = place, ""
        if place.startswith("["):
            host, closed, rest = place[1:].partition("]")
            if not closed or (rest and not rest.startswith(":")):
                raise self._error(f"{masked(member)!r}: an IPv6 address is written as tcp://[::1]:61616")
            port_text = rest[1:]
        elif ":" in place:
            host, _, port_text = place.rpartition(":")
        if ":" in host and not place.startswith("["):
            raise self._error(f"{masked(member)!r}: an IPv6 address needs brackets, as in tcp://[::1]:61616")
        if not port_text:
            return unquote(host) or "localhost", DEFAULT_PORT
        if not (port_text.isascii() and port_text.isdigit() and 0 < int(port_text) < 65536):
            raise self._error(f"{masked(member)!r}: the port {port_text!r} is not a number from 1 to 65535")
        return unquote(host) or "localhost", int(port_text)

    def _pairs(self, query: str, where: str) -> list[tuple[str, str]]:
        pairs = []
        for item in re.split("[&;]", query):
            if not item:
                continue
            name, separator, value = item.partition("=")
            if not separator:
                raise self._error(f"parameter {name!r} in {where} has no value")
            name = unquote(name).strip()
            value = unquote(value).strip()
            if not (name in UNSUPPORTED and value.lower() in _SWITCHED_OFF):
                pairs.append((SYNONYMS.get(name, name), value))
        return pairs

    def _transport_value(self, name: str, value: str, where: str) -> bool | int | str:
        reader = TRANSPORT_PARAMETERS.get(name) or VM_PARAMETERS.get(name)
        if reader is None:
            raise self._unknown(name, where)
        return self._read(reader, name, value, where)

    def _unknown(self, name: str, where: str) -> InvalidURLException:
        if name in UNSUPPORTED:
            return self._error(f"parameter {name!r} in {where}: {UNSUPPORTED[name]}")
        known = [*LOCATOR_PARAMETERS, *FACTORY_PARAMETERS, *TRANSPORT_PARAMETERS, *VM_PARAMETERS, *UNSUPPORTED]
        return self._error(f"unknown parameter {name!r} in {where}{did_you_mean(name, known)}")

    def _read(self, reader: Callable[[str], T], name: str, value: str, where: str | None = None) -> T:
        try:
            return reader(value)
        except ValueError as error:
            shown = "***" if "password" in name.lower() else repr(value)
            raise self._error(f"parameter {name!r} in {where or self.shown} is {shown}: {_reason(error)}") from None

    def _error(self, reason: str) -> InvalidURLException:
        return InvalidURLException(reason if self.shown in reason else f"{reason} (in {self.shown})")


def _changed(settings: LocatorSettings, attribute: str, reader: Reader, text: str) -> LocatorSettings:
    return evolve(settings, **{attribute: reader(text)})  # type: ignore[arg-type]  # it was read as its field's type


def _reason(error: ValueError) -> str:
    """The reader's words, or those of a validator, which stand between the name of a field and the value."""
    return re.sub(r"^\w+ (must be .*), not .*$", r"\1", str(error.args[0]))
