"""Addresses at which the broker itself takes messages: no queue, no route, no transaction.

Responsible for who takes which. Refuses to know what is asked there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedbroker.kernel import SERVICES_ADDRESS, Refused
from embedclient.wire.core import CoreMessage

from ._management import MANAGEMENT_ADDRESS, refuse_request

if TYPE_CHECKING:
    from ._service import CoreService

__all__ = ["OF_THE_BROKER", "take_request"]

OF_THE_BROKER = frozenset((MANAGEMENT_ADDRESS, SERVICES_ADDRESS))


def take_request(service: CoreService, request: CoreMessage, *, sender_waits: bool) -> Refused | None:
    """Carry out what was sent to one of these addresses."""
    if request.address == MANAGEMENT_ADDRESS:
        return refuse_request(service.kernel, request, sender_waits=sender_waits)
    # Few brokers are asked for anything: what answers is loaded with the first request.
    from ._services import serve_request

    return serve_request(service, request)
