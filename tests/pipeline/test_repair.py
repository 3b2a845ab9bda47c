"""Repair plans at a broker, carried out by hand: nothing is removed that does not come back. No Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedbroker import ThreadedBroker
from embedbroker.pipeline import repair
from embedbroker.pipeline._journal_records import content_digest, message_key
from embedbroker.pipeline._repair import PLAN_TYPES
from embedclient.blocking import ConnectionFactory, ServerLocator
from embedclient.model import Properties, RoutingType
from embedclient.wire.core import CoreMessage
from tests.pipeline.journals import take
from tests.pipeline.queues import create, fill, left_in

Row = dict[str, Any]


def message(body: str, number: int | None = None, duplicate_id: bytes | None = None) -> CoreMessage:
    properties = Properties()
    if duplicate_id is not None:
        properties["_AMQ_DUPL_ID"] = duplicate_id
    user_id = None if number is None else number.to_bytes(16, "big")
    return CoreMessage.build(address="orders", user_id=user_id, body=body.encode(), timestamp=5, properties=properties)


def step(
    action: str, core: CoreMessage, messages: int = 1, *, target: int | None = None, has_message: bool = True
) -> Row:
    """A line of a plan, as `write_plan` writes it."""
    return {
        "action": action,
        "queue": "orders",
        "address": "orders",
        "routing": int(RoutingType.ANYCAST),
        "key": message_key(core),
        "digest": content_digest(core),
        "messages": messages,
        "target": (messages if action == "resend" else 0) if target is None else target,
        "raw": bytes(core.raw) if action == "resend" and has_message else None,
    }


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return tmp_path / "plan.parquet"


def write(plan: Path, *steps: Row) -> None:
    pq.write_table(pa.Table.from_pylist(list(steps), pa.schema(list(PLAN_TYPES.items()))), plan)


def outcomes(plan: Path, broker: ThreadedBroker, *, apply: bool = True) -> list[str]:
    return [each.outcome for each in repair(plan, url=broker.url, apply=apply)]


def keys(url: str) -> list[str]:
    with ServerLocator(url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        with session.create_consumer("orders", browse_only=True) as consumer:
            return [message_key(CoreMessage.parse(raw)) for raw, _ in consumer.receive_encoded()]


def test_a_message_whose_duplicate_id_the_broker_knows_takes_the_place_of_another(
    broker: ThreadedBroker, plan: Path
) -> None:
    """Both are of one sender, which gave both the same id."""
    there, right = message("changed", 1, b"own"), message("right", 1, b"own")
    fill(broker.url, "orders", [there])
    write(plan, step("remove", there), step("resend", right))
    assert outcomes(plan, broker) == ["removed (1)", "sent (1)"]
    assert left_in(broker.url, "orders") == [b"right"]


@pytest.mark.parametrize("duplicate_id", [None, b"own"], ids=["found by content", "found by duplicate id"])
def test_a_message_without_id_of_its_sender_is_found_again_when_it_was_sent(
    broker: ThreadedBroker, plan: Path, duplicate_id: bytes | None
) -> None:
    """Else the next comparison would miss it, and call the one that was sent too many."""
    create(broker.url, "orders")
    missing = message("tick", None, duplicate_id)
    write(plan, step("resend", missing))
    assert outcomes(plan, broker) == ["sent (1)"]
    assert keys(broker.url) == [message_key(missing)]
    assert outcomes(plan, broker) == ["there already"]


def test_nothing_is_removed_whose_successor_the_plan_lacks(broker: ThreadedBroker, plan: Path) -> None:
    """It was acknowledged at the first site between comparison and plan."""
    there, right, other = message("changed", 1), message("right", 1), message("other", 2)
    fill(broker.url, "orders", [there])
    write(plan, step("remove", there), step("resend", right, has_message=False), step("resend", other))
    for apply, last in ((False, "would be sent (1)"), (True, "sent (1)")):
        assert outcomes(plan, broker, apply=apply) == [
            "left alone: the plan lacks the message that takes its place", "not sent: the plan lacks the message", last,
        ]  # fmt: skip
    assert left_in(broker.url, "orders") == [b"changed", b"other"]


def test_a_plan_that_is_carried_out_twice_removes_once(broker: ThreadedBroker, plan: Path) -> None:
    """The first site has one of it, the second had three."""
    core = message("copied", 1)
    fill(broker.url, "orders", [message("copied", 1) for _ in range(3)])
    write(plan, step("remove", core, 2, target=1))
    assert outcomes(plan, broker, apply=False) == ["would be removed (2)"]
    assert outcomes(plan, broker) == ["removed (2)"]
    assert outcomes(plan, broker) == ["left alone: 1 are there, as many as there should be"]
    assert left_in(broker.url, "orders") == [b"copied"]


def test_what_came_after_the_plan_stays(broker: ThreadedBroker, plan: Path) -> None:
    core = message("copied", 1)
    fill(broker.url, "orders", [message("copied", 1) for _ in range(5)])
    write(plan, step("remove", core, 1, target=1))
    assert outcomes(plan, broker) == ["removed (1)"]
    assert len(left_in(broker.url, "orders")) == 4


def test_copies_that_are_missing_are_sent_up_to_their_number(broker: ThreadedBroker, plan: Path) -> None:
    fill(broker.url, "orders", [message("tick")])
    write(plan, step("resend", message("tick"), 2, target=3))
    assert outcomes(plan, broker, apply=False) == ["would be sent (2)"]
    assert outcomes(plan, broker) == ["sent (2)"]
    assert outcomes(plan, broker) == ["there already"]
    assert left_in(broker.url, "orders") == [b"tick"] * 3


def test_each_of_many_copies_has_an_id_of_its_own(broker: ThreadedBroker, plan: Path) -> None:
    create(broker.url, "orders")
    write(plan, step("resend", message("tick"), 300))
    assert outcomes(plan, broker) == ["sent (300)"]
    assert len(left_in(broker.url, "orders")) == 300


def test_copies_that_were_sent_and_consumed_are_not_sent_again(broker: ThreadedBroker, plan: Path) -> None:
    create(broker.url, "orders")
    write(plan, step("resend", message("tick", 1), 2))
    assert outcomes(plan, broker) == ["sent (2)"]
    with ConnectionFactory(f"{broker.url}?blockOnAcknowledge=true").connect() as connection:
        take(connection, "orders", 2)
    assert outcomes(plan, broker) == ["known to the broker: sent before"]
    assert left_in(broker.url, "orders") == []


def test_a_dry_run_says_what_a_plan_that_was_carried_out_would_do(broker: ThreadedBroker, plan: Path) -> None:
    """A message that takes the place of another: the second time there is nothing to do."""
    there, right = message("changed", 1), message("right", 1)
    fill(broker.url, "orders", [there, message("changed", 1)])
    write(plan, step("remove", there, 2), step("resend", right, 2))
    assert outcomes(plan, broker, apply=False) == ["would be removed (2)", "would be sent (2)"]
    assert outcomes(plan, broker) == ["removed (2)", "sent (2)"]
    done = ["left alone: its content is not what the plan saw", "there already"]
    assert outcomes(plan, broker, apply=False) == outcomes(plan, broker) == done
    assert left_in(broker.url, "orders") == [b"right"] * 2
