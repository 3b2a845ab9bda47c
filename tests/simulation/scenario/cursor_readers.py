"""Simulated readers of a queue: they pin a range with a cursor, read it, read it again, and acknowledge it.

Several of them take turns, as one program does that is started again while its predecessor still runs: the lease
decides. What they share is a note of how far the work is, as such a program keeps it elsewhere, in the same transaction
as what it does with the messages. The checks are here: nothing is skipped, nothing comes in two ranges, and every
reader of a range finds in it what all readers found before.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from struct import Struct
from typing import Any

from attrs import define, evolve, field

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import key_of
from embedbroker.testing._scene import Moment, Phase, Scene
from embedbroker.testing._scripts import Arrival, Steps
from embedclient.agent import Call, Consumer, LocatorSettings, Producer, Session, SessionMode
from embedclient.errors import JMSException
from embedclient.model import Properties, RoutingType
from embedclient.wire.core import CoreMessage, MessageType, decode_text, encode_text

from .once_only import once_only
from .plan import ReaderRole, ScenarioPlan
from .producers import ProducerKind

__all__ = ["SERVICES", "CursorReader", "ReadingPlace", "read_in_ranges"]

SERVICES = "embedbroker.services"
_HEAD, _ROW = Struct("<Iq"), Struct("<IqqqIB3x")
#: A reply that does not come in this time was lost with its queue.
_REPLY_S = 3.0
_READERS = 2

_Row = tuple[int, str]
"""Position and key of a message."""
_Asking = Generator[Call[Any] | float | Arrival, Any, tuple[str, Any]]


class _Lost(Exception):
    """The lease is another's, the session is gone, or the answer did not come: begin anew."""


@define(eq=False)
class ReadingPlace:
    """How far the work on one queue is, whichever reader does it."""

    scene: Scene
    queue: str
    position: int = 0
    #: What was found behind the position, by the reader that looked furthest.
    rows: list[_Row] = field(factory=list, init=False)
    _done: dict[str, int] = field(factory=dict, init=False)
    _unconfirmed: list[_Row] = field(factory=list, init=False)
    is_removed: bool = field(default=False, init=False)

    @property
    def owes(self) -> bool:
        """Whether something is done of which the broker did not say that it is acknowledged."""
        return bool(self._unconfirmed)

    def compare(self, reader: str, start: int, end: int, rows: list[_Row]) -> None:
        """A range was read: it has what it had before, in order."""
        if start != self.position:
            return  # another reader was faster
        positions = [position for position, _key in rows]
        if positions != sorted(set(positions)) or not all(start < position <= end for position in positions):
            self.scene.fail(f"{reader}: rows of ({start}, {end}] stand at {positions}")
        known = [row for row in self.rows if row[0] <= end]
        if rows[: len(known)] != known:
            self.scene.fail(f"{reader}: ({start}, {end}] had {known}, and has {rows}")
        if len(rows) > len(self.rows):
            self.rows = rows

    def commit(self, reader: str, start: int, end: int, rows: list[_Row]) -> None:
        """The work on a range is done, unless another reader has done it already."""
        if start != self.position:
            return
        scene = self.scene
        for _position, key in rows:
            if key in self._done:
                scene.fail(f"{reader}: {key} was in the range up to {self._done[key]}, and is in that up to {end}")
            self._done[key] = end
            scene.judge(scene.ledger.delivered(self.queue, key, scene.world.now, consumer="readers"), reader, key)
            scene.ledger.acknowledging(self.queue, key)
        self.position = end
        self._unconfirmed += rows
        self.rows = []

    def confirm(self, reader: str, until: int) -> None:
        """The broker has answered that everything up to there is acknowledged."""
        scene = self.scene
        for position, key in self._unconfirmed:
            if position <= until:
                scene.judge(scene.ledger.acknowledged(self.queue, key, scene.world.now), reader, key)
        self._unconfirmed = [row for row in self._unconfirmed if row[0] > until]


