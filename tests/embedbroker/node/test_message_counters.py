"""Message counters: what each queue got, as of the last sample, and by the hour."""

from __future__ import annotations

import json
from typing import Any

import pytest

from embedclient.wire.core import SessionAcknowledge, SessionReceiveMessage, SessionSend

from .managing import Manager
from .scripted import WALL_MS, Peer, Stage, letter

HOUR_S = 3600
DAY_S = 24 * HOUR_S
NEVER = "1/1/70, 12:00:00 AM"


class Counted:
    """A broker with one queue, whose wall clock begins at a given hour of 26 November 2026."""

    def __init__(self, hour: int = 13, **config: Any) -> None:
        # No other scan is due.
        config = {"message_expiry_scan_period_ms": -1, "address_queue_scan_period_ms": -1, **config}
        self.stage = Stage(**config)
        self.stage.wall_offset_ms = (
            1_795_651_200_000 + hour * HOUR_S * 1000 - WALL_MS - round(self.stage.seconds * 1000)
        )
        self.manager = Manager(self.stage.connect().open_session())
        self.peer: Peer = self.stage.connect().open_session()
        self.peer.create_queue()

    def pass_hours(self, hours: int) -> None:
        """Let the wall clock go on: connections without traffic would end meanwhile."""
        self.stage.wall_offset_ms += hours * HOUR_S * 1000

    def send(self, count: int) -> None:
        for _ in range(count):
            self.peer.send(SessionSend(letter("x"), False, -1))

    def counter(self) -> dict[str, Any]:
        row: dict[str, Any] = json.loads(self.manager.call("queue.q", "listMessageCounter"))
        return row

    def days(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.manager.call("queue.q", "listMessageCounterHistory"))[
            "dayCounters"
        ]
        return rows

    def enable(self) -> None:
        self.manager.call("broker", "enableMessageCounters")


def counts(row: dict[str, Any]) -> tuple[int, int, int, int]:
    return row["count"], row["countDelta"], row["messageCount"], row["messageCountDelta"]


def test_a_counter_is_sampled_at_the_end_of_each_period() -> None:
    counted = Counted()
    counted.enable()
    counted.send(3)
    row = counted.counter()
    assert row["lastAddTimestamp"] == row["lastAckTimestamp"] == row["updateTimestamp"] == NEVER
    # Only the messages in the queue are those of the moment.
    assert counts(row) == (0, 0, 3, 3)
    counted.stage.advance(10)
    assert counted.counter() == {
        "destinationName": "q", "destinationSubscription": None, "destinationDurable": True,
        "count": 3, "countDelta": 3, "messageCount": 3, "messageCountDelta": 0,
        "lastAddTimestamp": "11/26/26, 1:00:10 PM", "lastAckTimestamp": NEVER,
        "updateTimestamp": "11/26/26, 1:00:10 PM",
    }  # fmt: skip
    counted.send(2)
    counted.stage.advance(9)
    assert counts(counted.counter()) == (3, 0, 5, 2)
    counted.stage.advance(1)
    row = counted.counter()
    assert counts(row) == (5, 2, 5, 0) and row["lastAddTimestamp"] == "11/26/26, 1:00:20 PM"
    counted.manager.call("queue.q", "removeAllMessages")
    counted.stage.advance(10)
    row = counted.counter()
    assert counts(row) == (5, 0, 0, -5)
    assert (row["lastAddTimestamp"], row["updateTimestamp"]) == ("11/26/26, 1:00:20 PM", "11/26/26, 1:00:30 PM")


def test_acknowledged_messages_have_their_time() -> None:
    counted = Counted()
    counted.enable()
    counted.send(1)
    counted.peer.consume()
    (delivery,) = counted.peer.packets(SessionReceiveMessage)
    counted.peer.send(SessionAcknowledge(0, delivery.message.message_id, False))
    counted.stage.advance(10)
    assert counted.counter()["lastAckTimestamp"] == "11/26/26, 1:00:10 PM"


