"""An operator that stops, pauses and starts the bridges of one site by management messages, while others work.

In the end it starts those that do not run. Responsible for the orders. A broker may refuse one that does not fit the
state.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from attrs import define, field

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._scene import Moment, Phase, Scene
from embedbroker.testing._scripts import Steps
from embedclient.agent import Session, SessionMode
from embedclient.errors import JMSException
from tests.simulation.scenario.orders import Desk, OrderRefused, OrderUnanswered, open_desk

__all__ = ["BridgeOperator"]

_MOMENTS = {"stop": Moment.BRIDGE_STOPPED, "pause": Moment.BRIDGE_PAUSED}
_REFUSAL = "bridge"


@define(eq=False)
class BridgeOperator:
    """One operator, through all its sessions. ``pause_s`` 0: it only starts bridges in the end.

    ``limited``: the bridges that give up after some attempts. All others must go on by themselves.
    """

    scene: Scene
    host: ClientHost
    name: str
    bridges: Sequence[str]
    limited: Sequence[str]
    pause_s: float
    finished: bool = field(default=False, init=False)
    _random: Random = field(init=False)
    _changed: dict[str, None] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._random = Random(f"{self.name} {self.scene.world.seed}")
        self._changed.update(dict.fromkeys(self.limited))

    def steps(self) -> Steps:
        """The script of the operator."""
        while not self.finished or (self.limited and self.scene.phase is not Phase.LEAVE):
            session: Session | None = None
            try:
                session = yield self.host.agent().create_session_for(SessionMode.AUTO)
                desk = yield from open_desk(self.scene, self.name, session)
                yield from self._work(desk)
            except JMSException as error:
                self.scene.world.note(self.name, "loses its session", f"{error.error_code} {error}")
            except OrderUnanswered:
                self.scene.world.note(self.name, "gets no answer")
            if session is not None:
                yield session.close()
            yield self._random.random() * 0.2

    def _work(self, desk: Desk) -> Steps:
        while not desk.session.closed:
            if self.scene.phase is not Phase.WORK:
                yield from self._start_all(desk)
                self.finished = True
                if not self.limited or self.scene.phase is Phase.LEAVE:
                    return
                # One that was in the middle of its attempts may give up now.
                yield 1.0
                continue
            if self.pause_s:
                yield from self._act(desk)
            yield self._random.random() * 2 * (self.pause_s or 0.2)

    def _act(self, desk: Desk) -> Steps:
        bridge = self._random.choice(self.bridges)
        operation = self._random.choice(("stop", "pause", "resume", "start", "start"))
        if operation in _MOMENTS:
            self._changed[bridge] = None
        try:
            yield from desk.order(f"bridge.{bridge}", operation, refusal=_REFUSAL)
        except OrderRefused:
            return
        if operation in _MOMENTS:
            self.scene.hit(_MOMENTS[operation])

    def _start_all(self, desk: Desk) -> Steps:
        """Start each bridge that may be stopped. One that waits for confirmations has to end that first."""
        for bridge in self._changed:
            while True:
                try:
                    yield from desk.order(f"bridge.{bridge}", "start", refusal=_REFUSAL)
                except OrderRefused:
                    yield 0.5
                else:
                    break
