"""Settings that are valid one by one and do not fit together: the warnings logged when a broker is created.

Responsible for the texts. Each names both settings, what the broker does, and what to change. The guide's page on
limits has the same pairs in a table. Does not depend on how a broker works.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from itertools import permutations

from embedclient.model import IN_VM_CONNECTOR_FACTORY, TLSSettings

from ._acceptors import AcceptorConfig
from ._bridges import BridgeConfig
from ._broker import BrokerConfig
from ._cluster import ClusterConnection
from ._colocation import can_scale_down_at_host
from ._ha_policy import Colocated, ReplicationBackup, ReplicationPrimary

__all__ = ["exposure", "misfits"]

_PORT_MAX = 65_535


def misfits(config: BrokerConfig) -> list[str]:
    """Return a warning for each pair of settings that do not fit together."""
    found = list(_of_times(config)) + list(_of_sizes(config)) + list(_of_addresses(config)) + list(_of_users(config))
    found += _of_tls(config)
    found += _of_colocation(config)
    for bridge in config.bridges:
        found += _of_connection(f"bridge {bridge.name!r}", bridge)
    for connection in config.cluster_connections:
        place = f"cluster connection {connection.name!r}"
        found += _of_connection(place, connection)
        found += _of_prefixes(config, place, connection)
        found += _of_hosted_backups(config, place, connection)
        is_replicating = isinstance(config.own_policy, ReplicationPrimary | ReplicationBackup)
        if is_replicating and connection.connection_ttl_ms < 0 and connection is config.cluster_connection:
            found.append(
                f"{place}: connection_ttl_ms=-1 with a replicating ha_policy: a live broker that is frozen,"
                " or whose machine has lost its power or network, is never missed; set connection_ttl_ms"
            )
    return found


def _of_connection(place: str, connection: ClusterConnection | BridgeConfig) -> Iterator[str]:
    check_ms, ttl_ms, ping_ms = connection.check_period_ms, connection.connection_ttl_ms, connection.ping_period_ms
    if ping_ms != check_ms:
        yield (
            f"{place}: check_period_ms={check_ms} is not within half of connection_ttl_ms={ttl_ms}, so every"
            f" quiet connection would be lost each time: this broker pings every {ping_ms} ms; set check_period_ms to"
            f" {ping_ms} or less, or connection_ttl_ms to twice the check period"
        )
    retry_ms, longest_ms = connection.retry_interval_ms, connection.max_retry_interval_ms
    if retry_ms > longest_ms:
        yield (
            f"{place}: retry_interval_ms={retry_ms} is above max_retry_interval_ms={longest_ms}: this broker"
            f" tries again every {retry_ms} ms; raise max_retry_interval_ms"
        )


def _of_prefixes(config: BrokerConfig, place: str, connection: ClusterConnection) -> Iterator[str]:
    wildcards = config.wildcard_addresses
    for prefix in connection.addresses:
        if prefix.endswith((wildcards.any_words, wildcards.single_word)):
            yield (
                f"{place}: addresses has {prefix!r}, and its last character is no wildcard there: only"
                " addresses that begin with this text are meant; write the first words alone"
            )


def _of_hosted_backups(config: BrokerConfig, place: str, connection: ClusterConnection) -> Iterator[str]:
    colocated = config.ha_policy
    if not isinstance(colocated, Colocated) or not colocated.max_backups:
        return
    for name in connection.static_connectors:
        if name not in colocated.excludes:
            yield (
                f"{place}: static_connectors has {name!r}, which excludes of the ha_policy has not: a hosted backup"
                f" looks for that broker at a port that is {colocated.backup_port_offset} higher; add it to excludes"
            )


def _of_colocation(config: BrokerConfig) -> Iterator[str]:
    colocated = config.ha_policy
    if not isinstance(colocated, Colocated) or not colocated.max_backups:
        return
    scale_down = getattr(colocated.backup, "scale_down", None)
    if scale_down is None or not scale_down.enabled or not can_scale_down_at_host(colocated.backup):
        yield from _of_shifted_ports(config, colocated)
    if config.grouping_handler is not None:
        yield (
            f"grouping_handler {config.grouping_handler.name!r} with a colocated ha_policy: each hosted backup has the"
            " same handler as its host, and its primary may have another one; set grouping_handler to None"
        )
    for group in config.broadcast_groups:
        if group.local_bind_port > 0:
            yield (
                f"broadcast group {group.name!r}: local_bind_port={group.local_bind_port} with a colocated ha_policy: a"
                " hosted backup sends from the same port as its host, which is in use; set it to -1"
            )


def _of_shifted_ports(config: BrokerConfig, colocated: Colocated) -> Iterator[str]:
    ports = [acceptor.port for acceptor in config.listens_at] + [
        connector.port
        for name, connector in config.connectors.items()
        if name not in colocated.excludes
        and connector.factory != IN_VM_CONNECTOR_FACTORY
        and connector.port_text.isdecimal()
    ]
    room, offset = _PORT_MAX - max(ports), colocated.backup_port_offset
    if offset * colocated.max_backups > room:
        yield (
            f"max_backups={colocated.max_backups} with backup_port_offset={offset}: this broker can host"
            f" {room // offset} backups, because port {max(ports)} would be raised above {_PORT_MAX}; lower"
            " backup_port_offset"
        )
    for one, other in permutations([each for each in config.listens_at if each.port], 2):
        number, rest = divmod(other.port - one.port, offset)
        if rest == 0 and 0 < number <= colocated.max_backups:
            yield (
                f"acceptors {one.name!r} at port {one.port} and {other.name!r} at port {other.port}, with"
                f" backup_port_offset={offset}: that of hosted backup {number} for {one.name!r} is port {other.port},"
                " too; change backup_port_offset"
            )


def _of_tls(config: BrokerConfig) -> Iterator[str]:
    reported = set()
    for connection in config.cluster_connections:
        name = connection.connector
        if name is None or name in reported or config.connectors[name].factory == IN_VM_CONNECTOR_FACTORY:
            continue
        if config.acceptor_of(connection).tls is not None and not config.connectors[name].is_secure:
            reported.add(name)
            yield (
                f"tls with the connector {name!r}, which has no TLS: clients and brokers that are referred to this"
                " broker cannot connect; add sslEnabled=true to the connector, unless it leads to a proxy that adds TLS"
            )


def _of_times(config: BrokerConfig) -> Iterator[str]:
    ttl_ms, check_ms = config.connection_ttl_ms, config.connection_check_interval_ms
    if 0 <= ttl_ms < check_ms:
        yield (
            f"connection_check_interval_ms={check_ms} is above connection_ttl_ms={ttl_ms}: a client that is silent is"
            f" given up as late as {ttl_ms + check_ms} ms after its last bytes; lower connection_check_interval_ms"
        )
    timeout_ms, scan_ms = config.transaction_timeout_ms, config.transaction_timeout_scan_period_ms
    if scan_ms > timeout_ms:
        yield (
            f"transaction_timeout_scan_period_ms={scan_ms} is above transaction_timeout_ms={timeout_ms}: an XA branch"
            f" is rolled back as late as {timeout_ms + scan_ms} ms after its start; lower"
            " transaction_timeout_scan_period_ms"
        )


def _of_sizes(config: BrokerConfig) -> Iterator[str]:
    high, most = config.output_high_water_bytes, config.output_bytes_max
    if high >= most:
        yield (
            f"output_high_water_bytes={high} is not below output_bytes_max={most}: a client that reads slowly is"
            " disconnected before deliveries to it stop; lower output_high_water_bytes"
        )
    partial, frame = config.partial_frames_bytes_max, config.frame_size_bytes_max
    if partial is not None and partial < frame:
        yield (
            f"partial_frames_bytes_max={partial} is below frame_size_bytes_max={frame}: a connection that sends a"
            " larger packet in parts is closed; raise partial_frames_bytes_max or lower frame_size_bytes_max"
        )
    total = config.output_total_bytes_max
    if total is not None and total < most:
        yield (
            f"output_total_bytes_max={total} is below output_bytes_max={most}: one client that does not read is"
            f" disconnected at {total} bytes; raise output_total_bytes_max or lower output_bytes_max"
        )


def _of_addresses(config: BrokerConfig) -> Iterator[str]:
    for match, settings in config.address_settings.items():
        shortest, longest = settings.min_expiry_delay_ms, settings.max_expiry_delay_ms
        if shortest is not None and longest is not None and 0 <= longest < shortest:
            yield (
                f"address_settings {match!r}: min_expiry_delay_ms={shortest} is above max_expiry_delay_ms={longest}:"
                " the longest delay wins where both apply; lower min_expiry_delay_ms"
            )


def _of_users(config: BrokerConfig) -> Iterator[str]:
    if not config.is_secured:
        return
    if not config.users and config.guest is None:
        yield "security is enabled without users: every login is refused; set users, or security_enabled=False"
    for user in config.users:
        if not user.roles:
            yield f"user {user.name!r} has no role, so it has no permission; set roles"


def exposure(config: BrokerConfig) -> str | None:
    """Return the warning of a broker that serves other machines without users; None for any other broker."""
    acceptors = config.listens_at
    open_hosts = [each.host for each in acceptors if not _is_loopback(each.host) and not _has_certificates(each)]
    if config.is_secured or config.security_enabled is not None or not open_hosts:
        return None
    return (
        f"host={open_hosts[0]!r} without users: each client that reaches the broker may do everything; set users, or"
        " security_enabled=False to keep it so"
    )


def _has_certificates(acceptor: AcceptorConfig) -> bool:
    return isinstance(acceptor.tls, TLSSettings) and acceptor.tls.need_client_auth


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
