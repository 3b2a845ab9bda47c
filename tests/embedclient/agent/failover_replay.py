"""Does what a Java program did while its broker failed over, as the marks of the recording say, and compares outcomes.

Commands stand in marks ("client: send p 2 a"), what they gave stands in the mark behind them ("client result: ...").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from embedclient._client._url import parse_url
from embedclient.agent import Call, Consumer, Delivery, Producer, Session, SessionMode
from embedclient.agent.session._xa import Branches
from embedclient.errors import (
    JMSException,
    TransactionOutcomeUnknownException,
    TransactionRolledBackException,
    UnblockedException,
    XAException,
)
from embedclient.model import RoutingType, XaCode, Xid
from embedclient.wire.core import SessionStart, SessionXaPrepare, SessionXaResponse
from tests.embedclient.agent.node_pair import text_of
from tests.embedclient.agent.vector_replay import VectorReplay, story

T = TypeVar("T")
MODES = {"AUTO": SessionMode.AUTO, "CLIENT": SessionMode.CLIENT, "TX": SessionMode.TRANSACTED}
USER = PASSWORD = "admin"
ERRORS: dict[str, type[JMSException]] = {
    "TransactionRolledBackException": TransactionRolledBackException,
    "ActiveMQTransactionOutcomeUnknownException": TransactionOutcomeUnknownException,
    "ActiveMQUnBlockedException": UnblockedException,
    "XAException": XAException,
}


LOSSES = ("kill -9 live", "TCP connection dropped, live keeps running")


def commands_of(lines: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Each command, and the text of its result; and what was done to the broker."""
    marks = [line.get("mark") for line in lines]
    spoken = [mark for mark in marks if mark is not None and mark.startswith(("client: ", "client result: ", *LOSSES))]
    for command, result in pairwise([*spoken, ""]):
        if command in LOSSES:
            yield "lose", ""
        if command.startswith("client: "):
            yield command.removeprefix("client: "), result.partition(" -> ")[2]


