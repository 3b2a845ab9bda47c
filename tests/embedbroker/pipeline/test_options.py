"""The valid values of the source's options, and the errors for the wrong ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from embedbroker.pipeline._option_reader import OptionError
from embedbroker.pipeline._options import SOURCE_OPTIONS, SourceOptions
from embedbroker.pipeline._schema import COLUMNS, VALUE_COLUMN

URL = {"url": "tcp://localhost:61616"}
AT_LEAST_ONCE = {"guarantee": "at-least-once", "logLocation": "/x"}


def parse(**options: str) -> SourceOptions:
    return SourceOptions.parse({**URL, **options})


def test_defaults_read_a_queue_from_its_beginning() -> None:
    options = parse(queue="orders")
    assert (options.queue, options.topic, options.starting, options.partitions) == ("orders", None, "earliest", 1)
    assert options.fail_on_data_loss
    assert (options.rows_per_trigger, options.bytes_per_trigger, options.guarantee) == (None, None, None)
    assert options.columns == tuple(COLUMNS)


def test_names_are_found_in_any_case() -> None:
    options = parse(QUEUE="orders", MAXROWSPERTRIGGER="100", maxbytespertrigger="64m")
    assert (options.queue, options.rows_per_trigger, options.bytes_per_trigger) == ("orders", 100, 64 << 20)


def test_properties_are_left_out_on_request() -> None:
    columns = parse(queue="orders", includeProperties="false").columns
    assert set(COLUMNS) - set(columns) == {"properties", "propertyTypes"}


def test_json_has_a_column_of_its_own() -> None:
    options = parse(queue="orders", format="json", jsonSchema="struct<id: bigint>", columns="messageId,VALUE")
    assert options.schema == "`messageId` string, `value` struct<id: bigint>"


def test_positions_are_given_by_queue() -> None:
    assert parse(queue="orders", startingOffsets='{"orders": 17}').starting == {"orders": 17}
    assert parse(queue="a.*.c", startingOffsets='{"a.b.c": 0}').starting == {"a.b.c": 0}
    assert parse(topic="a", subscription="s", startingOffsets='{"s": 5}').starting == {"s": 5}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "'queue' or 'topic' is missing"),
        ({"queue": "a", "topic": "b"}, "'queue' and 'topic' contradict"),
        ({"queue": "a", "subscription": "s"}, "'subscription' needs option 'topic'"),
        ({"queue": "a", "quue": "b"}, "no option 'quue'; did you mean 'queue'"),
        ({"queue": " "}, "'queue' is empty"),
        ({"queue": "a", "maxRowsPerTrigger": "many"}, "'maxRowsPerTrigger' is a whole number, not 'many'"),
        ({"queue": "a", "maxRowsPerTrigger": "0"}, "'maxRowsPerTrigger' is from 1 to"),
        ({"queue": "a", "maxBytesPerTrigger": "1 ton"}, "'maxBytesPerTrigger' is a number of bytes"),
        ({"queue": "a", "failOnDataLoss": "yes"}, "'failOnDataLoss' is true or false, not 'yes'"),
        ({"queue": "a", "startingOffsets": "noon"}, "'startingOffsets' is earliest, latest or positions"),
        ({"queue": "a", "startingOffsets": '{"a": true}'}, "'startingOffsets' is earliest, latest or positions"),
        ({"queue": "orders", "startingOffsets": '{"ordres": 17}'}, "names 'ordres', and the source reads 'orders'"),
        ({"queue": "a.*", "startingOffsets": '{"a.b": 1, "b.a": 1}'}, "names 'b.a', and the source reads 'a.*'"),
        ({"topic": "a", "subscription": "s", "startingOffsets": '{"a": 1}'}, "names 'a', and the source reads 's'"),
        ({"topic": "a", "startingOffsets": '{"a": 1}'}, "positions of a topic need option 'subscription'"),
        ({"queue": "a", "startingOffsets": '{"a": -4}'}, "positions are from 0 on, not -4 of 'a'"),
        ({"queue": "a", "guarantee": "at-least-once"}, "'logLocation' is missing"),
        (
            {"queue": "a", "guarantee": "at-least-once", "logLocation": "/x", "startingOffsets": "latest"},
            "'startingOffsets': reading at least once begins with the first message delivered",
        ),
        ({"queue": "a", "discardBacklog": "true"}, "'discardBacklog' needs startingOffsets=latest or positions"),
        (
            {"queue": "a", "discardBacklog": "true", "startingOffsets": "earliest"},
            "'discardBacklog' needs startingOffsets=latest or positions",
        ),
        ({"queue": "a", "discardBacklog": "yes", "startingOffsets": "latest"}, "'discardBacklog' is true or false"),
        ({"queue": "a", "format": "xml"}, "'format' is one of bytes, text, json"),
        ({"queue": "a", "format": "json"}, "needs option 'jsonSchema'"),
        ({"queue": "a", "jsonSchema": "int"}, "'jsonSchema' needs format=json"),
        ({"queue": "a", "deadLetterAddress": "x"}, "'deadLetterAddress' needs onParseError=dead-letter"),
        ({"queue": "a", "columns": "bodi"}, "no column 'bodi'; did you mean 'body'"),
        ({"queue": "a", "columns": "body,BODY"}, "has 'body' twice"),
        ({"queue": "a", "columns": "value"}, "'value' needs format=json"),
        ({"queue": "a", "columns": "properties", "includeProperties": "false"}, "contradict each other about"),
        ({"queue": "a", "selector": "x = 1", "guarantee": "exactly-once"}, "'selector' and 'guarantee' contradict"),
        ({"queue": "a", "guarantee": "maybe"}, "'guarantee' is one of exactly-once, at-least-once"),
        ({"queue": "a", "password": "p"}, "'password' needs option 'user'"),
        ({"queue": "a", "logLocation": "/x", "guarantee": "exactly-once"}, "'logLocation' and 'guarantee' contradict"),
        ({"queue": "a", **AT_LEAST_ONCE, "leaseMs": "5000"}, "'leaseMs' and 'guarantee' contradict"),
        ({"queue": "a", **AT_LEAST_ONCE, "failOnDataLoss": "true"}, "'failOnDataLoss' and 'guarantee' contradict"),
        ({"queue": "a", "url": "nonsense"}, "option 'url': the URL has no scheme"),
        ({"queue": "a", "url": "tcp://a:99999"}, "option 'url': 'tcp://***': the port is not a number"),
        ({"queue": "a", "url": "(tcp://a"}, "option 'url': the list of brokers has no closing bracket (in (tcp://a)"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse(**options)
    assert text in str(refused.value)


def test_a_source_needs_a_url() -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.parse({"queue": "orders"})
    assert "'url' is missing" in str(refused.value)


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(parse(queue="a", user="u", password="secret"))
    with pytest.raises(OptionError) as refused:
        parse(queue="a", url="tcp://a?password=secret&x=1")
    assert "unknown parameter '***'" in str(refused.value) and "secret" not in str(refused.value)


def test_the_guide_has_every_option_and_every_column() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guide" / "spark.md").read_text()
    rows = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    shown = set(re.findall(r"`(\w+)`", rows))
    assert {*SOURCE_OPTIONS, *COLUMNS, VALUE_COLUMN} - shown == set()
