"""Producer credits of one session, by the numbers of core-protocol 7.4."""

from __future__ import annotations

import pytest

from embedclient.agent.producer._credits import UNUSED_ADDRESSES_MAX, CreditTable
from embedclient.errors import AddressFullException


class Requests:
    """What was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []

    def __call__(self, credits: int, address: str) -> None:
        self.asked.append((credits, address))

    def taken(self) -> list[tuple[int, str]]:
        asked, self.asked = self.asked, []
        return asked


def test_the_first_use_asks_for_half_a_window_and_later_ones_in_good_time() -> None:
    requests = Requests()
    table = CreditTable(2000, requests)
    credits = table.acquire("a")
    assert requests.taken() == [(1000, "a")]
    table.on_granted("a", 1000)
    assert credits.take(705)
    assert requests.taken() == []
    assert not credits.take(705)
    assert requests.taken() == [(1000, "a")]
    assert not credits.take(705), "the credits are still on their way"
    assert requests.taken() == []
    table.on_granted("a", 1000)
    assert credits.take(705)
    assert credits.balance == 590


def test_a_message_larger_than_the_window_asks_for_its_size() -> None:
    requests = Requests()
    table = CreditTable(2000, requests)
    credits = table.acquire("a")
    requests.taken()
    assert not credits.take(3205)
    assert requests.taken() == [(2205, "a")]
    table.on_granted("a", 1000)
    table.on_granted("a", 2205)
    assert credits.take(3205)


def test_refused_credits_fail_one_send_and_are_asked_for_again() -> None:
    requests = Requests()
    table = CreditTable(4000, requests)
    credits = table.acquire("a")
    table.on_refused("a", 2000)
    with pytest.raises(AddressFullException, match="'a' is full"):
        credits.take(100)
    assert credits.balance == 0
    requests.taken()
    assert not credits.take(100)
    assert requests.taken() == [(2000, "a")]
    # What was refused is granted later in a separate packet, on top of what was requested since.
    table.on_granted("a", 2000)
    table.on_granted("a", 2000)
    assert credits.take(100)
    assert credits.balance == 3900


def test_a_rebuilt_session_asks_for_a_whole_window() -> None:
    requests = Requests()
    table = CreditTable(2000, requests)
    credits = table.acquire("a")
    table.on_granted("a", 1000)
    requests.taken()
    table.restart()
    assert requests.taken() == [(2000, "a")]
    assert credits.balance == 0


def test_addresses_without_producer_are_forgotten_when_there_are_too_many() -> None:
    requests = Requests()
    table = CreditTable(2000, requests)
    kept = table.acquire("kept")
    for number in range(UNUSED_ADDRESSES_MAX + 1):
        table.get(f"a{number}")
    requests.taken()
    table.get("a0")
    assert requests.taken() == [(1000, "a0")], "the least recently used one was dropped"
    table.get("a2")
    assert requests.taken() == []
    table.release(kept)
    assert table.get("kept") is kept


def test_what_a_large_message_took_is_paid_by_what_arrives() -> None:
    requests = Requests()
    table = CreditTable(2000, requests)
    credits = table.acquire("a")
    table.on_granted("a", 1000)
    requests.taken()
    credits.charge(5000)
    assert requests.taken() == [(5000, "a")]
    assert (credits.balance, credits.is_settled()) == (-4000, False)
    # A small message behind it needs 1,000 beyond what arrives and is owed. It must never request a negative number.
    assert not credits.take(100)
    assert requests.taken() == []
    table.on_granted("a", 4500)
    assert (credits.balance, credits.is_settled()) == (500, True)
    assert credits.take(100)
    credits.charge(5000)
    assert requests.taken() == [(4500, "a")]
    assert credits.balance == -4600
    assert not credits.take(2000)
    assert requests.taken() == [(1600, "a")]
    table.on_granted("a", 6600)
    assert credits.take(2000)
    assert credits.balance == 0


def test_a_full_address_is_reported_in_the_middle_of_a_large_message() -> None:
    table = CreditTable(2000, Requests())
    credits = table.acquire("a")
    table.on_refused("a", 1000)
    credits.charge(500)
    with pytest.raises(AddressFullException, match="'a' is full"):
        credits.is_settled()
