"""The ledger: takes facts about messages one at a time, judges each delivery at once, and sums up on demand.

Facts are idempotent where clients are: an acknowledgement may be asked for twice. Who tells the ledger a fact must
tell it in the order in which things happened. The columns are in ``_accounts``, the end check in ``_audit``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs
from attrs import define, field

from ._accounts import UNORDERED, DestinationAccount, Mark, SendState, SubscriptionAccount, TransactionAccount
from ._audit import TimelineRecorder, audit
from ._verdict import Finding, Kill, Tally, Timeline, Verdict

__all__ = ["Ledger"]

# Plain integers: flag arithmetic on enumerations costs more than all the rest of a delivery.
_KEPT = 0xFF & ~int(Mark.ACKNOWLEDGING | Mark.ACKNOWLEDGED | Mark.DOUBTFUL | Mark.RETURNED)
_EXPECTED, _EXCLUDED, _RETURNED, _SHOWN = (
    int(mark) for mark in (Mark.EXPECTED, Mark.EXCLUDED, Mark.RETURNED, Mark.SHOWN)
)
_ACKNOWLEDGING, _ACKNOWLEDGED = int(Mark.ACKNOWLEDGING), int(Mark.ACKNOWLEDGED)
_DOUBTFUL, _DONE = int(Mark.DOUBTFUL), int(Mark.ACKNOWLEDGED | Mark.MOVED)
_NONE = Finding.NONE
_UNANSWERED, _REFUSED = int(SendState.UNANSWERED), int(SendState.REFUSED)


@define(eq=False)
class Ledger:
    """The account of one run.

    Times are seconds on any one clock. ``examples_max`` limits the keys kept per kind of finding,
    ``expiry_tolerance_s`` is how long after its expiration a delivery still passes. ``expiries_are_found`` says that
    somebody reads the expiry addresses and calls `expired`, so that a message with an expiration can be missed.
    ``counts_survive`` says that deliveries of durable messages are known after a crash, too:
    flags are promised across restarts.
    """

    examples_max: int = 100
    expiry_tolerance_s: float = 0.0
    timeline_bucket_s: float = 1.0
    expiries_are_found: bool = False
    counts_survive: bool = False
    _destinations: dict[str, DestinationAccount] = field(factory=dict, init=False)
    _subscriptions: dict[str, SubscriptionAccount] = field(factory=dict, init=False)
    _slots: dict[str, tuple[DestinationAccount, int]] = field(factory=dict, init=False)
    _streams: dict[tuple[str, int], int] = field(factory=dict, init=False)
    _transactions: dict[str, TransactionAccount] = field(factory=dict, init=False)
    _doubtful: list[TransactionAccount] = field(factory=list, init=False)
    _kills: list[Kill] = field(factory=list, init=False)
    _awaits_recovery: bool = field(default=False, init=False)
    _unanswered: int = field(default=0, init=False)
    _deliveries: int = field(default=0, init=False)
    _findings: dict[Finding, tuple[list[int], list[str]]] = field(factory=dict, init=False)
    _timeline: TimelineRecorder = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._timeline = TimelineRecorder(self.timeline_bucket_s)

    # Subscriptions

    def subscribe(self, subscription: str, destination: str, *, durable: bool = True) -> None:
        """Opens the account of a queue, or of a topic subscription: from now on it is promised what is sent."""
        assert subscription not in self._subscriptions, f"subscription {subscription} is already open"
        account = SubscriptionAccount(subscription, self._destination(destination), durable)
        account.destination.subscriptions.append(account)
        self._subscriptions[subscription] = account

    def knows(self, subscription: str) -> bool:
        """True if an account was ever opened for a subscription of this name."""
        return subscription in self._subscriptions

    def suspend(self, subscription: str) -> None:
        """The subscription is gone or interrupted: neither what it still holds nor what comes now is promised."""
        account = self._subscriptions[subscription]
        account.open = False
        account.excused_below = len(account.destination.keys)

    def resume(self, subscription: str) -> None:
        """The subscription is there again; what was sent in between is not promised."""
        account = self._subscriptions[subscription]
        account.open = True
        account.excused_below = len(account.destination.keys)

    def interrupted(self, subscription: str, given_back: Iterable[str] = ()) -> None:
        """A consumer was closed, rolled back or cut off: messages it held come back behind later ones.

        ``given_back`` names those it had shown to its user and returned in an orderly way, unacknowledged, so that
        they come again without the redelivered flag.
        """
        account = self._subscriptions[subscription]
        account.unordered_below = len(account.destination.keys)
        for key in given_back:
            _, slot = self._slots[key]
            if account.destination.resends[slot]:
                account.firsts[slot] = account.first_deliveries(slot) - 1
            account.marks[slot] |= _RETURNED

    def giving_back(self, subscription: str) -> None:
        """A consumer is giving messages back, and when they are back is not known before `gave_back`.

        Others may get them before the first one has heard that its rollback is done; meanwhile order means nothing.
        """
        self._subscriptions[subscription].giving_back += 1

    def gave_back(self, subscription: str) -> None:
        """The consumer is through; what it held counts as interrupted."""
        account = self._subscriptions[subscription]
        assert account.giving_back > 0, "gave_back() follows giving_back()"
        account.giving_back -= 1
        self.interrupted(subscription)

    # Sends

    def sent(
        self,
        key: str,
        destination: str,
        at: float,
        *,
        producer: str = "",
        priority: int = 4,
        durable: bool = True,
        expires_at: float | None = None,
        transaction: str | None = None,
        reaches: Collection[str] | None = None,
    ) -> None:
        """A message leaves its producer. ``reaches`` names the subscriptions whose filter takes it (None: all)."""
        assert key not in self._slots, f"message {key} was sent before; use resent()"
        account = self._destination(destination)
        stream = self._streams.setdefault((producer, priority), len(self._streams))
        slot = account.add(key, stream, durable, expires_at)
        self._slots[key] = (account, slot)
        for subscription in account.subscriptions:
            if subscription.open:
                subscription.reach(slot)
                taken = reaches is None or subscription.name in reaches
                subscription.marks[slot] |= _EXPECTED if taken else _EXCLUDED
        self._unanswered += 1
        self._timeline.sent(at)
        if transaction is not None:
            self._transaction(transaction).sends.append((account, slot))

    def resent(self, key: str, at: float, *, transaction: str | None = None, once: bool = False) -> None:
        """The same message goes out again, because the outcome of its last send is in doubt or was a refusal.

        ``once``: it carries an id with which the broker takes it a single time, so that no second copy is excused.
        """
        account, slot = self._slots[key]
        if account.states[slot] != _REFUSED:
            if once:
                account.repeated.add(slot)
            else:
                account.resends[slot] = min(255, account.resends[slot] + 1)
        account.streams[slot] = UNORDERED
        self._settle_send(account, slot, SendState.UNANSWERED)
        self._timeline.sent(at)
        if transaction is not None:
            self._transaction(transaction).sends.append((account, slot))

    def confirmed(self, key: str, at: float) -> None:
        """The broker has answered for the message: it must not be lost any more."""
        self._settle_send(*self._slots[key], SendState.CONFIRMED)
        self._timeline.confirmed(at)

    def in_doubt(self, key: str) -> None:
        """The answer to the send will never come: the message may or may not exist."""
        self._settle_send(*self._slots[key], SendState.IN_DOUBT)

    def refused(self, key: str) -> None:
        """The broker has answered that it did not take the message: nobody may ever see it."""
        self._settle_send(*self._slots[key], SendState.REFUSED)

    # Deliveries

    def delivered(
        self,
        subscription: str,
        key: str,
        at: float,
        *,
        redelivered: bool = False,
        consumer: str = "",
        stale: bool = False,
    ) -> Finding:
        """A message reached the user of a consumer. Returns what that says, which the verdict will repeat.

        ``stale`` means that the broker has given the consumer up already, and the consumer does not know yet: what
        comes out of its buffer may be with another consumer, or acknowledged by it.
        """
        self._deliveries += 1
        self._timeline.delivered(at)
        if self._awaits_recovery and not stale:
            self._kills[-1] = attrs.evolve(self._kills[-1], next_delivery_at=at)
            self._awaits_recovery = False
        account = self._subscriptions[subscription]
        destination, slot = self._slots.get(key, (None, -1))
        if destination is None or destination is not account.destination:
            finding = Finding.PHANTOM
        else:
            account.reach(slot)
            finding = self._judge_existence(account, slot)
            if at > destination.expirations[slot] + self.expiry_tolerance_s:
                finding |= Finding.LATE
            if stale:
                account.marks[slot] |= _SHOWN
            else:
                finding |= self._judge(account, slot, redelivered, consumer)
        if finding is not _NONE:
            self._note(finding, key)
        return finding

    def shown(self, subscription: str, key: str, *, now_held: bool = False) -> Finding:
        """A browser saw the message in the queue, or an inspection of the broker did (``now_held``): it exists.

        From now on it must not vanish. A browser may show what was acknowledged since; an inspection may not find it.
        """
        account = self._subscriptions[subscription]
        destination, slot = self._slots.get(key, (None, -1))
        finding = _NONE
        if destination is not account.destination:
            finding = Finding.PHANTOM
        else:
            account.reach(slot)
            finding = self._judge_existence(account, slot)
            if now_held and account.marks[slot] & _DONE and not destination.resends[slot]:
                finding |= Finding.REAPPEARED
            account.marks[slot] |= _SHOWN
        if finding is not _NONE:
            self._note(finding, key)
        return finding

    def dead_lettered(self, subscription: str, key: str) -> None:
        """The message was found on the subscription's dead letter address, which settles it there."""
        account, slot = self._at(subscription, key)
        account.marks[slot] |= Mark.MOVED

    def expired(self, subscription: str, key: str, at: float) -> Finding:
        """The message was found on the subscription's expiry address, which settles it there."""
        account, slot = self._at(subscription, key)
        account.marks[slot] |= Mark.MOVED
        if at >= account.destination.expirations[slot] - self.expiry_tolerance_s:
            return _NONE
        self._note(Finding.EXPIRED_EARLY, key)
        return Finding.EXPIRED_EARLY

    def taken(self, subscription: str, key: str) -> None:
        """The message left for a consumer whose messages count as acknowledged when they leave: it may get lost."""
        account, slot = self._at(subscription, key)
        account.taken.add(slot)

    # Acknowledgements

    def acknowledging(
        self, subscription: str, key: str, *, transaction: str | None = None, batch: str | None = None
    ) -> None:
        """The consumer asks for an acknowledgement of the last delivery, alone, in a transaction or in a batch.

        A batch is what one call acknowledges outside of transactions; it ends as they do, and is not counted as one.
        """
        account, slot = self._at(subscription, key)
        account.marks[slot] |= _ACKNOWLEDGING
        deliveries = account.asked[slot] = account.deliveries[slot]
        name = batch if transaction is None else transaction
        if name is not None:
            ending = self._transaction(name)
            ending.is_batch = transaction is None
            ending.acknowledgements.append((account, slot, deliveries))

    def acknowledged(self, subscription: str, key: str, at: float) -> Finding:
        """The broker has confirmed the acknowledgement: the message must not come back, nor have come back before."""
        account, slot = self._at(subscription, key)
        return self._acknowledged(account, slot, account.asked[slot], at)

    def acknowledgement_in_doubt(self, subscription: str, key: str) -> None:
        """Whether the acknowledgement happened will never be known: the message may come back, flagged."""
        account, slot = self._at(subscription, key)
        account.marks[slot] |= _DOUBTFUL

    # Transactions

    def committed(self, transaction: str, at: float) -> Finding:
        """The commit was confirmed: its sends and acknowledgements hold."""
        account = self._transactions.pop(transaction, None) or TransactionAccount(transaction)
        finding = _NONE
        for destination, slot in account.sends:
            self._settle_send(destination, slot, SendState.CONFIRMED)
            self._timeline.confirmed(at)
        for subscription, slot, deliveries in account.acknowledgements:
            finding |= self._acknowledged(subscription, slot, deliveries, at)
        return finding

    def rolled_back(self, transaction: str) -> None:
        """The transaction is undone: nobody may see its sends, and its acknowledged messages come again, flagged."""
        account = self._transactions.pop(transaction, None) or TransactionAccount(transaction)
        for destination, slot in account.sends:
            self._settle_send(destination, slot, SendState.REFUSED)
        for subscription, slot, deliveries in account.acknowledgements:
            if subscription.deliveries[slot] == deliveries:
                subscription.marks[slot] &= ~_ACKNOWLEDGING & 0xFF
            subscription.unordered_below = len(subscription.destination.keys)

    def transaction_in_doubt(self, transaction: str, *, shown_in_vain: bool = False) -> None:
        """The commit was asked for and never answered: all of it happened, or nothing.

        ``shown_in_vain``: the broker may have shown again what was acknowledged, because somebody else undid the
        transaction, and then died, and that with it. What it showed in that life says nothing of the outcome.
        """
        account = self._transactions.pop(transaction, None) or TransactionAccount(transaction)
        if shown_in_vain:
            for index, (subscription, slot, _) in enumerate(account.acknowledgements):
                if subscription.lives[slot] != len(self._kills):
                    subscription.marks[slot] |= _ACKNOWLEDGING
                    account.acknowledgements[index] = subscription, slot, subscription.deliveries[slot]
        for destination, slot in account.sends:
            self._settle_send(destination, slot, SendState.IN_DOUBT)
        for subscription, slot, deliveries in account.acknowledgements:
            if subscription.deliveries[slot] == deliveries:
                subscription.marks[slot] |= _DOUBTFUL
        self._doubtful.append(account)

    # The broker

    def killed(self, at: float) -> Kill:
        """The broker died at once. Returns what it met: unanswered sends and open transactions."""
        kill = Kill(at, self._unanswered, self.open_transactions)
        self._kills.append(kill)
        self._awaits_recovery = True
        for destination in self._destinations.values():
            destination.volatile_below = len(destination.keys)
        for subscription in self._subscriptions.values():
            subscription.unordered_below = len(subscription.destination.keys)
            if not subscription.durable:
                subscription.excused_below = len(subscription.destination.keys)
        return kill

    def restarted(self, at: float) -> None:
        """The broker serves again. Deliveries before this, out of clients' buffers, do not count as recovery."""
        assert self._kills, "only what was killed restarts"
        self._kills[-1] = attrs.evolve(self._kills[-1], restarted_at=at, next_delivery_at=None)
        self._awaits_recovery = True

    # Results

    @property
    def unanswered_sends(self) -> int:
        """Sends that have neither been confirmed nor refused nor given up."""
        return self._unanswered

    @property
    def open_transactions(self) -> int:
        """Transactions with work in them and without an outcome."""
        return sum(not account.is_batch for account in self._transactions.values())

    def missing(self, subscription: str) -> list[str]:
        """The keys that the subscription is promised and has not acknowledged, in the order they were sent."""
        account = self._subscriptions[subscription]
        owed = account.promised(expiring=self.expiries_are_found)
        return [account.destination.keys[slot] for slot in owed]

    def timeline(self) -> Timeline:
        """What happened when, in slices of ``timeline_bucket_s`` seconds."""
        return self._timeline.timeline()

    def verdict(self, *, drained: bool) -> Verdict:
        """Sums up. ``drained`` says that consumers have emptied every queue, so that what is absent is lost."""
        tallies = {finding: Tally(counter[0], tuple(keys)) for finding, (counter, keys) in self._findings.items()}
        return audit(
            tuple(self._destinations.values()),
            tuple(self._doubtful),
            tallies,
            drained=drained,
            expiring=self.expiries_are_found,
            delivered=self._deliveries,
            kills=tuple(self._kills),
            examples_max=self.examples_max,
        )

    # Inside

    def _judge_existence(self, account: SubscriptionAccount, slot: int) -> Finding:
        if account.destination.states[slot] == _REFUSED:
            return Finding.PHANTOM
        return Finding.MISROUTED if account.marks[slot] & _EXCLUDED else _NONE

    def _judge(self, account: SubscriptionAccount, slot: int, redelivered: bool, consumer: str) -> Finding:
        destination, marks, times = account.destination, account.marks[slot], account.deliveries[slot]
        finding = _NONE
        if destination.resends[slot]:
            finding = self._judge_resent(account, slot, redelivered)
        elif marks & _DONE:
            finding = Finding.REAPPEARED
        elif times:
            finding = self._judge_again(account, slot, marks, redelivered)
        elif slot >= account.unordered_below and not account.giving_back:
            stream = destination.streams[slot]
            last = account.order.get((consumer, stream), -1)
            if slot >= last:
                account.order[(consumer, stream)] = slot
            elif stream != UNORDERED:
                finding = Finding.REORDERED
            if redelivered:
                finding |= Finding.FLAGGED_AT_ONCE
        account.marks[slot] = marks & _KEPT
        account.deliveries[slot] = min(255, times + 1)
        account.lives[slot] = len(self._kills)
        return finding

    def _judge_again(self, account: SubscriptionAccount, slot: int, marks: int, redelivered: bool) -> Finding:
        if redelivered:
            return Finding.DUPLICATED_FLAGGED if marks & _ACKNOWLEDGING else Finding.REDELIVERED
        # With a message that was not durable its count went, and so did its duplicate id, if that was not on disk.
        counts_survived = self.counts_survive and not account.destination.volatile(slot)
        if account.lives[slot] != len(self._kills) and not counts_survived:
            return Finding.AFTER_RESTART
        return Finding.RETURNED if marks & _RETURNED else Finding.DUPLICATED_UNFLAGGED

    def _judge_resent(self, account: SubscriptionAccount, slot: int, redelivered: bool) -> Finding:
        """Copies of one message cannot be told apart here, so only their number is held against the broker."""
        times = account.deliveries[slot]
        # After a restart every copy may come once more without a flag.
        restarted = account.lives[slot] != len(self._kills)
        firsts = 0 if restarted else account.first_deliveries(slot)
        account.firsts[slot] = firsts if redelivered else firsts + 1
        if redelivered:
            return Finding.REDELIVERED
        if not times:
            return Finding.NONE
        if restarted:
            return Finding.AFTER_RESTART
        if firsts <= account.destination.resends[slot]:
            return Finding.RESEND
        return Finding.RETURNED if account.marks[slot] & _RETURNED else Finding.DUPLICATED_UNFLAGGED

    def _acknowledged(self, account: SubscriptionAccount, slot: int, deliveries: int, at: float) -> Finding:
        self._timeline.acknowledged(at)
        if account.deliveries[slot] == deliveries:
            account.marks[slot] |= _ACKNOWLEDGING | _ACKNOWLEDGED
            return _NONE
        # Somebody else got the message between the acknowledgement and its confirmation: both cannot be right.
        if account.destination.resends[slot]:
            return _NONE
        self._note(Finding.REAPPEARED, account.destination.keys[slot])
        return Finding.REAPPEARED

    def _note(self, finding: Finding, key: str) -> None:
        for one in finding:
            counter, keys = self._findings.setdefault(one, ([0], []))
            counter[0] += 1
            if len(keys) < self.examples_max:
                keys.append(key)

    def _settle_send(self, account: DestinationAccount, slot: int, state: SendState) -> None:
        if state == _REFUSED and (account.resends[slot] or slot in account.repeated):
            state = SendState.IN_DOUBT  # an earlier copy, of which nobody knows, may still exist
        self._unanswered += (state == _UNANSWERED) - (account.states[slot] == _UNANSWERED)
        account.states[slot] = state

    def _destination(self, name: str) -> DestinationAccount:
        account = self._destinations.get(name)
        if account is None:
            account = self._destinations[name] = DestinationAccount(name)
        return account

    def _transaction(self, name: str) -> TransactionAccount:
        account = self._transactions.get(name)
        if account is None:
            account = self._transactions[name] = TransactionAccount(name)
        return account

    def _at(self, subscription: str, key: str) -> tuple[SubscriptionAccount, int]:
        account = self._subscriptions[subscription]
        destination, slot = self._slots[key]
        assert destination is account.destination, f"{key} was not sent to what {subscription} subscribes to"
        account.reach(slot)
        return account, slot
