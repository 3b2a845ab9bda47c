"""Scripts: the behaviour of a simulated user, written as a generator that waits by yielding.

A script yields a ``Call`` (and receives its result or its error), or a number of seconds to sleep. It yields
``Arrival(consumer)`` to wait until the consumer has an event. It runs between steps of its client's agent, never inside
one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from attrs import frozen

from embedclient.agent import Call, Consumer
from embedclient.errors import JMSException

from ._world import World

__all__ = ["Arrival", "Script", "Steps"]

# A script counts as an endless loop after this many requests fulfilled at the same moment.
_WISHES_MAX = 10_000


@frozen(eq=False)
class Arrival:
    """Wait until messages arrived for the consumer, it closed, or ``timeout_s`` passed."""

    consumer: Consumer
    timeout_s: float


# What comes back into a generator depends on what it yielded; the type of a generator cannot express that.
Steps = Generator[Call[Any] | float | Arrival, Any, None]


class Script:
    """One running script. ``resume_soon`` notifies the host that the script can go on."""

    __slots__ = ("_awaited", "_generation", "_generator", "_resume_soon", "_world", "done", "name")

    def __init__(self, world: World, name: str, generator: Steps, resume_soon: Callable[[Script], None]) -> None:
        self.name = name
        self.done = False
        self._world = world
        self._generator = generator
        self._resume_soon = resume_soon
        self._awaited: Call[Any] | Arrival | None = None
        self._generation = 0

    def advance(self) -> None:
        """Run up to the next request that is not fulfilled yet."""
        call = self._awaited if isinstance(self._awaited, Call) else None
        self._awaited = None
        self._generation += 1
        error = None if call is None else call.error
        value = call.result if call is not None and error is None else None
        for _ in range(_WISHES_MAX):
            wish = self._take_wish(value, error)
            value = error = None
            if wish is None:
                return
            if isinstance(wish, Call):
                if wish.done:
                    error = wish.error
                    value = None if error is not None else wish.result
                    continue
                self._awaited = wish
                wish.on_done = self._on_done
            elif isinstance(wish, Arrival):
                if wish.consumer.closed:
                    continue
                self._awaited = wish
                wish.consumer.on_ready = self._on_ready
                self._world.after(wish.timeout_s, self, self._generation)
            else:
                self._world.after(wish, self, self._generation)
            return
        raise AssertionError(f"{self.name} goes on for ever without waiting")

    def stop(self) -> None:
        """End the script where it stands; its ``finally`` clauses run and must not wait."""
        if not self.done:
            self._generation += 1
            self.done = True
            self._generator.close()

    def on_event(self, event: object) -> None:
        """Handle the end of a sleep, or of a wait for a message that has lasted long enough."""
        if event == self._generation and not self.done:
            self._go_on()

    def _take_wish(self, value: object, error: JMSException | None) -> Call[Any] | float | Arrival | None:
        try:
            return self._generator.send(value) if error is None else self._generator.throw(error)
        except StopIteration:
            self.done = True
            return None

    def _on_done(self, call: Call[Any]) -> None:
        if call is self._awaited and not self.done:
            self._resume_soon(self)

    def _on_ready(self, consumer: Consumer) -> None:
        if isinstance(self._awaited, Arrival) and self._awaited.consumer is consumer and not self.done:
            self._go_on()

    def _go_on(self) -> None:
        if isinstance(self._awaited, Arrival):
            self._awaited.consumer.on_ready = None
        self._awaited = None
        self._generation += 1
        self._resume_soon(self)
