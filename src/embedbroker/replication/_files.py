"""Which files of a directory a copy has: those of the journal, and the words that its node gave as a voter.

Refuses to know what is in them. The record of a broker (``node.state``) is its own, and stays where it is.
"""

from __future__ import annotations

from embedbroker import storage

__all__ = ["NEW_VOTES_FILE", "VOTES_FILE", "is_copied"]

VOTES_FILE = "votes.state"
NEW_VOTES_FILE = "votes.state.new"


def is_copied(name: str) -> bool:
    """Whether what happens to a file of such a name happens to that of the copy."""
    return storage.belongs(name) or name in (VOTES_FILE, NEW_VOTES_FILE)
