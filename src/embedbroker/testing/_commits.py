"""The commits that a client has handed to its connections, counted independently of the client's own count."""

from __future__ import annotations

import re
from collections import Counter

from embedclient.agent import Session
from embedclient.wire.core import SessionCommit, encode_packet

__all__ = ["CommitCount"]

_CHANNEL_BYTES = 8
# Size and type: with a correlation id, and without one to brokers before that version.
_VERSIONS = (132, 131)
_HEADS = [encode_packet(SessionCommit(1), 0, version)[:5] for version in _VERSIONS]
_KEPT_BYTES = len(_HEADS[0]) + _CHANNEL_BYTES - 1
_COMMIT = re.compile(b"(?:" + b"|".join(map(re.escape, _HEADS)) + b")(.{%d})" % _CHANNEL_BYTES, re.DOTALL)


class CommitCount:
    """The commits of one client, by the channels of its sessions."""

    def __init__(self) -> None:
        self._sent: Counter[int] = Counter()
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Count the commits in further bytes that the client hands out."""
        data = self._rest + data
        end = 0
        if any(head in data for head in _HEADS):
            for found in _COMMIT.finditer(data):
                self._sent[int.from_bytes(found[1], "big")] += 1
                end = found.end()
        self._rest = data[max(end, len(data) - _KEPT_BYTES) :]

    def of(self, session: Session) -> int:
        """Return the number of commits of this session, in all of its connections."""
        return self._sent[session.channel_id]
