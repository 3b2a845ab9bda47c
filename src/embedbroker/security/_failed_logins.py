"""Failed logins by remote address, and the time for which an address must wait.

Responsible for slowing the guessing of passwords, in bounded memory. Time is an argument. Does not depend on users.
"""

from __future__ import annotations

import ipaddress

from attrs import define, field

__all__ = ["FailedLogins", "address_of"]

_FREE_FAILURES = 4
_DELAY_MAX_S = 60.0
# Without a failure for this time, an address counts from the start.
_FORGET_AFTER_S = 600.0
_ADDRESSES_MAX = 10_000
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
class FailedLogins:
    """Count failed logins. The first four in a row cost nothing; each further one doubles the delay, up to a minute.

    Attributes:
        delay_s: Delay after the fifth failure; 0: none.
    """

    delay_s: float
    # The address with the oldest failure is first.
    _records: dict[str, _Record] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._records)

    def remaining_s(self, address: str, now: float) -> float:
        """Return the seconds for which an address must wait; 0 if it may log in."""
        record = self._records.get(address)
        return 0.0 if record is None else max(record.admitted_from - now, 0.0)

    def add(self, address: str, now: float) -> None:
        """Count a failed login that was not refused because of a delay."""
        if not self.delay_s:
            return
        record = self._records.pop(address, None)
        if record is None or now - record.last > _FORGET_AFTER_S:
            record = _Record()
        while len(self._records) >= _ADDRESSES_MAX:
            del self._records[next(iter(self._records))]
        record.count += 1
        record.last = now
        beyond = record.count - _FREE_FAILURES
        if beyond > 0:
            record.admitted_from = now + min(self.delay_s * 2.0 ** min(beyond - 1, 32), _DELAY_MAX_S)
        self._records[address] = record
