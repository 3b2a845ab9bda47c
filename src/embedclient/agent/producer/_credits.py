"""Producer credits per address (core-protocol 7.4): how many message bytes may still be sent to it.

Responsible for balance, requests and the rejection of a full address. Does not depend on messages or waiting callers. A
caller without credit keeps its place in its session's channel and tries again when credits arrive.
"""

from collections.abc import Callable
from typing import Final

from attrs import define

from embedclient.errors import ErrorCode, exception_for

UNUSED_ADDRESSES_MAX: Final = 1000
"""Balances kept per session for addresses without an open producer."""


@define(eq=False)
class AddressCredits:
    """The balance of one address in one session. `request` sends SESS_PRODUCER_REQUEST_CREDITS."""

    address: str
    _half_window: int
    _request: Callable[[int, str], None]
    balance: int = 0
    arriving: int = 0
    _refused: bool = False
    producers: int = 0

    def open(self) -> None:
        """Request half a window at the first use of the address."""
        self._send_request(self._half_window)

    def take(self, size: int) -> bool:
        """Take credit for one message if there is enough. Request more before the balance is empty.

        Raise AddressFullException when the broker rejected a request. Credits granted before are given up then, and
        requested again at the next send.
        """
        needed = max(size, self._half_window)
        missing = needed - self.balance - self.arriving
        if missing > 0:
            # Below zero after a large message: what is arriving pays for that first.
            self._send_request(needed - self.arriving if self.balance >= 0 else missing)
        if self.balance < size:
            return False
        if self._refused:
            self._refuse()
        self.balance -= size
        return True

    def charge(self, size: int) -> None:
        """Take credit for a part of a large message that has left already. The balance may be negative then."""
        needed = max(size, self._half_window)
        if needed > self.balance + self.arriving:
            self._send_request(needed - self.arriving)
        self.balance -= size

    def is_settled(self) -> bool:
        """Return True if all that has left is paid. Raise AddressFullException as `take` does."""
        if self.balance < 0:
            return False
        if self._refused:
            self._refuse()
        return True

    def _refuse(self) -> None:
        self._refused = False
        self.balance = 0
        raise exception_for(ErrorCode.ADDRESS_FULL, f"address {self.address!r} is full")

    def on_granted(self, credits: int) -> None:
        self.balance += credits
        # The broker grants a rejected request once more with a separate packet, which is not counted as arriving.
        self.arriving = max(0, self.arriving - credits)

    def on_refused(self, credits: int) -> None:
        self.on_granted(credits)
        self._refused = True

    def restart(self) -> None:
        """Request credits for a rebuilt session, which has none: a full window, or the earlier request if larger."""
        wanted = max(2 * self._half_window, self.arriving)
        self.balance = self.arriving = 0
        self._refused = False
        self._send_request(wanted)

    def _send_request(self, credits: int) -> None:
        # With a balance below zero, what is arriving may be more than a send needs, and not enough for it.
        if credits > 0:
            self.arriving += credits
            self._request(credits, self.address)


class CreditTable:
    """The balances of one session, by address."""

    __slots__ = ("_balances", "_half_window", "_newest", "_request", "_unused")

    def __init__(self, producer_window_size: int, request: Callable[[int, str], None]) -> None:
        assert producer_window_size >= 0
        self._half_window = producer_window_size // 2
        self._request = request
        self._balances: dict[str, AddressCredits] = {}
        # Addresses without an open producer, least recently used first.
        self._unused: dict[str, None] = {}
        # The last one of those, if it was used last of all.
        self._newest: AddressCredits | None = None

    def balances(self) -> dict[str, int]:
        """Return the credits of each address, in bytes."""
        return {address: credits.balance for address, credits in self._balances.items()}

    def get(self, address: str) -> AddressCredits:
        """Return the balance of an address, for a message of an anonymous producer."""
        newest = self._newest
        if newest is not None and newest.address == address:
            return newest
        credits = self._balances.get(address)
        if credits is None:
            credits = AddressCredits(address, self._half_window, self._request)
            self._balances[address] = credits
            credits.open()
        if credits.producers == 0:
            self._unused.pop(address, None)
            self._unused[address] = None
            self._newest = credits
            if len(self._unused) > UNUSED_ADDRESSES_MAX:
                oldest = next(iter(self._unused))
                del self._unused[oldest]
                del self._balances[oldest]
        return credits

    def acquire(self, address: str) -> AddressCredits:
        """Return the balance of an address for a producer bound to it. The producer must return it with `release`."""
        credits = self.get(address)
        credits.producers += 1
        self._unused.pop(address, None)
        self._newest = None
        return credits

    def release(self, credits: AddressCredits) -> None:
        credits.producers -= 1
        if credits.producers == 0:
            self._unused[credits.address] = None
            self._newest = None

    def on_granted(self, address: str, credits: int) -> None:
        balance = self._balances.get(address)
        if balance is not None:
            balance.on_granted(credits)

    def on_refused(self, address: str, credits: int) -> None:
        balance = self._balances.get(address)
        if balance is not None:
            balance.on_refused(credits)

    def restart(self) -> None:
        for credits in self._balances.values():
            credits.restart()
