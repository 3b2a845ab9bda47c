"""From a journal that was read to a kernel that goes on where the last one ended.

Responsible for the order: definitions at once, then locks of prepared transactions, messages, duplicate ids and what
was sent in doubt, in slices. Does not depend on what waits for it.
"""

from __future__ import annotations

from embedbroker import storage
from embedbroker.kernel import Kernel, Recovery

__all__ = ["Restoration"]


class Restoration:
    """The restoration of one journal; it runs once. ``identity`` is the journal's.

    With ``marks`` a journal that has never been written gets its first batch, and is restored when that is on disk. An
    empty directory is then one that was emptied. ``waits`` is True while the disk is at work.
    """

    __slots__ = ("_journal", "_kernel", "_marks", "_recovery", "identity", "waits")

    def __init__(self, kernel: Kernel, journal: storage.Journal, *, marks: bool = False) -> None:
        recovered = journal.recovered
        assert recovered is not None
        self.identity = recovered.identity
        self.waits = False
        self._marks = marks and recovered.last_batch == 0
        self._kernel = kernel
        self._journal = journal
        # What follows looks its settings up.
        for settings in recovered.settings:
            (kernel.bridges if settings.kind in kernel.bridges.KINDS else kernel.settings_table).restore(settings)
        for address in recovered.addresses:
            kernel.address_manager.restore_address(address)
        for queue in recovered.queues:
            kernel.address_manager.restore_queue(queue)
        for divert in recovered.diverts:
            kernel.diverts.restore(divert)
        kernel.fencing_tokens.restore(recovered.fencing_tokens)
        kernel.cluster_groups.restored = recovered.groups
        queues = {queue.id: queue for queue in kernel.address_manager.queues.values()}
        for cursor in recovered.cursors:
            kernel.cursors.restore(cursor, queues[cursor.queue_id])
        kernel.ids.next_id = max(recovered.id_limit, 1)
        kernel.ids.limit = recovered.id_limit
        self._recovery = Recovery(
            kernel, recovered.transactions, recovered.outcomes, recovered.delayed, recovered.bodies, recovered.grouped
        )

    def advance(self, limit: int) -> bool:
        """Restore one slice of up to ``limit`` items; return True with the last one."""
        recovered, recovery = self._journal.recovered, self._recovery
        if self.waits:
            return self._journal.reached > 0
        assert recovered is not None
        if recovery.lock_some(limit):
            return False
        messages = recovered.take_messages(limit)
        recovery.add(messages)
        if messages:
            return False
        entries = recovered.take_duplicate_ids(limit)
        recovery.add_duplicate_ids(entries)
        if entries or recovery.send_some(limit):
            return False
        recovery.finish()
        self._journal.recovered = None
        if self._marks:
            self._kernel.ids.take()
            self.waits = True
        return not self.waits
