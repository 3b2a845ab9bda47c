"""The move of prepared XA branches to another broker: each with what it sent, and with what it acknowledged.

Responsible for the order of one branch: the other broker has prepared it before it ends here. Does not depend on the
choice of the other broker, and on connections.

A branch that the other broker has prepared already is one whose answer was lost with a connection: it only ends here.
"""

from __future__ import annotations

from typing import Final

from embedbroker.kernel import Branch, Kernel, Message, Queue, StoredMessage, name_of
from embedclient.agent import Branches, Call, CoreMessage, Producer
from embedclient.errors import JMSException, RemoteProtocolError
from embedclient.model import Xid

from ._address_move import MoveCounts, Route
from ._bridged_upload import BridgedUpload
from ._remote_broker import RemoteBroker, Work, awaited

__all__ = ["BranchMove"]

_ROUTE_TO: Final = "_AMQ_ROUTE_TO"
_ACKNOWLEDGED_AT: Final = "_AMQ_ACK_ROUTE_TO"


class BranchMove:
    """The move of all prepared branches."""

    def __init__(self, kernel: Kernel, remote: RemoteBroker, route: Route, counts: MoveCounts) -> None:
        self._kernel = kernel
        self._remote = remote
        self._route = route
        self._counts = counts
        self._upload: BridgedUpload | None = None
        self._change: Call[None] = Call(None)
        self._unreadable: str | None = None

    def work(self) -> Work[None]:
        """Move all branches.

        Raises:
            JMSException: The other broker refuses the session.
        """
        branches = self._kernel.branches.prepared()
        if not branches:
            return
        session = yield from self._remote.open_session(xa=True)
        assert session.xa is not None
        there = yield from awaited(session.xa.recover())
        producer = session.create_producer(None)
        for branch in branches:
            if branch.xid not in there:
                try:
                    yield from self._move(branch, session.xa, producer)
                except (JMSException, RemoteProtocolError) as error:
                    yield from self._give_up(branch.xid, session.xa, str(error))
                    continue
            self._kernel.branches.claim(branch).hand_over()
            yield None

    def _move(self, branch: Branch, there: Branches, producer: Producer) -> Work[None]:
        """Let the other broker prepare the same branch.

        Raises:
            JMSException, RemoteProtocolError: It does not.
        """
        yield from awaited(there.start(branch.xid))
        transaction = branch.transaction
        by_message: dict[int, tuple[Message, list[Queue]]] = {}
        for queue, reference in transaction.deliveries():
            entry = by_message.setdefault(reference.message.message_id, (reference.message, []))
            entry[1].append(queue)
        for message, queues in list(by_message.values()):
            yield from self._send(message, queues, producer, is_acknowledged=True)
        for message, queues, _place in list(transaction.sent):
            yield from self._send(message, queues, producer, is_acknowledged=False)
        yield from awaited(there.end(branch.xid))
        yield from awaited(there.prepare(branch.xid))

    def _send(self, message: Message, queues: list[Queue], producer: Producer, *, is_acknowledged: bool) -> Work[None]:
        ids = b""
        for queue in queues:
            queue_id = yield from self._remote.queue_id(queue.definition)
            ids += queue_id.to_bytes(8, "big", signed=True)
        original = message.to_core()
        assert isinstance(original, CoreMessage), original
        address = queues[0].definition.address
        copy = original.with_bytes_behind(address, _ROUTE_TO, ids)
        if is_acknowledged:
            copy = copy.with_bytes_behind(address, _ACKNOWLEDGED_AT, ids)
        if isinstance(message, StoredMessage) and message.body_number:
            yield from self._send_large(message, copy, producer)
        else:
            yield from awaited(producer.send_confirmed(copy))

    def _send_large(self, message: StoredMessage, header: CoreMessage, producer: Producer) -> Work[None]:
        upload = producer.open_upload(header, confirmed=True)
        bridged = self._upload = BridgedUpload(self._kernel, message, upload, self._route.chunk_bytes, self)
        while True:
            self._change = Call(None)
            bridged.advance()
            if bridged.is_over:
                break
            yield self._change
        self._upload = None
        unreadable, self._unreadable = self._unreadable, None
        if unreadable is not None:
            raise JMSException(unreadable)
        yield from awaited(upload.call)

    def on_output(self) -> None:
        """Go on with a large message."""
        self._change.succeed(None)

    def on_unreadable(self, upload: BridgedUpload, reason: str) -> None:
        """Keep the branch: the body of one of its messages cannot be read."""
        upload.end()
        self._unreadable = reason
        upload.abort(reason)

    def _give_up(self, xid: Xid, there: Branches, reason: str) -> Work[None]:
        """Keep a branch that the other broker did not prepare, and undo what that one has of it."""
        self._counts.kept += 1
        self._counts.reason = f"{name_of(xid)}: {reason}"
        self._kernel.log(f"scale-down: {self._counts.reason}; it stays here")
        for request in (there.end(xid), there.rollback(xid)):
            if not request.done:
                yield request

    def give_back(self) -> None:
        """Let go of a body that was being read."""
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.end()
