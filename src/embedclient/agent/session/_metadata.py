"""Texts that a session carries on the broker, for whoever looks at it there.

Responsible for attaching them, and for attaching them again after a reconnect. Refuses to know what they mean.
"""

from embedclient.wire.core import NullResponse, SessionAddMetadataV2, SessionUniqueAddMetadata

from .._call import Call, DueCallbacks, Steps, run_sequence, wait
from ._channel import SessionChannel


class Metadata:
    """The metadata of one session."""

    __slots__ = ("_channel", "_due", "_texts")

    def __init__(self, channel: SessionChannel, due: DueCallbacks) -> None:
        self._channel = channel
        self._due = due
        self._texts: dict[str, str] = {}

    def add(self, key: str, value: str) -> Call[None]:
        """Attaches a text to the session, now and after every reconnect."""
        return self._attach(SessionAddMetadataV2(key, value, True))

    def add_unique(self, key: str, value: str) -> Call[None]:
        """The same, but fails with DUPLICATE_METADATA when another session has this text."""
        return self._attach(SessionUniqueAddMetadata(key, value, True))

    def _attach(self, packet: SessionAddMetadataV2 | SessionUniqueAddMetadata) -> Call[None]:
        def steps() -> Steps[None]:
            yield from wait(self._channel.request(packet, NullResponse))
            self._texts[packet.key] = packet.value

        return run_sequence(steps(), self._due)

    def resume(self) -> None:
        """The reconnect is complete: says everything again."""
        for key, value in self._texts.items():
            self._channel.post(SessionAddMetadataV2(key, value, False), counted=False)
