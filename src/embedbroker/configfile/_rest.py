"""Requests of a file without effect: one warning for each name of the schema that was not used.

Responsible for the wording, and for silence about values that request the present behaviour. Does not depend on which
code uses an element: the element records its use.
"""

from __future__ import annotations

from ._document import Element
from ._findings import Findings

__all__ = ["warn_about_rest"]

_NO_EFFECT = "has no effect here"
_NEITHER_IN_ARTEMIS = "Artemis ignores it, too"

# Path -> why it has no effect, where the reason is useful.
_REASONS = {
    "core/security-settings/security-setting-plugin": "write its settings as security-setting",
    "core/security-invalidation-interval": "a change of users or permissions empties the caches at once",
    "core/wild-card-routing-enabled": "write it as routing-enabled of wildcard-addresses; Artemis ignores it, too",
    "core/cluster-connections/cluster-connection/topology-scanner-attempts": (
        "static connectors are tried without a limit"
    ),
    "core/discovery-groups/discovery-group/local-bind-port": "a discovery group only receives",
    "core/store": "the journal is files of journal-directory",
    "core/journal-datasync": "every batch is synced to the disk",
    "core/journal-sync-transactional": "every batch is synced to the disk",
    "core/journal-sync-non-transactional": "every batch is synced to the disk",
    "core/large-message-sync": "a body is synced before its message is confirmed",
    "core/max-redelivery-records": "every count is recorded, and only the last one of a message is kept",
    "core/max-disk-usage": "the disk is not watched; a broker stops when it is full",
    "core/min-disk-free": "the disk is not watched; a broker stops when it is full",
    "core/suppress-session-notifications": "sessions are notifications while a queue is bound to their address",
    "core/queues": "write them as addresses",
    **{
        f"core/address-settings/address-setting/{name}": reason
        for name, reason in {
            "auto-delete-addresses-skip-usage-check": "an address that never had a queue is deleted, too",
            "management-browse-page-size": "lists of messages have 200 at most",
            "management-message-attribute-size-limit": "lists of messages cut texts behind 256 characters",
            "page-max-cache-size": _NEITHER_IN_ARTEMIS,
            "auto-create-jms-queues": _NEITHER_IN_ARTEMIS,
            "auto-delete-jms-queues": _NEITHER_IN_ARTEMIS,
            "auto-create-jms-topics": _NEITHER_IN_ARTEMIS,
            "auto-delete-jms-topics": _NEITHER_IN_ARTEMIS,
        }.items()
    },
}

# Values that request only existing behaviour, by what stands below an element.
_AS_IT_IS_BELOW = {
    "core": {
        "true": """
            journal-datasync journal-sync-transactional journal-sync-non-transactional create-journal-dir
            create-bindings-dir resolve-protocols large-message-sync wild-card-routing-enabled
        """,
        "false": """
            graceful-shutdown-enabled purge-page-folders log-journal-write-rate
            suppress-session-notifications mirror-page-transaction
        """,
        "-1": """
            global-max-messages max-disk-usage min-disk-free max-redelivery-records server-dump-interval
            memory-measure-interval
        """,
    },
    "core/address-settings/address-setting": {
        "false": """
            last-value-queue default-last-value-queue default-non-destructive
            enable-ingress-timestamp
        """,
        "true": "auto-delete-addresses-skip-usage-check",
        "200": "management-browse-page-size",
        "256": "management-message-attribute-size-limit",
        "-1": """
            max-size-messages page-limit-bytes page-limit-messages max-size-bytes-reject-threshold
            slow-consumer-threshold default-ring-size default-delay-before-dispatch
        """,
        "0": """
            retroactive-message-count default-consumers-before-dispatch
        """,
    },
    "core/cluster-connections/cluster-connection": {"-1": "topology-scanner-attempts"},
}
_AS_IT_IS = {
    (f"{path}/{name}", value)
    for path, names_of in _AS_IT_IS_BELOW.items()
    for value, names in names_of.items()
    for name in names.split()
}


def warn_about_rest(root: Element, findings: Findings) -> None:
    """Warn of every name that was not used, and of nothing below it."""
    for name in root.attributes:
        if name not in root.attributes_taken:
            findings.warn_of(root, _NO_EFFECT, attribute=name)
    for children in root.children.values():
        for child in children:
            if child.taken:
                warn_about_rest(child, findings)
            elif (child.path, (child.text or "").lower()) not in _AS_IT_IS:
                reason = _REASONS.get(child.path)
                findings.warn_of(child, f"{_NO_EFFECT}: {reason}" if reason else _NO_EFFECT)
