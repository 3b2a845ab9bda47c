"""Lists of connections, sessions, consumers and producers, and the operations that close them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from attrs import frozen

from embedbroker.config import Matches
from embedbroker.kernel import ClientConnection, Consumer, Queue, Session

from ._dates import time_text
from ._lists import PAGE_PARAMETERS
from ._paging import Column, page_of
from ._queue_figures import awaiting_commit, transit_size
from ._registry import Call, Kind, Operation, Parameter, Work
from ._rows import Rows

__all__ = ["OPERATIONS", "consumer_rows", "consumers_of", "sessions_of"]


def sessions_of(call: Call) -> list[Session]:
    """Return the sessions of clients."""
    return [session for session in call.kernel.clients.sessions if isinstance(session, Session)]


def _sessions_of(call: Call, connection_id: str | None) -> list[Session]:
    return [
        session
        for session in sessions_of(call)
        if session.connection is not None and session.connection.connection_id == connection_id
    ]


def _consumers(call: Call) -> Iterator[tuple[Session, Consumer]]:
    """Yield the consumers with their sessions; browsers, too, as Artemis lists them. Sessions may end meanwhile."""
    for session in sessions_of(call):
        for consumer in list(session.consumers.values()):
            yield session, consumer


# Address of a producer that names one with each message.
_ANONYMOUS = "ANONYMOUS"


@frozen
class _Producer:
    """Describe a producer that a client announced."""

    session: Session
    number: int
    address: str | None
    created_ms: int


def _producers(call: Call) -> Iterator[_Producer]:
    for session in sessions_of(call):
        for number, (address, created_ms) in list(session.producers.items()):
            yield _Producer(session, number, address, created_ms)


def _users(session: Session) -> str:
    return session.validated_user or session.user or ""


def _host(peer: str) -> str:
    return peer.rpartition(":")[0] or peer


def _time_column(read: Callable[[Any], int]) -> Column:
    """Return a column of times in Unix milliseconds, which rows show as texts of Java."""
    return Column(read, is_number=True, show=time_text)


# -- paged -----------------------------------------------------------------------------------------------------------


def _connection_columns(call: Call) -> dict[str, Column]:
    by_connection: dict[ClientConnection, list[Session]] = {}
    for session in sessions_of(call):
        if session.connection is not None:
            by_connection.setdefault(session.connection, []).append(session)

    def users(connection: ClientConnection) -> str:
        return ",".join(sorted({name for each in by_connection.get(connection, ()) if (name := _users(each))}))

    return {
        "connectionID": Column(lambda connection: connection.connection_id),
        "remoteAddress": Column(lambda connection: connection.peer),
        "users": Column(users),
        "creationTime": _time_column(lambda connection: connection.created_ms),
        "implementation": Column(lambda connection: type(connection).__name__),
        "protocol": Column(lambda connection: connection.protocol),
        "clientID": Column(lambda connection: connection.client_id),
        "localAddress": Column(lambda connection: None),
        "sessionCount": Column(
            lambda connection: len(by_connection.get(connection, ())), is_number=True, stays_number=True
        ),
        # The PROXY protocol is not used.
        "proxyAddress": Column(lambda connection: None),
        "proxyProtocolVersion": Column(lambda connection: None),
    }


def _client_of(session: Session) -> ClientConnection:
    assert session.connection is not None
    return session.connection


_SESSION_COLUMNS: dict[str, Column] = {
    "id": Column(lambda session: session.name),
    "user": Column(lambda session: session.user),
    "validatedUser": Column(lambda session: session.validated_user),
    "creationTime": _time_column(lambda session: session.created_ms),
    "consumerCount": Column(lambda session: len(session.consumers), is_number=True, stays_number=True),
    "producerCount": Column(lambda session: len(session.producers), is_number=True, stays_number=True),
    "connectionID": Column(lambda session: _client_of(session).connection_id),
    "clientID": Column(lambda session: _client_of(session).client_id),
}

_CONSUMER_COLUMNS: dict[str, Column] = {
    "id": Column(lambda pair: pair[1].sequential_id, is_number=True),
    "session": Column(lambda pair: pair[0].name),
    "clientID": Column(lambda pair: _client_of(pair[0]).client_id),
    "user": Column(lambda pair: pair[0].user),
    "validatedUser": Column(lambda pair: pair[0].validated_user),
    "protocol": Column(lambda pair: _client_of(pair[0]).protocol),
    "queue": Column(lambda pair: pair[1].queue.name),
    "queueType": Column(lambda pair: "anycast" if pair[1].queue.definition.routing_type else "multicast"),
    "filter": Column(lambda pair: pair[1].filter_text),
    "address": Column(lambda pair: pair[1].queue.definition.address),
    "localAddress": Column(lambda pair: None),
    "remoteAddress": Column(lambda pair: _client_of(pair[0]).peer),
    "creationTime": _time_column(lambda pair: pair[1].created_ms),
    "messagesInTransit": Column(lambda pair: len(pair[1].unsettled), is_number=True),
    "messagesInTransitSize": Column(lambda pair: transit_size(pair[1]), is_number=True),
    "messagesAcknowledgedAwaitingCommit": Column(lambda pair: awaiting_commit(pair[1]), is_number=True),
    "status": Column(lambda pair: "OK"),
}


_PRODUCER_COLUMNS: dict[str, Column] = {
    "id": Column(lambda producer: producer.number, is_number=True),
    "name": Column(lambda producer: str(producer.number)),
    "session": Column(lambda producer: producer.session.name),
    "clientID": Column(lambda producer: _client_of(producer.session).client_id),
    "user": Column(lambda producer: producer.session.user),
    "validatedUser": Column(lambda producer: producer.session.validated_user),
    "protocol": Column(lambda producer: _client_of(producer.session).protocol),
    "address": Column(lambda producer: producer.address or _ANONYMOUS),
    "localAddress": Column(lambda producer: None),
    "remoteAddress": Column(lambda producer: _client_of(producer.session).peer),
    "creationTime": Column(lambda producer: producer.created_ms, is_number=True),
}


def _list_producers(call: Call, options: str | None, page: int | None, page_size: int | None) -> Work:
    return page_of(_producers(call), _PRODUCER_COLUMNS, options, page, page_size, "creationTime")


def _list_connections(call: Call, options: str | None, page: int | None, page_size: int | None) -> Work:
    connections = list(call.kernel.clients.connections)
    return page_of(connections, _connection_columns(call), options, page, page_size, "connectionID")


def _list_sessions(call: Call, options: str | None, page: int | None, page_size: int | None) -> Work:
    return page_of(sessions_of(call), _SESSION_COLUMNS, options, page, page_size, "id")


def _list_consumers(call: Call, options: str | None, page: int | None, page_size: int | None) -> Work:
    return page_of(_consumers(call), _CONSUMER_COLUMNS, options, page, page_size, "id")


# -- whole -----------------------------------------------------------------------------------------------------------


def _connections_json(call: Call) -> Work:
    counts: dict[ClientConnection | None, int] = {}
    for session in sessions_of(call):
        counts[session.connection] = counts.get(session.connection, 0) + 1
    rows = Rows()
    for connection in list(call.kernel.clients.connections):
        rows.add(
            {
                "connectionID": connection.connection_id,
                "clientAddress": connection.peer,
                "creationTime": connection.created_ms,
                "implementation": type(connection).__name__,
                "sessionCount": counts.get(connection, 0),
            }
        )
        yield
    return rows.text()


def _session_json(session: Session) -> dict[str, object]:
    validated = session.validated_user
    return {
        "sessionID": session.name,
        "creationTime": session.created_ms,
        "consumerCount": len(session.consumers),
        **({"validatedUser": validated} if validated else {}),
        **({"principal": session.user} if session.user else {}),
        **({"metadata": dict(session.metadata)} if session.metadata else {}),
    }


def _rows_of_sessions(sessions: list[Session]) -> Work:
    rows = Rows()
    for session in sessions:
        rows.add(_session_json(session))
        yield
    return rows.text()


def _all_sessions_json(call: Call) -> Work:
    return _rows_of_sessions(sessions_of(call))


def _sessions_json(call: Call, connection_id: str | None) -> Work:
    return _rows_of_sessions(_sessions_of(call, connection_id))


def _consumer_json(session: Session | None, consumer: Consumer) -> Generator[None, None, dict[str, object]]:
    """Describe a consumer as Artemis' lists of JSON do."""
    connection = session.connection if session is not None else None
    size = yield from transit_size(consumer)
    count = yield from awaiting_commit(consumer)
    return {
        "consumerID": consumer.key,
        "sequentialId": consumer.sequential_id,
        "connectionID": connection.connection_id if connection is not None else None,
        "sessionID": session.name if session is not None else None,
        "browseOnly": consumer.browse,
        "creationTime": consumer.created_ms,
        "messagesInTransit": len(consumer.unsettled),
        "messagesInTransitSize": size,
        "messagesAcknowledgedAwaitingCommit": count,
        "status": "OK",
    }