class FailoverReplay:
    """One recorded program, in terms of the agent."""

    def __init__(self, name: str, only: Collection[int] = (), then: Sequence[str] = ()) -> None:
        self.commands = list(commands_of(story("cluster", name, then)))
        self._url = self.commands[0][0].split()[2]
        parsed = parse_url(self._url)
        self.replay = VectorReplay(name, parsed.settings, *parsed.connectors, folder="cluster", only=only, then=then)
        self.replay.losses = 0
        self.sessions: dict[str, Session] = {}
        self.producers: dict[str, Producer] = {}
        self.consumers: dict[str, tuple[Session, Consumer]] = {}
        self.background: Call[None] | None = None
        self._commits_in_background = False
        self._last: tuple[Session, Delivery] | None = None
        self._order = self.replay.channels_made_again()

    def run(self, count: int | None = None, *, first: int = 0) -> None:
        """The commands of the first client, from the `first` to that before `count`, each as it was recorded to end."""
        for command, result in self.commands[first:count]:
            name, *words = command.split()
            if name == "conn" and words[0] != "c":
                break
            if name in ("conn", "xaconn"):
                self._connect()
            else:
                do: Callable[..., None] = getattr(self, f"_{name}")
                do(*words, result=result)
        if count is None:
            self.replay.end()

    def _expect(self, call: Call[T], result: str) -> None:
        """The call ends as recorded."""
        self.replay.play()
        assert call.done, f"still waiting for {self.replay.expected}"
        if result.startswith("ok"):
            call.value()
            return
        expected = next(kind for text, kind in ERRORS.items() if text in result)
        assert type(call.error) is expected, (call.error, result)

    def _connect(self) -> None:
        agent = self.replay.agent
        initial = self.replay.finish(
            agent.create_session(
                auto_commit_sends=False, auto_commit_acks=False, pre_acknowledge=False, username=USER, password=PASSWORD
            )
        )
        self.replay.finish(initial.metadata.add("jms-session", ""))
        self.sessions["initial"] = initial

    def _lose(self, *, result: str) -> None:
        self.replay.losses = 1
        if self._commits_in_background:
            # A session that is about to roll back comes back stopped, instead of started and stopped again.
            self.replay.leave_out(SessionStart())
        self.replay.play()

    def _sess(self, name: str, _: str, mode: str, *, result: str) -> None:
        self._open(name, self.replay.agent.create_session_for(MODES[mode], username=USER, password=PASSWORD))

    def _xasess(self, name: str, _: str, *, result: str) -> None:
        self._open(
            name,
            self.replay.agent.create_session_for(SessionMode.TRANSACTED, xa=True, username=USER, password=PASSWORD),
        )

    def _open(self, name: str, call: Call[Session]) -> None:
        session = self.sessions[name] = self.replay.finish(call)
        # The recordings bring sessions back in no order of their own.
        sessions = self.replay.agent.sessions
        sessions.sort(key=lambda each: self._order.get(each.channel_id, len(sessions)))
        self.replay.finish(session.start())

    def _prod(self, name: str, session: str, queue: str, *, result: str) -> None:
        address = queue.removeprefix("queue:")
        self.replay.finish(self.sessions[session].destinations.prepare_destination(address, RoutingType.ANYCAST))
        self.producers[name] = self.sessions[session].create_producer(address)
        self.replay.play()

    def _cons(self, name: str, session: str, queue: str, *, result: str) -> None:
        owner = self.sessions[session]
        self.consumers[name] = (
            owner,
            self.replay.finish(owner.destinations.open_queue_consumer(queue.removeprefix("queue:"))),
        )

    def _send(self, producer: str, count: str, _: str, *, result: str) -> None:
        for _number in range(int(count)):
            self._expect(self.producers[producer].send(self.replay.message()), result)

    def _recv(self, name: str, _: str, *, result: str) -> None:
        session, consumer = self.consumers[name]
        delivery = self.replay.receive(session, consumer)
        if delivery is None:
            delivery = self.replay.receive_nowait(session, consumer)
        assert result == _described(delivery)
        if delivery is not None:
            self._last = (session, delivery)

    def _recvn(self, name: str, _: str, *, result: str) -> None:
        session, consumer = self.consumers[name]
        texts = []
        while (delivery := self.replay.receive(session, consumer)) is not None:
            texts.append(text_of(delivery))
        assert self.replay.receive_nowait(session, consumer) is None
        assert result.split() == ["ok", str(len(texts)), *map(str, texts)]

    def _ack(self, *, result: str) -> None:
        assert self._last is not None
        session, delivery = self._last
        call = session.acknowledge(delivery)
        self.replay.play()
        if not self.replay.through:  # the last answer may be missing
            self._expect(call, result)

    def _commit(self, session: str, *, result: str) -> None:
        self._expect(self.sessions[session].commit(), result)

    def _bg(self, _: str, what: str, *words: str, result: str) -> None:
        """A call of another thread; its outcome is in a later part of the recording."""
        if what == "send":
            self.background = self.producers[words[0]].send(self.replay.message())
        else:
            self.background = self.sessions[words[0]].commit()
            self._commits_in_background = True
        self.replay.play()

    def _close(self, name: str, *, result: str) -> None:
        if name in self.consumers:
            self.replay.finish(self.consumers.pop(name)[1].close())
            return
        closing = [consumer.close() for _, consumer in self.consumers.values()]
        for producer in self.producers.values():
            producer.close()
        closing += [session.close() for session in self.sessions.values()]
        for call in closing:
            self.replay.finish(call)

    # --- branches ---

    def _branches(self, session: str) -> Branches:
        xa = self.sessions[session].xa
        assert xa is not None
        return xa

    def _xstart(self, session: str, branch: str, *, result: str) -> None:
        self._expect(self._branches(session).start(xid(branch)), result)

    def _xend(self, session: str, branch: str, *, result: str) -> None:
        call = self._branches(session).end(xid(branch))
        self._expect(call, result)
        if "errorCode=" in result:
            assert call.error is not None and call.error.error_code == int(result.rpartition("=")[2])

    def _xprep(self, session: str, branch: str, *, result: str) -> None:
        if branch == "x2":
            # An Artemis client requests the state of a branch that was lost, and the answer is that all is well.
            self.replay.leave_out_with_answer(SessionXaPrepare(xid(branch)), SessionXaResponse)
            call = self._branches(session).prepare(xid(branch))
            self.replay.play()
            assert call.error is not None and call.error.error_code == XaCode.XAER_RMFAIL
            return
        assert result == "ok 0"
        assert self.replay.finish(self._branches(session).prepare(xid(branch))) is XaCode.XA_OK

    def _xcommit(self, session: str, branch: str, *, result: str) -> None:
        self._expect(self._branches(session).commit(xid(branch), one_phase=False), result)

    def _xroll(self, session: str, branch: str, *, result: str) -> None:
        self._expect(self._branches(session).rollback(xid(branch)), result)

    def _xrec(self, session: str, *, result: str) -> None:
        found = self.replay.finish(self._branches(session).recover())
        assert result.split() == ["ok", str(len(found)), *(each.global_transaction_id.decode() for each in found)]


def xid(name: str) -> Xid:
    return Xid(1, b"b", name.encode())


def _described(delivery: Delivery | None) -> str:
    if delivery is None:
        return "ok null"
    count = delivery.delivery_count
    return f"ok {text_of(delivery)} redelivered={str(count > 1).lower()} dc={count}"
