"""Any requests in any order: the node lives, counts right, and is empty when every client has gone."""

from __future__ import annotations

import pytest

from embedbroker.config import AddressSettings
from embedbroker.node import NodeState
from tests.embedbroker.node.scripted import Stage

from .random_clients import RandomClients

ACTIONS = 250


def check_counts(stage: Stage) -> None:
    kernel = stage.node.kernel
    for queue in kernel.address_manager.queues.values():
        held = sum(len(consumer.unsettled) for consumer in queue.consumers)
        assert queue.delivering_count >= held >= 0, queue.name
        assert queue.waiting_visible >= 0
    assert kernel.memory.used_bytes >= 0


def drain(stage: Stage) -> None:
    """A last client takes everything, from queues that allow consumers."""
    stage.settle_disk()
    last = stage.connect().open_session("last", pre_acknowledge=True)
    kernel = stage.node.kernel
    for number, queue in enumerate(list(kernel.address_manager.queues.values())):
        if queue.definition.max_consumers == 0:
            kernel.teardown.delete_queue(queue)
        else:
            last.consume(queue.name, number)
    stage.settle_disk()


@pytest.mark.search
@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
def test_the_node_lives_and_is_empty_at_the_end(seed: int, durable: bool) -> None:
    settings = {
        "#": AddressSettings(dead_letter_address="DLQ", expiry_address="ExpiryQueue", max_delivery_attempts=3),
        "c": AddressSettings(max_size_bytes=5000),
    }
    stage = Stage(
        durable=durable,
        address_settings=settings,
        work_per_step_max=[2000, 7][seed % 2],
        output_high_water_bytes=50_000,
        output_bytes_max=200_000,
        resend_bytes_max=100_000,
    )
    clients = RandomClients(stage, seed)
    for number in range(ACTIONS):
        clients.act()
        if number % 3 == 0:
            stage.run()
        if durable and stage.work and number % 4 == 0:
            stage.finish_work(stage.work[0])
        check_counts(stage)
    for peer in clients.peers:
        if peer.closed is None:
            peer.lose()
            peer.closed = "by the client"
    stage.advance(70)
    stage.settle_disk()
    assert stage.node.state is NodeState.RUNNING
    assert stage.node.core.sessions == {}
    drain(stage)
    kernel = stage.node.kernel
    assert {
        name: queue.message_count for name, queue in kernel.address_manager.queues.items() if queue.message_count
    } == {}
    assert kernel.memory.used_bytes == kernel.memory.reserved_bytes == 0
    assert not kernel.memory.has_waiting
    assert stage.node.core.resend.used_bytes == 0
    assert stage.node.connections.partial_frames.total_bytes == stage.node.connections.output.total_bytes == 0
