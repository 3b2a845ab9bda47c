"""The notifications for listeners of a connection, as a closed union."""

from attrs import frozen

from embedclient.errors import JMSException


@frozen
class FailureDetected:
    """The connection is lost; reconnecting begins if the settings allow it."""

    error: JMSException


@frozen
class FailoverCompleted:
    """All sessions work again. `reattached`: every session continued in place, without being rebuilt."""

    reattached: bool


@frozen
class FailoverFailed:
    """Every attempt to reconnect failed; sessions, producers and consumers are closed."""

    error: JMSException


@frozen
class ConnectionFailed:
    """The last notification of a lost connection, for failure listeners: its cause, and if the sessions continue."""

    error: JMSException
    failed_over: bool
    scale_down_target: str | None


@frozen
class SendRefused:
    """The broker rejected a send that has no waiting caller."""

    error: JMSException


Notification = FailureDetected | FailoverCompleted | FailoverFailed | ConnectionFailed | SendRefused
