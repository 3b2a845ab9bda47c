"""One directory of users and permissions, read by Artemis and by our broker: the same operations pass and fail."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from embedbroker import EmbeddedBroker, ThreadedBroker, load_config
from embedclient import ClientSession, ConnectionFactory, RoutingType, ServerLocator
from embedclient.errors import JMSException, JMSSecurityException
from embedclient.model import PropertyType
from tests.interop.artemis import ArtemisBroker, command_line
from tests.interop.jms_matrix import JmsMatrix, matrix_of
from tests.interop.programs import ProgramError
from tests.interop.registry import CLIENT_VERSIONS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

SETTINGS = """
<security-settings>
    <security-setting match="#">PERMISSIONS</security-setting>
    <security-setting match="a.#">
        <permission type="send" roles="senders"/><permission type="consume" roles="readers"/>
        <permission type="browse" roles="readers,browsers"/>
    </security-setting>
    <security-setting match="a.*.c"><permission type="send" roles="readers"/></security-setting>
    <security-setting match="a.b"><permission type="consume" roles="readers"/></security-setting>
    <security-setting match="a.two::q1"><permission type="consume" roles="browsers"/></security-setting>
    <security-setting match="auto.#">
        <permission type="send" roles="senders"/><permission type="createAddress" roles="senders"/>
        <permission type="createDurableQueue" roles="senders"/>
    </security-setting>
    <security-setting match="half.#">
        <permission type="send" roles="senders"/><permission type="createAddress" roles="senders"/>
        <permission type="createNonDurableQueue" roles="senders"/>
    </security-setting>
    <security-setting match="none.#"><permission type="send" roles="senders"/></security-setting>
    <security-setting match="old"><permission type="send" roles="senders"/></security-setting>
    <security-setting match="old.q"><permission type="consume" roles="readers"/></security-setting>
    <security-setting match="everybody"><permission type="send" roles="*"/></security-setting>
    <role-mapping from="mapped" to="senders,readers"/>
</security-settings>
"""
EVERY_TYPE = (
    "createNonDurableQueue deleteNonDurableQueue createDurableQueue deleteDurableQueue createAddress deleteAddress "
    "consume browse send manage"
)
USERS = {
    "sender": "senders",
    "reader": "readers",
    "browser": "browsers",
    "mapped": "mapped",
    "idle": None,
}
ADMIN_QUEUES = [
    *(("a.x", "a.x"), ("a.b", "a.b"), ("a.x.c", "a.x.c"), ("a.two", "q1"), ("a.two", "q2"), ("old", "q")),
    *(("everybody", "everybody"), ("closed", "closed")),
]


class SecuredArtemis(ArtemisBroker):
    """An Artemis that requires a login."""

    def _create(self) -> None:
        super()._create()
        etc = self.directory / "etc"
        permissions = "".join(f'<permission type="{name}" roles="amq"/>' for name in EVERY_TYPE.split())
        settings = SETTINGS.replace("PERMISSIONS", permissions)
        text = (etc / "broker.xml").read_text()
        (etc / "broker.xml").write_text(
            re.sub(r"<security-settings>.*</security-settings>", settings, text, flags=re.DOTALL)
        )
        login = (etc / "login.config").read_text()
        first = login.index("org.apache.activemq.artemis.spi.core.security.jaas.GuestLoginModule")
        (etc / "login.config").write_text(login[:first].replace("sufficient", "required") + "};")
        with (etc / "artemis-users.properties").open("a") as users:
            users.write("".join(f"\n{user} = {user}-password" for user in USERS))
        with (etc / "artemis-roles.properties").open("a") as roles:
            roles.write("".join(f"\n{role} = {user}" for user, role in USERS.items() if role))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredArtemis]:
    broker = SecuredArtemis(tmp_path_factory.mktemp("secured") / "instance")
    with broker:
        yield broker


@pytest.fixture(scope="module")
def ours(theirs: SecuredArtemis) -> Iterator[ThreadedBroker]:
    warnings: list[str] = []
    config = load_config(theirs.directory / "etc" / "broker.xml", on_warning=warnings.append)
    (warning,) = [text for text in warnings if "login.config" in text or "core/security" in text]
    assert "role '*' grants nothing" in warning
    with EmbeddedBroker.in_thread(config, port=0, data_directory=None) as broker:
        yield broker


def password_of(user: str) -> str:
    return "admin" if user == "admin" else f"{user}-password"


Work = Callable[[ClientSession], Awaitable[object]]


def sends(address: str, routing_type: RoutingType | None = None) -> Work:
    async def work(session: ClientSession) -> None:
        message = session.create_message(b"m", durable=True)
        if routing_type is not None:
            message.properties.set("_AMQ_ROUTING_TYPE", int(routing_type), PropertyType.BYTE)
        await session.create_producer(address).send(message)

    return work


def consumes(queue: str, *, browse: bool = False) -> Work:
    async def work(session: ClientSession) -> None:
        await session.create_consumer(queue, browse_only=browse)

    return work


def creates(address: str, name: str, *, durable: bool = True) -> Work:
    async def work(session: ClientSession) -> None:
        await session.create_queue(address, name, durable=durable, routing_type=RoutingType.ANYCAST)

    return work


def deletes(name: str) -> Work:
    return lambda session: session.delete_queue(name)


OPERATIONS: dict[str, Work] = {
    "send": sends("a.x"),
    "send where a more specific match has no permission": sends("a.b"),
    "send where a star in a word is more specific": sends("a.x.c"),
    "send to a closed address": sends("closed"),
    "send where the role is a star": sends("everybody"),
    "first send": sends("auto.s", RoutingType.ANYCAST),
    "first send without permission for a queue": sends("half.s", RoutingType.ANYCAST),
    "first send without permission for an address": sends("none.s", RoutingType.ANYCAST),
    "first send to a topic": sends("half.t", RoutingType.MULTICAST),
    "consume": consumes("a.x"),
    "browse": consumes("a.x", browse=True),
    "consume of one queue": consumes("q1"),
    "consume of its neighbour": consumes("q2"),
    "consume of a missing queue": consumes("missing"),
    "consume by the old name": consumes("q"),
    "durable queue": creates("auto.q", "auto.q"),
    "durable queue without permission": creates("half.q", "half.q"),
    "non-durable queue": creates("half.n", "half.n", durable=False),
    "queue at a closed address": creates("none.q", "none.q"),
    "queue of one name": creates("a.two", "q1"),
    "delete": deletes("a.x"),
    "delete of a missing queue": deletes("missing"),
    "address": lambda session: session.create_address("auto.address", [RoutingType.ANYCAST]),
    "address without permission": lambda session: session.create_address("none.address", [RoutingType.ANYCAST]),
    "query": lambda session: session.query_queue("closed"),
}


async def outcome_of(url: str, user: str, work: Work) -> str:
    """The result of an operation in a separate session: the error's class, code and text, or nothing."""
    try:
        async with (
            ServerLocator(url).create_session_factory() as factory,
            factory.create_session(username=user, password=password_of(user)) as session,
        ):
            await work(session)
    except JMSException as error:
        text = str(error)
        # The texts of security are Artemis' in full.
        own = re.match(r"AMQ(229031|229032|229213|229111): ", text)
        return f"{type(error).__name__} {error.error_code} {text if own else ''}"
    return "ok"


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_has_the_same_outcome_for_every_user(
    name: str, ours: ThreadedBroker, theirs: SecuredArtemis
) -> None:
    found: dict[str, dict[str, str]] = {}
    for place, url in (("ours", ours.url), ("theirs", theirs.url)):
        await make_queues(url)
        found[place] = {user: await outcome_of(url, user, OPERATIONS[name]) for user in [*USERS, "admin"]}
        for created in ("auto.q", "half.q", "half.n", "none.q", "auto.s", "half.s"):
            await outcome_of(url, "admin", deletes(created))
    assert found["ours"] == found["theirs"]


