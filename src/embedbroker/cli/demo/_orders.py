"""The orders of one day, made on the spot: how many there are in each minute, whose they are, and what they add up to.

A few customers and products have most of the orders (Zipf), the evening has more than the night, and orders come a
little late. The same seed makes the same orders, so what they add up to is known exactly. Refuses to know where they
go.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import cos, tau
from typing import NamedTuple

from attrs import define, frozen

__all__ = ["CHUNK", "DAY_START_MS", "LATE_S_MAX", "WINDOW_MS", "Order", "Orders", "Total", "body_of", "totals_of"]

DAY_START_MS = 1_764_288_000_000  # 2025-11-28, a Friday, in UTC
WINDOW_MS = 10 * 60 * 1000
#: No order is sent later than this behind one that was made after it.
LATE_S_MAX = 120.0
#: Orders that are made together.
CHUNK = 1_000

_CUSTOMERS, _CUSTOMERS_SKEW = 10_000, 1.1
_PRODUCTS, _PRODUCTS_SKEW = 50, 1.0
_LATE_S_MEAN = 15.0
_MINUTES = 24 * 60


class Order(NamedTuple):
    """One order; ``at`` is when it was made, in milliseconds since 1970."""

    number: int
    at: int
    customer: int
    product: int
    quantity: int
    cents: int


class Total(NamedTuple):
    """What the orders of one product in one window add up to. ``checksum`` tells which orders of whom these were."""

    window: int
    product: int
    orders: int
    quantity: int
    cents: int
    checksum: int


@frozen
class Orders:
    """``count`` orders of one day, numbered from 0."""

    count: int
    seed: int

    def chunks(self) -> Iterator[list[Order]]:
        """All of them in the order in which they are sent, a thousand at a time."""
        maker = _Maker(self)
        for first in range(0, self.count, CHUNK):
            yield maker.make(first, min(first + CHUNK, self.count))

    def closing(self) -> Order:
        """One of the next day, sent behind all others: only time that goes on closes the last windows."""
        return Order(self.count, DAY_START_MS + 48 * 60 * 60 * 1000, 0, 0, 0, 0)


def body_of(order: Order) -> str:
    """The order as JSON."""
    return (
        f'{{"order":{order.number},"at":{order.at},"customer":{order.customer},'
        f'"product":{order.product},"quantity":{order.quantity},"cents":{order.cents}}}'
    )


def totals_of(chunks: Iterable[list[Order]]) -> dict[tuple[int, int], Total]:
    """What they add up to by window and product, in plain Python: nothing of it is shared with what is proven."""
    sums: dict[tuple[int, int], _Sum] = {}
    for chunk in chunks:
        for order in chunk:
            key = order.at - order.at % WINDOW_MS, order.product
            entry = sums.get(key)
            if entry is None:
                entry = sums[key] = _Sum()
            entry.orders += 1
            entry.quantity += order.quantity
            entry.cents += order.cents
            entry.checksum += order.number * 31 + order.customer
    return {key: Total(*key, each.orders, each.quantity, each.cents, each.checksum) for key, each in sums.items()}


@define
class _Sum:
    orders: int = 0
    quantity: int = 0
    cents: int = 0
    checksum: int = 0


class _Maker:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._customers = _zipf(_CUSTOMERS, _CUSTOMERS_SKEW)
        self._products = _zipf(_PRODUCTS, _PRODUCTS_SKEW)
        prices = random.Random(f"{orders.seed}/prices")
        self._prices = [0, *(prices.randrange(199, 20_000) for _ in range(_PRODUCTS))]
        # The share of a day's orders at the end of each minute: the evening has nine times what the night has.
        weights = [1.0 - 0.8 * cos(tau * (minute / _MINUTES - 0.15)) for minute in range(_MINUTES)]
        self._shares = [share / sum(weights) for share in accumulate(weights)]

    def make(self, first: int, last: int) -> list[Order]:
        count = last - first
        # Each chunk by itself: what it holds does not depend on how many there are before it.
        chance = random.Random(f"{self._orders.seed}/{first}")
        customers = chance.choices(range(1, _CUSTOMERS + 1), cum_weights=self._customers, k=count)
        products = chance.choices(range(1, _PRODUCTS + 1), cum_weights=self._products, k=count)
        quantities = chance.choices((1, 2, 3, 5, 10), (60, 20, 10, 7, 3), k=count)
        prices = self._prices
        return [
            Order(number, self._time(number, chance), customer, product, quantity, quantity * prices[product])
            for number, customer, product, quantity in zip(
                range(first, last), customers, products, quantities, strict=True
            )
        ]

    def _time(self, number: int, chance: random.Random) -> int:
        share = (number + 0.5) / self._orders.count
        minute = bisect_right(self._shares, share, 0, _MINUTES - 1)
        before = self._shares[minute - 1] if minute else 0.0
        sent_s = 60.0 * (minute + (share - before) / (self._shares[minute] - before))
        late_s = min(LATE_S_MAX, chance.expovariate(1 / _LATE_S_MEAN))
        return DAY_START_MS + int(1000 * max(0.0, sent_s - late_s))


def _zipf(count: int, skew: float) -> list[float]:
    return list(accumulate(1 / rank**skew for rank in range(1, count + 1)))
