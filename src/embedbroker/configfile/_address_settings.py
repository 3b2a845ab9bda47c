"""``address-settings``: rules for the addresses that a match covers.

Responsible for the settings that exist here, and for the replacement of policies that do not. Does not depend on how
matches combine.
"""

from __future__ import annotations

from embedbroker.config import AddressFullPolicy, AddressSettings, AddressSettingsRepository, WildcardConfiguration

from ._document import Element
from ._findings import Findings
from ._mapping import Fields, built, named_once, required_attribute, store, value_of, values_of
from ._values import boolean, number, one_of, size, text_or_nothing, whole

__all__ = ["address_settings"]

_DELETION = one_of({"OFF": False, "FORCE": True})
_FIELDS: Fields = {
    # An empty name removes the value of a wider match.
    "dead-letter-address": ("dead_letter_address", text_or_nothing),
    "auto-create-dead-letter-resources": ("auto_create_dead_letter_resources", boolean),
    "dead-letter-queue-prefix": ("dead_letter_queue_prefix", text_or_nothing),
    "dead-letter-queue-suffix": ("dead_letter_queue_suffix", text_or_nothing),
    "expiry-address": ("expiry_address", text_or_nothing),
    "auto-create-expiry-resources": ("auto_create_expiry_resources", boolean),
    "expiry-queue-prefix": ("expiry_queue_prefix", text_or_nothing),
    "expiry-queue-suffix": ("expiry_queue_suffix", text_or_nothing),
    "no-expiry": ("no_expiry", boolean),
    "expiry-delay": ("expiry_delay_ms", whole),
    "min-expiry-delay": ("min_expiry_delay_ms", whole),
    "max-expiry-delay": ("max_expiry_delay_ms", whole),
    "max-delivery-attempts": ("max_delivery_attempts", whole),
    "redelivery-delay": ("redelivery_delay_ms", whole),
    "redelivery-delay-multiplier": ("redelivery_delay_multiplier", number),
    "max-redelivery-delay": ("max_redelivery_delay_ms", whole),
    "redelivery-collision-avoidance-factor": ("redelivery_collision_avoidance_factor", number),
    "max-size-bytes": ("max_size_bytes", size),
    "send-to-dla-on-no-route": ("send_to_dla_on_no_route", boolean),
    "redistribution-delay": ("redistribution_delay_ms", whole),
    "auto-create-queues": ("auto_create_queues", boolean),
    "auto-create-addresses": ("auto_create_addresses", boolean),
    "auto-delete-queues": ("auto_delete_queues", boolean),
    "auto-delete-addresses": ("auto_delete_addresses", boolean),
    "auto-delete-created-queues": ("auto_delete_created_queues", boolean),
    "auto-delete-queues-delay": ("auto_delete_queues_delay_ms", whole),
    "auto-delete-addresses-delay": ("auto_delete_addresses_delay_ms", whole),
    "auto-delete-queues-message-count": ("auto_delete_queues_message_count", whole),
    "auto-delete-queues-skip-usage-check": ("auto_delete_queues_skip_usage_check", boolean),
    "default-queue-routing-type": ("default_queue_routing_type", one_of({"MULTICAST": 0, "ANYCAST": 1})),
    "default-max-consumers": ("default_max_consumers", whole),
    "default-exclusive-queue": ("default_exclusive_queue", boolean),
    "default-group-buckets": ("default_group_buckets", whole),
    "default-group-rebalance": ("default_group_rebalance", boolean),
    "default-group-rebalance-pause-dispatch": ("default_group_rebalance_pause_dispatch", boolean),
    "default-group-first-key": ("default_group_first_key", text_or_nothing),
    "default-purge-on-no-consumers": ("default_purge_on_no_consumers", boolean),
    "default-consumer-window-size": ("default_consumer_window_size", whole),
    "config-delete-queues": ("config_delete_queues", _DELETION),
    "config-delete-addresses": ("config_delete_addresses", _DELETION),
    "config-delete-diverts": ("config_delete_diverts", _DELETION),
    "id-cache-size": ("id_cache_size", whole),
}
_FULL_POLICIES = {"BLOCK": "BLOCK", "FAIL": "FAIL", "PAGE": "PAGE", "DROP": "DROP"}


def address_settings(
    core: Element, wildcards: WildcardConfiguration, literal_markers: str, findings: Findings
) -> dict[str, AddressSettings]:
    """Return the settings by match. A file without any has none, as in Artemis: dead letters are then dropped."""
    settings: dict[str, AddressSettings] = {}
    holder = core.take("address-settings")
    for element in [] if holder is None else holder.take_all("address-setting"):
        match = required_attribute(element, "match", findings)
        values = values_of(element, _FIELDS, AddressSettings, findings)
        policy = _full_policy(element, findings)
        if policy is not None:
            store(values, "address_full_policy", policy, AddressSettings, element.place, findings)
        found = built(AddressSettings, values, element.place, findings)
        if match is None or found is None:
            continue
        try:
            AddressSettingsRepository({match: found}, wildcards, literal_markers=literal_markers)
        except ValueError as error:
            findings.refuse(element.place, str(error))
        else:
            named_once(settings, match, found, element.place, findings)
    return settings


def _full_policy(element: Element, findings: Findings) -> AddressFullPolicy | None:
    child = element.take("address-full-policy")
    word = None if child is None else value_of(child, one_of(_FULL_POLICIES), findings)
    if child is None or word is None:
        return None
    if word in AddressFullPolicy.__members__:
        return AddressFullPolicy(word)
    # Both keep the broker from running out of memory; of the two that exist, waiting loses nothing.
    findings.warn_of(child, f"{word} is not there yet: producers of a full address wait, as with BLOCK")
    return AddressFullPolicy.BLOCK
