"""The `vm://` names of this process, and the listener of each inside its trio run.

This is the only global state in the package. A name belongs to one trio run, because a memory pipe wakes tasks
directly, and that is only sound inside one run. A request from another run is rejected with an explanation instead of
hanging.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from itertools import count

import trio

from ._memory import memory_pair
from ._stream import ByteStream, TransportLost

_BACKLOG_MAX = 128
_PIPE_LIMIT_BYTES = 262_144

_run_names: trio.lowlevel.RunVar[dict[str, VmListener]] = trio.lowlevel.RunVar("embedclient vm:// names")
# Only distinguishes "no such broker" from "it lives in another run"; never used to reach across.
_everywhere: weakref.WeakSet[VmListener] = weakref.WeakSet()
_everywhere_lock = threading.Lock()

# From the names of both ends to the two ends of a pipe, the client's first.
MakePipe = Callable[[tuple[str, str]], tuple[ByteStream, ByteStream]]


class VmListener:
    """A Listener for one `vm://` name."""

    def __init__(self, name: str, make_pipe: MakePipe) -> None:
        self.name = name
        self.address = f"vm://{name}"
        self.port = 0
        self._make_pipe = make_pipe
        self._waiting: deque[ByteStream] = deque()
        self._acceptors = trio.lowlevel.ParkingLot()
        self._closed = False
        self._serials = count(1)
        self._owner = _names()

    async def accept(self) -> ByteStream:
        # A wait lets others run by that alone.
        if self._waiting or self._closed:
            await trio.lowlevel.checkpoint()
        while True:
            if self._closed:
                raise TransportLost("listener closed here")
            if self._waiting:
                return self._waiting.popleft()
            await self._acceptors.park()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._owner.get(self.name) is self:
            del self._owner[self.name]
        with _everywhere_lock:
            _everywhere.discard(self)
        while self._waiting:
            self._waiting.popleft().close()
        self._acceptors.unpark_all()

    def connect(self) -> ByteStream:
        """Return the client end of a new pipe; its other end waits to be accepted."""
        if len(self._waiting) >= _BACKLOG_MAX:
            raise TransportLost(f"cannot connect to {self.address}: {_BACKLOG_MAX} connections wait to be accepted")
        ours, theirs = self._make_pipe((f"{self.address}#{next(self._serials)}", self.address))
        self._waiting.append(theirs)
        self._acceptors.unpark()
        return ours


def _memory_pipe(names: tuple[str, str]) -> tuple[ByteStream, ByteStream]:
    return memory_pair(_PIPE_LIMIT_BYTES, names=names)


def vm_listen(name: str, make_pipe: MakePipe = _memory_pipe) -> VmListener:
    """Take `vm://name` in this trio run. ``make_pipe`` makes the pipe of each connection, for tests that disturb it.

    Raises:
        OSError: the name is taken in this run.
    """
    names = _names()
    if name in names:
        raise OSError(f"vm://{name} is taken by another broker in this trio run")
    listener = names[name] = VmListener(name, make_pipe)
    with _everywhere_lock:
        _everywhere.add(listener)
    return listener


def vm_connect(name: str) -> ByteStream:
    """Connect to `vm://name` in this trio run.

    Raises:
        TransportLost: the name has no listener, or only in another trio run.
    """
    listener = _names().get(name)
    if listener is not None:
        return listener.connect()
    with _everywhere_lock:
        elsewhere = any(other.name == name for other in _everywhere)
    if elsewhere:
        raise TransportLost(
            f"cannot connect to vm://{name}: that broker runs in another thread or trio run, where vm:// does not "
            "reach; use broker.url (tcp://) instead"
        )
    running = ", ".join(f"vm://{other}" for other in sorted(_names()))
    hint = f"; those that do: {running}" if running else ""
    raise TransportLost(f"cannot connect to vm://{name}: no broker of that name runs here{hint}")


def _names() -> dict[str, VmListener]:
    try:
        return _run_names.get()
    except LookupError:
        names: dict[str, VmListener] = {}
        _run_names.set(names)
        return names
