"""Attributes of the control ``broker`` about security, transactions, settings and the programs around it.

Responsible for their names and types in Artemis. A broker without security has figures of 0.
"""

from __future__ import annotations

from collections.abc import Callable

from ._registry import Attribute, Call, SecurityFigures

__all__ = ["BROKER_FIGURES"]


def _figure(read: Callable[[SecurityFigures], int]) -> Callable[[Call], int]:
    def attribute(call: Call) -> int:
        store = call.broker.security
        return 0 if store is None else read(store.statistics())

    return attribute


BROKER_FIGURES = (
    Attribute("AuthenticationSuccessCount", "long", _figure(lambda found: found.logins), "Accepted logins."),
    Attribute("AuthenticationFailureCount", "long", _figure(lambda found: found.refused_logins), "Refused logins."),
    Attribute("AuthenticationCacheSize", "long", _figure(lambda found: found.cached_logins), "Logins in the cache."),
    Attribute(
        "AuthorizationSuccessCount", "long", _figure(lambda found: found.granted), "Checks of permissions passed."
    ),
    Attribute(
        "AuthorizationFailureCount", "long", _figure(lambda found: found.refused), "Checks that were not passed."
    ),
    Attribute("AuthorizationCacheSize", "long", _figure(lambda found: found.cached_grants), "Grants in the cache."),
    Attribute(
        "TransactionTimeout",
        "long",
        lambda call: call.kernel.config.transaction_timeout_ms,
        "Milliseconds after which an XA branch that is not prepared is rolled back.",
    ),
    Attribute(
        "TransactionTimeoutScanPeriod",
        "long",
        lambda call: call.kernel.config.transaction_timeout_scan_period_ms,
        "Milliseconds from one look for those to the next.",
    ),
    Attribute(
        "MessageExpiryScanPeriod",
        "long",
        lambda call: call.kernel.config.message_expiry_scan_period_ms,
        "Milliseconds from one look for expired messages to the next; -1: none.",
    ),
    Attribute(
        "IDCacheSize",
        "int",
        lambda call: call.kernel.config.id_cache_size,
        "Duplicate ids that each address keeps.",
    ),
    Attribute(
        "PersistIDCache",
        "boolean",
        lambda call: call.kernel.config.persist_id_cache,
        "Duplicate ids survive a restart.",
    ),
    Attribute(
        "WildcardRoutingEnabled",
        "boolean",
        lambda call: call.kernel.config.wildcard_addresses.routing_enabled,
        "Addresses with wildcards take messages of others.",
    ),
    Attribute(
        "JournalDirectory",
        "String",
        lambda call: call.kernel.config.data_directory,
        "Directory of the journal; null for a broker in memory.",
    ),
    Attribute(
        "LargeMessagesDirectory",
        "String",
        lambda call: call.kernel.config.large_messages_directory or call.kernel.config.data_directory,
        "Directory of the bodies of large messages; null for a broker in memory.",
    ),
    Attribute("BrokerPluginClassNames", "String[]", lambda call: [], "Names of plugins; none exists."),
    Attribute("IncomingInterceptorClassNames", "String[]", lambda call: [], "Names of interceptors; none exists."),
    Attribute("OutgoingInterceptorClassNames", "String[]", lambda call: [], "The same."),
    Attribute("EmbeddedWebServerStarted", "boolean", lambda call: False, "A console is served; none exists."),
)
