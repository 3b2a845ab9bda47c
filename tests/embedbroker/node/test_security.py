"""Logins and permissions over CORE: every operation with every permission, refusals, and limits of users."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from attrs import frozen

from embedbroker.config import BrokerConfig, GuestLogin, ResourceLimits, SecuritySetting, User
from embedbroker.kernel import MemoryStore, Permission
from embedclient.errors import ErrorCode
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import (
    CoreMessage,
    CreateAddress,
    CreateQueueV2,
    CreateSession,
    CreateSessionResponse,
    CreateSharedQueueV2,
    DeleteQueue,
    ExceptionResponse,
    NullResponse,
    Packet,
    ReattachSession,
    ReattachSessionResponse,
    SessionBindingQuery,
    SessionClose,
    SessionCommit,
    SessionCreateConsumer,
    SessionQueueQuery,
    SessionReceiveLarge,
    SessionReceiveMessage,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
    decode_text,
)

from .scripted import Peer, Stage, letter
from .services import request_of

P = Permission
ADMIN = User("admin", "a", roles=["admin"])
TESTER = User("tester", "t", roles=["tester"])
ANYCAST, MULTICAST = 1, 0


def send(address: str) -> Packet:
    return SessionSend(letter("m", address), True, -1)


def signed(user: str | None, address: str = "q") -> CoreMessage:
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    if user is not None:
        properties.set("_AMQ_VALIDATED_USER", user, PropertyType.STRING)
    return CoreMessage.build(address=address, durable=False, properties=properties, body=b"m")


def send_large(address: str) -> Packet:
    return SessionSendLarge(signed(None, address))


#: The whole body of a large message.
BODY = SessionSendContinuation(b"large", False, 5, True, -1)


def queue(address: str, name: str, *, durable: bool = True, temporary: bool = False, routing: int = ANYCAST) -> Packet:
    return CreateQueueV2(address, name, None, durable, temporary, True, False, routing)


def request(operation: str, **fields: object) -> Packet:
    return SessionSend(request_of(json.dumps({"operation": operation, **fields})), False, 0)


def management() -> Packet:
    return SessionSend(CoreMessage.build(address="activemq.management", durable=False, body=b""), True, -1)


@frozen
class Case:
    """An operation on an address of the tester, and what it needs."""

    name: str
    packet: Packet
    needs: frozenset[Permission]


def case(name: str, packet: Packet, *needs: Permission) -> Case:
    return Case(name, packet, frozenset(needs))


CASES = [
    case("send", send("a"), P.SEND),
    case("send to a queue of an address", send("a::q"), P.SEND),
    case("first send", send("new"), P.SEND, P.CREATE_ADDRESS, P.CREATE_DURABLE_QUEUE),
    case("first send to a queue", send("a::new"), P.SEND, P.CREATE_DURABLE_QUEUE),
    case("large send", send_large("a"), P.SEND),
    case("large send to a queue of an address", send_large("a::q"), P.SEND),
    case("first large send", send_large("new"), P.SEND, P.CREATE_ADDRESS, P.CREATE_DURABLE_QUEUE),
    case("first large send to a queue", send_large("a::new"), P.SEND, P.CREATE_DURABLE_QUEUE),
    case("consume", SessionCreateConsumer(1, "q", None, False, True), P.CONSUME),
    case("consume by a full name", SessionCreateConsumer(1, "a::q", None, False, True), P.CONSUME),
    case("browse", SessionCreateConsumer(1, "q", None, True, True), P.BROWSE),
    case("durable queue", queue("a", "x"), P.CREATE_DURABLE_QUEUE),
    case("durable queue of a new address", queue("new", "x"), P.CREATE_DURABLE_QUEUE, P.CREATE_ADDRESS),
    case(
        "durable queue of a new routing type",
        queue("a", "x", routing=MULTICAST),
        P.CREATE_DURABLE_QUEUE,
        P.CREATE_ADDRESS,
    ),
    case("non-durable queue", queue("a", "x", durable=False), P.CREATE_NON_DURABLE_QUEUE),
    case("temporary queue", queue("a", "x", temporary=True), P.CREATE_NON_DURABLE_QUEUE),
    case(
        "temporary queue of a new address",
        queue("new", "new", temporary=True),
        P.CREATE_NON_DURABLE_QUEUE,
        P.CREATE_ADDRESS,
    ),
    case("shared durable queue", CreateSharedQueueV2("new", "x", None, True, MULTICAST, True), P.CREATE_DURABLE_QUEUE),
    case("shared queue", CreateSharedQueueV2("new", "x", None, False, MULTICAST, True), P.CREATE_NON_DURABLE_QUEUE),
    case("address", CreateAddress("new", (ANYCAST,), True, False), P.CREATE_ADDRESS),
    case("routing type of an address", CreateAddress("a", (ANYCAST, MULTICAST), True, False), P.CREATE_ADDRESS),
    case("delete a durable queue", DeleteQueue("q"), P.DELETE_DURABLE_QUEUE),
    case("delete a non-durable queue", DeleteQueue("n"), P.DELETE_NON_DURABLE_QUEUE),
    case("management", management(), P.MANAGE),
    case("a marker is read", request("marker.get", name="m"), P.VIEW),
    case("a marker is set", request("marker.set", name="m", expected=None, value=1), P.EDIT),
    case("query of a queue", SessionQueueQuery("q")),
    case("query of an address", SessionBindingQuery("a")),
    case("commit", SessionCommit()),
]
EVERYTHING = frozenset(P)
GRANTS = [frozenset[P](), EVERYTHING, *(frozenset({one}) for one in P), *(EVERYTHING - {one} for one in P)]


def setting(granted: frozenset[Permission], role: str = "tester") -> SecuritySetting:
    names = {permission.name.lower() for permission in granted}
    roles = {one.name.lower(): ["admin", role] if one.name.lower() in names else ["admin"] for one in P}
    return SecuritySetting(**roles)


def secured(users: list[User], settings: dict[str, SecuritySetting]) -> Stage:
    return Stage(users=users, security_settings=settings)


def stage_with(granted: frozenset[Permission]) -> Stage:
    """A broker in which the tester has these permissions, and may ask the services and read their replies."""
    always = SecuritySetting.all("*")
    stage = secured([ADMIN, TESTER], {"#": setting(granted), "replies": always, "embedbroker.services": always})
    admin = stage.connect().open_session(user="admin", password="a")
    admin.send(queue("a", "q"), queue("a", "n", durable=False), queue("replies", "replies"))
    assert admin.clear() == [NullResponse(-1)] * 3
    return stage


def outcome(peer: Peer, packet: Packet) -> str | None:
    """The text of the refusal of a request; None if it was carried out."""
    peer.send(packet)
    if isinstance(packet, SessionSendLarge):
        peer.send(BODY)
        peer.stage.run()
    if isinstance(packet, SessionSend) and packet.message.address == "embedbroker.services":
        peer.consume("replies", 9)
        (reply,) = [one for one in peer.clear() if isinstance(one, SessionReceiveMessage)]
        status = reply.message.property("embedbroker_status")
        return None if status == "ok" else decode_text(reply.message.body)
    refusals = [one for one in peer.clear() if isinstance(one, ExceptionResponse)]
    for refused in refusals:
        if refused.code == ErrorCode.SECURITY_EXCEPTION:
            assert refused.message is not None
            return refused.message
    assert peer.closed is None
    return None


def state_of(stage: Stage) -> object:
    manager = stage.node.kernel.address_manager
    return (
        {name: (each.message_count, each.consumer_count) for name, each in manager.queues.items() if name != "replies"},
        {name: (each.definition.anycast, each.definition.multicast) for name, each in manager.addresses.items()},
        stage.node.kernel.fencing_tokens.list(""),
    )


@pytest.mark.parametrize("wanted", CASES, ids=lambda wanted: wanted.name)
def test_an_operation_passes_with_its_permissions_and_with_no_other(wanted: Case) -> None:
    """Artemis' AutoCreateJmsDestinationTest.testAutoCreateOnSendToQueueSecurity."""
    for granted in GRANTS:
        stage = stage_with(granted)
        peer = stage.connect().open_session(user="tester", password="t")
        peer.clear()
        before = state_of(stage)
        refused = outcome(peer, wanted.packet)
        missing = wanted.needs - granted
        assert (refused is None) == (not missing), (sorted(one.name for one in granted), refused)
        if refused is not None:
            named = {one for one in P if f"permission='{one.name}'" in refused}
            assert named <= missing and len(named) == 1 and "AMQ229" in refused and "User: tester " in refused
            # The address of a first send is there before its queue is refused, as in Artemis.
            if named != {P.CREATE_DURABLE_QUEUE} or wanted.name not in ("first send", "first large send"):
                assert state_of(stage) == before


