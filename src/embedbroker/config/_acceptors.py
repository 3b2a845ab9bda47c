"""The places where a broker listens, as frozen values.

Responsible for the fields of one place, and for places that exclude each other. Does not depend on listeners.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import Attribute, field, frozen

from embedclient.model import TLS, TLSSettings, as_tls, describe_name

from ._checks import as_tuple, instance, named, optional, prefixes, text, whole
from ._nested import listed

__all__ = ["ANY_HOST", "AcceptorConfig", "as_acceptors", "host", "tls_text"]

# Hosts with which a broker listens on all addresses of its machine: those of IPv4, and those of IPv6.
_ANY_IPV4, _ANY_IPV6 = "0.0.0.0", "::"
ANY_HOST = (_ANY_IPV4, _ANY_IPV6)


def host(acceptor: object, attribute: Attribute[str], value: object) -> None:
    """Check the host of a place to listen on."""
    text(acceptor, attribute, value)
    if not str(value).strip():
        raise ValueError(
            f"host must name an address to listen on, such as 127.0.0.1, or 0.0.0.0 for all, not {value!r}"
        )


def tls_text(value: TLS | None) -> str:
    """Return the representation of TLS settings, without keys."""
    return repr(value) if value is None or isinstance(value, TLSSettings) else type(value).__name__


@frozen
class AcceptorConfig:
    """Configure one of several places where a broker listens.

    Attributes:
        name: Name of the place, in management and in log lines.
        host: Host on which the broker listens.
        port: Port on which the broker listens, 0 to 65,535; 0 takes a free one.
        anycast_prefixes: Prefixes of addresses by which clients state the routing type anycast.
        multicast_prefixes: Prefixes for the routing type multicast.
        tls: `TLSSettings` or an ``ssl.SSLContext`` of a server: clients must use TLS. None: no TLS.
        cluster_connection: Name of the cluster connection whose members clients receive here, and at which other
            brokers join. None: the first one, or the one that the ``ha_policy`` names.
        connections_max: Connections at this place. A further one is closed, or the oldest that has sent no request.
            None: no limit but that of the broker.
        handshake_timeout_ms: Time for the first bytes of a connection; 0 for no limit. None: that of the broker.
        auto_start: Whether the broker listens here from its start on; False: once management starts the acceptor.

    Raises:
        ValueError, TypeError: a value is out of its range; the text names the field.
    """

    name: str = field(validator=named)
    host: str = field(default="127.0.0.1", validator=host)
    port: int = field(default=0, validator=whole(0, 65_535))
    anycast_prefixes: tuple[str, ...] = field(default=(), converter=as_tuple, validator=prefixes)
    multicast_prefixes: tuple[str, ...] = field(default=(), converter=as_tuple, validator=prefixes)
    tls: TLS | None = field(default=None, validator=as_tls, repr=tls_text)
    cluster_connection: str | None = field(default=None, validator=optional(named))
    connections_max: int | None = field(default=None, validator=optional(whole(0)))
    handshake_timeout_ms: int | None = field(default=None, validator=optional(whole(0)))
    auto_start: bool = field(default=True, validator=instance(bool))


def as_acceptors(value: object) -> tuple[AcceptorConfig, ...]:
    """Return acceptors, whose names and addresses differ."""
    value = listed(AcceptorConfig, value, "acceptors")
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise TypeError(f"acceptors must be a list of AcceptorConfigs, not {value!r}")
    for number, acceptor in enumerate(value):
        if not isinstance(acceptor, AcceptorConfig):
            raise TypeError(f"acceptors must be a list of AcceptorConfigs, not of {acceptor!r}")
        _check_apart(acceptor, value[:number])
    return tuple(value)


def _check_apart(acceptor: AcceptorConfig, others: Sequence[AcceptorConfig]) -> None:
    for other in others:
        if acceptor.name == other.name:
            raise ValueError(
                f"acceptors: there are two of the name {describe_name(acceptor.name)!r},"
                f" at {other.host}:{other.port} and {acceptor.host}:{acceptor.port}; give each its own"
            )
        if acceptor.port and acceptor.port == other.port and _share_an_address(acceptor.host, other.host):
            raise ValueError(
                f"acceptors: {describe_name(other.name)!r} at {other.host}:{other.port} and"
                f" {describe_name(acceptor.name)!r} at {acceptor.host}:{acceptor.port} are at one address; change the"
                " port of one of the two"
            )


def _share_an_address(one: str, other: str) -> bool:
    if one == other:
        return True
    is_ipv6 = ":" in one or ":" in other
    return (_ANY_IPV6 if is_ipv6 else _ANY_IPV4) in (one, other) and (":" in one) == (":" in other)
