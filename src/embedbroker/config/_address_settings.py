"""Address settings: the grammar of a match text, and how several matches combine for one address.

Responsible for the ``address-setting`` vocabulary that exists so far, with Artemis' defaults, and for wildcard lookup
with first-set-value-wins merging. Does not depend on queues, messages or files.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

from attrs import Attribute, define, evolve, field, fields, frozen

from embedclient.model import hints_at_names

from ._checks import instance, number, optional, text, whole
from ._matches import Matches
from ._wildcards import WildcardConfiguration

__all__ = ["AddressFullPolicy", "AddressSettings", "AddressSettingsRepository"]

_CACHE_ENTRIES_MAX = 20_000
_MERGED_MAX = 1_000


class AddressFullPolicy(Enum):
    """Define the treatment of a producer at an address that is over its limit."""

    #: It gets no credit, and waits.
    BLOCK = "BLOCK"
    #: Its send is refused with an `AddressFullException`.
    FAIL = "FAIL"


def _share(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Check a share of a whole."""
    number(0)(instance, attribute, value)
    if isinstance(value, int | float) and value > 1:
        raise ValueError(f"{attribute.name} must be from 0 to 1, not {value!r}")


_text = optional(text)
_flag = optional(instance(bool))
_policy = optional(instance(AddressFullPolicy, "an"))
_number = optional(whole(-1, 2**63 - 1))
_int32 = optional(whole(-1, 2**31 - 1))


