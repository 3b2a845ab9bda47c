"""Bugs of a broker with diverts and wildcard addresses, put in one at a time."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from embedbroker.kernel import Divert, Queue, Refused
from embedbroker.kernel._router import Router
from embedbroker.kernel.addressing._addresses import AddressManager
from embedbroker.kernel.addressing._bindings import OtherBindings
from embedbroker.kernel.addressing._divert_table import DivertTable
from embedbroker.kernel.message._message import Message
from embedbroker.kernel.transactions._placement import Placement

from .fault_points import fault_point, replace
from .hunting import Bug, every

__all__ = ["DIVERT_BUGS"]


def leave_an_exclusively_diverted_message_in_its_queue(patch: pytest.MonkeyPatch) -> None:
    diverts_for = OtherBindings.diverts_for

    def generous(self: OtherBindings, message: Message) -> tuple[list[Divert], bool]:
        return diverts_for(self, message)[0], False

    patch.setattr(OtherBindings, "diverts_for", generous)


def divert_a_message_twice(patch: pytest.MonkeyPatch) -> None:
    diverts_for, repeats = OtherBindings.diverts_for, every(10)

    def stuttering(self: OtherBindings, message: Message) -> tuple[list[Divert], bool]:
        diverts, is_exclusive = diverts_for(self, message)
        return diverts * 2 if repeats() else diverts, is_exclusive

    patch.setattr(OtherBindings, "diverts_for", stuttering)


def ignore_the_filter_of_an_exclusive_divert(patch: pytest.MonkeyPatch) -> None:
    diverts_for = OtherBindings.diverts_for

    def unselective(self: OtherBindings, message: Message) -> tuple[list[Divert], bool]:
        return (list(self.exclusive), True) if self.exclusive else diverts_for(self, message)

    patch.setattr(OtherBindings, "diverts_for", unselective)


def forget_the_properties_that_a_divert_adds(patch: pytest.MonkeyPatch) -> None:
    copy = Divert.copy

    def plain(self: Divert, message: Message, address: str, routing_type: int | None) -> tuple[Message, Any] | Refused:
        without = Divert(evolve(self.definition, properties={}), self.filter, self.transformer)
        return copy(without, message, address, routing_type)

    patch.setattr(Divert, "copy", plain)


def forget_diverts_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DivertTable, "restore", lambda self, definition: None)


def lose_a_wildcard_binding_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    restore_queue = AddressManager.restore_queue

    def careless(self: AddressManager, definition: Any) -> Queue:
        queue = restore_queue(self, definition)
        if self.resolution.is_wild(definition.address):
            self.addresses[definition.address].unbind(queue)
        return queue

    patch.setattr(AddressManager, "restore_queue", careless)


def show_copies_before_their_transaction_commits(patch: pytest.MonkeyPatch) -> None:
    place_at = Placement.place_at

    def hasty(self: Placement, message: Message, address: Any, targets: Any, transaction: Any, identified: Any) -> None:
        is_copy = message.property("_AMQ_ORIG_ADDRESS") is not None
        place_at(self, message, address, targets, None if is_copy else transaction, identified)

    patch.setattr(Placement, "place_at", hasty)


def store_the_copies_of_a_message_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """A crash between two of them loses the rest, if the sender's second attempt is dropped as a duplicate."""

    class Nothing:
        def begin(self) -> None:
            return None

    send_to_others = fault_point("send to other addresses")

    def scattered(self: Router, *arguments: Any) -> Any:
        self._transactions = Nothing()  # type: ignore[assignment]  # the bug
        return send_to_others(self, *arguments)

    replace(patch, "send to other addresses", scattered)


DIVERT_BUGS: list[Bug] = [
    leave_an_exclusively_diverted_message_in_its_queue,
    divert_a_message_twice,
    ignore_the_filter_of_an_exclusive_divert,
    forget_the_properties_that_a_divert_adds,
    forget_diverts_in_a_restart,
    lose_a_wildcard_binding_in_a_restart,
    show_copies_before_their_transaction_commits,
    store_the_copies_of_a_message_one_by_one,
]
