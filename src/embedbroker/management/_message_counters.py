"""Operations on message counters, of ``broker`` and of a queue.

Responsible for the JSON and the HTML of Artemis. Does not depend on when queues are
sampled.
"""

from __future__ import annotations

import json

from embedbroker.kernel import Permission, Queue, QueueCounter

from ._dates import date_text, moment_text
from ._html import Html, cell, row_color
from ._registry import Attribute, Call, Kind, ManagementRefused, Operation, Parameter, done
from ._texts import no_queue

__all__ = ["BROKER_COUNTER_ATTRIBUTES", "BROKER_COUNTER_OPERATIONS", "QUEUE_COUNTER_OPERATIONS"]

# Artemis only warns of a shorter period, too.
_PERIOD_MS_WARNED = 1000


# -- of a queue ------------------------------------------------------------------------------------------------------


def _queue(call: Call) -> Queue:
    queue = call.kernel.address_manager.queues.get(call.name)
    if queue is None:
        raise no_queue(call.name)
    return queue


def _counter(call: Call) -> QueueCounter:
    return call.kernel.message_counters.of(_queue(call))


def _list(call: Call) -> str:
    counter = _counter(call)
    count_delta, depth_delta = counter.take_deltas()
    row = {
        "destinationName": counter.queue.name,
        "destinationSubscription": None,
        "destinationDurable": counter.queue.definition.durable,
        "count": counter.count,
        "countDelta": count_delta,
        "messageCount": counter.queue.message_count,
        "messageCountDelta": depth_delta,
        "lastAddTimestamp": moment_text(counter.added_ms),
        "lastAckTimestamp": moment_text(counter.acknowledged_ms),
        "updateTimestamp": moment_text(counter.updated_ms),
    }
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


_COUNTER_COLUMNS = (
    "Type", "Name", "Subscription", "Durable", "Count", "CountDelta", "Depth", "DepthDelta", "Last Add", "Last Ack",
    "Last Update",
)  # fmt: skip


def _list_as_html(call: Call) -> str:
    counter = _counter(call)
    count_delta, depth_delta = counter.take_deltas()
    moments = [moment_text(ms) if ms else "-" for ms in (counter.added_ms, counter.acknowledged_ms, counter.updated_ms)]
    changes = [value or "-" for value in (count_delta, counter.queue.message_count, depth_delta)]
    # Artemis names no subscription any more: it, and its durability, are dashes.
    values = ("Queue", counter.queue.name, "-", "-", counter.count, *changes, *moments)
    html = Html()
    html.add('<table class="activemq-message-counter">\n', "<tr>")
    html.add(*[cell(name, "th") for name in _COUNTER_COLUMNS], f"</tr>\n<tr{row_color(0)}>", *map(cell, values))
    html.add("</tr>\n</table>\n")
    return html.text()


def _history_of(call: Call) -> QueueCounter:
    """Return the counter of the queue, whose history reaches to this hour."""
    counter, kernel = _counter(call), call.kernel
    counter.extend_history(kernel.now_ms, kernel.message_counters.days_max)
    return counter


def _list_history_as_html(call: Call) -> str:
    counter, html = _history_of(call), Html()
    html.add("<ul>\n<li>\n  <ul>\n    ", cell(f"Queue '{counter.queue.name}'", "li"), "\n")
    html.add('    <li><table class="activemq-message-counter-history">\n<tr>', cell("Date", "th"))
    html.add(*[cell(hour, "th") for hour in range(24)], cell("Total", "th"), "</tr>\n")
    for number, day in enumerate(counter.days):
        known = [hour for hour in day.hours if hour >= 0]
        html.add(f"<tr{row_color(number)}>", cell(date_text(day.day)))
        html.add(*[cell(hour if hour >= 0 else "") for hour in day.hours], cell(sum(known)), "</tr>\n")
    html.add("</table></li>\n  </ul>\n</li>\n</ul>\n")
    return html.text()


