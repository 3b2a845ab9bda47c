"""Ctrl-C while the client's own tasks run: it reaches the program, and what the program holds still closes at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
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
        with trio.fail_after(60):
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


BLOCKING = """
import sys, threading
from contextlib import ExitStack
from embedclient.blocking import ConnectionFactory

with ExitStack() as stack:
    connection = stack.enter_context(ConnectionFactory(sys.argv[1]).connect())
    connection.add_failover_listener(lambda event: print(event.name, flush=True))
    for number in range(4):
        session = stack.enter_context(connection.create_session())
        for _ in range(4):
            stack.enter_context(session.create_consumer(f"q{number}"))
    print("OPEN", flush=True)
    threading.Event().wait()
"""

ASYNC = """
import sys
from contextlib import AsyncExitStack
import {loop}
from {package} import ConnectionFactory

async def main():
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(ConnectionFactory(sys.argv[1]).connect())
        connection.add_failover_listener(lambda event: print(event.name, flush=True))
        for number in range(4):
            session = await stack.enter_async_context(connection.create_session())
            for _ in range(4):
                await stack.enter_async_context(session.create_consumer(f"q{{number}}"))
        print("OPEN", flush=True)
        await {loop}.Event().wait()

{loop}.run(main{call})
"""

PROGRAMS = {
    "blocking": BLOCKING,
    "trio": ASYNC.format(loop="trio", package="embedclient", call=""),
    "asyncio": ASYNC.format(loop="asyncio", package="embedclient.asyncio", call="()"),
}


@pytest.mark.parametrize("dialect", PROGRAMS)
def test_ctrl_c_while_the_broker_is_away_ends_the_program_at_once(dialect: str) -> None:
    """Four sessions of four consumers, a broker that was stopped, and a program that tries to reconnect."""
    with EmbeddedBroker.in_thread() as broker:
        url = f"{broker.url}?reconnectAttempts=-1"
        command = [sys.executable, "-c", PROGRAMS[dialect], url]
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert program.stdout is not None
        assert program.stdout.readline() == "OPEN\n"
    assert program.stdout.readline() == "FAILURE_DETECTED\n"
    since = time.monotonic()
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=60)
    assert time.monotonic() - since < 15  # four sessions with a budget of 5 s each would take 20
    assert errors.rstrip().endswith("KeyboardInterrupt")
