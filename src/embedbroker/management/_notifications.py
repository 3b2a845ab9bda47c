"""Notifications: events of the broker as properties, under the names and types of Artemis (broker-semantics 9.6).

Responsible for which event becomes a notification, and for its properties. Does not depend on the form of messages: a
`Publisher` sends them. Nothing is made while no queue is bound to the notification address, and no message that the
filters of all such queues refuse.
"""

from __future__ import annotations

from typing import Protocol

from embedbroker.kernel import (
    Address,
    ClientConnection,
    CommitObserver,
    Consumer,
    Divert,
    GroupNotice,
    GroupNoticeKind,
    Kernel,
    Permission,
    Principal,
    Queue,
    QueueDefinition,
    RemoteBinding,
    Service,
    SessionView,
)
from embedclient.model import Properties, PropertyType

from ._acceptor_control import ACCEPTOR_FACTORY
from ._interest import Interest

__all__ = [
    "Notifications",
    "Publisher",
    "binding_properties",
    "is_published",
    "remote_binding_properties",
    "set_text",
]

_BYTE, _INT, _LONG, _STRING, _NULL = (
    PropertyType.BYTE,
    PropertyType.INT,
    PropertyType.LONG,
    PropertyType.STRING,
    PropertyType.NULL,
)
_LOCAL_QUEUE, _REMOTE_QUEUE, _DIVERT = 0, 1, 2
_NO_SUBJECT = "unavailable"
_MULTICAST, _ANYCAST = 0, 1
# More than a notification with names of usual length takes.
_MESSAGE_BYTES = 2048


class Publisher(Protocol):
    """Send notifications."""

    @property
    def node_id(self) -> str:
        """Return the id of the broker."""

    def publish(self, properties: Properties, now_ms: int, *, waits: bool = False) -> None:
        """Send a durable message with these properties to the notification address.

        One that ``waits`` is visible once everything is durable that is recorded by now.
        """


