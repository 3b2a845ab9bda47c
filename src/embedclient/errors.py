"""The exceptions visible to a user of the client or of an embedded broker, and the internal protocol errors.

Responsible for one tree under ``JMSException``: JMS names, Artemis' numeric codes, and the fitting builtin as a second
parent so that ``except TimeoutError`` and ``except ConnectionError`` work as a Python programmer expects. Does not
depend on the raising component: codecs and engines raise ``ProtocolError``, edges map everything else to this tree.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

__all__ = [
    "AddressFullException",
    "BodyTooLargeException",
    "BrokerFailed",
    "ConnectionClosedException",
    "ConnectionFailedException",
    "ConnectionLostException",
    "ConnectionTimedOutException",
    "DuplicateIDException",
    "ErrorCode",
    "IllegalStateException",
    "InvalidClientIDException",
    "InvalidDestinationException",
    "InvalidSelectorException",
    "InvalidTypeException",
    "InvalidURLException",
    "InvalidValueException",
    "JMSException",
    "JMSSecurityException",
    "LocalProtocolError",
    "MessageEOFException",
    "MessageFormatException",
    "MessageNotReadableException",
    "MessageNotWriteableException",
    "NamingException",
    "ProtocolError",
    "RemoteProtocolError",
    "ResourceAllocationException",
    "TransactionInProgressException",
    "TransactionOutcomeUnknownException",
    "TransactionRolledBackException",
    "UnblockedException",
    "XAException",
    "exception_for",
]


class ErrorCode(IntEnum):
    """The numbers that travel in an EXCEPTION packet, with their Artemis names."""

    INTERNAL_ERROR = 0
    UNSUPPORTED_PACKET = 1
    NOT_CONNECTED = 2
    CONNECTION_TIMEDOUT = 3
    DISCONNECTED = 4
    UNBLOCKED = 5
    IO_ERROR = 6
    QUEUE_DOES_NOT_EXIST = 100
    QUEUE_EXISTS = 101
    OBJECT_CLOSED = 102
    INVALID_FILTER_EXPRESSION = 103
    ILLEGAL_STATE = 104
    SECURITY_EXCEPTION = 105
    ADDRESS_DOES_NOT_EXIST = 106
    ADDRESS_EXISTS = 107
    INCOMPATIBLE_CLIENT_SERVER_VERSIONS = 108
    LARGE_MESSAGE_ERROR_BODY = 110
    TRANSACTION_ROLLED_BACK = 111
    SESSION_CREATION_REJECTED = 112
    DUPLICATE_ID_REJECTED = 113
    DUPLICATE_METADATA = 114
    TRANSACTION_OUTCOME_UNKNOWN = 115
    ALREADY_REPLICATING = 116
    INTERCEPTOR_REJECTED_PACKET = 117
    INVALID_TRANSIENT_QUEUE_USE = 118
    REMOTE_DISCONNECT = 119
    TRANSACTION_TIMEOUT = 120
    NATIVE_ERROR_INTERNAL = 200
    NATIVE_ERROR_INVALID_BUFFER = 201
    NATIVE_ERROR_NOT_ALIGNED = 202
    NATIVE_ERROR_CANT_INITIALIZE_AIO = 203
    NATIVE_ERROR_CANT_RELEASE_AIO = 204
    NATIVE_ERROR_CANT_OPEN_CLOSE_FILE = 205
    NATIVE_ERROR_CANT_ALLOCATE_QUEUE = 206
    NATIVE_ERROR_PREALLOCATE_FILE = 208
    NATIVE_ERROR_ALLOCATE_MEMORY = 209
    ADDRESS_FULL = 210
    LARGE_MESSAGE_INTERRUPTED = 211
    CLUSTER_SECURITY_EXCEPTION = 212
    NOT_IMPLEMTNED_EXCEPTION = 213
    MAX_CONSUMER_LIMIT_EXCEEDED = 214
    UNEXPECTED_ROUTING_TYPE_FOR_ADDRESS = 215
    INVALID_QUEUE_CONFIGURATION = 216
    DELETE_ADDRESS_ERROR = 217
    NULL_REF = 218
    SHUTDOWN_ERROR = 219
    REPLICATION_TIMEOUT_ERROR = 220
    DIVERT_DOES_NOT_EXIST = 221
    ROUTING_EXCEPTION = 222
    TIMEOUT_EXCEPTION = 223
    GENERIC_EXCEPTION = 999


class JMSException(Exception):
    """Root of all exceptions that the client and the broker raise to their user.

    ``error_code`` is the Artemis number (compare it with ``ErrorCode``), ``linked_exception`` the lower-level cause if
    there is one.

    Args:
        message: the text of the error.
        code: the Artemis number; None is that of the class.
        linked_exception: the lower-level cause; None without one.
    """

    DEFAULT_CODE: ClassVar[int] = ErrorCode.GENERIC_EXCEPTION

    error_code: int
    linked_exception: BaseException | None

    def __init__(self, message: str, *, code: int | None = None, linked_exception: BaseException | None = None) -> None:
        super().__init__(message)
        self.error_code = self.DEFAULT_CODE if code is None else code
        self.linked_exception = linked_exception


class IllegalStateException(JMSException):
    """The call does not fit the state of the object it was made on."""

    DEFAULT_CODE = ErrorCode.ILLEGAL_STATE


class InvalidClientIDException(JMSException, ValueError):
    """The client id is malformed or already in use."""

    DEFAULT_CODE = ErrorCode.DUPLICATE_METADATA


class InvalidDestinationException(JMSException, ValueError):
    """The destination does not exist, exists already, or cannot be used for this call."""

    DEFAULT_CODE = ErrorCode.QUEUE_DOES_NOT_EXIST


class InvalidSelectorException(JMSException, ValueError):
    """The selector is not valid selector syntax."""

    DEFAULT_CODE = ErrorCode.INVALID_FILTER_EXPRESSION


class InvalidValueException(JMSException, ValueError):
    """An argument of a send, such as the priority, is out of range; the text has the range."""


class InvalidTypeException(JMSException, TypeError):
    """An argument of a send, such as the priority, has another type."""


class InvalidURLException(JMSException, ValueError):
    """The broker URL cannot be read; the text names the part and the reason."""

    DEFAULT_CODE = ErrorCode.ILLEGAL_STATE


class NamingException(JMSException, LookupError):
    """The name that was looked up is not bound, or its definition cannot be read."""


class JMSSecurityException(JMSException, PermissionError):
    """Wrong credentials, or a permission is missing."""

    DEFAULT_CODE = ErrorCode.SECURITY_EXCEPTION


class MessageEOFException(JMSException, EOFError):
    """A bytes or stream message has no more data."""


class MessageFormatException(JMSException, ValueError):
    """A message value cannot be converted to the requested type."""


class BodyTooLargeException(MessageFormatException):
    """The body of a large message is above the limit of what is loaded into memory; it can be read in pieces."""


class MessageNotReadableException(JMSException):
    """The body is being written and cannot be read."""


class MessageNotWriteableException(JMSException):
    """The body or the properties were received and are read-only."""


class ResourceAllocationException(JMSException):
    """The broker cannot provide the requested resource."""


class AddressFullException(ResourceAllocationException):
    """The address has reached its limit, and its policy is to reject messages."""

    DEFAULT_CODE = ErrorCode.ADDRESS_FULL


class DuplicateIDException(JMSException, ValueError):
    """A message with this duplicate detection id was accepted before."""

    DEFAULT_CODE = ErrorCode.DUPLICATE_ID_REJECTED


class TransactionInProgressException(JMSException):
    """The call is not allowed while a transaction is open."""


class TransactionRolledBackException(JMSException):
    """The transaction was rolled back instead of committed."""

    DEFAULT_CODE = ErrorCode.TRANSACTION_ROLLED_BACK


class TransactionOutcomeUnknownException(TransactionRolledBackException):
    """The connection failed during commit: the transaction is either committed or rolled back."""

    DEFAULT_CODE = ErrorCode.TRANSACTION_OUTCOME_UNKNOWN


class XAException(JMSException):
    """An XA request was not carried out; ``error_code`` is an ``XaCode``, not an ``ErrorCode``."""

    DEFAULT_CODE = -3  # XAER_RMERR


class ConnectionClosedException(IllegalStateException):
    """The connection, session, producer or consumer was closed by this program."""

    DEFAULT_CODE = ErrorCode.OBJECT_CLOSED


class ConnectionLostException(JMSException, ConnectionError):
    """The connection could not be made, or was ended from outside this program."""

    DEFAULT_CODE = ErrorCode.NOT_CONNECTED


class ConnectionFailedException(ConnectionLostException):
    """The exception that an exception listener receives for a lost connection.

    ``failed_over`` is True if the sessions continue, here or on another broker. ``linked_exception`` is the cause of
    the loss, and ``error_code`` its number. ``jms_error_code`` is what Artemis' JMS client has for an error code here.

    Args:
        message: the text of the error.
        code: the Artemis number; None is that of the class.
        linked_exception: the cause of the loss; None without one.
        failed_over: the sessions continue, here or on another broker.
    """

    failed_over: bool

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        linked_exception: BaseException | None = None,
        failed_over: bool = False,
    ) -> None:
        super().__init__(message, code=code, linked_exception=linked_exception)
        self.failed_over = failed_over

    @property
    def jms_error_code(self) -> str:
        """Return ``"FAILOVER"`` or ``"DISCONNECT"``."""
        return "FAILOVER" if self.failed_over else "DISCONNECT"


class ConnectionTimedOutException(JMSException, TimeoutError):
    """The other side did not answer in time."""

    DEFAULT_CODE = ErrorCode.CONNECTION_TIMEDOUT


class UnblockedException(JMSException, ConnectionError):
    """A call in progress was released because its connection failed over; whether it took effect is unknown."""

    DEFAULT_CODE = ErrorCode.UNBLOCKED


class BrokerFailed(JMSException):
    """An embedded broker cannot start or continue; the text names its journal, its disk, or an internal error."""

    DEFAULT_CODE = ErrorCode.INTERNAL_ERROR


class ProtocolError(Exception):
    """Internal: the rules of a wire protocol were broken. Edges map it; users must never see it."""


class LocalProtocolError(ProtocolError):
    """Internal: this side tried to break the rules."""


class RemoteProtocolError(ProtocolError):
    """Internal: the peer's bytes or packets break the rules; its connection must end."""


