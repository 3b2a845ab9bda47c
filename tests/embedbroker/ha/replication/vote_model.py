"""A pair of replicating brokers that requires votes, and the active brokers of two other pairs, as a graph of states.

Responsible for what surrounds the real table, decisions, records, voters and cold starts: processes, links, what a
voter has noticed, and when a message arrives. Every answer of a voter is an event, so requests of both interleave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeVar, cast

from attrs import evolve, field, frozen

from embedbroker.cluster import Member, Topology
from embedbroker.config import ReplicationBackup, ReplicationPrimary, Role
from embedbroker.ha._record_file import RecordFile
from embedbroker.ha.quorum import Electorate, VoteGrants, Voter, VoteRequest, connector_text, leads_to, votes_needed
from embedbroker.ha.quorum._grants import ABSTAINS, without_attempt
from embedbroker.ha.replication import _cold_start as cold_starts
from embedbroker.ha.replication import _decisions as decisions
from embedbroker.ha.replication._node_record import NodeRecord
from embedbroker.ha.replication._stages import Event, Stage
from embedbroker.replication import STREAM_FORMAT, EndingKind, PrimaryStatus, ReplicaRecord, ReplicaWaiting
from embedbroker.storage import AtomicFileOwner
from embedclient.model import TransportConfiguration
from embedclient.wire.core import LiveVote

from .pair_model import JOURNAL, NODE, Broker, InstantFile, Pair, disconnected, ended, moved, written

__all__ = ["Cluster", "beginnings", "successors", "voter_answer"]

T = TypeVar("T")
POLICIES = (
    ReplicationPrimary(vote_on_replication_failure=True, check_for_active_server=True),
    ReplicationBackup(vote_on_replication_failure=True, allow_failback=True),
)
SIZE = 3
PLACES = tuple(
    TransportConfiguration(
        name, "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory", {"host": name, "port": "1"}
    )
    for name in "pq"
)
TEXTS = tuple(connector_text(place) for place in PLACES)


def _replaced(both: tuple[T, T], index: int, one: T) -> tuple[T, T]:
    return (one, both[1]) if index == 0 else (both[0], one)


@frozen(cache_hash=True)
class Booth:
    """A voter. ``known``: the broker that it has for the active one of the node; ``lost``: it noticed that one go.

    ``grant`` is what it has on its disk: activation, broker (None: free), attempt. ``linked``: with p, and with q.
    """

    known: int | None = None
    lost: bool = False
    grant: tuple[int, int | None, int] | None = None
    linked: tuple[bool, bool] = (True, True)


@frozen(cache_hash=True)
class Round:
    """The vote of one broker. ``goes_on``: an active one without its backup. ``starts``: no active broker was lost."""

    attempt: int
    goes_on: bool = False
    starts: bool = False
    granted: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    is_contradicted: bool = False


@frozen(cache_hash=True)
class Cluster:
    """The pair, the voters, and the votes under way. ``attempts`` grows with each of these."""

    pair: Pair = field(factory=Pair)
    booths: tuple[Booth, Booth] = (Booth(), Booth())
    rounds: tuple[Round | None, Round | None] = (None, None)
    attempts: int = 0

    def put(self, index: int, broker: Broker, **changes: object) -> Cluster:
        return evolve(self, pair=self.pair.put(index, broker, **changes))

    def with_booth(self, number: int, booth: Booth) -> Cluster:
        return evolve(self, booths=_replaced(self.booths, number, booth))

    def with_round(self, index: int, vote_round: Round | None) -> Cluster:
        return evolve(self, rounds=_replaced(self.rounds, index, vote_round))


class _Electorate:
    """Three brokers were active at the same time, and every record has it."""

    remembered = 0
    observer: object = None

    def size_with(self, node_id: str) -> int:
        return SIZE


def _recording(index: int, broker: Broker, record: ReplicaRecord | None = None) -> NodeRecord:
    file = cast(RecordFile, InstantFile(broker, broker.record if record is None else record))
    return NodeRecord(POLICIES[index], file, cast(Electorate, _Electorate()), has_manager=False)


# -- voters ----------------------------------------------------------------------------------------------------------


class _Store:
    """The file of a voter, whose writes are durable at once."""

    failure: str | None = None
    owner: AtomicFileOwner | None = None

    def __init__(self, text: bytes | None) -> None:
        self.text = text

    def read(self, then: Callable[[bytes | None], None]) -> None:
        then(self.text)

    def replace(self, text: bytes, then: Callable[[], None]) -> None:
        self.text = text
        then()


class _OtherPair:
    """The active broker of another pair, as its voter depends on it."""

    role = Role.LIVE
    is_informed = True

    def __init__(self, sees: bool) -> None:
        self._sees = sees

    def sees(self, member: Member) -> bool:
        return self._sees


@cache
def voter_answer(
    booth: Booth, sees: bool, vote: bool, request: tuple[int, int, int, bool, bool]
) -> tuple[LiveVote, tuple[int, int | None, int] | None]:
    """Have a real voter answer: the vote, and what it has granted then."""
    topology = Topology()
    if booth.known is not None:
        topology.update(Member(NODE, 1, PLACES[booth.known]))
    elif booth.lost:
        topology.remove(NODE, 1)
    grants = VoteGrants()
    if booth.grant is not None:
        activation, broker, attempt = booth.grant
        asker = TEXTS[broker] if broker is not None else "nobody"
        grants = grants.with_grant(NODE, VoteRequest(activation, asker, attempt=attempt))
    store = _Store(grants.text())
    voter = Voter(topology, store, _OtherPair(sees), lambda text: None)
    answers: list[LiveVote] = []
    activation, index, attempt, starts, withdrawn = request
    text = str(VoteRequest(activation, TEXTS[index], starts, attempt, withdrawn))
    voter.answer_question(LiveVote(vote and not withdrawn, NODE, text), answers.append)
    assert store.text is not None and len(answers) == 1
    found = VoteGrants.read(store.text).given.get(NODE)
    if found is None:
        return answers[0], None
    broker = TEXTS.index(found.asker) if found.asker in TEXTS else None
    return answers[0], (found.epoch, broker, found.attempt)


def _asked(
    cluster: Cluster, number: int, vote: bool, request: tuple[int, int, int, bool, bool]
) -> tuple[LiveVote, Cluster]:
    booth, brokers = cluster.booths[number], cluster.pair.brokers
    sees = booth.known is not None and booth.linked[booth.known] and brokers[booth.known].stage is Stage.ACTIVE
    answer, grant = voter_answer(booth, sees, vote, request)
    return answer, cluster.with_booth(number, evolve(booth, grant=grant))


def _begun(cluster: Cluster, index: int, *, goes_on: bool = False, starts: bool = False) -> Cluster:
    cluster = evolve(cluster, attempts=cluster.attempts + 1)
    return cluster.with_round(index, Round(cluster.attempts, goes_on, starts))


def _withdrawn(cluster: Cluster, index: int) -> Cluster:
    """End the vote of a broker: the voters that it reaches, and that may have granted, learn of it."""
    vote_round = cluster.rounds[index]
    if vote_round is None:
        return cluster
    activation = cluster.pair.brokers[index].record.epoch
    for number, booth in enumerate(cluster.booths):
        if booth.linked[index] and number not in vote_round.refused:
            request = (activation, index, vote_round.attempt, False, True)
            cluster = _asked(cluster, number, vote_round.goes_on, request)[1]
    return cluster.with_round(index, None)


# -- what may happen -------------------------------------------------------------------------------------------------


def successors(cluster: Cluster) -> Iterator[tuple[str, Cluster]]:
    """Return each event that may be next, and the state after it."""
    pair = cluster.pair
    for index in (0, 1):
        for what, following in _of_broker(cluster, index):
            yield f"{'pq'[index]} {what}", following
    if pair.linked:
        yield "link fails", evolve(cluster, pair=_lost(evolve(pair, linked=False)))
    else:
        yield "link heals", evolve(cluster, pair=evolve(pair, linked=True))
    for number, booth in enumerate(cluster.booths):
        name = "xy"[number]
        for index in (0, 1):
            linked = _replaced(booth.linked, index, not booth.linked[index])
            yield (
                f"{name} and {'pq'[index]} {'part' if booth.linked[index] else 'meet'}",
                cluster.with_booth(number, evolve(booth, linked=linked)),
            )
            is_active = pair.brokers[index].stage is Stage.ACTIVE
            if is_active and booth.linked[index] and booth.known != index:
                yield f"{name} finds {'pq'[index]}", _met(cluster, number, index)
        known = booth.known
        if known is not None and not (booth.linked[known] and pair.brokers[known].stage is Stage.ACTIVE):
            yield f"{name} loses {'pq'[known]}", cluster.with_booth(number, evolve(booth, known=None, lost=True))


def _met(cluster: Cluster, number: int, index: int) -> Cluster:
    """An active broker announces itself, and which activation it has left behind."""
    cluster = cluster.with_booth(number, evolve(cluster.booths[number], known=index, lost=False))
    left_behind = cluster.pair.brokers[index].record.epoch - 1
    return _asked(cluster, number, True, (left_behind, index, cluster.attempts, False, False))[1]


def _lost(pair: Pair, kind: EndingKind = EndingKind.LOST) -> Pair:
    """Replication ends; an active broker that had no whole copy notes that it has no partner."""
    source, was_in_sync = pair.source, pair.in_sync
    pair = disconnected(pair, kind)
    if source is None or was_in_sync:
        return pair
    recording = _recording(source, pair.brokers[source])
    recording.note_alone()
    return pair.put(source, written(pair.brokers[source], recording))


def _gone(cluster: Cluster, index: int) -> Cluster:
    """The process is gone, and with it its vote: the voters do not learn that."""
    return evolve(cluster, pair=ended(_lost(cluster.pair), index)).with_round(index, None)


def _of_broker(cluster: Cluster, index: int) -> Iterator[tuple[str, Cluster]]:
    broker = cluster.pair.brokers[index]
    if broker.stage is None:
        yield "starts", _started(cluster, index)
        return
    yield "crashes", _gone(cluster, index)
    if cluster.rounds[index] is not None:
        yield from _of_round(cluster, index)
    match broker.stage:
        case Stage.SEARCHING:
            yield from _searched(cluster, index)
        case Stage.GRANTED:
            yield "recovers", _recovered(cluster, index)
        case Stage.BACKUP | Stage.VOTING:
            yield from _of_waiting(cluster, index)
        case Stage.ACTIVE:
            yield from _of_active(cluster, index)
        case _:
            raise AssertionError(f"the model stays in {broker.stage}")


def _started(cluster: Cluster, index: int) -> Cluster:
    broker = evolve(cluster.pair.brokers[index], stage=Stage.NEW, ending=None, is_blocked=False)
    recording = _recording(index, broker, broker.disk)
    recording.begin(lambda: NODE)
    was_known = broker.disk.node_id is not None
    event = decisions.after_record(POLICIES[index], recording.record, was_known=was_known, has_manager=False)
    return cluster.put(index, moved(moved(evolve(broker, record=recording.record), Event.STARTED), event))


def _rival(cluster: Cluster, index: int) -> bool:
    return cluster.pair.linked and cluster.pair.brokers[1 - index].stage is Stage.ACTIVE


def _searched(cluster: Cluster, index: int) -> Iterator[tuple[str, Cluster]]:
    broker = cluster.pair.brokers[index]
    event = decisions.after_search(POLICIES[index], broker.record, has_rival=_rival(cluster, index), is_complete=True)
    assert event is not None
    following = cluster.put(index, moved(broker, event))
    yield "has searched", _begun(following, index, starts=True) if event is Event.VOTE_NEEDED else following


def _of_round(cluster: Cluster, index: int) -> Iterator[tuple[str, Cluster]]:
    vote_round, broker = cluster.rounds[index], cluster.pair.brokers[index]
    assert vote_round is not None
    request = (
        broker.record.epoch,
        index,
        vote_round.attempt,
        vote_round.starts and isinstance(POLICIES[index], ReplicationPrimary),
        False,
    )
    for number, booth in enumerate(cluster.booths):
        if number in vote_round.granted | vote_round.refused or not booth.linked[index]:
            continue
        answer, after = _asked(cluster, number, vote_round.goes_on, request)
        if after != cluster:
            yield f"is not answered by {'xy'[number]}", after
        text, _attempt = without_attempt(answer.text)
        if answer.vote and (not vote_round.goes_on or leads_to(text, PLACES[index])):
            counted = evolve(vote_round, granted=vote_round.granted | {number})
        else:
            contradicted = vote_round.is_contradicted or text != ABSTAINS
            counted = evolve(vote_round, refused=vote_round.refused | {number}, is_contradicted=contradicted)
        after = after.with_round(index, counted)
        won = len(counted.granted) >= votes_needed(SIZE)
        yield f"is answered by {'xy'[number]}", _decided(after, index, won=True) if won else after
    yield "has lost the vote", _decided(cluster, index, won=False)


def _decided(cluster: Cluster, index: int, *, won: bool) -> Cluster:
    vote_round, broker = cluster.rounds[index], cluster.pair.brokers[index]
    assert vote_round is not None
    if not won or _rival(cluster, index):
        cluster = _withdrawn(cluster, index)
    cluster = cluster.with_round(index, None)
    if vote_round.goes_on:
        if not won:
            return _gone(cluster, index)
        recording = _recording(index, broker)
        recording.count_on(lambda: None)
        return cluster.put(index, evolve(written(broker, recording), is_blocked=False))
    event = decisions.after_vote(
        broker.record,
        has_rival=_rival(cluster, index),
        won=won,
        starts=vote_round.starts,
        is_contradicted=vote_round.is_contradicted,
    )
    assert event is not None
    return cluster.put(index, moved(broker, event))


def _recovered(cluster: Cluster, index: int) -> Cluster:
    broker = moved(cluster.pair.brokers[index], Event.RECOVERED)
    recording = _recording(index, broker)
    recording.settle(NODE, JOURNAL, None, lambda: None)
    return cluster.put(index, moved(written(broker, recording), Event.RECORDED))


def _of_waiting(cluster: Cluster, index: int) -> Iterator[tuple[str, Cluster]]:
    pair = cluster.pair
    broker, other = pair.brokers[index], pair.brokers[1 - index]
    if pair.source is not None:
        if not pair.in_sync:
            yield "is in sync", evolve(cluster, pair=_in_sync(pair, index))
        return
    if pair.linked and broker.ending is None and other.ending is None and other.stage in (Stage.BACKUP, Stage.VOTING):
        yield from _offered(cluster, index)
    if broker.stage is not Stage.BACKUP:
        return
    if broker.ending is not None:
        kind, in_sync = broker.ending
        event = decisions.after_replication(kind, was_accepted=True, in_sync=in_sync, has_manager=False, votes=True)
        broker = evolve(broker, ending=None)
        if event is Event.LEFT_BEHIND:
            recording = _recording(index, broker)
            recording.note_left_behind()
            broker = written(broker, recording)
        after = cluster.put(index, moved(broker, event))
        yield f"follows {kind.value}", _begun(after, index) if event is Event.VOTE_NEEDED else after
        return
    can_ask = any(booth.linked[index] for booth in cluster.booths) or broker.record.is_only_one
    again = decisions.after_pause(
        POLICIES[index], broker.record, has_manager=False, may_request_votes=can_ask, has_rival=_rival(cluster, index)
    )
    if again is not None:
        yield "tries again", _begun(cluster.put(index, moved(broker, again)), index, starts=True)
    if pair.linked and other.confirms:
        recording = _recording(index, broker)
        recording.live_at = PLACES[1 - index]
        recording.note_accepted(PrimaryStatus(NODE, JOURNAL, other.record.epoch, True))
        copying = evolve(written(broker, recording), is_unfinished=True, is_whole=False)
        yield "joins", cluster.put(index, copying, source=1 - index, in_sync=False)


def _in_sync(pair: Pair, index: int) -> Pair:
    """The active broker has its partner on its disk before the copy counts."""
    source = _recording(1 - index, pair.brokers[1 - index])
    source.note_partner(PLACES[index])
    pair = pair.put(1 - index, written(pair.brokers[1 - index], source))
    active = pair.brokers[1 - index]
    recording = _recording(index, pair.brokers[index])
    recording.live_at = PLACES[1 - index]
    recording.note_in_sync(PrimaryStatus(NODE, JOURNAL, active.record.epoch, True))
    broker = evolve(written(pair.brokers[index], recording), is_unfinished=False, is_whole=active.is_whole)
    return pair.put(index, broker, in_sync=True)


def _offer(cluster: Cluster, index: int, activation: int, *, yields: bool) -> ReplicaWaiting:
    is_primary = isinstance(POLICIES[index], ReplicationPrimary)
    partner = cluster.pair.brokers[index].record.partner
    return ReplicaWaiting(STREAM_FORMAT, NODE, activation, yields, is_primary, PLACES[index], partner)


def _offered(cluster: Cluster, index: int) -> Iterator[tuple[str, Cluster]]:
    """The other waiting broker receives the offer of this one; its answer may be lost."""
    broker, other = cluster.pair.brokers[index], cluster.pair.brokers[1 - index]
    newest = decisions.may_be_newest(POLICIES[index], broker.record)
    offer = _offer(cluster, index, broker.record.epoch if newest else -1, yields=False)
    answer = cold_starts.answer_to(POLICIES[1 - index], other.record, TEXTS[1 - index], offer)
    if answer is not cold_starts.Answer.YIELD:
        return
    after = cluster
    if other.record.in_sync:
        after = _withdrawn(cluster, 1 - index)
        recording = _recording(1 - index, other)
        recording.note_left_behind(lambda: None)
        after = after.put(1 - index, moved(written(other, recording), Event.YIELDED))
        yield "offers, and the answer is lost", after
    word = _offer(after, 1 - index, offer.epoch, yields=True)
    if cold_starts.answer_to(POLICIES[index], broker.record, TEXTS[index], word) is cold_starts.Answer.BEGIN:
        after = _withdrawn(after, index)
        after = after.put(index, moved(broker, Event.PARTNER_YIELDED))
    if after != cluster:
        yield "offers", after


def _of_active(cluster: Cluster, index: int) -> Iterator[tuple[str, Cluster]]:
    pair = cluster.pair
    broker, other = pair.brokers[index], pair.brokers[1 - index]
    if broker.is_blocked:
        if cluster.rounds[index] is None:
            yield "requests votes to go on", _begun(cluster, index, goes_on=True)
        return
    if not pair.in_sync and other.is_whole:
        yield "confirms alone", cluster.put(1 - index, evolve(other, is_whole=False))
    left = _lost(pair.put(index, moved(broker, Event.JOURNAL_CLOSED)))
    yield "stops", evolve(cluster, pair=ended(left, index))
    if pair.source == index and pair.in_sync:
        left = _lost(pair.put(index, moved(broker, Event.JOURNAL_CLOSED)), EndingKind.FAIL_OVER)
        yield "hands over", evolve(cluster, pair=ended(left, index))


def beginnings() -> dict[str, Cluster]:
    """Return the states from which a search begins."""
    cluster = Cluster()
    ways = {
        "in sync": ("p starts", "p recovers", "x finds p", "y finds p", "q starts", "q joins", "q is in sync"),
        "taken over": (
            "p crashes",
            "x loses p",
            "y loses p",
            "q follows lost",
            "q is answered by x",
            "q is answered by y",
            "q recovers",
            "x finds q",
            "y finds q",
        ),
        "all down": ("q crashes", "x loses q", "y loses q"),
    }
    found = {}
    for name, way in ways.items():
        for what in way:
            cluster = dict(successors(cluster))[what]
        found[name] = cluster
    down = found["in sync"]
    for what in ("p crashes", "q crashes", "x loses p", "y loses p"):
        down = dict(successors(down))[what]
    return {**found, "both down in sync": down}
