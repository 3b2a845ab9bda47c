"""A clerk: a user whose permissions an administrator changes while it works, and that tries all the time.

Responsible for the attempts and their outcomes. `GrantChecker` judges them.
"""

from __future__ import annotations

from random import Random

from attrs import define, field

from embedbroker.testing._administration import CLERK, DESK, GrantChecker
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import Letter
from embedbroker.testing._scene import Phase, Scene
from embedbroker.testing._scripts import Steps
from embedclient.agent import Session, SessionMode
from embedclient.errors import ErrorCode, JMSException
from embedclient.model import RoutingType

from .plan import ScenarioPlan
from .visitors import CLERK_PASSWORD

__all__ = ["Clerk", "create_desk"]


def create_desk(plan: ScenarioPlan, session: Session) -> Steps:
    """Create the address on which the permissions of the clerk change."""
    if plan.broker.has_clerk:
        yield session.addressing.create_address(DESK, [RoutingType.ANYCAST])
        yield session.addressing.create_queue(DESK, DESK, RoutingType.ANYCAST)


@define(eq=False)
class Clerk:
    """One clerk, through all its sessions, while the others work."""

    scene: Scene
    host: ClientHost
    checker: GrantChecker
    pause_s: float
    name: str = field(default=CLERK, init=False)
    #: Nothing else is drawn from it.
    _random: Random = field(init=False)
    _made: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._random = Random(f"clerk {self.scene.world.seed}")

    def steps(self) -> Steps:
        """The script of the clerk."""
        while self.scene.phase is Phase.WORK:
            session: Session | None = None
            try:
                session = yield self.host.agent().create_session_for(
                    SessionMode.AUTO, username=CLERK, password=CLERK_PASSWORD
                )
                for _ in range(self._random.randint(5, 20)):
                    if session.closed or self.scene.phase is not Phase.WORK:
                        break
                    yield from self._act(session)
                    yield self._random.random() * 2 * self.pause_s
            except JMSException as error:
                self.scene.world.note(self.name, "loses its session", f"{error.error_code} {error}")
            if session is not None:
                yield session.close()
            yield self._random.random() * 2 * self.pause_s

    def give_up(self) -> None:
        """A clerk holds nothing, and what is in doubt is not owed."""

    def _act(self, session: Session) -> Steps:
        match self._random.randrange(4):
            case 0 | 1:
                self._made += 1
                letter = Letter(f"{CLERK}-{self._made}", DESK)
                yield from self._try("a send", self._send(session, letter), letter.key)
            case 2:
                yield from self._try("a consumer", self._open(session, browse_only=False))
            case _:
                yield from self._try("a browser", self._open(session, browse_only=True))

    def _try(self, what: str, attempt: Steps, key: str = "") -> Steps:
        """Try what may be permitted or not. Another error than a refusal ends the session."""
        self.scene.operate(self.name, "tries", what)
        begun = self.checker.begin()
        try:
            yield from attempt
        except JMSException as error:
            if error.error_code != ErrorCode.SECURITY_EXCEPTION:
                raise
            self.checker.judge(begun, what, key, is_refused=True)
        else:
            self.checker.judge(begun, what, key, is_refused=False)

    def _send(self, session: Session, letter: Letter) -> Steps:
        yield session.create_producer(DESK).send(letter.build(self.scene.world.instant.wall_ms))

    def _open(self, session: Session, *, browse_only: bool) -> Steps:
        """Open a consumer. Its session is not started, so it takes nothing."""
        consumer = yield session.create_consumer(DESK, browse_only=browse_only)
        yield consumer.close()
