"""What the demo compares with: orders of a seed are the same everywhere, and a difference is found and named."""

from __future__ import annotations

import json

import pytest

from embedbroker.cli.demo._orders import CHUNK, DAY_START_MS, LATE_S_MAX, WINDOW_MS, Orders, Total, body_of, totals_of
from embedbroker.cli.demo._verdict import differences

ORDERS = Orders(3_500, 7)
DAY_MS = 24 * 60 * 60 * 1000


def test_the_same_seed_makes_the_same_orders() -> None:
    chunks = list(ORDERS.chunks())
    assert chunks == list(Orders(3_500, 7).chunks())
    assert chunks != list(Orders(3_500, 8).chunks())
    assert [len(chunk) for chunk in chunks] == [CHUNK, CHUNK, CHUNK, 500]
    assert [order.number for chunk in chunks for order in chunk] == list(range(3_500))


def test_orders_fill_a_day_come_a_little_late_and_are_skewed() -> None:
    orders = [order for chunk in Orders(50_000, 7).chunks() for order in chunk]
    assert all(0 <= order.at - DAY_START_MS < DAY_MS for order in orders)
    latest, late = 0, 0
    for order in orders:
        late = max(late, latest - order.at)
        latest = max(latest, order.at)
    assert 0 < late <= 1000 * LATE_S_MAX
    first = sum(order.product == 1 for order in orders)
    assert first > 5 * sum(order.product == 20 for order in orders) > 0
    hours = [0] * 24
    for order in orders:
        hours[(order.at - DAY_START_MS) // (60 * 60 * 1000)] += 1
    assert max(hours) > 5 * min(hours)


def test_the_closing_order_closes_the_last_window_and_is_in_none_of_them() -> None:
    assert ORDERS.closing().at > DAY_START_MS + DAY_MS + WINDOW_MS + 1000 * LATE_S_MAX


def test_a_body_says_all_of_an_order() -> None:
    order = next(ORDERS.chunks())[0]
    assert tuple(json.loads(body_of(order)).values()) == (order.number, *order[1:])


def test_totals_add_up() -> None:
    totals = totals_of(ORDERS.chunks())
    orders = [order for chunk in ORDERS.chunks() for order in chunk]
    assert sum(total.orders for total in totals.values()) == 3_500
    assert sum(total.cents for total in totals.values()) == sum(order.cents for order in orders)
    assert all(key == (total.window, total.product) for key, total in totals.items())
    assert all(window % WINDOW_MS == 0 for window, _ in totals)


@pytest.mark.parametrize("change", ["lost", "twice", "another"])
def test_one_order_more_less_or_another_is_found(change: str) -> None:
    """In the totals, of an order: that it is counted twice, that it is not, and that it is an unknown one."""
    expected = totals_of(ORDERS.chunks())
    (first, *chunk), *chunks = ORDERS.chunks()
    changed = {"lost": [], "twice": [first, first], "another": [first._replace(customer=first.customer + 1)]}[change]
    found = totals_of([[*changed, *chunk], *chunks])
    (text,) = differences("Parquet", expected, found.values())
    window = first.at - first.at % WINDOW_MS
    alone = expected[window, first.product].orders == 1
    what = "missing" if change == "lost" and alone else "not what the orders add up to"
    assert text == f"Parquet: 1 totals are {what}, such as product {first.product} at {window}"


def test_a_total_that_comes_twice_or_from_nowhere_is_found() -> None:
    expected = totals_of(ORDERS.chunks())
    totals = list(expected.values())
    nowhere = Total(0, 1, 1, 1, 1, 1)
    assert list(differences("the queue", expected, totals)) == []
    assert list(differences("the queue", expected, [*totals, totals[0], nowhere])) == [
        f"the queue: 1 totals are twice, such as product {totals[0].product} at {totals[0].window}",
        "the queue: 1 totals are not what the orders add up to, such as product 1 at 0",
    ]
