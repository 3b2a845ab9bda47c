"""Every name of the schema: those that are supported become a value, all others a warning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import AttrsInstance, fields

from embedbroker.config import (
    AddressFullPolicy,
    AddressSettings,
    BridgeConfig,
    BridgeRoutingType,
    BroadcastGroup,
    BrokerConfig,
    ClusterConnection,
    Colocated,
    DiscoveryGroup,
    DivertConfiguration,
    DivertRoutingType,
    GroupingHandlerType,
    LockManager,
    MessageLoadBalancing,
    PrimaryOnly,
    QueueConfiguration,
    ReplicationBackup,
    ReplicationPrimary,
    ScaleDown,
    SharedStoreBackup,
    SharedStorePrimary,
    WildcardConfiguration,
)
from embedbroker.configfile._names import places
from tests.embedbroker.configfile.config_files import ACCEPTOR, QUIET, document, load_text

Path_ = tuple[str, ...]

GROUP_ADDRESS = "<group-address>231.7.7.7</group-address>"
GROUPS = f"<discovery-groups><discovery-group name='group'>{GROUP_ADDRESS}</discovery-group></discovery-groups>"
CONNECTORS = "<connectors><connector name='here'>tcp://localhost:61616</connector></connectors>"
ADD_HEADERS = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"
# What has to stand with a name, by the path of the element that it stands in.
ATTRIBUTES = {
    "core/address-settings/address-setting": {"match": "#"},
    "core/cluster-connections/cluster-connection": {"name": "c"},
    "core/broadcast-groups/broadcast-group": {"name": "b"},
    "core/discovery-groups/discovery-group": {"name": "group"},
    "core/connectors/connector": {"name": "here"},
    "core/addresses/address": {"name": "a"},
    "core/addresses/address/anycast/queue": {"name": "q"},
    "core/addresses/address/multicast/queue": {"name": "q"},
    "jms/queue": {"name": "q"},
    "jms/topic": {"name": "t"},
    "core/diverts/divert": {"name": "d"},
    "core/diverts/divert/filter": {"string": "a = 1"},
    "core/bridges/bridge": {"name": "b"},
    "core/grouping-handler": {"name": "g"},
    "core/bridges/bridge/filter": {"string": "a = 1"},
    "bridge/transformer/property": {"key": "k", "value": "v"},
    "divert/transformer/property": {"key": "k", "value": "v"},
    "discovery-group-ref": {"discovery-group-name": "group"},
    "manager/properties/property": {"key": "k", "value": "v"},
}
CHILDREN = {
    "core": {
        "acceptors": ACCEPTOR,
        "security-enabled": QUIET,
        "connectors": CONNECTORS,
        "discovery-groups": GROUPS,
    },
    "core/broadcast-groups/broadcast-group": {"group-address": GROUP_ADDRESS},
    "core/discovery-groups/discovery-group": {"group-address": GROUP_ADDRESS},
    "core/cluster-connections/cluster-connection": {"connector-ref": "<connector-ref>here</connector-ref>"},
    "core/diverts/divert": {
        "address": "<address>a</address>",
        "forwarding-address": "<forwarding-address>b</forwarding-address>",
    },
    "divert/transformer": {"class-name": f"<class-name>{ADD_HEADERS}</class-name>"},
    "core/bridges/bridge": {
        "queue-name": "<queue-name>q</queue-name>",
        "static-connectors": "<static-connectors><connector-ref>here</connector-ref></static-connectors>",
    },
    "core/grouping-handler": {"type": "<type>LOCAL</type>"},
    "core/bridges/bridge/static-connectors": {"connector-ref": "<connector-ref>here</connector-ref>"},
    "bridge/transformer": {"class-name": f"<class-name>{ADD_HEADERS}</class-name>"},
    "manager": {"class-name": "<class-name>locks</class-name>"},
}
TEXTS = {
    "core/connectors/connector": "tcp://localhost:61616",
    "core/acceptors/acceptor": "tcp://localhost:61616",
    "connector-ref": "here",
}


def lookup(table: dict[str, dict[str, str]], path: str) -> dict[str, str]:
    return next((value for key, value in table.items() if path == key or path.endswith(f"/{key}")), {})


def xml_of(path: Path_, text: str) -> str:
    """A file in which one name stands, with what has to be there beside it. ``path`` may end with an attribute."""

    def element(index: int) -> str:
        name, way = path[index], "/".join(path[: index + 1])
        below = path[index + 1] if index + 1 < len(path) else None
        attributes = dict(lookup(ATTRIBUTES, way))
        if below is not None and below.startswith("@"):
            attributes[below[1:]] = text
            below = None
        there = "".join(f' {key}="{value}"' for key, value in attributes.items())
        beside = "".join(
            xml
            for key, xml in lookup(CHILDREN, way).items()
            if key != below and not (key == "primary" and below == "master")
        )
        standing = next((value for key, value in TEXTS.items() if way.endswith(key)), "")
        content = element(index + 1) if below is not None else text if index + 1 == len(path) else standing
        return f"<{name}{there}>{beside}{content}</{name}>"

    if path[0] == "core":
        core = element(0)
        return document("").replace("<core xmlns='urn:activemq:core'></core>", core.replace("<core>", CORE_TAG, 1))
    return document(ACCEPTOR + QUIET, beside=element(0).replace("<jms", "<jms xmlns='urn:activemq:jms'", 1))


CORE_TAG = "<core xmlns='urn:activemq:core'>"


def policy(config: BrokerConfig) -> object:
    return config.ha_policy


def cluster(config: BrokerConfig) -> object:
    return config.cluster_connection


def broadcast_group(config: BrokerConfig) -> object:
    return config.broadcast_groups[0]


def discovery_group(config: BrokerConfig) -> object:
    return config.discovery_groups[0]


def anywhere(config: BrokerConfig) -> object:
    return config.address_settings["#"]


def address(config: BrokerConfig) -> object:
    return config.addresses["a"]


def divert(config: BrokerConfig) -> object:
    return config.diverts["d"]


def bridge(config: BrokerConfig) -> object:
    return config.bridges[0]


def grouping(config: BrokerConfig) -> object:
    return config.grouping_handler


def wildcards(config: BrokerConfig) -> object:
    return config.wildcard_addresses


def jms(config: BrokerConfig) -> object:
    return config.addresses["q"]


def whole(config: BrokerConfig) -> object:
    return config


Sample = tuple[str, Callable[[BrokerConfig], object], str, object]

DIVERT: dict[str, tuple[str, str, object]] = {
    "address": ("orders", "address", "orders"),
    "forwarding-address": ("x, y", "forwarding_address", "x, y"),
    "routing-name": ("r", "routing_name", "r"),
    "exclusive": ("true", "exclusive", True),
    "filter/@string": ("a = 2", "filter", "a = 2"),
    "routing-type": ("pass", "routing_type", DivertRoutingType.PASS),
}
BRIDGE: dict[str, tuple[str, str, object]] = {
    "@name": ("to-b", "name", "to-b"),
    "queue-name": ("orders", "queue", "orders"),
    "static-connectors/connector-ref": ("here", "static_connectors", ("here",)),
    "discovery-group-ref/@discovery-group-name": ("group", "discovery_group", "group"),
    "forwarding-address": ("x", "forwarding_address", "x"),
    "filter/@string": ("a = 2", "filter", "a = 2"),
    "routing-type": ("strip", "routing_type", BridgeRoutingType.STRIP),
    "user": ("carrier", "user", "carrier"),
    "password": ("secret", "password", "secret"),
    "client-id": ("me", "client_id", "me"),
    "ha": ("true", "ha", True),
    "use-duplicate-detection": ("false", "use_duplicate_detection", False),
    "confirmation-window-size": ("1", "confirmation_window_size", 1),
    "producer-window-size": ("-1", "producer_window_size", -1),
    "min-large-message-size": ("2", "min_large_message_size", 2),
    "check-period": ("3", "check_period_ms", 3),
    "connection-ttl": ("4", "connection_ttl_ms", 4),
    "retry-interval": ("5", "retry_interval_ms", 5),
    "retry-interval-multiplier": ("1.5", "retry_interval_multiplier", 1.5),
    "max-retry-interval": ("6", "max_retry_interval_ms", 6),
    "initial-connect-attempts": ("7", "initial_connect_attempts", 7),
    "reconnect-attempts": ("8", "reconnect_attempts", 8),
    "reconnect-attempts-same-node": ("-1", "reconnect_attempts_same_node", -1),
    "pending-ack-timeout": ("9", "pending_ack_timeout_ms", 9),
}
BROADCAST_GROUP: dict[str, tuple[str, str, object]] = {
    "@name": ("mine", "name", "mine"),
    "group-address": ("231.7.7.8", "group_address", "231.7.7.8"),
    "group-port": ("1", "group_port", 1),
    "local-bind-address": ("10.0.0.1", "local_bind_address", "10.0.0.1"),
    "local-bind-port": ("2", "local_bind_port", 2),
    "broadcast-period": ("3", "broadcast_period_ms", 3),
    "connector-ref": ("here", "connectors", ("here",)),
}
DISCOVERY_GROUP: dict[str, tuple[str, str, object]] = {
    "@name": ("mine", "name", "mine"),
    "group-address": ("231.7.7.8", "group_address", "231.7.7.8"),
    "group-port": ("1", "group_port", 1),
    "local-bind-address": ("10.0.0.1", "local_bind_address", "10.0.0.1"),
    "refresh-timeout": ("2", "refresh_timeout_ms", 2),
    "initial-wait-timeout": ("3", "initial_wait_timeout_ms", 3),
}
GROUPING: dict[str, tuple[str, str, object]] = {
    "@name": ("groups", "name", "groups"),
    "type": ("REMOTE", "type", GroupingHandlerType.REMOTE),
    "address": ("jms", "address", "jms"),
    "timeout": ("1", "timeout_ms", 1),
    "group-timeout": ("2", "group_timeout_ms", 2),
    "reaper-period": ("3", "reaper_period_ms", 3),
}
WILDCARDS: dict[str, tuple[str, str, object]] = {
    "enabled": ("false", "routing_enabled", False),
    "routing-enabled": ("false", "routing_enabled", False),
    "delimiter": ("/", "delimiter", "/"),
    "any-words": ("$$", "any_words", "$"),
    "single-word": ("+", "single_word", "+"),
}
CORE: dict[str, tuple[str, str, object]] = {
    "name": ("orders", "name", "orders"),
    "cluster-user": ("someone", "cluster_user", "someone"),
    "cluster-password": ("secret", "cluster_password", "secret"),
    "populate-validated-user": ("true", "populate_validated_user", True),
    "reject-empty-validated-user": ("true", "reject_empty_validated_user", True),
    "authentication-cache-size": ("0", "authentication_cache_size", 0),
    "authorization-cache-size": ("7", "authorization_cache_size", 7),
    "id-cache-size": ("500", "id_cache_size", 500),
    "persist-id-cache": ("false", "persist_id_cache", False),
    "persist-delivery-count-before-delivery": ("true", "persist_delivery_count_before_delivery", True),
    "connection-ttl-check-interval": ("700", "connection_check_interval_ms", 700),
    "connection-ttl-override": ("5000", "connection_ttl_ms", 5000),
    "message-expiry-scan-period": ("-1", "message_expiry_scan_period_ms", -1),
    "message-counter-enabled": ("true", "message_counter_enabled", True),
    "message-counter-sample-period": ("1100", "message_counter_sample_period_ms", 1100),
    "message-counter-max-day-history": ("20", "message_counter_max_day_history", 20),
    "address-queue-scan-period": ("800", "address_queue_scan_period_ms", 800),
    "transaction-timeout": ("900", "transaction_timeout_ms", 900),
    "transaction-timeout-scan-period": ("100", "transaction_timeout_scan_period_ms", 100),
    "journal-file-size": ("1 MiB", "segment_size_bytes", 1024 * 1024),
    "large-messages-directory": ("/some/bodies", "large_messages_directory", "/some/bodies"),
    "audit-directory": ("/some/audit", "audit_directory", "/some/audit"),
    "configuration-file-refresh-period": ("700", "configuration_file_refresh_period_ms", 700),
    "audit-retention": ("1GiB", "audit_retention", 1024**3),
    "literal-match-markers": ("()", "literal_match_markers", "()"),
    "uuid-namespace": ("temp", "uuid_namespace", "temp"),
    "temporary-queue-namespace": ("temp", "uuid_namespace", "temp"),
    "management-address": ("orders.management", "management_address", "orders.management"),
    "management-notification-address": ("orders.news", "management_notification_address", "orders.news"),
    "management-message-rbac": ("true", "management_message_rbac", True),
    "management-rbac-prefix": ("ops", "management_rbac_prefix", "ops"),
    "view-permission-method-match-pattern": ("get.*", "view_permission_method_match_pattern", "get.*"),
    "journal-lock-acquisition-timeout": ("60", "journal_lock_acquisition_timeout_ms", 60),
    "global-max-size": ("100Mb", "global_max_size_bytes", 100 * 1024 * 1024),
    "persistence-enabled": ("false", "data_directory", None),
    "journal-directory": ("/some/journal", "data_directory", "/some/journal"),
    "node-manager-lock-directory": ("/some/locks", "node_manager_lock_directory", "/some/locks"),
}
SETTINGS: dict[str, tuple[str, str, object]] = {
    "dead-letter-address": ("Dead", "dead_letter_address", "Dead"),
    "auto-create-dead-letter-resources": ("true", "auto_create_dead_letter_resources", True),
    "dead-letter-queue-prefix": ("dead.", "dead_letter_queue_prefix", "dead."),
    "dead-letter-queue-suffix": (".dead", "dead_letter_queue_suffix", ".dead"),
    "expiry-address": ("Old", "expiry_address", "Old"),
    "auto-create-expiry-resources": ("true", "auto_create_expiry_resources", True),
    "expiry-queue-prefix": ("", "expiry_queue_prefix", ""),
    "expiry-queue-suffix": (".old", "expiry_queue_suffix", ".old"),
    "no-expiry": ("true", "no_expiry", True),
    "expiry-delay": ("1", "expiry_delay_ms", 1),
    "min-expiry-delay": ("2", "min_expiry_delay_ms", 2),
    "max-expiry-delay": ("3", "max_expiry_delay_ms", 3),
    "max-delivery-attempts": ("-1", "max_delivery_attempts", -1),
    "redelivery-delay": ("300", "redelivery_delay_ms", 300),
    "redelivery-delay-multiplier": ("1.5", "redelivery_delay_multiplier", 1.5),
    "max-redelivery-delay": ("900", "max_redelivery_delay_ms", 900),
    "redelivery-collision-avoidance-factor": ("0.25", "redelivery_collision_avoidance_factor", 0.25),
    "max-size-bytes": ("20m", "max_size_bytes", 20 * 1024 * 1024),
    "address-full-policy": ("FAIL", "address_full_policy", AddressFullPolicy.FAIL),
    "send-to-dla-on-no-route": ("true", "send_to_dla_on_no_route", True),
    "redistribution-delay": ("500", "redistribution_delay_ms", 500),
    "auto-create-queues": ("false", "auto_create_queues", False),
    "auto-create-addresses": ("false", "auto_create_addresses", False),
    "auto-delete-queues": ("false", "auto_delete_queues", False),
    "auto-delete-addresses": ("false", "auto_delete_addresses", False),
    "auto-delete-created-queues": ("true", "auto_delete_created_queues", True),
    "auto-delete-queues-delay": ("4", "auto_delete_queues_delay_ms", 4),
    "auto-delete-addresses-delay": ("5", "auto_delete_addresses_delay_ms", 5),
    "auto-delete-queues-message-count": ("-1", "auto_delete_queues_message_count", -1),
    "auto-delete-queues-skip-usage-check": ("true", "auto_delete_queues_skip_usage_check", True),
    "default-queue-routing-type": ("ANYCAST", "default_queue_routing_type", 1),
    "default-max-consumers": ("6", "default_max_consumers", 6),
    "default-exclusive-queue": ("true", "default_exclusive_queue", True),
    "default-group-buckets": ("9", "default_group_buckets", 9),
    "default-group-rebalance": ("true", "default_group_rebalance", True),
    "default-group-rebalance-pause-dispatch": ("true", "default_group_rebalance_pause_dispatch", True),
    "default-group-first-key": ("begins", "default_group_first_key", "begins"),
    "default-purge-on-no-consumers": ("true", "default_purge_on_no_consumers", True),
    "default-consumer-window-size": ("7", "default_consumer_window_size", 7),
    "config-delete-queues": ("FORCE", "config_delete_queues", True),
    "config-delete-addresses": ("FORCE", "config_delete_addresses", True),
    "config-delete-diverts": ("FORCE", "config_delete_diverts", True),
    "id-cache-size": ("8", "id_cache_size", 8),
}
CLUSTER: dict[str, tuple[str, str, object]] = {
    "@name": ("mine", "name", "mine"),
    "connector-ref": ("here", "connector", "here"),
    "address": ("eu, us,!eu.uk", "addresses", ("eu", "us", "!eu.uk")),
    "message-load-balancing": ("strict", "message_load_balancing", MessageLoadBalancing.STRICT),
    "forward-when-no-consumers": ("true", "message_load_balancing", MessageLoadBalancing.STRICT),
    "max-hops": ("2", "max_hops", 2),
    "use-duplicate-detection": ("false", "use_duplicate_detection", False),
    "min-large-message-size": ("50K", "min_large_message_size", 50 * 1024),
    "confirmation-window-size": ("32000", "confirmation_window_size", 32_000),
    "producer-window-size": ("-1", "producer_window_size", -1),
    "client-id": ("me", "client_id", "me"),
    "call-failover-timeout": ("8", "call_failover_timeout_ms", 8),
    "initial-connect-attempts": ("9", "initial_connect_attempts", 9),
    "reconnect-attempts": ("0", "reconnect_attempts", 0),
    "check-period": ("1", "check_period_ms", 1),
    "connection-ttl": ("2", "connection_ttl_ms", 2),
    "call-timeout": ("3", "call_timeout_ms", 3),
    "retry-interval": ("4", "retry_interval_ms", 4),
    "retry-interval-multiplier": ("1.5", "retry_interval_multiplier", 1.5),
    "max-retry-interval": ("5", "max_retry_interval_ms", 5),
    "notification-interval": ("6", "notification_interval_ms", 6),
    "notification-attempts": ("7", "notification_attempts", 7),
    "static-connectors/connector-ref": ("here", "static_connectors", ("here",)),
    "discovery-group-ref/@discovery-group-name": ("group", "discovery_group", "group"),
    "static-connectors/@allow-direct-connections-only": ("true", "allow_direct_connections_only", True),
}
REPLICATION: dict[str, tuple[str, str, object]] = {
    "group-name": ("fish", "group_name", "fish"),
    "max-saved-replicated-journals-size": ("-1", "max_saved_replicated_journals_size", -1),
    "initial-replication-sync-timeout": ("1", "initial_replication_sync_timeout_ms", 1),
    "vote-on-replication-failure": ("true", "vote_on_replication_failure", True),
    "quorum-size": ("3", "quorum_size", 3),
    "vote-retries": ("4", "vote_retries", 4),
    "vote-retry-wait": ("5", "vote_retry_wait_ms", 5),
    "quorum-vote-wait": ("6", "quorum_vote_wait_ms", 6000),
    "retry-replication-wait": ("7", "retry_replication_wait_ms", 7),
    "manager/class-name": ("Locks", "lock_manager", LockManager("Locks")),
    "manager/properties/property/@key": ("a", "lock_manager", LockManager("locks", {"a": "v"})),
    "manager/properties/property/@value": ("b", "lock_manager", LockManager("locks", {"k": "b"})),
}
SCALE_DOWN: dict[str, tuple[str, str, object]] = {
    "scale-down/enabled": ("false", "scale_down", ScaleDown(enabled=False)),
    "scale-down/group-name": ("g", "scale_down", ScaleDown(group_name="g")),
    "scale-down/commit-interval": ("9", "scale_down", ScaleDown(commit_interval=9)),
    "scale-down/discovery-group-ref/@discovery-group-name": ("group", "scale_down", ScaleDown(discovery_group="group")),
    "scale-down/connectors/connector-ref": ("here", "scale_down", ScaleDown(connectors=("here",))),
}
FALLING_BACK: dict[str, tuple[str, str, object]] = {"restart-backup": ("false", "restart_backup", False)}
ON_SHUTDOWN: dict[str, tuple[str, str, object]] = {
    "failover-on-shutdown": ("true", "failover_on_shutdown", True),
    "failover-on-server-shutdown": ("true", "failover_on_shutdown", True),
}
PARTS: dict[str, dict[str, tuple[str, str, object]]] = {
    "replication/primary": {
        **REPLICATION,
        "check-for-active-server": ("true", "check_for_active_server", True),
        "check-for-live-server": ("true", "check_for_active_server", True),
    },
    "replication/backup": {
        **REPLICATION,
        **FALLING_BACK,
        **SCALE_DOWN,
        "allow-failback": ("true", "allow_failback", True),
    },
    "shared-store/primary": {**ON_SHUTDOWN, "wait-for-activation": ("false", "wait_for_activation", False)},
    "shared-store/backup": {
        **ON_SHUTDOWN,
        **FALLING_BACK,
        **SCALE_DOWN,
        "allow-failback": ("false", "allow_failback", False),
    },
    "primary-only": SCALE_DOWN,
    "live-only": SCALE_DOWN,
}
COLOCATED: dict[str, tuple[str, str, object]] = {
    "request-backup": ("true", "request_backup", True),
    "backup-request-retries": ("3", "backup_request_retries", 3),
    "backup-request-retry-interval": ("4", "backup_request_retry_interval_ms", 4),
    "max-backups": ("5", "max_backups", 5),
    "backup-port-offset": ("6", "backup_port_offset", 6),
    "excludes/connector-ref": ("here", "excludes", ("here",)),
}
# Older names of a part, and the parts of a broker that hosts others' backups.
SAME_AS = {
    **{
        f"{strategy}/colocated/{part}": f"{strategy}/{plain}"
        for strategy in ("replication", "shared-store")
        for part, plain in {"primary": "primary", "master": "primary", "backup": "backup", "slave": "backup"}.items()
    },
    "replication/master": "replication/primary",
    "replication/slave": "replication/backup",
    "shared-store/master": "shared-store/primary",
    "shared-store/slave": "shared-store/backup",
}
KINDS: dict[str, type[AttrsInstance]] = {
    "replication/primary": ReplicationPrimary,
    "replication/backup": ReplicationBackup,
    "shared-store/primary": SharedStorePrimary,
    "shared-store/backup": SharedStoreBackup,
    "primary-only": PrimaryOnly,
    "live-only": PrimaryOnly,
}
# Two of a part that only make sense with something else, and have a test of their own.
TOGETHER = {
    *(f"core/ha-policy/replication/{part}/cluster-name" for part in ("primary", "master", "backup", "slave")),
    *(f"core/ha-policy/replication/colocated/{part}/cluster-name" for part in ("primary", "master", "backup", "slave")),
    *(f"core/ha-policy/replication/{part}/coordination-id" for part in ("primary", "master")),
    *(f"core/ha-policy/replication/colocated/{part}/coordination-id" for part in ("primary", "master")),
}
QUEUE_ATTRIBUTES: dict[str, tuple[str, QueueConfiguration]] = {
    "filter/@string": ("a = 1", QueueConfiguration(filter="a = 1")),
    "durable": ("false", QueueConfiguration(durable=False)),
    "user": ("me", QueueConfiguration(user="me")),
    "@max-consumers": ("3", QueueConfiguration(max_consumers=3)),
    "@exclusive": ("true", QueueConfiguration(exclusive=True)),
    "@group-buckets": ("4", QueueConfiguration(group_buckets=4)),
    "@group-rebalance": ("true", QueueConfiguration(group_rebalance=True)),
    "@group-rebalance-pause-dispatch": ("true", QueueConfiguration(group_rebalance_pause_dispatch=True)),
    "@group-first-key": ("begins", QueueConfiguration(group_first_key="begins")),
    "@enabled": ("false", QueueConfiguration(enabled=False)),
    "@purge-on-no-consumers": ("true", QueueConfiguration(purge_on_no_consumers=True)),
}
# Read, and their effect is seen in tests of their own.
ELSEWHERE = {
    "core/cluster-connections/cluster-connection-uri/@name",
    "core/cluster-connections/cluster-connection-uri/@address",
    "core/security-enabled",
    "core/mask-password",
    "core/password-codec",
    "core/security-settings/security-setting/@match",
    "core/security-settings/security-setting/permission/@type",
    "core/security-settings/security-setting/permission/@roles",
    "core/security-settings/role-mapping/@from",
    "core/security-settings/role-mapping/@to",
    "core/resource-limit-settings/resource-limit-setting/@match",
    "core/resource-limit-settings/resource-limit-setting/max-connections",
    "core/resource-limit-settings/resource-limit-setting/max-sessions",
    "core/resource-limit-settings/resource-limit-setting/max-queues",
    "core/bindings-directory",
    "core/paging-directory",
    "core/address-settings/address-setting/@match",
    "core/acceptors/acceptor/@name",
    "core/connectors/connector/@name",
    "core/addresses/address/@name",
    "core/diverts/divert/@name",
    "core/diverts/divert/transformer-class-name",
    "core/diverts/divert/transformer/class-name",
    "core/diverts/divert/transformer/property/@key",
    "core/diverts/divert/transformer/property/@value",
    "core/broadcast-groups/broadcast-group/jgroups-file",
    "core/broadcast-groups/broadcast-group/jgroups-channel",
    "core/discovery-groups/discovery-group/jgroups-file",
    "core/discovery-groups/discovery-group/jgroups-channel",
    "core/bridges/bridge/transformer-class-name",
    "core/bridges/bridge/transformer/class-name",
    "core/bridges/bridge/transformer/property/@key",
    "core/bridges/bridge/transformer/property/@value",
    "core/addresses/address/anycast/queue/@name",
    "core/addresses/address/multicast/queue/@name",
    "jms/queue/@name",
    "jms/topic/@name",
    *TOGETHER,
}


def owner_of(part: str) -> Callable[[BrokerConfig], object]:
    """What holds the values of a part."""
    if "colocated" not in part:
        return policy
    name = "primary" if part.endswith(("primary", "master")) else "backup"
    return lambda config: getattr(config.ha_policy, name)


def samples() -> dict[str, Sample]:
    found: dict[str, Sample] = {}
    for name, (text, field, value) in CORE.items():
        found[f"core/{name}"] = (text, whole, field, value)
    for name, (text, field, value) in SETTINGS.items():
        found[f"core/address-settings/address-setting/{name}"] = (text, anywhere, field, value)
    for name, (text, field, value) in CLUSTER.items():
        found[f"core/cluster-connections/cluster-connection/{name}"] = (text, cluster, field, value)
    for part, names in [*PARTS.items(), *((old, PARTS[new]) for old, new in SAME_AS.items())]:
        for name, (text, field, value) in names.items():
            found[f"core/ha-policy/{part}/{name}"] = (text, owner_of(part), field, value)
    for strategy in ("replication", "shared-store"):
        for name, (text, field, value) in COLOCATED.items():
            found[f"core/ha-policy/{strategy}/colocated/{name}"] = (text, policy, field, value)
    for name, (text, queue) in QUEUE_ATTRIBUTES.items():
        for kind in ("anycast", "multicast"):
            found[f"core/addresses/address/{kind}/queue/{name}"] = (text, address, kind, {"q": queue})
    for name, (text, field, value) in DIVERT.items():
        found[f"core/diverts/divert/{name}"] = (text, divert, field, value)
    for name, (text, field, value) in BRIDGE.items():
        found[f"core/bridges/bridge/{name}"] = (text, bridge, field, value)
    for name, (text, field, value) in BROADCAST_GROUP.items():
        found[f"core/broadcast-groups/broadcast-group/{name}"] = (text, broadcast_group, field, value)
    for name, (text, field, value) in DISCOVERY_GROUP.items():
        found[f"core/discovery-groups/discovery-group/{name}"] = (text, discovery_group, field, value)
    found["core/bridges/bridge/concurrency"] = ("2", bridge, "concurrency", 2)
    for name, (text, field, value) in GROUPING.items():
        found[f"core/grouping-handler/{name}"] = (text, grouping, field, value)
    for name, (text, field, value) in WILDCARDS.items():
        found[f"core/wildcard-addresses/{name}"] = (text, wildcards, field, value)
    found["jms/queue/selector/@string"] = ("a = 1", jms, "anycast", {"q": QueueConfiguration(filter="a = 1")})
    found["jms/queue/durable"] = ("false", jms, "anycast", {"q": QueueConfiguration(durable=False)})
    return found


SAMPLES = samples()
KNOWN = {"/".join(path): child for path, child in places() if len(path) > 1}
MAPPED = {*SAMPLES, *ELSEWHERE}
STRUCTURE = {"/".join(way.split("/")[:depth]) for way in MAPPED for depth in range(1, way.count("/") + 1)} - MAPPED


def test_every_supported_name_is_one_of_the_schema() -> None:
    assert MAPPED - set(KNOWN) == set()


def test_a_supported_name_becomes_a_value(tmp_path: Path) -> None:
    """One test for hundreds of names, each in a separate file."""
    for way, (text, owner, field, value) in SAMPLES.items():
        with named_in_errors(way):
            found = owner(load_text(tmp_path, xml_of(tuple(way.split("/")), text)).config)
        assert getattr(found, field) == value, way


@pytest.mark.parametrize(
    ("way", "kind"),
    [*KINDS.items(), *((old, KINDS[new]) for old, new in SAME_AS.items())],
)
def test_a_part_without_details_has_artemis_defaults(way: str, kind: Callable[[], object], tmp_path: Path) -> None:
    config = load_text(tmp_path, xml_of(("core", "ha-policy", *way.split("/")), "")).config
    assert owner_of(way)(config) == kind()


def test_every_field_of_the_values_can_come_from_a_file() -> None:
    def reached(owner: Callable[[BrokerConfig], object]) -> set[str]:
        return {field for _, of, field, _ in SAMPLES.values() if of is owner}

    assert {field.name for field in fields(AddressSettings)} == reached(anywhere)
    assert {field.name for field in fields(ClusterConnection)} == reached(cluster)
    of_jgroups_files = {"shared_directory", "channel", "port_range"}
    assert {field.name for field in fields(BroadcastGroup)} == reached(broadcast_group) | {
        *of_jgroups_files, "listen_port",
    }  # fmt: skip
    assert {field.name for field in fields(DiscoveryGroup)} == reached(discovery_group) | {*of_jgroups_files, "hosts"}
    # A file cannot hold a callable, and its properties are in a test of their own.
    assert {field.name for field in fields(DivertConfiguration)} == reached(divert) | {"properties", "transformer"}
    # A file gives each connection of a bridge an entry.
    assert {field.name for field in fields(BridgeConfig)} == reached(bridge) | {
        "properties", "transformer", "concurrency",
    }  # fmt: skip
    assert {field.name for field in fields(WildcardConfiguration)} == reached(wildcards)
    # A file names no node.
    in_tests_of_their_own = {"cluster_name", "coordination_id", "node_id"}
    assert {field.name for field in fields(Colocated)} == {field for _, field, _ in COLOCATED.values()} | {
        "primary",
        "backup",
    }
    for part, kind in KINDS.items():
        names = {field for _, field, _ in PARTS[part].values()}
        assert {field.name for field in fields(kind)} - in_tests_of_their_own == names


def test_a_name_that_is_not_supported_is_one_warning(tmp_path: Path) -> None:
    unsupported = [way for way in KNOWN if way not in MAPPED | STRUCTURE]
    assert unsupported
    for way in unsupported:
        path = tuple(way.split("/"))
        plain = [part for part in path if not part.startswith("@")]
        with named_in_errors(way):
            warnings = load_text(tmp_path, xml_of(path, "anything" if KNOWN[way].entry is None else "")).warnings
        near = [depth for warning in warnings if (depth := how_near(warning, plain))]
        assert near and near.count(max(near)) == 1, (way, warnings)


@contextmanager
def named_in_errors(way: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"name: {way}")
        raise


def how_near(warning: str, path: list[str]) -> int:
    """How many names of a path a warning has that is about the path's element, or about one that holds it; 0: none."""
    place = warning.partition(": ")[0].partition(" (")[0]
    named = [part.partition("[")[0] for part in place.split("/") if not part.startswith("@")]
    return len(named) if named == path[: len(named)] else 0