def test_the_table_has_every_permission_but_that_without_an_operation() -> None:
    assert {one for wanted in CASES for one in wanted.needs} == EVERYTHING - {P.DELETE_ADDRESS}
    assert len(CASES) * len(GRANTS) > 600


def test_permissions_of_a_queue_are_those_of_its_full_name() -> None:
    one = SecuritySetting(consume=["one"], create_durable_queue=["admin"])
    two = SecuritySetting(consume=["two"], create_durable_queue=["admin"])
    users = [ADMIN, User("one", "1", roles=["one"]), User("two", "2", roles=["two"])]
    settings = {"#": SecuritySetting.all("admin"), "a::q1": one, "a::q2": two}
    stage = secured(users, settings)
    admin = stage.connect().open_session(user="admin", password="a")
    admin.send(queue("a", "q1"), queue("a", "q2"))
    assert admin.clear() == [NullResponse(-1)] * 2
    for user, password, mine, other in [("one", "1", "q1", "q2"), ("two", "2", "q2", "q1")]:
        peer = stage.connect().open_session(user=user, password=password)
        assert outcome(peer, SessionCreateConsumer(1, mine, None, False, True)) is None
        assert outcome(peer, SessionCreateConsumer(2, other, None, False, True)) == (
            f"AMQ229213: User: {user} does not have permission='CONSUME' for queue {other} on address a"
        )


