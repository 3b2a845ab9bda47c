"""The permission that each verb of a session requires, and that a refused verb changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import Factory, define, field

from embedbroker.kernel import InternalBinding, Message, Permission, Principal, QueueRequest, Refused, Session
from embedclient.errors import ErrorCode

from .letters import letter
from .stage import ANYCAST, MULTICAST, Stage, Taker

ALICE = Principal("alice", frozenset({"clerks"}))

Check = tuple[Permission, str, str | None]


@define(eq=False)
class Rules:
    """An authority that notes what it is asked for and denies some permissions."""

    denied: set[Permission] = Factory(set)
    checks: list[Check] = Factory(list)
    principals: set[Principal] = field(factory=set)

    def allows(self, principal: Principal, permission: Permission, address: str, queue: str | None) -> bool:
        self.principals.add(principal)
        self.checks.append((permission, address, queue))
        return permission not in self.denied


def stage_of(rules: Rules, **config: object) -> Stage:
    stage = Stage(authority=rules, **config)  # type: ignore[arg-type]  # tests name real fields
    stage.queue("q", "a")
    stage.queue("temporary", temporary=True)
    return stage


def consume(session: Session, *, browse: bool) -> object:
    return session.create_consumer(1, "q", None, Taker(), browse=browse, priority=0)


VERBS: list[tuple[Callable[[Session], object], list[Check]]] = [
    (lambda session: session.send(letter("m", address="a"), ANYCAST), [(Permission.SEND, "a", None)]),
    (lambda session: session.send(letter("m", address="a::q"), ANYCAST), [(Permission.SEND, "a", "q")]),
    (
        lambda session: session.send(letter("m", address="new"), ANYCAST),
        [
            (Permission.SEND, "new", None),
            (Permission.CREATE_ADDRESS, "new", None),
            (Permission.CREATE_DURABLE_QUEUE, "new", "new"),
        ],
    ),
    (
        lambda session: session.send(letter("m", address="a"), MULTICAST),
        [(Permission.SEND, "a", None)],
    ),
    (lambda session: session.refusal_of_large(letter("m", address="a")), [(Permission.SEND, "a", None)]),
    (lambda session: session.refusal_of_large(letter("m", address="a::q")), [(Permission.SEND, "a", "q")]),
    (lambda session: consume(session, browse=False), [(Permission.CONSUME, "a", "q")]),
    (lambda session: consume(session, browse=True), [(Permission.BROWSE, "a", "q")]),
    (
        lambda session: session.addresses.create_address("b", anycast=True, multicast=False),
        [(Permission.CREATE_ADDRESS, "b", None)],
    ),
    (
        lambda session: session.addresses.create_queue(QueueRequest("a", "q2", routing_type=ANYCAST)),
        [(Permission.CREATE_DURABLE_QUEUE, "a", "q2")],
    ),
    (
        lambda session: session.addresses.create_queue(QueueRequest("a", "q2", routing_type=MULTICAST)),
        [(Permission.CREATE_DURABLE_QUEUE, "a", "q2"), (Permission.CREATE_ADDRESS, "a", None)],
    ),
    (
        lambda session: session.addresses.create_queue(QueueRequest("b::q2", "", temporary=True)),
        [(Permission.CREATE_NON_DURABLE_QUEUE, "b", "q2"), (Permission.CREATE_ADDRESS, "b", None)],
    ),
    (
        lambda session: session.addresses.create_queue(QueueRequest("b", "q2", durable=False, shared=True)),
        [(Permission.CREATE_NON_DURABLE_QUEUE, "b", "q2")],
    ),
    (lambda session: session.addresses.delete_queue("a::q"), [(Permission.DELETE_DURABLE_QUEUE, "a", "q")]),
    (
        lambda session: session.addresses.delete_queue("temporary"),
        [(Permission.DELETE_NON_DURABLE_QUEUE, "temporary", "temporary")],
    ),
    (
        lambda session: session.addresses.delete_queue("a::q", deletes_address=True),
        [(Permission.DELETE_DURABLE_QUEUE, "a", "q")],
    ),
    (lambda session: session.cursors("q"), [(Permission.CONSUME, "a", "q")]),
    (lambda session: session.fencing_tokens(Permission.VIEW), [(Permission.VIEW, "mops.fencing-tokens", None)]),
    (lambda session: session.fencing_tokens(Permission.EDIT), [(Permission.EDIT, "mops.fencing-tokens", None)]),
    (lambda session: session.commit_sets(), [(Permission.EDIT, "mops.fencing-tokens", None)]),
    (lambda session: session.addresses.query_queue("q"), []),
    (lambda session: session.addresses.query_address("a"), []),
]


@pytest.mark.parametrize(("verb", "checks"), VERBS)
def test_a_verb_requires_its_permissions(verb: Callable[[Session], object], checks: list[Check]) -> None:
    rules = Rules()
    result = verb(stage_of(rules).session(principal=ALICE))
    assert not isinstance(result, Refused)
    assert rules.checks == checks
    assert rules.principals == ({ALICE} if checks else set())


@pytest.mark.parametrize(("verb", "checks"), VERBS)
def test_each_missing_permission_refuses_the_verb_and_leaves_no_trace(
    verb: Callable[[Session], object], checks: list[Check]
) -> None:
    for permission, address, queue in checks:
        stage = stage_of(Rules({permission}))
        records, queues = list(stage.store.records), dict(stage.kernel.address_manager.queues)
        session = stage.session(principal=ALICE)
        refused = verb(session)
        assert isinstance(refused, Refused)
        assert refused.code == ErrorCode.SECURITY_EXCEPTION
        number = "AMQ229032" if queue is None else "AMQ229213"
        place = f"on address {address}" if queue is None else f"for queue {queue} on address {address}"
        assert refused.text == f"{number}: User: alice does not have permission='{permission.name}' {place}"
        # The address of a send is created first, as in Artemis; it stays if the queue is refused.
        kinds = {kind for kind, *_ in stage.store.records[len(records) :]} - {"ids"}
        made = permission is Permission.CREATE_DURABLE_QUEUE and len(checks) == 3
        assert kinds == ({"address"} if made else set())
        assert stage.kernel.address_manager.queues == queues
        assert not session.consumers
        stage.assert_empty()


def test_a_queue_for_a_list_is_checked_once_and_left_out_without_a_refusal() -> None:
    rules = Rules()
    session = stage_of(rules).session(principal=ALICE)
    queue = session.addresses.find_viewable_queue("q")
    assert queue is not None and queue.name == "q"
    assert rules.checks == [(Permission.VIEW, "a", "q")]
    rules.denied.add(Permission.VIEW)
    assert session.addresses.find_viewable_queue("q") is None
    assert session.addresses.find_viewable_queue("nope") is None


def test_sends_to_one_address_are_checked_once_in_each_session() -> None:
    rules = Rules()
    stage = stage_of(rules)
    for session in (stage.session(), stage.session()):
        rules.checks.clear()
        for _ in range(3):
            stage.send(letter("m", address="a"), session=session, routing_type=ANYCAST)
        assert rules.checks == [(Permission.SEND, "a", None)]


def test_a_denied_send_is_checked_each_time_and_fails_its_transaction() -> None:
    rules = Rules({Permission.SEND})
    stage = stage_of(rules)
    session = stage.session(transacted=True, principal=ALICE)
    for count in (1, 2):
        assert isinstance(session.send(letter("m", address="a"), ANYCAST), Refused)
        assert len(rules.checks) == count
    refused = session.commit()
    assert refused is not None and "User: alice does not have permission='SEND'" in refused.text


def test_a_session_remembers_a_bounded_number_of_addresses() -> None:
    rules = Rules()
    session = stage_of(rules).session()
    for _ in range(2):
        for address in ("a", "x" * 5000):
            assert session.send(letter("m", address=address), ANYCAST) is None
    sends = [address for permission, address, _ in rules.checks if permission is Permission.SEND]
    assert sends == ["a", "x" * 5000, "x" * 5000], "a long name is not remembered"
    for number in range(256):
        session.admit_send(f"address-{number}")
    rules.checks.clear()
    assert session.send(letter("m", address="a"), ANYCAST) is None
    assert rules.checks == [(Permission.SEND, "a", None)]


# -- internal bindings -------------------------------------------------------------------------------------------------


@define(eq=False)
class Part:
    """A part of the broker with an address."""

    taken: list[tuple[Any, ...]] = Factory(list)

    def take(self, message: Message, session: Session, sender_waits: bool) -> Refused | None:
        self.taken.append((message, session, sender_waits))
        return None


@pytest.mark.parametrize("transacted", [False, True])
def test_an_internal_binding_takes_what_is_sent_to_its_address(transacted: bool) -> None:
    rules, part = Rules(), Part()
    stage = stage_of(rules)
    stage.kernel.address_manager.bind_internal(InternalBinding("part", part.take, Permission.MANAGE))
    session = stage.session(transacted=transacted)
    request = letter("m", address="part")
    for sender_waits in (True, False):
        assert session.send(request, ANYCAST, sender_waits=sender_waits) is None
    assert part.taken == [(request, session, True), (request, session, False)]
    assert rules.checks == [(Permission.MANAGE, "part", None)] * 2
    assert session.transaction is None and "part" not in stage.kernel.address_manager.addresses
    rules.denied.add(Permission.MANAGE)
    assert isinstance(session.send(request, ANYCAST), Refused) and len(part.taken) == 2


def test_a_reserved_address_has_no_queues() -> None:
    stage, part = Stage(), Part()
    stage.kernel.address_manager.bind_internal(InternalBinding("part", part.take))
    stage.kernel.address_manager.bind_internal(InternalBinding("open", part.take, is_reserved=False))
    session = stage.session()
    for result in (
        session.addresses.create_queue(QueueRequest("part", "q")),
        session.addresses.create_queue(QueueRequest("a", "part")),
        session.addresses.create_address("part", anycast=True, multicast=False),
    ):
        assert isinstance(result, Refused) and result.code == ErrorCode.ILLEGAL_STATE and "'part'" in result.text
    view = session.addresses.query_address("part")
    assert view.exists and view.supports_anycast and not view.auto_create_queues
    assert not session.addresses.query_address("open").exists
    assert not isinstance(session.addresses.create_queue(QueueRequest("open", "open")), Refused)
    assert session.send(letter("m", address="open"), ANYCAST) is None and len(part.taken) == 1
