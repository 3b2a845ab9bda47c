"""Who wrote what: the names of branches, markers and duplicate ids, by query, batch, partition and attempt.

Responsible for their forms, and for telling which branches belong to whom. Refuses to know brokers and Spark.

A branch is named by its scope (the query, or the write) and its batch in the global id, and by partition, attempt,
number and run in the qualifier. So everything of a scope is found by how its global ids begin, whoever lives or died.
"""

from __future__ import annotations

import hashlib

from attrs import frozen

from embedclient.model import Xid

__all__ = ["FORMAT_ID", "Task", "Writing"]

FORMAT_ID = 0x454D4253
"""Of all branches of sinks."""


@frozen
class Writing:
    """One batch of one query, or one batch write."""

    scope: str
    """The query or the write: its id."""
    sink_name: str
    batch: int
    run: str
    """What this batch is written by: another run of the same query has another."""
    lasts: bool = True
    """Whether the marker stays. That of a write without a name is there from its beginning to its end only."""

    @property
    def marker(self) -> str:
        """The name of the number that says which batches are committed."""
        return f"spark/{self.sink_name}/{self.scope}"

    def is_over(self, marker: int | None) -> bool:
        """Whether nobody will commit a branch of this batch any more, by what the marker is."""
        return not self.lasts if marker is None else marker >= self.batch

    @property
    def _prefix(self) -> str:
        return f"spark:{_digest(self.marker)}:"

    def batch_of(self, xid: Xid) -> int | None:
        """The batch that a branch was prepared for, None for one of somebody else."""
        name = xid.global_transaction_id.decode("ascii", "replace")
        if xid.format_id != FORMAT_ID or not name.startswith(self._prefix):
            return None
        number = name[len(self._prefix) :]
        return int(number) if number.isdecimal() else None

    def is_of_this_run(self, xid: Xid) -> bool:
        """Whether a branch of this scope was made by the same run."""
        return xid.branch_qualifier.endswith(f":{_digest(self.run)[:8]}".encode())

    @property
    def global_id(self) -> bytes:
        """The first half of the name of each branch: at most 59 of its 64 bytes."""
        return f"{self._prefix}{self.batch}".encode()

    def qualifier(self, partition: int, attempt: int, number: int, nonce: str) -> bytes:
        """The other half; the nonce tells attempts apart that count alike after a restart."""
        return f"{partition}.{attempt}.{number}.{nonce}:{_digest(self.run)[:8]}".encode()


@frozen
class Task:
    """One attempt to write one partition."""

    writing: Writing
    partition: int
    attempt: int
    nonce: str

    def branch(self, number: int) -> Xid:
        """The name of a branch of this attempt."""
        writing = self.writing
        qualifier = writing.qualifier(self.partition, self.attempt, number, self.nonce)
        return Xid(FORMAT_ID, qualifier, writing.global_id)

    def duplicate_id(self, row: int) -> bytes:
        """What the broker knows a row by, in every attempt."""
        writing = self.writing
        return f"{writing.scope}/{writing.sink_name}/{writing.batch}/{self.partition}/{row}".encode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
