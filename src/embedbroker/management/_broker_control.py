"""The control ``broker``: figures of the whole broker, and creation and deletion of its addresses and queues."""

from __future__ import annotations

import json

from embedbroker.config import PrimaryOnly, SharedStoreBackup, SharedStorePrimary
from embedbroker.kernel import (
    ALLOW_ALL,
    Address,
    Kernel,
    Queue,
    QueueRequest,
    QueueUpdate,
    Session,
    TaskKind,
)

from . import _client_lists, _diverts, _lists
from ._acceptor_control import ACCEPTOR_ATTRIBUTES
from ._bridge_control import bridge_names
from ._bridges import BRIDGE_OPERATIONS
from ._broker_figures import BROKER_FIGURES
from ._cluster_control import cluster_connection_names
from ._departure import DEPARTURE_OPERATIONS
from ._diverts import divert_names, divert_text
from ._message_counters import BROKER_COUNTER_ATTRIBUTES, BROKER_COUNTER_OPERATIONS
from ._queue_info import QUEUE_INFO_OPERATIONS
from ._queue_requests import queue_request, queue_update
from ._registry import (
    VERSION,
    Attribute,
    Call,
    Control,
    HostCall,
    Kind,
    ManagementRefused,
    Operation,
    Parameter,
    done,
)
from ._settings import SETTINGS_OPERATIONS
from ._texts import (
    address_text,
    no_address,
    no_queue,
    queue_configuration,
    queue_text,
    routing_type_of,
    routing_types_of,
)
from ._transactions import TRANSACTION_OPERATIONS
from ._transports import CONNECTOR_ATTRIBUTES
from ._users import USER_OPERATIONS

__all__ = ["BROKER"]

_NAME = Parameter("name", Kind.TEXT)
_MULTICAST, _ANYCAST = 0, 1


# -- attributes ------------------------------------------------------------------------------------------------------


def _queues(kernel: Kernel) -> list[Queue]:
    return list(kernel.address_manager.queues.values())


def _uptime_ms(call: Call) -> int:
    return int((call.broker.now.monotonic - call.broker.started_at.monotonic) * 1000)


def _memory_percentage(call: Call) -> int:
    memory = call.kernel.memory
    return 100 * memory.used_bytes // memory.limit_bytes if memory.limit_bytes else 0


def _disk_usage(_call: Call) -> HostCall:
    return HostCall(TaskKind.MEASURE_DISK, None, lambda usage: usage)


def _fails_over_at_stop(call: Call) -> bool:
    """Return the setting of a waiting backup. In Artemis, a backup that took over has the policy of a primary."""
    policy = call.kernel.config.ha_policy
    return isinstance(policy, SharedStoreBackup) and policy.failover_on_shutdown and not call.broker.started


def _force_failover(call: Call) -> HostCall:
    policy = _ha_policy(call)
    if isinstance(call.kernel.config.own_policy, PrimaryOnly):
        raise ManagementRefused(f"no backup takes over: the high availability policy is {policy}")
    call.kernel.inform(f"management: {call.caller} stops this broker, so that a backup takes over")
    return HostCall(TaskKind.FAIL_OVER, None, _nothing)


def _reload_file(call: Call) -> HostCall:
    call.kernel.inform(f"management: {call.caller} reloads the configuration file")
    return HostCall(TaskKind.RELOAD_CONFIGURATION, None, _nothing)


def _nothing(_answer: object) -> None:
    return None


def _ha_policy(call: Call) -> str:
    policy = call.kernel.config.ha_policy
    # Artemis prints the names of its policies in this form.
    return {
        "PrimaryOnly": "Primary Only",
        "SharedStorePrimary": "Shared Store Primary",
        "SharedStoreBackup": "Shared Store Backup",
        "ReplicationPrimary": "Replication Primary",
        "ReplicationBackup": "Replication Backup",
        "Colocated": "Colocated",
    }[type(policy).__name__]


