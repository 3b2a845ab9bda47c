"""Recovery of the sessions on a new connection: reattach each, or make it again (core-protocol 7.3).

Responsible for the order of packets between a session's broker and its new connection. Does not depend on the origin of
the connection, or on how a session counts and rebuilds. If the connection breaks again, the whole sequence runs once
more on the next one, which is not decided here.
"""

from collections.abc import Callable, Sequence
from typing import Final

from embedclient.errors import ErrorCode, JMSException
from embedclient.wire.core import (
    CreateSession,
    CreateSessionResponse,
    CreateSessionV2,
    NullResponse,
    Packet,
    ReattachSession,
    ReattachSessionResponse,
    SessionClose,
)

from ._call import Call, DueCallbacks, Steps, wait
from ._connection import Connection
from ._settings import LocatorSettings, SessionFlags
from .session._session import Session

STARTING_BROKER_PAUSE_S: Final = 0.01
"""A broker that is still starting rejects sessions. The request is repeated until the call time-out."""


def recover_sessions(
    connection: Connection,
    sessions: Sequence[Session],
    settings: LocatorSettings,
    cause: JMSException,
    due: DueCallbacks,
    pause: Callable[[float], Call[None]],
) -> Steps[None]:
    """Bring every session to the new connection. Sessions stay locked, and record whether they were made again.

    Raise the error that ended it; the connection is of no use then.
    """
    for session in sessions:
        channel = session.channel
        if channel.closed_error is not None:
            continue
        channel.attach(connection, connection.version or channel.version)
        # Lost replies are replayed in front of the answer, so the channel must receive before.
        connection.receivers[channel.channel_id] = session.receive
        request = ReattachSession(session.name, channel.last_received)
        answer = yield from wait(connection.request(request, ReattachSessionResponse))
        assert isinstance(answer, ReattachSessionResponse)
        if answer.reattached:
            if session.closed_error is not None:
                # Its user gave up waiting in this moment. The answer goes to a channel without receiver.
                connection.receivers.pop(channel.channel_id, None)
                connection.send_packet(SessionClose(), channel.channel_id)
                continue
            if channel.replay(answer.last_confirmed_command_id):
                continue
            yield from _close_doubtful(connection, session, due)
        yield from _create_again(connection, session, settings, cause, pause)


def _close_doubtful(connection: Connection, session: Session, due: DueCallbacks) -> Steps[None]:
    """Close a session that the broker has, but whose count of packets leaves open what it processed.

    1. A request of the session was answered with EXCEPTION; Artemis does not count it, others do (see PeerCount).
    2. Acknowledgements followed, which get no answer; then the connection was cut.
    3. The broker's last command id fits both "all acknowledgements arrived" and "the last one did not".
    4. Sending the last one again could acknowledge messages that no program has received; omitting it could lose it. So
       the session ends here and is made again: calls in flight are released, unacknowledged messages come again.
    5. It ends in order, which is the only end that a client can request. The broker regards the messages as not
       delivered, and those that come again carry no redelivered flag.
    """
    session.flow.hold()  # consumers' messages go back; their receivers could not acknowledge them any more
    if session.on_close_in_doubt is not None:
        session.on_close_in_doubt()
    closed: Call[None] = Call(due)

    def on_frame(buffer: bytes | bytearray, start: int, end: int, packet_type: int) -> None:
        if packet_type == NullResponse.TYPE:
            reply = connection.state.read(buffer, start, end)
            if isinstance(reply, NullResponse) and reply.correlation_id == -1:
                closed.succeed(None)

    channel_id = session.channel.channel_id
    connection.receivers[channel_id] = on_frame
    connection.bound(closed)
    connection.send_packet(SessionClose(), channel_id)
    yield from wait(closed)
    connection.receivers[channel_id] = session.receive


def _create_again(
    connection: Connection,
    session: Session,
    settings: LocatorSettings,
    cause: JMSException,
    pause: Callable[[float], Call[None]],
) -> Steps[None]:
    channel = session.channel
    name = session.new_name()
    answer: Packet | None = None
    tries_left = settings.call_timeout_ms / 1000 // STARTING_BROKER_PAUSE_S
    while answer is None:
        packet = create_session_packet(
            name, channel.channel_id, channel.version, session.username, session.password, session.flags, settings
        )
        try:
            answer = yield from wait(connection.request(packet, CreateSessionResponse))
        except JMSException as error:
            tries_left -= 1
            if error.error_code != ErrorCode.SESSION_CREATION_REJECTED or tries_left <= 0:
                raise
            yield from wait(pause(STARTING_BROKER_PAUSE_S))
            if connection.closed:
                raise
    assert isinstance(answer, CreateSessionResponse)
    connection.state.learn_version(answer.server_version)
    if channel.closed_error is None:
        channel.attach(connection, connection.version)
    session.rebuild(name, cause)
    if channel.closed_error is not None:
        # The session was closed here meanwhile; the answer goes to a channel without receiver.
        connection.send_packet(SessionClose(), channel.channel_id)


def create_session_packet(
    name: str,
    channel_id: int,
    version: int,
    username: str | None,
    password: str | None,
    flags: SessionFlags,
    settings: LocatorSettings,
) -> CreateSession:
    """Return the CREATESESSION packet for a session with these flags."""
    return CreateSession(
        name=name,
        session_channel_id=channel_id,
        version=version,
        username=username,
        password=password,
        min_large_message_size=settings.min_large_message_size,
        xa=flags.xa,
        auto_commit_sends=flags.auto_commit_sends,
        auto_commit_acks=flags.auto_commit_acks,
        window_size=settings.confirmation_window_size,
        pre_acknowledge=flags.pre_acknowledge,
    )


def with_client_id(packet: CreateSession, client_id: str | None) -> CreateSessionV2:
    """Return the same request in the form that carries a client id."""
    return CreateSessionV2(
        name=packet.name,
        session_channel_id=packet.session_channel_id,
        version=packet.version,
        username=packet.username,
        password=packet.password,
        min_large_message_size=packet.min_large_message_size,
        xa=packet.xa,
        auto_commit_sends=packet.auto_commit_sends,
        auto_commit_acks=packet.auto_commit_acks,
        window_size=packet.window_size,
        pre_acknowledge=packet.pre_acknowledge,
        client_id=client_id,
    )
