"""The registry of all that can be requested of a broker: resources with attributes and operations, and services.

Responsible for finding what a call names, for choosing an operation by name and arguments, and for one answer to each
call. Does not depend on messages and on the work of operations. Names, argument rules and error texts of resources are
those of Artemis 2.44 (broker-semantics 9.2).

A resource belongs to a `Control`: ``broker``, or ``queue.orders`` of the control ``queue``. Each control is data:
tuples of `Attribute` and `Operation`. A service has a name and the fields of a JSON object instead; Artemis has none.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import islice
from typing import Protocol, TypeAlias, TypeVar

from attrs import frozen

from embedbroker.config import UserChange
from embedbroker.kernel import (
    AT_ONCE_MAX,
    HostTask,
    Kernel,
    Message,
    Permission,
    Principal,
    Queue,
    QueueDefinition,
    Refused,
    RemoteBinding,
    Session,
    TaskKind,
)
from embedclient.model import Entropy, Instant, Properties, TransportConfiguration

from .services import OK, Answer, Request, RequestRefused, Service, read_request, refusal

__all__ = [
    "PENDING_MAX",
    "REQUESTS_PENDING_MAX",
    "STATUS_PROPERTY",
    "VERSION",
    "Attribute",
    "BrokerView",
    "Call",
    "Control",
    "Departure",
    "Failure",
    "HostCall",
    "Kind",
    "Letter",
    "ManagementRefused",
    "Operation",
    "Parameter",
    "QueueEvent",
    "Registry",
    "Respond",
    "SecurityFigures",
    "Success",
    "UserStore",
    "done",
]

PENDING_MAX = 100
"""Maximum number of long operations under way at once; further calls are refused."""

REQUESTS_PENDING_MAX = 1000
"""Maximum number of requests to services under way at once; further ones are refused as ``busy``."""

STATUS_PROPERTY = "embedbroker_status"
"""The property of a service's reply that holds ``ok``, or the reason of the refusal."""

VERSION = "0.2.0.dev0"
"""Version of this package; a layer without input and output cannot read it from the installation."""

_SHOWN_MAX = 200

T = TypeVar("T")
Work: TypeAlias = Generator[None, None, object]
"""A long operation: it yields after each portion of about one message's work, and returns its result."""
QueueEvent: TypeAlias = tuple[str, QueueDefinition | tuple[RemoteBinding, int] | None, str | None]
"""A message of a snapshot of queues: kind, queue and filter. A queue of another broker has its id here beside it."""


class ManagementRefused(Exception):
    """Refuse a call. The text is that of the reply."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@frozen
class Success:
    """Hold the result of a call: None, or a value of JSON."""

    value: object
    changes: bool
    """Whether the call may have changed the broker: its answer must wait for the disk."""


@frozen
class Failure:
    """Hold the reason why a call failed."""

    text: str


Respond: TypeAlias = Callable[[Success | Failure], None]


class Kind(Enum):
    """List the types of parameters, under their Java names."""

    TEXT = "String"
    INTEGER = "int"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    MAP = "Map"
    LIST = "Object[]"

    def fits(self, value: object) -> bool:
        """Return True if a value of JSON can be an argument of this type. Null fits every type, as in Artemis."""
        if value is None:
            return True
        if self is Kind.TEXT:
            return isinstance(value, str)
        if self is Kind.BOOLEAN:
            return isinstance(value, bool)
        if self is Kind.MAP:
            return isinstance(value, dict)
        if self is Kind.DOUBLE:
            return isinstance(value, int | float) and not isinstance(value, bool)
        if self is Kind.LIST:
            return isinstance(value, list | tuple)
        limit = 1 << (31 if self is Kind.INTEGER else 63)
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


@frozen
class Parameter:
    """Describe one parameter of an operation."""

    name: str
    kind: Kind


class SecurityFigures(Protocol):
    """Provide the figures of a broker's security."""

    @property
    def logins(self) -> int:
        """Return the number of accepted logins."""

    @property
    def refused_logins(self) -> int:
        """Return the number of refused logins."""

    @property
    def granted(self) -> int:
        """Return the number of permission checks that were passed."""

    @property
    def refused(self) -> int:
        """Return the number of requests that were refused for want of a permission."""

    @property
    def cached_logins(self) -> int:
        """Return the number of results of logins in the cache."""

    @property
    def cached_grants(self) -> int:
        """Return the number of grants in the cache."""


