"""A multicast group, and the interface of this machine that leads to it.

Responsible for which addresses and ports are possible. Does not depend on sockets.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address
from typing import Final

from attrs import Attribute, field, frozen

from ._url import describe_name

__all__ = ["MulticastGroup"]

_PORT_MAX: Final = 65_535


def _multicast(_: object, attribute: Attribute[str], value: object) -> None:
    try:
        is_multicast = isinstance(value, str) and IPv4Address(value).is_multicast
    except AddressValueError:
        is_multicast = False
    if not is_multicast:
        raise ValueError(
            f"the group address {describe_name(str(value))!r} is no IPv4 multicast address: use one from 224.0.0.0 to "
            "239.255.255.255, as 231.7.7.7"
        )


def _port(_: object, attribute: Attribute[int], value: object) -> None:
    least = 1 if attribute.name == "port" else -1
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _PORT_MAX:
        raise ValueError(f"{attribute.name} is a number from {least} to {_PORT_MAX}, not {value!r}")


@frozen
class MulticastGroup:
    """A multicast group, and the interface of this machine that leads to it.

    Args:
        address: IPv4 multicast address.
        port: Port of the group, 1 to 65535.
        local_bind_address: Address or name of the interface for both directions; None for the default of the system.
        local_bind_port: Port from which datagrams are sent; -1 or 0 for a free one.

    Raises:
        ValueError: an address is no multicast address, or a port is out of its range.
    """

    address: str = field(validator=_multicast)
    port: int = field(default=9876, validator=_port)
    local_bind_address: str | None = None
    local_bind_port: int = field(default=-1, validator=_port)

    @property
    def place(self) -> str:
        """Return address and port."""
        return f"{self.address}:{self.port}"

    def __str__(self) -> str:
        interface = self.local_bind_address
        on = "the default interface" if interface is None else f"the interface of {describe_name(interface)}"
        return f"multicast group {self.address}:{self.port} on {on}"
