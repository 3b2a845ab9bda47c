"""Simulated browsers: they look through queues and take nothing; what they saw must not vanish."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import key_of
from embedbroker.testing._scene import Phase, Scene
from embedbroker.testing._scripts import Steps
from embedclient.agent import Consumer, Session, SessionMode
from embedclient.errors import JMSException

__all__ = ["SimulatedBrowser"]


@define(eq=False)
class SimulatedBrowser:
    """One user that looks into queues now and then while others work."""

    scene: Scene
    host: ClientHost
    name: str
    queues: Sequence[str]
    pause_s: float

    def steps(self) -> Steps:
        """The script of this browser."""
        while self.scene.phase is Phase.WORK:
            session: Session | None = None
            try:
                session = yield self.host.agent().create_session_for(SessionMode.AUTO)
                yield from self._browse(session, self.scene.world.random.choice(self.queues))
            except JMSException as error:
                self.scene.world.note(self.name, "loses its session", f"{error.error_code} {error}")
            if session is not None:
                yield session.close()
            yield self.scene.world.random.random() * 2 * self.pause_s

    def give_up(self) -> None:
        """A browser holds nothing."""

    def _browse(self, session: Session, queue: str) -> Steps:
        scene = self.scene
        scene.operate(self.name, "browses", queue)
        consumer: Consumer = yield session.create_consumer(queue, browse_only=True)
        yield session.start()
        seen: set[int] = set()
        failovers = self.host.failovers
        while not consumer.closed:
            delivery = consumer.next(scene.world.instant)
            if delivery is None:
                consumer.want()
                yield consumer.force_delivery()
                delivery = consumer.next(scene.world.instant)
                if delivery is None:
                    break
            key = key_of(delivery.message)
            scene.world.note(self.name, "sees", key)
            if delivery.message.message_id in seen and self.host.failovers == failovers:
                scene.fail(f"{self.name}: {key} was shown twice by one browser")
            seen.add(delivery.message.message_id)
            scene.judge(scene.ledger.shown(queue, key), self.name, key)
        yield consumer.close()
