"""One transaction of a drill's client, from its first work to what the ledger is told about its end."""

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
    work: Callable[[], Awaitable[None]],
    commit: Callable[[], Awaitable[None]],
    undo: Callable[[], Awaitable[None]],
) -> Outcome:
    """Do ``work``, then ``commit``; ``undo`` after a failure that came before the commit. The ledger hears the end."""
    asked = False
    stage.open_transactions += 1
    try:
        await work()
        stage.open_transactions -= 1
        stage.asked_commits += 1
        asked = True
        await commit()
    except JMSException as error:
        outcome = _outcome_of(error, asked)
        if outcome is Outcome.IN_DOUBT:
            stage.ledger.transaction_in_doubt(name)
        else:
            stage.ledger.rolled_back(name)
        if not asked:
            await undo()
        return outcome
    finally:
        if asked:
            stage.asked_commits -= 1
        else:
            stage.open_transactions -= 1
    stage.ledger.committed(name, stage.now())
    return Outcome.COMMITTED


def _outcome_of(error: JMSException, asked: bool) -> Outcome:
    """A commit that was not asked for cannot happen; of one that failed, only one error says that it did not."""
    if not asked:
        return Outcome.ROLLED_BACK
    known = isinstance(error, TransactionRolledBackException) and not isinstance(
        error, TransactionOutcomeUnknownException
    )
    return Outcome.ROLLED_BACK if known else Outcome.IN_DOUBT
