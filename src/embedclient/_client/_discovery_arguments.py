"""The arguments of a locator that name a multicast group, or change what a URL with discovery has.

Responsible for refusals that name the argument and its remedy. Does not depend on the search for brokers.
"""

from __future__ import annotations

from attrs import evolve, field, frozen

from embedclient.model import MulticastGroup

from ._url import DiscoverySettings

_PORT = 9876
_PORT_MAX = 65_535


@frozen
class DiscoveryArguments:
    """What a program gave; None for each argument that it did not give."""

    group_address: str | None = field()
    group_port: int | None = field()
    local_bind_address: str | None = field()
    initial_wait_timeout_ms: int | None = field()
    refresh_timeout_ms: int | None = field()

    def __attrs_post_init__(self) -> None:
        for name in ("group_address", "local_bind_address"):
            text = getattr(self, name)
            if text is not None and not isinstance(text, str):
                raise TypeError(f"{name} must be a str such as '231.7.7.7', not {text!r}")
            if text == "":
                raise ValueError(f"{name} must not be empty: omit it or use None")
        for name, least, most, zero in (
            ("group_port", 1, _PORT_MAX, ""),
            ("initial_wait_timeout_ms", 0, None, "no limit"),
            ("refresh_timeout_ms", 0, None, "a search each time"),
        ):
            number = getattr(self, name)
            if number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, int):
                raise TypeError(f"{name} must be an int, not {number!r}")
            if number < least or (most is not None and number > most):
                allowed = f"milliseconds, or 0 for {zero}" if most is None else f"from {least} to {most}"
                raise ValueError(f"{name} must be {allowed}, not {number}")

    def changed(self, of_url: DiscoverySettings | None) -> DiscoverySettings:
        """Return the group that the arguments name, or that of a URL with the changes that they make.

        Args:
            of_url: what the URL of the locator has; None without a URL, or if it names brokers.

        Raises:
            ValueError: an argument has no effect there.
        """
        if self.group_address is not None:
            group = MulticastGroup(self.group_address, self.group_port or _PORT, self.local_bind_address)
            found = DiscoverySettings(group)
        else:
            found = self._changed_url(of_url)
        if self.initial_wait_timeout_ms is not None:
            found = evolve(found, initial_wait_timeout_ms=self.initial_wait_timeout_ms)
        if self.refresh_timeout_ms is not None:
            found = evolve(found, refresh_timeout_ms=self.refresh_timeout_ms)
        return found

    def _changed_url(self, found: DiscoverySettings | None) -> DiscoverySettings:
        if self.group_port is not None:
            raise ValueError(
                "group_port needs a group_address; in a URL the port is a part of it: udp://231.7.7.7:9876"
            )
        if found is None:
            names = ("local_bind_address", "initial_wait_timeout_ms", "refresh_timeout_ms")
            name = next(name for name in names if getattr(self, name) is not None)
            raise ValueError(f"{name} needs discovery: a group_address, or a URL with udp:// or jgroups://")
        if self.local_bind_address is None:
            return found
        if not isinstance(found.group, MulticastGroup):
            raise ValueError(f"local_bind_address needs a multicast group, which this URL does not have: {found.group}")
        return evolve(found, group=evolve(found.group, local_bind_address=self.local_bind_address))
