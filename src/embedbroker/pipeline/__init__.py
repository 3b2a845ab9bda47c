"""Queues as Spark sources and sinks, and the jobs that read journals: needs the extra `spark`.

Spark finds the format `embedbroker` by itself, through the package `pyspark_embedbroker`. The connection to brokers is
TCP only, with `embedclient.blocking`, so everything here runs on any Spark cluster. Importing this package loads
neither pyspark nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

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

__getattr__ = lazy_names(
    __name__,
    {
        "._audit": "Audit AuditFinding JournalMoved audit journal_places",
        "._data_source": "EmbedbrokerDataSource",
        "._journal_frames": "JournalFrames journal_frames producer_order",
        "._repair": "RepairStep repair",
        "._reconcile": "Site left_out reconcile write_plan",
        "._transfer": "export_queues exported_queues import_queues",
        "._java": "java_home",
        "._subscription": "remove_subscription",
        "._audit_page": "write_audit",
    },
    extra="spark",
)