def _status(call: Call) -> str:
    status = {
        "server": {
            "state": "STARTED" if call.broker.started else "STARTING",
            "version": VERSION,
            "nodeId": call.broker.node_id,
            "identity": None,
            "uptime": f"{_uptime_ms(call) / 1000:.3f} seconds",
        }
    }
    return json.dumps(status, separators=(",", ":"))


_ATTRIBUTES = (
    Attribute("Version", "String", lambda call: VERSION, "Version of this package."),
    Attribute("Name", "String", lambda call: call.kernel.config.name, "Name of the broker."),
    Attribute("NodeID", "String", lambda call: call.broker.node_id, "Id that a primary and its backups share."),
    Attribute("Status", "String", _status, "State, version and uptime as JSON."),
    Attribute("Started", "boolean", lambda call: call.broker.started, "The broker serves clients."),
    Attribute("Active", "boolean", lambda call: call.broker.started, "The broker is the active one of its group."),
    Attribute("Backup", "boolean", lambda call: not call.broker.started, "The broker waits as a backup."),
    Attribute(
        "Clustered",
        "boolean",
        lambda call: call.kernel.config.cluster_connection is not None,
        "The broker has a cluster connection.",
    ),
    Attribute(
        "SharedStore",
        "boolean",
        lambda call: isinstance(call.kernel.config.own_policy, SharedStorePrimary | SharedStoreBackup),
        "The group shares a directory.",
    ),
    Attribute("HAPolicy", "String", _ha_policy, "High availability policy."),
    Attribute(
        "FailoverOnServerShutdown",
        "boolean",
        _fails_over_at_stop,
        "The setting of a backup of the shared store while it waits; false for every other broker.",
    ),
    Attribute(
        "ReplicaSync", "boolean", lambda call: call.broker.is_in_sync, "A backup has a copy up to the last record."
    ),
    Attribute(
        "ActivationSequence",
        "long",
        lambda call: call.broker.activation_sequence,
        "It grows when a broker of a replicating pair begins to confirm alone; -1 for other policies.",
    ),
    Attribute(
        "Uptime",
        "String",
        lambda call: f"{_uptime_ms(call) / 1000:.3f} seconds",
        "Time since the broker serves clients.",
    ),
    Attribute("UptimeMillis", "long", _uptime_ms, "The same in milliseconds."),
    Attribute("CurrentTimeMillis", "long", lambda call: call.kernel.now_ms, "Time of the broker in Unix milliseconds."),
    Attribute(
        "ConnectionCount",
        "int",
        lambda call: len(call.kernel.clients.connections),
        "Connections of clients and brokers.",
    ),
    Attribute(
        "TotalConnectionCount",
        "long",
        lambda call: call.kernel.clients.connections_total,
        "The same since the start.",
    ),
    Attribute("SessionCount", "int", lambda call: len(call.kernel.clients.sessions), "Sessions of clients."),
    Attribute(
        "TotalSessionCount", "long", lambda call: call.kernel.clients.sessions_total, "The same since the start."
    ),
    Attribute(
        "TotalConsumerCount",
        "long",
        lambda call: sum([queue.consumer_count for queue in _queues(call.kernel)]),
        "Consumers of all queues.",
    ),
    Attribute("QueueCount", "int", lambda call: len(call.kernel.address_manager.queues), "Queues."),
    Attribute("AddressCount", "int", lambda call: len(call.kernel.address_manager.addresses), "Addresses."),
    Attribute(
        "TotalMessageCount",
        "long",
        lambda call: sum([queue.message_count for queue in _queues(call.kernel)]),
        "Messages in all queues.",
    ),
    Attribute(
        "TotalMessagesAdded",
        "long",
        lambda call: sum([queue.added_count for queue in _queues(call.kernel)]),
        "Messages added to the present queues since the start.",
    ),
    Attribute(
        "TotalMessagesAcknowledged",
        "long",
        lambda call: sum([queue.acknowledged_count for queue in _queues(call.kernel)]),
        "Messages acknowledged in the present queues since the start.",
    ),
    Attribute("AddressMemoryUsage", "long", lambda call: call.kernel.memory.used_bytes, "Bytes that messages take."),
    Attribute("AddressMemoryUsagePercentage", "int", _memory_percentage, "The same in percent of the limit."),
    Attribute(
        "GlobalMaxSize",
        "long",
        lambda call: call.kernel.memory.limit_bytes,
        "Bytes at which producers begin to wait.",
    ),
    Attribute("QueueNames", "String[]", lambda call: call.session.addresses.queue_names(), "Names of all queues."),
    Attribute(
        "AddressNames",
        "String[]",
        lambda call: sorted(call.kernel.address_manager.addresses),
        "Names of all addresses.",
    ),
    Attribute("DivertNames", "String[]", divert_names, "Names of diverts."),
    *ACCEPTOR_ATTRIBUTES,
    *CONNECTOR_ATTRIBUTES,
    Attribute("BridgeNames", "String[]", bridge_names, "Names of bridges."),
    Attribute("ClusterConnectionNames", "String[]", cluster_connection_names, "Names of cluster connections."),
    Attribute(
        "SecurityEnabled",
        "boolean",
        lambda call: call.kernel.authority is not ALLOW_ALL,
        "Logins and permissions are required.",
    ),
    Attribute(
        "ManagementAddress",
        "String",
        lambda call: call.kernel.config.management_address,
        "Address of management messages.",
    ),
    Attribute(
        "ManagementNotificationAddress",
        "String",
        lambda call: call.kernel.config.management_notification_address,
        "Address of notifications.",
    ),
    Attribute(
        "ConnectionTTLOverride", "long", lambda call: -1, "Clients set their time to live; there is no override."
    ),
    Attribute(
        "PersistenceEnabled",
        "boolean",
        lambda call: call.kernel.config.data_directory is not None,
        "Durable messages survive a restart.",
    ),
    Attribute(
        "PersistDeliveryCountBeforeDelivery",
        "boolean",
        lambda call: call.kernel.config.persist_delivery_count_before_delivery,
        "Delivery counts are on disk before a delivery.",
    ),
    *BROKER_FIGURES,
    *BROKER_COUNTER_ATTRIBUTES,
    Attribute("DiskStoreUsage", "double", _disk_usage, "Part of the disk that is in use, 0 to 1."),
    Attribute("MaxDiskUsage", "int", lambda call: 100, "Percent of the disk at which producers wait; no limit."),
)


