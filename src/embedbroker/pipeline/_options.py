"""The options of the source, for `spark.read` and `spark.readStream`, checked when they are loaded.

Responsible for names, defaults and contradictions. Does not depend on a broker's answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from embedclient.errors import InvalidURLException
from embedclient.model import describe_url

from ._option_reader import OptionError, OptionReader
from ._schema import COLUMNS, PROPERTY_COLUMNS, VALUE_COLUMN, ddl, known_columns

__all__ = ["CONNECTION_OPTIONS", "ConnectionOptions", "SourceOptions"]

CONNECTION_OPTIONS = ("url", "user", "password")
SOURCE_OPTIONS = (
    *CONNECTION_OPTIONS,
    *("queue", "topic", "subscription", "selector", "startingOffsets", "discardBacklog", "guarantee"),
    *(
        "leaseMs",
        "logLocation",
        "maxRowsPerTrigger",
        "maxBytesPerTrigger",
        "minPartitions",
        "failOnDataLoss",
        "pushFilters",
    ),
    *("includeProperties", "columns", "format", "jsonSchema", "onParseError", "deadLetterAddress"),
)

# Options without a meaning for a browse of queues.
STREAM_OPTIONS = (
    *("maxRowsPerTrigger", "maxBytesPerTrigger", "minPartitions", "leaseMs", "guarantee", "logLocation"),
    *("failOnDataLoss", "discardBacklog"),
)

# Options without a meaning for reading at least once: a loss is what other consumers took after a lease expired.
LEASE_OPTIONS = ("leaseMs", "failOnDataLoss")

ROWS_MAX = 1_000_000_000
PARTITIONS_MAX = 10_000
LEASE_MS_DEFAULT = 60_000
GUARANTEES = ("exactly-once", "at-least-once")
FORMATS = ("bytes", "text", "json")
PARSE_ERROR_WAYS = ("fail", "dead-letter", "null")
DEAD_LETTER_ADDRESS_DEFAULT = "DLQ"


@frozen
class ConnectionOptions:
    """Hold the place of a broker and the login, for the source and the sink."""

    url: str
    user: str | None = None
    password: str | None = None

    @classmethod
    def taken_from(cls, options: OptionReader) -> ConnectionOptions:
        """Take `url`, `user` and `password`. Raises OptionError."""
        url = options.required("url", "where the broker is, as in tcp://host:61616 or (tcp://a:61616,tcp://b:61616)")
        _check_url(url)
        user, password = options.text("user"), options.text("password")
        options.together("password", "user")
        options.together("user", "password")
        return cls(url, user, password)

    def __repr__(self) -> str:  # without secrets: it appears in error texts and logs
        return f"ConnectionOptions(url={describe_url(self.url)!r})"


@frozen
class SourceOptions:
    """Hold what a source reads, and how. Made by `parse`."""

    connection: ConnectionOptions
    # A queue's name, a pattern of queues with `*`, or None for a topic.
    queue: str | None
    topic: str | None
    subscription: str | None
    selector: str | None
    # "earliest", "latest", or positions by queue.
    starting: str | dict[str, int]
    # True if messages before that place may leave their queue unread.
    discards_backlog: bool
    rows_per_trigger: int | None
    bytes_per_trigger: int | None
    partitions: int
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    format: str
    json_schema: str | None
    on_parse_error: str
    dead_letter_address: str
    # None: exactly once wherever the broker supports it.
    guarantee: str | None
    lease_ms: int
    # True if filters of a batch read become selectors; a separate option of Spark must be on as well.
    push_filters: bool
    # A folder for the log of a source that reads at least once.
    log_location: str | None
    # Those of `STREAM_OPTIONS` that were given.
    of_streams: tuple[str, ...]

    @property
    def has_pattern(self) -> bool:
        """Return True if `queue` stands for several queues."""
        return self.queue is not None and ("*" in self.queue or "#" in self.queue)

    @property
    def schema(self) -> str:
        """Return the columns and their types, in Spark's DDL."""
        return ddl(self.columns, self.json_schema)

    def with_columns(self, columns: Sequence[str]) -> SourceOptions:
        """Return a copy with other columns. Raises OptionError for the column of JSON values without a JSON schema."""
        if VALUE_COLUMN in columns and self.json_schema is None:
            raise OptionError(f"the column {VALUE_COLUMN!r} needs format=json")
        return evolve(self, columns=known_columns(columns))

    def with_queue(self, queue: str) -> SourceOptions:
        """Return a copy for a queue: the queue of a subscription, as its readers need it."""
        return evolve(self, queue=queue, topic=None, subscription=None)

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> SourceOptions:
        """Return the options of a source. Raises OptionError, which names what is unknown, wrong or contradictory."""
        options = OptionReader(values, SOURCE_OPTIONS)
        connection = ConnectionOptions.taken_from(options)
        queue, topic, subscription = options.text("queue"), options.text("topic"), options.text("subscription")
        _check_destination(options)
        form = options.choice("format", FORMATS, "bytes")
        json_schema = options.text("jsonSchema")
        _check_format(options, form)
        return cls(
            connection=connection,
            queue=queue,
            topic=topic,
            subscription=subscription,
            selector=options.text("selector"),
            starting=_starting(options),
            discards_backlog=options.boolean("discardBacklog", False),
            rows_per_trigger=options.whole("maxRowsPerTrigger", 1, ROWS_MAX),
            bytes_per_trigger=options.size("maxBytesPerTrigger"),
            partitions=options.whole("minPartitions", 1, PARTITIONS_MAX) or 1,
            fail_on_data_loss=options.boolean("failOnDataLoss", True),
            columns=_columns(options, form),
            format=form,
            json_schema=json_schema,
            on_parse_error=options.choice("onParseError", PARSE_ERROR_WAYS, "fail"),
            dead_letter_address=options.text("deadLetterAddress") or DEAD_LETTER_ADDRESS_DEFAULT,
            guarantee=_guarantee(options),
            lease_ms=options.whole("leaseMs", 1_000, 86_400_000) or LEASE_MS_DEFAULT,
            push_filters=options.boolean("pushFilters", False),
            log_location=options.text("logLocation"),
            of_streams=tuple(name for name in STREAM_OPTIONS if name in options),
        ).checked()

    def checked(self) -> SourceOptions:
        """Return itself. Raises OptionError if the options contradict each other."""
        if self.selector is not None and self.queue is not None and self.guarantee == "exactly-once":
            raise OptionError(
                "options 'selector' and 'guarantee' contradict each other: reading a queue exactly once takes all of "
                "it; use guarantee=at-least-once, or filter the rows"
            )
        if self.dead_letter_address != DEAD_LETTER_ADDRESS_DEFAULT and self.on_parse_error != "dead-letter":
            raise OptionError("option 'deadLetterAddress' needs onParseError=dead-letter")
        if self.log_location is not None and self.guarantee == "exactly-once":
            raise OptionError("options 'logLocation' and 'guarantee' contradict each other: nothing is logged")
        if self.guarantee == "at-least-once":
            self.check_at_least_once("guarantee")
        if self.discards_backlog and self.starting == "earliest":
            raise OptionError("option 'discardBacklog' needs startingOffsets=latest or positions by queue")
        if isinstance(self.starting, dict):
            self._check_positions(self.starting)
        return self

    def check_at_least_once(self, because: str) -> None:
        """Check the options for reading at least once, which the option ``because`` requires.

        Raises:
            OptionError: another option contradicts it, or `check_log` fails.
        """
        for name in LEASE_OPTIONS:
            if name in self.of_streams:
                raise OptionError(
                    f"options {name!r} and {because!r} contradict each other: reading at least once takes no lease, "
                    "and notices no loss"
                )
        self.check_log()

    def check_log(self) -> None:
        """Check the place of the log and the beginning, for a source that reads at least once.

        Raises:
            OptionError: the place for its log is missing, or the source must begin elsewhere.
        """
        if self.log_location is None:
            raise OptionError(
                "option 'logLocation' is missing: reading at least once needs a folder beside the checkpoint, which "
                "each executor reaches"
            )
        if self.starting != "earliest":
            raise OptionError("option 'startingOffsets': reading at least once begins with the first message delivered")

    def _check_positions(self, positions: Mapping[str, int]) -> None:
        name = self.queue or self.subscription
        if name is None:
            raise OptionError("option 'startingOffsets': positions of a topic need option 'subscription'")
        # As in brokers' lists of queues: both characters stand for any text.
        fits = re.compile(".*".join(map(re.escape, re.split(r"[*#]+", name))) if self.has_pattern else re.escape(name))
        for queue, position in positions.items():
            if fits.fullmatch(queue) is None:
                raise OptionError(f"option 'startingOffsets' names {queue!r}, and the source reads {name!r}")
            if position < 0:
                raise OptionError(f"option 'startingOffsets': positions are from 0 on, not {position} of {queue!r}")