@define(eq=False)
class CursorReader:
    """One of them."""

    scene: Scene
    host: ClientHost
    name: str
    place: ReadingPlace
    lease_ms: int
    think_s: float
    _session: Session | None = field(default=None, init=False)
    _producer: Producer | None = field(default=None, init=False)
    _replies: Consumer | None = field(default=None, init=False)
    _reply_queue: str = field(default="", init=False)
    _sessions: int = field(default=0, init=False)
    _asked: int = field(default=0, init=False)

    def steps(self) -> Steps:
        """The script of this reader."""
        scene = self.scene
        while not self.place.is_removed:
            try:
                if scene.phase in (Phase.WORK, Phase.DRAIN):
                    yield from self._read()
                else:
                    yield from self._remove()
            except JMSException as error:
                scene.world.note(self.name, "loses its session", f"{error.error_code} {error}")
                self.give_up()
            except _Lost as lost:
                scene.world.note(self.name, "begins anew", lost)
            yield self._moment()
        if self._session is not None:
            try:
                yield self._session.close()
            except JMSException:  # it is closed
                self.give_up()

    def give_up(self) -> None:
        """The session is gone, or the whole client. What is pinned stays pinned."""
        self._session = self._producer = self._replies = None

    def _moment(self) -> float:
        return self.scene.world.random.random() * 2 * self.think_s + 0.001

    # -- what it does ----------------------------------------------------------------------------------------------

    def _read(self) -> Steps:
        scene, place = self.scene, self.place
        takes_over = scene.chance(0.2)
        done = place.position  # while the answer is on its way, the other one may take over and go on
        status, body = yield from self._ask("cursor.open", lease_ms=self.lease_ms, take_over=takes_over)
        if status != "ok":
            raise _Lost(f"{status}: {body['text']}")
        if scene.phase not in (Phase.WORK, Phase.DRAIN):
            place.is_removed = False  # what the other one has removed may have been made once more
            raise _Lost("the work is over")
        scene.hits[Moment.CURSOR_TAKEN_OVER] += takes_over
        if body["end"] < done:
            scene.fail(f"{self.name}: the pinned end is {body['end']}, the work is done up to {done}")
        while scene.phase in (Phase.WORK, Phase.DRAIN):
            yield from self._read_range()
            yield self._moment()

    def _read_range(self) -> Steps:
        scene, place, start = self.scene, self.place, self.place.position
        wanted = scene.world.random.choice((1, 3, 20, 0))
        pin = yield from self._granted("cursor.pin", owned=True, start=start, max_rows=wanted, max_bytes=0)
        if pin["lost"]:
            scene.fail(f"{self.name}: {pin['lost']} messages behind {start} are lost")
        place.confirm(self.name, start)
        end = pin["end"]
        rows = yield from self._rows(start, end)
        place.compare(self.name, start, end, rows)
        if len(rows) != pin["rows"]:
            scene.fail(f"{self.name}: {pin['rows']} rows were pinned behind {start}, and there are {len(rows)}")
        if rows and scene.chance(0.5):
            if scene.chance(0.2):
                yield self.lease_ms / 1000 * 1.5
            again = yield from self._rows(start, end)
            place.compare(self.name, start, end, again)
            scene.hit(Moment.RANGE_READ_AGAIN)
        if not rows or scene.chance(0.05):
            return
        scene.operate(self.name, "has done", f"({start}, {end}] {len(rows)}")
        scene.operations += len(rows)
        place.commit(self.name, start, end, rows)
        if place.position == end:
            yield from self._granted("cursor.acknowledge", owned=True, until=end)
            place.confirm(self.name, end)

    def _rows(self, after: int, until: int) -> Generator[Call[Any] | float | Arrival, Any, list[_Row]]:
        rows: list[_Row] = []
        while after < until:
            size = self.scene.world.random.choice((1, 1_000, 0))
            body = yield from self._granted("cursor.read", after=after, until=until, max_bytes=size)
            count, after = _HEAD.unpack_from(body)
            at = _HEAD.size
            for _ in range(count):
                size, position, *_ = _ROW.unpack_from(body, at)
                message = CoreMessage.parse(bytearray(body[at + _ROW.size : at + 4 + size]))
                rows.append((position, key_of(message)))
                at += 4 + size
        return rows

    def _remove(self) -> Steps:
        place = self.place
        if place.owes:
            # With the cursor goes its position: what is done and was not acknowledged would come again.
            yield from self._granted("cursor.open", owned=True, lease_ms=self.lease_ms, take_over=True)
            until = place.position
            yield from self._granted("cursor.acknowledge", owned=True, until=until)
            place.confirm(self.name, until)
        status, body = yield from self._ask("cursor.remove")
        if status not in ("ok", "no-such-cursor"):
            raise _Lost(f"{status}: {body['text']}")
        self.place.is_removed = True

    # -- asking ----------------------------------------------------------------------------------------------------

    def _granted(self, operation: str, *, owned: bool = False, **fields: object) -> Generator[Any, Any, Any]:
        """What is answered; a refusal means that the lease is another's."""
        status, body = yield from self._ask(operation, owned=owned, **fields)
        if status != "ok":
            self.scene.hit(Moment.LEASE_LOST)
            if status not in ("lost-lease", "not-pinned", "no-such-cursor", "bad-request"):
                self.scene.fail(f"{self.name}: {operation} {fields} is refused as {status}: {body['text']}")
            raise _Lost(f"{status}: {body['text']}")
        return body

    def _ask(self, operation: str, *, owned: bool = True, **fields: object) -> _Asking:
        if self._session is None:
            yield from self._connect()
        assert self._producer is not None and self._replies is not None and self._session is not None
        self._asked += 1
        number = f"{self.name}-{self._asked}"
        owner = {"owner": self.name} if owned else {}
        text = json.dumps({"operation": operation, "queue": self.place.queue, "cursor": "readers", **owner, **fields})
        properties = Properties()
        properties["JMSReplyTo"], properties["JMSCorrelationID"] = self._reply_queue, number
        request = CoreMessage.build(
            type=MessageType.TEXT, address=SERVICES, durable=False, properties=properties, body=encode_text(text)
        )
        yield self._producer.send(request)
        until = self.scene.world.now + _REPLY_S
        while self.scene.world.now < until and not self._replies.closed:
            self._replies.want()
            delivery = self._replies.next(self.scene.world.instant)
            if delivery is None:
                yield Arrival(self._replies, _REPLY_S)
                continue
            message = delivery.message
            yield self._session.consumed(delivery)
            if message.property("JMSCorrelationID") == number:
                status = str(message.property("embedbroker_status"))
                if message.type != MessageType.TEXT:
                    return status, bytes(message.body)
                return status, json.loads(decode_text(message.body) or "null")
        session = self._session
        self.give_up()
        yield session.close()
        raise _Lost(f"no answer to {operation}")

    def _connect(self) -> Steps:
        self._sessions += 1
        self._reply_queue = f"{self.name}-replies-{self._sessions}"
        session: Session = yield self.host.agent().create_session_for(SessionMode.AUTO)
        routing = RoutingType.ANYCAST
        yield session.addressing.create_queue(
            self._reply_queue, self._reply_queue, routing, durable=False, temporary=True
        )
        self._replies = yield session.create_consumer(self._reply_queue)
        yield session.start()
        self._producer, self._session = session.create_producer(SERVICES), session


