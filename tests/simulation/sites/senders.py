"""Users that send to one address of a site, and know which messages the broker has confirmed.

Responsible for sends and for their outcomes. Does not depend on where messages go from there.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field, frozen

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import Letter
from embedbroker.testing._scene import Moment, Scene
from embedbroker.testing._scripts import Steps
from embedclient.agent import Producer, Session, SessionMode
from embedclient.errors import ErrorCode, JMSException
from embedclient.model import RoutingType
from tests.simulation.scenario.once_only import IdentifiedLetter

from .send_book import Outcome, SendBook

__all__ = ["Sender", "SenderPlan"]


@frozen
class SenderPlan:
    """One sender.

    ``batch`` 0: one message after the other; otherwise the longest transaction. ``identifies``: messages have duplicate
    ids, and what is in doubt is sent again. ``routing_types``: of the messages in turn, -1 for none. ``groups``: how
    many message groups its messages are in, 0 for none; senders share them. ``other_address``: messages of a
    transaction go there in turn, with ``other_type``, in no group. ``rollback_chance``: of each transaction.
    """

    name: str
    site: str
    address: str
    count: int
    think_s: float
    size_max: int
    large_chance: float = 0.0
    large_size_max: int = 0
    batch: int = 0
    durable: bool = True
    identifies: bool = False
    mixed_priorities: bool = False
    routing_types: tuple[int, ...] = (-1,)
    groups: int = 0
    other_address: str = ""
    other_type: int = -1
    rollback_chance: float = 0.0


@define(eq=False)
class Sender:
    """One sender, through all its sessions."""

    scene: Scene
    host: ClientHost
    plan: SenderPlan
    book: SendBook
    finished: bool = field(default=False, init=False)
    _made: int = field(default=0, init=False)
    _again: deque[Letter] = field(factory=deque, init=False)
    _repeated: list[Letter] = field(factory=list, init=False)

    def steps(self) -> Steps:
        """The script of the sender."""
        mode = SessionMode.TRANSACTED if self.plan.batch else SessionMode.AUTO
        while self._has_work():
            session: Session | None = None
            try:
                session = yield self.host.agent().create_session_for(mode)
                producer = session.create_producer(self.plan.address)
                while self._has_work() and not session.closed:
                    yield from self._send_batch(session, producer) if self.plan.batch else self._send_one(producer)
                    yield self.scene.world.random.random() * 2 * self.plan.think_s
            except JMSException as error:
                self.scene.world.note(self.plan.name, "loses its session", f"{error.error_code} {error}")
            if session is not None:
                yield session.close()
            yield self.scene.world.random.random() * 0.1
        self.finished = True

    def _has_work(self) -> bool:
        return bool(self._again) or bool(self._repeated) or self._made < self.plan.count

    def _send_one(self, producer: Producer) -> Steps:
        letter = self._again.popleft() if self._again else self._new_letter()
        self.scene.operate(self.plan.name, "sends", letter.key)
        self.book.sent(self.plan.name, letter)
        try:
            yield producer.send(letter.build(self.scene.world.instant.wall_ms))
        except JMSException as error:
            self.scene.world.note(self.plan.name, "send fails", f"{letter.key} {error.error_code}")
            self._doubt(letter)
        else:
            self.book.confirmed(letter)

    def _send_batch(self, session: Session, producer: Producer) -> Steps:
        """Send a transaction, or the last one again, as long as its outcome is in doubt."""
        letters, self._repeated = self._repeated, []
        if not letters:
            most = self.scene.world.random.randint(1, self.plan.batch)
            letters = [self._new_letter() for _ in range(min(most, self.plan.count - self._made))]
            if self.plan.rollback_chance and self.scene.chance(self.plan.rollback_chance):
                yield from self._roll_back(session, producer, letters)
                return
        for letter in letters:
            self.scene.operate(self.plan.name, "sends", letter.key)
            self.book.sent(self.plan.name, letter)
        if self.plan.identifies:
            self._repeated = letters
        was_requested = False
        try:
            for letter in letters:
                yield producer.send(letter.build(self.scene.world.instant.wall_ms))
            was_requested = True
            yield session.commit()
        except JMSException as error:
            self.scene.world.note(self.plan.name, "commit fails", error.error_code)
            if error.error_code != ErrorCode.DUPLICATE_ID_REJECTED:
                self.scene.hit(Moment.COMMIT_IN_DOUBT)
                for letter in letters:
                    self.book.in_doubt(letter)
                if not self._repeated:
                    self.book.ended(letters, Outcome.IN_DOUBT if was_requested else Outcome.ABSENT)
                if not was_requested:
                    raise  # the session must not commit what it has sent already
                return
            # The one in doubt held, and so all of it did.
            self.scene.hit(Moment.DUPLICATE_REJECTED)
        self._repeated = []
        for letter in letters:
            self.book.confirmed(letter)
        self.book.ended(letters, Outcome.COMMITTED)

    def _roll_back(self, session: Session, producer: Producer, letters: list[Letter]) -> Steps:
        """Send a transaction, and roll it back. It counts as rolled back, too, if the connection is lost before."""
        for letter in letters:
            self.scene.operate(self.plan.name, "sends in vain", letter.key)
            self.book.sent(self.plan.name, letter)
        self.book.ended(letters, Outcome.ABSENT)
        try:
            for letter in letters:
                yield producer.send(letter.build(self.scene.world.instant.wall_ms))
        except JMSException as error:
            self.scene.world.note(self.plan.name, "send fails", error.error_code)
        yield session.rollback()
        self.scene.hit(Moment.ROLLBACK)

    def _doubt(self, letter: Letter) -> None:
        self.scene.hit(Moment.SEND_IN_DOUBT)
        self.book.in_doubt(letter)
        if self.plan.identifies:
            self.scene.hit(Moment.SENT_AGAIN_WITH_ID)
            self._again.append(letter)

    def _new_letter(self) -> Letter:
        plan, random = self.plan, self.scene.world.random
        self._made += 1
        routing_type = plan.routing_types[self._made % len(plan.routing_types)]
        is_elsewhere = bool(plan.other_address) and self._made % 2 == 0
        if is_elsewhere:
            routing_type = plan.other_type
        is_large = random.random() < plan.large_chance
        letter = Letter(
            key=f"{plan.name}-{self._made}",
            address=plan.other_address if is_elsewhere else plan.address,
            color=self.scene.color(),
            priority=random.choice((0, 4, 4, 9)) if plan.mixed_priorities else 4,
            durable=plan.durable,
            size=random.randint(plan.size_max, plan.large_size_max) if is_large else random.randint(0, plan.size_max),
            routing_type=RoutingType(routing_type) if routing_type >= 0 else None,
            group=f"g{random.randrange(plan.groups)}" if plan.groups and not is_elsewhere else "",
        )
        if not plan.identifies:
            return letter
        return IdentifiedLetter(**{name: getattr(letter, name) for name in Letter.__match_args__})