def test_the_history_has_the_hours_of_each_day() -> None:
    counted = Counted(hour=22, message_counter_enabled=True)
    counted.send(3)
    counted.stage.advance(10)
    assert counted.days() == [{"date": "11/26/26", "counters": [-1] * 22 + [3, -1]}]
    counted.pass_hours(1)
    counted.send(4)
    counted.stage.advance(10)
    assert counted.days() == [{"date": "11/26/26", "counters": [-1] * 22 + [3, 4]}]
    counted.pass_hours(2)
    counted.send(1)
    counted.stage.advance(10)
    assert counted.days() == [
        {"date": "11/26/26", "counters": [-1] * 22 + [3, 4]},
        {"date": "11/27/26", "counters": [0, 1] + [-1] * 22},
    ]


def test_days_without_samples_are_filled_and_the_oldest_go() -> None:
    counted = Counted(hour=0, message_counter_max_day_history=3)
    counted.days()
    counted.stage.seconds += 2 * DAY_S
    assert [day["date"] for day in counted.days()] == ["11/26/26", "11/27/26", "11/28/26"]
    assert [day["counters"] for day in counted.days()] == [[0] * 24, [0] * 24, [0] + [-1] * 23]
    counted.stage.seconds += 400 * DAY_S
    assert [day["date"] for day in counted.days()] == ["12/31/27", "1/1/28", "1/2/28"]
    counted.manager.call("broker", "setMessageCounterMaxDayCount", 1)
    assert [day["date"] for day in counted.days()] == ["1/2/28"]


def test_counters_and_histories_are_reset() -> None:
    counted = Counted(message_counter_enabled=True)
    counted.send(3)
    counted.stage.advance(10)
    for operation, resource in (("resetMessageCounter", "queue.q"), ("resetAllMessageCounters", "broker")):
        counted.manager.call(resource, operation)
        row = counted.counter()
        assert counts(row) == (0, 0, 3, 3) and row["updateTimestamp"] == NEVER
        assert sum(number for number in counted.days()[0]["counters"] if number > 0) == 3
    counted.manager.call("broker", "resetAllMessageCounterHistories")
    assert max(counted.days()[0]["counters"]) == 0
    counted.send(1)
    # Counts of the queue that are reset do not make a counter wrong.
    counted.manager.call("queue.q", "resetMessagesAdded")
    counted.send(2)
    counted.stage.advance(10)
    assert counts(counted.counter())[0] == 2


def test_counters_are_enabled_and_disabled_and_their_period_changes() -> None:
    counted = Counted()
    manager, stage = counted.manager, counted.stage
    names = ("Enabled", "SamplePeriod", "MaxDayCount")
    assert [manager.read("broker", f"MessageCounter{name}") for name in names] == [False, 10_000, 10]
    counted.send(1)
    stage.advance(20)
    assert counts(counted.counter())[0] == 0
    counted.enable()
    manager.call("broker", "setMessageCounterSamplePeriod", 21_000)
    stage.advance(20)
    assert counts(counted.counter())[0] == 0
    stage.advance(1)
    # What was added before the first sample counts, as in Artemis.
    assert counts(counted.counter())[0] == 1
    assert [manager.read("broker", f"MessageCounter{name}") for name in names] == [True, 21_000, 10]
    manager.call("broker", "disableMessageCounters")
    counted.send(5)
    stage.advance(20)
    row = counted.counter()
    assert counts(row)[0] == 0 and row["updateTimestamp"] == NEVER
    counted.enable()
    stage.advance(21)
    # What was counted before they were disabled does not count again.
    assert counts(counted.counter())[0] == 5


def test_disabled_counters_have_no_time() -> None:
    counted = Counted(connection_ttl_ms=-1, connection_check_interval_ms=3_600_000)
    housekeeping = counted.stage.node.kernel.housekeeping
    assert housekeeping.next_deadline(counted.stage.seconds) == float("inf")
    counted.enable()
    assert housekeeping.next_deadline(counted.stage.seconds) == counted.stage.seconds + 10
    counted.manager.call("broker", "disableMessageCounters")
    assert housekeeping.next_deadline(counted.stage.seconds) == float("inf")


@pytest.mark.parametrize("enabled", [False, True])
def test_a_counter_goes_with_its_queue(enabled: bool) -> None:
    counted = Counted(message_counter_enabled=enabled)
    counters = counted.stage.node.kernel.message_counters
    before = counters.counted_queues
    for number in range(10):
        counted.manager.call("broker", "createQueue", f"q{number}", f"q{number}")
        counted.manager.call(f"queue.q{number}", "listMessageCounter")
        assert f"q{number}" in counters.counted_queues
        counted.manager.call("broker", "destroyQueue", f"q{number}")
    assert counters.counted_queues == before