# -- addresses -------------------------------------------------------------------------------------------------------


def _address(call: Call, name: str | None) -> Address:
    address = call.kernel.address_manager.addresses.get(name or "")
    if address is None:
        raise no_address(name or "")
    return address


def _create_address(call: Call, name: str | None, routing_types: str | None) -> str:
    kinds = routing_types_of(routing_types)
    if not name:
        raise ManagementRefused("an address needs a name")
    if not kinds:
        raise ManagementRefused(f"address {name!r} needs a routing type: ANYCAST, MULTICAST, or both with a comma")
    if name in call.kernel.address_manager.addresses:
        raise ManagementRefused(f"AMQ229204: Address already exists: {name}")
    created = done(
        call.session.addresses.create_address(name, anycast=_ANYCAST in kinds, multicast=_MULTICAST in kinds)
    )
    return address_text(created)


def _update_address(call: Call, name: str | None, routing_types: str | None) -> str:
    address = _address(call, name)
    kinds = routing_types_of(routing_types)
    for number, queues in ((_ANYCAST, bool(address.anycast)), (_MULTICAST, bool(address.multicast))):
        if queues and number not in kinds:
            label = "ANYCAST" if number == _ANYCAST else "MULTICAST"
            raise ManagementRefused(
                f"AMQ229209: Can't remove routing type {label}, queues exists for address: {address.name}. "
                "Please delete queues before removing this routing type."
            )
    changed = call.session.addresses.create_address(
        address.name, anycast=_ANYCAST in kinds, multicast=_MULTICAST in kinds
    )
    return address_text(done(changed))