def read_in_ranges(plan: ScenarioPlan) -> ScenarioPlan:
    """The same plan with readers in place of the consumers of its first queue.

    All messages are durable, are sent once whatever happens, and do not expire: what is pinned never changes.
    """
    plan = once_only(plan)
    queue = plan.topics[0].queues[0].name
    producers = []
    for role in plan.producers:
        kind = role.plan.kind
        durable = ProducerKind.BLOCKING if kind is ProducerKind.NOT_DURABLE else kind
        topics = tuple(dict.fromkeys((0, *role.topics)))
        producers.append(evolve(role, topics=topics, plan=evolve(role.plan, kind=durable)))
    # Where there are other brokers, they go on with those of the users. A silent connection is given up
    # while the scenario still has time.
    settings = LocatorSettings(
        initial_connect_attempts=-1,
        reconnect_attempts=-1,
        client_failure_check_period_ms=1_000,
        connection_ttl_ms=4_000,
        ha=True,
        use_topology_for_load_balancing=False,
    )
    lease_ms = (300, 1_000, 3_000)[plan.seed // 4 % 3]
    readers = [ReaderRole(f"reader{number}", queue, settings, lease_ms, 0.02) for number in range(_READERS)]
    return evolve(
        plan,
        producers=tuple(producers),
        consumers=tuple([role for role in plan.consumers if role.queue != queue]),
        readers=tuple(readers),
        broker=evolve(plan.broker, memory_limit_bytes=None),
    )
