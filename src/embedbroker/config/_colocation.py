"""The configuration of a backup that another broker hosts, made from that of its host.

Responsible for names, ports and directories, as Artemis chooses them. Does not depend on which broker requests it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any
from urllib.parse import quote

from attrs import evolve

from embedclient.model import IN_VM_CONNECTOR_FACTORY, TransportConfiguration

from ._broker import BrokerConfig
from ._cluster import ClusterConnection
from ._ha_policy import Colocated, ReplicationBackup, ScaleDown, SharedStoreBackup

__all__ = ["HOST_CONNECTOR", "can_scale_down_at_host", "hosted_backup", "is_at_host"]

#: The name under which a hosted backup has the connector to its host.
HOST_CONNECTOR = "colocated_host"

_PORT_MAX = 65_535


def is_at_host(connection: ClusterConnection | None) -> bool:
    """Return True if others reach this broker at its host: it is a hosted backup that serves no clients itself.

    Args:
        connection: The cluster connection of the broker; None without any.
    """
    return connection is not None and connection.connector in (HOST_CONNECTOR, _host_connector_in(connection))


def _host_connector_in(connection: ClusterConnection) -> str:
    """Return the name of the connector to the host in a cluster where it is at another place."""
    return f"{HOST_CONNECTOR}_{connection.name}"


def hosted_backup(
    host: BrokerConfig,
    index: int,
    node_id: str,
    places: Mapping[str, TransportConfiguration],
    data_directory: str | None = None,
    lock_directory: str | None = None,
    bodies_directory: str | None = None,
    *,
    has_lock_manager: bool = False,
) -> BrokerConfig:
    """Return the configuration of a hosted backup.

    Args:
        host: The configuration of its host, with a `Colocated` policy.
        index: The place of the backup at its host, from 0.
        node_id: The node that it is a backup of.
        places: How others reach the host, by the names of its cluster connections.
        data_directory: The directory of that node, with a shared store; a replicating backup has one for each node.
        lock_directory: The directory of the lock files of that node; None: the data directory.
        bodies_directory: The directory of that node's large messages; None: the data directory.
        has_lock_manager: Whether brokers that replicate have a lock manager that is not part of the policy.

    Raises:
        ValueError: a port would be above 65535, or another setting cannot be used; the text names it.
    """
    colocated = host.ha_policy
    assert isinstance(colocated, Colocated)
    # Artemis puts the number of hosted backups and a 1 behind each other: its first is 01, its second 11.
    suffix = f"colocated_backup_{index}1"
    policy, offset = colocated.backup, colocated.backup_port_offset * (index + 1)
    if isinstance(policy, ReplicationBackup):
        policy = evolve(policy, node_id=node_id)
        # Artemis has the number here, too. The next backup at a place may be that of another node, and must not find
        # the messages of this one. The id comes from another broker: it must not lead to another directory.
        of_node = f"colocated_backup_{quote(node_id, safe='')}"
        data_directory = _beside(host.data_directory, of_node)
        bodies_directory = _beside(host.large_messages_directory, of_node)
        lock_directory = None
    # It moves everything when it takes over, and listens nowhere. Clients go to its host.
    scales_down = False
    if policy.scale_down is not None and policy.scale_down.enabled:
        scales_down = can_scale_down_at_host(policy, has_lock_manager=has_lock_manager)
        policy = evolve(policy, scale_down=_to_host(policy.scale_down) if scales_down else None)
    connectors = {
        name: connector if name in colocated.excludes or scales_down else _shifted(connector, offset, suffix)
        for name, connector in host.connectors.items()
    }
    # Its host is a member that it needs from the first moment on: for votes, and as a target of scale-down.
    clusters = []
    for each in host.cluster_connections:
        name, place = _place_in(host, each, places)
        connectors[name] = place
        own = name if scales_down else each.connector
        clusters.append(evolve(each, connector=own, static_connectors=(*each.static_connectors, name)))
    return evolve(
        host,
        name=f"{host.name}-{suffix}",
        **_shifted_places(host, None if scales_down else offset),
        connectors=connectors,
        cluster_connections=clusters,
        ha_policy=policy,
        data_directory=data_directory,
        large_messages_directory=bodies_directory,
        node_manager_lock_directory=lock_directory,
        audit_directory=_beside(host.audit_directory, suffix),
        # A source notes what it has read: each broker must learn of a change.
        user_source=copy(host.user_source),
        # The file describes its host.
        configuration_source=None,
    )


def _place_in(
    host: BrokerConfig, connection: ClusterConnection, places: Mapping[str, TransportConfiguration]
) -> tuple[str, TransportConfiguration]:
    """Return the connector to the host in one of its clusters, with its name: each may have another acceptor."""
    default = host.cluster_connection
    assert default is not None, "a colocated broker is in a cluster"
    if host.acceptor_of(connection) == host.acceptor_of(default):
        return HOST_CONNECTOR, places[default.name]
    return _host_connector_in(connection), places[connection.name]


def can_scale_down_at_host(policy: SharedStoreBackup | ReplicationBackup, *, has_lock_manager: bool = False) -> bool:
    """Return True if a hosted backup with this policy may scale down.

    With a lock manager or votes the primary needs the newest data of its node when it returns, and a hosted backup that
    scales down listens nowhere.
    """
    if isinstance(policy, SharedStoreBackup):
        return True
    return policy.lock_manager is None and not has_lock_manager and not policy.vote_on_replication_failure


def _to_host(scale_down: ScaleDown) -> ScaleDown:
    """Return a scale-down that leads to the host, unless it names another target."""
    if scale_down.connectors or scale_down.discovery_group is not None or scale_down.group_name is not None:
        return scale_down
    return evolve(scale_down, connectors=[HOST_CONNECTOR])


def _beside(directory: str | None, suffix: str) -> str | None:
    return None if directory is None else directory.rstrip("/") + suffix


def _shifted_places(host: BrokerConfig, offset: int | None) -> dict[str, Any]:
    """Return where a hosted backup listens, by the fields of its configuration; None: at free ports."""

    def shifted(port: int) -> int:
        return 0 if offset is None else _shifted_port(port, offset)

    return {
        "port": shifted(host.port),
        "acceptors": [evolve(acceptor, port=shifted(acceptor.port)) for acceptor in host.acceptors],
    }


def _shifted_port(port: int, offset: int) -> int:
    if port == 0:
        return 0
    if port + offset > _PORT_MAX:
        raise ValueError(f"port {port} with an offset of {offset} is above {_PORT_MAX}: lower backup_port_offset")
    return port + offset


def _shifted(connector: TransportConfiguration, offset: int, suffix: str) -> TransportConfiguration:
    parameters = dict(connector.parameters)
    if connector.factory == IN_VM_CONNECTOR_FACTORY:
        server_id = str(parameters.get("serverId", 0))
        # Artemis has numbers there, and this broker any name.
        is_number = server_id.isascii() and server_id.isdigit()
        parameters["serverId"] = str(int(server_id) + offset) if is_number else f"{server_id}-{suffix}"
    else:
        # As text, like everything that Java peers read from a configuration file.
        parameters["port"] = str(_shifted_port(connector.port, offset))
    return evolve(connector, parameters=parameters)
