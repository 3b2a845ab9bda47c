"""The queues that the options match.

Responsible for patterns, and for the error of a missing queue. Does not read queues.
"""

from __future__ import annotations

from embedclient.errors import InvalidDestinationException
from embedclient.model import describe_url

from ._broker_connection import BrokerConnection
from ._option_reader import OptionError
from ._options import SourceOptions
from ._services import SERVICES_ADDRESS, Services

__all__ = ["listed_queues", "matching_queues"]


def matching_queues(options: SourceOptions) -> list[str]:
    """Return the names of the queues, sorted; a pattern may match none.

    Raises:
        InvalidDestinationException: there is no queue of this name.
        OptionError: a pattern, and a broker that does not list its queues.
    """
    link = BrokerConnection.shared(options.connection)
    name = options.subscription if options.queue is None else options.queue
    assert name is not None
    if not options.has_pattern:
        with link.session() as session:
            if not session.query_queue(name).exists:
                place = describe_url(options.connection.url)
                raise InvalidDestinationException(f"there is no queue {name!r} at {place}")
        return [name]
    services = Services(link)
    try:
        return sorted(listed_queues(services, name))
    finally:
        services.close()


def listed_queues(services: Services, pattern: str) -> dict[str, int | None]:
    """Return each queue that matches a pattern, with the position of its last message.

    Raises:
        OptionError: the broker does not list its queues.
    """
    if not services.can("queue.list"):
        raise OptionError(f"option 'queue': this broker does not list its queues, so {pattern!r} can be no pattern")
    found = services.call("queue.list", pattern=pattern)["queues"]
    queues = found if isinstance(found, list) else []
    return {str(queue["name"]): queue["last"] for queue in queues if queue["name"] != SERVICES_ADDRESS}
