"""Where brokers announce themselves and find each other: a multicast group, or a directory that they share.

Does not depend on sockets and files.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import Attribute, field, frozen

from ._multicast import MulticastGroup

__all__ = ["BroadcastEndpoint", "SharedDirectory"]


def _is_file_name(text: str) -> bool:
    """Return True if the operating system can have files with this text in their names."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _location(_: object, _attribute: Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not value or not _is_file_name(value):
        raise ValueError(f"the shared directory must be a path, not {value!r}")


def _channel(_: object, _attribute: Attribute[str], value: object) -> None:
    if (
        not isinstance(value, str)
        or not value.strip(".")
        or any(sign in value for sign in "/\\:")
        or not _is_file_name(value)
    ):
        raise ValueError(f"the channel {value!r} must be the name of a subdirectory")


@frozen
class SharedDirectory:
    """A directory in which each broker keeps one file with its announcement.

    Args:
        location: Path of the directory, which all brokers and clients share.
        channel: Name of its subdirectory; groups of brokers with different names do not find each other.

    Raises:
        ValueError: the path or the name cannot be used.
    """

    location: str = field(validator=_location)
    channel: str = field(validator=_channel)

    @property
    def place(self) -> str:
        """Return the path of the subdirectory."""
        return f"{self.location.rstrip('/')}/{self.channel}"

    def __str__(self) -> str:
        return f"directory {self.place}"


BroadcastEndpoint: TypeAlias = MulticastGroup | SharedDirectory
