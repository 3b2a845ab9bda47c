"""Bugs of a broker with XA branches, put in one at a time: prepared ones, shared ones, and decisions of others."""

from __future__ import annotations

import pytest

from embedbroker.kernel import (
    Outcome,
    Recovery,
    Reference,
    Refused,
    Session,
    XaBranches,
    XaRefused,
)
from embedbroker.kernel.transactions._visibility import references_of
from embedbroker.storage import Journal
from embedclient.model import Xid
from tests.simulation.scenario import draw_plan

from .hunting import Bug, last_account, needs

__all__ = ["BRANCH_BUGS"]


def has_branches(seed: int) -> bool:
    plan = draw_plan(seed)
    of_producers = any(producer.plan.branches for producer in plan.producers)
    return of_producers or any(consumer.plan.branches for consumer in plan.consumers)


@needs(has_branches)
def deliver_again_what_a_prepared_branch_took(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "lock_some", lambda self, limit: False)


@needs(has_branches)
def show_what_a_prepared_branch_sent(patch: pytest.MonkeyPatch) -> None:
    finish = Recovery.finish

    def early(self: Recovery) -> None:
        finish(self)
        for branch in self._kernel.branches.prepared():
            transaction = branch.transaction
            for queue, reference in references_of(transaction.sent, self._kernel.ids.take(transaction.places + 1)):
                message = reference.message
                self._kernel.memory.hold(message.message_id, queue.definition.address, message.memory_size, 1)
                queue.publish(reference)

    patch.setattr(Recovery, "finish", early)


@needs(has_branches)
def commit_half_of_a_branch(patch: pytest.MonkeyPatch) -> None:
    commit = XaBranches.commit

    def halved(self: XaBranches, session: Session, xid: Xid, *, one_phase: bool) -> XaRefused | Refused | None:
        branch = self._branches.get(xid)
        if branch is not None and len(branch.transaction.acknowledged) > 1:
            queue, references, _outcome, _consumer = branch.transaction.acknowledged.pop()
            self._transactions.settlement.settle(queue, references, Outcome.FAILED)
        return commit(self, session, xid, one_phase=one_phase)

    patch.setattr(XaBranches, "commit", halved)


def forget_what_an_operator_decided(patch: pytest.MonkeyPatch) -> None:
    """It does not come back after a restart."""
    patch.setattr(XaBranches, "restore_outcome", lambda self, outcome: None)


def tell_a_manager_nothing_of_an_operator(patch: pytest.MonkeyPatch) -> None:
    decide = XaBranches.decide

    def secretive(self: XaBranches, xid: Xid, *, commit: bool) -> bool:
        found = decide(self, xid, commit=commit)
        self._outcomes.pop(xid, None)
        return found

    patch.setattr(XaBranches, "decide", secretive)


def remember_what_is_to_be_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A decision is there again after a restart."""
    patch.setattr(Journal, "remove_outcome", lambda self, transaction_id: None)


def show_what_an_operator_rolled_back(patch: pytest.MonkeyPatch) -> None:
    decide, account = XaBranches.decide, last_account(patch)

    def leaking(self: XaBranches, xid: Xid, *, commit: bool) -> bool:
        branch = self._branches.get(xid)
        sent = list(branch.transaction.sent) if branch is not None and not commit else []
        for message, queues, _place in sent:
            for queue in queues:
                account().hold(message.message_id, message.address, message.memory_size, 1)
                queue.publish(Reference(message, message.message_id))
        return decide(self, xid, commit=commit)

    patch.setattr(XaBranches, "decide", leaking)


def let_branches_live_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(XaBranches, "run", lambda self, now: None)
    patch.setattr(XaBranches, "next_deadline", lambda self: None)


def lose_what_a_second_session_adds_to_a_branch(patch: pytest.MonkeyPatch) -> None:
    join = XaBranches.join

    def apart(self: XaBranches, session: Session, xid: Xid) -> XaRefused | None:
        refused = join(self, session, xid)
        if refused is None:
            session.transaction = self._transactions.begin()
        return refused

    patch.setattr(XaBranches, "join", apart)


def undo_what_is_suspended(patch: pytest.MonkeyPatch) -> None:
    resume = XaBranches.resume

    def afresh(self: XaBranches, session: Session, xid: Xid) -> XaRefused | None:
        refused = resume(self, session, xid)
        branch = self._branches.get(xid)
        if refused is None and branch is not None:
            branch.transaction.rollback()
            branch.transaction = session.transaction = self._transactions.begin()
        return refused

    patch.setattr(XaBranches, "resume", afresh)


BRANCH_BUGS: list[Bug] = [
    deliver_again_what_a_prepared_branch_took,
    show_what_a_prepared_branch_sent,
    commit_half_of_a_branch,
    forget_what_an_operator_decided,
    tell_a_manager_nothing_of_an_operator,
    remember_what_is_to_be_forgotten,
    show_what_an_operator_rolled_back,
    let_branches_live_for_ever,
    lose_what_a_second_session_adds_to_a_branch,
    undo_what_is_suspended,
]
