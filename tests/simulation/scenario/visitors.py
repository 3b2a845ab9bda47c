"""Visitors: users with few rights in a broker with permissions. They try what is forbidden, and do what is permitted.

Responsible for the permissions of such a broker, for the attempts, and for their outcomes. `PermissionChecker` checks
their effects. All other users of the scenario log in as a guest that may do everything.
"""

from __future__ import annotations

import json
from random import Random

from attrs import define, evolve, field, fields

from embedbroker.config import BrokerConfig, GuestLogin, SecuritySetting, User
from embedbroker.testing._administration import CLERK
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import Letter
from embedbroker.testing._permission_checker import INTAKE, STOLEN, VISITOR, PermissionChecker
from embedbroker.testing._scene import Moment, Phase, Scene
from embedbroker.testing._scripts import Steps
from embedclient.agent import Session, SessionMode
from embedclient.errors import ErrorCode, JMSException
from embedclient.model import Properties, RoutingType, Xid
from embedclient.wire.core import CoreMessage, MessageType, encode_text

from .plan import ScenarioPlan, VisitorRole

__all__ = ["CLERK_PASSWORD", "Visitor", "create_permissions", "roles_of_the_desk", "secured", "with_visitors"]

CLERK_PASSWORD = "a clerk"
"""Password of the user whose permissions an administrator changes."""

_PASSWORD = "a visitor"
_CLERKS = "clerks"
_WORKERS, _VISITORS = "workers", "visitors"
_EVERYTHING = {each.name: [_WORKERS] for each in fields(SecuritySetting)}
#: What visitors may do: look everywhere, and send to one address.
_PERMISSIONS = {
    "#": SecuritySetting(**{**_EVERYTHING, "browse": [_WORKERS, _VISITORS]}),
    INTAKE: SecuritySetting(**{**_EVERYTHING, "send": [_WORKERS, _VISITORS]}),
}
#: What the configuration permits where management restricts it at once.
_LAX = {"#": SecuritySetting(**{each: [_WORKERS, _VISITORS] for each in _EVERYTHING})}
#: In the order of the arguments of `addSecuritySettings`.
_ARGUMENTS = (
    *("send", "consume", "create_durable_queue", "delete_durable_queue", "create_non_durable_queue"),
    *("delete_non_durable_queue", "manage", "browse", "create_address", "delete_address", "view", "edit"),
)


def with_visitors(plan: ScenarioPlan) -> ScenarioPlan:
    """Return the plan with permissions, and with visitors."""
    random = Random(f"visitors {plan.seed}")
    settings = plan.hosts[0].settings
    roles = [VisitorRole(f"{VISITOR}{number}", settings, random.choice((0.02, 0.1))) for number in range(2)]
    return evolve(
        plan,
        broker=evolve(plan.broker, secured=True, permissions_are_managed=random.random() < 0.5),
        visitors=tuple(roles[: random.randint(1, 2)]),
    )


def secured(config: BrokerConfig, *, are_managed: bool, has_clerk: bool = False) -> BrokerConfig:
    """Return the configuration with users and permissions."""
    users = [User(VISITOR, _PASSWORD, roles=[_VISITORS])]
    if has_clerk:
        users.append(User(CLERK, CLERK_PASSWORD, roles=[_CLERKS]))
    return evolve(
        config,
        users=users,
        guest=GuestLogin(user="app", role=_WORKERS, credentials_invalidate=True),
        security_settings=_LAX if are_managed else _PERMISSIONS,
        # The default password lets no broker in where users log in.
        cluster_password="a secret of brokers",
    )


def create_permissions(plan: ScenarioPlan, session: Session) -> Steps:
    """Create what visitors may send to, and the permissions that only the journal has."""
    if not plan.visitors:
        return
    yield session.addressing.create_address(INTAKE, [RoutingType.ANYCAST])
    yield session.addressing.create_queue(INTAKE, INTAKE, RoutingType.ANYCAST)
    if plan.broker.permissions_are_managed:
        producer = session.create_producer("activemq.management")
        for match, setting in _PERMISSIONS.items():
            roles = [",".join(sorted(getattr(setting, name))) for name in _ARGUMENTS]
            yield producer.send(_request("broker", "addSecuritySettings", match, *roles))


def roles_of_the_desk(*, are_granted: bool) -> list[str]:
    """Return the arguments of `addSecuritySettings` with which a clerk may send, consume and browse, or do nothing."""
    granted = {"send", "consume", "browse"} if are_granted else set()
    return [f"{_WORKERS},{_CLERKS}" if name in granted else _WORKERS for name in _ARGUMENTS]


def _request(resource: str, operation: str, *arguments: str) -> CoreMessage:
    properties = Properties()
    properties["_AMQ_ResourceName"] = resource
    properties["_AMQ_OperationName"] = operation
    return CoreMessage.build(
        type=MessageType.TEXT,
        address="activemq.management",
        durable=True,
        properties=properties,
        body=encode_text(json.dumps(arguments)),
    )


