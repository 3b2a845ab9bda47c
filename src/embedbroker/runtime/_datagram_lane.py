"""The multicast groups of a node at the edge: sockets that receive and send its datagrams.

Responsible for opening and closing both ends of each endpoint, and for reporting failures to the node. Decides nothing,
and does not depend on the content of a datagram.

Opening a group may wait for the resolution of a name. Datagrams that are sent meanwhile are lost, as any may be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio
from trio.lowlevel import enable_ki_protection

from embedbroker.node import DatagramReceived, GroupFailed, Input, JoinGroup, LeaveGroup, SendDatagram
from embedclient.transport import SystemDatagrams, TransportLost

if TYPE_CHECKING:
    from embedclient.transport import Datagrams, DatagramSender

__all__ = ["DatagramLane"]


class DatagramLane:
    """All groups of one host.

    Args:
        datagrams: Opens the groups; None is UDP.
        nursery: Runs what receives, until it is cancelled.
        feed: Steps the node with an input, or notes it during a step.
    """

    def __init__(self, datagrams: Datagrams | None, nursery: trio.Nursery, feed: Callable[[Input], None]) -> None:
        self._datagrams: Datagrams = SystemDatagrams() if datagrams is None else datagrams
        self._nursery = nursery
        self._feed = feed
        self._receiving: dict[str, trio.CancelScope] = {}
        self._sending: dict[str, trio.CancelScope] = {}
        self._senders: dict[str, DatagramSender] = {}

    def carry_out(self, output: JoinGroup | SendDatagram | LeaveGroup) -> None:
        """Carry out one output of the node."""
        match output:
            case JoinGroup():
                self._cancel(self._receiving, output.endpoint)
                scope = self._receiving[output.endpoint] = trio.CancelScope()
                self._nursery.start_soon(self._receive, output, scope)
            case SendDatagram():
                if output.endpoint in self._senders:
                    self._send(output)
                elif output.endpoint not in self._sending:
                    scope = self._sending[output.endpoint] = trio.CancelScope()
                    self._nursery.start_soon(self._open, output, scope)
            case LeaveGroup():
                self._cancel(self._receiving, output.endpoint)
                self._cancel(self._sending, output.endpoint)

    @staticmethod
    def _cancel(scopes: dict[str, trio.CancelScope], endpoint: str) -> None:
        scope = scopes.pop(endpoint, None)
        if scope is not None:
            scope.cancel()

    @enable_ki_protection
    async def _receive(self, order: JoinGroup, scope: trio.CancelScope) -> None:
        """Step the node with each datagram of a group."""
        with scope:
            try:
                receiver = await self._datagrams.open_receiver(order.group)
                try:
                    while True:
                        self._feed(DatagramReceived(order.endpoint, await receiver.receive()))
                finally:
                    receiver.close()
            except (OSError, TransportLost) as error:
                if not scope.cancel_called:
                    self._feed(GroupFailed(order.endpoint, _text_of(error)))

    @enable_ki_protection
    async def _open(self, order: SendDatagram, scope: trio.CancelScope) -> None:
        """Open what sends to a group, send the first datagram, and keep it until the node leaves the group."""
        endpoint = order.endpoint
        with scope:
            try:
                sender = await self._datagrams.open_sender(order.group)
            except OSError as error:
                if self._sending.get(endpoint) is scope:
                    del self._sending[endpoint]
                    self._feed(GroupFailed(endpoint, _text_of(error)))
                return
            self._senders[endpoint] = sender
            try:
                self._send(order)
                await trio.sleep_forever()
            finally:
                if self._senders.get(endpoint) is sender:
                    del self._senders[endpoint]
                sender.close()

    def _send(self, order: SendDatagram) -> None:
        """Send a datagram. Within a step its failure waits for the end of that step, as every input does."""
        sender = self._senders.get(order.endpoint)
        try:
            if sender is not None:
                sender.send_nowait(order.data)
        except (OSError, TransportLost) as error:
            self._feed(GroupFailed(order.endpoint, _text_of(error)))


def _text_of(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
