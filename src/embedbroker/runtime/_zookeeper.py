"""The lock manager over Apache ZooKeeper, through kazoo: for brokers on machines that share no file system.

Responsible for doing lease operations exactly as the seam in ``embedbroker.locks`` describes them, and for translating
kazoo's errors into ``LockFault``. Does not depend on which broker should hold what.

A lease is an ephemeral node, ``<namespace>/<key>/locks/lease``, which the ensemble removes with the session that made
it. An epoch is ``<namespace>/<key>/activation-sequence``, eight bytes, big-endian, as in Artemis. Every answer about a
lease comes from the ensemble, so the ensemble counted the session's time from a moment after the work was handed out.
The right lasts ``session-percent`` of that time: the rest covers clocks that differ and answers that are late. The base
is the time that the ensemble granted, which has limits set by the ensemble, and not the requested time.

kazoo has two threads, for the connection and for its callbacks. They begin with the first operation.
"""

from __future__ import annotations

import logging
import struct
import threading
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from attrs import frozen

from embedbroker.locks import (
    GiveLease,
    KeepLease,
    Lease,
    LeaseOperation,
    LockFault,
    ReadLeaseHolder,
    ReadSequence,
    SwapSequence,
    TakeLease,
)

from ._forks import ends_in_child
from ._threads import run_at_most

__all__ = ["ZooKeeperLockManager", "ZooKeeperSettings"]

_logger = logging.getLogger("embedbroker.broker")
_NUMBER = struct.Struct(">q")
# How long the end of a session may take: the broker's shutdown waits for it, with everything else at a stop.
_CLOSED_WITHIN_S = 1.0
# How kazoo dials an ensemble that is away. By default it doubles the delay each time, up to an hour and more. That is
# longer than a lease lasts, and than a failover may wait.
_DIALS = {"max_tries": -1, "delay": 0.1, "max_delay": 0.5}
T = TypeVar("T")


@frozen
class ZooKeeperSettings:
    """The properties of Artemis' ``CuratorDistributedLockManager``, with its defaults."""

    #: The servers of the ensemble: ``host:port``, separated by commas.
    connect_string: str
    #: The path in front of all nodes; empty for none.
    namespace: str = ""
    #: The session time that is requested of the ensemble, in milliseconds: 1,000 to 3,600,000.
    session_ms: int = 18_000
    #: The part of the granted session time that a lease lasts, in percent: 1 to 100.
    session_percent: int = 33
    #: How long to wait for a connection, and for each answer, in milliseconds: 1 to 3,600,000. It should not be above
    #: ``session_ms``.
    connection_ms: int = 8_000
    #: How often an operation is tried again after a lost connection: -1 to 1,000,000.
    retries: int = 1
    #: The pause before each further attempt, in milliseconds: 0 to 3,600,000.
    retries_ms: int = 1_000

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ZooKeeperSettings:
        """Build the settings from the texts of a configuration.

        Raises:
            ValueError: a property is missing, unknown or out of its range; the text names it.
        """
        known = {"connect-string", "namespace", *_RANGES}
        for name in properties:
            if name not in known:
                raise ValueError(f"property {name!r} is not one of {', '.join(sorted(known))}")
        if not properties.get("connect-string"):
            raise ValueError("needs the property connect-string, such as 'host-a:2181,host-b:2181,host-c:2181'")
        numbers = {name: _number(name, properties[name]) for name in _RANGES if name in properties}
        namespace = properties.get("namespace", "").strip("/")
        if namespace and any(part in ("", ".", "..") for part in namespace.split("/")):
            raise ValueError(f"property namespace cannot be the path of a node: {namespace!r}")
        settings = cls(
            properties["connect-string"],
            namespace,
            **{name.replace("-", "_"): number for name, number in numbers.items()},
        )
        if settings.connection_ms > settings.session_ms:
            _logger.warning(
                "lock_manager: connection-ms=%d is above session-ms=%d: a session is over before an attempt to reach"
                " the ensemble is given up; lower connection-ms",
                settings.connection_ms,
                settings.session_ms,
            )
        return settings

    def lease_of(self, session_ms: int) -> Lease:
        """Return the right granted by a session that lasts ``session_ms`` without contact."""
        return Lease(session_ms * self.session_percent / 100_000)


_RANGES = {
    "session-ms": (1_000, 3_600_000),
    "session-percent": (1, 100),
    "connection-ms": (1, 3_600_000),
    "retries": (-1, 1_000_000),
    "retries-ms": (0, 3_600_000),
}


def _number(name: str, text: str) -> int:
    least, most = _RANGES[name]
    if not text.removeprefix("-").isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"property {name} must be a number from {least} to {most}, not {text!r}")
    return int(text)


class _Stat(Protocol):
    version: int
    ephemeralOwner: int


class _Result(Protocol):
    def get(self, block: bool = True, timeout: float | None = None) -> object: ...


