"""Bugs of a broker with large messages, put in one at a time."""

from __future__ import annotations

import pytest

from embedbroker.kernel import LargeBodies, OnFinished
from embedbroker.kernel._memory import MemoryAccount
from embedbroker.protocols.core._large_delivery import LargeDelivery
from embedbroker.storage import BodyFiles

from .fault_points import fault_point, replace
from .hunting import Bug, every

__all__ = ["BODY_BUGS"]


def record_a_message_before_its_file_is_synced(patch: pytest.MonkeyPatch) -> None:
    finish = BodyFiles.finish

    def careless(self: BodyFiles, number: int, done: OnFinished, *, durable: bool) -> None:
        finish(self, number, done, durable=False)

    patch.setattr(BodyFiles, "finish", careless)


def forget_to_remove_a_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BodyFiles, "remove", lambda self, number, point: None)


def remove_a_file_with_the_first_queue(patch: pytest.MonkeyPatch) -> None:
    release = LargeBodies.release

    def careless(self: LargeBodies, number: int) -> None:
        release(self, number)
        self._store.bodies.remove(number, self._store.point())

    patch.setattr(LargeBodies, "release", careless)


def leave_a_file_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LargeBodies, "remove_unused", lambda self, found: 0)


def forget_the_body_of_a_copy(patch: pytest.MonkeyPatch) -> None:
    """A dead letter, or what expired, does not count as a use of its body."""
    hold_body, counts = MemoryAccount.hold_body, every(3)

    def careless(self: MemoryAccount, message_id: int, number: int, queues: int) -> None:
        if not counts():
            hold_body(self, message_id, number, queues)

    patch.setattr(MemoryAccount, "hold_body", careless)


def send_a_chunk_twice(patch: pytest.MonkeyPatch) -> None:
    send, twice = fault_point("send a chunk"), every(20)

    def stuttering(self: LargeDelivery) -> None:
        data, offset = self._data.copy(), self._offset
        send(self)
        if twice() and not self._is_over:
            self._data, self._offset = data, offset

    replace(patch, "send a chunk", stuttering)


BODY_BUGS: list[Bug] = [
    record_a_message_before_its_file_is_synced,
    forget_to_remove_a_file,
    remove_a_file_with_the_first_queue,
    leave_a_file_after_a_crash,
    forget_the_body_of_a_copy,
    send_a_chunk_twice,
]
