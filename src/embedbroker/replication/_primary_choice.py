"""The choice of the active broker that a backup joins (cluster-and-ha 12.9).

Responsible for the order of candidates: the node that it had before first, untried ones before the others, and none of
another group. Does not depend on connections, and not on the reason of a refusal.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["PrimaryChoice"]


class PrimaryChoice:
    """Choose among candidates. ``only`` restricts it to one node id, ``group_name`` to the primaries of a group.

    Args:
        group_name: The group of the backup; None: any.
        retry_s: Seconds after a refusal before the same candidate is tried again.
    """

    def __init__(self, group_name: str | None, retry_s: float) -> None:
        self.only: str | None = None
        self.preferred: str | None = None
        self._group_name = group_name
        self._retry_s = retry_s
        # When each may be tried again, in the order of attempts.
        self._tried: dict[str, float] = {}

    def fits(self, node_id: str, group_name: str | None) -> bool:
        """Return True if an active broker is a candidate at all."""
        if self.only is not None:
            return node_id == self.only
        return self._group_name is None or group_name == self._group_name

    def next(self, candidates: Iterable[str], now: float) -> str | None:
        """Return the node id to try now; None if there is no candidate, or none yet."""
        waiting = [each for each in candidates if self._tried.get(each, now) <= now]
        if not waiting:
            return None
        untried = [each for each in waiting if each not in self._tried]
        if self.preferred in untried:
            return self.preferred
        return untried[0] if untried else min(waiting, key=lambda each: self._tried[each])

    def tried(self, node_id: str, now: float) -> None:
        """Note that it did not accept this backup: others go first for a while."""
        self._tried.pop(node_id, None)
        self._tried[node_id] = now + self._retry_s

    def forget(self) -> None:
        """Allow all candidates again, because something changed in the cluster."""
        self._tried.clear()

    def next_deadline(self, candidates: Iterable[str]) -> float | None:
        """Return when a candidate may be tried again, in monotonic seconds; None without one."""
        return min((self._tried[each] for each in candidates if each in self._tried), default=None)
