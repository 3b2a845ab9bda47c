"""Comparison of two sites, message by message: missing, extra, different, or acknowledged at one site only.

A site is a broker, whose queues are browsed, or journals. A message is matched by the sender's id (JMSMessageID), else
by its duplicate id, else by its content, since every broker numbers messages differently. A digest of the sender's
content decides whether two are the same. Responsible for the comparison and for the plan that makes the second site
like the first. Does not apply the plan: `_repair` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

import pyarrow as pa
from attrs import field, frozen
from pyspark.sql import Window
from pyspark.sql import functions as F

from embedbroker.storage import RecordKind
from embedclient.model import RoutingType, describe_url

from ._audit import JournalMoved, furthest
from ._broker_connection import BrokerConnection
from ._journal_files import JournalSource, journal_sources
from ._journal_records import CUT, END, content_digest, message_key
from ._journal_tables import queue_names, transaction_ends
from ._journals import Selection, each_of, rows_of, spark_schema
from ._options import ConnectionOptions, SourceOptions
from ._queue_view import queue_view
from ._queues import matching_queues
from ._repair import PLAN_TYPES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Site", "browse_rows", "left_out", "reconcile", "write_plan"]

Place = str | PathLike[str]
_SITE_TYPES = {
    "queue": pa.string(),
    "address": pa.string(),
    "routing": pa.int32(),
    "key": pa.string(),
    "digest": pa.binary(),
    "acknowledged": pa.bool_(),
    "raw": pa.binary(),
}
_READ = ("journal", "source", "generation", "batch", "offset", "kind", "queue_id", "message_id", "transaction_id",
         "text", "key", "digest")  # fmt: skip
_KINDS = frozenset(RecordKind) - {RecordKind.DUPLICATE_ID, RecordKind.UPDATE_DELIVERY_COUNT, RecordKind.RESERVE_IDS}
_ADD, _ACKNOWLEDGE = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE)
_LISTINGS = 8
# Actions that make the second site like the first.
_ACTIONS = {"missing": ("resend",), "extra": ("remove",), "different": ("remove", "resend"),
            "acknowledged at the first only": ("remove",)}  # fmt: skip


@frozen
class Site:
    """Locate a site: a broker or journals.

    Args:
        places: directories and archives with journals.
        url: URL of a broker; None for journals.
        user: user at the broker; None without a login.
        password: password at the broker; None without a login.
        queues: the queues to compare; none means all that the site lists.
    """

    places: tuple[Place, ...] = ()
    url: str | None = field(default=None, repr=lambda url: repr(url and describe_url(url)))
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    queues: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, *places: Place, queues: Sequence[str] = (), user: str | None = None, password: str | None = None
    ) -> Site:
        """Return a site for a URL, or for places of journals.

        Args:
            places: one URL of a broker, or directories and archives with journals.
            queues: the queues to compare; none means all that the site lists.
            user: user at the broker; None without a login.
            password: password at the broker; None without a login.

        Raises:
            ValueError: a URL and other places are mixed.
        """
        urls = [place for place in [fspath(each) for each in places] if "://" in place]
        if urls and len(places) > 1:
            shown = [describe_url(fspath(place)) if "://" in fspath(place) else fspath(place) for place in places]
            raise ValueError(f"a site is one URL or places of journals, not {', '.join(shown)}")
        if urls:
            return cls(url=urls[0], user=user, password=password, queues=tuple(queues))
        return cls(places=tuple(places), queues=tuple(queues))

    def __str__(self) -> str:
        """Return the URL without values and credentials, or the places."""
        return ", ".join(map(str, self.places)) if self.url is None else describe_url(self.url)

    def check(self) -> None:
        """Check that the site exists: a broker answers, or the places have journals. Needs no Spark.

        Raises:
            FileNotFoundError: a place does not exist, or has no journal.
            ValueError: not a URL of a broker, a place that is given twice, or an archive of an unknown type.
            JMSException: no broker answers there, or it refuses the user.
        """
        if self.url is None:
            journal_sources(self.places)
            return
        link = BrokerConnection(ConnectionOptions(self.url, self.user, self.password))
        try:
            link.session().close()
        finally:
            link.close()

    def consumers(self) -> dict[str, int]:
        """Return the queues with consumers now, and their number: messages in delivery are not shown to a browser.

        Empty for journals, which have those messages.

        Raises:
            OptionError: the broker does not list its queues, and none were named.
            JMSException: no broker answers there, or it refuses the user.
        """
        if self.url is None:
            return {}
        queues = list(self.queues) or _listed(self)
        link = BrokerConnection(ConnectionOptions(self.url, self.user, self.password))
        try:
            with link.session() as session:
                found = {queue: session.query_queue(queue).consumer_count for queue in queues}
        finally:
            link.close()
        return {queue: count for queue, count in found.items() if count}


def reconcile(spark: SparkSession, first: Site, second: Site) -> DataFrame:
    """Return the differences of two sites: a row per queue and message, with its ``verdict``.

    ``missing``: the second lacks it. ``extra``: only the second has it. ``different``: it has another content there.
    ``acknowledged at the first only`` and ``acknowledged at the second only``: it is still present at the other.
    (Journals have this information while the message's own record is there, brokers do not.) A message that a broker is
    delivering is not shown, and so not counted: `Site.consumers` returns where that may be. ``messages`` is the
    difference in number; ``present_first`` and ``present_second`` are the numbers present.

    Args:
        spark: the session that reads the sites.
        first: the site to match.
        second: the site to repair.

    Raises:
        FileNotFoundError: there is no journal.
        OptionError: a broker does not list its queues, and none were named.
        JournalMoved: a broker compacted its journal while it was read, again and again.
    """
    kept: list[DataFrame] = []
    sides = [_sums(_site(spark, site, kept), suffix) for site, suffix in ((first, "first"), (second, "second"))]
    both = (
        sides[0]
        .join(sides[1], ["queue", "key"], "full")
        .fillna(0, ["present_first", "present_second", "acknowledged_first", "acknowledged_second"])
    )
    more, less = F.col("present_first") > F.col("present_second"), F.col("present_first") < F.col("present_second")
    verdict = (
        F.when(more & (F.col("acknowledged_second") > F.col("acknowledged_first")), "acknowledged at the second only")
        .when(more, "missing")
        .when(less & (F.col("acknowledged_first") > F.col("acknowledged_second")), "acknowledged at the first only")
        .when(less, "extra")
        .when((F.col("present_first") > 0) & (F.col("digest_first") != F.col("digest_second")), "different")
    )
    differences = (
        both.withColumn("verdict", verdict)
        .where("verdict is not null")
        .select(
            "queue",
            "key",
            "verdict",
            F.greatest(F.lit(1), F.abs(F.col("present_first") - F.col("present_second"))).alias("messages"),
            "present_first",
            "present_second",
            "digest_first",
            "digest_second",
            F.coalesce("address_first", "address_second").alias("address"),
            F.coalesce("routing_first", "routing_second").alias("routing"),
        )
        .persist()
    )
    differences.count()  # now: the sites change
    for frame in kept:
        frame.unpersist()
    return differences


def write_plan(spark: SparkSession, differences: DataFrame, first: Site, directory: str | PathLike[str]) -> DataFrame:
    """Write the repair of the second site as Parquet, with the messages that it lacks; return the plan.

    Messages that only the second site acknowledged need no step there. A message that the first site does not have any
    more is left out with all its steps: `left_out` returns it.

    Args:
        spark: the session that reads the first site.
        differences: the result of `reconcile`.
        first: the first site of `reconcile`.
        directory: the folder to create for the plan.

    Raises:
        AnalysisException: the directory exists already.
    """
    actions = F.create_map(*[F.lit(each) for name, done in _ACTIONS.items() for each in (name, " ".join(done))])
    wanted = differences.withColumn("action", F.explode(F.split(actions[F.col("verdict")], " ")))
    is_sent, is_replaced = F.col("action") == "resend", F.col("verdict") == "different"
    wanted = (
        wanted.withColumn("digest", F.when(is_sent, F.col("digest_first")).otherwise(F.col("digest_second")))
        .withColumn("target", F.when(is_replaced & ~is_sent, 0).otherwise(F.col("present_first")))
        # All copies of a message that is replaced go, whatever their number.
        .withColumn("messages", F.when(is_replaced, F.col("present_first")).otherwise(F.col("messages")))
    )
    place = ["queue", "key", "digest"]
    resent = wanted.where("action = 'resend'").select(*place)
    kept: list[DataFrame] = []
    # With the digest: by now the first site may have another message with this key.
    raw = (
        _site(spark, first, kept, with_raw=True)
        .where("not acknowledged")
        .join(resent, place, "left_semi")
        .groupBy(*place)
        .agg(F.first("raw").alias("content"))
    )
    plan = wanted.join(raw, place, "left").withColumn("raw", F.when(F.col("action") == "resend", F.col("content")))
    # A message that cannot be sent is not removed either.
    lost = F.max((F.col("action") == "resend") & F.col("raw").isNull())
    whole = plan.withColumn("lost", lost.over(Window.partitionBy("queue", "key"))).where("not lost")
    whole.select(*PLAN_TYPES).orderBy("queue", "key", "action").write.parquet(str(directory))
    for frame in kept:
        frame.unpersist()
    return spark.read.parquet(str(directory))


def left_out(differences: DataFrame, plan: DataFrame) -> DataFrame:
    """Return the differences that need a step and have none: the first site did not have the message any more.

    Args:
        differences: the result of `reconcile`.
        plan: the result of `write_plan`.
    """
    return differences.where(F.col("verdict").isin(*_ACTIONS)).join(plan, ["queue", "key"], "left_anti")


def _sums(site: DataFrame, suffix: str) -> DataFrame:
    present = ~F.col("acknowledged")
    return site.groupBy("queue", "key").agg(
        F.sum(present.cast("long")).alias(f"present_{suffix}"),
        F.sum(F.col("acknowledged").cast("long")).alias(f"acknowledged_{suffix}"),
        F.min(F.when(present, F.col("digest"))).alias(f"digest_{suffix}"),
        F.first("address").alias(f"address_{suffix}"),
        F.first("routing").alias(f"routing_{suffix}"),
    )


def _site(spark: SparkSession, site: Site, kept: list[DataFrame], *, with_raw: bool = False) -> DataFrame:
    """Return a row per message and queue, for the site's queues.

    ``kept`` receives the frames that Spark must free later.
    """
    if site.url is not None:
        return _browsed(spark, site, with_raw)
    frame = _journaled(spark, site.places, kept, with_raw)
    return frame.where(F.col("queue").isin(list(site.queues))) if site.queues else frame


def _journaled(spark: SparkSession, places: Sequence[Place], kept: list[DataFrame], with_raw: bool) -> DataFrame:
    rows, sources = _steady_rows(spark, places, Selection((*_READ, *(["raw"] if with_raw else [])), _KINDS))
    kept.append(rows)
    notes = rows.where(F.col("kind") == END).select("source", "generation", "batch").collect()
    last = {(note["source"], note["generation"]): note["batch"] for note in notes}
    groups: dict[int, list[JournalSource]] = {}
    for source in sources:
        groups.setdefault(source.identity, []).append(source)
    current = {identity: furthest(group, last).number for identity, group in groups.items()}
    rows = rows.where(F.col("source").isin(list(current.values())))
    ends = transaction_ends(rows)
    hot = rows.where(F.col("kind").isin(_ADD, _ACKNOWLEDGE))
    pending = hot.where("transaction_id <> 0").join(ends, ["journal", "transaction_id"], "left").where("committed")
    effective = hot.where("transaction_id = 0").select(*hot.columns).unionByName(pending.select(*hot.columns))
    added = F.col("kind") == _ADD
    messages = effective.groupBy("journal", "queue_id", "message_id").agg(
        F.max(added).alias("stored"),
        F.max(~added).alias("acknowledged"),
        *[F.max(F.when(added, F.col(name))).alias(name) for name in ("key", "digest")],
        (F.max(F.when(added, F.col("raw"))) if with_raw else F.lit(None).cast("binary")).alias("raw"),
    )
    named = queue_names(spark, rows, current).where("exists")
    return messages.where("stored").join(F.broadcast(named), ["journal", "queue_id"]).select(*_SITE_TYPES)


def _steady_rows(
    spark: SparkSession, places: Sequence[Place], selection: Selection
) -> tuple[DataFrame, list[JournalSource]]:
    for _ in range(_LISTINGS):
        sources = journal_sources(places)
        rows = rows_of(spark, sources, selection).persist()
        if not rows.where(F.col("kind") == CUT).limit(1).count():
            return rows, sources
        rows.unpersist()
    raise JournalMoved(f"the segments changed while they were read, {_LISTINGS} times; take a copy")


def _browsed(spark: SparkSession, site: Site, with_raw: bool) -> DataFrame:
    assert site.url is not None
    connection = ConnectionOptions(site.url, site.user, site.password)
    queues = list(site.queues) or _listed(site)

    def browse(number: int) -> Iterator[pa.RecordBatch]:
        return browse_rows(connection, queues[number], with_raw)

    return each_of(spark, len(queues), browse, spark_schema(_SITE_TYPES))


def _listed(site: Site) -> list[str]:
    options = {"url": site.url or "", "queue": "*", "user": site.user, "password": site.password}
    return matching_queues(SourceOptions.parse({name: value for name, value in options.items() if value is not None}))


def browse_rows(connection: ConnectionOptions, queue: str, with_raw: bool) -> Iterator[pa.RecordBatch]:
    """Browse a queue and yield a row per message.

    Raises:
        ConnectionLostException: the browse began again. Rows that a task has returned are final, so it must start over.
    """
    link = BrokerConnection(connection)
    try:
        with link.session() as session:
            state = session.query_queue(queue)
            if not state.exists:
                return  # all of it is missing here
            routing = int(RoutingType.ANYCAST if state.routing_type is None else state.routing_type)
            for messages in queue_view(session, queue):
                rows = [
                    {
                        "queue": queue,
                        "address": state.address,
                        "routing": routing,
                        "key": message_key(message),
                        "digest": content_digest(message),
                        "acknowledged": False,
                        "raw": bytes(message.raw) if with_raw else None,
                    }
                    for message in messages
                ]
                yield pa.RecordBatch.from_pylist(rows, pa.schema(list(_SITE_TYPES.items())))
    finally:
        link.close()
