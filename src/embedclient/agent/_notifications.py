"""The notifications for listeners of a connection, as a closed union."""

from attrs import frozen

from embedclient.errors import JMSException


@frozen
class FailureDetected:
    """The connection is lost; reconnecting begins if the settings allow it.

    Args:
        error: the cause.
    """

    error: JMSException


@frozen
class FailoverCompleted:
    """All sessions work again.

    Args:
        reattached: every session continued in place, without being rebuilt.
    """

    reattached: bool


@frozen
class FailoverFailed:
    """Every attempt to reconnect failed; sessions, producers and consumers are closed.

    Args:
        error: the error of the last attempt.
    """

    error: JMSException


@frozen
class ConnectionFailed:
    """The last notification of a lost connection, for failure listeners: its cause, and if the sessions continue.

    Args:
        error: the cause.
        failed_over: the sessions continue, here or on another broker.
        scale_down_target: id of the node that gets the messages of a broker that is removed; None without one.
    """

    error: JMSException
    failed_over: bool
    scale_down_target: str | None


@frozen
class SendRefused:
    """The broker rejected a send that has no waiting caller.

    Args:
        error: the broker's reason.
    """

    error: JMSException


Notification = FailureDetected | FailoverCompleted | FailoverFailed | ConnectionFailed | SendRefused
