"""The configuration of one broker as one frozen value.

Does not read files or environment; `embedbroker.configfile` does that and returns a value of this class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any, Protocol, get_args

from attrs import Attribute, field, fields, frozen

from embedclient.model import TLS, TransportConfiguration, as_tls, describe_name, did_you_mean

from ._acceptors import ANY_HOST, AcceptorConfig, as_acceptors, host, tls_text
from ._address_settings import AddressSettings
from ._addresses import AddressConfiguration, as_addresses
from ._bridges import BridgeConfig, as_bridges, check_bridges
from ._checks import as_path, as_tuple, instance, named, optional, path, prefixes, text, whole
from ._cluster import (
    DEFAULT_CLUSTER_PASSWORD,
    DEFAULT_CLUSTER_USER,
    ClusterConnection,
    as_cluster_connections,
    as_connectors,
)
from ._discovery import (
    BroadcastGroup,
    DiscoveryGroup,
    as_broadcast_groups,
    as_discovery_groups,
    check_discovery_group,
)
from ._diverts import DivertConfiguration, as_diverts
from ._grouping import GroupingHandlerConfig
from ._ha_policy import Colocated, HAPolicy, PlainPolicy, PrimaryOnly
from ._matches import check_markers, check_match
from ._nested import named_values
from ._security import (
    ANY_ROLE,
    GuestLogin,
    ResourceLimits,
    SecuritySetting,
    User,
    UserSource,
    as_limits,
    as_security_settings,
    as_users,
)
from ._wildcards import WildcardConfiguration

__all__ = ["BrokerConfig", "ConfigurationSource", "ConfigurationWatch", "MemoryShares", "check_beside_acceptors"]

_DEFAULT_ADDRESS_SETTINGS = {
    "#": AddressSettings(dead_letter_address="DLQ", expiry_address="ExpiryQueue"),
}

# Minimum for a broker with little memory: several hundred producers with the usual window fit.
MARGIN_BYTES_MIN = 128 * 1024 * 1024
# What some sessions leave unconfirmed for a moment must fit.
RESEND_BYTES_MIN = 16 * 1024 * 1024
# Two addresses with the usual number of ids.
ID_CACHE_BYTES_MIN = 16 * 1024 * 1024

# Of an audit log: the segment that is written, one that is being removed, and some to read.
AUDIT_SEGMENTS_MIN = 4

# Address of the broker's own services, which is bound already.
_SERVICES_ADDRESS = "embedbroker.services"

# What a broker with a list of acceptors has in each of them instead.
_OF_ONE_ACCEPTOR = ("host", "port", "acceptor_name", "anycast_prefixes", "multicast_prefixes", "tls")

_whole = whole(0)
_positive = whole(1)
_time = whole(-1)


def _user_source(_config: BrokerConfig, _attribute: Attribute[Any], value: object) -> None:
    for method in ("refresh", "list_users", "change"):
        if value is not None and not callable(getattr(value, method, None)):
            raise TypeError(f"user_source must have a method {method}, and {type(value).__name__} has none")
    if value is not None and not hasattr(value, "loaded"):
        raise TypeError(f"user_source must have an attribute loaded, and {type(value).__name__} has none")


def _configuration_source(_config: BrokerConfig, _attribute: Attribute[Any], value: object) -> None:
    if value is not None and not callable(getattr(value, "watch", None)):
        raise TypeError(f"configuration_source must have a method watch, and {type(value).__name__} has none")


def _expression(config: BrokerConfig, attribute: Attribute[str], value: object) -> None:
    text(config, attribute, value)
    try:
        re.compile(str(value))
    except re.error as error:
        raise ValueError(f"{attribute.name} must be a regular expression, not {value!r}: {error}") from None


def _management_address(config: BrokerConfig | None, attribute: Attribute[str], value: object) -> None:
    named(config, attribute, value)
    if "::" in str(value):
        raise ValueError(f"{attribute.name} must be an address without a queue, not {value!r}")
    if value == _SERVICES_ADDRESS:
        raise ValueError(f"{attribute.name} must not be {value!r}: the broker's own services have that address")


def _notification_address(config: BrokerConfig | None, attribute: Attribute[str], value: object) -> None:
    _management_address(config, attribute, value)
    if config is not None and value == config.management_address:
        raise ValueError(f"management_notification_address {value!r} must not be the management_address")


def _segment_size(_config: BrokerConfig, _attribute: Attribute[int], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 16 * 1024 or value % 512:
        raise ValueError(f"segment_size_bytes must be a multiple of 512, 16384 or more, not {value!r}")


def _audit_retention(config: BrokerConfig | None, _attribute: Attribute[int], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"audit_retention must be a number of bytes, not {value!r}")
    if config is None or config.audit_directory is None:
        return
    if value < AUDIT_SEGMENTS_MIN * config.segment_size_bytes:
        raise ValueError(f"audit_retention must be {AUDIT_SEGMENTS_MIN} times segment_size_bytes or more, not {value}")
    if config.data_directory is None:
        raise ValueError("audit_directory needs a data_directory: what lives in memory alone leaves nothing to audit")
    if config.audit_directory.rstrip("/") == config.data_directory.rstrip("/"):
        raise ValueError("audit_directory must not be the data_directory")


def _large_messages_directory(config: BrokerConfig, _attribute: Attribute[str | None], value: object) -> None:
    if value is None:
        return
    path(config, _attribute, value)
    if config.data_directory is None:
        raise ValueError(f"large_messages_directory {value!r} needs a data_directory: without one bodies are in memory")
    if str(value).rstrip("/") in (config.data_directory.rstrip("/"), (config.audit_directory or "").rstrip("/")):
        raise ValueError(
            f"large_messages_directory {value!r} must be used by nothing else: leave it out, or name another"
        )


def _ha_policy(config: BrokerConfig, _attribute: Attribute[HAPolicy], value: object) -> None:
    if not isinstance(value, HAPolicy):
        kinds = ", ".join(kind.__name__ for kind in get_args(HAPolicy))
        raise TypeError(f"ha_policy must be one of {kinds}, not {value!r}")
    scale_down = getattr(value.backup if isinstance(value, Colocated) else value, "scale_down", None)
    wanted = {"scale_down": scale_down.connectors if scale_down is not None else ()}
    if isinstance(value, Colocated):
        wanted["excludes"] = value.excludes
    for place, names in wanted.items():
        for name in names:
            if name not in config.connectors:
                hint = did_you_mean(name, config.connectors)
                raise ValueError(f"ha_policy: {place}: there is no connector {name!r}{hint}")
    if scale_down is None:
        return
    check_discovery_group("ha_policy: scale_down", scale_down.discovery_group, config.discovery_groups)
    clusters = [each.name for each in config.cluster_connections]
    if scale_down.cluster_name not in (None, *clusters):
        hint = did_you_mean(scale_down.cluster_name, clusters)
        raise ValueError(f"ha_policy: scale_down: there is no cluster connection {scale_down.cluster_name!r}{hint}")


def _cluster_connections(
    config: BrokerConfig, _attribute: Attribute[Any], value: tuple[ClusterConnection, ...]
) -> None:
    for connection in value:
        place = "cluster_connections" if len(value) == 1 else f"cluster_connections: {describe_name(connection.name)!r}"
        own = [] if connection.connector is None else [connection.connector]
        for name in (*connection.static_connectors, *own):
            if name not in config.connectors:
                raise ValueError(f"{place}: there is no connector {name!r}{did_you_mean(name, config.connectors)}")
        here = config.acceptor_of(connection).host
        if connection.connector is None and here in ANY_HOST:
            raise ValueError(f"{place} needs a connector: other brokers cannot connect to {here!r}")
        check_discovery_group(place, connection.discovery_group, config.discovery_groups)
    policies = [config.own_policy, *([config.ha_policy.backup] if isinstance(config.ha_policy, Colocated) else [])]
    for policy in policies:
        wanted = getattr(policy, "cluster_name", None)
        if value and wanted is not None and all(each.name != wanted for each in value):
            names = ", ".join(repr(describe_name(each.name)) for each in value)
            raise ValueError(
                f"ha_policy {type(policy).__name__} has cluster_name {wanted!r}, and cluster_connections has"
                f" {names}: it must be the name of one"
            )


def check_beside_acceptors(names: Iterable[str]) -> None:
    """Check the names of settings that a program gives for a broker with ``acceptors``.

    Raises:
        ValueError: each of the acceptors has that setting itself.
    """
    for name in names:
        if name in _OF_ONE_ACCEPTOR:
            raise ValueError(f"acceptors beside {name}: each of the acceptors has its own; leave {name} out")


def _acceptors(config: BrokerConfig | None, _attribute: Attribute[Any], value: tuple[AcceptorConfig, ...]) -> None:
    if config is None or not value:
        return
    check_beside_acceptors(
        name for name in _OF_ONE_ACCEPTOR if getattr(config, name) != getattr(fields(BrokerConfig), name).default
    )
    clusters = [each.name for each in config.cluster_connections]
    for acceptor in value:
        wanted = acceptor.cluster_connection
        if wanted is not None and wanted not in clusters:
            raise ValueError(
                f"acceptors: {describe_name(acceptor.name)!r} has cluster_connection {wanted!r}, which does not exist"
                f"{did_you_mean(wanted, clusters)}; name one of cluster_connections, or leave it out"
            )


def _broadcast_groups(
    config: BrokerConfig | None, _attribute: Attribute[Any], value: tuple[BroadcastGroup, ...]
) -> None:
    if config is None:
        return
    for group in value:
        for name in group.connectors:
            if name not in config.connectors:
                raise ValueError(
                    f"broadcast_groups: group {group.name!r}: there is no connector {name!r}"
                    f"{did_you_mean(name, config.connectors)}"
                )
        has_other = config.cluster_connection is not None and config.cluster_connection.connector is not None
        here = config.acceptor_of(config.cluster_connection).host
        if not group.connectors and not has_other and here in ANY_HOST:
            raise ValueError(
                f"broadcast_groups: group {group.name!r} needs connectors: other brokers cannot connect to {here!r}"
            )


def _bridges(config: BrokerConfig | None, _attribute: Attribute[Any], value: tuple[BridgeConfig, ...]) -> None:
    if config is not None:
        check_bridges(value, config.connectors, config.discovery_groups)


def _shown_by_name(connectors: Mapping[str, TransportConfiguration]) -> str:
    return repr({describe_name(name): connector for name, connector in connectors.items()})


def _settings(value: Mapping[str, AddressSettings | Mapping[str, Any]] | None) -> dict[str, AddressSettings]:
    entries: object = _DEFAULT_ADDRESS_SETTINGS if value is None else value
    entries = named_values(AddressSettings, entries, "address_settings")
    if not isinstance(entries, Mapping):
        raise TypeError(f"address_settings must map match texts to AddressSettings, not be {entries!r}")
    for match, settings in entries.items():
        if not isinstance(match, str) or not isinstance(settings, AddressSettings):
            raise TypeError(f"address_settings must map match texts to AddressSettings, not {match!r} to {settings!r}")
    return dict(entries)


def _markers(config: BrokerConfig, attribute: Attribute[str], value: object) -> None:
    text(config, attribute, value)
    try:
        check_markers(str(value))
    except ValueError as error:
        raise ValueError(f"{attribute.name} {error}") from None


def _matches(config: BrokerConfig, attribute: Attribute[Any], value: object) -> None:
    assert value is None or isinstance(value, Mapping)
    kind = attribute.name.removesuffix("s").replace("_", "-")
    for match in value or {}:
        try:
            # As in Artemis, only matches of address settings may be literal.
            markers = config.literal_match_markers if kind == "address-setting" else ""
            check_match(match, kind, config.wildcard_addresses, markers)
        except ValueError as error:
            raise ValueError(f"{attribute.name}: {error}") from None


class ConfigurationWatch(Protocol):
    """Look at a configuration file during one life of a broker."""

    @property
    def current(self) -> BrokerConfig:
        """Return the last configuration that was read and checked without an error."""

    def refresh(self, check: Callable[[BrokerConfig], None]) -> BrokerConfig | None:
        """Return the configuration if the file changed since it was last read without an error; None otherwise.

        A running broker calls this in a thread.

        Args:
            check: Raises ValueError for a configuration that the broker cannot use. The file counts as wrong then.

        Raises:
            ValueError: The file is missing, cannot be read, or is wrong; the text names the file and the place in it.
        """


class ConfigurationSource(Protocol):
    """Read a configuration again from a file that may change while the broker runs."""

    @property
    def config(self) -> BrokerConfig:
        """Return the configuration as it was loaded, before a program changed values of it."""

    def watch(self) -> ConfigurationWatch:
        """Begin to look for changes since the file was loaded."""


@frozen
class MemoryShares:
    """Hold shares of memory in bytes.

    Beyond ``messages`` producers wait, and beyond that and ``margin`` sends are refused.
    """

    messages: int
    margin: int
    partial_frames: int
    resend: int
    output: int
    duplicate_ids: int


@cache
def _open_to_users() -> SecuritySetting:
    return SecuritySetting.all(ANY_ROLE)


@frozen
class BrokerConfig:
    """Hold the complete configuration of a broker.

    Directories are texts or path-like values. Times end in their unit. Limits with the default None are shares of
    ``global_max_size_bytes``, see `memory_shares`.

    Attributes:
        name: Name in log lines, in the directory's lock, in ``vm_url``.
        host: Host on which the broker listens.
        port: Port on which the broker listens, 0 to 65,535; 0 takes a free one.
        acceptor_name: Name of the place where the broker listens, in management.
        anycast_prefixes: Prefixes of addresses by which clients state the routing type anycast.
        multicast_prefixes: Prefixes for the routing type multicast.
        tls: `TLSSettings` or an ``ssl.SSLContext`` of a server: clients must use TLS. None: no TLS.
        acceptors: Several places where the broker listens, in place of one with ``host``, ``port``, ``acceptor_name``,
            prefixes and ``tls``: ``[AcceptorConfig("clients", port=61616), AcceptorConfig("brokers", port=61617)]``.
        data_directory: Directory of the journal; None keeps everything in memory.
        ha_policy: Part of the broker in a live and backup group.
        node_manager_lock_directory: Directory of the lock files of such a group; None: the data directory.
        journal_lock_acquisition_timeout_ms: Longest wait for these locks; -1: for ever.
        connectors: Names for the places of brokers, as URLs or values: ``{"b": "tcp://host-b:61616"}``.
        broadcast_groups: Multicast groups at which the broker announces itself while it is live:
            ``[BroadcastGroup("here", "231.7.7.7")]``.
        discovery_groups: Multicast groups at which it finds others: ``[DiscoveryGroup("here", "231.7.7.7")]``. Cluster
            connections and bridges name them.
        cluster_connections: Make the broker a member of clusters, or of a live and backup group. One alone needs no
            list.
        cluster_user: User by which brokers of a cluster recognise each other; must be the same everywhere.
        cluster_password: Password with that user; must be the same everywhere.
        wildcard_addresses: Characters of wildcards in addresses, address settings and security settings.
        literal_match_markers: First and last character of a match of address settings in which wildcards are plain
            text, such as ``()``; empty: there are none.
        address_settings: Settings by match text. By default dead letters go to ``DLQ`` and expired messages to
            ``ExpiryQueue``, as in a broker that ``artemis create`` made.
        addresses: Addresses that exist from the start, with their queues: ``{"orders":
            AddressConfiguration(anycast={"orders": QueueConfiguration()})}``.
        diverts: Diverts that exist from the start: ``{"copy": DivertConfiguration("orders", "audit")}``.
        bridges: Bridges to other brokers: ``[BridgeConfig("to-b", queue="orders", static_connectors=["b"])]``.
        grouping_handler: Keeps the messages of each group on one queue of the cluster; None: on one consumer of
            whichever queue a message goes to.
        security_enabled: Whether clients must log in and need permissions; None: if there are users, a guest login or
            security settings.
        users: Users with their passwords and roles.
        guest: Admits clients without valid credentials; None refuses them.
        user_source: Reads users and guest login from their files, and changes the files, as `load_config` sets it for
            a ``login.config``. It reads files again that changed, of login modules with ``reload=true``. None: users
            are those of this configuration, and management changes them until the broker stops.
        configuration_source: Reads the configuration again when its file changes, as `load_config` sets it; None: no
            file is looked at.
        configuration_file_refresh_period_ms: Period at which that file is looked at; -1 or 0: never.
        security_settings: Roles with permissions, by match text; None: every user with a role may do everything.
        resource_limits: Limits by the name of the user.
        populate_validated_user: Whether messages carry the user that sent them, as ``_AMQ_VALIDATED_USER``.
        reject_empty_validated_user: Whether messages without that property are refused.
        authentication_cache_size: Results of logins that are kept, so that a password is hashed once; 0: none.
        authorization_cache_size: Decisions about permissions that are kept; 0: none.
        failed_login_delay_ms: Time for which a user must not log in from an address after its fifth failed login
            there. It doubles with each further one, up to a minute; 0: no delay.
        uuid_namespace: First words of the text by which the settings of an address are found whose name is a UUID, as
            those of temporary destinations are; empty: its name.
        management_address: Address of management messages.
        management_notification_address: Address of notifications; queues that are bound there get them.
        management_message_rbac: Whether a management message needs ``view`` or ``edit`` for its method, beside
            ``manage``.
        management_rbac_prefix: First word of the addresses on which these are checked.
        view_permission_method_match_pattern: Regular expression of the methods for which ``view`` is enough.
        send_address_notifications: Whether addresses that are added or removed are notifications.
        send_connection_notifications: Whether connections that are created or destroyed are notifications.
        message_counter_enabled: Whether messages that each queue got are sampled, in total and by the hour.
        message_counter_sample_period_ms: Time from one sample to the next.
        message_counter_max_day_history: Days of which the counts by the hour are kept.
        global_max_size_bytes: Memory for messages, beyond which producers wait for credits; None: half of the memory
            the process may use. 0 is refused, because producers would wait for ever.
        global_max_size_margin_bytes: Memory above that, beyond which sends are refused; None: half as much again, at
            least 128 MiB.
        partial_frames_bytes_max: Bytes of incomplete packets on all connections; None: an eighth of the memory for
            messages, at least one packet.
        resend_bytes_max: Bytes that all sessions keep for a reattachment; None: an eighth of the memory for messages,
            at least 16 MiB.
        output_total_bytes_max: Output waiting for all clients; beyond it the connection with the most is closed. None:
            an eighth of the memory for messages, at least ``output_bytes_max`` and one packet.
        id_cache_bytes_max: Bytes of all duplicate ids; None: an eighth of the memory for messages, at least 16 MiB.
        id_cache_size: Duplicate ids that each address keeps; 0: no duplicate detection.
        persist_id_cache: Whether duplicate ids survive a restart, like the messages they came with.
        persist_delivery_count_before_delivery: Whether a durable message goes to a consumer only when its delivery
            count is on disk. A consumer that gets it after a crash or a failover is then informed of the possible
            earlier delivery.
        frame_size_bytes_max: Largest packet; a larger one ends its connection.
        client_version_min: Oldest level of the CORE protocol that is admitted, 122 to 136: 126 is Artemis 1.5, anything
            below is HornetQ.
        connection_ttl_ms: Silence after which a client that sets no time to live is disconnected; -1:
            never.
        connection_check_interval_ms: Period of that check.
        handshake_timeout_ms: Longest wait for the first bytes of a connection; 0: no limit.
        connections_max: Maximum number of connections; further ones are closed at once.
        sessions_per_connection_max: Maximum number of sessions; further ones are refused.
        consumers_per_session_max: Maximum number of consumers; further ones are refused.
        session_metadata_bytes_max: Bytes of names and values; what exceeds it is refused.
        held_replies_max: Answers of one session that wait for the disk; one more ends its connection.
        addresses_max: Maximum number of addresses; further ones are refused.
        queues_max: Maximum number of queues; further ones are refused.
        message_expiry_scan_period_ms: Period of the expiry scan; -1: no scan, messages still expire at their delivery.
        transaction_timeout_ms: Age at which an XA branch that is not prepared is rolled back.
        transaction_timeout_scan_period_ms: Period of that check.
        xa_branches_max: Maximum number of XA branches; further ones are refused.
        address_queue_scan_period_ms: Period of the scan for unused queues and addresses; -1: none.
        output_high_water_bytes: Output waiting for a client, beyond which its consumers get nothing more until it has
            read.
        output_bytes_max: Output waiting for a client, beyond which its connection is closed.
        work_per_step_max: Deliveries before other connections have their turn.
        segment_size_bytes: Size of a journal file: a multiple of 512, at least 16 KiB.
        audit_directory: Directory, used by no other broker, in which a live broker records what it does with each
            message; None: no audit log. Needs a ``data_directory``.
        audit_retention: Maximum bytes of the audit log, at least four segments; the oldest segment is removed first.
        large_messages_directory: Directory, used by nothing else, of the bodies of large messages; may be on another
            file system. None: the ``data_directory``. Needs a ``data_directory``.

    Raises:
        ValueError, TypeError: a value is out of its range; the text names the field.
    """

    name: str = field(default="embedbroker", validator=named)
    host: str = field(default="127.0.0.1", validator=host)
    port: int = field(default=0, validator=whole(0, 65_535))
    acceptor_name: str = field(default="artemis", validator=named)
    anycast_prefixes: tuple[str, ...] = field(default=(), converter=as_tuple, validator=prefixes)
    multicast_prefixes: tuple[str, ...] = field(default=(), converter=as_tuple, validator=prefixes)
    tls: TLS | None = field(default=None, validator=as_tls, repr=tls_text)
    acceptors: tuple[AcceptorConfig, ...] = field(default=(), converter=as_acceptors, validator=_acceptors)
    data_directory: str | None = field(default=None, converter=as_path, validator=optional(path))
    ha_policy: HAPolicy = field(factory=PrimaryOnly, validator=_ha_policy)
    node_manager_lock_directory: str | None = field(default=None, converter=as_path, validator=optional(path))
    journal_lock_acquisition_timeout_ms: int = field(default=-1, validator=_time)
    connectors: dict[str, TransportConfiguration] = field(factory=dict, converter=as_connectors, repr=_shown_by_name)
    broadcast_groups: tuple[BroadcastGroup, ...] = field(
        default=(), converter=as_broadcast_groups, validator=_broadcast_groups
    )
    discovery_groups: tuple[DiscoveryGroup, ...] = field(default=(), converter=as_discovery_groups)
    cluster_connections: tuple[ClusterConnection, ...] = field(
        default=(), converter=as_cluster_connections, validator=_cluster_connections
    )
    cluster_user: str = field(default=DEFAULT_CLUSTER_USER, validator=named)
    cluster_password: str = field(default=DEFAULT_CLUSTER_PASSWORD, validator=text, repr=False)
    wildcard_addresses: WildcardConfiguration = field(
        factory=WildcardConfiguration, validator=instance(WildcardConfiguration)
    )
    literal_match_markers: str = field(default="", validator=_markers)
    address_settings: dict[str, AddressSettings] = field(default=None, converter=_settings, validator=_matches)
    addresses: dict[str, AddressConfiguration] = field(factory=dict, converter=as_addresses)
    diverts: dict[str, DivertConfiguration] = field(factory=dict, converter=as_diverts)
    bridges: tuple[BridgeConfig, ...] = field(default=(), converter=as_bridges, validator=_bridges)
    grouping_handler: GroupingHandlerConfig | None = field(
        default=None, validator=optional(instance(GroupingHandlerConfig))
    )
    security_enabled: bool | None = field(default=None, validator=optional(instance(bool)))
    users: tuple[User, ...] = field(default=(), converter=as_users)
    guest: GuestLogin | None = field(default=None, validator=optional(instance(GuestLogin)))
    user_source: UserSource | None = field(default=None, validator=_user_source, eq=False, repr=False)
    configuration_source: ConfigurationSource | None = field(
        default=None, validator=_configuration_source, eq=False, repr=False
    )
    configuration_file_refresh_period_ms: int = field(default=5_000, validator=_time)
    security_settings: dict[str, SecuritySetting] | None = field(
        default=None, converter=as_security_settings, validator=_matches
    )
    resource_limits: dict[str, ResourceLimits] = field(factory=dict, converter=as_limits)
    populate_validated_user: bool = field(default=False, validator=instance(bool))
    reject_empty_validated_user: bool = field(default=False, validator=instance(bool))
    authentication_cache_size: int = field(default=1_000, validator=_whole)
    authorization_cache_size: int = field(default=1_000, validator=_whole)
    failed_login_delay_ms: int = field(default=1_000, validator=_whole)
    uuid_namespace: str = field(default="", validator=text)
    management_address: str = field(default="activemq.management", validator=_management_address)
    management_notification_address: str = field(default="activemq.notifications", validator=_notification_address)
    management_message_rbac: bool = field(default=False, validator=instance(bool))
    management_rbac_prefix: str = field(default="mops", validator=named)
    view_permission_method_match_pattern: str = field(
        default="^(get|is|count|list|browse|query).*$", validator=_expression
    )
    send_address_notifications: bool = field(default=False, validator=instance(bool))
    send_connection_notifications: bool = field(default=False, validator=instance(bool))
    message_counter_enabled: bool = field(default=False, validator=instance(bool))
    message_counter_sample_period_ms: int = field(default=10_000, validator=_positive)
    message_counter_max_day_history: int = field(default=10, validator=_positive)
    global_max_size_bytes: int | None = field(default=None, validator=optional(_positive))
    global_max_size_margin_bytes: int | None = field(default=None, validator=optional(_whole))
    partial_frames_bytes_max: int | None = field(default=None, validator=optional(_positive))
    resend_bytes_max: int | None = field(default=None, validator=optional(_positive))
    output_total_bytes_max: int | None = field(default=None, validator=optional(_positive))
    id_cache_bytes_max: int | None = field(default=None, validator=optional(_positive))
    id_cache_size: int = field(default=20_000, validator=_whole)
    persist_id_cache: bool = field(default=True, validator=instance(bool))
    persist_delivery_count_before_delivery: bool = field(default=False, validator=instance(bool))
    frame_size_bytes_max: int = field(default=100 * 1024 * 1024, validator=_positive)
    client_version_min: int = field(default=126, validator=whole(122, 136))
    connection_ttl_ms: int = field(default=60_000, validator=_time)
    connection_check_interval_ms: int = field(default=2_000, validator=_positive)
    handshake_timeout_ms: int = field(default=10_000, validator=_whole)
    connections_max: int = field(default=20_000, validator=_whole)
    sessions_per_connection_max: int = field(default=10_000, validator=_positive)
    consumers_per_session_max: int = field(default=10_000, validator=_positive)
    session_metadata_bytes_max: int = field(default=64 * 1024, validator=_positive)
    held_replies_max: int = field(default=100_000, validator=_positive)
    addresses_max: int = field(default=100_000, validator=_positive)
    queues_max: int = field(default=100_000, validator=_positive)
    message_expiry_scan_period_ms: int = field(default=30_000, validator=_time)
    transaction_timeout_ms: int = field(default=300_000, validator=_positive)
    transaction_timeout_scan_period_ms: int = field(default=1_000, validator=_positive)
    xa_branches_max: int = field(default=100_000, validator=_positive)
    address_queue_scan_period_ms: int = field(default=30_000, validator=_time)
    output_high_water_bytes: int = field(default=1024 * 1024, validator=_positive)
    output_bytes_max: int = field(default=64 * 1024 * 1024, validator=_positive)
    work_per_step_max: int = field(default=2_000, validator=_positive)
    segment_size_bytes: int = field(default=10 * 1024 * 1024, validator=_segment_size)
    audit_directory: str | None = field(default=None, converter=as_path, validator=optional(path))
    audit_retention: int = field(default=10 * 1024**3, validator=_audit_retention)
    large_messages_directory: str | None = field(default=None, converter=as_path, validator=_large_messages_directory)

    @property
    def cluster_connection(self) -> ClusterConnection | None:
        """The cluster connection that clients, other brokers and backups meet here; None without any.

        It is the first one, or the one that ``ha_policy`` names.
        """
        wanted = getattr(self.own_policy, "cluster_name", None)
        named = [each for each in self.cluster_connections if wanted in (None, each.name)]
        return named[0] if named else None

    @cached_property
    def listens_at(self) -> tuple[AcceptorConfig, ...]:
        """The places where the broker listens: ``acceptors``, or the one that ``host`` and others describe."""
        if self.acceptors:
            return self.acceptors
        of_one = (self.host, self.port, self.anycast_prefixes, self.multicast_prefixes, self.tls)
        return (AcceptorConfig(self.acceptor_name, *of_one),)

    def acceptor_of(self, connection: ClusterConnection | None) -> AcceptorConfig:
        """Return the acceptor at which other brokers join by a cluster connection: the first one that names it.

        Without one it is the first one that belongs to it, else the first of all.

        Args:
            connection: One of ``cluster_connections``; None is the default one.
        """
        default = self.cluster_connection
        wanted = default if connection is None else connection
        is_default = wanted is default or wanted == default
        names = [None if wanted is None else wanted.name, *([None] if is_default else [])]
        found = [each for name in names for each in self.listens_at if each.cluster_connection == name]
        return (found or self.listens_at)[0]

    @property
    def is_secured(self) -> bool:
        """True if clients must log in and need permissions."""
        if self.security_enabled is not None:
            return self.security_enabled
        return bool(self.users) or self.guest is not None or self.security_settings is not None

    @property
    def own_policy(self) -> PlainPolicy:
        """The policy of the broker itself: that of a colocated broker without what it hosts."""
        return self.ha_policy.primary if isinstance(self.ha_policy, Colocated) else self.ha_policy

    @property
    def permissions(self) -> dict[str, SecuritySetting]:
        """The security settings in force: the configured ones, or the default of a broker with users."""
        if self.security_settings is None:
            return {"#": _open_to_users()}
        return self.security_settings

    def connector_to(self, place: str | TransportConfiguration) -> TransportConfiguration:
        """Return the connector to another broker.

        Args:
            place: name of one of ``connectors``, a URL, or the connector itself.

        Raises:
            ValueError: the URL cannot be used; the text names what is wrong.
            TypeError: it is neither text nor a connector.
        """
        if isinstance(place, str) and place in self.connectors:
            return self.connectors[place]
        return as_connectors({place if isinstance(place, str) else "target": place}).popitem()[1]

    def memory_shares(self, global_max_size_bytes: int) -> MemoryShares:
        """Return the shares of memory of a broker that keeps so many bytes of messages.

        Args:
            global_max_size_bytes: bytes of messages that the broker keeps in memory.
        """

        def share(given: int | None, otherwise: int) -> int:
            return otherwise if given is None else given

        eighth = global_max_size_bytes // 8
        return MemoryShares(
            messages=global_max_size_bytes,
            margin=share(self.global_max_size_margin_bytes, max(global_max_size_bytes // 2, MARGIN_BYTES_MIN)),
            partial_frames=share(self.partial_frames_bytes_max, max(eighth, self.frame_size_bytes_max)),
            resend=share(self.resend_bytes_max, max(eighth, RESEND_BYTES_MIN)),
            # One peer may leave as much, and a frame beyond.
            output=share(self.output_total_bytes_max, max(eighth, self.output_bytes_max + self.frame_size_bytes_max)),
            duplicate_ids=share(self.id_cache_bytes_max, max(eighth, ID_CACHE_BYTES_MIN)),
        )
