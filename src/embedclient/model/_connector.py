"""Values that name other parties: connectors of brokers and branches of distributed transactions.

Responsible for their fields only. Does not depend on how a connector is dialled or a branch is resolved.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from ._checks import instance, whole
from ._tls import TLS, as_tls
from ._transport_names import ACCEPTOR_PARAMETERS, CONNECTOR_PARAMETERS, TLS_PARAMETERS
from ._url import describe_name

if TYPE_CHECKING:
    from attrs import Attribute

__all__ = [
    "IN_VM_CONNECTOR_FACTORY",
    "TCP_CONNECTOR_FACTORY",
    "TransportConfiguration",
    "Xid",
    "can_be_dialled",
    "unfit_parameter",
]

# Java peers instantiate the class that a connector names, so these two texts are part of the protocol.
TCP_CONNECTOR_FACTORY = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"
IN_VM_CONNECTOR_FACTORY = "org.apache.activemq.artemis.core.remoting.impl.invm.InVMConnectorFactory"

# Parameters of a TCP connection that are numbers, with the least and the greatest one that a system accepts.
_INT_MAX = 2**31 - 1
_NUMBERS = {
    "port": (1, 65_535),
    "localPort": (0, 65_535),
    "tcpSendBufferSize": (-1, _INT_MAX),
    "tcpReceiveBufferSize": (-1, _INT_MAX),
}
_DIGITS_MAX = 20
_SHOWN_CHARACTERS_MAX = 31
_NO_NUMBER = -(2**63)

# Names of the local host; the broker's configuration decides which of them it announces.
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))

# The parameters whose values a repr shows, and those of which it shows the names: any other may be part of a password.
_PLACE = frozenset(("host", "port", "serverId"))
_SHOWN = _PLACE | ACCEPTOR_PARAMETERS | CONNECTOR_PARAMETERS

# Parameters that decide which peer is trusted, and how this end proves its identity.
_RULES = TLS_PARAMETERS - {"sslEnabled", "sniHost"}
# Parameters of the near end, for the machine of the end that has the connector.
_NEAR_END = frozenset(("localAddress", "localPort"))
# Parameters of the private key of the end that has the connector.
_PRIVATE = frozenset(("keyStorePath", "keyStorePassword", "keyStoreType", "keyStoreProvider", "keyStoreAlias"))

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


def _shown_name(name: str) -> str:
    return repr(describe_name(name))


@frozen
class TransportConfiguration:
    """The way to reach a broker.

    Its repr has the place and the names of Artemis' parameters, but no other values: a keystore's password may be one.

    Args:
        name: name of the connector.
        factory: Java class of the connector, by default that of TCP.
        parameters: parameters of the transport, such as ``host`` and ``port``.
        extra: parameters that travel along without meaning to the transport.
        tls: `TLSSettings` or an ``ssl.SSLContext``; a connector that has one uses TLS. It stays in this process. None:
            the parameters decide, ``sslEnabled`` and its companions.

    Raises:
        TypeError: a field is of another type; the text names it.
    """

    name: str = field(validator=_text, repr=_shown_name)
    factory: str = field(default=TCP_CONNECTOR_FACTORY, validator=_text)
    parameters: Mapping[str, bool | int | str] = field(factory=dict, hash=False, validator=_parameters, repr=_shown)
    extra: Mapping[str, bool | int | str] = field(factory=dict, hash=False, validator=_parameters, repr=_shown)
    tls: TLS | None = field(default=None, eq=False, repr=False, validator=as_tls)

    @property
    def is_secure(self) -> bool:
        """Return True if the connector uses TLS."""
        return self.tls is not None or str(self.parameters.get("sslEnabled", "")).lower() == "true"

    def with_tls(self, tls: TLS) -> TransportConfiguration:
        """Return the same connector with TLS and the settings ``tls``. A connector inside one process is unchanged.

        Args:
            tls: `TLSSettings` or an ``ssl.SSLContext``.
        """
        if self.factory == IN_VM_CONNECTOR_FACTORY:
            return self
        kept = {name: value for name, value in self.parameters.items() if name not in TLS_PARAMETERS}
        return evolve(self, parameters={**kept, "sslEnabled": True}, tls=tls)

    def with_local_tls(
        self, local: Sequence[TransportConfiguration], otherwise: TLS | None = None
    ) -> TransportConfiguration:
        """Return a connector with the TLS settings of this end, if it has none or a peer announced it.

        Files that a peer names are not those of this process. So the stores and rules of the first connector in
        ``local`` that has some replace them, else ``otherwise``, else those of the system. A connector of ``local``
        that leads to the same place comes first. The requested host name stays the announced one. A connector of
        ``local`` is returned unchanged, except that it takes ``otherwise`` if it has no stores and rules.

        Args:
            local: the connectors of this end, in order of preference.
            otherwise: settings for a connector without any in ``local``; None uses those of the system.
        """
        if not self.is_secure or self.factory == IN_VM_CONNECTOR_FACTORY:
            return self
        if any(self is one for one in local):
            return self if otherwise is None or self._has_tls_rules else evolve(self, tls=otherwise)
        ruling = [one for one in local if one._has_tls_rules]
        chosen = next((one for one in (*(one for one in ruling if self.leads_where(one)), *ruling)), None)
        kept = {name: value for name, value in self.parameters.items() if name not in TLS_PARAMETERS}
        rules: dict[str, bool | int | str] = {}
        if chosen is not None:
            rules = {name: value for name, value in chosen.parameters.items() if name in TLS_PARAMETERS}
            if not self.leads_where(chosen):
                rules.pop("sniHost", None)
        if "sniHost" in self.parameters:
            rules.setdefault("sniHost", self.parameters["sniHost"])
        tls = otherwise if chosen is None else chosen.tls
        parameters = {**kept, **rules, "sslEnabled": True}
        # The same object for the same values: clients compare the servers that they have used by identity.
        is_same = parameters == self.parameters and tls is self.tls
        return self if is_same else evolve(self, parameters=parameters, tls=tls)

    @property
    def _has_tls_rules(self) -> bool:
        """Return True if the connector uses TLS with stores or rules, and not only with what the system has."""
        return self.is_secure and (self.tls is not None or bool(_RULES.intersection(self.parameters)))

    @property
    def announced(self) -> TransportConfiguration:
        """Return the connector without the parameters of its private key, which peers and clients must not learn."""
        if not _PRIVATE.intersection(self.parameters):
            return self
        return evolve(self, parameters={n: v for n, v in self.parameters.items() if n not in _PRIVATE})

    @property
    def without_local_address(self) -> TransportConfiguration:
        """Return a connector that a peer announced, without the parameters that mean a machine of the peer."""
        if not _NEAR_END.intersection(self.parameters):
            return self
        return evolve(self, parameters={n: v for n, v in self.parameters.items() if n not in _NEAR_END})

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
    def place_text(self) -> str:
        """Return where it leads, in a form for logs: host and port, or the name of a broker in this process."""
        if self.factory == IN_VM_CONNECTOR_FACTORY:
            return f"vm://{describe_name(str(self.parameters.get('serverId', '')))}"
        return f"{describe_name(self.host)}:{describe_name(self.port_text)}"

    @property
    def _place(self) -> tuple[str, str]:
        """Return the place it leads to. The port as text: a peer may send a value that is no number."""
        host = self.host.lower()
        return "localhost" if host in _LOOPBACK else host, self.port_text

    @cached_property
    def destination(self) -> Hashable:
        """Where it leads, equal for connectors that lead to the same broker; see `leads_where`."""
        if "host" in self.parameters or self.factory == TCP_CONNECTOR_FACTORY:
            return self.factory, self._place
        return self.factory, frozenset(item for item in self.parameters.items() if item[0] not in _NEAR_END)

    def leads_where(self, other: TransportConfiguration) -> bool:
        """Return True if both lead to the same broker: equal host and port, or all parameters of another transport.

        Args:
            other: the other connector.
        """
        return self.destination == other.destination


def can_be_dialled(connector: TransportConfiguration) -> bool:
    """Return True if a connector, which may come from a peer, names a place and a way to it that are known here."""
    if connector.factory not in (IN_VM_CONNECTOR_FACTORY, TCP_CONNECTOR_FACTORY):
        return False
    return unfit_parameter(connector) is None


def unfit_parameter(connector: TransportConfiguration) -> str | None:
    """Return why a parameter cannot be used to connect; None if each can. A peer may announce any value.

    Values are shown for the port only: another one may be part of a password.
    """
    if connector.factory == IN_VM_CONNECTOR_FACTORY:
        is_named = "serverId" in connector.parameters
        return None if is_named else f"the connector {describe_name(connector.name)!r} has no serverId"
    for name, (least, most) in _NUMBERS.items():
        value = connector.parameters.get(name)
        if value is not None and not least <= _number(value) <= most:
            shown = repr(value)
            shown = shown if len(shown) <= _SHOWN_CHARACTERS_MAX else f"{shown[:_SHOWN_CHARACTERS_MAX]}..."
            found = f"{shown}, not" if name == "port" else "not"
            return f"the parameter {name} is {found} a number from {least} to {most}"
    return None


def _number(value: bool | int | str) -> int:
    """Return the number that a peer sent as text or number; another text is a number out of every range."""
    if isinstance(value, int):
        return value
    # The length first: Python raises ValueError for a number of more than some thousand digits.
    is_number = len(value) <= _DIGITS_MAX and value.isascii() and value.removeprefix("-").isdecimal()
    return int(value) if is_number else _NO_NUMBER


@frozen
class Xid:
    """The id of one transaction branch, in the field order of the wire.

    Args:
        format_id: format of the other two, -2**31 to 2**31 - 1.
        branch_qualifier: id of the branch within its transaction.
        global_transaction_id: id of the transaction, equal in all branches.

    Raises:
        TypeError: a field is of another type; the text names it.
        ValueError: the format id does not fit into 32 bits.
    """

    format_id: int = field(validator=_format_id)
    branch_qualifier: bytes = field(validator=_bytes)
    global_transaction_id: bytes = field(validator=_bytes)
