"""Messages with a body that is one value: TextMessage and ObjectMessage; and the common part of all bodies.

Responsible for the write protection of received bodies. Does not depend on wire formats, and never opens serialised
objects.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import MessageFormatException, MessageNotReadableException, MessageNotWriteableException
from ._destination import Destination
from ._jms_message import BodyValue, JMSMessage
from ._properties import PropertyValue

__all__ = ["BodiedMessage", "ObjectMessage", "TextMessage"]


class BodiedMessage(JMSMessage):
    """A message with a body, which is being either written or read.

    Args:
        properties: names and values of properties; None has none.
        correlation_id: the JMSCorrelationID as text or bytes; None has none.
        reply_to: the JMSReplyTo; None has none.
        type: the JMSType; None has none.
    """

    __slots__ = ("body_is_read_only",)

    body_is_read_only: bool

    def __init__(
        self,
        *,
        properties: Mapping[str, PropertyValue] | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,
    ) -> None:
        super().__init__(properties=properties, correlation_id=correlation_id, reply_to=reply_to, type=type)
        self.body_is_read_only = False

    def _begin_reading(self) -> None:
        self.body_is_read_only = True

    def clear_body(self) -> None:
        """Remove the body and make it writable. Headers and properties stay."""
        super().clear_body()
        self.body_is_read_only = False

    def _received_body(self) -> BodyValue:
        """Decode the body of a received message, once. The caller must ensure that there is a source."""
        source = self._body_source
        assert source is not None
        body = source.body()
        self._body_source = None
        return body

    def _check_writeable(self) -> None:
        if self.body_is_read_only:
            raise MessageNotWriteableException("the body is read-only; call clear_body() first")

    def _check_readable(self) -> None:
        if not self.body_is_read_only:
            raise MessageNotReadableException("the body is being written; call reset() first")


class TextMessage(BodiedMessage):
    """A message whose body is a text, or None.

    Args:
        text: the text, or None.
        properties: names and values of properties; None has none.
        correlation_id: the JMSCorrelationID as text or bytes; None has none.
        reply_to: the JMSReplyTo; None has none.
        type: the JMSType; None has none.

    Raises:
        MessageFormatException: ``text`` or the value of a property has another type, or the name of a property is not
            allowed.
    """

    __slots__ = ("_text",)

    _text: str | None

    def __init__(
        self,
        text: str | None = None,
        *,
        properties: Mapping[str, PropertyValue] | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,
    ) -> None:
        super().__init__(properties=properties, correlation_id=correlation_id, reply_to=reply_to, type=type)
        self.text = text

    @property
    def text(self) -> str | None:
        """Return the text."""
        if self._body_source is not None:
            body = self._received_body()
            assert body is None or isinstance(body, str)
            self._text = body
        return self._text

    @text.setter
    def text(self, value: str | None) -> None:
        self._check_writeable()
        if value is not None and not isinstance(value, str):
            raise MessageFormatException(f"a text cannot be {value.__class__.__name__}")
        self._text = value

    @property
    def body(self) -> str | None:
        """Return the text."""
        return self.text

    @body.setter
    def body(self, value: str | None) -> None:
        self.text = value

    def clear_body(self) -> None:
        """Remove the text and make it writable."""
        super().clear_body()
        self._text = None


class ObjectMessage(BodiedMessage):
    """A message whose body is an object that some program serialised; here it is those bytes, or None.

    They are passed through in both directions and never opened. Reading them with ``pickle``, or with any reader of
    Java objects, would let the sender of any message run code in this process. Programs that trust their senders can
    decode ``data`` explicitly.

    Args:
        data: the serialised object, or None; it is copied.
        properties: names and values of properties; None has none.
        correlation_id: the JMSCorrelationID as text or bytes; None has none.
        reply_to: the JMSReplyTo; None has none.
        type: the JMSType; None has none.

    Raises:
        MessageFormatException: ``data`` is no bytes, the value of a property has another type, or its name is not
            allowed.
    """

    __slots__ = ("_data",)

    _data: bytes | None

    def __init__(
        self,
        data: bytes | None = None,
        *,
        properties: Mapping[str, PropertyValue] | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,
    ) -> None:
        super().__init__(properties=properties, correlation_id=correlation_id, reply_to=reply_to, type=type)
        self.data = data

    @property
    def data(self) -> bytes | None:
        """Return the serialised object."""
        if self._body_source is not None:
            body = self._received_body()
            assert body is None or isinstance(body, bytes)
            self._data = body
        return self._data

    @data.setter
    def data(self, value: bytes | None) -> None:
        self._check_writeable()
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise MessageFormatException(f"an object message holds bytes, not {value.__class__.__name__}")
        self._data = None if value is None else bytes(value)

    @property
    def body(self) -> bytes | None:
        """Return the serialised object."""
        return self.data

    @body.setter
    def body(self, value: bytes | None) -> None:
        self.data = value

    def clear_body(self) -> None:
        """Remove the object and make the body writable."""
        super().clear_body()
        self._data = None