def _delete_address(call: Call, name: str | None, force: bool | None = False) -> None:
    address = _address(call, name)
    if call.kernel.address_manager.is_bound(address) and not force:
        raise ManagementRefused(f"AMQ229205: Address {address.name} has bindings")
    done(call.session.addresses.delete_address(address.name, deletes_queues=bool(force)))


def _address_info(call: Call, name: str | None) -> str:
    return address_text(_address(call, name))


def _bindings_of(call: Call, name: str | None) -> str:
    address = _address(call, name)
    queues = [queue_text(queue) for queue in address.queues]
    return "\n".join([*queues, *map(divert_text, call.kernel.address_manager.resolution.diverts_at(address.name))])


def _list_addresses(call: Call, separator: str | None) -> str:
    return (separator or "").join(sorted(call.kernel.address_manager.addresses, key=str.lower))


# -- queues ----------------------------------------------------------------------------------------------------------


def _created(session: Session, request: QueueRequest) -> Queue:
    existing = session.kernel.address_manager.queues.get(request.name)
    if existing is not None and not request.ignore_if_exists:
        raise ManagementRefused(
            f"AMQ229019: Queue {existing.name} already exists on address {existing.definition.address}"
        )
    return done(session.addresses.create_queue(request))


def _create_queue(call: Call, text: str | None, ignore_if_exists: bool | None = False) -> str:
    request = queue_request(text, ignore_if_exists=bool(ignore_if_exists))
    return json.dumps(queue_configuration(_created(call.session, request)), separators=(",", ":"))


def _create_by_position(
    call: Call,
    address: str | None,
    routing_type: str | None,
    name: str | None,
    filter: str | None = None,
    durable: bool | None = True,
    max_consumers: int | None = None,
    purge_on_no_consumers: bool | None = None,
    _auto_create_address: bool | None = None,
) -> str:
    request = QueueRequest(
        address or name or "",
        name or "",
        filter=filter,
        durable=durable is not False,
        routing_type=routing_type_of(routing_type),
        max_consumers=max_consumers,
        purge_on_no_consumers=purge_on_no_consumers,
    )
    return queue_text(_created(call.session, request))


def _create_on_address(call: Call, address: str | None, name: str | None, routing_type: str | None = None) -> None:
    _create_by_position(call, address, routing_type, name)


def _create_durable(
    call: Call, address: str | None, name: str | None, durable: bool | None, routing_type: str | None = None
) -> None:
    _create_by_position(call, address, routing_type, name, None, durable)


def _create_filtered(
    call: Call,
    address: str | None,
    name: str | None,
    filter: str | None,
    durable: bool | None,
    routing_type: str | None = None,
) -> None:
    _create_by_position(call, address, routing_type, name, filter, durable)


def _destroy_queue(
    call: Call, name: str | None, removes_consumers: bool | None = False, deletes_address: bool | None = False
) -> None:
    queue = call.kernel.address_manager.queues.get(name or "")
    if queue is None:
        raise no_queue(name or "")
    if queue.consumers and not removes_consumers:
        raise ManagementRefused(
            f"AMQ229025: Cannot delete queue {queue.name} on binding {queue.name} - it has consumers = "
            f"{queue.consumer_count}"
        )
    done(
        call.session.addresses.delete_queue(
            queue.name, closes_consumers=bool(removes_consumers), deletes_address=bool(deletes_address)
        )
    )


