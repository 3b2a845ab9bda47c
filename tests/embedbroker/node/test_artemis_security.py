"""What Artemis' own tests of security expect, each as a test of its name (tests/scenarios/ARTEMIS_TESTS.md)."""

from __future__ import annotations

import pytest

from embedbroker.config import BrokerConfig, ResourceLimits, SecuritySetting, User
from embedclient.errors import ErrorCode
from embedclient.wire.core import (
    CreateQueueV2,
    CreateSessionResponse,
    ExceptionResponse,
    NullResponse,
    Packet,
    SessionClose,
    SessionConsumerClose,
    SessionCreateConsumer,
    SessionQueueQueryResponseV3,
    SessionSend,
)

from .managing import Manager
from .scripted import Peer, Stage, letter

ANYCAST, MULTICAST = 1, 0
ALL = SecuritySetting.all("all")
ADMIN = User("all", "all", roles=["all"])


def broker(settings: dict[str, SecuritySetting], *users: User, **config: object) -> Stage:
    return Stage(users=[ADMIN, *users], security_settings=settings, **config)  # type: ignore[arg-type]  # real fields


def peer_of(stage: Stage, user: str) -> Peer:
    """A session of a user whose password is its name."""
    peer = stage.connect().open_session(user=user, password=user)
    peer.clear()
    return peer


def queue(address: str, name: str, *, routing: int = ANYCAST) -> Packet:
    return CreateQueueV2(address, name, None, True, False, True, False, routing)


def consumer(name: str) -> Packet:
    return SessionCreateConsumer(1, name, None, False, True)


def send(address: str, *, waits: bool = True) -> Packet:
    return SessionSend(letter("m", address), waits, -1 if waits else 0)


def passes(peer: Peer, packet: Packet) -> bool:
    """Send a request; False if it was refused for want of a permission."""
    peer.send(packet)
    answers = peer.clear()
    for answer in answers:
        if isinstance(answer, ExceptionResponse):
            assert answer.code == ErrorCode.SECURITY_EXCEPTION and "does not have permission=" in str(answer.message)
            return False
    assert any(isinstance(answer, NullResponse | SessionQueueQueryResponseV3) for answer in answers)
    return True


def test_jaas_security_manager_authorization_same_address_different_queues_fqqn_syntax() -> None:
    """Each user reads only the queue whose full name has its role."""
    settings = {"#": ALL, "a::q1": SecuritySetting(consume=["one"]), "a::q2": SecuritySetting(consume=["two"])}
    stage = broker({"#": ALL}, User("one", "one", roles=["one"]), User("two", "two", roles=["two"]))
    admin = peer_of(stage, "all")
    assert passes(admin, queue("a", "q1")) and passes(admin, queue("a", "q2"))
    security = stage.node.core.security
    assert security is not None
    security.replace(BrokerConfig(users=stage.config.users, security_settings=settings))
    for user, own, other in (("one", "q1", "q2"), ("two", "q2", "q1")):
        peer = peer_of(stage, user)
        assert passes(peer, consumer(f"a::{own}")) and not passes(peer, consumer(f"a::{other}"))


def test_fallback_consumer_authorization() -> None:
    """A match with a wildcard refuses; the less specific one, which would allow, is not tried."""
    amq = User("amq", "amq", roles=["amq"])
    stage = broker({"a.*.b": SecuritySetting.all("all"), "#": SecuritySetting.all("all", "amq")}, amq)
    assert passes(peer_of(stage, "all"), queue("a.c.b", "a.c.b")) and passes(peer_of(stage, "all"), queue("z", "z"))
    assert not passes(peer_of(stage, "amq"), consumer("a.c.b")) and passes(peer_of(stage, "amq"), consumer("z"))


def test_jaas_security_manager_create_queue_with_different_routing_type_as_address_negative() -> None:
    """A queue of a routing type that its address lacks requires `createAddress`, too."""
    everywhere = SecuritySetting(create_durable_queue=["all", "r"], create_address=["all"])
    stage = broker({"#": everywhere}, User("r", "r", roles=["r"]))
    assert passes(peer_of(stage, "all"), queue("a", "q"))
    peer = peer_of(stage, "r")
    assert passes(peer, queue("a", "q2")) and not passes(peer, queue("a", "q3", routing=MULTICAST))
    definition = stage.node.kernel.address_manager.addresses["a"].definition
    assert definition.anycast and not definition.multicast


def test_non_block_send_without_role() -> None:
    """A send that waits for no answer is refused in silence, and stores nothing."""
    stage = broker({"#": ALL}, User("x", "x", roles=["x"]))
    assert passes(peer_of(stage, "all"), queue("q", "q"))
    peer = peer_of(stage, "x")
    peer.send(send("q", waits=False))
    assert peer.clear() == [] and peer.closed is None
    assert stage.node.kernel.address_manager.queues["q"].message_count == 0