async def make_queues(url: str) -> None:
    for address, queue in ADMIN_QUEUES:
        await outcome_of(url, "admin", creates(address, queue))


@pytest.mark.parametrize(
    ("user", "password"), [("sender", "wrong"), ("sender", None), ("unknown", "x"), (None, None), ("", "")]
)
async def test_our_client_is_refused_by_both(
    user: str | None, password: str | None, ours: ThreadedBroker, theirs: SecuredArtemis
) -> None:
    texts = []
    for url in (ours.url, theirs.url):
        with pytest.raises(JMSSecurityException, match="AMQ229031: Unable to validate user") as caught:
            async with ConnectionFactory(url).connect(user, password):
                pass
        texts.append(re.sub(r"from \S+\. ", "", str(caught.value)))
    assert texts[0] == texts[1]


def test_a_java_client_is_admitted_with_the_right_password_only(ours: ThreadedBroker) -> None:
    target = ["--url", ours.url, "--destination", "queue://auto.java", "--silent", "--message-count", "3"]
    sent = command_line("producer", *target, "--user", "sender", "--password", "sender-password")
    assert any("Produced: 3 messages" in line for line in sent)
    for user, password in [("sender", "wrong"), ("nobody", "x")]:
        with pytest.raises((ProgramError, AssertionError)) as raised:
            lines = command_line("producer", *target, "--user", user, "--password", password, "--verbose")
            assert not any("AMQ229031" in line for line in lines), lines
        assert "AMQ229031" in str(raised.value)


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_every_java_client_logs_in_with_the_right_password_only(
    version: str, ours: ThreadedBroker, matrices: dict[str, JmsMatrix]
) -> None:
    matrix = matrix_of(matrices, version)
    assert matrix.run("one-message", f"{ours.url}?user=admin&password=admin", {}) is None
    for login, user in [("user=admin&password=wrong", "admin"), ("user=unknown&password=x", "unknown"), ("", "null")]:
        failure = matrix.run("one-message", f"{ours.url}?{login}", {})
        assert failure is not None and "AMQ229031: Unable to validate user from 127.0.0.1:" in failure
        assert f"Username: {user}; SSL certificate subject DN: unavailable" in failure
    failure = matrix.run("one-message", f"{ours.url}?user=idle&password=idle-password", {})
    assert failure is not None and "User: idle does not have permission='" in failure


def test_a_hash_of_our_command_line_is_one_for_artemis(tmp_path: Path, ours: ThreadedBroker) -> None:
    # The admin's password is hashed by `artemis create`; this is the other way round.
    from embedbroker.security import StoredPassword, hash_password_as_artemis

    printed = command_line("mask", "--hash", "secret")
    text = next(line for line in printed if line.startswith("result: ")).removeprefix("result: ")
    assert StoredPassword(f"ENC({text})").matches("secret")
    assert hash_password_as_artemis("secret", bytes.fromhex(text.split(":")[1])) == f"ENC({text})"
