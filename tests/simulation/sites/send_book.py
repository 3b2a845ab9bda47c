"""The book of what was sent: which messages the brokers have confirmed, and in which order.

Responsible for facts about sends. Does not depend on where messages arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from attrs import define, field, frozen

from embedbroker.testing._messages import Letter

__all__ = ["Entry", "Outcome", "SendBook", "SentTogether"]


class Outcome(Enum):
    """The end of a transaction, as its sender notes it. One that was not committed is absent, whatever happens."""

    COMMITTED = "committed"
    ABSENT = "absent"
    IN_DOUBT = "in doubt"


@frozen
class SentTogether:
    """The messages of one transaction, which hold all or none."""

    keys: tuple[str, ...]
    outcome: Outcome


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
    transactions: list[SentTogether] = field(factory=list)

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

    def ended(self, letters: Iterable[Letter], outcome: Outcome) -> None:
        """Note the end of a transaction that is not sent again."""
        self.transactions.append(SentTogether(tuple([letter.key for letter in letters]), outcome))