def consumers_of(queue: Queue) -> list[tuple[Session | None, Consumer]]:
    """Return consumers and browsers of a queue, with their sessions."""
    return [
        (consumer.owner if isinstance(consumer.owner, Session) else None, consumer)
        for consumer in (*queue.consumers, *queue.browsers)
    ]


def consumer_rows(consumers: Iterable[tuple[Session | None, Consumer]]) -> Work:
    """Return a JSON array of the consumers of one queue."""
    rows = Rows()
    for session, consumer in consumers:
        row = yield from _consumer_json(session, consumer)
        rows.add(row)
        yield
    return rows.text()


def _rows_with_queues(consumers: Iterable[tuple[Session, Consumer]]) -> Work:
    """Return a JSON array of consumers of several queues, which has the older name of the messages in transit, too."""
    rows = Rows()
    for session, consumer in consumers:
        row = yield from _consumer_json(session, consumer)
        row |= {"queueName": consumer.queue.name, "deliveringCount": row["messagesInTransit"]}
        rows.add(row | ({"filter": consumer.filter_text} if consumer.filter_text else {}))
        yield
    return rows.text()


def _all_consumers_json(call: Call) -> Work:
    return _rows_with_queues(_consumers(call))


def _consumers_json(call: Call, connection_id: str | None) -> Work:
    return _rows_with_queues(
        [
            (session, consumer)
            for session in _sessions_of(call, connection_id)
            for consumer in session.consumers.values()
        ]
    )


