"""Messages that cannot be parsed, sent on to a dead letter address by the task that found them.

Responsible for each of them arriving once, however often a task is run: a copy has a duplicate id made of its place.
Refuses to take the original out of its queue; it goes with its range.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from embedclient.blocking import ClientSession
from embedclient.errors import DuplicateIDException, JMSException

from ._frames import Block
from ._link import Link
from ._options import SourceOptions
from ._rows import Poison

__all__ = ["DeadLetters"]

# What brokers write into dead letters of their own (Message.HDR_ORIGINAL_ADDRESS and its siblings in Artemis).
_ORIGINAL_ADDRESS = "_AMQ_ORIG_ADDRESS"
_ORIGINAL_QUEUE = "_AMQ_ORIG_QUEUE"
_ORIGINAL_MESSAGE_ID = "_AMQ_ORIG_MESSAGE_ID"
_DUPLICATE_ID = "_AMQ_DUPL_ID"
_REASON = "embedbroker_reason"
_REASON_CHARACTERS_MAX = 1_000


class DeadLetters:
    """Sends them over a session of its own, which is opened for the first one. Use it as a context."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._session: ClientSession | None = None

    def send(self, queue: str, block: Block, poison: list[Poison]) -> None:
        """Send a copy of each, and wait until the broker has them."""
        if not poison:
            return
        if self._session is None:
            self._session = Link.shared(self._options.connection).session()
        address = self._options.dead_letter_address
        copies = []
        for each in poison:
            message = block.message(each.place)
            copies.append(
                message.copy_for(
                    address,
                    changes={
                        _ORIGINAL_ADDRESS: message.address,
                        _ORIGINAL_QUEUE: queue,
                        _ORIGINAL_MESSAGE_ID: each.place.message_id,
                        _DUPLICATE_ID: f"embedbroker:{queue}:{each.place.position or each.place.message_id}",
                        _REASON: each.reason[:_REASON_CHARACTERS_MAX],
                    },
                    removals=(),
                    expiration=0,
                ).raw
            )
        with self._session.create_producer(address) as producer:
            for _, error in producer.send_encoded(copies, confirmed=True):
                if not isinstance(error, DuplicateIDException):
                    raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except JMSException:  # it was lost with its connection
                pass
