"""Operations that clients request in messages to one reserved address: requests and replies in JSON."""

from ._request import Answer, Handler, Operation, Request, RequestRefused
from ._services import REQUESTS_PENDING_MAX, STATUS_PROPERTY, VERSION, Services

__all__ = [
    "REQUESTS_PENDING_MAX",
    "STATUS_PROPERTY",
    "VERSION",
    "Answer",
    "Handler",
    "Operation",
    "Request",
    "RequestRefused",
    "Services",
]
