"""The consumer of `Connection.consume`: a transacted session that has one consumer.

Responsible for the end of each message: a commit, or a rollback that makes the broker deliver it again.
"""

from __future__ import annotations

import logging
from functools import partial

from embedclient.errors import TransactionOutcomeUnknownException, TransactionRolledBackException
from embedclient.model import Destination, JMSMessage, Processing

from ._consumer import MessageConsumer
from ._intake import Intake
from ._listener import Listeners
from ._session import Session

_log = logging.getLogger("embedclient")


class WorkConsumer(MessageConsumer):
    """A consumer with a separate session, which ends with it."""

    def __init__(self, listeners: Listeners, intake: Intake, selector: str | None, session: Session) -> None:
        super().__init__(listeners, intake, selector)
        self._session = session

    async def receive(self, timeout: float | None = None) -> JMSMessage | None:
        return self._to_process(await super().receive(timeout))

    async def receive_nowait(self) -> JMSMessage | None:
        return self._to_process(await super().receive_nowait())

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            await self._session.close()

    def _to_process(self, message: JMSMessage | None) -> JMSMessage | None:
        if message is not None:
            message.on_acknowledge = Processing(partial(self._finish, message))
        return message

    async def _finish(self, message: JMSMessage, error: BaseException | None) -> bool:
        """Commit, or roll back. Return True if the error of the block ends here."""
        if error is not None and not isinstance(error, Exception):
            return False  # the session is about to end, which returns the message
        if error is not None:
            _log.error("%r was not processed, the broker delivers it again or gives it up", message, exc_info=error)
            await self._session.rollback()
            return True
        try:
            await self._session.commit()
        except (TransactionRolledBackException, TransactionOutcomeUnknownException) as lost:
            # The broker delivers it again unless the commit took effect. The loop of the program goes on.
            _log.warning("%r was processed, and may be delivered again: %s", message, lost)
        return False


async def open_work_consumer(session: Session, destination: Destination | str, selector: str | None) -> MessageConsumer:
    """Return a consumer that a transacted session is for: they end together."""
    inner = await session.create_consumer(destination, selector)
    return WorkConsumer(session._listeners, inner._intake, selector, session)