class Notifications(CommitObserver):
    """Publish the events of a broker. Events of sessions without a connection are those of the broker itself."""

    def __init__(self, kernel: Kernel, publisher: Publisher) -> None:
        self._kernel = kernel
        self._address = kernel.config.management_notification_address
        self._publisher = publisher
        self._interest = Interest(kernel, self._address)
        # Whether events that other brokers count are dropped since the broker is full.
        self._drops = False
        kernel.cluster_groups.publisher = self

    # -- bindings ------------------------------------------------------------------------------------------------

    def queue_added(self, queue: Queue) -> None:
        """Publish BINDING_ADDED."""
        self._interest.forget(queue)
        if self._is_needed("BINDING_ADDED", queue.definition.address, 0):
            properties = binding_properties(queue.definition, self._publisher.node_id)
            properties.set("_AMQ_Binding_Type", _LOCAL_QUEUE, _INT)
            properties.set("_AMQ_Binding_ID", queue.id, _LONG)
            if queue.definition.filter:
                properties.set("_AMQ_FilterString", queue.definition.filter, _STRING)
            # Other brokers send messages to this id at once. A crash must not undo the queue.
            self._publish("BINDING_ADDED", properties, waits=queue.durable)

    def divert_added(self, divert: Divert) -> None:
        """Publish BINDING_ADDED. The removal and changes of a divert are not published, as in Artemis."""
        made = divert.definition
        if self._is_needed("BINDING_ADDED", made.address, 0):
            properties = Properties()
            properties.set("_AMQ_Address", made.address, _STRING)
            properties.set("_AMQ_ClusterName", made.name, _STRING)
            properties.set("_AMQ_RoutingName", made.routing_name, _STRING)
            properties.set("_AMQ_Distance", 0, _INT)
            properties.set("_AMQ_Binding_Type", _DIVERT, _INT)
            properties.set("_AMQ_Binding_ID", made.id, _LONG)
            if made.filter:
                properties.set("_AMQ_FilterString", made.filter, _STRING)
            self._publish("BINDING_ADDED", properties)

    def queue_updated(self, queue: Queue) -> None:
        """Publish BINDING_UPDATED: the filter of a queue changed."""
        self._interest.forget(queue)
        if self._is_needed("BINDING_UPDATED", queue.definition.address, 0):
            properties = binding_properties(queue.definition, self._publisher.node_id)
            properties.pop("_AMQ_RoutingName")
            if queue.definition.filter:
                properties.set("_AMQ_FilterString", queue.definition.filter, _STRING)
            self._publish("BINDING_UPDATED", properties)

    def queue_removed(self, queue: Queue) -> None:
        """Publish BINDING_REMOVED."""
        self._interest.forget(queue)
        if self._is_needed("BINDING_REMOVED", queue.definition.address, 0):
            properties = binding_properties(queue.definition, self._publisher.node_id)
            properties.set("_AMQ_Binding_ID", queue.id, _LONG)
            set_text(properties, "_AMQ_FilterString", queue.definition.filter)
            self._publish("BINDING_REMOVED", properties)

    # -- other brokers, for the brokers behind this one ----------------------------------------------------------

    def remote_binding_added(self, binding: RemoteBinding, binding_id: int) -> None:
        """Publish BINDING_ADDED with the distance of the other broker."""
        if self._is_needed("BINDING_ADDED", binding.address, binding.distance):
            properties = remote_binding_properties(binding)
            properties.set("_AMQ_Binding_Type", _REMOTE_QUEUE, _INT)
            properties.set("_AMQ_Binding_ID", binding_id, _LONG)
            if binding.filter is not None:
                properties.set("_AMQ_FilterString", binding.filter.text, _STRING)
            self._publish("BINDING_ADDED", properties)

    def remote_binding_updated(self, binding: RemoteBinding) -> None:
        """Publish BINDING_UPDATED."""
        if self._is_needed("BINDING_UPDATED", binding.address, binding.distance):
            properties = remote_binding_properties(binding)
            properties.pop("_AMQ_RoutingName")
            if binding.filter is not None:
                properties.set("_AMQ_FilterString", binding.filter.text, _STRING)
            self._publish("BINDING_UPDATED", properties)

    def remote_binding_removed(self, binding: RemoteBinding, binding_id: int) -> None:
        """Publish BINDING_REMOVED."""
        if self._is_needed("BINDING_REMOVED", binding.address, binding.distance):
            properties = remote_binding_properties(binding)
            properties.set("_AMQ_Binding_ID", binding_id, _LONG)
            set_text(properties, "_AMQ_FilterString", binding.filter.text if binding.filter is not None else None)
            self._publish("BINDING_REMOVED", properties)

    def remote_consumer_added(self, binding: RemoteBinding, address: str, filter: str | None, count: int) -> None:
        """Publish CONSUMER_CREATED."""
        if self._is_needed("CONSUMER_CREATED", address, binding.distance):
            properties = remote_binding_properties(binding)
            properties.set("_AMQ_Address", address, _STRING)
            self._publish_remote_consumer("CONSUMER_CREATED", properties, filter, count)

    def remote_consumer_removed(self, binding: RemoteBinding, filter: str | None, count: int) -> None:
        """Publish CONSUMER_CLOSED."""
        if self._is_needed("CONSUMER_CLOSED", binding.address, binding.distance):
            # Artemis counts the consumer that ends.
            self._publish_remote_consumer("CONSUMER_CLOSED", remote_binding_properties(binding), filter, count + 1)

    def _publish_remote_consumer(self, kind: str, properties: Properties, filter: str | None, count: int) -> None:
        properties.set("_AMQ_ConsumerCount", count, _INT)
        if filter is not None:
            properties.set("_AMQ_FilterString", filter, _STRING)
        self._publish(kind, properties)

    def remote_session_added(
        self, connection: str | None, peer: str | None, client_id: str | None, protocol: str | None, distance: int
    ) -> None:
        """Publish SESSION_CREATED."""
        if self._is_wanted and self._interest.includes("SESSION_CREATED", None, distance):
            properties = Properties()
            set_text(properties, "_AMQ_ConnectionName", connection)
            set_text(properties, "_AMQ_RemoteAddress", peer)
            set_text(properties, "_AMQ_Client_ID", client_id)
            set_text(properties, "_AMQ_Protocol_Name", protocol)
            properties.set("_AMQ_Distance", distance, _INT)
            self._publish("SESSION_CREATED", properties)

    # -- addresses and connections, where the configuration wants them ------------------------------------------

    def address_added(self, address: Address) -> None:
        """Publish ADDRESS_ADDED."""
        self._publish_address("ADDRESS_ADDED", address)

    def address_removed(self, address: Address) -> None:
        """Publish ADDRESS_REMOVED."""
        self._publish_address("ADDRESS_REMOVED", address)

    def _publish_address(self, kind: str, address: Address) -> None:
        if self._kernel.config.send_address_notifications and self._is_wanted:
            properties = Properties()
            properties.set("_AMQ_Address", address.name, _STRING)
            # One number even for an address that serves both, as in Artemis.
            properties.set("_AMQ_Routing_Type", _MULTICAST if address.serves(_MULTICAST) else _ANYCAST, _BYTE)
            self._publish(kind, properties)

    def connection_added(self, connection: ClientConnection) -> None:
        """Publish CONNECTION_CREATED."""
        self._publish_connection("CONNECTION_CREATED", connection)

    def connection_removed(self, connection: ClientConnection) -> None:
        """Publish CONNECTION_DESTROYED."""
        self._publish_connection("CONNECTION_DESTROYED", connection)

    def _publish_connection(self, kind: str, connection: ClientConnection) -> None:
        if self._kernel.config.send_connection_notifications and self._is_wanted:
            properties = Properties()
            properties.set("_AMQ_ConnectionName", connection.connection_id, _STRING)
            properties.set("_AMQ_CertSubjectDN", connection.certificate_subject or _NO_SUBJECT, _STRING)
            properties.set("_AMQ_RemoteAddress", connection.peer, _STRING)
            self._publish(kind, properties)

    # -- consumers -----------------------------------------------------------------------------------------------

    def consumer_added(self, consumer: Consumer) -> None:
        """Publish CONSUMER_CREATED; browsers are not published, as in Artemis."""
        session = consumer.owner
        if not is_published(consumer) or session is None or session.connection is None:
            return
        address = consumer.queue.definition.address if consumer.fqqn is None else consumer.fqqn
        if self._is_needed("CONSUMER_CREATED", address, 0):
            properties = self._of_consumer(consumer, session)
            properties.set("_AMQ_Address", address, _STRING)
            set_text(properties, "_AMQ_ValidatedUser", session.validated_user)
            properties.set("_AMQ_CertSubjectDN", session.connection.certificate_subject or _NO_SUBJECT, _STRING)
            if consumer.filter_text:
                properties.set("_AMQ_FilterString", consumer.filter_text, _STRING)
            self._publish("CONSUMER_CREATED", properties)

    def consumer_removed(self, consumer: Consumer) -> None:
        """Publish CONSUMER_CLOSED."""
        session = consumer.owner
        if not is_published(consumer) or session is None or session.connection is None:
            return
        if self._is_needed("CONSUMER_CLOSED", consumer.queue.definition.address, 0):
            properties = self._of_consumer(consumer, session)
            set_text(properties, "_AMQ_FilterString", consumer.filter_text)
            self._publish("CONSUMER_CLOSED", properties)

    # -- sessions ------------------------------------------------------------------------------------------------

    def session_added(self, session: SessionView) -> None:
        """Publish SESSION_CREATED."""
        self._publish_session("SESSION_CREATED", session)

    def session_removed(self, session: SessionView) -> None:
        """Publish SESSION_CLOSED."""
        self._publish_session("SESSION_CLOSED", session)

    def _publish_session(self, kind: str, session: SessionView) -> None:
        connection = session.connection
        if connection is None or not self._is_wanted:
            return
        # Without a distance, no member of the cluster selects it: sessions of bridges are of no interest elsewhere, and
        # each of them would reach all members.
        distance = 0 if session.user != self._kernel.config.cluster_user else None
        if not self._interest.includes(kind, self._address, distance):
            return
        properties = Properties()
        properties.set("_AMQ_ConnectionName", connection.connection_id, _STRING)
        set_text(properties, "_AMQ_User", session.user)
        properties.set("_AMQ_SessionName", session.name, _STRING)
        set_text(properties, "_AMQ_Client_ID", connection.client_id)
        properties.set("_AMQ_Protocol_Name", connection.protocol, _STRING)
        properties.set("_AMQ_Address", self._address, _STRING)
        if distance is not None:
            properties.set("_AMQ_Distance", distance, _INT)
        self._publish(kind, properties)

    # -- security ------------------------------------------------------------------------------------------------

    def access_refused(self, principal: Principal, permission: Permission, address: str, _queue: str | None) -> None:
        """Publish SECURITY_PERMISSION_VIOLATION."""
        if self._is_wanted:
            properties = Properties()
            properties.set("_AMQ_Address", address, _STRING)
            properties.set("_AMQ_CheckType", permission.name, _STRING)
            set_text(properties, "_AMQ_User", principal.user)
            self._publish("SECURITY_PERMISSION_VIOLATION", properties)

    def login_refused(self, user: str | None, peer: str, _reason: str, subject: str | None) -> None:
        """Publish SECURITY_AUTHENTICATION_VIOLATION."""
        if self._is_wanted:
            properties = Properties()
            set_text(properties, "_AMQ_User", user)
            properties.set("_AMQ_CertSubjectDN", subject or _NO_SUBJECT, _STRING)
            properties.set("_AMQ_RemoteAddress", peer, _STRING)
            self._publish("SECURITY_AUTHENTICATION_VIOLATION", properties)

    # -- acceptors -----------------------------------------------------------------------------------------------

    def acceptor_started(self, host: str, port: int) -> None:
        """Publish ACCEPTOR_STARTED. The start with the broker itself is before any subscriber."""
        self._publish_acceptor("ACCEPTOR_STARTED", host, port)

    def acceptor_stopped(self, host: str, port: int) -> None:
        """Publish ACCEPTOR_STOPPED."""
        self._publish_acceptor("ACCEPTOR_STOPPED", host, port)

    def _publish_acceptor(self, kind: str, host: str, port: int) -> None:
        if self._is_wanted:
            properties = Properties()
            properties.set("factory", ACCEPTOR_FACTORY, _STRING)
            properties.set("host", host, _STRING)
            properties.set("port", port, _INT)
            self._publish(kind, properties)

    # -- bridges, cluster connections, broadcast groups -----------------------------------------------------------

    def service_started(self, service: Service, name: str) -> None:
        """Publish BRIDGE_STARTED, or that of another service. The start with the broker is before any subscriber."""
        self._publish_name(f"{service.value}_STARTED", name)

    def service_stopped(self, service: Service, name: str) -> None:
        """Publish BRIDGE_STOPPED, or that of another service."""
        self._publish_name(f"{service.value}_STOPPED", name)

    def _publish_name(self, kind: str, name: str) -> None:
        if self._is_wanted and self._interest.includes(kind, None, None):
            properties = Properties()
            properties.set("name", name, _STRING)
            self._publish(kind, properties)

    # -- groups --------------------------------------------------------------------------------------------------

    def publish_group_notice(self, notice: GroupNotice) -> None:
        """Publish PROPOSAL, PROPOSAL_RESPONSE or UNPROPOSAL."""
        handler = self._kernel.config.grouping_handler
        if handler is not None and self._is_needed(notice.kind.value, handler.address, notice.distance):
            properties = Properties()
            properties.set("_JBM_ProposalGroupId", notice.key, _STRING)
            properties.set("_JBM_ProposalValue", notice.queue, _STRING)
            if notice.kind is GroupNoticeKind.RESPONSE:
                set_text(properties, "_JBM_ProposalAltValue", notice.decided)
            properties.set("_AMQ_Binding_Type", _LOCAL_QUEUE, _INT)
            properties.set("_AMQ_Address", handler.address, _STRING)
            properties.set("_AMQ_Distance", notice.distance, _INT)
            self._publish(notice.kind.value, properties)

    # -- parts ---------------------------------------------------------------------------------------------------

    @property
    def _is_wanted(self) -> bool:
        """Return True if a queue is bound to the notification address, and the broker has room for messages."""
        kernel = self._kernel
        return kernel.memory.used_bytes < kernel.memory.limit_bytes and kernel.router.reaches_queues(self._address)

    def _is_needed(self, kind: str, address: str, distance: int) -> bool:
        """Return True if a queue may take such a notification, and the broker or half of its margin has room.

        The other half is for answers of management, without which no client can make room.

        Other brokers count bindings and consumers: a missing event is an error until they connect again. So the first
        one that is dropped gets a line of the log, until the broker is no longer full.
        """
        kernel, memory = self._kernel, self._kernel.memory
        if not self._interest.includes(kind, address, distance):
            return False
        if memory.used_bytes < memory.limit_bytes:
            self._drops = False
            return True
        if memory.has_room(_MESSAGE_BYTES + min(memory.limit_bytes, memory.margin_bytes) // 2):
            return True
        if not self._drops:
            self._drops = True
            kernel.log(
                "the broker is full, and so is half of its margin: notifications of bindings and consumers are "
                "dropped; consume messages, then let the other brokers of the cluster connect again"
            )
        return False

    def _of_consumer(self, consumer: Consumer, session: SessionView) -> Properties:
        connection = session.connection
        assert connection is not None
        properties = binding_properties(consumer.queue.definition, self._publisher.node_id)
        properties.set("_AMQ_ConsumerCount", consumer.queue.consumer_count, _INT)
        set_text(properties, "_AMQ_User", session.user)
        properties.set("_AMQ_RemoteAddress", connection.peer, _STRING)
        properties.set("_AMQ_SessionName", session.name, _STRING)
        properties.set("_AMQ_ConsumerName", consumer.key, _LONG)
        if connection.client_id is not None:
            properties.set("_AMQ_Client_ID", connection.client_id, _STRING)
        return properties

    def _publish(self, kind: str, properties: Properties, *, waits: bool = False) -> None:
        now_ms = self._kernel.now_ms
        properties.set("_AMQ_NotifType", kind, _STRING)
        properties.set("_AMQ_NotifTimestamp", now_ms, _LONG)
        self._publisher.publish(properties, now_ms, waits=waits)


def is_published(consumer: Consumer) -> bool:
    """Return True if other brokers learn of a consumer: it is of a client, and no browser, as in Artemis."""
    session = consumer.owner
    return not consumer.browse and session is not None and session.connection is not None


def binding_properties(definition: QueueDefinition, node_id: str) -> Properties:
    """Return the properties that name the binding of a queue of this broker, under its names in the cluster."""
    is_anycast = definition.routing_type == _ANYCAST
    properties = Properties()
    properties.set("_AMQ_Address", definition.address, _STRING)
    properties.set("_AMQ_ClusterName", definition.name + node_id, _STRING)
    # Anycast queues of an address share its messages, also those of other brokers.
    properties.set("_AMQ_RoutingName", definition.address if is_anycast else definition.name, _STRING)
    properties.set("_AMQ_Distance", 0, _INT)
    return properties


def remote_binding_properties(binding: RemoteBinding) -> Properties:
    """Return the properties that name the binding of a queue of another broker."""
    properties = Properties()
    properties.set("_AMQ_Address", binding.address, _STRING)
    properties.set("_AMQ_ClusterName", binding.cluster_name, _STRING)
    properties.set("_AMQ_RoutingName", binding.routing_name, _STRING)
    properties.set("_AMQ_Distance", binding.distance, _INT)
    return properties


def set_text(properties: Properties, name: str, text: str | None) -> None:
    """Set a text that may be missing: Artemis then sends the property with a null."""
    if text:
        properties.set(name, text, _STRING)
    else:
        properties.set(name, None, _NULL)
