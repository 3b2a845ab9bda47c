"""Node, over the wire: session metadata, producers and their credits."""

from __future__ import annotations

import pytest

from embedbroker.config import AddressFullPolicy, AddressSettings
from embedclient.errors import ErrorCode
from embedclient.wire.core import (
    CreateProducer,
    ExceptionResponse,
    NullResponse,
    RemoveProducer,
    SessionAddMetadataV2,
    SessionClose,
    SessionProducerCredits,
    SessionProducerCreditsFail,
    SessionRequestProducerCredits,
    SessionSend,
    SessionUniqueAddMetadata,
)

from .scripted import Peer, Stage, letter

DONE = NullResponse(-1)


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def peer(stage: Stage) -> Peer:
    peer = stage.connect().open_session()
    peer.create_queue()
    return peer


def test_unique_metadata_is_unique_among_sessions(stage: Stage, peer: Peer) -> None:
    other = stage.connect().open_session()
    for each in (peer, peer):
        each.send(SessionUniqueAddMetadata("jms-client-id", "me", True))
        assert each.clear() == [DONE]
    other.send(SessionUniqueAddMetadata("jms-client-id", "me", True))
    assert other.refusal().code == ErrorCode.DUPLICATE_METADATA
    peer.send(SessionClose())
    other.send(SessionUniqueAddMetadata("jms-client-id", "me", True))
    assert other.clear() == [DONE]


class CountedMetadata(dict[str, str]):
    """Count the lookups."""

    looks = 0

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]  # only strings are asked for
        CountedMetadata.looks += 1
        return super().get(key, default)


def test_the_question_whether_metadata_is_in_use_looks_at_no_other_session(stage: Stage, peer: Peer) -> None:
    for number in range(100):
        stage.connect().open_session().send(SessionUniqueAddMetadata("jms-client-id", f"client-{number}", True))
    for session in stage.node.core.sessions.values():
        session.metadata = CountedMetadata(session.metadata)
    CountedMetadata.looks = 0
    peer.send(SessionUniqueAddMetadata("jms-client-id", "client-7", True))
    assert peer.last(ExceptionResponse).code == ErrorCode.DUPLICATE_METADATA
    peer.send(SessionUniqueAddMetadata("jms-client-id", "me", True))
    assert peer.last(NullResponse)
    assert CountedMetadata.looks <= 4


def test_metadata_is_free_again_when_its_session_changes_it_or_is_over(stage: Stage, peer: Peer) -> None:
    peer.send(SessionUniqueAddMetadata("jms-client-id", "me", True))
    peer.send(SessionUniqueAddMetadata("jms-client-id", "me", True))
    assert peer.clear() == [NullResponse(-1)] * 2
    peer.send(SessionAddMetadataV2("jms-client-id", "you", True))
    other = stage.connect().open_session()
    for value in ("me", "you"):
        other.send(SessionUniqueAddMetadata("jms-client-id", value, True))
    assert other.names() == ["NullResponse", "ExceptionResponse"]
    peer.lose()
    other.send(SessionUniqueAddMetadata("jms-client-id", "you", True))
    assert other.clear() == [NullResponse(-1)]
    other.lose()
    assert stage.node.core.metadata == {}


def test_metadata_is_bounded(peer: Peer) -> None:
    for number in range(100):
        peer.send(SessionAddMetadataV2(f"key-{number}", "v", True))
    assert peer.clear() == [DONE] * 100
    peer.send(SessionAddMetadataV2("one too many", "v", True))
    assert peer.refusal().code == ErrorCode.ILLEGAL_STATE
    peer.send(SessionAddMetadataV2("key-5", "again", False))
    assert peer.clear() == []


def test_producers_are_announced_and_withdrawn_in_silence(peer: Peer) -> None:
    peer.send(CreateProducer(1, "q"), CreateProducer(2, None), RemoveProducer(1), RemoveProducer(77))
    assert peer.clear() == []


def test_credits_are_granted_at_once_with_the_text_that_was_asked(peer: Peer) -> None:
    peer.send(SessionRequestProducerCredits(32_768, "a::q"))
    assert peer.clear() == [SessionProducerCredits(32_768, "a::q")]


def test_credits_wait_while_the_address_is_full(stage: Stage) -> None:
    stage = Stage(address_settings={"q": AddressSettings(max_size_bytes=1000)})
    peer = stage.connect().open_session(pre_acknowledge=True)
    peer.create_queue()
    peer.post("x" * 1000)
    peer.send(SessionRequestProducerCredits(100, "q"), SessionRequestProducerCredits(50, "other"))
    assert peer.clear() == [SessionProducerCredits(50, "other")]
    peer.consume()
    stage.run()
    assert SessionProducerCredits(100, "q") in peer.clear()


def test_credits_fail_and_come_later_with_policy_fail(stage: Stage) -> None:
    settings = AddressSettings(max_size_bytes=1000, address_full_policy=AddressFullPolicy.FAIL)
    stage = Stage(address_settings={"q": settings})
    peer = stage.connect().open_session(pre_acknowledge=True)
    peer.create_queue()
    peer.post("x" * 1000)
    peer.send(SessionRequestProducerCredits(100, "q"))
    assert peer.clear() == [SessionProducerCreditsFail(100, "q")]
    peer.send(SessionSend(letter("y"), True, -2))
    assert peer.refusal().code == ErrorCode.ADDRESS_FULL
    peer.consume()
    stage.run()
    assert SessionProducerCredits(100, "q") in peer.clear()


@pytest.mark.parametrize("address", ["activemq.management", "embedbroker.services"])
def test_a_full_broker_grants_credit_for_requests_to_itself(address: str) -> None:
    stage = Stage(address_settings={"#": AddressSettings(max_size_bytes=0)})
    stage.node.kernel.memory.limit_bytes = 5000
    peer = stage.connect().open_session(pre_acknowledge=True)
    peer.create_queue()
    peer.post("x" * 5000)
    peer.send(SessionRequestProducerCredits(100, address))
    assert peer.clear() == [SessionProducerCredits(100, address)]


def test_the_limit_of_the_whole_broker_holds_every_producer() -> None:
    stage = Stage()
    stage.node.kernel.memory.limit_bytes = 5000
    peer = stage.connect().open_session(pre_acknowledge=True)
    peer.create_queue()
    peer.post("x" * 5000)
    peer.send(SessionRequestProducerCredits(100, "q"), SessionRequestProducerCredits(200, "other"))
    assert peer.clear() == []
    peer.consume()
    stage.run()
    assert peer.packets(SessionProducerCredits) == [
        SessionProducerCredits(100, "q"),
        SessionProducerCredits(200, "other"),
    ]


def test_a_closed_session_waits_for_no_credit(stage: Stage) -> None:
    stage.node.kernel.memory.limit_bytes = 0
    peer = stage.connect().open_session()
    peer.send(SessionRequestProducerCredits(100, "q"), SessionClose())
    assert peer.clear() == [DONE]
    assert not stage.node.kernel.memory.has_waiting


def test_a_client_that_asks_for_credit_without_end_is_closed(stage: Stage) -> None:
    stage.node.kernel.memory.limit_bytes = 0
    peer = stage.connect().open_session()
    for _ in range(11):
        peer.send(*[SessionRequestProducerCredits(1, "q")] * 1000)
    assert peer.closed is not None
    assert not stage.node.kernel.memory.has_waiting
