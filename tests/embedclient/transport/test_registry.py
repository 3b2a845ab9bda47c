"""Names under vm://: one owner per trio run, refused in words from anywhere else."""

from __future__ import annotations

import pytest
import trio

from embedclient.transport import TransportLost, vm_connect, vm_listen


async def test_a_name_has_one_owner_until_it_closes() -> None:
    first = vm_listen("broker")
    with pytest.raises(OSError, match="vm://broker is taken"):
        vm_listen("broker")
    first.close()
    first.close()
    vm_listen("broker").close()


async def test_a_name_nobody_owns_is_refused() -> None:
    with pytest.raises(TransportLost, match="no broker of that name"):
        vm_connect("nobody")


def test_the_same_name_in_another_run_is_another_broker_and_the_refusal_names_the_tcp_url() -> None:
    async def other_run() -> None:
        with pytest.raises(TransportLost, match=r"broker\.url"):
            vm_connect("broker")
        vm_listen("broker").close()

    async def main() -> None:
        listener = vm_listen("broker")
        await trio.to_thread.run_sync(trio.run, other_run)
        vm_connect("broker").close()
        listener.close()

    trio.run(main)


def test_a_run_that_ended_without_closing_leaves_the_name_free() -> None:
    async def forget() -> None:
        vm_listen("broker")

    async def main() -> None:
        vm_listen("broker").close()

    trio.run(forget)
    trio.run(main)


async def test_closing_a_listener_refuses_new_peers_and_drops_the_waiting_ones() -> None:
    listener = vm_listen("broker")
    waiting = vm_connect("broker")
    listener.close()
    assert await waiting.receive(1) == b""
    with pytest.raises(TransportLost):
        vm_connect("broker")
    with pytest.raises(TransportLost):
        await listener.accept()


async def test_a_listener_that_does_not_accept_bounds_the_waiting_connections() -> None:
    listener = vm_listen("broker")
    with pytest.raises(TransportLost, match="wait to be accepted"):
        for _ in range(10_000):
            vm_connect("broker")
    listener.close()
