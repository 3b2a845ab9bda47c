"""The sink against a real Artemis: duplicate ids work as documented, and exactly-once is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedbroker.pipeline._sink_identity import Writing
from embedbroker.pipeline._sink_options import SinkOptions
from embedclient.blocking import ServerLocator
from embedclient.errors import IllegalStateException
from tests.interop.artemis import ArtemisBroker
from tests.pipeline.sink_content import batches, content, prepared, task, write

BODIES = [f"row {number}" for number in range(1_000)]


@pytest.fixture(scope="module")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArtemisBroker]:
    with ArtemisBroker(tmp_path_factory.mktemp("artemis") / "instance", memory="512m") as running:
        yield running


def options(artemis: ArtemisBroker, **more: str) -> SinkOptions:
    return SinkOptions.parse({"url": artemis.url, "queue": "q", "rowsPerBranch": "300", **more})


def test_rows_sent_again_are_dropped_by_artemis(artemis: ArtemisBroker) -> None:
    given = options(artemis, guarantee="deduplication")
    write(given, task(Writing("query", "sink", 0, "run-1")), batches(BODIES[:450]))
    write(given, task(Writing("query", "sink", 0, "run-2"), 0, 1), batches(BODIES))
    write(given, task(Writing("query", "sink", 1, "run-2")), batches(["next"]))
    assert content(artemis.url, "q") == [*BODIES, "next"]


def test_artemis_is_not_asked_for_what_it_does_not_have(artemis: ArtemisBroker) -> None:
    with pytest.raises(IllegalStateException, match="use the option guarantee=deduplication"):
        write(options(artemis), task(Writing("other", "sink", 0, "run-1")), batches(BODIES))
    with ServerLocator(artemis.url).create_session_factory() as factory, factory.create_session() as session:
        assert not session.query_address("embedbroker.services").exists
    assert prepared(artemis.url) == []