def test_a_missing_queue_is_reported_before_the_permission() -> None:
    peer = stage_with(frozenset()).connect().open_session(user="tester", password="t")
    peer.send(SessionCreateConsumer(1, "nowhere", None, False, True))
    assert peer.refusal().code == ErrorCode.QUEUE_DOES_NOT_EXIST


@pytest.mark.parametrize("transacted", [False, True])
def test_a_refused_send_without_an_answer_leaves_nothing_and_fails_its_transaction(transacted: bool) -> None:
    stage = stage_with(frozenset())
    peer = stage.connect().open_session(user="tester", password="t", transacted=transacted)
    peer.clear()
    peer.send(SessionSend(letter("m", "a"), False, 0))
    assert peer.clear() == [] and stage.node.kernel.address_manager.queues["q"].message_count == 0
    if transacted:
        peer.send(SessionCommit(1))
        refused = peer.refusal()
        assert refused.code == ErrorCode.TRANSACTION_ROLLED_BACK and "'SEND'" in str(refused.message)


# -- logins ------------------------------------------------------------------------------------------------------------


def log_in(stage: Stage, user: str | None, password: str | None, channel: int = 10, peer: Peer | None = None) -> object:
    """The answer to the request for a session."""
    peer = peer or stage.connect()
    peer.open_session(f"s-{peer.number}-{channel}", channel=channel, user=user, password=password, answered=False)
    (answer,) = peer.clear()
    assert peer.closed is None
    return answer


@pytest.mark.parametrize(
    ("user", "password"),
    [(None, None), ("", ""), ("admin", None), ("admin", "b"), ("nobody", "a"), (None, "a"), ("Admin", "a"), ("*", "*")],
)
def test_wrong_or_missing_credentials_get_no_session(user: str | None, password: str | None) -> None:
    stage = secured([ADMIN], {"#": SecuritySetting.all("admin")})
    answer = log_in(stage, user, password)
    assert isinstance(answer, ExceptionResponse) and answer.code == ErrorCode.SECURITY_EXCEPTION
    assert answer.message is not None and answer.message.startswith("AMQ229031: Unable to validate user from ")
    assert not stage.node.core.sessions
    # The connection goes on: another login may be right.
    assert isinstance(log_in(stage, "admin", "a"), CreateSessionResponse)


def test_without_users_every_client_is_admitted() -> None:
    assert not BrokerConfig().is_secured and Stage().node.core.security is None
    assert isinstance(log_in(Stage(), "any", "thing"), CreateSessionResponse)


@pytest.mark.parametrize(
    ("config", "may"),
    [
        ({"security_enabled": True}, False),
        ({"security_settings": {}}, False),
        ({"guest": GuestLogin()}, True),
        ({"users": [ADMIN]}, False),
        ({"users": [ADMIN], "security_enabled": False}, True),
    ],
)
def test_what_makes_a_broker_ask_for_credentials(config: dict[str, object], may: bool) -> None:
    answer = log_in(Stage(**config), None, None)  # type: ignore[arg-type]  # real fields
    assert isinstance(answer, CreateSessionResponse) is may