@pytest.mark.parametrize("cache", [0, 1000])
def test_send_message_update_role_cached_2(cache: int) -> None:
    """A role is removed; the next operation of its users is refused, with caches and without."""
    stage = broker({"#": SecuritySetting.all("all", "r")}, User("r", "r", roles=["r"]), authorization_cache_size=cache)
    peer = peer_of(stage, "r")
    assert passes(peer, queue("q", "q")) and passes(peer, send("q")) and passes(peer, consumer("q"))
    peer.send(SessionConsumerClose(1))
    peer.clear()
    security = stage.node.core.security
    assert security is not None
    config = BrokerConfig(users=stage.config.users, security_settings={"#": ALL}, authorization_cache_size=cache)
    security.replace(config)
    assert not passes(peer, send("q")) and not passes(peer, consumer("q"))


def test_complex_roles() -> None:
    """Of nested matches with different roles, only the most specific one decides."""
    people = {
        "bill": ["user"],
        "andrew": ["europe-user", "user"],
        "frank": ["us-user", "news-user", "user"],
        "sam": ["news-user", "user"],
    }
    creates = {"create_durable_queue": ["all"], "create_address": ["all"]}
    settings = {
        "#": SecuritySetting.all("all", "user"),
        "news.europe.#": SecuritySetting(send=["europe-user"], consume=["news-user"], **creates),
        "news.us.#": SecuritySetting(send=["us-user"], consume=["news-user"], **creates),
    }
    stage = broker(settings, *(User(name, name, roles=roles) for name, roles in people.items()))
    for name in ("generic", "news.europe.q", "news.us.q"):
        assert passes(peer_of(stage, "all"), queue(name, name))
    may = {
        user: [
            (passes(peer_of(stage, user), send(name)), passes(peer_of(stage, user), consumer(name)))
            for name in ("generic", "news.europe.q", "news.us.q")
        ]
        for user in people
    }
    assert may == {
        "bill": [(True, True), (False, False), (False, False)],
        "andrew": [(True, True), (True, False), (False, False)],
        "frank": [(True, True), (False, True), (True, True)],
        "sam": [(True, True), (False, True), (False, True)],
    }


def test_send_message_to_fqqn_negative() -> None:
    """The permission to send is another role's, by the full name of the queue."""
    denied, allowed = User("denied", "denied", roles=["denied"]), User("allowed", "allowed", roles=["allowed"])
    stage = broker({"#": ALL}, denied, allowed)
    assert passes(peer_of(stage, "all"), queue("a", "q"))
    security = stage.node.core.security
    assert security is not None
    settings = {"#": SecuritySetting(send=["denied"]), "a::q": SecuritySetting(send=["allowed"])}
    security.replace(BrokerConfig(users=stage.config.users, security_settings=settings))
    assert not passes(peer_of(stage, "denied"), send("a::q")) and passes(peer_of(stage, "allowed"), send("a::q"))


def test_reject_exception() -> None:
    """A message without a validated user is refused where that is configured."""
    stage = Stage(reject_empty_validated_user=True)
    peer = stage.connect().open_session()
    peer.clear()
    peer.send(send("q"))
    refused = peer.refusal()
    assert (refused.code, refused.message) == (ErrorCode.ILLEGAL_STATE, "AMQ229225: Validated User is not set")


def test_send_management_op_with_view() -> None:
    """With `view` alone, an attribute is read and an operation that changes something is refused."""
    viewer = User("viewer", "viewer", roles=["viewer"])
    settings = {"#": SecuritySetting.all("all", "viewer"), "mops.#": SecuritySetting(view=["viewer"])}
    stage = broker(settings, viewer, management_message_rbac=True)
    assert passes(peer_of(stage, "all"), queue("q", "q"))
    manager = Manager(peer_of(stage, "viewer"))
    assert manager.call("queue.q", "countMessages") == 0
    text = manager.failure("queue.q", operation="removeAllMessages")
    assert text == "AMQ229032: User: viewer does not have permission='EDIT' on address mops.queue.q.removeAllMessages"


def test_session_limit_for_user() -> None:
    """With a limit of one session, the second one is refused; after the close of the first, it is admitted."""
    stage = broker({"#": ALL}, resource_limits={"all": ResourceLimits(max_sessions=1)})
    first, second = stage.connect(), stage.connect()
    first.open_session(user="all", password="all")
    second.open_session(user="all", password="all", answered=False)
    (refused,) = second.clear()
    assert isinstance(refused, ExceptionResponse) and refused.code == ErrorCode.SESSION_CREATION_REJECTED
    assert refused.message == "AMQ229110: Too many sessions for user 'all'. Sessions allowed: 1."
    first.send(SessionClose())
    second.open_session(user="all", password="all", answered=False)
    (admitted,) = second.clear()
    assert isinstance(admitted, CreateSessionResponse)
