"""One request to the broker: its operation, its fields, and the one answer to it.

Responsible for reading the JSON and for naming what is wrong with it. Does not depend on the effect of operations, nor
on the transport of requests and answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from attrs import Factory, define, frozen

from embedbroker.kernel import DeferredWork, Refused, Session

__all__ = [
    "BAD_REQUEST",
    "INTEGER_MAX",
    "INTEGER_MIN",
    "NAME_BYTES_MAX",
    "OK",
    "Answer",
    "Handler",
    "Request",
    "RequestRefused",
    "Service",
    "allowed",
    "read_request",
    "refusal",
]

OK, BAD_REQUEST = "ok", "bad-request"

NAME_BYTES_MAX = 1024
"""UTF-8 bytes of a name in a request, unless its field has another limit."""

INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 63) - 1
"""Numbers in requests must fit into 64 bits."""

_QUOTED_CHARACTERS_MAX = 100

T = TypeVar("T")


@frozen
class Answer:
    """Hold the answer to a request: a JSON object, or bytes for an operation whose answer is not JSON.

    An answer that ``promises`` is sent only when everything recorded before it is durable. An answer that does not
    promise leaves at once: it contains only what is durable in any case.
    """

    status: str
    body: Mapping[str, object] | bytes | bytearray
    promises: bool = True


class RequestRefused(Exception):
    """Refuse a request, which then leaves no trace. ``more`` stands in the answer beside the text."""

    def __init__(self, status: str, text: str, **more: object) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.more = more


def allowed(result: T | Refused) -> T:
    """Return the result of the session's verb.

    Raises:
        RequestRefused: The session refused the verb.
    """
    if isinstance(result, Refused):
        raise RequestRefused("not-allowed", result.text)
    return result


def refusal(refused: RequestRefused) -> Answer:
    """Return the answer that states the refusal.

    A refused request changed nothing, so it promises no more than it saw.
    """
    return Answer(refused.status, {"text": refused.text, **refused.more})


@define(eq=False)
class Request:
    """Hold the fields of one request.

    Reading a field raises RequestRefused if the operation does not accept its value.
    """

    operation: str
    fields: dict[str, object]
    # For operations that take longer than a step: a handler that returns None calls this later, once.
    respond: Callable[[Answer], None]
    #: Where operations put work that takes longer than a step.
    deferred: DeferredWork

    def has(self, name: str) -> bool:
        """Return True if an optional field was given."""
        return name in self.fields

    def text(self, name: str, *, bytes_max: int = NAME_BYTES_MAX, may_be_empty: bool = False) -> str:
        """Return a text of at most ``bytes_max`` UTF-8 bytes."""
        value = self.fields[name]
        if not isinstance(value, str):
            raise self.wrong(name, "has to be a text", value)
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise self.wrong(name, "has to be Unicode text without lone surrogates", value) from None
        if size > bytes_max:
            raise self.wrong(name, f"may have {bytes_max} bytes of UTF-8 at most", value)
        if not value and not may_be_empty:
            raise self.wrong(name, "must not be empty", value)
        return value

    def integer(self, name: str, minimum: int = INTEGER_MIN, maximum: int = INTEGER_MAX) -> int:
        """Return an integer from ``minimum`` to ``maximum``."""
        return self.integer_in(name, self.fields[name], minimum, maximum)

    def integer_or_null(self, name: str, minimum: int = INTEGER_MIN, maximum: int = INTEGER_MAX) -> int | None:
        """Return an integer from ``minimum`` to ``maximum``, or None for null."""
        return None if self.fields[name] is None else self.integer(name, minimum, maximum)

    def integer_in(self, place: str, value: object, minimum: int, maximum: int) -> int:
        """Return a value that must be such an integer; ``place`` names its place in the request."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(place, "has to be an integer", value)
        if not minimum <= value <= maximum:
            raise self.wrong(place, f"has to be from {minimum} to {maximum}", value)
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean field."""
        value = self.fields[name]
        if not isinstance(value, bool):
            raise self.wrong(name, "has to be true or false", value)
        return value

    def wrong(self, place: str, text: str, value: object) -> RequestRefused:
        """Return the refusal of a field, with its value."""
        return RequestRefused(
            BAD_REQUEST, f"{self.operation}: field {place!r} {text}, not {_shown(value)}", field=place
        )


def _shown(value: object) -> str:
    """Return the beginning of a value as text.

    Python cannot print to the end a value nested as deep as it can just be read.
    """
    try:
        return json.dumps(value)[:_QUOTED_CHARACTERS_MAX]
    except RecursionError:
        return "a value that is nested too deep"


Handler: TypeAlias = Callable[[Session, Request], Answer | None]
"""Carry out a request. Returns None if the answer follows later, with ``request.respond``. May raise RequestRefused."""


@frozen
class Service:
    """Describe a service, an operation that clients request in JSON: its name, the fields it takes, and its handler."""

    name: str
    handler: Handler
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    _known: frozenset[str] = Factory(
        lambda self: frozenset(("operation", *self.required, *self.optional)), takes_self=True
    )

    def check(self, fields: dict[str, object]) -> None:
        """Raise RequestRefused if fields are missing or unknown."""
        for name in self.required:
            if name not in fields:
                raise RequestRefused(BAD_REQUEST, f"{self.name}: field {name!r} is missing", field=name)
        for name in fields:
            if name not in self._known:
                shown = name[:_QUOTED_CHARACTERS_MAX]
                raise RequestRefused(BAD_REQUEST, f"{self.name}: field {shown!r} is not known", field=shown)


def read_request(text: str | None, services: Mapping[str, Service]) -> tuple[Service, dict[str, object]]:
    """Return the service that a request names as its operation, and its fields.

    Raises:
        RequestRefused: The request is malformed, or names no such service.
    """
    if text is None:
        raise RequestRefused(BAD_REQUEST, "a request has to be a text message with a JSON object")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(BAD_REQUEST, f"the request is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise RequestRefused(BAD_REQUEST, "the request has to be a JSON object")
    name = fields.get("operation")
    service = services.get(name) if isinstance(name, str) else None
    if service is None:
        raise RequestRefused(BAD_REQUEST, f"the operation {_shown(name)} is not known", field="operation")
    service.check(fields)
    return service, fields
