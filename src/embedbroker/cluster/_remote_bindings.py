"""The queues and consumers of one other broker, as its notifications announce them (cluster-and-ha 7.4 to 7.7).

Responsible for the table of remote bindings with their consumers and distances, and for one log line for each kind of
notification that is malformed or out of place. The rules are those of Artemis' message flow record. Does not depend on
routing, on store-and-forward queues, or on the connection that the notifications come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from attrs import frozen

from embedbroker.config import MessageLoadBalancing
from embedbroker.kernel import (
    GroupNotice,
    GroupNoticeKind,
    InvalidSelector,
    LogOnce,
    Queue,
    RemoteBinding,
    Selector,
    SelectorCache,
    name_in_text,
)
from embedclient.errors import RemoteProtocolError
from embedclient.model import PropertyValue
from embedclient.wire.core import CoreMessage

__all__ = [
    "BINDINGS_MAX",
    "BindingAdded",
    "BindingChange",
    "BindingConnected",
    "BindingDisconnected",
    "BindingRemoved",
    "BindingUpdated",
    "ConsumerClosed",
    "ConsumerCreated",
    "RemoteBindings",
    "SessionCreated",
]

# The properties of a notification.
Values: TypeAlias = Mapping[str, PropertyValue]
_RESET, _COMPLETE = "_AMQ_RESET_QUEUE_DATA", "_AMQ_RESET_QUEUE_DATA_COMPLETE"
_GROUPING = frozenset(("PROPOSAL", "PROPOSAL_RESPONSE", "UNPROPOSAL"))
_KINDS = _GROUPING | {
    "BINDING_ADDED", "BINDING_REMOVED", "BINDING_UPDATED", "CONSUMER_CREATED", "CONSUMER_CLOSED", "SESSION_CREATED",
}  # fmt: skip
BINDINGS_MAX = 100_000
"""Number of queues of one other broker that this broker sends to."""


@frozen
class BindingAdded:
    """Report a queue that is new in the table."""

    binding: RemoteBinding


@frozen
class BindingRemoved:
    """Report a queue that is gone from the table, with its consumers."""

    binding: RemoteBinding


@frozen
class BindingUpdated:
    """Report that a queue has another filter."""

    binding: RemoteBinding


@frozen
class BindingConnected:
    """Report that the broker of a queue is connected again, and still has the queue."""

    binding: RemoteBinding


@frozen
class BindingDisconnected:
    """Report that the connection to the broker of a queue is lost. The queue stays in the table."""

    binding: RemoteBinding


@frozen
class ConsumerCreated:
    """Report a consumer. ``address`` is that of the queue, or ``address::queue`` if the consumer named it so."""

    binding: RemoteBinding
    address: str
    filter: str | None
    distance: int


@frozen
class ConsumerClosed:
    """Report the end of a consumer."""

    binding: RemoteBinding
    filter: str | None
    distance: int


@frozen
class SessionCreated:
    """Report a session of a client at the other broker."""

    connection_name: str | None
    remote_address: str | None
    client_id: str | None
    protocol: str | None
    distance: int


BindingChange: TypeAlias = (
    BindingAdded
    | BindingRemoved
    | BindingUpdated
    | BindingConnected
    | BindingDisconnected
    | ConsumerCreated
    | ConsumerClosed
    | SessionCreated
    | GroupNotice
)


class _Ignored(Exception):
    """End the work on a notification; the text is the reason."""


class RemoteBindings:
    """Hold the bindings that one other broker announces.

    After each connect: `begin`, then `on_message` for each message of the notification queue. `disconnect` when the
    connection is lost, `clear` when the broker has left.

    Args:
        node_id: Node id of the other broker.
        own_node_id: Node id of this broker. Its own queues come back over other brokers, and are left out.
        max_hops: Largest distance of a binding in the table.
        store_and_forward: Queue for the messages of that broker.
        load_balancing: Which messages go to that broker.
        log: Receives one line for each kind of notification that is ignored.
    """

    def __init__(
        self,
        node_id: str,
        own_node_id: str,
        max_hops: int,
        store_and_forward: Queue,
        load_balancing: MessageLoadBalancing,
        log: Callable[[str], None],
    ) -> None:
        self.node_id = node_id
        self.by_cluster_name: dict[str, RemoteBinding] = {}
        self._own_node_id = own_node_id
        self._max_hops = max_hops
        self._store_and_forward = store_and_forward
        self._load_balancing = load_balancing
        # By kind: another broker may repeat what is out of place, under any number of names.
        self._log_once = LogOnce(log)
        self._selectors = SelectorCache()
        #: True once the snapshot of this connection is complete.
        self.is_complete = False
        # False until the snapshot begins: it covers all that was announced before.
        self._begun = False
        # Queues that came back at another distance, as they are announced now; None: they did not come back.
        self._doubted: dict[str, RemoteBinding | None] = {}

    def begin(self) -> list[BindingChange]:
        """Forget all consumers, which the snapshot of a new connection announces again.

        Their end is reported. Brokers behind this one count them, too.
        """
        changes: list[BindingChange] = []
        for binding in self.by_cluster_name.values():
            changes.extend(ConsumerClosed(binding, each, binding.distance) for each in binding.remove_consumers())
        return changes

    def disconnect(self) -> list[BindingChange]:
        """Mark all bindings as disconnected, because the connection is lost."""
        self._begun = self.is_complete = False
        self._doubted.clear()
        changes: list[BindingChange] = []
        for binding in self.by_cluster_name.values():
            if binding.is_connected:
                binding.is_connected = False
                changes.append(BindingDisconnected(binding))
        return changes

    def clear(self) -> list[BindingChange]:
        """Remove all bindings, because the other broker has left."""
        self._begun = self.is_complete = False
        return self._remove(list(self.by_cluster_name.values()))

    @property
    def has_doubts(self) -> bool:
        """Return True if a queue behind the neighbour came back with a connection at another distance, or did not.

        A neighbour that started anew may have learnt of it from this broker, or not at all. It needs a moment to get
        other news, and messages on their way wait for that.
        """
        return bool(self._doubted)

    def end_doubts(self) -> list[BindingChange]:
        """Believe the neighbour, since no other news have come: those queues are gone, or reached on another way.

        If that way leads over this broker, the queue is gone: each of the two counts on, up to the largest distance.
        """
        changes: list[BindingChange] = []
        for name, other in list(self._doubted.items()):
            binding = self.by_cluster_name[name]
            changes += self._remove([binding])
            if other is None:
                continue
            other.follow(binding)
            self.by_cluster_name[name] = other
            changes.append(BindingAdded(other))
        return changes

    def on_message(self, message: CoreMessage) -> list[BindingChange]:
        """Apply one message of the notification queue, and return what it changed, in order.

        A message that cannot be applied changes nothing. The first of each kind is one log line.
        """
        try:
            properties = dict(message.properties.items())
        except RemoteProtocolError as error:
            self._log_once("unreadable", f"node {self.node_id}: a notification is ignored: {error}")
            return []
        if _RESET in properties:
            self._begun = True
            return []
        if _COMPLETE in properties:
            self.is_complete = self._begun
            missing = [binding for binding in self.by_cluster_name.values() if not binding.is_connected]
            self._doubted.update((binding.cluster_name, None) for binding in missing if binding.distance > 1)
            return self._remove([binding for binding in missing if binding.distance == 1])
        if not self._begun:
            return []
        try:
            return self._apply(properties)
        except _Ignored as ignored:
            kind = name_in_text(str(properties.get("_AMQ_NotifType")))
            known = kind if kind in _KINDS else "unknown"
            self._log_once(known, f"node {self.node_id}: notification {kind} is ignored: {ignored}")
            return []

    def _apply(self, properties: Values) -> list[BindingChange]:
        kind = _text(properties, "_AMQ_NotifType")
        if kind == "BINDING_ADDED":
            return self._add(properties)
        if kind == "BINDING_REMOVED":
            return self._on_removed(properties)
        if kind == "BINDING_UPDATED":
            return self._update(properties)
        if kind == "CONSUMER_CREATED":
            return self._add_consumer(properties)
        if kind == "CONSUMER_CLOSED":
            return self._remove_consumer(properties)
        if kind == "SESSION_CREATED":
            return self._on_session(properties)
        if kind in _GROUPING:
            return [_group_notice(kind, properties)]
        raise _Ignored("the type is unknown, or of no use to another broker")

    # -- bindings ------------------------------------------------------------------------------------------------

    def _add(self, properties: Values) -> list[BindingChange]:
        distance = self._distance(properties)
        cluster_name = _text(properties, "_AMQ_ClusterName")
        queue_id = _number(properties, "_AMQ_Binding_ID")
        added = RemoteBinding(
            _text(properties, "_AMQ_Address"),
            cluster_name,
            _text(properties, "_AMQ_RoutingName"),
            queue_id,
            distance,
            self._store_and_forward,
            self._load_balancing,
            self._selector(_filter(properties)),
        )
        if self._is_left_out(cluster_name, distance):
            return []
        existing = self.by_cluster_name.get(cluster_name)
        if existing is not None and existing.remote_queue_id == queue_id:
            if existing.distance == distance:
                self._doubted.pop(cluster_name, None)
            elif not existing.is_connected:
                self._doubted[cluster_name] = added
            return self._connect(existing, added.filter)
        if existing is None and len(self.by_cluster_name) >= BINDINGS_MAX:
            raise _Ignored(f"it has more than {BINDINGS_MAX} queues; nothing is sent to those beyond")
        # A queue that was deleted and created again has another id.
        changes = self._remove([existing]) if existing is not None else []
        self.by_cluster_name[cluster_name] = added
        return [*changes, BindingAdded(added)]

    def _connect(self, binding: RemoteBinding, filter: Selector | None) -> list[BindingChange]:
        if binding.is_connected:
            raise _Ignored(
                f"binding {name_in_text(binding.cluster_name)!r} is announced twice: max_hops is too large, or two "
                "cluster connections have addresses in common"
            )
        binding.is_connected = True
        changes: list[BindingChange] = [BindingConnected(binding)]
        # The change of a filter may be among the notifications that were lost.
        if _text_of(binding.filter) != _text_of(filter):
            binding.filter = filter
            changes.append(BindingUpdated(binding))
        return changes

    def _on_removed(self, properties: Values) -> list[BindingChange]:
        cluster_name = _text(properties, "_AMQ_ClusterName")
        binding = self.by_cluster_name.get(cluster_name)
        if binding is not None:
            return self._give_up(binding) if cluster_name in self._doubted else self._remove([binding])
        if self._is_left_out(cluster_name, self._distance(properties)):
            return []
        raise _unknown(cluster_name)

    def _give_up(self, binding: RemoteBinding) -> list[BindingChange]:
        """Note that the neighbour has lost the other way to a queue. What it finds next may be the one from before."""
        self._doubted[binding.cluster_name] = None
        if not binding.is_connected:
            return []
        binding.is_connected = False
        closed = [ConsumerClosed(binding, each, binding.distance) for each in binding.remove_consumers()]
        return [*closed, BindingDisconnected(binding)]

    def _update(self, properties: Values) -> list[BindingChange]:
        binding = self.by_cluster_name.get(_text(properties, "_AMQ_ClusterName"))
        filter = self._selector(_filter(properties))
        if binding is None:
            return []
        binding.filter = filter
        return [BindingUpdated(binding)]

    def _remove(self, bindings: Iterable[RemoteBinding]) -> list[BindingChange]:
        changes: list[BindingChange] = []
        for binding in bindings:
            del self.by_cluster_name[binding.cluster_name]
            self._doubted.pop(binding.cluster_name, None)
            changes.append(BindingRemoved(binding))
        return changes

    # -- consumers and sessions ----------------------------------------------------------------------------------

    def _add_consumer(self, properties: Values) -> list[BindingChange]:
        found = self._binding_of_consumer(properties)
        if found is None:
            return []
        binding, distance = found
        address = _optional_text(properties, "_AMQ_Address") or ""
        filter = _filter(properties)
        try:
            selector = self._selector(filter)
        except _Ignored as ignored:
            # Counted, so that its end is not that of another consumer. It gets nothing.
            name = name_in_text(binding.cluster_name)
            self._log_once("consumer", f"node {self.node_id}: a consumer of {name!r} gets no message: {ignored}")
            selector = _matching_nothing(filter or "")
        binding.add_consumer(selector)
        return [ConsumerCreated(binding, address if "::" in address else binding.address, filter, distance)]

    def _remove_consumer(self, properties: Values) -> list[BindingChange]:
        found = self._binding_of_consumer(properties)
        if found is None:
            return []
        binding, distance = found
        filter = _filter(properties)
        if not binding.remove_consumer(filter):
            raise _Ignored(f"no such consumer of {name_in_text(binding.cluster_name)!r} was announced before")
        return [ConsumerClosed(binding, filter, distance)]

    def _binding_of_consumer(self, properties: Values) -> tuple[RemoteBinding, int] | None:
        """Return the queue of a consumer and its distance; None for one that is left out."""
        distance = self._distance(properties)
        cluster_name = _text(properties, "_AMQ_ClusterName")
        if self._is_left_out(cluster_name, distance):
            return None
        binding = self.by_cluster_name.get(cluster_name)
        if binding is None:
            raise _unknown(cluster_name)
        return binding, distance

    def _on_session(self, properties: Values) -> list[BindingChange]:
        distance = self._distance(properties)
        if distance > self._max_hops:
            return []
        return [
            SessionCreated(
                _optional_text(properties, "_AMQ_ConnectionName"),
                _optional_text(properties, "_AMQ_RemoteAddress"),
                _optional_text(properties, "_AMQ_Client_ID"),
                _optional_text(properties, "_AMQ_Protocol_Name"),
                distance,
            )
        ]

    # -- parts ---------------------------------------------------------------------------------------------------

    def _is_left_out(self, cluster_name: str, distance: int) -> bool:
        """Return True for a queue of this broker, and for one that is too far away."""
        return distance > self._max_hops or cluster_name.endswith(self._own_node_id)

    @staticmethod
    def _distance(properties: Values) -> int:
        """Return the distance from this broker."""
        distance = _number(properties, "_AMQ_Distance")
        if distance < 0:
            raise _Ignored(f"_AMQ_Distance is {distance}, it must be at least 0")
        return distance + 1

    def _selector(self, filter: str | None) -> Selector | None:
        try:
            return self._selectors.find(filter)
        except InvalidSelector as error:
            raise _Ignored(f"_AMQ_FilterString: {error}") from None


def _group_notice(kind: str, properties: Values) -> GroupNotice:
    distance = _number(properties, "_AMQ_Distance")
    if distance < 0:
        raise _Ignored(f"_AMQ_Distance is {distance}, it must be at least 0")
    return GroupNotice(
        GroupNoticeKind(kind),
        _text(properties, "_JBM_ProposalGroupId"),
        _text(properties, "_JBM_ProposalValue"),
        _optional_text(properties, "_JBM_ProposalAltValue") or None,
        distance,
    )


def _unknown(cluster_name: str) -> _Ignored:
    return _Ignored(f"no binding {name_in_text(cluster_name)!r} was announced before")


def _matching_nothing(text: str) -> Selector:
    return Selector(text, lambda _message: False)


def _text_of(selector: Selector | None) -> str | None:
    return None if selector is None else selector.text


def _text(properties: Values, name: str) -> str:
    value = properties.get(name)
    if not value or value.__class__ is not str:
        value = _optional_text(properties, name)
        if not value:
            raise _Ignored(f"{name} is missing")
    return value


def _optional_text(properties: Values, name: str) -> str | None:
    value = properties.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _Ignored(f"{name} must be a text, not {name_in_text(str(value))}")


def _filter(properties: Values) -> str | None:
    """Return the filter of a queue or a consumer; None for an empty one, as in Artemis."""
    return _optional_text(properties, "_AMQ_FilterString") or None


def _number(properties: Values, name: str) -> int:
    value = properties.get(name)
    if value is None:
        raise _Ignored(f"{name} is missing")
    if value.__class__ is not int:
        raise _Ignored(f"{name} must be an integer, not {name_in_text(str(value))}")
    return value