class _Client(Protocol):
    """The part of kazoo's client that is used here; kazoo has no types."""

    @property
    def client_id(self) -> tuple[int, bytes] | None: ...
    def start_async(self) -> threading.Event: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    def sync_async(self, path: str) -> _Result: ...
    def get_async(self, path: str) -> _Result: ...
    def set_async(self, path: str, value: bytes, version: int) -> _Result: ...
    def delete_async(self, path: str) -> _Result: ...
    def create_async(self, path: str, value: bytes, *, ephemeral: bool, makepath: bool) -> _Result: ...


class ZooKeeperLockManager:
    """The ensemble at ``connect-string``. The first operation dials it."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self.settings = settings

    def open(self, holder: str) -> _ZooKeeperSession:
        """Begin a session.

        Raises:
            LockFault: kazoo is not installed, or cannot read the connect-string.
        """
        try:
            from kazoo.client import KazooClient
        except ImportError:
            raise LockFault(
                "the lock manager needs kazoo, which is not installed: pip install 'embedbroker[zookeeper]'"
            ) from None
        try:
            KazooClient(hosts=self.settings.connect_string)
        except ValueError as error:
            raise LockFault(
                f"property connect-string must be such as 'host-a:2181,host-b:2181', not"
                f" {self.settings.connect_string!r}: {error}"
            ) from error
        return _ZooKeeperSession(self.settings, holder)


class _ZooKeeperSession:
    immediate = False

    def __init__(self, settings: ZooKeeperSettings, holder: str) -> None:
        self._settings = settings
        self._data = f"{holder} {uuid.uuid4()}".encode()
        self._client: _Client | None = None
        # Set while there is a connection.
        self._connection: threading.Event | None = None
        # The session time that the ensemble granted with the current or the last connection.
        self._granted_ms: int | None = None
        self._closed = threading.Event()
        self._guard = threading.Lock()
        ends_in_child(self)

    def run(self, operations: tuple[LeaseOperation, ...]) -> tuple[object, ...]:
        try:
            with self._guard:
                if self._closed.is_set():
                    raise LockFault("the session was closed")
                client = self._connected()
                return tuple([self._attempt(client, operation) for operation in operations])
        finally:
            # Closed meanwhile by another thread, which found the guard taken and left the rest to this one.
            if self._closed.is_set():
                self.close()

    def close(self) -> None:
        """Release everything. A batch that is under way does so at its end, and waits for nothing from now on."""
        self._closed.set()
        if self._guard.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._guard.release()

    def _end(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            # An ensemble that does not answer must not delay the end of a broker.
            run_at_most(_CLOSED_WITHIN_S, partial(_end, client), "end of a ZooKeeper session")

    def end_in_child(self) -> None:
        # kazoo's threads do not exist in a forked child. The ensemble ends the session of a parent that sends nothing.
        self._guard = threading.Lock()
        self._closed = threading.Event()
        self._closed.set()
        self._client = None

    def _connected(self) -> _Client:
        """Return a client that is connected to the ensemble. kazoo connects by itself, and again after every loss."""
        from kazoo.client import KazooClient

        settings = self._settings
        if self._client is None:
            self._client = KazooClient(
                hosts=settings.connect_string, timeout=settings.session_ms / 1000, connection_retry=dict(_DIALS)
            )
            self._granted_ms = None
            _listen_for_grants(self._client, self._on_granted)
            try:
                self._connection = self._client.start_async()
            except RuntimeError as error:  # its threads did not start
                self._client = None
                raise LockFault(f"kazoo does not start: {error}", passes=True) from error
        client, connection = self._client, self._connection
        if client is None or connection is None or not connection.wait(settings.connection_ms / 1000):
            raise LockFault(
                f"ZooKeeper at {settings.connect_string} does not answer: is the ensemble running, and is that its"
                " connect-string?"
            )
        return client

    def _on_granted(self, session_ms: int) -> None:
        # Runs in a thread of kazoo's, before it reads any answer of that connection.
        self._granted_ms = session_ms

    def _right(self) -> Lease:
        if self._granted_ms is None:
            raise LockFault("this version of kazoo does not tell how long a session lasts: install one that is older")
        return self._settings.lease_of(self._granted_ms)

    def _attempt(self, client: _Client, operation: LeaseOperation) -> object:
        try:
            return self._try(client, operation)
        except LockFault:
            if isinstance(operation, TakeLease | GiveLease):
                # The lease may exist without an owner that releases it: a session that continues would exclude every
                # other broker.
                self._end()
            raise

    def _try(self, client: _Client, operation: LeaseOperation) -> object:
        from kazoo.exceptions import ConnectionLoss, KazooException
        from kazoo.handlers.threading import KazooTimeoutError

        if "/" in operation.key or operation.key in ("", ".", ".."):
            raise LockFault(f"{operation.key!r} cannot be the name of a node")
        settings, attempts = self._settings, 0
        while True:
            attempts += 1
            try:
                return self._do(client, operation)
            except (ConnectionLoss, KazooTimeoutError) as error:
                # A swapped number would not have the expected value at the second attempt.
                again = not isinstance(operation, SwapSequence) and attempts <= settings.retries
                if not again or self._closed.is_set():
                    raise LockFault(
                        f"ZooKeeper at {settings.connect_string} was lost: {type(error).__name__}"
                    ) from error
                # The session may be closed meanwhile; the rest of the pause is not needed then.
                self._closed.wait(settings.retries_ms / 1000)
            except KazooException as error:
                raise LockFault(
                    f"ZooKeeper at {settings.connect_string}: {type(error).__name__} {error}".rstrip()
                ) from error

    def _do(self, client: _Client, operation: LeaseOperation) -> object:
        match operation:
            case TakeLease(key):
                return self._take(client, self._lease(key))
            case KeepLease(key):
                # A server that is separated from the ensemble answers from its own state until it detects the
                # separation.
                self._wait(client.sync_async(self._path(key)))
                return self._right() if self._is_mine(client, self._lease(key)) else None
            case GiveLease(key):
                if self._is_mine(client, self._lease(key)):
                    _unless_missing(lambda: self._wait(client.delete_async(self._lease(key))))
            case ReadLeaseHolder(key):
                found = self._get(client, self._lease(key))
                return found[0].decode(errors="replace").rpartition(" ")[0] if found is not None else None
            case ReadSequence(key):
                self._wait(client.sync_async(self._path(key)))
                found = self._get(client, self._sequence(key))
                return self._number(key, found[0]) if found is not None else 0
            case SwapSequence(key, expected, new):
                return self._swap(client, key, expected, new)
        return None

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        namespace = self._settings.namespace
        return f"/{namespace}/{key}" if namespace else f"/{key}"

    def _lease(self, key: str) -> str:
        return f"{self._path(key)}/locks/lease"

    def _sequence(self, key: str) -> str:
        return f"{self._path(key)}/activation-sequence"

    def _wait(self, result: _Result) -> object:
        return result.get(timeout=self._settings.connection_ms / 1000)

    def _get(self, client: _Client, path: str) -> tuple[bytes, _Stat] | None:
        found = _unless_missing(lambda: self._wait(client.get_async(path)))
        assert found is None or isinstance(found, tuple)
        return found

    def _is_mine(self, client: _Client, path: str) -> bool:
        from kazoo.exceptions import ConnectionLoss

        found = self._get(client, path)
        if found is None:
            return False
        session = client.client_id
        if session is None:
            # The connection was lost after the answer, so nothing is known about the session.
            raise ConnectionLoss
        return found[1].ephemeralOwner == session[0] and found[0] == self._data

    def _take(self, client: _Client, path: str) -> Lease | None:
        from kazoo.exceptions import NodeExistsError

        try:
            self._wait(client.create_async(path, self._data, ephemeral=True, makepath=True))
        except NodeExistsError:
            if not self._is_mine(client, path):
                return None
        return self._right()

    def _number(self, key: str, data: bytes | None) -> int:
        """Return the number stored under ``key``.

        Refuses a damaged number, as the manager in files does: read as a missing number, it would let an outdated copy
        be live. A node without data has no number yet.
        """
        if data and len(data) != _NUMBER.size:
            raise LockFault(
                f"{self._sequence(key)} in ZooKeeper at {self._settings.connect_string} is damaged, it has to have"
                f" {_NUMBER.size} bytes: put the right one back; or remove it, and node.state beside the journal that"
                " was live last, which becomes a new node"
            )
        number: int = _NUMBER.unpack(data)[0] if data else 0
        return number

    def _swap(self, client: _Client, key: str, expected: int, new: int) -> bool:
        from kazoo.exceptions import BadVersionError, NodeExistsError

        path, data = self._sequence(key), _NUMBER.pack(new)
        found = self._get(client, path)
        try:
            if found is None:
                if expected != 0:
                    return False
                self._wait(client.create_async(path, data, ephemeral=False, makepath=True))
            else:
                if self._number(key, found[0]) != expected:
                    return False
                self._wait(client.set_async(path, data, version=found[1].version))
        except (BadVersionError, NodeExistsError):
            return False
        return True


def _unless_missing(request: Callable[[], T]) -> T | None:
    from kazoo.exceptions import NoNodeError

    try:
        return request()
    except NoNodeError:
        return None


def _listen_for_grants(client: object, report: Callable[[int], None]) -> None:
    """Report the session time that the ensemble grants, with each connection.

    kazoo does not publish that time. It publishes only the time after which it gives up a silent connection: two thirds
    of it. A kazoo version without that attribute reports nothing.
    """
    connection = getattr(client, "_connection", None)
    connect = getattr(connection, "_connect", None)
    if connect is None:
        return

    def connect_and_report(*arguments: object) -> tuple[float, float]:
        read_ms, connect_ms = connect(*arguments)
        report(round(read_ms * 3 / 2))
        return read_ms, connect_ms

    setattr(connection, "_connect", connect_and_report)  # noqa: B010  # kazoo has no types


def _end(client: _Client) -> None:
    client.stop()
    client.close()