def test_users_with_a_role_may_do_everything_by_default() -> None:
    stage = Stage(users=[ADMIN, User("idle", "i")])
    assert outcome(stage.connect().open_session(user="admin", password="a"), send("x")) is None
    assert outcome(stage.connect().open_session(user="idle", password="i"), send("x")) is not None


def test_guessing_is_slowed_by_the_clock_of_the_node() -> None:
    stage = Stage(users=[ADMIN])
    peer = stage.connect()
    answers = [log_in(stage, "admin", f"guess {number}", 10, peer) for number in range(6)]
    texts = [str(answer.message) for answer in answers if isinstance(answer, ExceptionResponse)]
    assert all(text.startswith("AMQ229031") for text in texts)
    assert "try again in 1.0 s" in texts[5] and "try again" not in texts[4]
    assert isinstance(log_in(stage, "admin", "a", 10, peer), ExceptionResponse)
    stage.seconds += 1.1
    assert isinstance(log_in(stage, "admin", "a", 10, peer), CreateSessionResponse)
    refused = [text for _level, text in stage.notices if text.startswith("security: ")]
    assert len(refused) == 7 and "guess" not in "".join(refused)


@pytest.mark.search
def test_a_hundred_thousand_failed_logins_harm_no_other_client() -> None:
    stage = Stage(users=[ADMIN, TESTER])
    witness = stage.connect().open_session(user="admin", password="a")
    witness.create_queue()
    witness.consume()
    witness.clear()
    requests = [
        CreateSession(f"s-{number}", 10, 136, "tester", f"guess-{number}", 102_400, False, True, True, -1, False, None)
        for number in range(1000)
    ]
    refused = 0
    for turn in range(100):
        attacker = stage.connect()
        attacker.send(*requests, channel=1)
        refused += sum(isinstance(each, ExceptionResponse) for each in attacker.clear())
        attacker.lose()
        witness.post(f"message {turn}", blocking=True)
        assert witness.texts[-1] == f"message {turn}"
        witness.clear()
        stage.seconds += 0.1
    assert refused == 100_000
    security = stage.node.core.security
    assert security is not None and security.statistics().refused_logins == 100_000
    # Ten seconds: twenty lines, and one with the number of the others when the next period begins.
    lines = [text for _level, text in stage.notices if text.startswith("security: ")]
    assert len(lines) <= 41 and not any("guess-" in line for line in lines)
    # An address and a user of it for each connection: a stage gives each one an address.
    assert security.statistics().failed_logins <= 200
    assert isinstance(log_in(stage, "admin", "a"), CreateSessionResponse)


def test_a_permission_that_is_withdrawn_is_missed_by_the_next_send() -> None:
    stage = Stage(users=[ADMIN])
    peer = stage.connect().open_session(user="admin", password="a")
    security = stage.node.core.security
    assert security is not None and outcome(peer, send("x")) is None
    security.replace(BrokerConfig(users=[ADMIN], security_settings={}))
    assert outcome(peer, send("x")) is not None


def test_refusals_are_notifications() -> None:
    stage = stage_with(frozenset())
    listener = stage.connect().open_session(user="admin", password="a")
    listener.send(queue("activemq.notifications", "notes", durable=False, routing=MULTICAST))
    listener.clear()
    listener.consume("notes")
    tester = stage.connect().open_session(user="tester", password="t")
    assert outcome(tester, send("a")) is not None and outcome(tester, queue("a", "x")) is not None
    security = stage.node.core.security
    assert security is not None
    # As for a client whose certificate TLS has verified, and that names no user.
    security.log_in("tester", "wrong", "10.0.0.1:4711", stage.seconds, "CN=app, O=Example")
    log_in(stage, "tester", "wrong")
    stage.settle_disk()
    found = [dict(packet.message.properties) for packet in listener.packets(SessionReceiveMessage)]
    refusals = [one for one in found if "SECURITY" in str(one["_AMQ_NotifType"])]
    assert [(one["_AMQ_NotifType"], one["_AMQ_User"], one.get("_AMQ_CheckType")) for one in refusals] == [
        ("SECURITY_PERMISSION_VIOLATION", "tester", "SEND"),
        ("SECURITY_PERMISSION_VIOLATION", "tester", "CREATE_DURABLE_QUEUE"),
        ("SECURITY_AUTHENTICATION_VIOLATION", "tester", None),
        ("SECURITY_AUTHENTICATION_VIOLATION", "tester", None),
    ]
    assert [one.get("_AMQ_CertSubjectDN") for one in refusals] == [None, None, "CN=app, O=Example", "unavailable"]
    assert refusals[0]["_AMQ_Address"] == "a" and "peer-" in str(refusals[3]["_AMQ_RemoteAddress"])


