"""From the tree of a broker.xml to one `BrokerConfig`.

Responsible for the elements directly below ``core``, and for directories. Does not depend on encodings and the table of
names: every element that reaches it is allowed at its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedbroker.config import BrokerConfig

from ._address_settings import address_settings
from ._addresses import addresses
from ._bridges import bridges
from ._cluster import cluster_connections
from ._discovery import broadcast_groups, discovery_groups
from ._diverts import diverts, wildcards
from ._document import Element
from ._findings import Findings
from ._grouping import grouping_handler
from ._ha import ha_policy, with_places_of_others
from ._mapping import Fields, attribute_of, built, store, value_of, values_of
from ._security import Codec, security_values
from ._tls import TLSParameters
from ._transports import acceptor_values, connectors_of
from ._values import boolean, size, text, text_or_nothing, whole

__all__ = ["broker_config"]

_FIELDS: Fields = {
    "name": ("name", text),
    "cluster-user": ("cluster_user", text),
    "id-cache-size": ("id_cache_size", whole),
    "persist-id-cache": ("persist_id_cache", boolean),
    "persist-delivery-count-before-delivery": ("persist_delivery_count_before_delivery", boolean),
    "connection-ttl-check-interval": ("connection_check_interval_ms", whole),
    "message-expiry-scan-period": ("message_expiry_scan_period_ms", whole),
    "address-queue-scan-period": ("address_queue_scan_period_ms", whole),
    "transaction-timeout": ("transaction_timeout_ms", whole),
    "transaction-timeout-scan-period": ("transaction_timeout_scan_period_ms", whole),
    "message-counter-enabled": ("message_counter_enabled", boolean),
    "message-counter-sample-period": ("message_counter_sample_period_ms", whole),
    "message-counter-max-day-history": ("message_counter_max_day_history", whole),
    "journal-file-size": ("segment_size_bytes", size),
    "audit-retention": ("audit_retention", size),
    "configuration-file-refresh-period": ("configuration_file_refresh_period_ms", whole),
    "populate-validated-user": ("populate_validated_user", boolean),
    "reject-empty-validated-user": ("reject_empty_validated_user", boolean),
    "authentication-cache-size": ("authentication_cache_size", whole),
    "authorization-cache-size": ("authorization_cache_size", whole),
    "literal-match-markers": ("literal_match_markers", text),
    "uuid-namespace": ("uuid_namespace", text_or_nothing),
    "temporary-queue-namespace": ("uuid_namespace", text_or_nothing),
    "management-address": ("management_address", text),
    "management-notification-address": ("management_notification_address", text),
    "management-message-rbac": ("management_message_rbac", boolean),
    "management-rbac-prefix": ("management_rbac_prefix", text),
    "view-permission-method-match-pattern": ("view_permission_method_match_pattern", text),
    "journal-lock-acquisition-timeout": ("journal_lock_acquisition_timeout_ms", whole),
}
_PLUGINS = "org.apache.activemq.artemis.core.server.plugin.impl"
_NOTIFICATION_PLUGIN = f"{_PLUGINS}.NotificationActiveMQServerPlugin"
# Without it, messages would reach consumers that must not get them.
_AUTHORIZATION_PLUGIN = f"{_PLUGINS}.BrokerMessageAuthorizationPlugin"
_NOTIFICATION_SWITCHES = {
    "SEND_ADDRESS_NOTIFICATIONS": "send_address_notifications",
    "SEND_CONNECTION_NOTIFICATIONS": "send_connection_notifications",
}
_JOURNAL = "data/journal"
_ARTEMIS_JOURNAL_FILES = "activemq-data-*.amq"
# Artemis has a directory for each kind of data.
_OTHER_DIRECTORIES = ("bindings-directory", "paging-directory")


def broker_config(
    root: Element,
    folder: Path,
    instance: Path,
    properties: Mapping[str, str],
    environment: Mapping[str, str],
    findings: Findings,
) -> BrokerConfig | None:
    """Return the configuration; None when something is wrong.

    Args:
        root: Outermost element.
        folder: Directory of the file, with the files of its users.
        instance: Directory at which relative directories start.
        properties: Values for references in files.
        environment: Further values for them.
        findings: Receives errors and warnings.
    """
    core = root.take("core")
    if core is None:
        findings.refuse(root.place, "has no <core xmlns='urn:activemq:core'>")
        return None
    values = values_of(core, _FIELDS, BrokerConfig, findings)
    codec = Codec(core, properties, environment, findings)
    tls = TLSParameters(codec, folder, findings)
    values |= acceptor_values(core, tls, findings)
    values |= _directories(core, instance, findings)
    _add_unless_minus_one(core, "global-max-size", "global_max_size_bytes", values, findings)
    if _add_unless_minus_one(core, "connection-ttl-override", "connection_ttl_ms", values, findings):
        findings.warn(f"{core.place}/connection-ttl-override", "clients that ask for another time to live get it")
    values["connectors"] = connectors = connectors_of(core, tls, findings)
    policy = ha_policy(core, connectors, findings)
    values["broadcast_groups"] = broadcast_groups(core, connectors, folder, findings)
    values["discovery_groups"] = discovery_groups(core, folder, findings)
    groups = [group.name for group in values["discovery_groups"]]
    own = set(connectors)
    values["cluster_connections"] = cluster_connections(core, connectors, groups, tls, findings)
    if policy is not None:
        values["ha_policy"] = with_places_of_others(policy, [name for name in connectors if name not in own])
    values["wildcard_addresses"] = characters = wildcards(core, findings)
    markers = values.get("literal_match_markers", "")
    values["address_settings"] = address_settings(core, characters, markers, findings)
    values["addresses"] = addresses(root, core, findings)
    values["diverts"] = diverts(core, findings)
    values["bridges"] = bridges(core, connectors, groups, codec, findings)
    values["grouping_handler"] = grouping_handler(core, findings)
    values |= security_values(core, folder, properties, findings)
    values |= _notifications(core, findings)
    password = core.take("cluster-password")
    if password is not None:
        store(values, "cluster_password", codec.password(password), BrokerConfig, password.place, findings)
    return None if findings.errors else built(BrokerConfig, values, core.place, findings)


def _add_unless_minus_one(core: Element, name: str, field: str, values: dict[str, Any], findings: Findings) -> bool:
    """Keep a value that -1 leaves at its default; return True if it was another one."""
    element = core.take(name)
    value = None if element is None else value_of(element, size if "size" in name else whole, findings)
    if element is None or value is None or value == -1:
        return False
    store(values, field, value, BrokerConfig, element.place, findings)
    return True


def _notifications(core: Element, findings: Findings) -> dict[str, Any]:
    """Return the switches of Artemis' plugin for further notifications. Other plugins stay unused."""
    values: dict[str, Any] = {}
    for holder in core.children.get("broker-plugins", []):
        for plugin in holder.children.get("broker-plugin", []):
            kind = plugin.attributes.get("class-name", "").strip()
            if kind == _AUTHORIZATION_PLUGIN:
                findings.refuse(
                    plugin.place, f"{kind} is not supported; separate the messages by queues with permissions instead"
                )
            if kind != _NOTIFICATION_PLUGIN:
                continue
            holder.taken = plugin.taken = True
            plugin.attribute("class-name")
            for element in plugin.children.get("property", []):
                name = _NOTIFICATION_SWITCHES.get(element.attributes.get("key", "").strip())
                if name is not None:
                    element.taken = True
                    element.attribute("key")
                    value = attribute_of(element, "value", boolean, findings)
                    store(values, name, value, BrokerConfig, element.place, findings)
    return values


