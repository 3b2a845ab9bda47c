"""Texts that a session carries on the broker, for operators and other clients.

Responsible for attaching them, and for attaching them again after a reconnect. Does not depend on their meaning.
"""

from __future__ import annotations

from embedclient.wire.core import NullResponse, SessionAddMetadataV2, SessionUniqueAddMetadata

from .._call import Call, DueCallbacks, Steps, run_sequence, wait
from ._channel import SessionChannel


class Metadata:
    """A session's metadata."""

    __slots__ = ("_channel", "_due", "_texts")

    def __init__(self, channel: SessionChannel, due: DueCallbacks) -> None:
        self._channel = channel
        self._due = due
        self._texts: dict[str, str] = {}

    def add(self, key: str, value: str) -> Call[None]:
        """Attach a text to the session, now and after every reconnect."""
        return self._attach(SessionAddMetadataV2(key, value, True))

    def add_unique(self, key: str, value: str) -> Call[None]:
        """Like `add`, but fail with DUPLICATE_METADATA if another session has this text."""
        return self._attach(SessionUniqueAddMetadata(key, value, True))

    def post(self, key: str, value: str) -> None:
        """Attach a text without an answer, now and after every reconnect."""
        self._texts[key] = value
        self._post(key, value)

    def _attach(self, packet: SessionAddMetadataV2 | SessionUniqueAddMetadata) -> Call[None]:
        def steps() -> Steps[None]:
            yield from wait(self._channel.request(packet, NullResponse))
            self._texts[packet.key] = packet.value

        return run_sequence(steps(), self._due)

    def resume(self) -> None:
        """Send all texts again: the reconnect is complete."""
        for key, value in self._texts.items():
            self._post(key, value)

    def _post(self, key: str, value: str) -> None:
        self._channel.post(SessionAddMetadataV2(key, value, False), counted=False)
