"""The source against a real Artemis: it is asked for nothing that it does not have, and read at least once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from embedbroker.pipeline._arrow_schema import PLAIN_TYPES
from embedbroker.pipeline._option_reader import OptionError
from embedbroker.pipeline._options import SourceOptions
from embedbroker.pipeline._schema import COLUMNS
from embedbroker.pipeline._services import SERVICES_ADDRESS
from embedbroker.pipeline._source_batch import BatchReader
from embedbroker.pipeline._source_stream import StreamReader
from embedclient.blocking import ServerLocator
from tests.interop.artemis import ArtemisBroker
from tests.pipeline.queues import fill, left_in, text_message

SCHEMA = pa.schema(
    [(name, PLAIN_TYPES[COLUMNS[name]]) for name in ("sequenceId", "position", "redelivered", "bodyText")]
)


@pytest.fixture(scope="module")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArtemisBroker]:
    with ArtemisBroker(tmp_path_factory.mktemp("artemis") / "instance", memory="512m") as running:
        yield running


def texts(batches: Iterator[pa.RecordBatch]) -> list[str]:
    return [row["bodyText"] for batch in batches for row in batch.to_pylist()]


def test_a_queue_is_browsed(artemis: ArtemisBroker) -> None:
    fill(artemis.url, "browsed", [text_message("browsed", str(number)) for number in range(500)])
    reader = BatchReader(SourceOptions.parse({"url": artemis.url, "queue": "browsed"}), SCHEMA)
    (partition,) = reader.partitions()
    assert texts(reader.read(partition)) == [str(number) for number in range(500)]
    assert len(left_in(artemis.url, "browsed")) == 500


def test_a_stream_is_read_by_the_log_and_exactly_once_is_refused(artemis: ArtemisBroker, tmp_path: Path) -> None:
    fill(artemis.url, "streamed", [text_message("streamed", str(number)) for number in range(500)])
    values = {"url": artemis.url, "queue": "streamed"}
    strict = StreamReader(SourceOptions.parse({**values, "guarantee": "exactly-once"}), SCHEMA)
    with pytest.raises(OptionError, match="this broker has no cursors"):
        strict.latestOffset(strict.initialOffset(), strict.getDefaultReadLimit())
    reader = StreamReader(SourceOptions.parse({**values, "logLocation": str(tmp_path)}), SCHEMA)
    # Batch 0 is empty: what it notes has to be in the checkpoint before anything is received.
    start = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    found = [text for part in reader.partitions(start, end) for text in texts(reader.read(part))]
    assert found == [str(number) for number in range(500)]
    assert left_in(artemis.url, "streamed") == []
    refused = StreamReader(SourceOptions.parse({"url": artemis.url, "topic": "news", "subscription": "s"}), SCHEMA)
    with pytest.raises(OptionError, match="'logLocation' is missing"):
        refused.latestOffset(refused.initialOffset(), refused.getDefaultReadLimit())
    with ServerLocator(artemis.url).create_session_factory() as factory, factory.create_session() as session:
        assert not session.query_address(SERVICES_ADDRESS).exists
        assert not session.query_queue("s").exists