# The classes that exception_for() builds. Codes that are missing here become a plain JMSException that carries the
# code.
_BY_CODE: dict[ErrorCode, type[JMSException]] = {
    ErrorCode.UNSUPPORTED_PACKET: IllegalStateException,
    ErrorCode.NOT_CONNECTED: ConnectionLostException,
    ErrorCode.CONNECTION_TIMEDOUT: ConnectionTimedOutException,
    ErrorCode.DISCONNECTED: ConnectionLostException,
    ErrorCode.UNBLOCKED: UnblockedException,
    ErrorCode.QUEUE_DOES_NOT_EXIST: InvalidDestinationException,
    ErrorCode.QUEUE_EXISTS: InvalidDestinationException,
    ErrorCode.ADDRESS_DOES_NOT_EXIST: InvalidDestinationException,
    ErrorCode.OBJECT_CLOSED: IllegalStateException,
    ErrorCode.INVALID_FILTER_EXPRESSION: InvalidSelectorException,
    ErrorCode.ILLEGAL_STATE: IllegalStateException,
    ErrorCode.SECURITY_EXCEPTION: JMSSecurityException,
    ErrorCode.TRANSACTION_ROLLED_BACK: TransactionRolledBackException,
    ErrorCode.DUPLICATE_ID_REJECTED: DuplicateIDException,
    ErrorCode.DUPLICATE_METADATA: InvalidClientIDException,
    ErrorCode.TRANSACTION_OUTCOME_UNKNOWN: TransactionOutcomeUnknownException,
    ErrorCode.REMOTE_DISCONNECT: ConnectionLostException,
    ErrorCode.ADDRESS_FULL: AddressFullException,
}


def exception_for(code: int, message: str) -> JMSException:
    """Build the exception for an error that the broker reported. An unknown code becomes GENERIC_EXCEPTION.

    Args:
        code: the Artemis number, one of `ErrorCode`.
        message: the broker's text. An Artemis with an unexpected error inside sends none.
    """
    try:
        known = ErrorCode(code)
    except ValueError:
        known = ErrorCode.GENERIC_EXCEPTION
    return _BY_CODE.get(known, JMSException)(message or f"the broker gave no reason ({known.name})", code=known)
