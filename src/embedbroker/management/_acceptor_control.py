"""The control ``acceptor``: a place on the network where a broker accepts connections.

Responsible for the attributes and operations of Artemis. Does not depend on listeners and connections: a task of the
host starts and stops them.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker.config import AcceptorConfig
from embedbroker.kernel import Kernel, TaskKind

from ._registry import Attribute, Call, Control, HostCall, Operation
from ._transports import Transport, as_json, as_rows, tls_parameters

__all__ = ["ACCEPTOR", "ACCEPTOR_ATTRIBUTES", "ACCEPTOR_FACTORY"]

ACCEPTOR_FACTORY = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyAcceptorFactory"


def _parameters(acceptor: AcceptorConfig) -> dict[str, str]:
    """Return the parameters as a URL of Artemis has them: texts, without passwords."""
    timeout_ms = acceptor.handshake_timeout_ms
    optional = {
        "anycastPrefix": ",".join(acceptor.anycast_prefixes) or None,
        "multicastPrefix": ",".join(acceptor.multicast_prefixes) or None,
        "clusterConnection": acceptor.cluster_connection,
        "connectionsAllowed": acceptor.connections_max,
        "handshake-timeout": None if timeout_ms is None else f"{timeout_ms / 1000:g}",
    }
    return {
        "scheme": "tcp",
        "host": acceptor.host,
        "port": str(acceptor.port),
        **{name: str(value) for name, value in optional.items() if value is not None},
        **tls_parameters(acceptor.tls),
    }


def _acceptor(call: Call) -> AcceptorConfig:
    return next(each for each in call.kernel.config.listens_at if each.name == call.name)


def _same(answer: object) -> object:
    return answer


def _started(call: Call) -> HostCall:
    return HostCall(TaskKind.LOOK_AT_ACCEPTOR, call.name, _same)


def _start(call: Call) -> HostCall:
    started = call.kernel.observers.commit.acceptor_started
    return _switch(call, TaskKind.START_ACCEPTOR, started, f"started acceptor {call.name!r}")


def _stop(call: Call) -> HostCall:
    stopped = call.kernel.observers.commit.acceptor_stopped
    return _switch(call, TaskKind.STOP_ACCEPTOR, stopped, f"stopped acceptor {call.name!r}: its connections are closed")


def _switch(call: Call, task: TaskKind, observers: list[Callable[..., None]], line: str) -> HostCall:
    def finish(port: object) -> None:
        # No port: the acceptor was in that state already.
        if isinstance(port, int) and port:
            call.kernel.observers.call(observers, _acceptor(call).host, port)
            _log(call, line)

    return HostCall(task, call.name, finish)


def _reload(call: Call) -> HostCall:
    def finish(_answer: object) -> None:
        _log(call, f"reloaded the TLS files of acceptor {call.name!r}")

    return HostCall(TaskKind.RELOAD_ACCEPTOR, call.name, finish)


def _log(call: Call, line: str) -> None:
    call.kernel.inform(f"management: {call.caller} {line}")


def _exists(kernel: Kernel, name: str) -> bool:
    return any(name == each.name for each in kernel.config.listens_at)


ACCEPTOR = Control(
    "acceptor",
    (
        Attribute("Name", "String", lambda call: call.name, "Name."),
        Attribute("FactoryClassName", "String", lambda call: ACCEPTOR_FACTORY, "Class that makes it in Artemis."),
        Attribute(
            "Parameters", "Map", lambda call: _parameters(_acceptor(call)), "Parameters of its URL; no passwords."
        ),
        Attribute("Started", "boolean", _started, "It accepts connections."),
    ),
    (
        Operation("start", (), "void", _start, "Accept connections again, on the same port.", changes=True),
        Operation(
            "stop", (), "void", _stop, "Accept no more connections, and close those that came over it.", changes=True
        ),
        Operation("reload", (), "void", _reload, "Read the files of TLS again, for new connections.", changes=True),
    ),
    _exists,
)


def _acceptors(call: Call) -> list[Transport]:
    return [Transport(each.name, ACCEPTOR_FACTORY, _parameters(each)) for each in call.kernel.config.listens_at]


ACCEPTOR_ATTRIBUTES = (
    Attribute(
        "Acceptors",
        "Object[]",
        lambda call: as_rows(_acceptors(call)),
        "Name, class and parameters of each acceptor.",
    ),
    Attribute("AcceptorsAsJSON", "String", lambda call: as_json(_acceptors(call)), "The same as JSON."),
)
