"""Names of branches, markers and duplicate ids, by query, batch, partition and attempt.

Responsible for their forms, and for finding the query and batch of a branch. Does not depend on brokers or Spark.

The global id of a branch contains its scope (the query, or the write) and its batch. The qualifier contains partition,
attempt, number and run. So the prefix of the global ids finds every branch of a scope, whether or not its run is alive.
"""

from __future__ import annotations

import hashlib

from attrs import frozen

from embedclient.model import Xid

__all__ = ["FORMAT_ID", "Task", "Writing"]

FORMAT_ID = 0x454D4253
"""The format id of all branches of sinks."""


@frozen
class Writing:
    """Identify one batch of one query, or one batch write."""

    scope: str
    """The id of the query or of the write."""
    sink_name: str
    batch: int
    run: str
    """The id of the run that writes this batch: each run of the same query has a different one."""
    lasts: bool = True
    """True if the marker stays. The marker of a write without a name exists only while the write runs."""

    @property
    def marker(self) -> str:
        """Return the name of the marker: the number that shows which batches are committed."""
        return f"spark/{self.sink_name}/{self.scope}"

    def is_over(self, marker: int | None) -> bool:
        """Return True if, by the marker's value, no branch of this batch will be committed any more."""
        return not self.lasts if marker is None else marker >= self.batch

    @property
    def _prefix(self) -> str:
        return f"spark:{_digest(self.marker)}:"

    def batch_of(self, xid: Xid) -> int | None:
        """Return the batch that a branch was prepared for, or None for a branch of another scope."""
        name = xid.global_transaction_id.decode("ascii", "replace")
        if xid.format_id != FORMAT_ID or not name.startswith(self._prefix):
            return None
        number = name[len(self._prefix) :]
        return int(number) if number.isdecimal() else None

    def is_of_this_run(self, xid: Xid) -> bool:
        """Return True if a branch of this scope was made by the same run."""
        return xid.branch_qualifier.endswith(f":{_digest(self.run)[:8]}".encode())

    @property
    def global_id(self) -> bytes:
        """Return the global id of each branch: at most 59 of its 64 bytes."""
        return f"{self._prefix}{self.batch}".encode()

    def qualifier(self, partition: int, attempt: int, number: int, nonce: str) -> bytes:
        """Return the branch qualifier; the nonce distinguishes attempts with equal numbers after a restart."""
        return f"{partition}.{attempt}.{number}.{nonce}:{_digest(self.run)[:8]}".encode()


@frozen
class Task:
    """Identify one attempt to write one partition."""

    writing: Writing
    partition: int
    attempt: int
    nonce: str

    def branch(self, number: int) -> Xid:
        """Return the name of a branch of this attempt."""
        writing = self.writing
        qualifier = writing.qualifier(self.partition, self.attempt, number, self.nonce)
        return Xid(FORMAT_ID, qualifier, writing.global_id)

    def duplicate_id(self, row: int) -> bytes:
        """Return the duplicate id of a row: the same in every attempt."""
        writing = self.writing
        return f"{writing.scope}/{writing.sink_name}/{writing.batch}/{self.partition}/{row}".encode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