@hints_at_names
@frozen
class AddressSettings:
    """Hold the settings of the addresses that a match covers.

    ``None`` means unset here: a wider match or the default decides. Times are milliseconds, sizes bytes; -1 switches a
    limit or a scan off. Names and defaults are those of Artemis' ``address-setting`` element.

    Attributes:
        dead_letter_address: Address of messages with too many deliveries; without one they are dropped.
        auto_create_dead_letter_resources: Whether each address with dead letters gets its queue on the dead letter
            address, which is created with it.
        dead_letter_queue_prefix: Beginning of the name of such a queue; the name of the address follows.
        dead_letter_queue_suffix: End of that name.
        expiry_address: Address of expired messages; without one they are dropped.
        auto_create_expiry_resources: Whether each address with expired messages gets its queue on the expiry address,
            which is created with it.
        expiry_queue_prefix: Beginning of the name of such a queue; the name of the address follows.
        expiry_queue_suffix: End of that name.
        no_expiry: Whether messages lose their expiration when they are sent.
        expiry_delay_ms: Expiration given to messages that have none.
        min_expiry_delay_ms: Shortest expiration.
        max_expiry_delay_ms: Longest expiration; messages that have none get it.
        max_delivery_attempts: Deliveries before a message is dead; -1 or 0: no limit.
        redelivery_delay_ms: Time that a message waits after its first rollback.
        redelivery_delay_multiplier: Factor by which each further rollback lengthens that time.
        max_redelivery_delay_ms: Longest such time; -1: ten times ``redelivery_delay_ms``.
        redelivery_collision_avoidance_factor: Largest share of the time, 0 to 1, by which it is longer or shorter.
        max_size_bytes: Bytes of messages on the address beyond which it is full.
        address_full_policy: Treatment of the producers of a full address.
        send_to_dla_on_no_route: Whether messages that no queue takes become dead letters.
        redistribution_delay_ms: Time after which messages that no consumer here takes go to another member of the
            cluster that has one; -1: never.
        auto_create_queues: Whether queues are created on demand.
        auto_create_addresses: Whether addresses are created on demand.
        auto_delete_queues: Whether queues created on demand are deleted when they are idle.
        auto_delete_addresses: Whether addresses created on demand are deleted when they are idle.
        auto_delete_created_queues: Whether all other queues are deleted when they are idle.
        auto_delete_queues_delay_ms: Time that a queue must have been idle.
        auto_delete_addresses_delay_ms: Time that an address must have been idle.
        auto_delete_queues_message_count: Messages that may be left in a queue that is deleted; -1: any number.
        auto_delete_queues_skip_usage_check: Whether a queue that was never used is deleted, too: its delay then counts
            from its creation.
        default_queue_routing_type: Routing type of queues declared without one: 0 is multicast, 1 anycast.
        default_max_consumers: Consumers of a queue declared without a maximum.
        default_exclusive_queue: Whether a queue declared without that attribute is exclusive.
        default_group_buckets: Buckets that message groups share; -1: one for each group; 0: groups have no effect.
        default_group_rebalance: Whether a new consumer ends all assignments of groups to consumers.
        default_group_rebalance_pause_dispatch: Whether nothing is delivered then until what consumers hold is settled.
        default_group_first_key: Property that is true in the first message of a group for a consumer.
        default_purge_on_no_consumers: Whether a queue declared without that attribute is purged without consumers.
        default_consumer_window_size: Window returned to clients that query it.
        config_delete_queues: Whether queues that a configuration created, and no longer contains, are deleted.
        config_delete_addresses: Whether addresses that the configuration does not contain are deleted with all their
            queues, unless they were created on demand.
        config_delete_diverts: Whether diverts that the configuration no longer contains are removed at the start.
        id_cache_size: Duplicate ids that the address keeps, 0 for none; None: ``BrokerConfig.id_cache_size``.
    """

    dead_letter_address: str | None = field(default=None, validator=_text)
    auto_create_dead_letter_resources: bool | None = field(default=None, validator=_flag)
    dead_letter_queue_prefix: str | None = field(default=None, validator=_text)
    dead_letter_queue_suffix: str | None = field(default=None, validator=_text)
    expiry_address: str | None = field(default=None, validator=_text)
    auto_create_expiry_resources: bool | None = field(default=None, validator=_flag)
    expiry_queue_prefix: str | None = field(default=None, validator=_text)
    expiry_queue_suffix: str | None = field(default=None, validator=_text)
    no_expiry: bool | None = field(default=None, validator=_flag)
    expiry_delay_ms: int | None = field(default=None, validator=_number)
    min_expiry_delay_ms: int | None = field(default=None, validator=_number)
    max_expiry_delay_ms: int | None = field(default=None, validator=_number)
    max_delivery_attempts: int | None = field(default=None, validator=_number)
    redelivery_delay_ms: int | None = field(default=None, validator=optional(whole(0, 2**63 - 1)))
    redelivery_delay_multiplier: float | None = field(default=None, validator=optional(number(0)))
    max_redelivery_delay_ms: int | None = field(default=None, validator=_number)
    redelivery_collision_avoidance_factor: float | None = field(default=None, validator=optional(_share))
    max_size_bytes: int | None = field(default=None, validator=_number)
    address_full_policy: AddressFullPolicy | None = field(default=None, validator=_policy)
    send_to_dla_on_no_route: bool | None = field(default=None, validator=_flag)
    redistribution_delay_ms: int | None = field(default=None, validator=_number)
    auto_create_queues: bool | None = field(default=None, validator=_flag)
    auto_create_addresses: bool | None = field(default=None, validator=_flag)
    auto_delete_queues: bool | None = field(default=None, validator=_flag)
    auto_delete_addresses: bool | None = field(default=None, validator=_flag)
    auto_delete_created_queues: bool | None = field(default=None, validator=_flag)
    auto_delete_queues_delay_ms: int | None = field(default=None, validator=_number)
    auto_delete_addresses_delay_ms: int | None = field(default=None, validator=_number)
    auto_delete_queues_message_count: int | None = field(default=None, validator=_number)
    auto_delete_queues_skip_usage_check: bool | None = field(default=None, validator=_flag)
    default_queue_routing_type: int | None = field(default=None, validator=optional(whole(0, 1)))
    default_max_consumers: int | None = field(default=None, validator=_int32)
    default_exclusive_queue: bool | None = field(default=None, validator=_flag)
    default_group_buckets: int | None = field(default=None, validator=_int32)
    default_group_rebalance: bool | None = field(default=None, validator=_flag)
    default_group_rebalance_pause_dispatch: bool | None = field(default=None, validator=_flag)
    default_group_first_key: str | None = field(default=None, validator=_text)
    default_purge_on_no_consumers: bool | None = field(default=None, validator=_flag)
    default_consumer_window_size: int | None = field(default=None, validator=_int32)
    config_delete_queues: bool | None = field(default=None, validator=_flag)
    config_delete_addresses: bool | None = field(default=None, validator=_flag)
    config_delete_diverts: bool | None = field(default=None, validator=_flag)
    id_cache_size: int | None = field(default=None, validator=optional(whole(0, 2**31 - 1)))

    def below(self, wider: AddressSettings) -> AddressSettings:
        """Return these settings with every unset value taken from a wider match.

        Args:
            wider: the settings of the wider match.
        """
        changes: dict[str, Any] = {
            attribute.name: getattr(wider, attribute.name)
            for attribute in fields(AddressSettings)
            if getattr(self, attribute.name) is None
        }
        return evolve(self, **changes)


