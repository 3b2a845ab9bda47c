"""The file beside the journal that holds the record of a replicating broker.

Responsible for reading it once and for replacing it in order. Does not depend on what the record means.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker import storage
from embedbroker.replication import NEW_NODE_RECORD_FILE, NODE_RECORD_FILE, DamagedRecord, ReplicaRecord
from embedbroker.storage import AtomicFile

__all__ = ["RecordFile"]

# Far below the numbers of the copy lane, and of no journal.
_FIRST_NUMBER = -(1 << 40)
_RECORD_BYTES_MAX = 64 * 1024


class RecordFile:
    """Read the record once, and replace it once per request, in order. ``failure`` is set when it cannot."""

    def __init__(self) -> None:
        self.record = ReplicaRecord()
        self._failure: str | None = None
        #: Whether a copy was begun beside it and is not whole.
        self.is_unfinished = False
        self.file = AtomicFile(
            NODE_RECORD_FILE, NEW_NODE_RECORD_FILE, "the record of this broker", _RECORD_BYTES_MAX, _FIRST_NUMBER
        )

    @property
    def failure(self) -> str | None:
        """Return why the record must not be trusted any more; None as long as it may."""
        return self._failure if self._failure is not None else self.file.failure

    def fail(self, reason: str) -> None:
        """Record that what can be read in this directory may not be on the disk."""
        self._failure = reason

    @property
    def is_idle(self) -> bool:
        """Return True if every requested record is written."""
        return self.file.is_idle

    def read(self, then: Callable[[], None]) -> None:
        """Read the file; ``then`` is called when `record` holds its content."""

        def understand(text: bytes | None) -> None:
            self.is_unfinished = storage.UNFINISHED_COPY in self.file.names
            try:
                self.record = ReplicaRecord.read(text) if text is not None else self.record
            except DamagedRecord as error:
                self.fail(str(error))
            else:
                then()

        self.file.read(understand)

    def write(
        self,
        record: ReplicaRecord,
        then: Callable[[], None] | None = None,
        on_failed: Callable[[str], None] | None = None,
    ) -> None:
        """Replace the record; ``then`` is called when it survives a power cut. With ``on_failed`` a failure is not
        final."""
        self.record = record
        self.file.replace(record.text(), lambda: then() if then is not None else None, on_failed)
