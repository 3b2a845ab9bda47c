"""Ctrl-C while the client's own tasks run: it reaches the program, and what the program holds still closes at once."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest
import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory
from embedclient.agent import Agent, BytesReceived, Input, Output
from embedclient.model import Instant


def test_ctrl_c_in_the_middle_of_a_step_closes_the_connection_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    real_step = Agent.step
    interrupts = [signal.SIGINT]

    def step(agent: Agent, event: Input, now: Instant) -> Sequence[Output]:
        if isinstance(event, BytesReceived) and armed and interrupts:
            signal.raise_signal(interrupts.pop())
        return real_step(agent, event, now)

    armed = False

    async def program() -> None:
        nonlocal armed
        with trio.fail_after(10):
            async with (
                EmbeddedBroker() as broker,
                ConnectionFactory(broker.url).connect() as connection,
                connection.session() as session,
                session.create_consumer("orders"),
            ):
                armed = True
                await session.create_producer("orders").send("one")
                await trio.sleep_forever()

    monkeypatch.setattr(Agent, "step", step)
    with pytest.raises(KeyboardInterrupt):
        trio.run(program)
    assert not interrupts
