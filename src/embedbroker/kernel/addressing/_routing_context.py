"""The routing context: what is sent and how, and which message goes to which queues.

Only messages that meet more than queues of their broker have one. To those queues alone a message goes unchanged, and
`Bindings.route` returns a plain list of them. Other bindings may need another message, another routing type, or a limit
on where it goes next: a divert sends copies on, and a queue of another broker takes a copy that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

from .._authority import Access
from .._refusal import Refused
from ..message._message import Message
from ..queueing._queue import Queue
from ._address import Address
from ._bindings import Chosen

__all__ = ["Admit", "Route", "RoutingContext"]

Admit: TypeAlias = Callable[[Message, Address], "bool | Refused"]
"""Decide whether a copy may come to its address: False for a duplicate, which is left out."""


@frozen
class Route:
    """Pair a message, or a copy of it, with the queues that take it.

    Attributes:
        message: Message with its id.
        address: Address at which it is routed.
        queues: Queues that take it; some may be bound to a wildcard address.
        is_taken: Whether a queue or another binding takes it. Otherwise it is unrouted.
        is_forwarded: Whether it is a copy for another broker, in a store-and-forward queue.
    """

    message: Message
    address: Address
    queues: list[Queue]
    is_taken: bool
    is_forwarded: bool = False


class RoutingContext:
    """Hold how one message is routed, and gather the routes of it and of all its copies, the message first.

    Args:
        routing_type: Routing type of the send; None if the sender named none.
        access: Limits what is created on the way; None for the broker itself.
        admit: Decides about each copy.
        chosen: Bindings that another broker chose for it, which may be gone; None: it came from no other broker. One
            that did goes only to another broker again if that one chose so.
        creates: Whether addresses and queues are created on demand.
        passed: Addresses whose diverts led here.
        routes: Routes so far.
    """

    __slots__ = ("access", "admit", "chosen", "creates", "passed", "routes", "routing_type")

    def __init__(
        self,
        routing_type: int | None,
        access: Access | None,
        admit: Admit,
        *,
        chosen: Chosen | None = None,
        creates: bool = True,
        passed: tuple[str, ...] = (),
        routes: list[Route] | None = None,
    ) -> None:
        self.routing_type = routing_type
        self.access = access
        self.admit = admit
        self.chosen = chosen
        self.creates = creates
        self.passed = passed
        self.routes: list[Route] = [] if routes is None else routes

    def add(self, message: Message, address: Address, queues: list[Queue], *, is_taken: bool) -> None:
        """Add the queues of a message."""
        self.routes.append(Route(message, address, queues, is_taken))

    def behind(self, passed: tuple[str, ...], routing_type: int | None) -> RoutingContext:
        """Return the context of a copy, which has its own routing type; its routes are those of the message, too."""
        return RoutingContext(
            routing_type, self.access, self.admit, creates=self.creates, passed=passed, routes=self.routes
        )
