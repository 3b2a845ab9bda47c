"""Byte pipes on trio, the same for broker and client: TCP, and memory pipes behind `vm://` names. Datagrams, too.

Responsible for moving bytes and for naming why a pipe ended. Does not depend on the meaning of the bytes.
"""

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

from ._dial import dial
from ._memory import memory_pair
from ._registry import vm_connect, vm_listen
from ._stream import ByteStream, Listener, TransportLost
from ._tcp import TcpListener, TcpReservation, TcpStream, connect_tcp, listen_tcp, reserve_tcp
from ._threads import run_in_thread
from ._tls_stream import TLSDial, TLSFailed, TLSListener, TLSStream

if TYPE_CHECKING:
    from ._announcement_ports import ANSWER_S, FETCH_EVERY_S, FRAME_BYTES_MAX, announcement_in
    from ._background_scope import TrioBackgroundScope
    from ._datagrams import Datagrams, DatagramSender
    from ._directory import LOOK_EVERY_S, DirectoryReader
    from ._look_ups import look_up, with_port
    from ._memory_datagrams import MemoryMulticast
    from ._udp import SystemDatagrams, joined_socket

__all__ = [
    "ANSWER_S",
    "FETCH_EVERY_S",
    "FRAME_BYTES_MAX",
    "LOOK_EVERY_S",
    "ByteStream",
    "DatagramSender",
    "Datagrams",
    "DirectoryReader",
    "Listener",
    "MemoryMulticast",
    "SystemDatagrams",
    "TLSDial",
    "TLSFailed",
    "TLSListener",
    "TLSStream",
    "TcpListener",
    "TcpReservation",
    "TcpStream",
    "TransportLost",
    "TrioBackgroundScope",
    "announcement_in",
    "connect_tcp",
    "dial",
    "joined_socket",
    "listen_tcp",
    "look_up",
    "memory_pair",
    "reserve_tcp",
    "run_in_thread",
    "vm_connect",
    "vm_listen",
    "with_port",
]

__getattr__ = lazy_names(
    __name__,
    {
        "._announcement_ports": "ANSWER_S FETCH_EVERY_S FRAME_BYTES_MAX announcement_in",
        "._background_scope": "TrioBackgroundScope",
        "._directory": "LOOK_EVERY_S DirectoryReader",
        "._datagrams": "DatagramSender Datagrams",
        "._look_ups": "look_up with_port",
        "._memory_datagrams": "MemoryMulticast",
        "._udp": "SystemDatagrams joined_socket",
    },
)
