"""What happens to the sessions on a new connection: reattach each, or make it again (core-protocol 7.3).

Responsible for the order of packets between a session's broker and its new connection. Refuses to know where the
connection came from, what follows when it breaks again (the whole sequence is run once more on the next one), and how a
session counts and rebuilds.
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
"""A broker that is still starting refuses sessions. It is asked again, as long as one call may take."""


def recover_sessions(
    connection: Connection,
    sessions: Sequence[Session],
    settings: LocatorSettings,
    cause: JMSException,
    due: DueCallbacks,
    pause: Callable[[float], Call[None]],
) -> Steps[None]:
    """Brings every session to the new connection; they stay locked, and know whether they were made again.

    Raises what ended it; the connection is of no use then.
    """
    for session in sessions:
        channel = session.channel
        if channel.closed_error is not None:
            continue
        channel.attach(connection, connection.version or channel.version)
        # Replies that were lost are replayed in front of the answer, so the channel has to listen before.
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
    """Closes a session that the broker has, but whose count of packets leaves open what it processed.

    1. A request of the session was answered with EXCEPTION; Artemis does not count it, others do (see PeerCount).
    2. Acknowledgements followed, which nobody answers; then the connection was cut.
    3. The broker's last command id fits both "all acknowledgements arrived" and "the last one did not".
    4. Sending the last one again could acknowledge messages nobody has seen, leaving it out could lose it. So the
       session ends here and is made again: calls in flight are released, unacknowledged messages come again.
    5. It ends in order, which is the only end that a client can ask for: the broker takes them for not delivered, and
       what comes again carries no redelivered flag.
    """
    session.flow.hold()  # what consumers hold goes back, and who saw it could not acknowledge it any more
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
        # Nobody wants it any more; its answer goes to a channel without receiver.
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
    """CREATESESSION for a session with these flags."""
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
    """The same request in the form that carries a client id."""
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
