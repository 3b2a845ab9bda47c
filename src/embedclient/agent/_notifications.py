"""What listeners of a connection are told: the closed union of notifications."""

from attrs import frozen

from embedclient.errors import JMSException


@frozen
class FailureDetected:
    """The connection is lost; reconnecting begins if the settings allow it."""

    error: JMSException


@frozen
class FailoverCompleted:
    """All sessions work again; `reattached` when every one went on where it was, without being rebuilt."""

    reattached: bool


@frozen
class FailoverFailed:
    """Every attempt to reconnect failed; sessions, producers and consumers are closed."""

    error: JMSException


@frozen
class ConnectionFailed:
    """The last word on a lost connection, for failure listeners: what happened, and whether the sessions live on."""

    error: JMSException
    failed_over: bool
    scale_down_target: str | None


@frozen
class SendRefused:
    """The broker refused a send that nobody waits for."""

    error: JMSException


Notification = FailureDetected | FailoverCompleted | FailoverFailed | ConnectionFailed | SendRefused