@define(eq=False)
class Visitor:
    """One user with few rights, through all its sessions, while the others work."""

    scene: Scene
    host: ClientHost
    checker: PermissionChecker
    name: str
    #: The address and a queue of each topic.
    places: list[tuple[str, str]]
    pause_s: float
    #: Nothing else is drawn from it.
    random: Random = field(init=False)
    _made: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = Random(f"visitor {self.scene.world.seed} {self.name}")

    def steps(self) -> Steps:
        """The script of this visitor."""
        while self.scene.phase is Phase.WORK:
            session: Session | None = None
            mode = self.random.choice((SessionMode.AUTO, SessionMode.AUTO, SessionMode.TRANSACTED))
            is_xa = mode is SessionMode.TRANSACTED and self.random.random() < 0.3
            try:
                session = yield self.host.agent().create_session_for(
                    mode, username=VISITOR, password=_PASSWORD, xa=is_xa
                )
                for _ in range(self.random.randint(1, 6)):
                    if session.closed or self.scene.phase is not Phase.WORK:
                        break
                    yield from self._act(session, mode, is_xa)
                    yield self.random.random() * 2 * self.pause_s
            except JMSException as error:
                self.scene.world.note(self.name, "loses its session", f"{error.error_code} {error}")
                if error.error_code == ErrorCode.SECURITY_EXCEPTION:
                    self.scene.fail(f"{self.name} may do this, and was refused: {error}")
            if session is not None:
                yield session.close()
            yield self.random.random() * 2 * self.pause_s

    def give_up(self) -> None:
        """A visitor holds nothing, and what is in doubt is not owed."""

    def _act(self, session: Session, mode: SessionMode, is_xa: bool) -> Steps:
        address, queue = self.random.choice(self.places)
        if is_xa:
            yield from self._try("an XA branch", self._send_in_a_branch(session, address))
            return
        if mode is SessionMode.TRANSACTED:
            yield from self._try("a transaction", self._send_in_a_transaction(session, address))
            return
        match self.random.randrange(8):
            case 0 | 1:
                yield from self._send(session, self._letter(INTAKE))
            case 2:
                yield from self._try("a send", self._send_forbidden(session, address))
            case 3:
                yield from self._try("a consumer", self._consume(session, queue))
            case 4:
                yield from self._browse(session, queue)
            case 5:
                yield from self._try("a queue", self._create_queue(session, address))
            case 6:
                yield from self._try("a deletion", self._delete_queue(session, queue))
            case _:
                yield from self._try("a management call", self._manage(session, queue))

    def _try(self, what: str, attempt: Steps) -> Steps:
        """Try what is forbidden. It must fail; another error than a refusal ends the session."""
        self.scene.operate(self.name, "tries", what)
        try:
            yield from attempt
        except JMSException as error:
            if error.error_code != ErrorCode.SECURITY_EXCEPTION and not _ends_a_transaction(error):
                raise
            self.scene.hit(Moment.FORBIDDEN_REFUSED)
        else:
            self.scene.fail(f"{self.name}: {what} is forbidden, and was not refused")

    def _letter(self, address: str) -> Letter:
        self._made += 1
        return Letter(f"{self.name}-{self._made}", address)

    def _send(self, session: Session, letter: Letter) -> Steps:
        """Send a message that may be sent."""
        yield session.create_producer(letter.address).send(letter.build(self.scene.world.instant.wall_ms))
        self.checker.permitted(letter.key)

    def _send_forbidden(self, session: Session, address: str) -> Steps:
        letter = evolve(self._letter(address), durable=True)
        yield session.create_producer(address).send(letter.build(self.scene.world.instant.wall_ms))

    def _send_in_a_transaction(self, session: Session, address: str) -> Steps:
        """Send a message that is forbidden, and perhaps one that is not: neither may come."""
        addresses = [address, INTAKE] if self.random.random() < 0.5 else [address]
        self.random.shuffle(addresses)
        try:
            for each in addresses:
                letter = self._letter(each)
                self.checker.forbidden(letter.key)
                yield session.create_producer(each).send(letter.build(self.scene.world.instant.wall_ms))
            yield session.commit()
        except JMSException:
            if not session.closed:
                yield session.rollback()
            raise

    def _send_in_a_branch(self, session: Session, address: str) -> Steps:
        assert session.xa is not None, "only an XA session works in branches"
        letter = self._letter(address)
        xid = Xid(7, b"", letter.key.encode())
        yield session.xa.start(xid)
        try:
            yield session.create_producer(address).send(letter.build(self.scene.world.instant.wall_ms))
            yield session.xa.end(xid)
            yield session.xa.commit(xid, one_phase=True)
        except JMSException as error:
            if not session.closed:
                yield session.close()
            raise error

    def _consume(self, session: Session, queue: str) -> Steps:
        yield session.create_consumer(queue)
        yield session.start()
        yield 0.05

    def _browse(self, session: Session, queue: str) -> Steps:
        """Look into a queue, which is permitted."""
        consumer = yield session.create_consumer(queue, browse_only=True)
        yield session.start()
        yield consumer.close()
        self.scene.hit(Moment.PERMITTED_PASSED)

    def _create_queue(self, session: Session, address: str) -> Steps:
        if self.random.random() < 0.3:
            yield session.addressing.create_address(f"{STOLEN}-address", [RoutingType.ANYCAST])
        yield session.addressing.create_queue(address, f"{STOLEN}-{self._made}", RoutingType.ANYCAST)

    def _delete_queue(self, session: Session, queue: str) -> Steps:
        yield session.addressing.delete_queue(queue)

    def _manage(self, session: Session, queue: str) -> Steps:
        request = _request(f"queue.{queue}", "removeAllMessages")
        yield session.create_producer("activemq.management").send(request)


def _ends_a_transaction(error: JMSException) -> bool:
    """Return True for the error of a commit whose sends were refused."""
    return error.error_code == ErrorCode.TRANSACTION_ROLLED_BACK
