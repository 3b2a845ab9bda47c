"""What a drill is asked to do, and what it found: plain values."""

from __future__ import annotations

from attrs import frozen

from embedbroker.ledger import Timeline, Verdict

__all__ = ["DrillPlan", "Findings", "KillRecord"]


@frozen
class DrillPlan:
    """The size of a drill. Of producers and consumers every second one works in transactions."""

    seconds: float
    producers: int
    consumers: int
    size_bytes: int
    kills: int
    seed: int


@frozen
class KillRecord:
    """One kill as the conductor saw it; times are seconds from the beginning of the drill."""

    at: float
    waiting_sends: int  # sends outside of transactions, without an answer
    open_transactions: int  # with work in them, their commit not yet asked for
    asked_commits: int  # asked for, without an answer
    backlog: int

    @property
    def transactions(self) -> int:
        """Transactions that were not over, their commit asked for or not."""
        return self.open_transactions + self.asked_commits


@frozen
class Findings:
    """All that reports are made of."""

    plan: DrillPlan
    verdict: Verdict
    timeline: Timeline
    kills: tuple[KillRecord, ...]
    load_s: float
    drain_s: float
    stop_code: int
    swept: int  # messages that were left for the sweep after all consumers had gone

    def objections(self) -> list[str]:
        """Why the drill is failed; empty if it is passed."""
        verdict = self.verdict
        found = [
            f"{tally.count} {name.replace('_', ' ')}" for name, tally in (verdict.losses() | verdict.faults()).items()
        ]
        for number, (record, kill) in enumerate(zip(self.kills, verdict.kills, strict=True), 1):
            if not record.waiting_sends or not record.open_transactions:
                found.append(f"kill {number} met no unconfirmed send or no open transaction, so it proves nothing")
            if kill.next_delivery_at is None:
                found.append(f"nothing was delivered after kill {number}")
        if len(verdict.kills) < self.plan.kills:
            found.append(f"only {len(verdict.kills)} of {self.plan.kills} kills happened")
        if not verdict.confirmed:
            found.append("nothing was confirmed")
        if self.stop_code != 0:
            found.append(f"the broker did not stop in order: exit code {self.stop_code}")
        return found