def test_many_queues_are_sampled_in_slices() -> None:
    counted = Counted(work_per_step_max=16, message_counter_enabled=True)
    for number in range(20):
        counted.manager.call("broker", "createQueue", f"q{number}", f"q{number}")
    counted.send(1)
    counted.stage.seconds += 10
    kernel = counted.stage.node.kernel
    assert counted.stage.run() >= 10
    assert counts(counted.counter())[0] == 1
    # A new queue of the same name begins with 0.
    counted.manager.call("broker", "destroyQueue", "q")
    counted.peer.create_queue()
    counted.stage.advance(10)
    assert counts(counted.counter())[0] == 0
    assert len(kernel.message_counters.counted_queues) == len(kernel.address_manager.queues)


@pytest.mark.parametrize(
    ("operation", "value", "text"),
    [
        ("setMessageCounterSamplePeriod", 0, "AMQ229047: invalid value: 0 sample period must be greater than 0"),
        ("setMessageCounterSamplePeriod", -5, "AMQ229047: invalid value: -5 sample period must be greater than 0"),
        ("setMessageCounterMaxDayCount", 0, "AMQ229046: invalid value: 0 count must be greater than 0"),
        ("setMessageCounterMaxDayCount", None, "AMQ229046: invalid value: None count must be greater than 0"),
    ],
)
def test_values_that_are_refused(operation: str, value: int | None, text: str) -> None:
    manager = Counted().manager
    assert manager.failure("broker", operation=operation, body=json.dumps([value])) == text


def test_a_short_period_is_used_with_a_warning() -> None:
    counted = Counted()
    counted.manager.call("broker", "setMessageCounterSamplePeriod", 100)
    assert "AMQ224072: Message Counter Sample Period too short: 100" in counted.stage.warnings()
    assert counted.manager.read("broker", "MessageCounterSamplePeriod") == 100


def test_a_counter_as_html() -> None:
    counted = Counted(message_counter_enabled=True)
    counted.send(3)
    counted.stage.advance(10)
    names = (
        "Type", "Name", "Subscription", "Durable", "Count", "CountDelta", "Depth", "DepthDelta", "Last Add",
        "Last Ack", "Last Update",
    )  # fmt: skip
    head = "".join(f"<th>{name}</th>" for name in names)
    moment = "11/26/26, 1:00:10 PM"
    for changed in ("3", "-"):
        values = ("Queue", "q", "-", "-", "3", changed, "3", changed, moment, "-", moment)
        cells = "".join(f"<td>{value}</td>" for value in values)
        assert counted.manager.call("queue.q", "listMessageCounterAsHTML") == (
            f'<table class="activemq-message-counter">\n<tr>{head}</tr>\n<tr bgcolor="#FFFFFF">{cells}</tr>\n</table>\n'
        )


def test_a_history_as_html() -> None:
    counted = Counted(hour=23, message_counter_enabled=True)
    counted.send(3)
    counted.stage.advance(10)
    counted.pass_hours(1)
    counted.send(4)
    counted.stage.advance(10)
    text = counted.manager.call("queue.q", "listMessageCounterHistoryAsHTML")
    head = "<th>Date</th>" + "".join(f"<th>{hour}</th>" for hour in range(24)) + "<th>Total</th>"
    empty = "<td></td>" * 23
    assert text == (
        "<ul>\n<li>\n  <ul>\n    <li>Queue 'q'</li>\n"
        f'    <li><table class="activemq-message-counter-history">\n<tr>{head}</tr>\n'
        f'<tr bgcolor="#FFFFFF"><td>11/26/26</td>{empty}<td>3</td><td>3</td></tr>\n'
        f'<tr bgcolor="#F0F0F0"><td>11/27/26</td><td>4</td>{empty}<td>4</td></tr>\n'
        "</table></li>\n  </ul>\n</li>\n</ul>\n"
    )


@pytest.mark.parametrize("operation", ["listMessageCounterAsHTML", "listMessageCounterHistoryAsHTML"])
def test_a_name_is_no_html(operation: str) -> None:
    counted = Counted()
    counted.peer.create_queue("<b>&c")
    text = counted.manager.call("queue.<b>&c", operation)
    assert "&lt;b&gt;&amp;c" in text and "<b>" not in text
