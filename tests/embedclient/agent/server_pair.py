"""One agent and servers that stand in for each other: doubles of Artemis brokers, each of which can be down or silent.

They share their queues: what a server had, the other one has when it takes over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from embedbroker.node import Accepted, BytesReceived, PeerClosed, SendBytes, Written
from embedbroker.node import Input as NodeInput
from embedbroker.node import Output as NodeOutput
from embedclient.agent import DialFailed, LocatorSettings, Session, SessionMode
from embedclient.errors import ErrorCode
from embedclient.model import Instant, TransportConfiguration
from embedclient.wire.core import (
    CheckForFailover,
    CheckForFailoverReply,
    ClusterTopologyV4,
    CoreMessage,
    CreateSession,
    CreateSessionV2,
    ExceptionResponse,
    Packet,
    SubscribeTopologyV2,
    encode_packet,
)
from tests.embedclient.agent.artemis_double import VERSION, ArtemisDouble
from tests.embedclient.agent.node_pair import NodePair

A, B, C = (
    TransportConfiguration(name, parameters={"host": name, "port": port}) for port, name in enumerate("abc", 61616)
)
PAIR_OF_A_AND_B = (("node", A, B),)
FAILING_OVER = LocatorSettings(ha=True, reconnect_attempts=-1, retry_interval_ms=100)


class Server(ArtemisDouble):
    """One server. The announced nodes have id, primary and backup each."""

    def __init__(self, queues: dict[str, deque[CoreMessage]]) -> None:
        super().__init__()
        self.queues = queues
        self.up = True
        self.silent = False
        self.takes_over = True
        # The only node it takes over from; None: any.
        self.stands_in_for: str | None = None
        # Which of the next sessions are refused, as while a broker starts; those behind are not.
        self.refusals: Iterator[bool] = iter(())
        self.tells: Sequence[tuple[str, TransportConfiguration | None, TransportConfiguration | None]] = PAIR_OF_A_AND_B

    def _on_packet(self, connection: int, packet: Packet) -> None:
        match packet:
            case SubscribeTopologyV2():
                for place, (node_id, primary, backup) in enumerate(self.tells, 1):
                    last = place == len(self.tells)
                    news = ClusterTopologyV4(False, node_id, 1, primary, backup, last, None, None, VERSION)
                    self._send(connection, news, 0)
            case CheckForFailover(node_id):
                ok = self.takes_over and self.stands_in_for in (None, node_id)
                self._send(connection, CheckForFailoverReply(ok), 1)
            case CreateSession() | CreateSessionV2() if next(self.refusals, False):
                self._send(connection, ExceptionResponse(ErrorCode.SESSION_CREATION_REJECTED, "still starting"), 1)
            case _:
                super()._on_packet(connection, packet)

    def said(self, kind: type[Packet]) -> list[Packet]:
        """The packets of one kind that clients sent."""
        return [packet for packet in self.seen if isinstance(packet, kind)]


class Servers:
    """All of them, behind the step of one."""

    def __init__(self, *names: str) -> None:
        queues: dict[str, deque[CoreMessage]] = {}
        self.by_name = {name: Server(queues) for name in names}
        self.connected: dict[int, str] = {}

    def step(self, input: NodeInput, now: Instant) -> list[NodeOutput]:
        assert isinstance(input, Accepted | BytesReceived | PeerClosed | Written)
        server = self.by_name[self.connected[input.connection]]
        return [] if server.silent else server.step(input, now)

    def next_deadline(self) -> float | None:
        return None


class ServerPair(NodePair):
    """The agent has `connectors`; servers `a` and `b` are a pair, `c` is another node."""

    def __init__(self, settings: LocatorSettings = FAILING_OVER, *connectors: TransportConfiguration) -> None:
        self.servers = Servers("a", "b", "c")
        self.a, self.b, self.c = self.servers.by_name.values()
        self.b.up = self.c.up = False
        super().__init__(settings, self.servers, connectors or (A,))

    def _dial(self, number: int) -> None:
        name = next(dial.connector.host for dial in self.dials if dial.connection == number)
        if name in self.servers.by_name and self.servers.by_name[name].up:
            self.servers.connected[number] = name
            super()._dial(number)
        else:
            self._to_agent(DialFailed(number, f"{name} refused"))

    @property
    def dialed(self) -> str:
        """The names of the servers that were tried, in order."""
        return "".join(dial.connector.host for dial in self.dials)

    def session(self, mode: SessionMode = SessionMode.AUTO) -> Session:
        session = self.finish(self.agent.create_session_for(mode))
        self.finish(session.start())
        return session

    def crash(self, server: Server) -> None:
        """It is gone, with its connections and sessions."""
        server.up = False
        self.cut()
        server.forget_sessions()
        self.settle()

    def fail_over(self) -> None:
        """The primary is gone, the backup takes over."""
        self.crash(self.a)
        self.b.up = True
        self.advance(1)

    def say(self, server: Server, packet: Packet) -> None:
        """A packet that a server sends to all clients, on channel 0."""
        frame = encode_packet(packet, 0, VERSION)
        numbers = [number for number, name in self.servers.connected.items() if self.servers.by_name[name] is server]
        self.from_node([SendBytes(number, frame) for number in numbers])
        self.settle()
