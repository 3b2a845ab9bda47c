"""Dead letter and expiry queues that are created for each address: the lines of Artemis' acceptance list."""

from __future__ import annotations

from embedbroker.config import AddressSettings, DivertConfiguration
from embedbroker.kernel import Divert, Queue

from ..letters import letter
from ..stage import ANYCAST, MULTICAST, Stage

DEAD = AddressSettings(dead_letter_address="dead", auto_create_dead_letter_resources=True)
OLD = AddressSettings(expiry_address="old", auto_create_expiry_resources=True)


def queues(stage: Stage) -> dict[str, Queue]:
    return stage.kernel.address_manager.queues


def kill(stage: Stage, name: str) -> None:
    queue = queues(stage)[name]
    while queue.backlog.size:
        stage.kernel.dead_letters.move(queue, queue.backlog.pop())
    stage.run_all()


def send(stage: Stage, address: str, text: str = "m", **properties: object) -> None:
    stage.send(letter(text, address, **properties), routing_type=ANYCAST)  # type: ignore[arg-type]  # of messages
    stage.run()


def test_nothing_exists_before_the_first_dead_letter() -> None:
    stage = Stage({"#": DEAD})
    assert "dead" not in stage.kernel.address_manager.addresses
    send(stage, "orders")
    kill(stage, "orders")
    made = queues(stage)["DLQ.orders"].definition
    assert (made.address, made.routing_type, made.auto_created) == ("dead", MULTICAST, True)
    assert made.filter == "_AMQ_ORIG_ADDRESS = 'orders'"
    assert stage.waiting("DLQ.orders") == ["m"]


def test_auto_creation_of_dead_letter_resources_with_null_dla() -> None:
    stage = Stage({"#": AddressSettings(auto_create_dead_letter_resources=True)})
    send(stage, "orders")
    kill(stage, "orders")
    assert list(queues(stage)) == ["orders"]


def test_auto_create_dead_letter_queue_prefix_and_suffix() -> None:
    settings = AddressSettings(
        dead_letter_address="dead",
        auto_create_dead_letter_resources=True,
        dead_letter_queue_prefix="x.",
        dead_letter_queue_suffix=".y",
        default_queue_routing_type=ANYCAST,
    )
    stage = Stage({"#": settings})
    send(stage, "it's")
    kill(stage, "it's")
    assert stage.waiting("x.it's.y") == ["m"]
    assert queues(stage)["x.it's.y"].definition.routing_type == ANYCAST


def test_auto_created_dead_letter_filter_multicast() -> None:
    stage = Stage({"#": DEAD})
    for name in ("orders", "bills"):
        send(stage, name, name)
        kill(stage, name)
    assert (stage.waiting("DLQ.orders"), stage.waiting("DLQ.bills")) == (["orders"], ["bills"])


def test_diverted_message() -> None:
    """A dead message that was diverted before is filed under the divert's target address."""
    stage = Stage({"#": DEAD})
    stage.queue("target")
    divert = stage.kernel.diverts.create("d", DivertConfiguration("orders", "target", exclusive=True))
    assert isinstance(divert, Divert)
    send(stage, "orders")
    kill(stage, "target")
    assert stage.waiting("DLQ.target") == ["m"] and "DLQ.orders" not in queues(stage)


def test_moved_message() -> None:
    """A dead letter that is moved by hand does not come back into the queue that its old origin names."""
    stage = Stage({"#": DEAD})
    stage.queue("elsewhere")
    send(stage, "orders")
    kill(stage, "orders")
    from embedbroker.kernel import Outcome

    source, target = queues(stage)["DLQ.orders"], queues(stage)["elsewhere"]
    stage.kernel.mover.move(source, source.backlog.pop(), "elsewhere", Outcome.ACCEPTED, None, destination=target)
    stage.run_all()
    kill(stage, "elsewhere")
    assert stage.waiting("DLQ.orders") == [] and stage.waiting("DLQ.elsewhere") == ["m"]


def test_ongoing_send_to_dla_prevents_auto_delete() -> None:
    """Artemis' AutoCreateDeadLetterResourcesTest.testOngoingSendToDLAPreventAutoDelete."""
    stage = Stage({"#": DEAD})
    send(stage, "orders")
    kill(stage, "orders")
    for _ in range(3):
        queue = queues(stage)["DLQ.orders"]
        stage.kernel.dead_letters.move(queue, queue.backlog.pop())
        stage.run_all()
        stage.pass_time(31)
        send(stage, "orders")
        kill(stage, "orders")
        assert "DLQ.orders" in queues(stage)
    queue = queues(stage)["DLQ.orders"]
    stage.kernel.dead_letters.move(queue, queue.backlog.pop())
    stage.run_all()
    stage.pass_time(100)
    assert "DLQ.orders" not in queues(stage)


def test_auto_deletion_and_recreation_of_expiry_resources() -> None:
    stage = Stage({"#": OLD})
    stage.queue("orders")
    for _ in range(2):
        send(stage, "orders", expiration=stage.kernel.now_ms + 1)
        stage.pass_time(31)
        assert stage.waiting("EXP.orders") == ["m"]
        stage.pass_time(31)
        session = stage.session()
        consumer, taker = stage.consumer(session, "EXP.orders")
        stage.run()
        session.settle(consumer.key, taker.messages[0].message_id)
        session.close(failed=False)
        stage.pass_time(100)
        assert "EXP.orders" not in queues(stage)
    stage.kernel.check()


def test_concurrent_expirations() -> None:
    stage = Stage({"#": OLD})
    for number in range(5):
        stage.queue(f"q{number}", "orders", MULTICAST)
    stage.send(letter("m", "orders", expiration=stage.kernel.now_ms + 1), routing_type=MULTICAST)
    stage.pass_time(31)
    assert stage.waiting("EXP.orders") == ["m"] * 5
    assert not stage.log


def test_messages_lose_their_expiration_with_no_expiry() -> None:
    stage = Stage({"#": AddressSettings(no_expiry=True, min_expiry_delay_ms=5)})
    stage.queue("orders")
    send(stage, "orders", expiration=stage.kernel.now_ms + 1)
    assert next(iter(queues(stage)["orders"].backlog)).message.expiration == 0


def test_a_queue_that_must_not_be_created_is_logged_once() -> None:
    stage = Stage({"#": DEAD}, queues_max=1)
    for _ in range(2):
        send(stage, "orders")
        kill(stage, "orders")
    assert len([line for line in stage.log if "is not created on 'dead'" in line]) == 1
    stage.assert_empty()
