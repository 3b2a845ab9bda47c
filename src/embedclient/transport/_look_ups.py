"""Look-ups of host names that may hang: at most one per name is under way in the process, in a daemon thread.

Responsible for look-ups that come again while they have no result. Does not depend on an event loop, because the pool
of one would lose a thread to each name that hangs, and might wait for it when the program ends.
"""

from __future__ import annotations

import concurrent.futures
import errno
import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Sequence

import outcome

from embedclient.model import ThreadShortage, start_thread

from ._tcp import Found, no_host_name

__all__ = ["look_up", "with_port"]

_Result = concurrent.futures.Future[Sequence[Found]]
# By process, because one that was forked has none of the threads, and by name.
_under_way: dict[tuple[int, str], _Result] = {}


def look_up(host: str, on_end: Callable[[], None]) -> _Result:
    """Look up the addresses of a host for TCP, or join the look-up of the same name that is under way.

    Args:
        host: Name or address.
        on_end: Called in any thread once the result is there.

    Returns:
        The addresses without a port, or an OSError. Other callers share it, so it must not be cancelled.
    """
    result: _Result = concurrent.futures.Future()
    key = os.getpid(), host
    shared = _under_way.setdefault(key, result)
    if shared is result:
        _begin(key, result)
    shared.add_done_callback(lambda _: on_end())
    return shared


def with_port(found: Sequence[Found], port: int) -> list[Found]:
    """Return the addresses with a port."""
    return [(*kind, (address[0], port, *address[2:])) for *kind, address in found]  # type: ignore[misc]


def _begin(key: tuple[int, str], result: _Result) -> None:
    host = key[1]
    if _is_address(host):
        _run(key, result)
        return
    thread = threading.Thread(target=_run, args=(key, result), name=f"embedclient look-up of {host}", daemon=True)
    try:
        start_thread(thread.start, f"looking up the name {host!r}")
    except (ThreadShortage, RuntimeError) as error:
        del _under_way[key]
        result.set_exception(OSError(errno.EAGAIN, str(error)))


def _run(key: tuple[int, str], result: _Result) -> None:
    host = key[1]
    # Without a result the callers would wait for ever.
    ended = outcome.capture(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
    del _under_way[key]
    if isinstance(ended, outcome.Value):
        result.set_result(ended.value)
    else:
        result.set_exception(no_host_name(host) if isinstance(ended.error, ValueError) else ended.error)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
