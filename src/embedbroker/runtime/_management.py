"""`Management`: attributes and operations of a running broker, for the program that owns it.

Responsible for typed calls and for their errors. The same registry answers management messages; see the guide. The
owner may do everything: no permission is checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from embedbroker.config import (
    PERMISSIONS,
    AddressSettings,
    BridgeConfig,
    BrokerConfig,
    DivertConfiguration,
    SecuritySetting,
    address_settings_as_json,
    address_settings_of_json,
    as_diverts,
    bridge_as_json,
    security_setting_of_json,
)
from embedbroker.node import check_filters
from embedclient.errors import IllegalStateException, JMSException
from embedclient.model import summary

from ._configuration_watch import reloaded_parts

if TYPE_CHECKING:
    from ._host import Host

__all__ = ["AddressInfo", "GroupInfo", "Management", "PreparedTransaction", "QueueInfo"]

PAGE_SIZE = 2_000
_FLUSH_LIMIT = 500
# Number of a text message among Artemis' types.
_TEXT = 3


@frozen
class QueueInfo:
    """Figures of a queue at one moment.

    Attributes:
        name: Name of the queue.
        address: Address that it is bound to.
        routing_type: ``ANYCAST`` or ``MULTICAST``.
        durable: Whether it survives a restart.
        message_count: Messages that wait or are in delivery.
        delivering_count: Messages in delivery.
        consumer_count: Consumers, without browsers.
        messages_added: Messages added since the start of the broker.
        messages_acknowledged: Messages acknowledged since then.
    """

    name: str
    address: str
    routing_type: str
    durable: bool
    message_count: int
    delivering_count: int
    consumer_count: int
    messages_added: int
    messages_acknowledged: int


@frozen
class AddressInfo:
    """Figures of an address at one moment.

    Attributes:
        name: Name of the address.
        routing_types: ``ANYCAST``, ``MULTICAST`` or both.
        queue_count: Queues that are bound to it.
        message_count: Messages in its queues.
        routed_message_count: Messages that a queue took, since the start of the broker.
        unrouted_message_count: Messages that no queue took, since then.
    """

    name: str
    routing_types: tuple[str, ...]
    queue_count: int
    message_count: int
    routed_message_count: int
    unrouted_message_count: int


@frozen
class GroupInfo:
    """Describe a message group and its consumer at one moment.

    Attributes:
        group_id: Id of the group. A bucket of groups has the id ``_AMQ_GROUP_BUCKET_INT_KEY_`` and its number.
        consumer_id: Number of the consumer in its session.
        session_id: Name of the session.
        connection_id: Id of the connection; empty for a consumer of the broker itself.
    """

    group_id: str
    consumer_id: int
    session_id: str
    connection_id: str


@frozen
class PreparedTransaction:
    """Describe an XA branch that waits for its transaction manager.

    Attributes:
        id: Id of the branch as Base64, as Artemis' management names it.
        created: Time of its begin, or of the start of the broker since then: UTC, in the form of Java.
        format_id: Format id of its Xid.
        global_transaction_id: Global transaction id as a text.
        branch_qualifier: Branch qualifier as a text.
        sent: Headers and properties of the messages that it sent.
        received: Headers and properties of those that it received.
    """

    id: str
    created: str
    format_id: int
    global_transaction_id: str
    branch_qualifier: str
    sent: list[dict[str, Any]]
    received: list[dict[str, Any]]


class ManagementCalls:
    """Call any attribute and operation of a running broker by name."""

    def __init__(self, host: Callable[[], Host]) -> None:
        self._host = host

    def __repr__(self) -> str:
        return summary(self)

    async def get(self, resource: str, attribute: str) -> Any:
        """Return an attribute as a value of JSON.

        Args:
            resource: ``broker``, ``address.NAME`` or ``queue.NAME``.
            attribute: Name of the attribute, such as ``MessageCount``.
        """
        return self._result(await self._host().manage(resource, attribute=attribute))

    async def invoke(self, resource: str, operation: str, *arguments: object) -> Any:
        """Run an operation, and return its result as a value of JSON.

        Args:
            resource: ``broker``, ``address.NAME`` or ``queue.NAME``.
            operation: Name of the operation, such as ``removeAllMessages``.
            arguments: Texts, numbers, booleans or None, in the order of the operation's parameters.
        """
        return self._result(await self._host().manage(resource, operation=operation, arguments=arguments))

    @staticmethod
    def _result(answer: tuple[object, str | None] | None) -> Any:
        if answer is None:
            raise IllegalStateException("the broker ended before it answered the management call")
        value, failure = answer
        if failure is not None:
            raise JMSException(failure)
        return value


class SettingsCalls(ManagementCalls):
    """Read and change the settings of a running broker: those of addresses, and permissions."""

    async def address_settings(self, address: str) -> AddressSettings:
        """Return the merged settings of an address without defaults: None for each value that no match sets.

        Args:
            address: Name of the address.
        """
        return address_settings_of_json(json.loads(await self.invoke("broker", "getAddressSettingsAsJSON", address)))

    async def add_address_settings(self, match: str, settings: AddressSettings) -> None:
        """Replace the settings of a match. They take effect at once, and survive a restart.

        Args:
            match: Name of an address, or a text with wildcards such as ``orders.#``.
            settings: All settings of the match: a value that is None comes from wider matches.

        Raises:
            TypeError: ``settings`` is no `AddressSettings`.
        """
        if not isinstance(settings, AddressSettings):
            raise TypeError(f"settings must be AddressSettings, not {settings!r}")
        text = json.dumps(address_settings_as_json(settings), ensure_ascii=False)
        await self.invoke("broker", "addAddressSettings", match, text)

    async def remove_address_settings(self, match: str) -> None:
        """Remove the settings of a match. Those of the configuration are back after a restart.

        Args:
            match: Name of an address, or a text with wildcards such as ``orders.#``.
        """
        await self.invoke("broker", "removeAddressSettings", match)

    async def security_settings(self, address: str) -> SecuritySetting:
        """Return the permissions on an address, those of its most specific match; without a match they are empty.

        Args:
            address: Name of the address.
        """
        return security_setting_of_json(json.loads(await self.invoke("broker", "getRolesAsJSON", address)))

    async def add_security_settings(self, match: str, setting: SecuritySetting) -> None:
        """Replace the permissions of a match. They count at once, also in open sessions, and survive a restart.

        Args:
            match: Name of an address, or a text with wildcards such as ``orders.#``.
            setting: All permissions of the match: what it does not grant is refused.

        Raises:
            ValueError: A role contains a blank or a comma, which separate roles in this operation.
        """
        if not isinstance(setting, SecuritySetting):
            raise TypeError(f"setting must be a SecuritySetting, not {setting!r}")
        lists = [sorted(getattr(setting, permission)) for permission in PERMISSIONS]
        for role in sorted({role for roles in lists for role in roles}):
            if role.replace(",", " ").split() != [role]:
                raise ValueError(f"role {role!r} contains a blank or a comma; choose a name without them")
        await self.invoke("broker", "addSecuritySettings", match, *map(",".join, lists))

    async def remove_security_settings(self, match: str) -> None:
        """Remove the permissions of a match. Those of the configuration are back after a restart.

        Args:
            match: Name of an address, or a text with wildcards such as ``orders.#``.
        """
        await self.invoke("broker", "removeSecuritySettings", match)

    async def reload_configuration(self, config: BrokerConfig) -> None:
        """Adopt security settings, address settings, diverts and addresses of a configuration that has changed.

        As in Artemis: settings that management set stay in force, queues that exist get the configured values, diverts
        change as with `reload_diverts`. Queues and addresses that are missing stay, unless ``config_delete_queues`` or
        ``config_delete_addresses`` is set for their address. All other values need a restart. A broker with the
        configuration of `load_config` does this by itself when its file changes.

        Args:
            config: The whole configuration, such as `load_config(file)`.

        Raises:
            ValueError: A filter is not a selector; nothing is changed.
            JMSException: Some parts are refused; the text names them. The others hold.
        """
        if not isinstance(config, BrokerConfig):
            raise TypeError(f"config must be a BrokerConfig, not {type(config).__name__}")
        check_filters(config)
        self._result(await self._host().reload(**reloaded_parts(config)))


class ServiceCalls(SettingsCalls):
    """Manage the users, the acceptor and the message counters of a running broker."""

    # -- users ---------------------------------------------------------------------------------------------------

    async def users(self) -> dict[str, list[str]]:
        """Return the roles of each user."""
        rows: list[dict[str, Any]] = json.loads(await self.invoke("broker", "listUser", ""))
        return {row["username"]: row["roles"] for row in rows}

    async def add_user(self, name: str, password: str, roles: Sequence[str], *, plaintext: bool = False) -> None:
        """Add a user, which may log in at once.

        A broker that was loaded with a ``login.config`` writes the user to its files. Otherwise the user exists until
        the broker stops.

        Args:
            name: Name of the user.
            password: Password of the user.
            roles: Names of roles, at least one.
            plaintext: Whether the password is stored in plain text, and not as a hash.
        """
        await self.invoke("broker", "addUser", name, password, ",".join(roles), plaintext)

    async def reset_user(
        self,
        name: str,
        *,
        password: str | None = None,
        roles: Sequence[str] | None = None,
        plaintext: bool = False,
    ) -> None:
        """Give a user another password, other roles, or both. Its sessions keep what they have.

        Args:
            name: Name of the user.
            password: New password; None keeps the present one.
            roles: All roles from now on; None keeps the present ones.
            plaintext: Whether the password is stored in plain text, and not as a hash.
        """
        listed = None if roles is None else ",".join(roles)
        await self.invoke("broker", "resetUser", name, password, listed, plaintext)

    async def remove_user(self, name: str) -> None:
        """Remove a user. Its sessions go on.

        Args:
            name: Name of the user.
        """
        await self.invoke("broker", "removeUser", name)

    # -- acceptors -----------------------------------------------------------------------------------------------

    async def acceptor_names(self) -> list[str]:
        """Return the names of the places where the broker listens; there is one."""
        return [name for name, _class, _parameters in await self.get("broker", "Acceptors")]

    async def is_acceptor_started(self, name: str) -> bool:
        """Return True if an acceptor accepts connections.

        Args:
            name: Name of the acceptor, one of `acceptor_names`.
        """
        started: bool = await self.get(f"acceptor.{name}", "Started")
        return started

    async def start_acceptor(self, name: str) -> None:
        """Accept connections again, on the same port. One that is started stays so.

        Args:
            name: Name of the acceptor, one of `acceptor_names`.
        """
        await self.invoke(f"acceptor.{name}", "start")

    async def stop_acceptor(self, name: str) -> None:
        """Accept no more connections, and close those that came over the acceptor, without a notice to clients.

        Connections of this process over ``vm_url`` go on.

        Args:
            name: Name of the acceptor, one of `acceptor_names`.
        """
        await self.invoke(f"acceptor.{name}", "stop")

    async def reload_acceptor(self, name: str) -> None:
        """Read the files of TLS again, for connections from now on. If they cannot be used, nothing changes.

        Args:
            name: Name of the acceptor, one of `acceptor_names`.
        """
        await self.invoke(f"acceptor.{name}", "reload")

    # -- message counters ----------------------------------------------------------------------------------------

    async def enable_message_counters(self, *, period_ms: int | None = None) -> None:
        """Sample the message counters of all queues until a restart.

        Args:
            period_ms: Milliseconds from one sample to the next; None keeps the present period.
        """
        if period_ms is not None:
            await self.invoke("broker", "setMessageCounterSamplePeriod", period_ms)
        await self.invoke("broker", "enableMessageCounters")

    async def disable_message_counters(self) -> None:
        """Sample no more, and forget the counts and their histories."""
        await self.invoke("broker", "disableMessageCounters")

    async def message_counter(self, queue: str) -> dict[str, Any]:
        """Return the message counter of a queue as of its last sample; the guide lists the names.

        Args:
            queue: Name of the queue.
        """
        row: dict[str, Any] = json.loads(await self.invoke(f"queue.{queue}", "listMessageCounter"))
        return row

    async def message_counter_history(self, queue: str) -> list[dict[str, Any]]:
        """Return the days of a queue's history, each with the messages that were added by the hour.

        Args:
            queue: Name of the queue.
        """
        found: dict[str, Any] = json.loads(await self.invoke(f"queue.{queue}", "listMessageCounterHistory"))
        days: list[dict[str, Any]] = found["dayCounters"]
        return days


class DeliveryCalls(ServiceCalls):
    """Pause queues and disable them; show their message groups, and share them out again."""

    async def groups(self, queue: str) -> list[GroupInfo]:
        """Return the message groups of a queue, or their buckets, that have a consumer.

        Args:
            queue: Name of the queue.
        """
        return [
            GroupInfo(
                group_id=row["groupID"],
                consumer_id=row["consumerID"],
                session_id=row["sessionID"],
                connection_id=row["connectionID"],
            )
            for row in json.loads(await self.invoke(f"queue.{queue}", "listGroupsAsJSON"))
        ]

    async def reset_groups(self, queue: str, *, group: str | None = None) -> None:
        """Let the next message of a group choose a consumer. Messages in delivery stay with the consumer before.

        Args:
            queue: Name of the queue.
            group: Id of the group, or of a bucket; None resets all groups. An unknown one has no effect.
        """
        if group is None:
            await self.invoke(f"queue.{queue}", "resetAllGroups")
        else:
            await self.invoke(f"queue.{queue}", "resetGroup", group)

    async def pause_queue(self, name: str, *, persist: bool = False) -> None:
        """Deliver nothing from a queue until it is resumed.

        Args:
            name: Name of the queue.
            persist: Whether it stays paused after a restart.
        """
        await self.invoke(f"queue.{name}", "pause", persist)

    async def resume_queue(self, name: str) -> None:
        """Deliver from a queue again. It stays paused while its address is paused.

        Args:
            name: Name of the queue.
        """
        await self.invoke(f"queue.{name}", "resume")

    async def disable_queue(self, name: str) -> None:
        """Let a queue take no messages until it is enabled, also after a restart. What it has is delivered.

        Args:
            name: Name of the queue.
        """
        await self.invoke(f"queue.{name}", "disable")

    async def enable_queue(self, name: str) -> None:
        """Let a disabled queue take messages again.

        Args:
            name: Name of the queue.
        """
        await self.invoke(f"queue.{name}", "enable")


class TransactionCalls(DeliveryCalls):
    """Show the XA branches that wait for their transaction managers, and decide them."""

    async def prepared_transactions(self) -> list[PreparedTransaction]:
        """Return the prepared XA branches, oldest first, with what they sent and received."""
        text: str = await self.invoke("broker", "listPreparedTransactionDetailsAsJSON")
        return [
            PreparedTransaction(
                row["xid_as_base64"],
                row["creation_time"],
                row["xid_format_id"],
                row["xid_global_txid"],
                row["xid_branch_qual"],
                [each["message_properties"] for each in row["tx_related_messages"] if _is_sent(each)],
                [each["message_properties"] for each in row["tx_related_messages"] if not _is_sent(each)],
            )
            for row in (json.loads(text) if text else [])
        ]

    async def commit_prepared_transaction(self, id: str) -> bool:
        """Commit a prepared branch in place of its transaction manager; return False if there is no such branch.

        The manager receives the result "heuristically committed", until it forgets the branch.

        Args:
            id: Id of the branch, as `prepared_transactions` returns it.
        """
        decided: bool = await self.invoke("broker", "commitPreparedTransaction", id)
        return decided

    async def rollback_prepared_transaction(self, id: str) -> bool:
        """Roll a prepared branch back in place of its transaction manager; see `commit_prepared_transaction`.

        Args:
            id: Id of the branch, as `prepared_transactions` returns it.
        """
        decided: bool = await self.invoke("broker", "rollbackPreparedTransaction", id)
        return decided

    async def heuristic_transactions(self) -> dict[str, bool]:
        """Return the ids of branches that were decided here and not forgotten yet, with True for committed ones."""
        committed: list[str] = await self.invoke("broker", "listHeuristicCommittedTransactions")
        rolled_back: list[str] = await self.invoke("broker", "listHeuristicRolledBackTransactions")
        return dict.fromkeys(committed, True) | dict.fromkeys(rolled_back, False)


def _is_sent(row: Mapping[str, object]) -> bool:
    return row["message_operation_type"] == "(+) send"


class BridgeCalls(TransactionCalls):
    """Create and end bridges to other brokers, and the connectors that they name."""

    async def bridge_names(self) -> list[str]:
        """Return the names of all bridges that run."""
        names: list[str] = await self.get("broker", "BridgeNames")
        return names

    async def create_bridge(self, bridge: BridgeConfig) -> None:
        """Create a bridge, and start it. It survives a restart.

        Args:
            bridge: The bridge; one with a transformer is refused, because it cannot be recorded.

        Raises:
            ValueError: It has a transformer.
            JMSException: Its name is in use, or its queue or a connector does not exist.
        """
        await self.invoke("broker", "createBridge", json.dumps(bridge_as_json(bridge)))

    async def delete_bridge(self, name: str) -> None:
        """End a bridge; what is not confirmed returns to its queue. One of the configuration is back after a restart.

        Args:
            name: Name of the bridge.
        """
        await self.invoke("broker", "destroyBridge", name)

    async def add_connector(self, name: str, url: str) -> None:
        """Add a connector, or replace one, for bridges that are created later. It survives a restart.

        Args:
            name: Name of the connector.
            url: Place of the other broker, such as ``tcp://host:61616``.

        Raises:
            JMSException: The URL is not that of a connector.
        """
        await self.invoke("broker", "addConnector", name, url)

    async def remove_connector(self, name: str) -> None:
        """Forget a connector. Bridges that use it go on until a restart.

        Args:
            name: Name of the connector.
        """
        await self.invoke("broker", "removeConnector", name)


class Management(BridgeCalls):
    """Read and change a running broker. Made by `EmbeddedBroker.management`.

    `get` and `invoke` reach every attribute and operation of the guide's tables. The other methods are typed forms of
    the common ones. All of them raise `JMSException` with the broker's text if a call fails, and
    `IllegalStateException` if the broker is not live or ends before the answer.
    """

    # -- queues --------------------------------------------------------------------------------------------------

    async def queue_names(self) -> list[str]:
        """Return the names of all queues, in order."""
        names: list[str] = await self.get("broker", "QueueNames")
        return names

    async def queues(self) -> list[QueueInfo]:
        """Return the figures of all queues, in order of their names."""
        return [
            QueueInfo(
                name=row["name"],
                address=row["address"],
                routing_type=row["routingType"],
                durable=row["durable"] == "true",
                message_count=int(row["messageCount"]),
                delivering_count=int(row["deliveringCount"]),
                consumer_count=int(row["consumerCount"]),
                messages_added=int(row["messagesAdded"]),
                messages_acknowledged=int(row["messagesAcked"]),
            )
            for row in await self._rows("listQueues")
        ]

    async def message_count(self, queue: str) -> int:
        """Return the number of messages that wait in a queue or are in delivery.

        Args:
            queue: Name of the queue.
        """
        count: int = await self.get(f"queue.{queue}", "MessageCount")
        return count

    async def create_queue(
        self,
        name: str,
        *,
        address: str | None = None,
        routing_type: str = "ANYCAST",
        filter: str | None = None,
        durable: bool = True,
        max_consumers: int = -1,
    ) -> None:
        """Create a queue, and its address if it does not exist.

        Args:
            name: Name of the queue.
            address: Address that it is bound to; None takes the name of the queue.
            routing_type: ``ANYCAST`` or ``MULTICAST``.
            filter: Selector for the messages that it takes; None takes all.
            durable: Whether it survives a restart.
            max_consumers: Maximum number of consumers; -1 sets no limit.
        """
        configuration: dict[str, object] = {
            "name": name,
            "address": address if address is not None else name,
            "routing-type": routing_type,
            "durable": durable,
            "max-consumers": max_consumers,
        }
        if filter is not None:
            configuration["filter-string"] = filter
        await self.invoke("broker", "createQueue", json.dumps(configuration))

    async def delete_queue(self, name: str, *, closes_consumers: bool = False) -> None:
        """Delete a queue with its messages.

        Args:
            name: Name of the queue.
            closes_consumers: Whether its consumers are closed; otherwise a queue with consumers is refused.
        """
        await self.invoke("broker", "destroyQueue", name, closes_consumers)

    async def purge_queue(self, name: str) -> int:
        """Remove the messages that wait in a queue, and return how many there were. Those in delivery stay.

        Args:
            name: Name of the queue.
        """
        removed: int = await self.invoke(f"queue.{name}", "removeAllMessages")
        return removed

    async def update_queue(
        self,
        name: str,
        *,
        filter: str | None = None,
        routing_type: str | None = None,
        max_consumers: int | None = None,
        exclusive: bool | None = None,
        purge_on_no_consumers: bool | None = None,
    ) -> None:
        """Change settings of a queue, which keeps its messages. None keeps a value.

        Args:
            name: Name of the queue.
            filter: Selector for the messages that it takes; an empty text removes it.
            routing_type: ``ANYCAST`` or ``MULTICAST``; its address must have that type.
            max_consumers: Maximum number of consumers; -1 sets no limit.
            exclusive: Whether one consumer gets all messages.
            purge_on_no_consumers: Whether messages are removed when the last consumer leaves.
        """
        wanted = {
            "filter-string": filter,
            "routing-type": routing_type,
            "max-consumers": max_consumers,
            "exclusive": exclusive,
            "purge-on-no-consumers": purge_on_no_consumers,
        }
        changes = {key: value for key, value in wanted.items() if value is not None}
        await self.invoke("broker", "updateQueue", json.dumps({"name": name, **changes}))

    # -- messages ------------------------------------------------------------------------------------------------

    async def browse(
        self,
        queue: str,
        *,
        filter: str | None = None,
        page: int = 1,
        page_size: int = 100,
        scheduled: bool = False,
    ) -> list[dict[str, Any]]:
        """Return a page of the messages that wait in a queue: headers and properties, without the body.

        Args:
            queue: Name of the queue.
            filter: Selector for the messages; None selects all.
            page: Number of the page, from 1.
            page_size: Messages of a page.
            scheduled: Whether to return the messages scheduled for later instead: the 200 that are due first, in that
                order, on one page and without a filter.

        Raises:
            ValueError: A filter, or another page, is requested of scheduled messages.
        """
        if scheduled:
            if filter is not None or page != 1:
                raise ValueError("browse returns scheduled messages on one page and without a filter")
            first: list[dict[str, Any]] = await self.invoke(f"queue.{queue}", "listScheduledMessages")
            return first
        rows: list[dict[str, Any]] = await self.invoke(f"queue.{queue}", "browse", page, page_size, filter)
        return rows

    async def send_message(
        self, queue: str, text: str, *, properties: Mapping[str, object] | None = None, durable: bool = True
    ) -> int:
        """Send a text message to one queue, whose filter applies; return the message's id in the broker.

        Args:
            queue: Name of the queue.
            text: Body of the message.
            properties: Properties; their values become texts.
            durable: Whether the message survives a restart.
        """
        arguments = (dict(properties or {}), _TEXT, text, durable, None, None, True)
        identifier: str = await self.invoke(f"queue.{queue}", "sendMessage", *arguments)
        return int(identifier)

    async def move_messages(
        self,
        queue: str,
        target: str,
        *,
        filter: str | None = None,
        limit: int | None = None,
        reject_duplicates: bool = False,
    ) -> int:
        """Move messages that wait in a queue to another one, and return how many there were.

        Args:
            queue: Name of the queue.
            target: Name of the other queue.
            filter: Selector for the messages; None selects all.
            limit: Maximum number of messages; None sets no limit.
            reject_duplicates: Whether messages whose duplicate id is in force at the target are dropped instead.
        """
        arguments = (_FLUSH_LIMIT, filter, target, reject_duplicates, -1 if limit is None else limit)
        moved: int = await self.invoke(f"queue.{queue}", "moveMessages", *arguments)
        return moved

    async def copy_message(self, queue: str, message_id: int, target: str) -> bool:
        """Copy a message that waits in a queue to another one; return False if no such message waits.

        Args:
            queue: Name of the queue.
            message_id: Id of the message in the broker.
            target: Name of the other queue.
        """
        copied: bool = await self.invoke(f"queue.{queue}", "copyMessage", message_id, target)
        return copied

    async def remove_messages(self, queue: str, *, filter: str | None = None) -> int:
        """Remove messages that wait in a queue and match a selector, and return how many there were.

        Args:
            queue: Name of the queue.
            filter: Selector for the messages; None selects all.
        """
        removed: int = await self.invoke(f"queue.{queue}", "removeMessages", filter)
        return removed

    async def expire_messages(self, queue: str, *, filter: str | None = None) -> int:
        """Expire messages that wait in a queue and match a selector, and return how many there were.

        Args:
            queue: Name of the queue.
            filter: Selector for the messages; None selects all.
        """
        expired: int = await self.invoke(f"queue.{queue}", "expireMessages", filter)
        return expired

    async def reject_messages(self, queue: str, *, filter: str | None = None) -> int:
        """Make dead letters of messages that wait in a queue and match a selector; return how many there were.

        Args:
            queue: Name of the queue.
            filter: Selector for the messages; None selects all.
        """
        rejected: int = await self.invoke(f"queue.{queue}", "sendMessagesToDeadLetterAddress", filter)
        return rejected

    async def retry_messages(self, queue: str) -> int:
        """Move messages, such as dead letters, back to the queues that they left, and return how many there were.

        Args:
            queue: Name of the queue.
        """
        retried: int = await self.invoke(f"queue.{queue}", "retryMessages")
        return retried

    async def deliver_scheduled_messages(self, queue: str, *, filter: str | None = None) -> None:
        """Deliver scheduled messages that match a selector now. Those that still wait are scheduled after a restart.

        Args:
            queue: Name of the queue.
            filter: Selector for the messages; None selects all.
        """
        await self.invoke(f"queue.{queue}", "deliverScheduledMessages", filter)

    async def change_priority(self, queue: str, priority: int, *, filter: str | None = None) -> int:
        """Give messages that wait in a queue another priority and new ids; return how many there were.

        Args:
            queue: Name of the queue.
            priority: New priority, 0 to 9.
            filter: Selector for the messages; None selects all.
        """
        changed: int = await self.invoke(f"queue.{queue}", "changeMessagesPriority", filter, priority)
        return changed

    # -- clients -------------------------------------------------------------------------------------------------

    async def close_connections(self, *, address: str | None = None, user: str | None = None) -> bool:
        """Close the connections of a host or of a user; return False if there were none.

        Args:
            address: Beginning of the client's address, such as ``10.0.0.7``.
            user: Name of a user.

        Raises:
            ValueError: Neither or both of them are given.
        """
        if (address is None) == (user is None):
            raise ValueError("close_connections needs an address or a user, and not both")
        operation = "closeConnectionsForUser" if address is None else "closeConnectionsForAddress"
        closed: bool = await self.invoke("broker", operation, user if address is None else address)
        return closed

    # -- addresses -----------------------------------------------------------------------------------------------

    async def addresses(self) -> list[AddressInfo]:
        """Return the figures of all addresses, in order of their creation."""
        return [
            AddressInfo(
                name=row["name"],
                routing_types=tuple(json.loads(row["routingTypes"])),
                queue_count=int(row["queueCount"]),
                message_count=int(row["messageCount"]),
                routed_message_count=int(row["routedMessageCount"]),
                unrouted_message_count=int(row["unroutedMessageCount"]),
            )
            for row in await self._rows("listAddresses")
        ]

    async def create_address(self, name: str, *routing_types: str) -> None:
        """Create an address.

        Args:
            name: Name of the address.
            routing_types: ``ANYCAST``, ``MULTICAST`` or both.
        """
        await self.invoke("broker", "createAddress", name, ",".join(routing_types))

    async def delete_address(self, name: str, *, deletes_queues: bool = False) -> None:
        """Delete an address.

        Args:
            name: Name of the address.
            deletes_queues: Whether its queues are deleted too; otherwise an address with queues is refused.
        """
        await self.invoke("broker", "deleteAddress", name, deletes_queues)

    async def pause_address(self, name: str, *, persist: bool = False) -> None:
        """Pause the queues of an address, and those it gets later.

        Args:
            name: Name of the address.
            persist: Whether they stay paused after a restart.
        """
        await self.invoke(f"address.{name}", "pause", persist)

    async def resume_address(self, name: str) -> None:
        """Resume all queues of an address, also those that were paused by themselves.

        Args:
            name: Name of the address.
        """
        await self.invoke(f"address.{name}", "resume")

    # -- diverts -------------------------------------------------------------------------------------------------

    async def divert_names(self) -> list[str]:
        """Return the names of all diverts, in order of their creation."""
        names: list[str] = await self.get("broker", "DivertNames")
        return names

    async def create_divert(
        self,
        name: str,
        address: str,
        forwarding_address: str,
        *,
        exclusive: bool = False,
        filter: str | None = None,
        routing_type: str = "STRIP",
    ) -> None:
        """Create a divert. It survives a restart.

        Args:
            name: Name of the divert.
            address: Address whose messages it takes; one with wildcards stands for all that match.
            forwarding_address: Address that gets them; several names with commas get one copy each.
            exclusive: Whether a message that it takes does not go to the queues of its address.
            filter: Selector for the messages that it takes; None takes all.
            routing_type: Routing type of the copy: ``STRIP``, ``PASS``, ``ANYCAST`` or ``MULTICAST``.
        """
        await self.invoke(
            "broker", "createDivert", name, None, address, forwarding_address, exclusive, filter, None, routing_type
        )

    async def delete_divert(self, name: str) -> None:
        """Remove a divert.

        Args:
            name: Name of the divert.
        """
        await self.invoke("broker", "destroyDivert", name)

    async def reload_diverts(self, diverts: Mapping[str, DivertConfiguration]) -> None:
        """Adopt the diverts of a configuration that has changed: `load_config(file).diverts`.

        As in Artemis: a new address, routing name or ``exclusive`` replaces a divert, other values change in place. A
        divert without properties or without a transformer keeps those that it has. One that is missing stays, unless
        `config_delete_diverts` is set for its address.

        Args:
            diverts: All diverts by name.

        Raises:
            JMSException: Some are refused; the text names them. The others hold.
        """
        self._result(await self._host().reload(diverts=as_diverts(diverts)))

    async def _rows(self, operation: str) -> list[dict[str, str]]:
        """Return all rows of a list. The broker returns them in pages: one result has a limited size."""
        rows: list[dict[str, str]] = []
        while True:
            number = len(rows) // PAGE_SIZE + 1
            page: dict[str, Any] = json.loads(await self.invoke("broker", operation, "", number, PAGE_SIZE))
            rows += page["data"]
            if len(page["data"]) < PAGE_SIZE:
                return rows
