"""Producers that publish in batches: branches that are committed together, with a marker that counts the batches.

Responsible for how such a producer goes on after a failure: it prepares the same messages again in other branches, and
requests the same set. Responsible also for noticing a marker that differs from the answer, or a set that is there in
part. The ledger finds a second copy of a batch, or a lost one.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from random import Random
from typing import Any

from attrs import define, evolve, field

from embedbroker.testing._messages import Letter
from embedbroker.testing._scene import Moment, Topic
from embedbroker.testing._scripts import Arrival, Steps
from embedclient.agent import Call, Consumer, Producer, Session, SessionMode
from embedclient.errors import JMSException, XAException
from embedclient.model import Properties, PropertyType, RoutingType, XaCode, Xid
from embedclient.wire.core import CoreMessage, MessageType, decode_text, encode_text

from .cursor_readers import SERVICES
from .once_only import OnceOnlyProducer
from .plan import ScenarioPlan
from .producers import ProducerKind, SimulatedProducer

__all__ = ["SetProducer", "in_sets"]

_BRANCHES_MAX = 3
#: An answer that has not come by then is lost with a connection.
_PATIENCE_S = 4.0
_LOOK_S = 0.5
#: The chance that an answer comes, and the user ignores it.
_FORGETS = 0.2

Answer = Generator[Any, Any, tuple[str, dict[str, Any]]]


@define(eq=False)
class SetProducer(OnceOnlyProducer):
    """Its batches are numbered from 1, and its marker is the number of the last one."""

    #: For what it chooses; nothing else is drawn from it.
    random: Random = field(init=False)
    #: What the marker is, as far as it was answered.
    _value: int | None = field(default=None, init=False)
    #: Branches that may be there and are in no set that was answered.
    _left: dict[Xid, None] = field(factory=dict, init=False)
    _asked: int = field(default=0, init=False)
    #: A set was requested, and its outcome is unknown; its letters are those to retry, if it has any.
    _is_in_doubt: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = Random(f"sets {self.scene.world.seed} {self.name}")

    def _new_session(self) -> Call[Session]:
        return self.host.agent().create_session_for(SessionMode.TRANSACTED, xa=True)

    def _new_letter(self) -> tuple[Letter, Topic]:
        return SimulatedProducer._new_letter(self)  # without an id: it is the set that makes it come once

    def _has_work(self) -> bool:
        return super()._has_work() or self._is_in_doubt

    def _send_transaction(self, session: Session, producers: dict[str, Producer]) -> Steps:
        yield from self._sweep(session)
        if self.random.random() < 0.3 and (yield from self._is_done_already()):
            return
        self._transactions += 1
        transaction = self._transaction = f"{self.name}#{self._transactions}"
        again = list(self._retry)
        branches: list[Xid] = []
        for number in range(self.random.randint(1, _BRANCHES_MAX)):
            xid = Xid(7, b"%d" % number, transaction.encode())
            share = -(-len(again) // (_BRANCHES_MAX - number)) if number + 1 < _BRANCHES_MAX else len(again)
            repeated, again = again[:share], again[share:]
            yield from self._prepare(session, producers, xid, repeated)
            branches.append(xid)
        if again:
            xid = Xid(7, b"rest", transaction.encode())
            yield from self._prepare(session, producers, xid, again)
            branches.append(xid)
        yield from self._commit_together(session, transaction, branches)

    def _prepare(self, session: Session, producers: dict[str, Producer], xid: Xid, repeated: list[Letter]) -> Steps:
        """One branch: with letters of an earlier attempt, or with new ones where there was none."""
        assert session.xa is not None and self._transaction is not None, "a batch is sent in branches"
        self._left[xid] = None
        yield session.xa.start(xid)
        for letter in repeated:
            self._send_again(letter, self._transaction)
            yield self._send(producers, letter)
        if not self._is_in_doubt:
            for _ in range(self.random.randint(0, self.plan.transaction_max)):
                if SimulatedProducer._has_work(self):
                    yield self._send(producers, self._next_letter(self._transaction))
        yield session.xa.end(xid)
        yield session.xa.prepare(xid)
        self.scene.hit(Moment.BRANCH_PREPARED)
        if self.random.random() < 0.3:
            yield self.random.random() * 2 * self.plan.think_s

    def _commit_together(self, session: Session, transaction: str, branches: list[Xid]) -> Steps:
        scene, letters = self.scene, list(self._pending.values())
        value = (self._value or 0) + 1
        named = [_named(xid) for xid in branches]
        self._committing = True
        scene.operate(self.name, "commits together", transaction)
        status, body = yield from self._ask(
            "commit-set", marker=self.name, expected=self._value, value=value, branches=named
        )
        if status != "ok" or body["value"] != value:
            scene.fail(f"{self.name}: the set {transaction} with {value} is answered {status} {body}")
        if self.random.random() < _FORGETS:
            # As one whose process ends before it could write the answer down.
            raise JMSException("the answer is forgotten")
        if body["result"] == "committed":
            scene.hit(Moment.SET_COMMITTED)
            scene.judge(scene.ledger.committed(transaction, scene.world.now), self.name, transaction)
            self._concluded()
        elif self._is_in_doubt:
            # The one in doubt held, and so all of it did.
            scene.hit(Moment.SET_REPLAYED)
            scene.ledger.rolled_back(transaction)
            self._held(letters)
        else:
            scene.fail(f"{self.name}: the set {transaction} is a replay of one that nobody asked for")
        assert session.xa is not None, "branches are of an XA session"
        for xid in (yield session.xa.recover()):
            if xid in branches:
                scene.fail(f"{self.name}: {transaction} is committed, and its branch {xid} is there")
        self._left.clear()

    def _is_done_already(self) -> Generator[Any, Any, bool]:
        """Look at the marker: it shows whether a set in doubt holds."""
        scene = self.scene
        status, body = yield from self._ask("marker.get", name=self.name)
        found = body.get("value")
        if status == "ok" and found == self._value:
            return False
        if status != "ok" or not self._is_in_doubt or found != (self._value or 0) + 1:
            scene.fail(f"{self.name}: the marker was {self._value}, and is {found} ({status})")
        scene.hit(Moment.SET_REPLAYED)
        self._held(list(self._retry))
        return True

    def _held(self, letters: list[Letter]) -> None:
        for letter in letters:
            self._confirm(letter)
        self._concluded()

    def _concluded(self) -> None:
        self._value = (self._value or 0) + 1
        self._retry = []
        self._is_in_doubt = False
        self._pending.clear()
        self._transaction = None
        self._committing = False

    def _doubt_transaction(self, transaction: str, letters: list[Letter]) -> None:
        self.scene.hit(Moment.SET_IN_DOUBT)
        self._is_in_doubt = True
        super()._doubt_transaction(transaction, letters)

    def _sweep(self, session: Session) -> Steps:
        """What earlier attempts left goes: no set that is asked for from now on names it."""
        assert session.xa is not None, "branches are of an XA session"
        for xid in list(self._left):
            try:
                yield session.xa.rollback(xid)
            except XAException as error:
                if error.error_code != XaCode.XAER_NOTA:
                    raise
            del self._left[xid]

    # Asking the broker

    def _ask(self, operation: str, **fields: object) -> Answer:
        """Sends a request and returns status and body of its reply. Raises JMSException when none comes."""
        session: Session = yield self.host.agent().create_session_for(SessionMode.AUTO)
        try:
            reply = yield from self._ask_over(session, json.dumps({"operation": operation, **fields}))
        except JMSException:
            yield session.close()
            raise
        yield session.close()
        status, text = reply.property("embedbroker_status"), decode_text(reply.body)
        assert isinstance(status, str) and text is not None, "a reply says how it went"
        return status, json.loads(text)

    def _ask_over(self, session: Session, text: str) -> Generator[Any, Any, CoreMessage]:
        self._asked += 1
        replies = f"replies-{self.name}-{self._asked}"
        yield session.addressing.create_queue(replies, replies, RoutingType.ANYCAST, durable=False, temporary=True)
        consumer: Consumer = yield session.create_consumer(replies)
        yield session.start()
        properties = Properties()
        properties.set("JMSReplyTo", replies, PropertyType.STRING)
        request = CoreMessage.build(
            type=MessageType.TEXT,
            address=SERVICES,
            durable=False,
            properties=properties,
            body=encode_text(text),
        )
        yield session.create_producer(SERVICES).send(request)
        until = self.scene.world.now + _PATIENCE_S
        while not consumer.closed and self.scene.world.now < until:
            delivery = consumer.next(self.scene.world.instant)
            if delivery is not None:
                yield session.consumed(delivery)
                return delivery.message
            yield Arrival(consumer, _LOOK_S)
        raise JMSException("the reply of the broker is lost")


def _named(xid: Xid) -> dict[str, object]:
    return {"format": xid.format_id, "global": xid.global_transaction_id.hex(), "branch": xid.branch_qualifier.hex()}


def in_sets(plan: ScenarioPlan) -> ScenarioPlan:
    """The same plan with producers of this kind in place of transacted ones. What they send does not expire."""
    producers = [
        evolve(role, plan=evolve(role.plan, sets=True, impatient_chance=0.0, expire_chance=0.0, resend_chance=1.0))
        if role.plan.kind is ProducerKind.TRANSACTED
        else role
        for role in plan.producers
    ]
    return evolve(plan, producers=tuple(producers))
