"""The phases of a session's channel: which may follow which, and what may leave in each."""

from __future__ import annotations

import itertools

import pytest

from embedclient.agent import LocatorSettings
from embedclient.agent._call import DueCallbacks
from embedclient.agent._connection import Connection
from embedclient.agent._deadlines import Deadlines
from embedclient.agent._timers import Timers
from embedclient.agent.session._channel import TRANSITIONS, Phase, SessionChannel
from embedclient.errors import ConnectionClosedException, JMSException
from embedclient.model import TransportConfiguration
from embedclient.wire.core import NullResponse, Packet, SessionStart, SessionStop

SETTINGS = LocatorSettings(confirmation_window_size=1000)
GONE = ConnectionClosedException("gone")


class Owner:
    """Counts what a connection has to send; everything else is of no interest here."""

    def on_first_output(self) -> None: ...

    def on_subscribed(self, connection: Connection) -> None: ...

    def on_topology(self, connection: Connection, packet: Packet) -> None: ...

    def on_ping_due(self) -> None: ...

    def on_failed(self, connection: Connection, error: JMSException, disconnect: Packet | None) -> None: ...


def make_connection() -> Connection:
    place = TransportConfiguration("a", "factory", {})
    return Connection(1, place, SETTINGS, DueCallbacks(), Deadlines(-1), Owner())


def make_channel() -> SessionChannel:
    return SessionChannel(10, SETTINGS, DueCallbacks(), Deadlines(-1), Deadlines(-1), Timers())


def bring_to(phase: Phase) -> tuple[SessionChannel, Connection]:
    channel, connection = make_channel(), make_connection()
    if phase not in (Phase.DETACHED, Phase.CLOSED):
        channel.attach(connection, 136)
    if phase in (Phase.RESUMED, Phase.OPEN):
        channel.resume()
    if phase is Phase.OPEN:
        channel.open()
    if phase is Phase.CLOSED:
        channel.close(GONE)
    assert channel.phase is phase
    return channel, connection


def move(channel: SessionChannel, phase: Phase) -> None:
    match phase:
        case Phase.DETACHED:
            channel.detach()
        case Phase.LISTENING:
            channel.attach(make_connection(), 136)
        case Phase.RESUMED:
            channel.resume()
        case Phase.OPEN:
            channel.open()
        case Phase.CLOSED:
            channel.close(GONE)


@pytest.mark.parametrize(("source", "target"), [(a, b) for a in Phase for b in TRANSITIONS[a]])
def test_every_move_of_the_table_is_made(source: Phase, target: Phase) -> None:
    channel, _ = bring_to(source)
    move(channel, target)
    assert channel.phase is target


# Both have no effect on a channel that has ended.
HARMLESS = {(Phase.CLOSED, Phase.DETACHED), (Phase.CLOSED, Phase.CLOSED)}


@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in itertools.product(Phase, Phase) if pair[1] not in TRANSITIONS[pair[0]] and pair not in HARMLESS],
)
def test_every_other_move_is_a_bug_that_is_caught(source: Phase, target: Phase) -> None:
    channel, _ = bring_to(source)
    with pytest.raises(AssertionError):
        move(channel, target)


@pytest.mark.parametrize("target", [phase for phase in Phase if (Phase.CLOSED, phase) in HARMLESS])
def test_a_channel_that_has_ended_stays_so(target: Phase) -> None:
    channel, _ = bring_to(Phase.CLOSED)
    move(channel, target)
    assert (channel.phase, channel.closed_error) == (Phase.CLOSED, GONE)


@pytest.mark.parametrize("phase", list(Phase))
def test_requests_leave_in_the_open_phase_only(phase: Phase) -> None:
    channel, connection = bring_to(phase)
    call = channel.request(SessionStart(), NullResponse)
    assert (connection.out_bytes > 0) is (phase is Phase.OPEN)
    assert call.sent is (phase is Phase.OPEN)
    assert call.done is (phase is Phase.CLOSED)
    assert channel.locked is (phase is not Phase.OPEN)


@pytest.mark.parametrize("phase", list(Phase))
def test_packets_without_reply_leave_once_the_session_is_back(phase: Phase) -> None:
    channel, connection = bring_to(phase)
    channel.post(SessionStop())
    leaves = phase in (Phase.RESUMED, Phase.OPEN)
    assert (connection.out_bytes > 0) is leaves
    assert channel.speaking is leaves


def test_what_waited_leaves_when_the_channel_opens() -> None:
    channel, connection = bring_to(Phase.RESUMED)
    channel.request(SessionStart(), NullResponse)
    assert connection.out_bytes == 0
    channel.open()
    assert connection.out_bytes > 0
