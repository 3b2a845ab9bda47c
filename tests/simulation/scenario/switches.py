"""Connection switches: they stop and start all sessions of a client at any moment, and wait for no answer.

A connection belongs to no task, so this comes in the middle of whatever the sessions' users do.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._scene import Moment, Phase, Scene
from embedbroker.testing._scripts import Steps

from .consumers import SimulatedConsumer

__all__ = ["ConnectionSwitch"]


@define(eq=False)
class ConnectionSwitch:
    """Stops and starts what the consumers of one client have open, as Connection.stop() and start() do."""

    scene: Scene
    host: ClientHost
    name: str
    consumers: Sequence[SimulatedConsumer]
    pause_s: float

    def steps(self) -> Steps:
        """The script of this switch."""
        scene, random = self.scene, self.scene.world.random
        while scene.phase is Phase.WORK:
            yield random.random() * 2 * self.pause_s
            sessions = [consumer.session for consumer in self.consumers if consumer.session is not None]
            stopped = [session for session in sessions if not session.closed]
            for session in stopped:
                scene.operate(self.name, "stops")
                scene.hit(Moment.CONNECTION_STOPPED)
                session.stop()
            if scene.chance(0.5):
                yield random.random() * 0.02
            for session in stopped:
                session.start()

    def give_up(self) -> None:
        """The client is gone; there is nothing to remember."""
