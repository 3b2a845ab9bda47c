"""From a connector to a byte pipe.

Responsible for which transport a connector names, and with which parameters. Does not depend on the caller or its
purpose.
"""

from __future__ import annotations

import trio

from embedclient.model import IN_VM_CONNECTOR_FACTORY, TransportConfiguration, unfit_parameter

from ._registry import vm_connect
from ._stream import ByteStream, TransportLost
from ._tcp import connect_tcp
from ._tls_stream import TLSDial


async def dial(configuration: TransportConfiguration, timeout_s: float) -> ByteStream:
    """Open the byte pipe that a connector names.

    Args:
        timeout_s: seconds for the whole attempt.

    Raises:
        TransportLost: no peer answered within ``timeout_s``, TLS could not be established, or a parameter of the
            connector has an impossible value; the reason names the address.
    """
    deadline = trio.current_time() + timeout_s
    parameters = configuration.parameters
    unfit = unfit_parameter(configuration)
    if unfit is not None:
        await trio.lowlevel.checkpoint()
        raise TransportLost(f"cannot connect to {configuration.host}: {unfit}")
    if configuration.factory == IN_VM_CONNECTOR_FACTORY:
        await trio.lowlevel.checkpoint()
        return vm_connect(str(parameters["serverId"]))
    tls = TLSDial(configuration)
    local_address = (str(parameters.get("localAddress", "")), int(parameters.get("localPort", 0)))
    stream = await connect_tcp(
        configuration.host,
        configuration.port,
        timeout_s=timeout_s,
        no_delay=bool(parameters.get("tcpNoDelay", True)),
        local_address=local_address if any(local_address) else None,
        send_buffer_bytes=_size(parameters.get("tcpSendBufferSize")),
        receive_buffer_bytes=_size(parameters.get("tcpReceiveBufferSize")),
    )
    return await tls.establish(stream, deadline)


def _size(value: bool | int | str | None) -> int | None:
    return None if value is None or int(value) < 0 else int(value)
