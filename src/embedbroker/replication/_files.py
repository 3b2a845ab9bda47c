"""The files of a directory that a copy has: those of the journal, and the grants of its node as a voter.

Does not depend on their content. The record of a broker (``node.state``) belongs to that broker, and is not copied.
"""

from __future__ import annotations

from embedbroker import storage

__all__ = ["NEW_VOTES_FILE", "VOTES_FILE", "is_copied"]

VOTES_FILE = "votes.state"
NEW_VOTES_FILE = "votes.state.new"


def is_copied(name: str) -> bool:
    """Return True if changes of a file of that name are repeated in the copy."""
    return storage.belongs(name) or name in (VOTES_FILE, NEW_VOTES_FILE)
