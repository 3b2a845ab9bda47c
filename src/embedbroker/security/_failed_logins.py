"""Failed logins by remote address and user, and the time for which the next one must wait.

Responsible for slowing the guessing of passwords, in bounded memory. Time is an argument. Does not depend on passwords.

The delay is that of one user from one address, so that a client with an old password delays no other user of its
address. An address that fails with many users has a delay for all of them.
"""

from __future__ import annotations

import ipaddress

from attrs import define, field

__all__ = ["FailedLogins", "address_of"]

_FREE_FAILURES = 4
_FREE_FAILURES_OF_ADDRESS = 99
_DELAY_MAX_S = 60.0
# Without a failure for this time, an address counts from the start.
_FORGET_AFTER_S = 600.0
_RECORDS_MAX = 10_000
# Of a longer name only this part counts.
_NAME_MAX = 256
# A customer of a network provider has at least such a range of IPv6 addresses.
_IPV6_PREFIX = 64


def address_of(peer: str) -> str:
    """Return the part of a peer's name that failed logins are counted by: its host, or its network for IPv6."""
    host, separator, port = peer.rpartition(":")
    if not separator or not port.isdigit():
        return peer[:_NAME_MAX]
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host[:_NAME_MAX]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))


@define
class _Record:
    count: int = 0
    last: float = 0.0
    admitted_from: float = 0.0


@define(eq=False)
class _Table:
    """Count failures by key. The first ``free`` in a row cost nothing; each further one doubles the delay."""

    free: int
    # The key with the oldest failure is first.
    records: dict[str, _Record] = field(factory=dict, init=False)

    def remaining_s(self, key: str, now: float) -> float:
        record = self.records.get(key)
        return 0.0 if record is None else max(record.admitted_from - now, 0.0)

    def add(self, key: str, now: float, delay_s: float) -> None:
        record = self.records.pop(key, None)
        if record is None or now - record.last > _FORGET_AFTER_S:
            record = _Record()
        while len(self.records) >= _RECORDS_MAX:
            del self.records[next(iter(self.records))]
        record.count += 1
        record.last = now
        beyond = record.count - self.free
        if beyond > 0:
            record.admitted_from = now + min(delay_s * 2.0 ** min(beyond - 1, 32), _DELAY_MAX_S)
        self.records[key] = record


@define(eq=False)
class FailedLogins:
    """Count failed logins.

    After the fifth failure of a user from an address, the next login of this user from there must wait. The delay
    doubles with each further failure, up to a minute. So it is for all users of an address after a hundred failures.

    Attributes:
        delay_s: First delay; 0: none.
    """

    delay_s: float
    _pairs: _Table = field(factory=lambda: _Table(_FREE_FAILURES), init=False)
    _addresses: _Table = field(factory=lambda: _Table(_FREE_FAILURES_OF_ADDRESS), init=False)

    def __len__(self) -> int:
        return len(self._pairs.records) + len(self._addresses.records)

    def remaining_s(self, address: str, user: str | None, now: float) -> float:
        """Return the seconds for which a login must wait; 0 if it may be tried."""
        return max(
            self._pairs.remaining_s(_pair(address, user), now),
            self._addresses.remaining_s(address, now),
        )

    def add(self, address: str, user: str | None, now: float) -> None:
        """Count a failed login that was not refused because of a delay."""
        if self.delay_s:
            self._pairs.add(_pair(address, user), now, self.delay_s)
            self._addresses.add(address, now, self.delay_s)


def _pair(address: str, user: str | None) -> str:
    return f"{address}\0{(user or '')[:_NAME_MAX]}"
