"""``cluster-connection-uri``: a cluster connection as one URL, ``static://(tcp://a:61616,tcp://b:61616)?name=value``.

``multicast://my-group?name=value`` names a ``discovery-group`` instead. Responsible for the grammar of Artemis, and for
the connectors inside the URL. Does not depend on the elements of a ``cluster-connection``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import count
from typing import Any

from attrs import evolve

from embedbroker.config import ClusterConnection, MessageLoadBalancing
from embedclient.model import CONNECTOR_PARAMETERS, TransportConfiguration, describe_name, did_you_mean, url_parameters

from ._discovery import is_discovery_group
from ._document import Element
from ._findings import Findings
from ._mapping import Fields, built, required_attribute, store
from ._tls import TLSParameters
from ._transport_url import parse_transport_url
from ._transports import connector_of
from ._values import WrongValue, boolean, number, one_of, prefixes, size, text, whole

__all__ = ["connection_of_uri"]

_QUERY = r"(?:\?(?P<query>.*))?"
# As in Artemis, a list in parentheses may stand behind both schemes, and needs no slashes.
_STATIC = re.compile(rf"(?:static|multicast):(?://)?\((?P<places>[^()]+)\){_QUERY}", re.DOTALL | re.IGNORECASE)
_GROUP = re.compile(rf"multicast://(?P<group>[^()/?#:@]+)/?{_QUERY}", re.DOTALL | re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_PARAMETERS: Fields = {
    "address": ("addresses", prefixes),
    "connectorName": ("connector", text),
    "messageLoadBalancingType": ("message_load_balancing", one_of(MessageLoadBalancing.__members__)),
    "maxHops": ("max_hops", whole),
    "duplicateDetection": ("use_duplicate_detection", boolean),
    "minLargeMessageSize": ("min_large_message_size", size),
    "confirmationWindowSize": ("confirmation_window_size", size),
    "producerWindowSize": ("producer_window_size", size),
    "clientId": ("client_id", text),
    "clientFailureCheckPeriod": ("check_period_ms", whole),
    "connectionTTL": ("connection_ttl_ms", whole),
    "callTimeout": ("call_timeout_ms", whole),
    "callFailoverTimeout": ("call_failover_timeout_ms", whole),
    "retryInterval": ("retry_interval_ms", whole),
    "retryIntervalMultiplier": ("retry_interval_multiplier", number),
    "maxRetryInterval": ("max_retry_interval_ms", whole),
    "initialConnectAttempts": ("initial_connect_attempts", whole),
    "reconnectAttempts": ("reconnect_attempts", whole),
    "clusterNotificationInterval": ("notification_interval_ms", whole),
    "clusterNotificationAttempts": ("notification_attempts", whole),
    "allowDirectConnectionsOnly": ("allow_direct_connections_only", boolean),
}


def connection_of_uri(
    element: Element,
    connectors: dict[str, TransportConfiguration],
    groups: Collection[str],
    tls: TLSParameters,
    findings: Findings,
) -> ClusterConnection | None:
    """Return the cluster connection, and add the connectors inside the URL to those of the file."""
    element.taken = True
    name = required_attribute(element, "name", findings)
    uri = required_attribute(element, "address", findings)
    if name is None or uri is None:
        return None
    place = element.attribute_place("address")
    plain = _SPACE.sub("", uri)
    matched = _STATIC.fullmatch(plain) or _GROUP.fullmatch(plain)
    if matched is None:
        findings.refuse(
            place,
            "is no URL such as static://(tcp://host:61616)?connectorName=artemis, or multicast://group?connectorName="
            "artemis with the name of a discovery-group",
        )
        return None
    errors_before = len(findings.errors)
    values = _values(matched["query"] or "", place, findings)
    store(values, "name", name, ClusterConnection, element.place, findings)
    connector = values.get("connector")
    if connector is None:
        findings.refuse(place, "has no connectorName: others would not know how to reach this broker")
    elif connector not in connectors:
        hint = did_you_mean(connector, [describe_name(each) for each in connectors])
        findings.refuse(place, f"there is no connector {describe_name(connector)!r}{hint}")
    found = matched.groupdict()
    if "places" in found:
        values["static_connectors"] = _static(found["places"], element, connectors, tls, findings)
    elif is_discovery_group(found["group"], place, groups, findings):
        values["discovery_group"] = found["group"]
    if len(findings.errors) > errors_before:
        return None
    return built(ClusterConnection, values, element.place, findings)


def _values(query: str, place: str, findings: Findings) -> dict[str, Any]:
    """Return the fields that the parameters set."""
    values: dict[str, Any] = {}
    for parameter in url_parameters(query):
        known = _PARAMETERS.get(parameter.name)
        shown = parameter.shown(_PARAMETERS)
        if known is None:
            findings.warn(place, f"parameter {shown} is unknown, and has no effect")
            continue
        field, reader = known
        try:
            store(values, field, reader(parameter.value), ClusterConnection, place, findings)
        except WrongValue as error:
            findings.refuse(place, f"parameter {shown} {error}")
    return values


def _static(
    places: str, element: Element, connectors: dict[str, TransportConfiguration], tls: TLSParameters, findings: Findings
) -> tuple[str, ...]:
    """Return the names of the connectors inside the URL: their scheme, host and port, and a number if that is taken."""
    names: list[str] = []
    place = element.attribute_place("address")
    for part in places.split(","):
        try:
            url = parse_transport_url(part, CONNECTOR_PARAMETERS)
        except WrongValue as error:
            findings.refuse(place, str(error))
            continue
        name = f"{url.scheme}://{url.host}" if url.scheme == "vm" else f"{url.scheme}://{url.host}:{url.port}"
        connector = connector_of(name, element, url, tls, findings)
        for copy in count(2):
            if connectors.setdefault(connector.name, connector) == connector:
                break
            # Another one leads there in another way, as without TLS.
            connector = evolve(connector, name=f"{name}#{copy}")
        names.append(connector.name)
    return tuple(names)
