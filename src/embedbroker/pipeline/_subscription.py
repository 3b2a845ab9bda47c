"""The durable subscription through which a stream reads a topic, and its removal.

Responsible for its name, its creation and its end. Does not read it: to readers it is an ordinary queue.
"""

from __future__ import annotations

import logging

from embedclient.errors import InvalidDestinationException
from embedclient.model import RoutingType

from ._broker_connection import BrokerConnection
from ._options import ConnectionOptions, SourceOptions

__all__ = ["ensure_subscription", "remove_subscription", "subscription_name"]

_log = logging.getLogger("embedbroker.pipeline")


def subscription_name(options: SourceOptions, query: str) -> str | None:
    """Return the name of the subscription's queue: the option, or one for this query alone. None without a topic."""
    if options.topic is None:
        return None
    return options.subscription or f"{options.topic}.spark-{query}"


def ensure_subscription(options: SourceOptions, subscription: str | None) -> None:
    """Create the subscription unless it exists. The option `selector` is its filter: other messages are not kept."""
    if subscription is None or options.topic is None:
        return
    with BrokerConnection.shared(options.connection).session() as session:
        if session.query_queue(subscription).exists:
            return
        try:
            session.create_queue(options.topic, subscription, RoutingType.MULTICAST, filter=options.selector)
        except InvalidDestinationException:  # another process created it in the meantime
            return
    _log.warning(
        "subscription %r of topic %r was made; it keeps messages until it is removed", subscription, options.topic
    )


def remove_subscription(url: str, subscription: str, *, user: str | None = None, password: str | None = None) -> bool:
    """Remove the durable subscription of a query that will not run again, with its messages.

    Return False if it does not exist.

    Args:
        url: URL of the broker.
        subscription: name of the subscription's queue.
        user: user at the broker; None without a login.
        password: password at the broker; None without a login.

    Raises:
        IllegalStateException: it has consumers, or a query reads it at this moment.
        ConnectionLostException: no broker could be reached.
    """
    link = BrokerConnection(ConnectionOptions(url, user, password))
    try:
        with link.session() as session:
            if not session.query_queue(subscription).exists:
                return False
            session.delete_queue(subscription)
            return True
    finally:
        link.close()