def _updated(call: Call, name: str, update: QueueUpdate) -> str:
    queue = call.kernel.address_manager.queues.get(name)
    if queue is None:
        raise no_queue(name)
    updated = done(call.session.addresses.update_queue(queue.name, update))
    return json.dumps(queue_configuration(updated), separators=(",", ":"))


def _update_queue(call: Call, text: str | None) -> str:
    return _updated(call, *queue_update(text))


def _update_by_position(
    call: Call,
    name: str | None,
    routing_type: str | None,
    max_consumers: int | None,
    purge_on_no_consumers: bool | None,
    exclusive: bool | None = None,
    user: str | None = None,
) -> str:
    update = QueueUpdate(
        routing_type=routing_type_of(routing_type),
        max_consumers=max_consumers,
        purge_on_no_consumers=purge_on_no_consumers,
        exclusive=exclusive,
        user=user,
    )
    return _updated(call, name or "", update)


def _queue_names(call: Call, routing_type: str | None) -> list[str]:
    wanted = routing_type_of(routing_type)
    queues = call.kernel.address_manager.queues
    return sorted([name for name, queue in queues.items() if wanted in (None, queue.definition.routing_type)])


# -- cluster ----------------------------------------------------------------------------------------------------------


def _cluster_connections(call: Call) -> list[str]:
    return [connection.name for connection in call.kernel.config.cluster_connections]


def _topology(call: Call) -> str:
    """Return the members of the cluster; a broker without a cluster connection has none, as in Artemis."""
    rows = []
    for node_id, live, backup in call.broker.places():
        row = {"nodeID": node_id}
        if live is not None:
            row |= {"live": live, "primary": live}
        if backup is not None:
            row["backup"] = backup
        rows.append(row)
    return json.dumps(rows, separators=(",", ":"))


_JSON = Parameter("configuration", Kind.TEXT)
_ROUTING = Parameter("routingType", Kind.TEXT)
_TYPES = Parameter("routingTypes", Kind.TEXT)
_ADDRESS = Parameter("address", Kind.TEXT)
_FILTER = Parameter("filter", Kind.TEXT)
_DURABLE = Parameter("durable", Kind.BOOLEAN)
_IGNORE = Parameter("ignoreIfExists", Kind.BOOLEAN)
_REMOVE = Parameter("removeConsumers", Kind.BOOLEAN)
_AUTO_DELETE = Parameter("autoDeleteAddress", Kind.BOOLEAN)
_MAX = Parameter("maxConsumers", Kind.INTEGER)
_PURGE = Parameter("purgeOnNoConsumers", Kind.BOOLEAN)
_EXCLUSIVE = Parameter("exclusive", Kind.BOOLEAN)
_USER = Parameter("user", Kind.TEXT)
_AUTO_CREATE = Parameter("autoCreateAddress", Kind.BOOLEAN)