def _list_history(call: Call) -> str:
    counter = _history_of(call)
    days = [{"date": date_text(day.day), "counters": day.hours} for day in counter.days]
    return json.dumps({"dayCounters": days}, separators=(",", ":"))


def _reset(call: Call) -> None:
    done(call.session.addresses.use_queue(call.name, Permission.CONSUME))
    _counter(call).reset()


QUEUE_COUNTER_OPERATIONS = (
    Operation("listMessageCounter", (), "String", _list, "Message counter as JSON, as of the last sample."),
    Operation("listMessageCounterHistory", (), "String", _list_history, "Added messages by day and hour as JSON."),
    Operation("listMessageCounterAsHTML", (), "String", _list_as_html, "The counter as a table of HTML."),
    Operation("listMessageCounterHistoryAsHTML", (), "String", _list_history_as_html, "The history in that form."),
    Operation("resetMessageCounter", (), "void", _reset, "Let its message counter begin with 0.", changes=True),
)


# -- of the broker ---------------------------------------------------------------------------------------------------


def _enable(call: Call) -> None:
    call.kernel.message_counters.enable()
    call.kernel.housekeeping.reschedule()


def _disable(call: Call) -> None:
    call.kernel.message_counters.disable()
    call.kernel.housekeeping.reschedule()


def _reset_all(call: Call) -> None:
    call.kernel.message_counters.reset()


def _reset_all_histories(call: Call) -> None:
    call.kernel.message_counters.reset_histories()


def _set_period(call: Call, period_ms: int | None) -> None:
    if period_ms is None or period_ms <= 0:
        raise ManagementRefused(f"AMQ229047: invalid value: {period_ms} sample period must be greater than 0")
    if period_ms < _PERIOD_MS_WARNED:
        call.kernel.log(f"AMQ224072: Message Counter Sample Period too short: {period_ms}")
    counters = call.kernel.message_counters
    if period_ms != counters.period_ms:
        counters.period_ms = period_ms
        counters.restart_period()
        call.kernel.housekeeping.reschedule()


def _set_days(call: Call, count: int | None) -> None:
    if count is None or count <= 0:
        raise ManagementRefused(f"AMQ229046: invalid value: {count} count must be greater than 0")
    call.kernel.message_counters.days_max = count


BROKER_COUNTER_ATTRIBUTES = (
    Attribute(
        "MessageCounterEnabled",
        "boolean",
        lambda call: call.kernel.message_counters.enabled,
        "The message counters of queues are sampled.",
    ),
    Attribute(
        "MessageCounterSamplePeriod",
        "long",
        lambda call: call.kernel.message_counters.period_ms,
        "Milliseconds from one sample to the next.",
    ),
    Attribute(
        "MessageCounterMaxDayCount",
        "int",
        lambda call: call.kernel.message_counters.days_max,
        "Days in the history of a message counter.",
    ),
)

BROKER_COUNTER_OPERATIONS = (
    Operation("enableMessageCounters", (), "void", _enable, "Sample message counters until a restart.", changes=True),
    Operation("disableMessageCounters", (), "void", _disable, "Sample no more, and forget the counts.", changes=True),
    Operation(
        "setMessageCounterSamplePeriod",
        (Parameter("newPeriod", Kind.LONG),),
        "void",
        _set_period,
        "Set the period in milliseconds, until a restart.",
        changes=True,
    ),
    Operation(
        "setMessageCounterMaxDayCount",
        (Parameter("count", Kind.INTEGER),),
        "void",
        _set_days,
        "Set the days of histories, until a restart.",
        changes=True,
    ),
    Operation("resetAllMessageCounters", (), "void", _reset_all, "Let all counters begin with 0.", changes=True),
    Operation(
        "resetAllMessageCounterHistories",
        (),
        "void",
        _reset_all_histories,
        "Let all histories begin now.",
        changes=True,
    ),
)