def _directories(core: Element, instance: Path, findings: Findings) -> dict[str, Any]:
    values: dict[str, Any] = {}
    persistent = core.take("persistence-enabled")
    journal = _directory(core, "journal-directory", instance, findings) or str(instance / _JOURNAL)
    for name in _OTHER_DIRECTORIES:
        other = _directory(core, name, instance, findings)
        if other is not None and Path(other).parent != Path(journal).parent:
            findings.warn(f"{core.place}/{name}", f"is not used: everything is written to {journal}")
    locks = _directory(core, "node-manager-lock-directory", instance, findings)
    if locks is not None:
        values["node_manager_lock_directory"] = locks
    audit = _directory(core, "audit-directory", instance, findings)
    if audit is not None:
        values["audit_directory"] = audit
    bodies = _directory(core, "large-messages-directory", instance, findings)
    if persistent is None or value_of(persistent, boolean, findings) is not False:
        values["data_directory"] = journal
        if bodies is not None and Path(bodies) != Path(journal):
            values["large_messages_directory"] = bodies
        if next(Path(journal).glob(_ARTEMIS_JOURNAL_FILES), None) is not None:
            text = f"{journal} holds a journal of Artemis, which is not read: its messages are not seen"
            findings.warn(f"{core.place}/journal-directory", text)
    return values


def _directory(core: Element, name: str, instance: Path, findings: Findings) -> str | None:
    element = core.take(name)
    found = None if element is None else value_of(element, text, findings)
    return None if found is None else str(instance / str(found))
