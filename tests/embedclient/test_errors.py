"""The error tree: codes, builtin parents, and what a reported code becomes."""

from __future__ import annotations

import pickle

import pytest

from embedclient import errors
from embedclient.errors import ErrorCode, JMSException, exception_for


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.UNSUPPORTED_PACKET, errors.IllegalStateException),
        (ErrorCode.QUEUE_DOES_NOT_EXIST, errors.InvalidDestinationException),
        (ErrorCode.QUEUE_EXISTS, errors.InvalidDestinationException),
        (ErrorCode.OBJECT_CLOSED, errors.IllegalStateException),
        (ErrorCode.INVALID_FILTER_EXPRESSION, errors.InvalidSelectorException),
        (ErrorCode.ILLEGAL_STATE, errors.IllegalStateException),
        (ErrorCode.SECURITY_EXCEPTION, errors.JMSSecurityException),
        (ErrorCode.TRANSACTION_ROLLED_BACK, errors.TransactionRolledBackException),
        (ErrorCode.TRANSACTION_OUTCOME_UNKNOWN, errors.TransactionOutcomeUnknownException),
        (ErrorCode.DUPLICATE_METADATA, errors.InvalidClientIDException),
        (ErrorCode.CONNECTION_TIMEDOUT, errors.ConnectionTimedOutException),
        (ErrorCode.UNBLOCKED, errors.UnblockedException),
        (ErrorCode.ADDRESS_FULL, errors.AddressFullException),
        (ErrorCode.DUPLICATE_ID_REJECTED, errors.DuplicateIDException),
        (ErrorCode.IO_ERROR, JMSException),
    ],
)
def test_reported_codes_become_the_fitting_exception(code: ErrorCode, expected: type[JMSException]) -> None:
    error = exception_for(code, "text")
    assert type(error) is expected
    assert (error.error_code, str(error)) == (code, "text")


def test_an_unknown_code_is_generic() -> None:
    assert exception_for(77777, "text").error_code == ErrorCode.GENERIC_EXCEPTION
    # Artemis sends no text with an unexpected error inside it.
    assert str(exception_for(ErrorCode.INTERNAL_ERROR, "")) == "the broker gave no reason (INTERNAL_ERROR)"


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.ConnectionTimedOutException, TimeoutError),
        (errors.ConnectionLostException, ConnectionError),
        (errors.ConnectionFailedException, ConnectionError),
        (errors.UnblockedException, ConnectionError),
        (errors.JMSSecurityException, PermissionError),
        (errors.InvalidSelectorException, ValueError),
        (errors.InvalidDestinationException, ValueError),
        (errors.MessageFormatException, ValueError),
        (errors.MessageEOFException, EOFError),
    ],
)
def test_errors_are_also_the_builtin_a_python_programmer_expects(
    kind: type[JMSException], builtin: type[Exception]
) -> None:
    cause = RuntimeError("cause")
    error = kind("text", linked_exception=cause)
    assert isinstance(error, builtin)
    assert error.linked_exception is cause
    assert error.error_code == kind.DEFAULT_CODE
    assert pickle.loads(pickle.dumps(error)).error_code == error.error_code


@pytest.mark.parametrize(("failed_over", "code"), [(True, "FAILOVER"), (False, "DISCONNECT")])
def test_a_failed_connection_has_the_error_codes_of_artemis(failed_over: bool, code: str) -> None:
    error = errors.ConnectionFailedException("text", failed_over=failed_over)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.failed_over, copy.jms_error_code) == (failed_over, code)


def test_protocol_errors_are_not_for_users() -> None:
    assert not issubclass(errors.ProtocolError, JMSException)


def test_everything_public_is_listed() -> None:
    public = {name for name, value in vars(errors).items() if isinstance(value, type) and not name.startswith("_")}
    assert public - {"IntEnum"} | {"exception_for"} == set(errors.__all__)
