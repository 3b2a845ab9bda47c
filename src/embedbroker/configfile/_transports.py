"""``acceptors`` and ``connectors``: where the broker listens, and names for the places of brokers.

Responsible for choosing the acceptors that are opened, those that serve CORE over TCP, and for reporting the treatment
of the others. Does not depend on how a broker listens.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from embedbroker.config import AcceptorConfig, BrokerConfig, as_acceptors
from embedclient.model import (
    ACCEPTOR_PARAMETERS,
    CONNECTOR_PARAMETERS,
    IN_VM_CONNECTOR_FACTORY,
    TCP_CONNECTOR_FACTORY,
    TLS_PARAMETERS,
    TransportConfiguration,
    describe_name,
    did_you_mean,
)

from ._document import Element
from ._findings import Findings
from ._mapping import named_once, required_attribute, store, value_of
from ._tls import TLSParameters
from ._transport_url import TransportURL, parse_transport_url
from ._values import WrongValue, boolean, seconds, text, whole

__all__ = ["acceptor_values", "connector_of", "connector_refs", "connectors_of", "is_connector"]

_FAMILIAR = {"sslEnabled": "false"}
_PREFIXES = {"anycastPrefix": "anycast_prefixes", "multicastPrefix": "multicast_prefixes"}
_LIMITS = ("connectionsAllowed", "handshake-timeout")
_IDLE = {"scheme", "protocol", "protocols", "clusterConnection", "autoStart", *_LIMITS, *_PREFIXES}
_DEFAULT_NAME = BrokerConfig().acceptor_name


def acceptor_values(core: Element, tls: TLSParameters, findings: Findings) -> dict[str, Any]:
    """Return the fields of a `BrokerConfig` that the acceptors set."""
    holder = core.take("acceptors")
    elements = [] if holder is None else holder.take_all("acceptor")
    if not elements:
        findings.warn(f"{core.place}/acceptors", "there are none: this broker listens on a free port of 127.0.0.1")
        return {}
    names: dict[str, Element] = {}
    opened: list[tuple[Element, TransportURL]] = []
    reasons: list[str] = []
    all_readable = True
    for element in elements:
        if name := element.attribute("name"):
            named_once(names, name, element, element.place, findings)
            if names[name] is not element:
                continue
        url = _url(element, ACCEPTOR_PARAMETERS, findings)
        if url is None:
            all_readable = False
            continue
        reason = _why_not(url)
        if reason:
            findings.warn(element.place, f"is not opened: {reason}")
            reasons.append(reason)
        else:
            opened.append((element, url))
    # The error of an acceptor that cannot be read is enough: it may be the one to open.
    if all_readable and not opened:
        findings.refuse(f"{core.place}/acceptors", f"none of them can be opened: {'; '.join(reasons)}")
    if len(opened) == 1 and _is_plain(opened[0][1]):
        [(element, url)] = opened
        return _of_one(_acceptor(element, url, BrokerConfig, tls, findings))
    acceptors: list[AcceptorConfig] = []
    for element, url in opened:
        values = _acceptor(element, url, AcceptorConfig, tls, findings)
        acceptor = AcceptorConfig(**{"name": _DEFAULT_NAME, **values})
        try:
            as_acceptors([*acceptors, acceptor])
        except ValueError as error:
            findings.refuse(element.place, str(error).partition(": ")[2])
        else:
            acceptors.append(acceptor)
    return {"acceptors": acceptors} if acceptors else {}


def _is_plain(url: TransportURL) -> bool:
    """Return True if the fields of a broker with one acceptor can hold what a URL has."""
    return "clusterConnection" not in url.parameters and url.parameters.get("autoStart", "true").lower() == "true"


def _of_one(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a broker with one acceptor."""
    return {"acceptor_name" if name == "name" else name: value for name, value in values.items()}


def _why_not(url: TransportURL) -> str:
    """Return why this broker cannot open an acceptor, or an empty text."""
    if url.scheme == "vm":
        return "vm:// URLs of the same process reach a broker by its name without an acceptor"
    if "sslEnabled" not in url.parameters:
        wanted = [name for name, value in url.parameters.items() if name in TLS_PARAMETERS and value.lower() != "false"]
        if wanted:
            names = ", ".join(wanted)
            return f"sslEnabled=true is missing, which {names} would need; write sslEnabled=false to open it without"
    if "securityDomain" in url.parameters:
        return "securityDomain is not supported: all acceptors use the users of the broker"
    if url.parameters.get("proxyProtocolEnabled", "false").lower() != "false":
        return "the PROXY protocol is not supported"
    protocols = _protocols(url)
    if protocols and "CORE" not in protocols:
        return f"only CORE is spoken, not {', '.join(protocols)}"
    return ""


def _protocols(url: TransportURL) -> list[str]:
    listed = url.parameters.get("protocols") or url.parameters.get("protocol") or ""
    return [entry.strip().upper() for entry in listed.split(",") if entry.strip()]