def test_a_list_of_queues_is_no_refusal_of_those_that_are_left_out() -> None:
    stage = stage_with(EVERYTHING - {P.VIEW})
    peer = stage.connect().open_session(user="tester", password="t")
    peer.clear()
    assert outcome(peer, request("queue.list", pattern="*")) is None
    security = stage.node.core.security
    assert security is not None and security.statistics().refused == 0


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_user_has_at_most_its_number_of_sessions_and_connections() -> None:
    limits = {"admin": ResourceLimits(max_sessions=3, max_connections=2)}
    stage = Stage(users=[ADMIN, TESTER], resource_limits=limits)
    first, second = stage.connect(), stage.connect()
    assert isinstance(log_in(stage, "admin", "a", 10, first), CreateSessionResponse)
    assert isinstance(log_in(stage, "admin", "a", 10, second), CreateSessionResponse)
    answer = log_in(stage, "admin", "a")
    assert isinstance(answer, ExceptionResponse) and answer.code == ErrorCode.SESSION_CREATION_REJECTED
    assert answer.message == "AMQ229110: Too many connections for user 'admin'. Connections allowed: 2."
    assert isinstance(log_in(stage, "admin", "a", 11, first), CreateSessionResponse)
    answer = log_in(stage, "admin", "a", 12, first)
    assert isinstance(answer, ExceptionResponse) and answer.message == (
        "AMQ229110: Too many sessions for user 'admin'. Sessions allowed: 3."
    )
    assert isinstance(log_in(stage, "tester", "t"), CreateSessionResponse)
    first.send(SessionClose(), channel=11)
    first.clear()
    assert isinstance(log_in(stage, "admin", "a", 12, second), CreateSessionResponse)
    first.lose()
    assert isinstance(log_in(stage, "admin", "a"), CreateSessionResponse)


def test_a_reattached_session_counts_for_its_new_connection() -> None:
    stage = Stage(users=[ADMIN], resource_limits={"admin": ResourceLimits(max_connections=1)})
    old = stage.connect().open_session("s", window=100, user="admin", password="a")
    new = stage.connect()
    new.send(ReattachSession("s", -1), channel=1)
    assert new.last(ReattachSessionResponse).reattached
    new.clear()
    assert isinstance(log_in(stage, "admin", "a", 11, new), CreateSessionResponse)
    assert isinstance(log_in(stage, "admin", "a", 11, old), ExceptionResponse)


def test_a_user_creates_at_most_its_number_of_queues() -> None:
    stage = Stage(users=[ADMIN, TESTER], resource_limits={"tester": ResourceLimits(max_queues=2)})
    admin = stage.connect().open_session(user="admin", password="a")
    assert [outcome(admin, queue("a", f"q{number}")) for number in range(4)] == [None] * 4
    peer = stage.connect().open_session(user="tester", password="t")
    assert outcome(peer, queue("b", "b1")) is None
    assert outcome(peer, send("auto")) is None
    for packet in (queue("b", "b2"), queue("b", "b3", temporary=True), send("auto2")):
        text = outcome(peer, packet)
        assert text == "AMQ229111: Too many queues created by user 'tester'. Queues allowed: 2."
    assert outcome(peer, DeleteQueue("b1")) is None and outcome(peer, queue("b", "b2")) is None


# -- identity on messages ----------------------------------------------------------------------------------------------


def stored_users(stage: Stage) -> Iterator[object]:
    reader = stage.connect().open_session(user="admin", password="a")
    reader.clear()
    reader.consume("q")
    stage.run()
    for _channel, packet in reader.received:
        if isinstance(packet, SessionReceiveMessage | SessionReceiveLarge):
            yield packet.message.property("_AMQ_VALIDATED_USER")


@pytest.mark.parametrize(
    ("users", "user", "expected"),
    [([ADMIN], "admin", "admin"), ([], "claimed", "claimed"), ([], None, None)],
)
def test_messages_carry_the_user_that_sent_them(users: list[User], user: str | None, expected: str | None) -> None:
    stage = Stage(users=users, populate_validated_user=True)
    peer = stage.connect().open_session(user=user, password="a")
    for claimed in (None, "forged"):
        peer.send(SessionSend(signed(claimed), True, -1))
        assert isinstance(peer.received[-1][1], NullResponse)
    for claimed in (None, "forged"):
        peer.send(SessionSendLarge(signed(claimed)), BODY)
        stage.run()
        assert isinstance(peer.received[-1][1], NullResponse)
    assert list(stored_users(stage)) == [expected] * 4