def _check_url(url: str) -> None:
    # The client loads only for a connection: every process that looks for data sources imports this module.
    from embedclient.blocking import ServerLocator

    try:
        ServerLocator(url)
    except InvalidURLException as error:  # its text describes the URL and shows no values
        raise OptionError(f"option 'url': {error}") from None


def _check_destination(options: OptionReader) -> None:
    options.apart("queue", "topic", "a source reads one of them")
    if "queue" not in options and "topic" not in options:
        raise OptionError("option 'queue' or 'topic' is missing: what to read")
    options.together("subscription", "topic")


def _check_format(options: OptionReader, form: str) -> None:
    if form == "json" and "jsonSchema" not in options:
        raise OptionError("format=json needs option 'jsonSchema': the type of the bodies, as in 'struct<id: bigint>'")
    if form != "json" and "jsonSchema" in options:
        raise OptionError(f"option 'jsonSchema' needs format=json, not {form}")


def _starting(options: OptionReader) -> str | dict[str, int]:
    text = options.text("startingOffsets") or "earliest"
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    is_mapping = isinstance(found, dict) and all(type(position) is int for position in found.values())
    if not is_mapping:
        raise OptionError(
            f"option 'startingOffsets' is earliest, latest or positions by queue as in {{\"orders\": 17}}, not {text!r}"
        )
    return {str(name): int(position) for name, position in found.items()}


def _columns(options: OptionReader, form: str) -> tuple[str, ...]:
    has_properties = options.boolean("includeProperties", True)
    named = options.text("columns")
    if named is None:
        columns = tuple(name for name in COLUMNS if has_properties or name not in PROPERTY_COLUMNS)
        return (*columns, VALUE_COLUMN) if form == "json" else columns
    found = known_columns(named.split(","))
    for name in found:
        if not has_properties and name in PROPERTY_COLUMNS:
            raise OptionError(f"options 'columns' and 'includeProperties' contradict each other about {name!r}")
    if VALUE_COLUMN in found and form != "json":
        raise OptionError(f"option 'columns': the column {VALUE_COLUMN!r} needs format=json")
    return found


def _guarantee(options: OptionReader) -> str | None:
    if options.text("guarantee") is None:
        return None
    return options.choice("guarantee", GUARANTEES, GUARANTEES[0])