def _producers_json(call: Call) -> Work:
    rows = Rows()
    for producer in _producers(call):
        rows.add(
            {
                "id": str(producer.number),
                "name": str(producer.number),
                "connectionID": _client_of(producer.session).connection_id,
                "sessionID": producer.session.name,
                "creationTime": str(producer.created_ms),
                "destination": producer.address or _ANONYMOUS,
            }
        )
        yield
    return rows.text()


def _connection_ids(call: Call) -> list[str]:
    return [connection.connection_id for connection in call.kernel.clients.connections]


def _session_names(call: Call, connection_id: str | None) -> list[str]:
    return [session.name for session in _sessions_of(call, connection_id)]


def _remote_addresses(call: Call, address: str | None = None) -> list[str]:
    peers = [connection.peer for connection in call.kernel.clients.connections]
    return [peer for peer in peers if address is None or _host(peer) == _host(address) or peer == address]


# -- closing ---------------------------------------------------------------------------------------------------------


def _close_connections(connections: list[ClientConnection]) -> bool:
    for connection in connections:
        connection.close_by_management()
    return bool(connections)


def _close_connection(call: Call, connection_id: str | None) -> bool:
    return _close_connections([each for each in call.kernel.clients.connections if each.connection_id == connection_id])


def _close_address(call: Call, address: str | None) -> bool:
    return _close_connections(
        [each for each in call.kernel.clients.connections if address is not None and each.peer.startswith(address)]
    )


def _close_user(call: Call, user: str | None) -> bool:
    wanted = {
        session.connection: None
        for session in sessions_of(call)
        if session.connection is not None and user and user in (session.user, session.validated_user)
    }
    return _close_connections(list(wanted))


