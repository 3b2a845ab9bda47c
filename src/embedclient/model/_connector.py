"""Values that name other parties: connectors of brokers and branches of distributed transactions.

Responsible for their fields only. Does not depend on how a connector is dialled or a branch is resolved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import field, frozen

from ._checks import instance, whole
from ._transport_names import ACCEPTOR_PARAMETERS, CONNECTOR_PARAMETERS

if TYPE_CHECKING:
    from attrs import Attribute

__all__ = ["IN_VM_CONNECTOR_FACTORY", "TCP_CONNECTOR_FACTORY", "TransportConfiguration", "Xid"]

# Java peers instantiate the class that a connector names, so these two texts are part of the protocol.
TCP_CONNECTOR_FACTORY = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"
IN_VM_CONNECTOR_FACTORY = "org.apache.activemq.artemis.core.remoting.impl.invm.InVMConnectorFactory"

# Names of the local host; the broker's configuration decides which of them it announces.
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))

# The parameters whose values a repr shows, and those of which it shows the names: any other may be part of a password.
_PLACE = frozenset(("host", "port", "serverId"))
_SHOWN = _PLACE | ACCEPTOR_PARAMETERS | CONNECTOR_PARAMETERS

_text, _bytes = instance(str), instance(bytes)
# Four bytes with a sign, on the wire and in Java.
_format_id = whole(-(1 << 31), (1 << 31) - 1)


def _parameters(_: object, attribute: Attribute[Mapping[str, bool | int | str]], value: object) -> None:
    wanted = f"{attribute.name} must map names to texts, ints and bools"
    if not isinstance(value, Mapping):
        raise TypeError(f"{wanted}, not be of type {type(value).__name__}")
    for name, parameter in value.items():
        if not isinstance(name, str):
            raise TypeError(f"{wanted}, not {name!r}")
        if not isinstance(parameter, str | int):
            raise TypeError(f"{wanted}, not {name!r} to a value of type {type(parameter).__name__}")


def _shown(parameters: Mapping[str, bool | int | str]) -> str:
    known = {name: value if name in _PLACE else "***" for name, value in parameters.items() if name in _SHOWN}
    return repr(known if len(known) == len(parameters) else {**known, "***": "***"})


@frozen
class TransportConfiguration:
    """The way to reach a broker.

    Its repr has the place and the names of Artemis' parameters, but no other values: a keystore's password may be one.

    Args:
        name: name of the connector.
        factory: Java class of the connector, by default that of TCP.
        parameters: parameters of the transport, such as ``host`` and ``port``.
        extra: parameters that travel along without meaning to the transport.

    Raises:
        TypeError: a field is of another type; the text names it.
    """

    name: str = field(validator=_text)
    factory: str = field(default=TCP_CONNECTOR_FACTORY, validator=_text)
    parameters: Mapping[str, bool | int | str] = field(factory=dict, hash=False, validator=_parameters, repr=_shown)
    extra: Mapping[str, bool | int | str] = field(factory=dict, hash=False, validator=_parameters, repr=_shown)

    @property
    def host(self) -> str:
        """Return the ``host`` parameter, ``localhost`` when absent."""
        return str(self.parameters.get("host", "localhost"))

    @property
    def port_text(self) -> str:
        """Return the ``port`` parameter unchanged."""
        return str(self.parameters.get("port", 61616))

    @property
    def port(self) -> int:
        """Return the ``port`` parameter, which peers send as text or number; 61616 when absent."""
        return int(self.port_text)

    @property
    def _place(self) -> tuple[str, str]:
        """Return the place it leads to. The port as text: a peer may send a value that is no number."""
        host = self.host.lower()
        return "localhost" if host in _LOOPBACK else host, self.port_text

    def leads_where(self, other: TransportConfiguration) -> bool:
        """Return True if both lead to the same broker: equal host and port, or all parameters of another transport."""
        if self.factory != other.factory:
            return False
        if "host" in self.parameters or "host" in other.parameters:
            return self._place == other._place
        return dict(self.parameters) == dict(other.parameters)


@frozen
class Xid:
    """The id of one transaction branch, in the field order of the wire.

    Raises:
        TypeError: a field is of another type; the text names it.
        ValueError: the format id does not fit into 32 bits.
    """

    format_id: int = field(validator=_format_id)
    branch_qualifier: bytes = field(validator=_bytes)
    global_transaction_id: bytes = field(validator=_bytes)
