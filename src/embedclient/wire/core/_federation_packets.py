"""The packet by which a broker requests that another one federate from it.

Responsible for the configuration in FEDERATION_DOWNSTREAM_CONNECT. Does not depend on federation itself. No capture of
this packet exists to compare with.
"""

from __future__ import annotations

from typing import Final

from ...errors import LocalProtocolError, RemoteProtocolError
from ...model import TransportConfiguration
from .._buffer import Reader
from ._packet_table import (
    Kind,
    Packet,
    Record,
    connector,
    f64,
    flag,
    i32,
    i64,
    of_kind,
    optional_flag,
    optional_i32,
    optional_i64,
    optional_string,
    record,
    sequence,
    string,
)
from ._packet_type import PacketType

strings = sequence(string, 4)


class FederationQueueMatch(Record):
    """A selection of queues by address."""

    address_match: str | None = optional_string()
    queue_match: str | None = optional_string()


queue_matches = sequence(record(FederationQueueMatch), 2)


class FederationQueuePolicy(Record):
    """Queues to federate."""

    name: str = string()
    include_federated: bool = flag()
    priority_adjustment: int | None = optional_i32()
    transformer: str | None = optional_string()
    includes: tuple[FederationQueueMatch, ...] = of_kind(queue_matches)
    excludes: tuple[FederationQueueMatch, ...] = of_kind(queue_matches)


class FederationAddressPolicy(Record):
    """Addresses to federate."""

    name: str = string()
    auto_delete: bool | None = optional_flag()
    auto_delete_delay: int | None = optional_i64()
    auto_delete_message_count: int | None = optional_i64()
    max_hops: int = i32()
    transformer: str | None = optional_string()
    includes: tuple[str, ...] = of_kind(strings)
    excludes: tuple[str, ...] = of_kind(strings)
    enable_divert_bindings: bool = flag(default=False, tail=True)


class FederationPolicySet(Record):
    """Policies under one name."""

    name: str = string()
    policies: tuple[str, ...] = of_kind(strings)


class FederationProperty(Record):
    """One setting of a transformer."""

    key: str = string()
    value: str = string()


properties = sequence(record(FederationProperty), 8)


class FederationTransformer(Record):
    """A transformer by class name."""

    name: str = string()
    class_name: str = string()
    properties: tuple[FederationProperty, ...] = of_kind(properties)


transformers = sequence(record(FederationTransformer), 12)


class FederationConnection(Record):
    """How the other broker must connect; times in milliseconds."""

    username: str | None = optional_string()
    password: str | None = optional_string()
    share_connection: bool = flag()
    priority_adjustment: int = i32()
    client_failure_check_period: int = i64()
    connection_ttl: int = i64()
    retry_interval: int = i64()
    retry_interval_multiplier: float = f64()
    max_retry_interval: int = i64()
    initial_connect_attempts: int = i32()
    reconnect_attempts: int = i32()
    call_timeout: int = i64()
    call_failover_timeout: int = i64()


class FederationStream(Record):
    """The broker to connect to, and the policies to apply."""

    name: str = string()
    connection: FederationConnection = of_kind(record(FederationConnection))
    policies: tuple[str, ...] = of_kind(strings)
    upstream: TransportConfiguration = connector()


FederationPolicy = FederationQueuePolicy | FederationAddressPolicy | FederationPolicySet

# Java peers instantiate the named class, so these texts are part of the protocol.
_PACKAGE: Final = "org.apache.activemq.artemis.core.config.federation."
_POLICY_CLASSES: Final[dict[str, type[FederationPolicy]]] = {
    _PACKAGE + "FederationQueuePolicyConfiguration": FederationQueuePolicy,
    _PACKAGE + "FederationAddressPolicyConfiguration": FederationAddressPolicy,
    _PACKAGE + "FederationPolicySet": FederationPolicySet,
}
_POLICY_NAMES: Final = {policy_class: name for name, policy_class in _POLICY_CLASSES.items()}


def _read_policy(reader: Reader) -> FederationPolicy:
    name = reader.string()
    policy_class = _POLICY_CLASSES.get(name)
    if policy_class is None:
        raise RemoteProtocolError(f"unknown federation policy {name}")
    return policy_class.read_body(reader, 0)


def _append_policy(out: bytearray, policy: FederationPolicy) -> None:
    name = _POLICY_NAMES.get(type(policy))
    if name is None:
        raise LocalProtocolError(f"{policy!r} is not a federation policy")
    string.append(out, name)
    policy.append_body(out, 0)


policies: Kind[tuple[FederationPolicy, ...]] = sequence(Kind(_read_policy, _append_policy), 4)


class FederationDownstreamConnect(Packet):
    """Request that the receiver connect back and federate from the sender."""

    TYPE = PacketType.FEDERATION_DOWNSTREAM_CONNECT
    name: str = string()
    has_credentials: bool = flag()
    user: str | None = optional_string(when=("has_credentials", True))
    password: str | None = optional_string(when=("has_credentials", True))
    policies: tuple[FederationPolicy, ...] = of_kind(policies)
    transformers: tuple[FederationTransformer, ...] = of_kind(transformers)
    stream: FederationStream = of_kind(record(FederationStream))


PACKETS: tuple[type[Packet], ...] = (FederationDownstreamConnect,)
