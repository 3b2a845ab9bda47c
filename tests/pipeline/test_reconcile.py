"""Two sites that drifted apart, compared and made alike again: every message is accounted for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from embedbroker import BrokerConfig, EmbeddedBroker, ThreadedBroker
from embedbroker.pipeline import Site, left_out, reconcile, repair, write_plan
from embedbroker.pipeline._options import ConnectionOptions
from embedbroker.pipeline._sending import SentMessage, queue_sender
from embedclient.blocking import ConnectionFactory, ServerLocator
from embedclient.model import RoutingType
from embedclient.wire.core import CoreMessage
from tests.pipeline.journals import crash_image, running, send, take
from tests.pipeline.queues import fill


@pytest.fixture
def other(tmp_path: Path) -> Iterator[ThreadedBroker]:
    """The second site."""
    with EmbeddedBroker.in_thread(BrokerConfig(data_directory=str(tmp_path / "other"))) as running_broker:
        yield running_broker


def test_a_site_shows_no_password() -> None:
    site = Site.of("tcp://me:secret@host:1?password=secret", user="me", password="secret")
    assert "secret" not in repr(site) + str(site)
    with pytest.raises(ValueError, match="one URL or places of journals, not tcp://host, /journal") as caught:
        Site.of("tcp://me:secret@host", "/journal")
    assert "secret" not in str(caught.value)


def put(url: str, numbers: list[int], *, changed: tuple[int, ...] = ()) -> None:
    """Messages with these numbers as ids and bodies, as a mirror would send them."""
    messages = []
    for number in numbers:
        body = f"changed {number}" if number in changed else f"body {number}"
        core = CoreMessage.build(address="orders", user_id=number.to_bytes(16, "big"), body=body.encode(), timestamp=5)
        messages.append(SentMessage(bytes(core.raw), f"{number} {body}".encode()))
    with queue_sender(ConnectionOptions(url), "orders", "orders", RoutingType.ANYCAST) as sender:
        assert sender.send_once(messages) == len(numbers)


def bodies(url: str) -> dict[int, str]:
    with ServerLocator(url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        found: dict[int, str] = {}
        with session.create_consumer("orders", browse_only=True) as consumer:
            while received := consumer.receive_encoded(100, bytes_max=1 << 20):
                for raw, _ in received:
                    core = CoreMessage.parse(raw)
                    number = int.from_bytes(core.user_id or b"", "big")
                    assert number not in found
                    found[number] = bytes(core.body).decode()
        return found


def verdicts(frame: DataFrame) -> dict[int, str]:
    return {int(row["key"].removeprefix("ID:"), 16): row["verdict"] for row in frame.collect()}


def test_sites_that_drifted_apart_are_made_alike(
    spark: SparkSession, broker: ThreadedBroker, other: ThreadedBroker, tmp_path: Path
) -> None:
    put(broker.url, [1, 2, 3, 4, 5])
    put(other.url, [1, 3, 4, 9], changed=(4,))
    first, second = Site.of(broker.url), Site.of(other.url, queues=["orders"])
    differences = reconcile(spark, first, second)
    assert verdicts(differences) == {2: "missing", 4: "different", 5: "missing", 9: "extra"}
    plan = tmp_path / "plan"
    rows = write_plan(spark, differences, first, plan).collect()
    assert sorted((int(row["key"][3:], 16), row["action"]) for row in rows) == [
        (2, "resend"), (4, "remove"), (4, "resend"), (5, "resend"), (9, "remove"),
    ]  # fmt: skip

    tried = [step.outcome for step in repair(plan, url=other.url)]
    assert sorted(tried) == ["would be removed (1)"] * 2 + ["would be sent (1)"] * 3
    assert bodies(other.url) == {1: "body 1", 3: "body 3", 4: "changed 4", 9: "body 9"}

    done = [step.outcome for step in repair(plan, url=other.url, apply=True)]
    assert sorted(done) == ["removed (1)"] * 2 + ["sent (1)"] * 3
    assert bodies(other.url) == bodies(broker.url) == {number: f"body {number}" for number in (1, 2, 3, 4, 5)}
    assert reconcile(spark, first, second).count() == 0

    again = [step.outcome for step in repair(plan, url=other.url, apply=True)]
    assert (
        sorted(again)
        == ["left alone: its content is not what the plan saw", "not there any more"] + ["there already"] * 3
    )
    assert bodies(other.url) == bodies(broker.url)


def test_journals_know_what_was_acknowledged_at_one_site_only(spark: SparkSession, tmp_path: Path) -> None:
    """After a switch: the first site is a journal that was left behind, the second runs on."""
    with running(tmp_path / "live") as (_, connection):
        send(connection, "orders", 20)
        before = crash_image(tmp_path / "live", tmp_path / "before")
        take(connection, "orders", 7)
        send(connection, "orders", 2, first=20)
    sites = Site.of(before), Site.of(tmp_path / "live")
    found = [row["verdict"] for row in reconcile(spark, *sites).collect()]
    assert sorted(found) == ["acknowledged at the second only"] * 7 + ["extra"] * 2
    found = [row["verdict"] for row in reconcile(spark, *reversed(sites)).collect()]
    assert sorted(found) == ["acknowledged at the first only"] * 7 + ["missing"] * 2


def test_a_repair_from_a_journal_brings_back_what_a_broker_lost(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    with running(tmp_path / "live") as (_, connection):
        send(connection, "orders", 5)
    site = Site.of(tmp_path / "live")
    differences = reconcile(spark, site, Site.of(broker.url, queues=["orders"]))
    assert [row["verdict"] for row in differences.collect()] == ["missing"] * 5
    write_plan(spark, differences, site, tmp_path / "plan")
    assert [step.outcome for step in repair(tmp_path / "plan", url=broker.url, apply=True)] == ["sent (1)"] * 5
    assert reconcile(spark, site, Site.of(broker.url, queues=["orders"])).count() == 0


def test_copies_of_a_message_are_counted(
    spark: SparkSession, broker: ThreadedBroker, other: ThreadedBroker, tmp_path: Path
) -> None:
    """One key several times: too few, too many, and as many of another content."""

    def copies(url: str, counts: dict[int, int], text: str) -> None:
        numbers = [number for number, count in counts.items() for _ in range(count)]
        fill(url, "orders", [
            CoreMessage.build(
                address="orders", user_id=number.to_bytes(16, "big"), body=(text if number == 3 else "").encode()
            )
            for number in numbers
        ])  # fmt: skip

    copies(broker.url, {1: 3, 2: 1, 3: 2}, "right")
    copies(other.url, {1: 1, 2: 4, 3: 2}, "wrong")
    first, second = Site.of(broker.url), Site.of(other.url)
    differences = reconcile(spark, first, second)
    plan = write_plan(spark, differences, first, tmp_path / "plan").collect()
    assert sorted((int(row["key"][3:], 16), row["action"], row["messages"], row["target"]) for row in plan) == [
        (1, "resend", 2, 3), (2, "remove", 3, 1), (3, "remove", 2, 0), (3, "resend", 2, 2),
    ]  # fmt: skip
    for _ in range(2):
        assert len(list(repair(tmp_path / "plan", url=other.url, apply=True))) == 4
        assert reconcile(spark, first, second).count() == 0


def test_what_the_first_site_lost_since_the_comparison_is_left_out_of_the_plan(
    spark: SparkSession, broker: ThreadedBroker, other: ThreadedBroker, tmp_path: Path
) -> None:
    put(broker.url, [1, 2, 3, 4])
    put(other.url, [1, 2, 9], changed=(1, 2))
    first, second = Site.of(broker.url), Site.of(other.url)
    differences = reconcile(spark, first, second)
    with ConnectionFactory(f"{broker.url}?blockOnAcknowledge=true").connect() as connection:
        take(connection, "orders", 1)
    plan = write_plan(spark, differences, first, tmp_path / "plan")
    assert sorted((int(row["key"][3:], 16), row["action"]) for row in plan.collect()) == [
        (2, "remove"), (2, "resend"), (3, "resend"), (4, "resend"), (9, "remove"),
    ]  # fmt: skip
    assert verdicts(left_out(differences, plan)) == {1: "different"}


def test_a_site_is_a_broker_or_journals() -> None:
    with pytest.raises(ValueError, match="one URL or places"):
        Site.of("tcp://localhost:1", "/data")
