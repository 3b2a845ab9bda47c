"""Queues as Spark sources and sinks, and the jobs that read journals: needs the extra `spark`.

Spark finds the format `embedbroker` by itself, through the package `pyspark_embedbroker`. Brokers are reached over TCP
only, with `embedclient.blocking`, so everything here runs on any Spark cluster. Importing this package loads neither
pyspark nor pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._audit import Audit, AuditFinding, JournalMoved, audit, journal_places
    from ._audit_page import write_audit
    from ._data_source import EmbedbrokerDataSource
    from ._java import java_home
    from ._journal_frames import JournalFrames, journal_frames, producer_order
    from ._reconcile import Site, left_out, reconcile, write_plan
    from ._repair import RepairStep, repair
    from ._subscription import remove_subscription
    from ._transfer import export_queues, exported_queues, import_queues

__all__ = [
    "Audit",
    "AuditFinding",
    "EmbedbrokerDataSource",
    "JournalFrames",
    "JournalMoved",
    "RepairStep",
    "Site",
    "audit",
    "export_queues",
    "exported_queues",
    "import_queues",
    "java_home",
    "journal_frames",
    "journal_places",
    "left_out",
    "producer_order",
    "reconcile",
    "remove_subscription",
    "repair",
    "write_audit",
    "write_plan",
]

# Loaded on first use: Spark imports this package in every process that looks for data sources.
_HOMES = {
    "Audit": "._audit",
    "AuditFinding": "._audit",
    "EmbedbrokerDataSource": "._data_source",
    "JournalFrames": "._journal_frames",
    "JournalMoved": "._audit",
    "RepairStep": "._repair",
    "Site": "._reconcile",
    "audit": "._audit",
    "export_queues": "._transfer",
    "exported_queues": "._transfer",
    "import_queues": "._transfer",
    "java_home": "._java",
    "journal_frames": "._journal_frames",
    "journal_places": "._audit",
    "left_out": "._reconcile",
    "producer_order": "._journal_frames",
    "reconcile": "._reconcile",
    "remove_subscription": "._subscription",
    "repair": "._repair",
    "write_audit": "._audit_page",
    "write_plan": "._reconcile",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)
