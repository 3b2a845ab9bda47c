"""The sink's requests to the broker's services: the number of the last committed batch, and commits of many branches.

Responsible for these requests, which may all be repeated. Does not depend on the transport of requests, or on branches'
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from embedclient.errors import IllegalStateException
from embedclient.model import Xid

from ._broker_connection import BrokerConnection
from ._options import ConnectionOptions
from ._services import ServiceRefused, Services

__all__ = ["BRANCHES_MAX", "Markers", "markers_of"]

BRANCHES_MAX = 10_000
"""The largest number of branches in one commit."""


class Markers:
    """The markers and commit sets of one broker."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def get(self, name: str) -> int | None:
        """Return the number of this name, or None if it does not exist."""
        value = self._services.call("marker.get", name=name)["value"]
        return value if isinstance(value, int) else None

    def create(self, name: str, value: int) -> None:
        """Create a number under a unique name."""
        try:
            self._services.call("marker.set", name=name, expected=None, value=value)
        except ServiceRefused as refused:
            # The answer was lost, and the request repeated.
            if refused.status != "moved":
                raise

    def remove(self, name: str) -> None:
        """Remove the number."""
        self._services.call("marker.remove", name=name)

    def commit(self, name: str, expected: int | None, value: int, branches: Sequence[Xid]) -> bool:
        """Commit the branches and set the number, all or nothing.

        Return False if the number is that high already; the branches are then rolled back. Raises ServiceRefused:
        `moved`, `no-such-branch`.
        """
        xids = [
            {
                "format": xid.format_id,
                "global": xid.global_transaction_id.hex(),
                "branch": xid.branch_qualifier.hex(),
            }
            for xid in branches
        ]
        answer = self._services.call("commit-set", marker=name, expected=expected, value=value, branches=xids)
        return answer["result"] == "committed"


@contextmanager
def markers_of(options: ConnectionOptions) -> Iterator[Markers]:
    """Yield the markers of a broker, over a separate connection.

    Raises:
        IllegalStateException: the broker cannot commit many branches at once.
        JMSException: the errors of a connection.
    """
    link = BrokerConnection(options)
    services = Services(link)
    try:
        if not services.can("commit-set"):
            raise IllegalStateException(
                "this broker has no commit of many branches, so a sink cannot be exactly-once: use the option "
                "guarantee=deduplication"
            )
        yield Markers(services)
    finally:
        services.close()
        link.close()