class UserStore(Protocol):
    """Hold the users of a running broker."""

    def statistics(self) -> SecurityFigures:
        """Return the current figures."""

    def clear_authentication_cache(self) -> None:
        """Forget the results of logins."""

    def clear_authorization_cache(self) -> None:
        """Forget the grants."""

    @property
    def roles_by_user(self) -> dict[str, list[str]]:
        """Return the roles of each user."""

    def new_hash(self, password: str, salt: bytes) -> Callable[[], str]:
        """Return the work of hashing a password."""

    def change_user(self, change: UserChange) -> None:
        """Change a user, whose password is hashed already if it is to be.

        Raises:
            ValueError: The change is not possible; nothing is changed.
        """


class Departure(Protocol):
    """Let the broker leave for good."""

    def scale_down(self, connector: TransportConfiguration | None) -> str | None:
        """Move everything to another broker, then stop; return why that is not possible. None: the policy chooses."""


class BrokerView(Protocol):
    """Provide what management needs of the broker around the kernel."""

    kernel: Kernel
    node_id: str
    now: Instant
    started: bool
    started_at: Instant
    entropy: Entropy
    #: Tasks for the host, which takes them at the end of the step.
    host_tasks: list[HostTask]
    #: None until the broker is composed.
    departure: Departure | None
    #: What the snapshots under way are yet to send, by the queue that gets it.
    queue_snapshots: dict[Queue, deque[QueueEvent]]

    @property
    def security(self) -> UserStore | None:
        """Return the users; None for a broker that admits every client."""

    @property
    def is_in_sync(self) -> bool:
        """Return True if another broker has a copy up to the last record."""

    @property
    def activation_sequence(self) -> int:
        """Return the activation sequence of the data of a replicating broker; -1 for others."""

    def places(self) -> list[tuple[str, str | None, str | None]]:
        """Return node id, place of the active broker and place of the backup of each member of the cluster."""

    def log_in(self, user: str, password: str | None, peer: str) -> Principal | Refused:
        """Return the principal of a user; a broker without security admits every one."""

    def compose(self, letter: Letter) -> Message:
        """Return a message, without id.

        Raises:
            ValueError: The letter cannot become a message; the text names the part.
        """

    def compose_notification(
        self, address: str, properties: Properties, timestamp_ms: int, *, is_durable: bool
    ) -> Message:
        """Return a message of the form of notifications, without id; with a timestamp of 0 it states no time."""


@frozen
class Letter:
    """Describe a message to send.

    Attributes:
        address: Address, or ``address::queue``.
        type: Artemis' number of the type: 3 is a text message.
        body: Text, or the bytes in Base64 for all other types; None for an empty body.
        is_durable: Whether it survives a restart.
        headers: Properties; their values become texts.
        has_user_id: Whether it gets a JMS message id.
    """

    address: str
    type: int
    body: str | None
    is_durable: bool
    headers: Mapping[str, object]
    has_user_id: bool


@frozen
class Call:
    """Hold the context of one call: the broker, the session with its permissions, and the name of the resource."""

    broker: BrokerView
    session: Session
    name: str

    @property
    def kernel(self) -> Kernel:
        """Return the kernel of the broker."""
        return self.broker.kernel

    @property
    def caller(self) -> str:
        """Return the user of the call for a line of the log."""
        user = self.session.principal.user
        return f"user {user!r:.200}" if user else "a caller without a user name"


@frozen
class HostCall:
    """Result of an operation that the host completes.

    Attributes:
        kind: Kind of the task.
        argument: Argument of the task.
        finish: Returns the result of the operation for the answer of the host; may raise ManagementRefused.
    """

    kind: TaskKind
    argument: object
    finish: Callable[[object], object]


@frozen
class Attribute:
    """Describe an attribute: its name, the Java name of its type, its value, and its meaning."""

    name: str
    type: str
    read: Callable[[Call], object]
    meaning: str

    @property
    def getter(self) -> str:
        """Return the name of its Java method."""
        return f"{'is' if self.type == 'boolean' else 'get'}{self.name}"


@frozen
class Operation:
    """Describe an operation. ``run`` takes the call and the arguments, and returns a result, `HostCall` or `Work`."""

    name: str
    parameters: tuple[Parameter, ...]
    type: str
    run: Callable[..., object]
    meaning: str
    changes: bool = False

    def takes(self, arguments: Sequence[object]) -> bool:
        """Return True if the arguments fit the parameters."""
        return len(arguments) == len(self.parameters) and all(
            parameter.kind.fits(argument) for parameter, argument in zip(self.parameters, arguments, strict=True)
        )


