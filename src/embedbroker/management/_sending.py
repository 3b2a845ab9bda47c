"""The operation ``sendMessage`` of addresses and queues.

Responsible for its arguments, and for the user that sends. Does not depend on the encoding of messages.
"""

from __future__ import annotations

from collections.abc import Mapping

from embedbroker.kernel import Session

from ._registry import Call, Kind, Letter, ManagementRefused, Operation, Parameter, done

__all__ = ["operations", "send"]

_VALIDATED_USER = "_AMQ_VALIDATED_USER"
_BYTE = range(-128, 128)
_PARAMETERS = (
    Parameter("headers", Kind.MAP),
    Parameter("type", Kind.INTEGER),
    Parameter("body", Kind.TEXT),
    Parameter("durable", Kind.BOOLEAN),
    Parameter("user", Kind.TEXT),
    Parameter("password", Kind.TEXT),
)


def send(
    call: Call,
    address: str,
    headers: Mapping[str, object] | None,
    type: int | None,
    body: str | None,
    durable: bool | None,
    user: str | None,
    password: str | None,
    has_user_id: bool | None,
) -> str:
    """Send a message, and return its id as a text.

    Without a user it is sent by the caller. With one, that user must have the password and the permission to send.
    """
    number = type or 0
    if number not in _BYTE:
        raise ManagementRefused(f"type {number} is no number of a message type: use 0, or 3 for a text")
    connection = call.session.connection
    session = call.session
    if user:
        peer = connection.peer if connection is not None else "management"
        principal = done(call.broker.log_in(user, password, peer))
        session = Session(
            call.kernel,
            "management",
            auto_commit_sends=True,
            auto_commit_acknowledges=True,
            pre_acknowledge=False,
            principal=principal,
        )
    letter = Letter(
        address, number, body, durable is not False, _with_user(call, headers or {}, session), bool(has_user_id)
    )
    try:
        message = call.broker.compose(letter)
        refused = session.send_at_once(message)
    except ValueError as error:
        raise ManagementRefused(str(error)) from None
    finally:
        if session is not call.session:
            session.close(failed=False)
    if refused is not None:
        raise ManagementRefused(refused.text)
    return str(message.message_id)


def _with_user(call: Call, headers: Mapping[str, object], session: Session) -> Mapping[str, object]:
    """Return the headers with the user that sends, where the configuration wants it."""
    config, user = call.kernel.config, session.validated_user
    if config.populate_validated_user and user is not None:
        return {**headers, _VALIDATED_USER: user}
    if config.reject_empty_validated_user and not headers.get(_VALIDATED_USER):
        raise ManagementRefused("AMQ229225: Validated User is not set")
    return headers


def operations(run: object, meaning: str) -> tuple[Operation, Operation]:
    """Return the two forms of the operation."""
    assert callable(run)
    longer = (*_PARAMETERS, Parameter("createMessageId", Kind.BOOLEAN))
    return (
        Operation("sendMessage", _PARAMETERS, "String", run, meaning, changes=True),
        Operation("sendMessage", longer, "String", run, "The same; it may get a JMS message id.", changes=True),
    )
