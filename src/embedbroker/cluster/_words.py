"""To whom a voter gave its word: one asker for each activation of a node.

Responsible for which word may follow another, and for the text of all of them in a file. Refuses to know why somebody
asks, and to write files.
"""

from __future__ import annotations

import re

from attrs import field, frozen

__all__ = ["Bid", "DamagedWords", "Words"]

# More nodes than any cluster has, so that a broken peer cannot fill the memory.
_WORDS_MAX = 1_000
_BID = re.compile(r"embedbroker (activation|start|withdrawn)=(\d{1,18})\.(\d{1,18}) (.+)\Z", re.ASCII | re.DOTALL)


class DamagedWords(Exception):
    """The text says something else."""


@frozen
class Bid:
    """Who wants to be the only one that goes on from an activation of a node.

    ``starts``: a primary that begins its life. The whole cluster may begin with it, so voters need not have known it.
    ``withdrawn``: it did not get enough words, and needs none any more. ``attempt`` tells one time that it asked from
    another: what was withdrawn then, and comes late, takes nothing that was given since.
    """

    activation: int
    asker: str
    starts: bool = field(default=False, eq=False)
    attempt: int = field(default=0, eq=False)
    withdrawn: bool = field(default=False, eq=False)

    def __str__(self) -> str:
        what = "withdrawn" if self.withdrawn else "start" if self.starts else "activation"
        return f"embedbroker {what}={self.activation}.{self.attempt} {self.asker}"

    @classmethod
    def read(cls, text: str | None) -> Bid | None:
        """From the text of a question; None for one of Artemis."""
        match = _BID.match(text) if text is not None else None
        if match is None:
            return None
        return cls(int(match[2]), match[4], match[1] == "start", int(match[3]), match[1] == "withdrawn")


@frozen
class Words:
    """By node id, the oldest first."""

    given: dict[str, Bid] = field(factory=dict)

    def has(self, node_id: str, bid: Bid) -> bool:
        """Whether this very asker has it, for this attempt or a later one."""
        given = self.given.get(node_id)
        return given is not None and given == bid and given.attempt >= bid.attempt

    def is_of(self, node_id: str, bid: Bid) -> bool:
        """Whether it was given for this very attempt."""
        return self.has(node_id, bid) and self.given[node_id].attempt == bid.attempt

    def may_have(self, node_id: str, bid: Bid) -> bool:
        """Whether nobody else has it, for that activation or a later one."""
        given = self.given.get(node_id)
        return given is None or given == bid or given.activation < bid.activation

    def with_word(self, node_id: str, bid: Bid) -> Words:
        """These, and one more."""
        assert self.may_have(node_id, bid)
        given = {known: each for known, each in self.given.items() if known != node_id}
        given[node_id] = bid
        for known in list(given)[: max(len(given) - _WORDS_MAX, 0)]:
            del given[known]
        return Words(given)

    def without(self, node_id: str, bid: Bid) -> Words:
        """These, and one less."""
        assert self.is_of(node_id, bid)
        return Words({known: each for known, each in self.given.items() if known != node_id})

    def text(self) -> bytes:
        """The content of a file."""
        lines = [b"\t".join(map(_escaped, (node_id, str(bid)))) for node_id, bid in self.given.items()]
        return b"\n".join([*lines, b"words: %d\n" % len(lines)])

    @classmethod
    def read(cls, text: bytes) -> Words:
        """What a file says.

        Raises:
            DamagedWords: it cannot be understood, or is not whole.
        """
        *lines, count, end = text.split(b"\n") if text.count(b"\n") else (b"", b"")
        if end or count != b"words: %d" % len(lines):
            raise DamagedWords
        given: dict[str, Bid] = {}
        for line in lines:
            node_id, _, bid = line.partition(b"\t")
            found = Bid.read(_plain(bid))
            if found is None:
                raise DamagedWords
            given[_plain(node_id)] = found
        return cls(given)


def _escaped(text: str) -> bytes:
    return text.encode("unicode_escape")


def _plain(text: bytes) -> str:
    try:
        return text.decode("unicode_escape")
    except UnicodeDecodeError:
        raise DamagedWords from None
