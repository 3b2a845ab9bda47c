"""One batch of a drill's client, from its first work to the report of its end to the ledger.

A batch is a transaction, or what a client acknowledges with one call. Only transactions count as such when a fault
strikes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum

from embedclient.errors import JMSException, TransactionOutcomeUnknownException, TransactionRolledBackException

from ._stage import Stage

__all__ = ["Outcome", "run_transaction"]


class Outcome(Enum):
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    IN_DOUBT = "in doubt"


async def run_transaction(
    stage: Stage,
    name: str,
    work: Callable[[Callable[[], None]], Awaitable[None]],
    commit: Callable[[], Awaitable[None]],
    undo: Callable[[], Awaitable[None]],
    *,
    transacted: bool,
) -> Outcome:
    """Do ``work``, then ``commit``; ``undo`` after a failure before the commit. The ledger receives the outcome.

    ``work`` calls its argument after each piece of work: with the first one a transaction is open.
    """
    was_requested = False

    def worked() -> None:
        if transacted:
            stage.open_transactions.add(name)
        stage.look()

    try:
        await work(worked)
        stage.open_transactions.discard(name)
        stage.requested_commits += transacted
        was_requested = True
        await commit()
    except JMSException as error:
        outcome = _outcome_of(error, was_requested)
        if outcome is Outcome.IN_DOUBT:
            stage.ledger.transaction_in_doubt(name)
        else:
            stage.ledger.rolled_back(name)
        if not was_requested:
            await undo()
        return outcome
    finally:
        stage.open_transactions.discard(name)
        stage.requested_commits -= was_requested and transacted
    stage.ledger.committed(name, stage.run.now())
    return Outcome.COMMITTED


def _outcome_of(error: JMSException, was_requested: bool) -> Outcome:
    """Return the outcome of a failed transaction.

    A commit that was not requested cannot happen. Of a failed commit, only one error means that it did not happen.
    """
    if not was_requested:
        return Outcome.ROLLED_BACK
    known = isinstance(error, TransactionRolledBackException) and not isinstance(
        error, TransactionOutcomeUnknownException
    )
    return Outcome.ROLLED_BACK if known else Outcome.IN_DOUBT