def _acceptor(
    element: Element, url: TransportURL, kind: type[Any], tls: TLSParameters, findings: Findings
) -> dict[str, Any]:
    """Return the values of an acceptor by the names of an `AcceptorConfig`; ``kind`` has its limits."""
    values: dict[str, Any] = {"host": url.host, "port": url.port}
    if name := element.attribute("name"):
        values["name"] = name
    if cluster := url.parameters.get("clusterConnection"):
        values["cluster_connection"] = cluster
    if "autoStart" in url.parameters:
        try:
            if not boolean(url.parameters["autoStart"]):
                values["auto_start"] = False
        except WrongValue as error:
            findings.refuse(element.place, f"parameter 'autoStart': {error}")
    if url.other_hosts:
        findings.warn(
            element.place, f"this broker listens on one host, {url.host}, not on {', '.join(url.other_hosts)}"
        )
    others = [entry for entry in _protocols(url) if entry != "CORE"]
    if others:
        findings.warn(element.place, f"only CORE is spoken, not {', '.join(others)}")
    secure = tls.is_on(element, url)
    if secure:
        values["tls"] = tls.of_acceptor(element, url)
    for name, setting in _PREFIXES.items():
        listed = [each.strip() for each in url.parameters.get(name, "").split(",")]
        if any(listed):
            values[setting] = tuple(each for each in listed if each)
    for name in _LIMITS:
        _limit(element, url, name, values, kind, findings)
    idle = [
        name
        for name, value in url.parameters.items()
        if name not in _IDLE and not (secure and name in tls.USED) and _FAMILIAR.get(name, "").lower() != value.lower()
    ]
    if idle:
        findings.warn(element.place, f"parameters without effect here: {', '.join(idle)}")
    return values


def _limit(
    element: Element, url: TransportURL, name: str, values: dict[str, Any], kind: type[Any], findings: Findings
) -> None:
    if name not in url.parameters:
        return
    field, reader = {
        "connectionsAllowed": ("connections_max", whole),
        "handshake-timeout": ("handshake_timeout_ms", seconds),
    }[name]
    try:
        value = reader(url.parameters[name])
    except WrongValue as error:
        reason, _, _ = str(error).partition(", not ")
        findings.refuse(element.place, f"parameter {name!r}: {reason}")
        return
    # In Artemis -1 means no limit. Time can be without one; of connections the broker's own is high.
    if value >= 0:
        store(values, field, value, kind, element.place, findings)
    elif field == "handshake_timeout_ms":
        values[field] = 0


def connectors_of(core: Element, tls: TLSParameters, findings: Findings) -> dict[str, TransportConfiguration]:
    """Return the connectors by name. Numbers stay texts, like everything that Java peers read from a file."""
    connectors: dict[str, TransportConfiguration] = {}
    holder = core.take("connectors")
    for element in [] if holder is None else holder.take_all("connector"):
        name = required_attribute(element, "name", findings)
        url = _url(element, CONNECTOR_PARAMETERS, findings)
        if name is None or url is None:
            continue
        named_once(connectors, name, connector_of(name, element, url, tls, findings), element.place, findings)
    return connectors


def connector_of(
    name: str, element: Element, url: TransportURL, tls: TLSParameters, findings: Findings
) -> TransportConfiguration:
    """Return the connector of a URL."""
    own = tls.of_connector(element, url) if tls.is_on(element, url) else None
    if url.scheme == "vm":
        factory, place = IN_VM_CONNECTOR_FACTORY, {"serverId": url.host}
    else:
        factory, place = TCP_CONNECTOR_FACTORY, {"host": url.host, "port": str(url.port)}
    if url.other_hosts:
        findings.warn(
            element.place,
            f"leads to one host, {url.host}, not to {', '.join(url.other_hosts)}: write one connector for each",
        )
    return TransportConfiguration(name, factory, {**place, **url.parameters}, url.extra, own)


def _url(element: Element, known: frozenset[str], findings: Findings) -> TransportURL | None:
    try:
        url = parse_transport_url(text(element.text), known)
    except WrongValue as error:
        findings.refuse(element.place, str(error))
        return None
    for note in url.notes:
        findings.warn(element.place, note)
    return url


def connector_refs(element: Element, connectors: Collection[str], findings: Findings) -> tuple[str, ...]:
    """Return the names in a list of ``connector-ref``; each must be one of the file's connectors."""
    names: list[str] = []
    for ref in element.take_all("connector-ref"):
        name = value_of(ref, text, findings)
        if isinstance(name, str) and is_connector(name, ref, connectors, findings):
            names.append(name)
    return tuple(names)


def is_connector(name: str, ref: Element, connectors: Collection[str], findings: Findings) -> bool:
    """Return True if there is a connector of the name; add an error if not."""
    if name not in connectors:
        others = [describe_name(connector) for connector in connectors]
        findings.refuse(ref.place, f"there is no connector {describe_name(name)!r}{did_you_mean(name, others)}")
    return name in connectors
