"""The book of what was sent: which messages the brokers have confirmed, and in which order.

Responsible for facts about sends. Does not depend on where messages arrive.
"""

from __future__ import annotations

from attrs import define, field

from embedbroker.testing._messages import Letter

__all__ = ["Entry", "SendBook"]


@define(eq=False)
class Entry:
    """One message. ``number`` is its place among all messages; a sender's are in the order of their sends.

    ``was_in_doubt``: a connection was lost under it, and what was sent may come later than messages behind it.
    """

    letter: Letter
    sender: str
    number: int
    is_confirmed: bool = False
    was_in_doubt: bool = False


@define(eq=False)
class SendBook:
    """All messages of a scenario, by their keys, in the order of their first sends."""

    entries: dict[str, Entry] = field(factory=dict)

    def sent(self, sender: str, letter: Letter) -> None:
        """Note a send, or its repetition."""
        if letter.key not in self.entries:
            self.entries[letter.key] = Entry(letter, sender, len(self.entries))

    def confirmed(self, letter: Letter) -> None:
        """Note that the broker has the message."""
        self.entries[letter.key].is_confirmed = True

    def in_doubt(self, letter: Letter) -> None:
        """Note that the sender does not get to know whether the broker has the message."""
        self.entries[letter.key].was_in_doubt = True
