"""Brokers of a drill that end without a fault, or not as they were asked to, and drills that must end then."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio
import trio.testing

from embedbroker.cli._failure import BrokerStopped
from embedbroker.cli.drill import EmbeddedProgram, Group, Member, MemberState
from embedbroker.cli.drill._conductor import Conductor, DrillFailed
from embedbroker.cli.drill._faults import carry_out
from embedbroker.cli.drill._node import Node
from embedbroker.cli.drill._pair_files import write_files
from embedbroker.cli.drill._plan import DrillPlan, Fault, Ha
from embedbroker.cli.drill._producer import key_of
from embedbroker.cli.drill._run import QUEUE, Run
from embedbroker.cli.drill._stage import Stage
from embedbroker.ledger import Finding
from embedclient import TextMessage, XAConnectionFactory
from tests.embedbroker.cli.test_drill_verdicts import GOOD

PLAN = DrillPlan(seconds=0.1, producers=1, consumers=1, size_bytes=10, rounds=0, seed=1)


class _Member(Member):
    """Without a process: signals end it with a code of the test's choice."""

    code = 0

    def _signal(self, number: signal.Signals) -> None:
        self._become(MemberState.DOWN)

    async def ended(self) -> int:
        return self.code


def member(tmp_path: Path, name: str, standing: MemberState) -> _Member:
    (file,) = write_files(tmp_path, Ha.NONE, [1], relayed=False)
    log = tmp_path / f"{name}.log"
    log.write_text("the reason\n")
    made = _Member(name, EmbeddedProgram(file, slowable=False, copying=False), log, lambda _name, _standing: None)
    made.standing = standing
    return made


def group(*members: Member) -> Group:
    return Group(members, [], cast(trio.Nursery, None))  # none of these is started


async def test_no_fault_strikes_where_a_broker_ended_by_itself(tmp_path: Path) -> None:
    """Clients wait for an answer then, too, and a transaction stays open: it would look like a fault that hit."""
    alone = group(member(tmp_path, "primary", MemberState.DOWN))
    with pytest.raises(BrokerStopped, match="'primary' stopped by itself: the reason"):
        await alone.ready()
    pair = group(member(tmp_path, "primary", MemberState.DOWN), member(tmp_path, "backup", MemberState.LIVE))
    with pytest.raises(BrokerStopped, match="'primary'"):
        await pair.ready()


async def test_a_broker_that_was_gone_before_the_kill_is_told(tmp_path: Path) -> None:
    victim = member(tmp_path, "primary", MemberState.LIVE)
    victim.code = 1
    with pytest.raises(BrokerStopped, match="before the kill"):
        await carry_out(Fault.KILL, Stage(Run(PLAN)), group(victim))
    victim.standing, victim.code = MemberState.LIVE, -signal.SIGKILL
    await carry_out(Fault.KILL, Stage(Run(PLAN)), group(victim))


@pytest.mark.parametrize("code", [0, 1])
async def test_how_a_broker_stopped_that_was_asked_to_is_part_of_the_verdict(tmp_path: Path, code: int) -> None:
    stage = Stage(Run(PLAN))
    victim = member(tmp_path, "primary", MemberState.LIVE)
    victim.code = code
    await carry_out(Fault.STOP, stage, group(victim))
    objections = attrs.evolve(GOOD, stop_codes=tuple(stage.run.end_codes)).objections()
    assert objections == ([] if code == 0 else ["a broker did not stop in order: exit code 1"])


class _Conducted(Conductor):
    """Clients are there at once and do nothing, or never come; the sweep never ends, or ends a broker."""

    comes = True
    ends: Member | None = None

    def _start_clients(self, clients: trio.Nursery) -> None:
        if self.comes:
            self._run.all_are_ready.set()
            self._producers_left.set()

    async def _sweep(self) -> int:
        if self.ends is None:
            await trio.sleep_forever()
        else:
            self.ends.standing = MemberState.DOWN
        return 0

    async def _count_branches(self, node: Node) -> int:
        return 0


def conducted(*members: Member) -> _Conducted:
    run = Run(PLAN)
    return _Conducted(run, [Node(Stage(run), group(*members), XAConnectionFactory("tcp://127.0.0.1:1"))], ())


async def _watch(_run: Run) -> None:
    await trio.sleep_forever()


@pytest.mark.parametrize(("comes", "said"), [(True, "no broker reported within 120 s"), (False, "not all clients")])
async def test_a_drill_ends_although_its_clients_wait_for_ever(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, comes: bool, said: str
) -> None:
    conductor = conducted(member(tmp_path, "primary", MemberState.LIVE))
    conductor.comes = comes
    with pytest.raises(DrillFailed, match=said):
        await conductor.run(_watch)


async def test_a_broker_that_ended_after_the_last_round_is_told(tmp_path: Path) -> None:
    primary = member(tmp_path, "primary", MemberState.LIVE)
    conductor = conducted(primary)
    conductor.ends = primary
    with pytest.raises(BrokerStopped, match="'primary' stopped by itself"):
        await conductor.run(_watch)


async def test_what_somebody_else_has_sent_is_a_message_that_the_ledger_never_heard_of() -> None:
    found = Stage(Run(PLAN)).ledger.delivered(QUEUE, key_of(TextMessage("not the drill's")), 1.0)
    assert found is Finding.PHANTOM