@pytest.mark.parametrize("populate", [False, True])
def test_messages_without_a_user_are_refused_where_that_is_configured(populate: bool) -> None:
    stage = Stage(reject_empty_validated_user=True, populate_validated_user=populate)
    peer = stage.connect().open_session()
    peer.clear()
    peer.send(SessionSend(signed(None), True, -1))
    refused = peer.refusal()
    assert refused.code == ErrorCode.ILLEGAL_STATE and refused.message == "AMQ229225: Validated User is not set"
    peer.send(SessionSend(signed("claimed"), True, -1))
    assert isinstance(peer.clear()[-1], ExceptionResponse if populate else NullResponse)


@pytest.mark.parametrize("populate", [False, True])
def test_a_large_message_without_a_user_is_refused_and_leaves_no_body(populate: bool) -> None:
    stage = Stage(reject_empty_validated_user=True, populate_validated_user=populate)
    peer = stage.connect().open_session()
    peer.create_queue()
    for claimed in (None, "claimed"):
        peer.clear()
        peer.send(SessionSendLarge(signed(claimed)), BODY)
        stage.run()
        if claimed is None or populate:
            refused = peer.refusal()
            assert refused.code == ErrorCode.ILLEGAL_STATE and refused.message == "AMQ229225: Validated User is not set"
        else:
            assert isinstance(peer.clear()[-1], NullResponse)
    kept = 0 if populate else 1
    store = stage.node.kernel.store
    assert isinstance(store, MemoryStore) and len(list(store.bodies.numbers)) == kept
    assert stage.node.kernel.address_manager.queues["q"].message_count == kept


def test_the_body_of_a_large_message_without_permission_is_not_stored() -> None:
    stage = stage_with(frozenset())
    peer = stage.connect().open_session(user="tester", password="t")
    peer.clear()
    peer.send(SessionSendLarge(signed(None, "a")), SessionSendContinuation(b"large", True, -1, False, -1))
    store = stage.node.kernel.store
    assert isinstance(store, MemoryStore) and not list(store.bodies.numbers)
    # The answer is that to the last chunk, for which the client waits.
    assert peer.clear() == []
    peer.send(SessionSendContinuation(b"body", False, 9, True, -1))
    assert peer.refusal().message == "AMQ229032: User: tester does not have permission='SEND' on address a"


def test_a_permission_that_is_withdrawn_during_the_body_is_missed_at_its_end() -> None:
    stage = Stage(users=[ADMIN])
    peer = stage.connect().open_session(user="admin", password="a")
    peer.create_queue()
    peer.clear()
    peer.send(SessionSendLarge(signed(None)), SessionSendContinuation(b"large", True, -1, False, -1))
    security = stage.node.core.security
    assert security is not None
    security.replace(BrokerConfig(users=[ADMIN], security_settings={}))
    peer.send(SessionSendContinuation(b"body", False, 9, True, -1))
    stage.run()
    assert peer.refusal().code == ErrorCode.SECURITY_EXCEPTION
    store = stage.node.kernel.store
    assert isinstance(store, MemoryStore) and not list(store.bodies.numbers)


def test_a_missing_permission_is_reported_before_a_missing_user() -> None:
    settings = {"#": SecuritySetting(manage=["tester"])}
    stage = Stage(users=[TESTER], security_settings=settings, reject_empty_validated_user=True)
    peer = stage.connect().open_session(user="tester", password="t")
    for packet in (SessionSend(signed(None), True, -1), SessionSendLarge(signed(None))):
        assert str(outcome(peer, packet)).startswith("AMQ229032: ")
    # A request to the broker is carried out without it, as in Artemis.
    assert outcome(peer, management()) is None


def checks(stage: Stage) -> Callable[[], int]:
    security = stage.node.core.security
    assert security is not None
    return lambda: security.statistics().granted


def test_a_thousand_sends_to_one_address_are_one_check() -> None:
    stage = Stage(users=[ADMIN])
    peer = stage.connect().open_session(user="admin", password="a")
    peer.create_queue()
    granted = checks(stage)
    before = granted()
    peer.post(*[str(number) for number in range(1000)])
    assert granted() == before + 1
