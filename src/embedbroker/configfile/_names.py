"""The names that may stand in a broker.xml.

Those of Artemis' 2.44 schema, some of older files, and some of this broker.

Responsible for which name may stand where and how often. Does not depend on the meaning of a name. Names without effect
in this broker are listed all the same, to distinguish them from a typing error.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from attrs import frozen

__all__ = ["TEXT", "Child", "Entry", "entry", "places"]

# Entry -> what may stand in an element of that kind. `@name` is an attribute, `name*` may be repeated. `name:` has the
# entry of the same name and `name:other` that of another. `name~` is not of the schema: of older releases or documents,
# or of this broker alone.
_ENTRIES = {
    "configuration": "core: jms:",
    "core": """
        name system-property-prefix internal-naming-prefix amqp-use-core-subscription-naming resolve-protocols
        journal-datasync large-message-sync persistence-enabled scheduled-thread-pool-max-size
        thread-pool-max-size graceful-shutdown-enabled graceful-shutdown-timeout security-enabled
        security-invalidation-interval authentication-cache-size authorization-cache-size
        journal-lock-acquisition-timeout wild-card-routing-enabled management-address
        management-notification-address cluster-user cluster-password password-codec mask-password
        log-delegate-factory-class-name jmx-management-enabled jmx-domain jmx-use-broker-name
        message-counter-enabled message-counter-sample-period message-counter-max-day-history
        connection-ttl-override connection-ttl-check-interval configuration-file-refresh-period
        temporary-queue-namespace uuid-namespace async-connection-execution-enabled transaction-timeout
        transaction-timeout-scan-period message-expiry-scan-period message-expiry-thread-priority
        address-queue-scan-period id-cache-size persist-id-cache remoting-incoming-interceptors:interceptors
        remoting-outgoing-interceptors:interceptors persist-delivery-count-before-delivery
        max-redelivery-records populate-validated-user reject-empty-validated-user mqtt-session-scan-interval
        mqtt-session-state-persistence-timeout mqtt-subscription-persistence-enabled connectors: acceptors:
        broadcast-groups: discovery-groups: diverts: queues: bridges: federations: ha-policy:
        cluster-connections: broker-connections: connection-routers: grouping-handler: purge-page-folders
        paging-directory bindings-directory create-bindings-dir page-max-concurrent-io read-whole-page
        journal-directory journal-retention-directory: node-manager-lock-directory create-journal-dir
        journal-type journal-buffer-timeout journal-device-block-size journal-buffer-size
        journal-sync-transactional journal-sync-non-transactional log-journal-write-rate journal-file-size
        journal-min-files journal-pool-files journal-compact-percentage journal-compact-min-files journal-max-io
        journal-file-open-timeout server-dump-interval global-max-messages
        global-max-size-percent-of-jvm-max-memory global-max-size max-disk-usage min-disk-free disk-scan-period
        memory-warning-threshold memory-measure-interval large-messages-directory store: critical-analyzer
        critical-analyzer-timeout critical-analyzer-check-period critical-analyzer-policy page-sync-timeout
        mirror-ack-manager-queue-attempts mirror-ack-manager-page-attempts mirror-ack-manager-retry-delay
        mirror-ack-manager-warn-unacked mirror-page-transaction suppress-session-notifications
        literal-match-markers view-permission-method-match-pattern management-message-rbac
        management-rbac-prefix security-settings: broker-plugins: metrics-plugin:broker-plugin metrics:
        address-settings: resource-limit-settings: connector-services: addresses: network-check-list
        network-check-URL-list network-check-period network-check-timeout network-check-NIC
        network-check-ping-command network-check-ping6-command wildcard-addresses: broker-balancers~
        perf-blast-pages~ run-sync-speed-test~ audit-directory~ audit-retention~
    """,
    "interceptors": "class-name*",
    "connectors": "connector*:transport",
    "transport": "@name",
    "acceptors": "acceptor*:transport",
    "broadcast-groups": "broadcast-group*:",
    "broadcast-group": """
        local-bind-address local-bind-port group-address group-port broadcast-period jgroups-file
        jgroups-channel connector-ref* @name
    """,
    "discovery-groups": "discovery-group*:",
    "discovery-group": """
        group-address group-port jgroups-file jgroups-channel refresh-timeout local-bind-address local-bind-port
        initial-wait-timeout @name
    """,
    "diverts": "divert*:",
    "divert": """
        transformer-class-name transformer: exclusive routing-name address forwarding-address filter:
        routing-type @name
    """,
    "transformer": "class-name property*:",
    "property": "@key @value",
    "filter": "@string",
    "queues": "queue*:",
    "queue": """
        address user filter: durable @name @max-consumers @purge-on-no-consumers @exclusive @group-rebalance
        @group-rebalance-pause-dispatch @group-buckets @group-first-key @last-value @last-value-key
        @non-destructive @consumers-before-dispatch @delay-before-dispatch
    """,
    "bridges": "bridge*:",
    "bridge": """
        queue-name forwarding-address ha filter: transformer-class-name transformer: min-large-message-size
        check-period connection-ttl retry-interval retry-interval-multiplier max-retry-interval
        initial-connect-attempts reconnect-attempts failover-on-server-shutdown use-duplicate-detection
        confirmation-window-size producer-window-size user password reconnect-attempts-same-node routing-type
        concurrency pending-ack-timeout client-id static-connectors: discovery-group-ref: @name
    """,
    "static-connectors": "connector-ref* @allow-direct-connections-only",
    "discovery-group-ref": "@discovery-group-name",
    "federations": "federation*:",
    "federation": """
        upstream*: downstream*: policy-set*: queue-policy*: address-policy*: transformer*:named-transformer
        @name @user @password
    """,
    "upstream": """
        ha circuit-breaker-timeout share-connection connection-ttl call-timeout retry-interval
        retry-interval-multiplier max-retry-interval initial-connect-attempts reconnect-attempts check-period
        call-failover-timeout static-connectors:connector-refs discovery-group-ref: policy*:policy-ref
        @priority-adjustment @user @password @name
    """,
    "connector-refs": "connector-ref*",
    "policy-ref": "@ref",
    "downstream": """
        ha circuit-breaker-timeout share-connection connection-ttl call-timeout retry-interval
        retry-interval-multiplier max-retry-interval initial-connect-attempts reconnect-attempts check-period
        call-failover-timeout static-connectors:connector-refs discovery-group-ref: policy*:policy-ref
        @priority-adjustment @user @password @name upstream-connector-ref
    """,
    "policy-set": "policy*:policy-ref @name",
    "queue-policy": """
        include*:queue-matches exclude*:queue-matches @transformer-ref @priority-adjustment @include-federated
        @name
    """,
    "queue-matches": "@queue-match @address-match",
    "address-policy": """
        include*:address-matches exclude*:address-matches @transformer-ref @auto-delete @auto-delete-delay
        @auto-delete-message-count @max-hops @name @enable-divert-bindings
    """,
    "address-matches": "@address-match",
    "named-transformer": "class-name property*: @name",
    "ha-policy": "live-only:primary-only primary-only: replication: shared-store:",
    "primary-only": "scale-down:",
    "scale-down": "enabled group-name discovery-group-ref: connectors:connector-refs commit-interval",
    "replication": """
        primary:replication-primary master:replication-primary backup:replication-backup
        slave:replication-backup colocated:replication-colocated
    """,
    "replication-primary": """
        group-name cluster-name max-saved-replicated-journals-size check-for-live-server check-for-active-server
        initial-replication-sync-timeout vote-on-replication-failure quorum-size vote-retries vote-retry-wait
        quorum-vote-wait retry-replication-wait manager: coordination-id
    """,
    "manager": "class-name properties:",
    "properties": "property*:",
    "replication-backup": """
        group-name cluster-name max-saved-replicated-journals-size scale-down: restart-backup allow-failback
        failback-delay initial-replication-sync-timeout vote-on-replication-failure quorum-size vote-retries
        vote-retry-wait retry-replication-wait quorum-vote-wait manager:
    """,
    "replication-colocated": """
        request-backup backup-request-retries backup-request-retry-interval max-backups backup-port-offset
        excludes:connector-refs primary:replication-primary master:replication-primary backup:replication-backup
        slave:replication-backup
    """,
    "shared-store": """
        primary:shared-store-primary master:shared-store-primary backup:shared-store-backup
        slave:shared-store-backup colocated:shared-store-colocated
    """,
    "shared-store-primary": "failback-delay failover-on-shutdown wait-for-activation failover-on-server-shutdown~",
    "shared-store-backup": """
        allow-failback failback-delay failover-on-shutdown scale-down: restart-backup
        failover-on-server-shutdown~
    """,
    "shared-store-colocated": """
        request-backup backup-request-retries backup-request-retry-interval max-backups backup-port-offset
        primary:shared-store-primary master:shared-store-primary backup:shared-store-backup
        slave:shared-store-backup excludes~:connector-refs
    """,
    "cluster-connections": "cluster-connection-uri*: cluster-connection*:",
    "cluster-connection-uri": "@address @name",
    "cluster-connection": """
        address connector-ref check-period connection-ttl min-large-message-size call-timeout retry-interval
        retry-interval-multiplier max-retry-interval initial-connect-attempts reconnect-attempts
        use-duplicate-detection forward-when-no-consumers message-load-balancing max-hops
        confirmation-window-size producer-window-size call-failover-timeout notification-interval
        notification-attempts scale-down-connector client-id topology-scanner-attempts static-connectors:
        discovery-group-ref: @name @uri
    """,
    "broker-connections": "amqp-connection*:",
    "amqp-connection": """
        sender*: receiver*:sender peer*:sender mirror*: federation*:amqp-federation bridge*:amqp-bridge @uri
        @auto-start @reconnect-attempts @retry-interval @user @password @name
    """,
    "sender": "@address-match @queue-name",
    "mirror": """
        property*: @message-acknowledgements @queue-creation @queue-removal @durable @sync @address-filter
        @source-mirror-address~
    """,
    "amqp-federation": """
        local-queue-policy*: local-address-policy*: remote-queue-policy*:local-queue-policy
        remote-address-policy*:local-address-policy property*:
    """,
    "local-queue-policy": """
        include*:queue-matches exclude*:queue-matches property*: transformer-class-name transformer:
        @priority-adjustment @include-federated @name
    """,
    "local-address-policy": """
        include*:address-matches exclude*:address-matches property*: transformer-class-name transformer:
        @auto-delete @auto-delete-delay @auto-delete-message-count @max-hops @name @enable-divert-bindings
    """,
    "amqp-bridge": """
        bridge-from-address*: bridge-to-address*:bridge-from-address bridge-from-queue*:
        bridge-to-queue*:bridge-from-queue property*: @name
    """,
    "bridge-from-address": """
        property*: transformer-class-name transformer: @name @priority @filter @remote-address
        @remote-address-prefix @remote-address-suffix @remote-terminus-capabilities include*:address-matches
        exclude*:address-matches @enable-divert-bindings @use-durable-subscriptions
    """,
    "bridge-from-queue": """
        property*: transformer-class-name transformer: @name @priority @filter @remote-address
        @remote-address-prefix @remote-address-suffix @remote-terminus-capabilities include*:queue-matches
        exclude*:queue-matches @priority-adjustment
    """,
    "connection-routers": "connection-router*:",
    "connection-router": """
        key-type* key-filter* local-target-filter* cache*:router-cache policy*:named-policy pool*:router-pool
        key-transformer*:named-policy @name
    """,
    "router-cache": "persisted* timeout*",
    "named-policy": "property*: @name",
    "router-pool": """
        username* password* check-period* quorum-size* quorum-timeout* local-target-enabled* cluster-connection*
        static-connectors*:connector-refs discovery-group-ref*:
    """,
    "grouping-handler": "type address timeout group-timeout reaper-period @name",
    "journal-retention-directory": "@unit @period @storage-limit",
    "store": "file-store database-store:",
    "database-store": """
        jdbc-driver-class-name jdbc-connection-url jdbc-user jdbc-password data-source-class-name
        data-source-properties: message-table-name bindings-table-name large-message-table-name
        page-store-table-name node-manager-store-table-name jdbc-network-timeout jdbc-lock-renew-period
        jdbc-lock-expiration jdbc-journal-sync-period jdbc-allowed-time-diff jdbc-max-page-size-bytes
        jdbc-lock-acquisition-timeout~ jms-bindings-table-name~
    """,
    "data-source-properties": "data-source-property*:property",
    "security-settings": "security-setting*: security-setting-plugin: role-mapping*:",
    "security-setting": "permission*: @match",
    "permission": "@type @roles",
    "security-setting-plugin": "setting*: @class-name",
    "setting": "@name @value",
    "role-mapping": "@from @to",
    "broker-plugins": "broker-plugin*:",
    "broker-plugin": "property*: @class-name",
    "metrics": """
        jvm-memory jvm-threads jvm-gc netty-pool file-descriptors processor uptime logging security-caches
        executor-services plugin:broker-plugin
    """,
    "address-settings": "address-setting*:",
    "address-setting": """
        dead-letter-address auto-create-dead-letter-resources dead-letter-queue-prefix dead-letter-queue-suffix
        expiry-address auto-create-expiry-resources expiry-queue-prefix expiry-queue-suffix no-expiry
        expiry-delay min-expiry-delay max-expiry-delay redelivery-delay redelivery-delay-multiplier
        redelivery-collision-avoidance-factor max-redelivery-delay max-delivery-attempts max-size-bytes
        max-size-messages page-limit-bytes page-limit-messages max-size-bytes-reject-threshold page-size-bytes
        page-max-cache-size max-read-page-messages prefetch-page-messages max-read-page-bytes
        prefetch-page-bytes address-full-policy page-full-policy message-counter-history-day-limit
        last-value-queue default-last-value-queue default-last-value-key default-non-destructive
        default-exclusive-queue default-group-rebalance default-group-rebalance-pause-dispatch
        default-group-buckets default-group-first-key default-consumers-before-dispatch
        default-delay-before-dispatch redistribution-delay send-to-dla-on-no-route slow-consumer-threshold
        slow-consumer-threshold-measurement-unit slow-consumer-policy slow-consumer-check-period
        auto-create-jms-queues auto-delete-jms-queues auto-create-jms-topics auto-delete-jms-topics
        auto-create-queues auto-delete-queues auto-delete-created-queues auto-delete-queues-delay
        auto-delete-queues-message-count auto-delete-queues-skip-usage-check config-delete-queues
        auto-create-addresses auto-delete-addresses auto-delete-addresses-delay
        auto-delete-addresses-skip-usage-check config-delete-addresses config-delete-diverts
        management-browse-page-size management-message-attribute-size-limit default-purge-on-no-consumers
        default-max-consumers default-queue-routing-type default-address-routing-type
        default-consumer-window-size default-ring-size retroactive-message-count enable-metrics
        enable-ingress-timestamp id-cache-size initial-queue-buffer-size @match
    """,
    "resource-limit-settings": "resource-limit-setting*:",
    "resource-limit-setting": "max-connections max-sessions max-queues @match",
    "connector-services": "connector-service*:",
    "connector-service": "factory-class param*:property @name",
    "addresses": "address*:",
    "address": "anycast: multicast:anycast @name",
    "anycast": "queue*:address-queue",
    "address-queue": """
        filter: durable user @name @max-consumers @purge-on-no-consumers @exclusive @group-rebalance
        @group-rebalance-pause-dispatch @group-buckets @group-first-key @last-value @last-value-key
        @non-destructive @consumers-before-dispatch @delay-before-dispatch @ring-size @enabled
    """,
    "wildcard-addresses": "enabled routing-enabled delimiter any-words single-word",
    "jms": "jmx-domain queue*:jms-queue topic*:jms-topic",
    "jms-queue": "selector:filter durable @name",
    "jms-topic": "@name",
}

# Entries of elements that hold text beside their attributes.
_WITH_TEXT = ("transport", "journal-retention-directory")


@frozen
class Child:
    """Describe one name that may stand in an element. A name that holds text has no ``entry``."""

    name: str
    entry: str | None
    repeats: bool
    former: bool


@frozen
class Entry:
    """Describe one kind of element: it holds only ``children`` and ``attributes``, or text beside these."""

    children: dict[str, Child]
    attributes: dict[str, Child]
    holds_text: bool


#: What may stand in an element of which the table has the name alone.
TEXT = Entry({}, {}, holds_text=True)


@cache
def entry(name: str) -> Entry:
    """Return what may stand in elements of a kind."""
    children: dict[str, Child] = {}
    attributes: dict[str, Child] = {}
    for word in _ENTRIES[name].split():
        text, colon, kind = word.partition(":")
        plain = text.strip("@*~")
        child = Child(plain, (kind or plain) if colon else None, "*" in text, "~" in text)
        (attributes if text.startswith("@") else children)[plain] = child
    return Entry(children, attributes, holds_text=name in _WITH_TEXT)


def places(kind: str = "configuration", path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Child]]:
    """Yield every place where a name may stand, as a path, outer ones first; attributes begin with ``@``."""
    known = entry(kind)
    for attribute in known.attributes.values():
        yield (*path, f"@{attribute.name}"), attribute
    for child in known.children.values():
        yield (*path, child.name), child
        if child.entry is not None:
            yield from places(child.entry, (*path, child.name))
