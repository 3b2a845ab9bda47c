"""Bugs of bridges, and of a broker at their end, put in one at a time."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from attrs import evolve

from embedbroker.config import BridgeRoutingType
from embedbroker.kernel import Message, Outcome
from embedbroker.outbound import Bridge, Bridges
from embedbroker.outbound._bridge_consumer import BridgeConsumer
from embedbroker.outbound._bridged_message import AddressForwarding
from embedbroker.outbound._bridged_upload import BridgedUpload
from embedclient.agent import CoreMessage

from .fault_points import fault_point, replace
from .hunting import Bug, confirm_before_sync, every, forget_duplicate_ids

__all__ = ["BRIDGE_BUGS"]

_KEY = 1


def give_a_repeated_message_another_id(patch: pytest.MonkeyPatch) -> None:
    numbers = count(1)
    replace(patch, "identify a forwarded message", lambda node, message: node + next(numbers).to_bytes(8, "big"))


def send_a_message_without_its_id(patch: pytest.MonkeyPatch) -> None:
    forwarded, omits = AddressForwarding.forwarded, every(2)

    def careless(self: AddressForwarding, message: Message) -> CoreMessage:
        config = evolve(self._config, use_duplicate_detection=not omits())
        return forwarded(AddressForwarding(config, self._node), message)

    patch.setattr(AddressForwarding, "forwarded", careless)


def identify_messages_by_a_node_of_this_life(patch: pytest.MonkeyPatch) -> None:
    become_live, lives = Bridges.become_live, count(1)

    def forgetful(self: Bridges, node_id: str) -> None:
        become_live(self, f"{next(lives):08x}{node_id[8:]}")

    patch.setattr(Bridges, "become_live", forgetful)


def acknowledge_before_the_confirmation(patch: pytest.MonkeyPatch) -> None:
    advance = BridgeConsumer.advance

    def hasty(self: BridgeConsumer) -> None:
        for message_id in self.pending:
            if not self._uploads:
                self._session.settle(_KEY, message_id)
        advance(self)

    patch.setattr(BridgeConsumer, "advance", hasty)


def drop_a_message_that_was_not_sent(patch: pytest.MonkeyPatch) -> None:
    refuse = fault_point("refuse a forwarded message")

    def careless(self: BridgeConsumer, sent: Any, error: Any) -> None:
        if sent.message_id in self.pending and self._consumer is not None:
            self._session.settle(_KEY, sent.message_id)
        refuse(self, sent, error)

    replace(patch, "refuse a forwarded message", careless)


def return_messages_at_the_end_of_the_queue(patch: pytest.MonkeyPatch) -> None:
    detach, positions = BridgeConsumer.detach, count(1_000_000_000)

    def careless(self: BridgeConsumer) -> None:
        if self._consumer is not None:
            for reference in self._consumer.unsettled.values():
                reference.position = next(positions)
        detach(self)

    patch.setattr(BridgeConsumer, "detach", careless)


def keep_messages_when_the_connection_is_lost(patch: pytest.MonkeyPatch) -> None:
    def forgetful(self: BridgeConsumer) -> None:
        self._forget()
        self._sender = None
        self._session.consumers.pop(_KEY, None)

    patch.setattr(BridgeConsumer, "detach", forgetful)


def give_no_credit_back(patch: pytest.MonkeyPatch) -> None:
    confirm = fault_point("confirm forwarded messages")

    def stingy(self: BridgeConsumer) -> None:
        for sent in self.confirmed:
            sent.size = 0
        confirm(self)

    replace(patch, "confirm forwarded messages", stingy)


def ignore_the_filter_of_a_bridge(patch: pytest.MonkeyPatch) -> None:
    attach = BridgeConsumer.attach

    def unselective(self: BridgeConsumer, sender: Any) -> Any:
        self._config = evolve(self._config, filter=None)
        return attach(self, sender)

    patch.setattr(BridgeConsumer, "attach", unselective)


def leave_the_routing_type_as_it_is(patch: pytest.MonkeyPatch) -> None:
    forwarded = AddressForwarding.forwarded

    def careless(self: AddressForwarding, message: Message) -> CoreMessage:
        config = evolve(self._config, routing_type=BridgeRoutingType.PASS)
        return forwarded(AddressForwarding(config, self._node), message)

    patch.setattr(AddressForwarding, "forwarded", careless)


def never_try_again(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "wait before the next attempt", lambda self, reason, now: None)


def never_start_again_after_giving_up(patch: pytest.MonkeyPatch) -> None:
    start = Bridge.start

    def idle(self: Bridge) -> str | None:
        return None if self.is_started else start(self)

    patch.setattr(Bridge, "start", idle)


def lose_a_part_of_a_body(patch: pytest.MonkeyPatch) -> None:
    read, loses = fault_point("read a part of a body"), every(20)

    def careless(self: BridgedUpload, length: int, data: bytes | None, checksum: int) -> None:
        if loses() and data is not None:
            data = data[:-1] + b"?"
        read(self, length, data, checksum)

    replace(patch, "read a part of a body", careless)


def settle_what_a_stop_did_not_wait_for(patch: pytest.MonkeyPatch) -> None:
    detach = BridgeConsumer.detach

    def careless(self: BridgeConsumer) -> None:
        if self._consumer is not None and not self._session.started:
            for message_id in self.pending:
                self._session.settle(_KEY, message_id, Outcome.ACCEPTED)
        detach(self)

    patch.setattr(BridgeConsumer, "detach", careless)


BRIDGE_BUGS: list[Bug] = [
    give_a_repeated_message_another_id,
    send_a_message_without_its_id,
    identify_messages_by_a_node_of_this_life,
    acknowledge_before_the_confirmation,
    drop_a_message_that_was_not_sent,
    return_messages_at_the_end_of_the_queue,
    keep_messages_when_the_connection_is_lost,
    give_no_credit_back,
    ignore_the_filter_of_a_bridge,
    leave_the_routing_type_as_it_is,
    never_try_again,
    never_start_again_after_giving_up,
    lose_a_part_of_a_body,
    settle_what_a_stop_did_not_wait_for,
    confirm_before_sync,
    forget_duplicate_ids,
]
