"""Services: operations that programs request as JSON objects in messages to one reserved address."""

from . import _cursors, _markers, _queues
from ._request import OK, Answer, Request, RequestRefused, Service, read_request, refusal

__all__ = ["OK", "SERVICES", "Answer", "Request", "RequestRefused", "Service", "read_request", "refusal"]

SERVICES = (*_cursors.SERVICES, *_markers.SERVICES, *_queues.SERVICES)
"""All services except ``capabilities``, which is the registry's: it lists them."""