DEFAULT_SETTINGS = AddressSettings(
    auto_create_dead_letter_resources=False,
    dead_letter_queue_prefix="DLQ.",
    dead_letter_queue_suffix="",
    auto_create_expiry_resources=False,
    expiry_queue_prefix="EXP.",
    expiry_queue_suffix="",
    no_expiry=False,
    expiry_delay_ms=-1,
    min_expiry_delay_ms=-1,
    max_expiry_delay_ms=-1,
    max_delivery_attempts=10,
    redelivery_delay_ms=0,
    redelivery_delay_multiplier=1.0,
    max_redelivery_delay_ms=-1,
    redelivery_collision_avoidance_factor=0.0,
    max_size_bytes=-1,
    address_full_policy=AddressFullPolicy.BLOCK,
    send_to_dla_on_no_route=False,
    redistribution_delay_ms=-1,
    auto_create_queues=True,
    auto_create_addresses=True,
    auto_delete_queues=True,
    auto_delete_addresses=True,
    auto_delete_created_queues=False,
    auto_delete_queues_delay_ms=0,
    auto_delete_addresses_delay_ms=0,
    auto_delete_queues_message_count=0,
    auto_delete_queues_skip_usage_check=False,
    default_queue_routing_type=0,
    default_max_consumers=-1,
    default_exclusive_queue=False,
    default_group_buckets=-1,
    default_group_rebalance=False,
    default_group_rebalance_pause_dispatch=False,
    default_purge_on_no_consumers=False,
    default_consumer_window_size=1024 * 1024,
    config_delete_queues=False,
    config_delete_addresses=False,
    config_delete_diverts=False,
)


@define(eq=False)
class AddressSettingsRepository:
    """Return settings by address. Merged results are cached by address, at most 20,000 of them."""

    entries: dict[str, AddressSettings] = field(factory=dict)
    wildcards: WildcardConfiguration = field(factory=WildcardConfiguration)
    uuid_namespace: str = ""
    literal_markers: str = ""
    _matches: Matches[AddressSettings] = field(init=False)
    _cache: dict[str, AddressSettings] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._matches = Matches(self.entries, self.wildcards, self.uuid_namespace, self.literal_markers)

    def of(self, address: str) -> AddressSettings:
        """Return the merged settings of one address; every value is set but names and id_cache_size.

        Of a fully qualified name ``address::queue`` the address counts.
        """
        found = self._cache.get(address)
        if found is None:
            if len(self._cache) >= _CACHE_ENTRIES_MAX:
                self._cache.clear()
            matching = self._matches.of(address.partition("::")[0])
            found = self._cache[address] = _together(tuple(matching))
        return found

    def given(self, address: str) -> AddressSettings:
        """Return the merged settings of one address without defaults: None for each value that no match sets."""
        settings = AddressSettings()
        for wider in self._matches.of(address.partition("::")[0]):
            settings = settings.below(wider)
        return settings

    def replace(self, match: str, settings: AddressSettings | None) -> None:
        """Use other settings for a match from now on; None removes the match.

        Raises:
            ValueError: The text is not a match; nothing is changed.
        """
        entries = {known: each for known, each in self.entries.items() if known != match}
        if settings is not None:
            entries[match] = settings
        self.replace_all(entries)

    def replace_all(self, entries: Mapping[str, AddressSettings]) -> None:
        """Use other settings for all matches from now on.

        Raises:
            ValueError: A text is not a match; nothing is changed.
        """
        self._matches = Matches(entries, self.wildcards, self.uuid_namespace, self.literal_markers)
        self.entries = dict(entries)
        self._cache.clear()


@lru_cache(_MERGED_MAX)
def _together(matching: tuple[AddressSettings, ...]) -> AddressSettings:
    """Merge the settings of all matches, the narrowest first. Addresses with the same matches share the result."""
    settings = AddressSettings()
    for wider in (*matching, DEFAULT_SETTINGS):
        settings = settings.below(wider)
    return settings
