"""`ThreadedManagement`: the blocking counterpart of `Management`. Generated from that class.

Each method is one call in the thread of the broker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from embedbroker.config import AddressSettings, BridgeConfig, BrokerConfig, DivertConfiguration, SecuritySetting

from ._management import AddressInfo, GroupInfo, Management, PreparedTransaction, QueueInfo

__all__ = ["ThreadedManagement"]

T = TypeVar("T")


class _Run(Protocol):
    def __call__(self, function: Callable[[], Awaitable[T]], /) -> T: ...


class ThreadedManagementCalls:
    """Call any attribute and operation of a running broker by name, and block."""

    def __init__(self, management: Management, run: _Run) -> None:
        self._management = management
        self._run = run

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def get(self, resource: str, attribute: str) -> Any:
        """Return an attribute as a value of JSON.

        Args:
            resource: ``broker``, ``address.NAME`` or ``queue.NAME``.
            attribute: Name of the attribute, such as ``MessageCount``.
        """
        return self._run(lambda: self._management.get(resource, attribute))

    def invoke(self, resource: str, operation: str, *arguments: object) -> Any:
        """Run an operation, and return its result as a value of JSON.

        Args:
            resource: ``broker``, ``address.NAME`` or ``queue.NAME``.
            operation: Name of the operation, such as ``removeAllMessages``.
            arguments: Texts, numbers, booleans or None, in the order of the operation's parameters.
        """
        return self._run(lambda: self._management.invoke(resource, operation, *arguments))


class ThreadedSettingsCalls(ThreadedManagementCalls):
    """Do what `SettingsCalls` does, and block."""

    def address_settings(self, address: str) -> AddressSettings:
        """Return the merged settings of an address without defaults: None for each value that no match sets.

        Args:
            address: Name of the address.
        """
        return self._run(lambda: self._management.address_settings(address))

    def add_address_settings(self, match: str, settings: AddressSettings) -> None:
        """Replace the settings of a match. They take effect at once, and survive a restart.

        Args:
            match: Name of an address, or a text with wildcards such as ``orders.#``.
            settings: All settings of the match: a value that is None comes from wider matches.

        Raises:
            TypeError: ``settings`` is no `AddressSettings`.
        """
        self._run(lambda: self._management.add_address_settings(match, settings))

    def remove_address_settings(self, match: str) -> None:
        """Remove the settings of a match. Those of the configuration are back after a restart.

        Args:
            match: Name of an address, or a text with wildcards such as ``orders.#``.
        """
        self._run(lambda: self._management.remove_address_settings(match))

    def security_settings(self, address: str) -> SecuritySetting:
        """Return the permissions on an address, those of its most specific match; without a match they are empty.

        Args:
            address: Name of the address.
        """
        return self._run(lambda: self._management.security_settings(address))

    def add_security_settings(self, match: str, setting: SecuritySetting) -> None:
        """Replace the permissions of a match. They count at once, also in open sessions, and survive a restart.

        Args:
            match: Name of an address, or a text with wildcards such as ``orders.#``.
            setting: All permissions of the match: what it does not grant is refused.

        Raises:
            ValueError: A role contains a blank or a comma, which separate roles in this operation.
        """
        self._run(lambda: self._management.add_security_settings(match, setting))

    def remove_security_settings(self, match: str) -> None:
        """Remove the permissions of a match. Those of the configuration are back after a restart.

        Args:
            match: Name of an address, or a text with wildcards such as ``orders.#``.
        """
        self._run(lambda: self._management.remove_security_settings(match))

    def reload_configuration(self, config: BrokerConfig) -> None:
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
        self._run(lambda: self._management.reload_configuration(config))


class ThreadedServiceCalls(ThreadedSettingsCalls):
    """Do what `ServiceCalls` does, and block."""

    def users(self) -> dict[str, list[str]]:
        """Return the roles of each user."""
        return self._run(lambda: self._management.users())

    def add_user(self, name: str, password: str, roles: Sequence[str], *, plaintext: bool = False) -> None:
        """Add a user, which may log in at once.

        A broker that was loaded with a ``login.config`` writes the user to its files. Otherwise the user exists until
        the broker stops.

        Args:
            name: Name of the user.
            password: Password of the user.
            roles: Names of roles, at least one.
            plaintext: Whether the password is stored in plain text, and not as a hash.
        """
        self._run(lambda: self._management.add_user(name, password, roles, plaintext=plaintext))

    def reset_user(
        self, name: str, *, password: str | None = None, roles: Sequence[str] | None = None, plaintext: bool = False
    ) -> None:
        """Give a user another password, other roles, or both. Its sessions keep what they have.

        Args:
            name: Name of the user.
            password: New password; None keeps the present one.
            roles: All roles from now on; None keeps the present ones.
            plaintext: Whether the password is stored in plain text, and not as a hash.
        """
        self._run(lambda: self._management.reset_user(name, password=password, roles=roles, plaintext=plaintext))

    def remove_user(self, name: str) -> None:
        """Remove a user. Its sessions go on.

        Args:
            name: Name of the user.
        """
        self._run(lambda: self._management.remove_user(name))

    def acceptor_names(self) -> list[str]:
        """Return the names of the places where the broker listens; there is one."""
        return self._run(lambda: self._management.acceptor_names())

    def is_acceptor_started(self, name: str) -> bool:
        """Return True if an acceptor accepts connections.

        Args:
            name: Name of the acceptor, one of `acceptor_names`.
        """
        return self._run(lambda: self._management.is_acceptor_started(name))

    def start_acceptor(self, name: str) -> None:
        """Accept connections again, on the same port. One that is started stays so.

        Args:
            name: Name of the acceptor, one of `acceptor_names`.
        """
        self._run(lambda: self._management.start_acceptor(name))

    def stop_acceptor(self, name: str) -> None:
        """Accept no more connections, and close those that came over the acceptor, without a notice to clients.

        Connections of this process over ``vm_url`` go on.

        Args:
            name: Name of the acceptor, one of `acceptor_names`.
        """
        self._run(lambda: self._management.stop_acceptor(name))

    def reload_acceptor(self, name: str) -> None:
        """Read the files of TLS again, for connections from now on. If they cannot be used, nothing changes.

        Args:
            name: Name of the acceptor, one of `acceptor_names`.
        """
        self._run(lambda: self._management.reload_acceptor(name))

    def enable_message_counters(self, *, period_ms: int | None = None) -> None:
        """Sample the message counters of all queues until a restart.

        Args:
            period_ms: Milliseconds from one sample to the next; None keeps the present period.
        """
        self._run(lambda: self._management.enable_message_counters(period_ms=period_ms))

    def disable_message_counters(self) -> None:
        """Sample no more, and forget the counts and their histories."""
        self._run(lambda: self._management.disable_message_counters())

    def message_counter(self, queue: str) -> dict[str, Any]:
        """Return the message counter of a queue as of its last sample; the guide lists the names.

        Args:
            queue: Name of the queue.
        """
        return self._run(lambda: self._management.message_counter(queue))

    def message_counter_history(self, queue: str) -> list[dict[str, Any]]:
        """Return the days of a queue's history, each with the messages that were added by the hour.

        Args:
            queue: Name of the queue.
        """
        return self._run(lambda: self._management.message_counter_history(queue))


class ThreadedDeliveryCalls(ThreadedServiceCalls):
    """Do what `DeliveryCalls` does, and block."""

    def groups(self, queue: str) -> list[GroupInfo]:
        """Return the message groups of a queue, or their buckets, that have a consumer.

        Args:
            queue: Name of the queue.
        """
        return self._run(lambda: self._management.groups(queue))

    def reset_groups(self, queue: str, *, group: str | None = None) -> None:
        """Let the next message of a group choose a consumer. Messages in delivery stay with the consumer before.

        Args:
            queue: Name of the queue.
            group: Id of the group, or of a bucket; None resets all groups. An unknown one has no effect.
        """
        self._run(lambda: self._management.reset_groups(queue, group=group))

    def pause_queue(self, name: str, *, persist: bool = False) -> None:
        """Deliver nothing from a queue until it is resumed.

        Args:
            name: Name of the queue.
            persist: Whether it stays paused after a restart.
        """
        self._run(lambda: self._management.pause_queue(name, persist=persist))

    def resume_queue(self, name: str) -> None:
        """Deliver from a queue again. It stays paused while its address is paused.

        Args:
            name: Name of the queue.
        """
        self._run(lambda: self._management.resume_queue(name))

    def disable_queue(self, name: str) -> None:
        """Let a queue take no messages until it is enabled, also after a restart. What it has is delivered.

        Args:
            name: Name of the queue.
        """
        self._run(lambda: self._management.disable_queue(name))

    def enable_queue(self, name: str) -> None:
        """Let a disabled queue take messages again.

        Args:
            name: Name of the queue.
        """
        self._run(lambda: self._management.enable_queue(name))


class ThreadedTransactionCalls(ThreadedDeliveryCalls):
    """Do what `TransactionCalls` does, and block."""

    def prepared_transactions(self) -> list[PreparedTransaction]:
        """Return the prepared XA branches, oldest first, with what they sent and received."""
        return self._run(lambda: self._management.prepared_transactions())

    def commit_prepared_transaction(self, id: str) -> bool:
        """Commit a prepared branch in place of its transaction manager; return False if there is no such branch.

        The manager receives the result "heuristically committed", until it forgets the branch.

        Args:
            id: Id of the branch, as `prepared_transactions` returns it.
        """
        return self._run(lambda: self._management.commit_prepared_transaction(id))

    def rollback_prepared_transaction(self, id: str) -> bool:
        """Roll a prepared branch back in place of its transaction manager; see `commit_prepared_transaction`.

        Args:
            id: Id of the branch, as `prepared_transactions` returns it.
        """
        return self._run(lambda: self._management.rollback_prepared_transaction(id))

    def heuristic_transactions(self) -> dict[str, bool]:
        """Return the ids of branches that were decided here and not forgotten yet, with True for committed ones."""
        return self._run(lambda: self._management.heuristic_transactions())


class ThreadedBridgeCalls(ThreadedTransactionCalls):
    """Do what `BridgeCalls` does, and block."""

    def bridge_names(self) -> list[str]:
        """Return the names of all bridges that run."""
        return self._run(lambda: self._management.bridge_names())

    def create_bridge(self, bridge: BridgeConfig) -> None:
        """Create a bridge, and start it. It survives a restart.

        Args:
            bridge: The bridge; one with a transformer is refused, because it cannot be recorded.

        Raises:
            ValueError: It has a transformer.
            JMSException: Its name is in use, or its queue or a connector does not exist.
        """
        self._run(lambda: self._management.create_bridge(bridge))

    def delete_bridge(self, name: str) -> None:
        """End a bridge; what is not confirmed returns to its queue. One of the configuration is back after a restart.

        Args:
            name: Name of the bridge.
        """
        self._run(lambda: self._management.delete_bridge(name))

    def add_connector(self, name: str, url: str) -> None:
        """Add a connector, or replace one, for bridges that are created later. It survives a restart.

        Args:
            name: Name of the connector.
            url: Place of the other broker, such as ``tcp://host:61616``.

        Raises:
            JMSException: The URL is not that of a connector.
        """
        self._run(lambda: self._management.add_connector(name, url))

    def remove_connector(self, name: str) -> None:
        """Forget a connector. Bridges that use it go on until a restart.

        Args:
            name: Name of the connector.
        """
        self._run(lambda: self._management.remove_connector(name))


class ThreadedManagement(ThreadedBridgeCalls):
    """Do what `Management` does, and block. Made by `ThreadedBroker.management`.

    Methods, arguments and errors are the same.
    """

    def queue_names(self) -> list[str]:
        """Return the names of all queues, in order."""
        return self._run(lambda: self._management.queue_names())

    def queues(self) -> list[QueueInfo]:
        """Return the figures of all queues, in order of their names."""
        return self._run(lambda: self._management.queues())

    def message_count(self, queue: str) -> int:
        """Return the number of messages that wait in a queue or are in delivery.

        Args:
            queue: Name of the queue.
        """
        return self._run(lambda: self._management.message_count(queue))

    def create_queue(
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
        self._run(
            lambda: self._management.create_queue(
                name,
                address=address,
                routing_type=routing_type,
                filter=filter,
                durable=durable,
                max_consumers=max_consumers,
            )
        )

    def delete_queue(self, name: str, *, closes_consumers: bool = False) -> None:
        """Delete a queue with its messages.

        Args:
            name: Name of the queue.
            closes_consumers: Whether its consumers are closed; otherwise a queue with consumers is refused.
        """
        self._run(lambda: self._management.delete_queue(name, closes_consumers=closes_consumers))

    def purge_queue(self, name: str) -> int:
        """Remove the messages that wait in a queue, and return how many there were. Those in delivery stay.

        Args:
            name: Name of the queue.
        """
        return self._run(lambda: self._management.purge_queue(name))

    def update_queue(
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
        self._run(
            lambda: self._management.update_queue(
                name,
                filter=filter,
                routing_type=routing_type,
                max_consumers=max_consumers,
                exclusive=exclusive,
                purge_on_no_consumers=purge_on_no_consumers,
            )
        )

    def browse(
        self, queue: str, *, filter: str | None = None, page: int = 1, page_size: int = 100, scheduled: bool = False
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
        return self._run(
            lambda: self._management.browse(queue, filter=filter, page=page, page_size=page_size, scheduled=scheduled)
        )

    def send_message(
        self, queue: str, text: str, *, properties: Mapping[str, object] | None = None, durable: bool = True
    ) -> int:
        """Send a text message to one queue, whose filter applies; return the message's id in the broker.

        Args:
            queue: Name of the queue.
            text: Body of the message.
            properties: Properties; their values become texts.
            durable: Whether the message survives a restart.
        """
        return self._run(lambda: self._management.send_message(queue, text, properties=properties, durable=durable))

    def move_messages(
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
        return self._run(
            lambda: self._management.move_messages(
                queue, target, filter=filter, limit=limit, reject_duplicates=reject_duplicates
            )
        )

    def copy_message(self, queue: str, message_id: int, target: str) -> bool:
        """Copy a message that waits in a queue to another one; return False if no such message waits.

        Args:
            queue: Name of the queue.
            message_id: Id of the message in the broker.
            target: Name of the other queue.
        """
        return self._run(lambda: self._management.copy_message(queue, message_id, target))

    def remove_messages(self, queue: str, *, filter: str | None = None) -> int:
        """Remove messages that wait in a queue and match a selector, and return how many there were.

        Args:
            queue: Name of the queue.
            filter: Selector for the messages; None selects all.
        """
        return self._run(lambda: self._management.remove_messages(queue, filter=filter))

    def expire_messages(self, queue: str, *, filter: str | None = None) -> int:
        """Expire messages that wait in a queue and match a selector, and return how many there were.

        Args:
            queue: Name of the queue.
            filter: Selector for the messages; None selects all.
        """
        return self._run(lambda: self._management.expire_messages(queue, filter=filter))

    def reject_messages(self, queue: str, *, filter: str | None = None) -> int:
        """Make dead letters of messages that wait in a queue and match a selector; return how many there were.

        Args:
            queue: Name of the queue.
            filter: Selector for the messages; None selects all.
        """
        return self._run(lambda: self._management.reject_messages(queue, filter=filter))

    def retry_messages(self, queue: str) -> int:
        """Move messages, such as dead letters, back to the queues that they left, and return how many there were.

        Args:
            queue: Name of the queue.
        """
        return self._run(lambda: self._management.retry_messages(queue))

    def deliver_scheduled_messages(self, queue: str, *, filter: str | None = None) -> None:
        """Deliver scheduled messages that match a selector now. Those that still wait are scheduled after a restart.

        Args:
            queue: Name of the queue.
            filter: Selector for the messages; None selects all.
        """
        self._run(lambda: self._management.deliver_scheduled_messages(queue, filter=filter))

    def change_priority(self, queue: str, priority: int, *, filter: str | None = None) -> int:
        """Give messages that wait in a queue another priority and new ids; return how many there were.

        Args:
            queue: Name of the queue.
            priority: New priority, 0 to 9.
            filter: Selector for the messages; None selects all.
        """
        return self._run(lambda: self._management.change_priority(queue, priority, filter=filter))

    def close_connections(self, *, address: str | None = None, user: str | None = None) -> bool:
        """Close the connections of a host or of a user; return False if there were none.

        Args:
            address: Beginning of the client's address, such as ``10.0.0.7``.
            user: Name of a user.

        Raises:
            ValueError: Neither or both of them are given.
        """
        return self._run(lambda: self._management.close_connections(address=address, user=user))

    def addresses(self) -> list[AddressInfo]:
        """Return the figures of all addresses, in order of their creation."""
        return self._run(lambda: self._management.addresses())

    def create_address(self, name: str, *routing_types: str) -> None:
        """Create an address.

        Args:
            name: Name of the address.
            routing_types: ``ANYCAST``, ``MULTICAST`` or both.
        """
        self._run(lambda: self._management.create_address(name, *routing_types))

    def delete_address(self, name: str, *, deletes_queues: bool = False) -> None:
        """Delete an address.

        Args:
            name: Name of the address.
            deletes_queues: Whether its queues are deleted too; otherwise an address with queues is refused.
        """
        self._run(lambda: self._management.delete_address(name, deletes_queues=deletes_queues))

    def pause_address(self, name: str, *, persist: bool = False) -> None:
        """Pause the queues of an address, and those it gets later.

        Args:
            name: Name of the address.
            persist: Whether they stay paused after a restart.
        """
        self._run(lambda: self._management.pause_address(name, persist=persist))

    def resume_address(self, name: str) -> None:
        """Resume all queues of an address, also those that were paused by themselves.

        Args:
            name: Name of the address.
        """
        self._run(lambda: self._management.resume_address(name))

    def divert_names(self) -> list[str]:
        """Return the names of all diverts, in order of their creation."""
        return self._run(lambda: self._management.divert_names())

    def create_divert(
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
        self._run(
            lambda: self._management.create_divert(
                name, address, forwarding_address, exclusive=exclusive, filter=filter, routing_type=routing_type
            )
        )

    def delete_divert(self, name: str) -> None:
        """Remove a divert.

        Args:
            name: Name of the divert.
        """
        self._run(lambda: self._management.delete_divert(name))

    def reload_diverts(self, diverts: Mapping[str, DivertConfiguration]) -> None:
        """Adopt the diverts of a configuration that has changed: `load_config(file).diverts`.

        As in Artemis: a new address, routing name or ``exclusive`` replaces a divert, other values change in place. A
        divert without properties or without a transformer keeps those that it has. One that is missing stays, unless
        `config_delete_diverts` is set for its address.

        Args:
            diverts: All diverts by name.

        Raises:
            JMSException: Some are refused; the text names them. The others hold.
        """
        self._run(lambda: self._management.reload_diverts(diverts))