class Control:
    """Hold the attributes and operations of one kind of resource. ``exists`` finds one by its name."""

    def __init__(
        self,
        name: str,
        attributes: Sequence[Attribute],
        operations: Sequence[Operation],
        exists: Callable[[Kernel, str], bool],
    ) -> None:
        self.name = name
        self.attributes: Mapping[str, Attribute] = {each.name: each for each in attributes}
        self.operations = tuple(operations)
        self.exists = exists
        self._by_name: dict[str, list[Operation]] = {}
        for operation in operations:
            self._by_name.setdefault(operation.name, []).append(operation)

    def find_attribute(self, name: str) -> Attribute | None:
        """Return an attribute by its name, whose first letter may be small, as in Artemis."""
        return self.attributes.get(name[:1].upper() + name[1:])

    def find_getter(self, name: str) -> Attribute | None:
        """Return the attribute that a getter such as ``getNodeID`` or ``isStarted`` reads."""
        for prefix in ("get", "is"):
            if name.startswith(prefix) and name[len(prefix) : len(prefix) + 1].isupper():
                return self.attributes.get(name[len(prefix) :])
        return None

    def find_operation(self, name: str, arguments: Sequence[object]) -> Operation | None:
        """Return the first operation with this name whose parameters fit the arguments."""
        return next((each for each in self._by_name.get(name, ()) if each.takes(arguments)), None)


