"""A pair under one lock manager through crashes, cuts and stops: the life that survives has all that was confirmed.

Each case is a history of both brokers, drawn from a seed, with a client that sends all the time. In the end nothing
stands in the way: one of them is live, the other in sync, and no confirmed message is missing.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from embedbroker.config import ReplicationBackup, ReplicationPrimary
from tests.embedbroker.ha.replication.replicating import Brokers

pytestmark = pytest.mark.search

CASES = 12
MOMENTS = (
    *("crash in sync", "crash out of sync", "backup crashed", "cut in sync", "stop", "failover", "took over"),
    *("started again",),
)


class History:
    """One case."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.hits: Counter[str] = Counter(dict.fromkeys(MOMENTS, 0))
        self.brokers = brokers = Brokers("ab", manager=True, lease_s=random.choice((None, 2.0)), seed=seed)
        self.hosts = {
            "a": brokers.build("a", ReplicationPrimary()),
            "b": brokers.build("b", ReplicationBackup(allow_failback=random.random() < 0.5)),
        }
        for host in self.hosts.values():
            host.start()
        self.writer = brokers.writer("a", "b")
        self.last_live: str | None = None

    @property
    def live(self) -> str | None:
        names = [name for name, role in self.brokers.roles.items() if role == "live"]
        return names[0] if len(names) == 1 else None

    def run(self) -> Counter[str]:
        for _ in range(self.random.randrange(4, 14)):
            self.brokers.run(self.random.choice((0.05, 0.3, 1.0, 3.0, 6.0)))
            self.note_live()
            self.happen()
        self.converge()
        return self.hits

    def note_live(self) -> None:
        live = self.live
        if live is not None and live != self.last_live:
            self.hits["took over"] += self.last_live is not None
            self.last_live = live

    def happen(self) -> None:
        name = self.random.choice("ab")
        runs = self.hosts[name].node is not None
        match self.random.randrange(6):
            case 0 | 1 if runs:
                self.crash(name)
            case 2 if not runs:
                self.start(name)
            case 3:
                self.cut()
            case 4 if runs:
                fails_over = self.random.random() < 0.35
                self.hits["failover" if fails_over else "stop"] += name == self.live
                self.hosts[name].stop(fails_over=fails_over)
            case _:
                for other in [other for other, host in self.hosts.items() if host.node is None]:
                    self.start(other)

    def start(self, name: str) -> None:
        self.hits["started again"] += 1
        self.hosts[name].start()

    def crash(self, name: str) -> None:
        if name == self.live:
            self.hits["crash in sync" if self.brokers.in_sync(name) else "crash out of sync"] += 1
        else:
            self.hits["backup crashed"] += 1
        self.brokers.crash(name)

    def cut(self) -> None:
        live = self.live
        self.hits["cut in sync"] += live is not None and self.brokers.in_sync(live)
        self.brokers.part("a", "b")
        self.brokers.run(self.random.choice((0.1, 1.0, 4.0)))
        self.brokers.network.heal()

    def converge(self) -> None:
        """Within bounded time one is live with a backup in sync, and nothing is missing there."""
        for _ in range(40):
            for host in self.hosts.values():
                if host.node is None:
                    host.start()
            self.brokers.run(2.0)
            live = self.live
            if live is not None and self.brokers.in_sync(live):
                kept = set(self.brokers.kept(live))
                assert [number for number in self.writer.confirmed if number not in kept] == []
                return
        raise AssertionError(f"{self.brokers.roles}: { ({name: self.brokers.said(name) for name in self.hosts}) }")


@pytest.mark.parametrize("group", range(3))
def test_nothing_confirmed_is_missing_at_the_life_that_survives(group: int) -> None:
    hits: Counter[str] = Counter()
    for seed in range(group * CASES, (group + 1) * CASES):
        try:
            hits += History(seed).run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert min(hits[moment] for moment in MOMENTS) >= 1, hits
