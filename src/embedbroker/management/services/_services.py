"""The services of a broker: all operations that clients can request, and the path of a request through them.

Responsible for the set of operations, for one answer to each request, and for how many requests may wait for their
answers. Does not depend on messages: the caller passes the text of a request and a function that answers it.

An operation is registered by its module's tuple ``OPERATIONS``; ``_MODULES`` joins all of them.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker.kernel import Kernel, Session

from . import _cursors, _markers, _queues
from ._request import OK, Answer, Operation, Request, RequestRefused, read_request, refusal

__all__ = ["REQUESTS_PENDING_MAX", "STATUS_PROPERTY", "VERSION", "Services"]

STATUS_PROPERTY = "embedbroker_status"
"""The property of a reply that holds ``ok``, or the reason of the refusal."""

VERSION = "0.1.0.dev0"
"""Version of this package; a layer without input and output cannot read it from the installation."""

REQUESTS_PENDING_MAX = 1000
"""Maximum number of requests under way at once; further ones are refused as ``busy``."""

_MODULES = (_cursors, _markers, _queues)


class Services:
    """Carry out the requests of clients. ``node_id`` returns the id of the broker, read at the time of the request."""

    __slots__ = ("_kernel", "_node_id", "_operations", "_pending")

    def __init__(self, kernel: Kernel, node_id: Callable[[], str]) -> None:
        self._kernel = kernel
        self._node_id = node_id
        own = Operation("capabilities", self._capabilities)
        operations = (own, *(operation for module in _MODULES for operation in module.OPERATIONS))
        self._operations = {operation.name: operation for operation in operations}
        # Requests that are not answered yet.
        self._pending = 0

    def handle(self, session: Session, text: str | None, respond: Callable[[Answer], None]) -> None:
        """Carry out one request of a session.

        ``respond`` is called once, in this step or a later one. The answer covers only what was recorded before; see
        `Answer.promises`.
        """
        try:
            operation, fields = read_request(text, self._operations)
            if self._pending >= REQUESTS_PENDING_MAX:
                raise RequestRefused("busy", f"{REQUESTS_PENDING_MAX} requests are under way")
        except RequestRefused as refused:
            respond(refusal(refused))
            return
        self._pending += 1

        def answer(given: Answer) -> None:
            self._pending -= 1
            respond(given)

        def answer_in_turn(given: Answer) -> None:
            """Answer behind the records that large requests still owe, if the answer promises it."""
            if given.promises and self._kernel.deferred.waiting:
                self._kernel.deferred.add_action(lambda: answer(given))
            else:
                answer(given)

        request = Request(operation.name, fields, answer, self._kernel.deferred)
        try:
            result = operation.handler(session, request)
        except RequestRefused as refused:
            result = refusal(refused)
        if result is not None:
            answer_in_turn(result)

    def _capabilities(self, _session: Session, _request: Request) -> Answer:
        body = {
            "broker": "embedbroker",
            "version": VERSION,
            "node_id": self._node_id(),
            "operations": sorted(self._operations),
        }
        return Answer(OK, body, promises=False)