def _close_consumers_of(call: Call, address_match: str | None) -> bool:
    """Close the connections with a consumer of an address that matches; wildcards are those of address settings."""
    matches = Matches({address_match or "": None})
    wanted = {
        session.connection: None
        for session, consumer in _consumers(call)
        if session.connection is not None and matches.of(consumer.queue.definition.address)
    }
    return _close_connections(list(wanted))


def _close_session(call: Call, connection_id: str | None, session_name: str | None, _force: bool | None = None) -> bool:
    for connection in list(call.kernel.clients.connections):
        if connection.connection_id == connection_id:
            return connection.close_session(session_name or "")
    return False


def _close_consumer(call: Call, session_name: str | None, consumer_id: str | None) -> bool:
    for session, consumer in list(_consumers(call)):
        if session.name == session_name and str(consumer.sequential_id) == consumer_id:
            session.close_consumer(consumer.key)
            consumer.port.closed_by_broker(consumer)
            return True
    return False


_CONNECTION = Parameter("connectionID", Kind.TEXT)
_SESSION = Parameter("sessionID", Kind.TEXT)
_CONSUMER = Parameter("consumerID", Kind.TEXT)
_IP = Parameter("ipAddress", Kind.TEXT)

OPERATIONS = (
    Operation("listConnections", PAGE_PARAMETERS, "String", _list_connections, "A page of connections as JSON."),
    Operation("listSessions", PAGE_PARAMETERS, "String", _list_sessions, "A page of sessions as JSON."),
    Operation("listConsumers", PAGE_PARAMETERS, "String", _list_consumers, "A page of consumers as JSON."),
    Operation("listProducers", PAGE_PARAMETERS, "String", _list_producers, "A page of producers as JSON."),
    Operation("listProducersInfoAsJSON", (), "String", _producers_json, "All producers as JSON."),
    Operation("listConnectionsAsJSON", (), "String", _connections_json, "All connections as JSON."),
    Operation("listAllSessionsAsJSON", (), "String", _all_sessions_json, "All sessions as JSON."),
    Operation("listSessionsAsJSON", (_CONNECTION,), "String", _sessions_json, "Sessions of a connection as JSON."),
    Operation("listAllConsumersAsJSON", (), "String", _all_consumers_json, "All consumers as JSON."),
    Operation("listConsumersAsJSON", (_CONNECTION,), "String", _consumers_json, "Consumers of a connection as JSON."),
    Operation("listConnectionIDs", (), "String[]", _connection_ids, "Ids of all connections."),
    Operation("listSessions", (_CONNECTION,), "String[]", _session_names, "Names of the sessions of a connection."),
    Operation("listRemoteAddresses", (), "String[]", _remote_addresses, "Addresses of all clients."),
    Operation("listRemoteAddresses", (_IP,), "String[]", _remote_addresses, "Addresses of clients of one host."),
    Operation(
        "closeConnectionWithID", (_CONNECTION,), "boolean", _close_connection, "Close a connection.", changes=True
    ),
    Operation("closeConnectionsForAddress", (_IP,), "boolean", _close_address, "Close those of a host.", changes=True),
    Operation(
        "closeConnectionsForUser",
        (Parameter("userName", Kind.TEXT),),
        "boolean",
        _close_user,
        "Close those of a user.",
        changes=True,
    ),
    Operation(
        "closeConsumerConnectionsForAddress",
        (Parameter("address", Kind.TEXT),),
        "boolean",
        _close_consumers_of,
        "Close connections with a consumer of an address that matches.",
        changes=True,
    ),
    Operation(
        "closeSessionWithID", (_CONNECTION, _SESSION), "boolean", _close_session, "Close a session.", changes=True
    ),
    Operation(
        "closeSessionWithID",
        (_CONNECTION, _SESSION, Parameter("force", Kind.BOOLEAN)),
        "boolean",
        _close_session,
        "The same; it is always closed by force.",
        changes=True,
    ),
    Operation(
        "closeConsumerWithID", (_SESSION, _CONSUMER), "boolean", _close_consumer, "Close a consumer.", changes=True
    ),
)
