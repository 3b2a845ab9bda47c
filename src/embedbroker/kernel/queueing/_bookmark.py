"""The progress of a reader of a backlog."""

from __future__ import annotations

__all__ = ["Bookmark"]


class Bookmark:
    """Hold how far one reader with a filter, or a browser, has looked into each priority."""

    __slots__ = ("chunk", "offset", "returned_position", "returned_version")

    def __init__(self) -> None:
        self.chunk = [0] * 10
        self.offset = [0] * 10
        # A reader with a filter: up to which position nothing matched among those that had returned by which addition.
        # A browser: position of the last message it was shown, so that nothing is shown twice.
        self.returned_position = [-1] * 10
        self.returned_version = [0] * 10