class Registry:
    """Carry out calls on the resources of one broker, and requests to its services."""

    __slots__ = ("_broker", "_controls", "_last_task", "_pending", "_requests_pending", "_services", "_tasks")

    def __init__(self, broker: BrokerView, controls: Sequence[Control], services: Sequence[Service]) -> None:
        self._broker = broker
        self._controls = {control.name: control for control in controls}
        services = (Service("capabilities", self._capabilities), *services)
        self._services = {service.name: service for service in services}
        # Calls and requests that are not answered yet.
        self._pending = 0
        self._requests_pending = 0
        self._last_task = 0
        # What goes on with the answer of the host, by the number of the task.
        self._tasks: dict[int, Callable[[object, str | None], None]] = {}

    @property
    def controls(self) -> tuple[Control, ...]:
        """Return the controls, in the order of the documentation."""
        return tuple(self._controls.values())

    def read(self, session: Session, resource: str, attribute: str, respond: Respond) -> None:
        """Respond with the value of an attribute; any failure has the one text of Artemis."""
        control, call = self._find(session, resource)
        found = control.find_attribute(attribute) if control is not None else None
        getter = None
        if control is not None and found is None:
            raised = attribute[:1].upper() + attribute[1:]
            getter = control.find_operation(f"get{raised}", ()) or control.find_operation(f"is{raised}", ())
        method = found.getter if found is not None else getter.name if getter is not None else ""
        if method and self._refusal(session, resource, method) is not None:
            found = getter = None
        if found is None and getter is None:
            respond(Failure(f"Problem while retrieving attribute {attribute[:_SHOWN_MAX]}"))
        elif found is not None:
            self._begin(_reading(found, call), respond, changes=False)
        elif getter is not None:
            self._begin(_running(getter, call, ()), respond, changes=getter.changes)

    def invoke(
        self, session: Session, resource: str, operation: str, arguments: Sequence[object], respond: Respond
    ) -> None:
        """Run an operation, or the getter of an attribute, and respond with its result."""
        control, call = self._find(session, resource)
        if control is None:
            respond(Failure(f"AMQ229067: Cannot find resource with name {resource[:_SHOWN_MAX]}"))
            return
        found = control.find_operation(operation, arguments)
        attribute = control.find_getter(operation) if found is None and not arguments else None
        refused = self._refusal(session, resource, operation) if found is not None or attribute is not None else None
        if refused is not None:
            respond(Failure(refused.text))
            return
        if found is not None:
            self._begin(_running(found, call, arguments), respond, changes=found.changes)
            return
        if attribute is not None:
            self._begin(_reading(attribute, call), respond, changes=False)
            return
        respond(Failure(f"AMQ229069: no operation {operation[:_SHOWN_MAX]}/{len(arguments)}"))

    def request(self, session: Session, text: str | None, respond: Callable[[Answer], None]) -> None:
        """Carry out one request to a service.

        ``respond`` is called once, in this step or a later one. The answer covers only what was recorded before; see
        `Answer.promises`.
        """
        try:
            service, fields = read_request(text, self._services)
            if self._requests_pending >= REQUESTS_PENDING_MAX:
                raise RequestRefused("busy", f"{REQUESTS_PENDING_MAX} requests are under way")
        except RequestRefused as refused:
            respond(refusal(refused))
            return
        self._requests_pending += 1
        deferred = self._broker.kernel.deferred

        def answer(given: Answer) -> None:
            self._requests_pending -= 1
            respond(given)

        try:
            result = service.handler(session, Request(service.name, fields, answer, deferred))
        except RequestRefused as refused:
            result = refusal(refused)
        if result is None:
            return
        if result.promises:
            # Behind the records that large requests still owe.
            deferred.in_turn(partial(answer, result))
        else:
            answer(result)

    def _capabilities(self, _session: Session, _request: Request) -> Answer:
        body = {
            "broker": "embedbroker",
            "version": VERSION,
            "node_id": self._broker.node_id,
            "operations": sorted(self._services),
        }
        return Answer(OK, body, promises=False)

    def _refusal(self, session: Session, resource: str, method: str) -> Refused | None:
        """Return why a session must not call a Java method of a resource; None if it may, or if nothing is checked."""
        config = self._broker.kernel.config
        if not config.management_message_rbac:
            return None
        views = re.fullmatch(config.view_permission_method_match_pattern, method) is not None
        permission = Permission.VIEW if views else Permission.EDIT
        return session.addresses.admit_method(permission, f"{config.management_rbac_prefix}.{resource}.{method}")

    def _find(self, session: Session, resource: str) -> tuple[Control | None, Call]:
        kind, _dot, name = resource.partition(".")
        control = self._controls.get(kind)
        if control is not None and not control.exists(self._broker.kernel, name):
            control = None
        return control, Call(self._broker, session, name)

    def _begin(self, work: Work, respond: Respond, *, changes: bool) -> None:
        """Begin work: a short one ends at once, a longer one goes on over the next steps."""
        if self._pending >= PENDING_MAX:
            respond(Failure("AMQ229245: Management controller is busy with another task. Please try again"))
            return
        deferred = self._broker.kernel.deferred

        def answer(outcome: Success | Failure) -> None:
            # Behind what the call requested, which may be carried out over several steps.
            deferred.in_turn(lambda: respond(outcome)) if changes else respond(outcome)

        def driven() -> Generator[None]:
            try:
                value = yield from work
            except ManagementRefused as refused:
                outcome: Success | Failure = Failure(refused.text)
            else:
                if isinstance(value, HostCall):
                    self._request(value, answer, changes=changes)
                    return
                outcome = Success(value, changes)
            self._pending -= 1
            answer(outcome)

        self._pending += 1
        driver = driven()
        # The first portions at once: most work has no more of them.
        done_at_once = sum(1 for _ in islice(driver, AT_ONCE_MAX))
        if done_at_once == AT_ONCE_MAX:
            deferred.add(driver)

    def _request(self, call: HostCall, answer: Respond, *, changes: bool) -> None:
        """Let the host do a task. The operation is under way until the host answers."""

        def go_on(value: object, failure: str | None) -> None:
            self._pending -= 1
            if failure is not None:
                answer(Failure(failure))
                return
            try:
                result = call.finish(value)
            except ManagementRefused as refused:
                answer(Failure(refused.text))
            else:
                answer(Success(result, changes))

        self._last_task += 1
        self._tasks[self._last_task] = go_on
        self._broker.host_tasks.append(HostTask(self._last_task, call.kind, call.argument))

    def on_task_done(self, number: int, value: object, failure: str | None) -> None:
        """Complete the operation that waits for a task: with the value, or with the text of a failure."""
        self._tasks.pop(number)(value, failure)


def done(result: T | Refused) -> T:
    """Return the result of a verb of the session.

    Raises:
        ManagementRefused: The session refused the verb.
    """
    if isinstance(result, Refused):
        raise ManagementRefused(result.text)
    return result


def _reading(attribute: Attribute, call: Call) -> Work:
    value = attribute.read(call)
    if isinstance(value, Generator):
        value = yield from value
    return value


def _running(operation: Operation, call: Call, arguments: Sequence[object]) -> Work:
    result = operation.run(call, *arguments)
    if isinstance(result, Generator):
        result = yield from result
    return result
