"""Sizes and limits of a journal, as one value.

Responsible for defaults and their reasons. Does not depend on configuration files: the node maps those to this value.
"""

from __future__ import annotations

from attrs import field, frozen

from .._disk import SECTOR_BYTES

__all__ = ["JournalSettings"]

KIB = 1024
MIB = 1024 * KIB


@frozen(kw_only=True)
class JournalSettings:
    """How a journal uses its directory.

    ``identity`` is a random 63-bit number that a *new* journal takes over; an existing one keeps its own. It stands in
    every batch: bytes inside a message, or a file of another broker, can never pass for a batch of this one.
    """

    identity: int = 0
    # The size of a new segment file, header included: a multiple of 512 bytes, 16 KiB or more.
    segment_size_bytes: int = field(default=16 * MIB)
    # A sync of 100 KiB takes twice as long as one of 10 KiB, one of 1 MiB eight times: to the disk larger batches are
    # no gain. To the processor they are: a message that moves to another broker costs a tenth less at both than in
    # batches of 256 KiB, and 1 MiB is no better.
    batch_bytes_max: int = 512 * KIB
    # A seal is written after this time without records.
    seal_after_s: float = 1.0
    # One slice of recovery is one read and the work on it: about 5 ms.
    recovery_slice_bytes: int = 1 * MIB
    # One slice of compaction shares the loop with traffic: below 1 ms. One that holds many records takes several steps.
    compaction_slice_bytes: int = 256 * KIB
    # So many records are looked at in one step: up to 1 ms.
    compaction_step_records: int = 1_500
    # The background syncs after this many bytes: one large sync would delay those of the journal.
    background_sync_bytes: int = 1 * MIB
    # A segment is worth rewriting when at most this share of its messages is still alive ...
    compaction_live_ratio_max: float = 0.5
    # ... and there are at least this many of them: until then short-lived messages end without compaction. Not more,
    # because a backup that takes over reads every segment there is, each for 50 ms and more, while clients wait.
    compaction_segments_min: int = 2
    # How many segments one compaction takes at most.
    compaction_run_max: int = 16
    # At most this many freed segment files are kept for reuse; others are removed.
    spare_segments_max: int = 4
    # Copies of cut tails are for inspection by people: the newest are kept, of up to 16 MiB each.
    torn_copies_max: int = 8

    @segment_size_bytes.validator
    def _holds_a_batch(self, _attribute: object, value: int) -> None:
        if value < 16 * KIB or value % SECTOR_BYTES:
            raise ValueError(f"segment_size_bytes is {value}; it must be a multiple of {SECTOR_BYTES}, 16 KiB or more")
