"""The consumer of `Connection.consume`: a transacted session that has one consumer.

Responsible for the end of each message: a commit, or a rollback that makes the broker deliver it again.

A commit acknowledges everything that the session has received. Therefore at most one message is unsettled: the next
receive is refused until the block of that message has ended, and every end that is not a commit rolls back.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import NoReturn, TypeVar, overload

from embedclient.errors import (
    IllegalStateException,
    MessageFormatException,
    TransactionOutcomeUnknownException,
    TransactionRolledBackException,
)
from embedclient.model import Destination, JMSMessage, Processing

from ._consumer import MessageConsumer
from ._intake import Intake, MessageListener
from ._listener import Listeners
from ._session import Session

T = TypeVar("T")
_log = logging.getLogger("embedclient")


class WorkConsumer(MessageConsumer):
    """A consumer with a separate session, which ends with it."""

    def __init__(self, listeners: Listeners, intake: Intake, selector: str | None, session: Session) -> None:
        super().__init__(listeners, intake, selector)
        self._session = session
        self._unsettled: JMSMessage | None = None
        # Whether a commit or rollback may be under way whose caller was cancelled.
        self._in_doubt = False

    @overload
    async def receive(self, timeout: None = None) -> JMSMessage: ...

    @overload
    async def receive(self, timeout: float | None) -> JMSMessage | None: ...

    async def receive(self, timeout: float | None = None) -> JMSMessage | None:
        await self._begin()
        try:
            return self._to_process(await super().receive(timeout))
        except MessageFormatException:
            await self._return_unreadable()
            raise

    async def receive_nowait(self) -> JMSMessage | None:
        await self._begin()
        try:
            return self._to_process(await super().receive_nowait())
        except MessageFormatException:
            await self._return_unreadable()
            raise

    async def receive_body(self, kind: type[T], timeout: float | None = None) -> NoReturn:
        _refuse("receive_body()")

    async def receive_body_nowait(self, kind: type[T]) -> NoReturn:
        _refuse("receive_body_nowait()")

    def set_message_listener(self, listener: MessageListener | None) -> None:
        _refuse("set_message_listener()")

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            await self._session.close()

    async def _begin(self) -> None:
        if self._unsettled is not None:
            raise IllegalStateException(
                f"{self._unsettled!r} is not processed: end its block 'message.processing()', or acknowledge it, "
                "before the next message is received"
            )
        if self._in_doubt:
            try:
                await self._session._begin()
            except TransactionOutcomeUnknownException as lost:
                _log.warning("a message was processed, and may be delivered again: %s", lost)
            self._in_doubt = False

    def _to_process(self, message: JMSMessage | None) -> JMSMessage | None:
        if message is not None:
            message.on_acknowledge = Processing(partial(self._finish, message))
            self._unsettled = message
        return message

    async def _return_unreadable(self) -> None:
        """Return a message that counts as received, and that the program cannot get. Later commits exclude it."""
        self._in_doubt = True
        await self._session._roll_back_in_time()

    async def _finish(self, message: JMSMessage, error: BaseException | None) -> bool:
        """Commit, or roll back. Return True if the error of the block ends here."""
        if message is not self._unsettled:
            return _ends_here(message, error)
        self._in_doubt = True
        try:
            if error is None:
                await self._commit(message)
            elif isinstance(error, Exception):
                _log.error("%r was not processed, the broker delivers it again or gives it up", message, exc_info=error)
                await self._session.rollback()
            else:
                # A time-out may have cancelled the block alone. Then the session goes on, and later commits.
                await self._session._roll_back_in_time()
                return False
        finally:
            self._unsettled = None
        self._in_doubt = False
        return error is not None

    async def _commit(self, message: JMSMessage) -> None:
        try:
            async with self._session._committing():
                pass
        except (TransactionRolledBackException, TransactionOutcomeUnknownException) as lost:
            # The broker delivers it again unless the commit took effect. The loop of the program goes on.
            _log.warning("%r was processed, and may be delivered again: %s", message, lost)


def _ends_here(message: JMSMessage, error: BaseException | None) -> bool:
    """Return True if the error of the block of a message that is settled already ends here."""
    if not isinstance(error, Exception):
        return False
    _log.error("%r was acknowledged, and its block failed later", message, exc_info=error)
    return True


def _refuse(call: str) -> NoReturn:
    raise IllegalStateException(
        f"a consumer of connection.consume() has no {call}: receive() the message, and process it in its block "
        "'message.processing()'"
    )


async def open_work_consumer(session: Session, destination: Destination | str, selector: str | None) -> MessageConsumer:
    """Return a consumer that a transacted session is for: they end together."""
    inner = await session.create_consumer(destination, selector)
    return WorkConsumer(session._listeners, inner._intake, selector, session)
