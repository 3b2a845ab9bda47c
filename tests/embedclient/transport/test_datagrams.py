"""What both kinds of datagrams promise, over UDP on the loopback and in memory, and what only one of them has."""

from __future__ import annotations

import errno
import socket
import sys
from collections import Counter
from itertools import count
from random import Random

import pytest
import trio

from embedclient.model import MulticastGroup
from embedclient.transport import TransportLost
from embedclient.transport._datagrams import DatagramReceiver, Datagrams
from embedclient.transport._memory_datagrams import MemoryMulticast
from embedclient.transport._udp import SystemDatagrams, joined_socket

LOOPBACK = "127.0.0.1"
_groups = count(1)


def free_group(local_bind_port: int = -1) -> MulticastGroup:
    """A group of this test alone: a port that is free, and an address per test."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    return MulticastGroup(f"231.7.8.{next(_groups) % 255}", port, LOOPBACK, local_bind_port)


@pytest.fixture(params=["udp", "memory"])
def datagrams(request: pytest.FixtureRequest) -> Datagrams:
    return SystemDatagrams() if request.param == "udp" else MemoryMulticast(Random(1)).at("host")


async def next_of(receiver: DatagramReceiver) -> bytes:
    with trio.fail_after(60):
        return await receiver.receive()


# -- both ------------------------------------------------------------------------------------------------------------


async def test_every_receiver_of_a_group_gets_each_datagram_whole(datagrams: Datagrams) -> None:
    group = free_group()
    first, second = await datagrams.open_receiver(group), await datagrams.open_receiver(group)
    sender = await datagrams.open_sender(group)
    sent = [b"one", b"", bytes(range(256)) * 200]
    for data in sent:
        sender.send_nowait(data)
    for receiver in (first, second):
        assert [await next_of(receiver) for _ in sent] == sent
        receiver.close()
    sender.close()


async def test_a_receiver_gets_nothing_of_other_groups_and_ports(datagrams: Datagrams) -> None:
    group = free_group()
    other_address = MulticastGroup("231.7.9.1", group.port, LOOPBACK)
    other_port = MulticastGroup(group.address, free_group().port, LOOPBACK)
    receiver = await datagrams.open_receiver(group)
    # A member of the other group on this machine, too, must not let it in.
    other = await datagrams.open_receiver(other_address)
    for each, data in ((other_address, b"address"), (other_port, b"port"), (group, b"right")):
        sender = await datagrams.open_sender(each)
        sender.send_nowait(data)
        sender.close()
    assert await next_of(other) == b"address"
    assert await next_of(receiver) == b"right"
    receiver.close()
    other.close()


async def test_a_sender_may_change_its_buffer_after_a_send(datagrams: Datagrams) -> None:
    group = free_group()
    receiver, sender = await datagrams.open_receiver(group), await datagrams.open_sender(group)
    buffer = bytearray(b"first")
    sender.send_nowait(memoryview(buffer))
    buffer[:] = b"other"
    assert await next_of(receiver) == b"first"
    receiver.close()
    sender.close()


async def test_closing_wakes_a_pending_receive(datagrams: Datagrams) -> None:
    receiver = await datagrams.open_receiver(free_group())

    async def receive() -> None:
        with pytest.raises(TransportLost, match="closed here"):
            await receiver.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        receiver.close()


async def test_everything_after_a_close_is_refused_and_closing_twice_is_fine(datagrams: Datagrams) -> None:
    group = free_group()
    receiver, sender = await datagrams.open_receiver(group), await datagrams.open_sender(group)
    for end in (receiver, sender):
        end.close()
        end.close()
    with pytest.raises(TransportLost, match="closed here"):
        sender.send_nowait(b"late")
    with pytest.raises(TransportLost, match="closed here"), trio.testing.assert_checkpoints():
        await receiver.receive()


async def test_a_cancelled_receive_loses_no_datagram(datagrams: Datagrams) -> None:
    group = free_group()
    receiver, sender = await datagrams.open_receiver(group), await datagrams.open_sender(group)
    sender.send_nowait(b"kept")
    with trio.CancelScope() as scope:
        scope.cancel()
        await receiver.receive()
    assert scope.cancelled_caught
    with trio.testing.assert_checkpoints():
        assert await next_of(receiver) == b"kept"
    receiver.close()
    sender.close()


async def test_a_local_port_that_is_in_use_is_an_error_that_names_group_and_port(datagrams: Datagrams) -> None:
    group = free_group(local_bind_port=free_group().port)
    first = await datagrams.open_sender(group)
    with pytest.raises(OSError, match="the local bind port must be free") as caught:
        await datagrams.open_sender(group)
    assert caught.value.errno == errno.EADDRINUSE
    assert str(caught.value.strerror).startswith(f"cannot send to {group} from port {group.local_bind_port}: ")
    first.close()
    (await datagrams.open_sender(group)).close()


# -- the group -------------------------------------------------------------------------------------------------------


def test_a_group_names_its_address_its_port_and_its_interface() -> None:
    assert str(MulticastGroup("231.7.7.7")) == "multicast group 231.7.7.7:9876 on the default interface"
    expected = "multicast group 231.7.7.7:1000 on the interface of 127.0.0.1"
    assert str(MulticastGroup("231.7.7.7", 1000, LOOPBACK)) == expected


@pytest.mark.parametrize("address", ["", "10.0.0.1", "240.0.0.1", "231.7.7", "host", "ff02::1"])
def test_an_address_that_is_no_multicast_address_is_an_error_that_names_it(address: str) -> None:
    with pytest.raises(ValueError, match=f"the group address '{address}' is no IPv4 multicast address: use one from"):
        MulticastGroup(address)


@pytest.mark.parametrize("port", [0, -1, 65_536, True, "9876"])
def test_a_port_out_of_range_is_an_error_that_names_it(port: int) -> None:
    with pytest.raises(ValueError, match=f"port is a number from 1 to 65535, not {port!r}"):
        MulticastGroup("231.7.7.7", port)


@pytest.mark.parametrize("port", [-2, 65_536])
def test_a_local_port_out_of_range_is_an_error_that_names_it(port: int) -> None:
    with pytest.raises(ValueError, match=f"local_bind_port is a number from -1 to 65535, not {port}"):
        MulticastGroup("231.7.7.7", local_bind_port=port)


# -- UDP -------------------------------------------------------------------------------------------------------------


async def test_datagrams_leave_from_the_local_address_and_port_that_are_set() -> None:
    group = free_group(local_bind_port=free_group().port)
    sender = await SystemDatagrams().open_sender(group)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.bind((group.address, group.port))
        membership = socket.inet_aton(group.address) + socket.inet_aton(LOOPBACK)
        plain.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        plain.settimeout(5)
        sender.send_nowait(b"here")
        assert plain.recvfrom(100) == (b"here", (LOOPBACK, group.local_bind_port))
    sender.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such option")
async def test_a_receiver_takes_no_datagrams_of_interfaces_that_only_other_processes_have_joined() -> None:
    receiver = joined_socket(free_group(), LOOPBACK)
    with receiver:
        assert receiver.getsockopt(socket.IPPROTO_IP, 49) == 0  # IP_MULTICAST_ALL


@pytest.mark.parametrize("address", ["203.0.113.7", "no-such-host.invalid", "a..b", "::1"])
async def test_an_address_of_another_machine_is_an_error_that_names_group_and_interface(address: str) -> None:
    group = MulticastGroup("231.7.7.7", 9876, address)
    for opening in (SystemDatagrams().open_sender, SystemDatagrams().open_receiver):
        with pytest.raises(OSError, match="local bind address") as caught:
            await opening(group)
        assert str(group) in str(caught.value.strerror)


async def test_a_datagram_that_is_too_long_is_an_error_and_the_sender_goes_on() -> None:
    group = free_group()
    receiver, sender = await SystemDatagrams().open_receiver(group), await SystemDatagrams().open_sender(group)
    with pytest.raises(OSError, match=f"cannot send to {group}: ") as caught:
        sender.send_nowait(bytes(65_508))
    assert caught.value.errno == errno.EMSGSIZE
    sender.send_nowait(b"short")
    assert await next_of(receiver) == b"short"
    receiver.close()
    sender.close()


# -- in memory -------------------------------------------------------------------------------------------------------


async def arrivals(network: MemoryMulticast, number: int) -> list[tuple[float, int]]:
    """Send numbered datagrams, one a second, and return when each copy arrived. Closes the receiver after them."""
    group = MulticastGroup("231.7.7.7")
    receiver, sender = await network.at("b").open_receiver(group), await network.at("a").open_sender(group)
    start = trio.current_time()
    seen: list[tuple[float, int]] = []

    async def send() -> None:
        for index in range(number):
            await trio.sleep_until(start + index)
            sender.send_nowait(index.to_bytes(2, "big"))
        await trio.sleep_until(start + number + 10)
        receiver.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        try:
            while True:
                data = await receiver.receive()
                seen.append((round(trio.current_time() - start, 9), int.from_bytes(data, "big")))
        except TransportLost:
            pass
    return seen


async def test_a_copy_takes_latency_and_jitter(autojump_clock: trio.testing.MockClock) -> None:
    seen = await arrivals(MemoryMulticast(Random(1), latency_s=0.1, jitter_s=0.3), 200)
    delays = [when - index for when, index in seen]
    assert [index for _, index in seen] == list(range(200))
    assert 0.1 <= min(delays) < 0.12
    assert 0.38 < max(delays) <= 0.4


async def test_jitter_lets_datagrams_overtake_each_other(autojump_clock: trio.testing.MockClock) -> None:
    seen = [index for _, index in await arrivals(MemoryMulticast(Random(1), jitter_s=3.0), 100)]
    assert sorted(seen) == list(range(100)) != seen


async def test_copies_are_lost_and_come_twice_as_often_as_set(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryMulticast(Random(1), loss_chance=0.3, duplication_chance=0.5)
    copies = Counter(index for _, index in await arrivals(network, 1_000))
    of_each = Counter(copies[index] for index in range(1_000))
    assert of_each.keys() == {0, 1, 2}
    assert 260 < of_each[0] < 340
    assert 300 < of_each[2] < 400


async def test_equal_seeds_give_equal_fates(autojump_clock: trio.testing.MockClock) -> None:
    def network(seed: int) -> MemoryMulticast:
        return MemoryMulticast(Random(seed), jitter_s=0.5, loss_chance=0.3, duplication_chance=0.3)

    first, second, third = [await arrivals(network(seed), 50) for seed in (1, 1, 2)]
    assert first == second != third


async def test_a_partition_loses_what_passes_between_its_sides_until_it_heals() -> None:
    network, group = MemoryMulticast(Random(1)), MulticastGroup("231.7.7.7")
    names = ("a", "b", "c")
    senders = {name: await network.at(name).open_sender(group) for name in names}
    receivers = {name: await network.at(name).open_receiver(group) for name in names}
    network.partition(["a"], ["b", "c"])
    for name, sender in senders.items():
        sender.send_nowait(f"cut {name}".encode())
    network.heal()
    for name, sender in senders.items():
        sender.send_nowait(f"healed {name}".encode())
    for name, receiver in receivers.items():
        near = {"a"} if name == "a" else {"b", "c"}
        expected = [f"cut {each}" for each in names if each in near] + [f"healed {each}" for each in names]
        assert [(await next_of(receiver)).decode() for _ in expected] == expected


async def test_a_receiver_that_reads_nothing_loses_what_its_buffer_does_not_hold() -> None:
    network, group = MemoryMulticast(Random(1)), MulticastGroup("231.7.7.7")
    receiver, sender = await network.at("b").open_receiver(group), await network.at("a").open_sender(group)
    for index in range(1_000):
        sender.send_nowait(index.to_bytes(2, "big"))
    kept = 256
    assert [int.from_bytes(await next_of(receiver), "big") for _ in range(kept)] == list(range(kept))
    sender.send_nowait(b"later")
    assert await next_of(receiver) == b"later"
