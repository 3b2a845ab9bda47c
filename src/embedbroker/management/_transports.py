"""Acceptors and connectors in the forms of Artemis: name, class and parameters, as an array and as JSON.

Responsible for leaving out passwords, whatever the parameters are. Does not depend on connections.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from attrs import field, fields, frozen

from embedclient.model import TLS, TLSSettings, TransportConfiguration, tls_parameter_name

from ._registry import Attribute, Call

__all__ = ["CONNECTOR_ATTRIBUTES", "Transport", "as_json", "as_rows", "tls_parameters"]

_HIDDEN = "****"


@frozen
class Transport:
    """Describe an acceptor or a connector.

    Attributes:
        name: Name in the configuration.
        factory: Class that makes it in Artemis.
        parameters: Parameters of its URL.
        extra: Parameters without meaning to the transport.
    """

    name: str
    factory: str
    parameters: Mapping[str, object]
    extra: Mapping[str, object] = field(factory=dict)


def _without_passwords(parameters: Mapping[str, object]) -> dict[str, object]:
    return {name: _HIDDEN if "password" in name.lower() else value for name, value in parameters.items()}


def as_rows(transports: Iterable[Transport]) -> list[list[object]]:
    """Return name, class and parameters of each."""
    return [[each.name, each.factory, _without_passwords(each.parameters)] for each in transports]


def as_json(transports: Iterable[Transport]) -> str:
    """Return them as a JSON array."""
    rows = [
        {
            "name": each.name,
            "factoryClassName": each.factory,
            "params": _without_passwords(each.parameters),
            "extraProps": _without_passwords(each.extra),
        }
        for each in transports
    ]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def tls_parameters(tls: TLS | None) -> dict[str, str]:
    """Return settings of TLS as parameters of a URL: texts, without passwords and without defaults."""
    if tls is None:
        return {}
    found = {"sslEnabled": "true"}
    if isinstance(tls, TLSSettings):
        default = TLSSettings()
        for each in fields(TLSSettings):
            value = getattr(tls, each.name)
            if value != getattr(default, each.name):
                found[tls_parameter_name(each.name)] = _HIDDEN if "password" in each.name else _shown(value)
    return found


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


# -- connectors ------------------------------------------------------------------------------------------------------


def _transport_of(connector: TransportConfiguration) -> Transport:
    parameters = {**connector.parameters, **tls_parameters(connector.tls)}
    return Transport(connector.name, connector.factory, parameters, connector.extra)


def _connectors(call: Call) -> list[Transport]:
    return [_transport_of(connector) for connector in call.kernel.bridges.connectors.values()]


CONNECTOR_ATTRIBUTES = (
    Attribute(
        "Connectors",
        "Object[]",
        lambda call: as_rows(_connectors(call)),
        "Name, class and parameters of each connector; no passwords.",
    ),
    Attribute("ConnectorsAsJSON", "String", lambda call: as_json(_connectors(call)), "The same as JSON."),
    Attribute("ConnectorServices", "String[]", lambda call: [], "Names of connector services; none exists."),
)
