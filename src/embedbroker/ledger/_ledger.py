"""The ledger: takes facts about messages one at a time, judges each delivery at once, and sums up on demand.

Facts are idempotent where clients are: an acknowledgement may be requested twice. The caller must record facts in the
order in which they happened. The columns are in ``_accounts``, the end check in ``_audit``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import attrs
from attrs import define, field

from ._accounts import UNORDERED, DestinationAccount, Mark, SendState, SubscriptionAccount, TransactionAccount
from ._audit import TimelineRecorder, audit
from ._verdict import Finding, Kill, Tally, Timeline, Verdict

__all__ = ["Ledger"]

# Plain integers: flag arithmetic on enumerations costs more than the rest of a delivery.
_KEPT = 0xFF & ~int(Mark.ACKNOWLEDGING | Mark.ACKNOWLEDGED | Mark.DOUBTFUL | Mark.RETURNED)
_EXPECTED, _EXCLUDED, _RETURNED, _SHOWN = (
    int(mark) for mark in (Mark.EXPECTED, Mark.EXCLUDED, Mark.RETURNED, Mark.SHOWN)
)
_ACKNOWLEDGING, _ACKNOWLEDGED = int(Mark.ACKNOWLEDGING), int(Mark.ACKNOWLEDGED)
_DOUBTFUL, _DONE = int(Mark.DOUBTFUL), int(Mark.ACKNOWLEDGED | Mark.MOVED)
_NONE = Finding.NONE
_UNANSWERED, _REFUSED, _IN_DOUBT = (
    int(state) for state in (SendState.UNANSWERED, SendState.REFUSED, SendState.IN_DOUBT)
)
_CONFIRMED = int(SendState.CONFIRMED)


@define(eq=False)
class Ledger:
    """Hold the account of one run.

    Times are seconds on any one clock.

    Args:
        examples_max: message keys kept per kind of finding.
        expiry_tolerance_s: seconds after its expiration within which a delivery still passes.
        timeline_bucket_s: seconds per slice of the timeline.
        expiries_are_found: the caller reads the expiry addresses and calls `expired`. A message with an expiration can
            therefore count as missing.
        counts_survive: delivery counts of durable messages in durable subscriptions survive a crash, so flags must be
            right across restarts.
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
        """Open the account of a queue or of a topic subscription: messages sent from now on must reach it.

        Args:
            subscription: name of the account, unique in the run.
            destination: name of the queue or topic.
            durable: False means that messages held at a kill of the broker may be missing after it.
        """
        assert subscription not in self._subscriptions, f"subscription {subscription} is already open"
        account = SubscriptionAccount(subscription, self._destination(destination), durable)
        account.destination.subscriptions.append(account)
        self._subscriptions[subscription] = account

    def knows(self, subscription: str) -> bool:
        """Return True if an account was ever opened for a subscription of this name.

        Args:
            subscription: name of the account.
        """
        return subscription in self._subscriptions

    def suspend(self, subscription: str, *, keeps_messages: bool = False) -> None:
        """Record that the subscription is gone or interrupted: messages held there, and later ones, may be missing.

        Args:
            subscription: name of the queue or subscription.
            keeps_messages: what it holds stays, because its filter is changed. Only what is not confirmed yet, or is
                sent from now on, may be missing. It may also come.
        """
        account = self._subscriptions[subscription]
        account.open = False
        if not keeps_messages:
            account.excused_below = len(account.destination.keys)
            return
        for slot, state in enumerate(account.destination.states[: len(account.marks)]):
            if state != _CONFIRMED:
                account.marks[slot] &= ~(_EXPECTED | _EXCLUDED) & 0xFF

    def resume(self, subscription: str, *, keeps_messages: bool = False) -> None:
        """Record that the subscription is back; messages sent in between may be missing.

        Args:
            subscription: name of the queue or subscription.
            keeps_messages: as for `suspend`.
        """
        account = self._subscriptions[subscription]
        account.open = True
        if not keeps_messages:
            account.excused_below = len(account.destination.keys)

    def purging(self, subscription: str, spares: Callable[[str], bool] | None = None) -> None:
        """Record that a purge is requested: from now on the messages held there may be removed.

        Args:
            subscription: name of the queue or subscription.
            spares: returns True for the key of a message that the filter of the purge does not match. None: the purge
                has no filter.
        """
        self._subscriptions[subscription].purges.append(spares)

    def purged(
        self, subscription: str, kept: Collection[str] = (), spares: Callable[[str], bool] | None = None
    ) -> None:
        """Record that the purge is over, with an answer or not: what was sent before may be missing.

        Args:
            subscription: name of the queue or subscription.
            kept: keys of messages that the purge cannot have removed, because they were in delivery all the time.
            spares: the same function as for `purging`.
        """
        account = self._subscriptions[subscription]
        assert spares in account.purges, "purged() follows purging()"
        account.purges.remove(spares)
        kept_slots = {
            slot for destination, slot in map(self._slots.__getitem__, kept) if destination is account.destination
        }
        for slot, key in enumerate(account.destination.keys):
            if slot not in kept_slots and (spares is None or not spares(key)):
                account.taken.add(slot)

    def interrupted(self, subscription: str, given_back: Iterable[str] = ()) -> None:
        """Record that a consumer was closed, rolled back or cut off: messages it held come back behind later ones.

        Args:
            subscription: name of the account.
            given_back: keys that the consumer had delivered to its user and returned in an orderly way, unacknowledged.
                They come again without the redelivered flag.
        """
        account = self._subscriptions[subscription]
        account.unordered_below = len(account.destination.keys)
        for key in given_back:
            _, slot = self._slots[key]
            if account.destination.resends[slot]:
                account.firsts[slot] = account.first_deliveries(slot) - 1
            account.marks[slot] |= _RETURNED

    def giving_back(self, subscription: str) -> None:
        """Record that a consumer starts to return messages; when they are back is unknown until `gave_back`.

        Other consumers may receive them before the first one has received the answer to its rollback. Order is not
        judged in between.

        Args:
            subscription: name of the account.
        """
        self._subscriptions[subscription].giving_back += 1

    def gave_back(self, subscription: str) -> None:
        """Record that the consumer has returned its messages; they count as interrupted.

        Args:
            subscription: name of the account.
        """
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
        """Record that a message leaves its producer.

        Args:
            key: identity of the message; it must not have been sent before (use `resent`).
            destination: name of the queue or topic.
            at: time in seconds.
            producer: name of the producer.
            priority: JMS priority, 0 to 9; order holds per producer and priority.
            durable: the message survives a restart of the broker.
            expires_at: expiration in seconds on the same clock; None means never.
            transaction: name of the transaction that contains the send, or None.
            reaches: names of the subscriptions whose filter takes the message; None means all.
        """
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
        """Record that the message goes out again, because its last send is in doubt or was refused.

        Args:
            key: identity of the message, which was sent before.
            at: time in seconds.
            transaction: name of the transaction that contains the send, or None.
            once: the message carries an id with which the broker takes it a single time, so no second copy is excused.
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
        """Record that the broker has confirmed the message: it must not be lost any more.

        Args:
            key: identity of the message.
            at: time in seconds.
        """
        self._settle_send(*self._slots[key], SendState.CONFIRMED)
        self._timeline.confirmed(at)

    def in_doubt(self, key: str) -> None:
        """Record that the send will never be answered: the message may or may not exist.

        Args:
            key: identity of the message.
        """
        self._settle_send(*self._slots[key], SendState.IN_DOUBT)

    def refused(self, key: str) -> None:
        """Record that the broker has refused the message: it must never be delivered.

        Args:
            key: identity of the message.
        """
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
        broker: str = "",
        stale: bool = False,
    ) -> Finding:
        """Record that a message reached the user of a consumer. Return the findings, which the verdict repeats.

        Args:
            subscription: name of the account.
            key: identity of the message; an unknown one is a `Finding.PHANTOM`.
            at: time in seconds.
            redelivered: the message carried the redelivered flag.
            consumer: name of the consumer; order is judged per consumer.
            broker: name of the broker that delivered it, in a cluster. A message that a consumer gave back may move to
                another broker, and loses its flag on the way.
            stale: the broker has given up the consumer, which has not noticed yet. A message out of its buffer may be
                with another consumer, or acknowledged by it.
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
                finding |= self._judge(account, slot, redelivered, consumer, broker)
        if finding is not _NONE:
            self._note(finding, key)
        return finding

    def shown(self, subscription: str, key: str, *, now_held: bool = False) -> Finding:
        """Record that a browser found the message in the queue, or an inspection of the broker did (``now_held``).

        From now on it must not vanish. A browser may show a message acknowledged since; an inspection must not find
        one.

        Args:
            subscription: name of the account.
            key: identity of the message; an unknown one is a `Finding.PHANTOM`.
            now_held: the broker was inspected, and holds the message now.
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
        """Record that the message was found on the subscription's dead letter address, which settles it there.

        Args:
            subscription: name of the account.
            key: identity of the message.
        """
        account, slot = self._at(subscription, key)
        account.marks[slot] |= Mark.MOVED

    def expired(self, subscription: str, key: str, at: float) -> Finding:
        """Record that the message was found on the subscription's expiry address, which settles it there.

        Return the finding if it expired too early.

        Args:
            subscription: name of the account.
            key: identity of the message.
            at: time in seconds.
        """
        account, slot = self._at(subscription, key)
        account.marks[slot] |= Mark.MOVED
        if at >= account.destination.expirations[slot] - self.expiry_tolerance_s:
            return _NONE
        self._note(Finding.EXPIRED_EARLY, key)
        return Finding.EXPIRED_EARLY

    def taken(self, subscription: str, key: str) -> None:
        """Record that the message left for a consumer that acknowledges before delivery: it may get lost.

        Args:
            subscription: name of the account.
            key: identity of the message.
        """
        account, slot = self._at(subscription, key)
        account.taken.add(slot)

    # Acknowledgements

    def acknowledging(
        self, subscription: str, key: str, *, transaction: str | None = None, batch: str | None = None
    ) -> None:
        """Record that the consumer requests an acknowledgement of the last delivery.

        The acknowledgement stands alone, in a transaction or in a batch. A batch is what one call acknowledges outside
        of transactions; it ends as they do, and does not count as one.

        Args:
            subscription: name of the account.
            key: identity of the message.
            transaction: name of the transaction that contains the acknowledgement, or None.
            batch: name of the batch, or None. Ignored with a transaction.
        """
        account, slot = self._at(subscription, key)
        account.marks[slot] |= _ACKNOWLEDGING
        deliveries = account.requested[slot] = account.deliveries[slot]
        name = batch if transaction is None else transaction
        if name is not None:
            ending = self._transaction(name)
            ending.is_batch = transaction is None
            ending.acknowledgements.append((account, slot, deliveries))

    def acknowledged(self, subscription: str, key: str, at: float) -> Finding:
        """Record that the broker has confirmed the acknowledgement.

        The message must not come back, and must not have come back before.

        Args:
            subscription: name of the account.
            key: identity of the message.
            at: time in seconds.
        """
        account, slot = self._at(subscription, key)
        return self._acknowledged(account, slot, account.requested[slot], at)

    def acknowledgement_in_doubt(self, subscription: str, key: str) -> None:
        """Record that the outcome of the acknowledgement stays unknown: the message may come back, flagged.

        Args:
            subscription: name of the account.
            key: identity of the message.
        """
        account, slot = self._at(subscription, key)
        account.marks[slot] |= _DOUBTFUL

    # Transactions

    def committed(self, transaction: str, at: float) -> Finding:
        """Record that the commit was confirmed: its sends and acknowledgements hold.

        Args:
            transaction: name of the transaction.
            at: time in seconds.
        """
        account = self._transactions.pop(transaction, None) or TransactionAccount(transaction)
        finding = _NONE
        for destination, slot in account.sends:
            self._settle_send(destination, slot, SendState.CONFIRMED)
            self._timeline.confirmed(at)
        for subscription, slot, deliveries in account.acknowledgements:
            finding |= self._acknowledged(subscription, slot, deliveries, at)
        return finding

    def rolled_back(self, transaction: str) -> None:
        """Record that the transaction was rolled back.

        Its sends must never be delivered, and its acknowledged messages come again, flagged.

        Args:
            transaction: name of the transaction.
        """
        account = self._transactions.pop(transaction, None) or TransactionAccount(transaction)
        for destination, slot in account.sends:
            self._settle_send(destination, slot, SendState.REFUSED)
        for subscription, slot, deliveries in account.acknowledgements:
            if subscription.deliveries[slot] == deliveries:
                subscription.marks[slot] &= ~_ACKNOWLEDGING & 0xFF
            subscription.unordered_below = len(subscription.destination.keys)

    def transaction_in_doubt(self, transaction: str, *, shown_in_vain: bool = False) -> None:
        """Record that the commit was requested and never answered: all of it happened, or nothing.

        Args:
            transaction: name of the transaction.
            shown_in_vain: another party rolled back the transaction, and the broker died after it. The broker may have
                delivered acknowledged messages again, and the kill undid that. Those deliveries prove nothing about the
                outcome.
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
        """Record that the broker died at once. Return the unanswered sends and open transactions that the kill met.

        Args:
            at: time in seconds.
        """
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
        """Record that the broker serves again.

        Earlier deliveries, out of clients' buffers, do not count as recovery.

        Args:
            at: time in seconds.
        """
        assert self._kills, "only what was killed restarts"
        self._kills[-1] = attrs.evolve(self._kills[-1], restarted_at=at, next_delivery_at=None)
        self._awaits_recovery = True

    # Results

    @property
    def unanswered_sends(self) -> int:
        """Return the number of sends neither confirmed nor refused nor given up."""
        return self._unanswered

    @property
    def open_transactions(self) -> int:
        """Return the number of transactions that contain work and have no outcome."""
        return sum(not account.is_batch for account in self._transactions.values())

    def missing(self, subscription: str) -> list[str]:
        """Return the keys that the subscription must hold and has not acknowledged, in the order they were sent.

        Args:
            subscription: name of the account.
        """
        account = self._subscriptions[subscription]
        owed = account.promised(expiring=self.expiries_are_found)
        return [account.destination.keys[slot] for slot in owed]

    def timeline(self) -> Timeline:
        """Return the counts over time, in slices of ``timeline_bucket_s`` seconds."""
        return self._timeline.timeline()

    def verdict(self, *, drained: bool) -> Verdict:
        """Return the verdict.

        Args:
            drained: consumers have emptied every queue, so a missing message counts as lost.
        """
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

    def _judge(self, account: SubscriptionAccount, slot: int, redelivered: bool, consumer: str, broker: str) -> Finding:
        destination, marks, times = account.destination, account.marks[slot], account.deliveries[slot]
        finding = _NONE
        moved = broker != account.brokers.get(slot, broker)
        if broker:
            account.brokers[slot] = broker
        if destination.resends[slot]:
            finding = self._judge_resent(account, slot, redelivered, moved)
        elif marks & _DONE:
            finding = Finding.REAPPEARED
        elif times:
            finding = self._judge_again(account, slot, redelivered, moved)
        elif slot >= account.unordered_below and not account.giving_back:
            stream = destination.streams[slot]
            last = account.order.get((consumer, stream), -1)
            if slot >= last:
                account.order[(consumer, stream)] = slot
            elif stream != UNORDERED and destination.states[slot] != _IN_DOUBT:
                # A send in doubt ended with its session, and order is promised within one: what was on its way may be
                # read behind messages of the next session.
                finding = Finding.REORDERED
            if redelivered:
                finding |= Finding.FLAGGED_AT_ONCE
        account.marks[slot] = marks & _KEPT
        account.deliveries[slot] = min(255, times + 1)
        account.lives[slot] = len(self._kills)
        return finding

    def _judge_again(self, account: SubscriptionAccount, slot: int, redelivered: bool, moved: bool) -> Finding:
        marks = account.marks[slot]
        if redelivered:
            return Finding.DUPLICATED_FLAGGED if marks & _ACKNOWLEDGING else Finding.REDELIVERED
        # A message that was not durable, or in no durable queue, lost its count in the kill, and its duplicate id, if
        # that was not on disk.
        counts_survived = self.counts_survive and account.durable and not account.destination.volatile(slot)
        if account.lives[slot] != len(self._kills) and not counts_survived:
            return Finding.AFTER_RESTART
        return self._judge_unflagged(account, slot, moved)

    def _judge_unflagged(self, account: SubscriptionAccount, slot: int, moved: bool) -> Finding:
        if account.marks[slot] & _RETURNED:
            return Finding.RETURNED
        # Only what a consumer had to return can have moved.
        may_move = slot < account.unordered_below or account.giving_back
        return Finding.MOVED if moved and may_move else Finding.DUPLICATED_UNFLAGGED

    def _judge_resent(self, account: SubscriptionAccount, slot: int, redelivered: bool, moved: bool) -> Finding:
        """Judge a delivery of a message that was sent more than once.

        Its copies cannot be distinguished here, so only their number counts against the broker.
        """
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
        return self._judge_unflagged(account, slot, moved)

    def _acknowledged(self, account: SubscriptionAccount, slot: int, deliveries: int, at: float) -> Finding:
        self._timeline.acknowledged(at)
        if account.deliveries[slot] == deliveries:
            account.marks[slot] |= _ACKNOWLEDGING | _ACKNOWLEDGED
            return _NONE
        # Another consumer received the message between the acknowledgement and its confirmation: both cannot be right.
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
            state = SendState.IN_DOUBT  # an earlier copy, of unknown outcome, may still exist
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