_OPERATIONS = (
    Operation("createAddress", (_NAME, _TYPES), "String", _create_address, "Create an address.", changes=True),
    Operation("updateAddress", (_NAME, _TYPES), "String", _update_address, "Replace its routing types.", changes=True),
    Operation("deleteAddress", (_NAME,), "void", _delete_address, "Delete an address without queues.", changes=True),
    Operation(
        "deleteAddress",
        (_NAME, Parameter("force", Kind.BOOLEAN)),
        "void",
        _delete_address,
        "With force: delete its queues, too.",
        changes=True,
    ),
    Operation("getAddressInfo", (_NAME,), "String", _address_info, "Describe an address."),
    Operation(
        "listBindingsForAddress", (_NAME,), "String", _bindings_of, "Describe its queues and diverts, one per line."
    ),
    Operation(
        "createQueue",
        (_JSON,),
        "String",
        _create_queue,
        "Create a queue from JSON; return its settings.",
        changes=True,
    ),
    Operation(
        "createQueue", (_JSON, _IGNORE), "String", _create_queue, "The same; it may exist already.", changes=True
    ),
    Operation(
        "createQueue",
        (_ADDRESS, _ROUTING, _NAME, _FILTER, _DURABLE, _MAX, _PURGE, _AUTO_CREATE),
        "String",
        _create_by_position,
        "Create a queue, as `artemis queue create` does.",
        changes=True,
    ),
    Operation("createQueue", (_ADDRESS, _NAME), "void", _create_on_address, "Create a queue.", changes=True),
    Operation("createQueue", (_ADDRESS, _NAME, _ROUTING), "void", _create_on_address, "Create a queue.", changes=True),
    Operation("createQueue", (_ADDRESS, _NAME, _DURABLE), "void", _create_durable, "Create a queue.", changes=True),
    Operation(
        "createQueue", (_ADDRESS, _NAME, _DURABLE, _ROUTING), "void", _create_durable, "Create a queue.", changes=True
    ),
    Operation(
        "createQueue", (_ADDRESS, _NAME, _FILTER, _DURABLE), "void", _create_filtered, "Create a queue.", changes=True
    ),
    Operation(
        "createQueue",
        (_ADDRESS, _NAME, _FILTER, _DURABLE, _ROUTING),
        "void",
        _create_filtered,
        "Create a queue.",
        changes=True,
    ),
    Operation(
        "updateQueue",
        (_JSON,),
        "String",
        _update_queue,
        "Change settings of a queue from JSON; return them all.",
        changes=True,
    ),
    Operation("updateQueue", (_NAME, _ROUTING, _MAX, _PURGE), "String", _update_by_position, "The same.", changes=True),
    Operation(
        "updateQueue",
        (_NAME, _ROUTING, _MAX, _PURGE, _EXCLUSIVE),
        "String",
        _update_by_position,
        "The same.",
        changes=True,
    ),
    Operation(
        "updateQueue",
        (_NAME, _ROUTING, _MAX, _PURGE, _EXCLUSIVE, _USER),
        "String",
        _update_by_position,
        "The same.",
        changes=True,
    ),
    Operation("destroyQueue", (_NAME,), "void", _destroy_queue, "Delete a queue without consumers.", changes=True),
    Operation("destroyQueue", (_NAME, _REMOVE), "void", _destroy_queue, "The same; may close consumers.", changes=True),
    Operation(
        "destroyQueue",
        (_NAME, _REMOVE, _AUTO_DELETE),
        "void",
        _destroy_queue,
        "The same; may delete an auto-created address.",
        changes=True,
    ),
    Operation("getQueueNames", (_ROUTING,), "String[]", _queue_names, "Names of the queues of a routing type."),
    Operation(
        "listAddresses", (Parameter("separator", Kind.TEXT),), "String", _list_addresses, "Names of all addresses."
    ),
    Operation("getClusterConnectionNames", (), "String[]", _cluster_connections, "Name of the cluster connection."),
    Operation("listNetworkTopology", (), "String", _topology, "Members of the cluster as JSON."),
    *QUEUE_INFO_OPERATIONS,
    *TRANSACTION_OPERATIONS,
    Operation(
        "forceFailover",
        (),
        "void",
        _force_failover,
        "Stop this broker after the answer; a backup takes over, whatever the policy.",
        changes=True,
    ),
    Operation(
        "reloadConfigurationFile",
        (),
        "void",
        _reload_file,
        "Adopt the broker.xml now, if it changed; what cannot be adopted is logged.",
        changes=True,
    ),
    *SETTINGS_OPERATIONS,
    *USER_OPERATIONS,
    *BROKER_COUNTER_OPERATIONS,
    *DEPARTURE_OPERATIONS,
    *_diverts.OPERATIONS,
    *BRIDGE_OPERATIONS,
    *_lists.OPERATIONS,
    *_client_lists.OPERATIONS,
)


def _exists(_kernel: Kernel, name: str) -> bool:
    return not name


BROKER = Control("broker", _ATTRIBUTES, _OPERATIONS, _exists)
