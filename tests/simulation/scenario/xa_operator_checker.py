"""What operators decided about the branches of one transaction manager, and whether the broker stands by it.

Responsible for noticing a decision that was lost, changed, or not forgotten in the end. Does not depend on what a
decision means for messages; the manager does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field

from embedbroker.testing._scene import Moment, Scene
from embedbroker.testing._scripts import Steps
from embedclient.agent import Session
from embedclient.errors import XAException
from embedclient.model import XaCode, Xid

__all__ = ["HEURISTIC", "XaOperatorChecker", "XaRuling"]

#: The codes by which the broker reports them, and whether each means a commit.
HEURISTIC: Mapping[int, bool] = {XaCode.XA_HEURCOM: True, XaCode.XA_HEURRB: False}


@define
class XaRuling:
    """What an operator asked the broker to do about a branch. ``known``: it was carried out, and will survive."""

    commit: bool
    crashes: int
    known: bool = False


@define(eq=False)
class XaOperatorChecker:
    """The decisions about the branches of ``name``, which consumes ``subscription``, if anything."""

    scene: Scene
    name: str
    subscription: str | None
    _rulings: dict[Xid, XaRuling] = field(factory=dict, init=False)
    #: The manager received these, and the broker is to forget them; maybe it has; and it certainly has.
    _heard: dict[Xid, None] = field(factory=dict, init=False)
    _forgetting: set[Xid] = field(factory=set, init=False)
    _forgotten: set[Xid] = field(factory=set, init=False)

    def __contains__(self, xid: Xid) -> bool:
        return xid in self._rulings

    @property
    def has_unforgotten(self) -> bool:
        """Return True if the broker keeps a decision that the manager has received."""
        return bool(self._heard)

    # The operator

    def ask(self, xid: Xid, *, commit: bool) -> None:
        """An operator decides in the broker; others may get what that gives back before the manager is informed."""
        self._rulings[xid] = XaRuling(commit, self.scene.hits[Moment.CRASH])
        if self.subscription is not None and not commit:
            self.scene.ledger.giving_back(self.subscription)

    def answer(self, xid: Xid, *, found: bool) -> XaRuling | None:
        """Note the answer: it is done, or there is nothing to decide any more (None, as if not asked)."""
        ruling = self._rulings.get(xid)
        if ruling is None:
            return None
        self._gave_back(ruling)
        if not found:
            del self._rulings[xid]
            return None
        ruling.known = True
        return ruling

    def take(self, xid: Xid) -> XaRuling | None:
        """The manager has learned what became of the branch."""
        ruling = self._rulings.pop(xid, None)
        if ruling is not None:
            self._gave_back(ruling)
        return ruling

    def _gave_back(self, ruling: XaRuling) -> None:
        if self.subscription is not None and not ruling.commit and not ruling.known:
            self.scene.ledger.gave_back(self.subscription)

    # The manager

    def hear(self, session: Session, xid: Xid, code: XaCode, ruling: XaRuling | None) -> Steps:
        """The broker reports a decision: the one that was taken there, and it keeps it until it may forget."""
        scene = self.scene
        if ruling is None or HEURISTIC[code] is not ruling.commit:
            self.complain(xid, code)
        else:
            scene.hit(Moment.HEURISTIC_COMMIT if ruling.commit else Moment.HEURISTIC_ROLLBACK)
            if scene.hits[Moment.CRASH] > ruling.crashes:
                scene.hit(Moment.OUTCOME_SURVIVED_CRASH)
        self._heard[xid] = None
        yield from self._forget(session, xid)

    def finish(self, session: Session, found: Iterable[Xid]) -> Steps:
        """Have the broker forget all decisions that it reported; ``found`` is what the broker has in doubt."""
        for xid in found:
            if xid in self._forgotten:
                self.scene.fail(f"{self.name}: {_name(xid)} is forgotten, and there again")
        for xid in list(self._heard):
            yield from self._forget(session, xid)

    def _forget(self, session: Session, xid: Xid) -> Steps:
        assert session.xa is not None, "only an XA session forgets"
        known = xid in self._forgetting
        self._forgetting.add(xid)
        self.scene.operate(self.name, "forgets", _name(xid))
        try:
            yield session.xa.forget(xid)
        except XAException as error:
            if error.error_code != XaCode.XAER_NOTA:
                raise
            if not known:
                self.complain(xid, XaCode.XAER_NOTA)
        del self._heard[xid]
        self._forgetting.discard(xid)
        self._forgotten.add(xid)
        self.scene.hit(Moment.OUTCOME_FORGOTTEN)

    def complain(self, xid: Xid, code: XaCode) -> None:
        """The broker does not stand by a decision."""
        self.scene.fail(f"{self.name}: {code.name} of {_name(xid)} is not what an operator made of it")


def _name(xid: Xid) -> str:
    return xid.global_transaction_id.decode()
