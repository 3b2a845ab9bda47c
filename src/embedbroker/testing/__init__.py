"""The simulated world: counterparts of disk, locks, leases and network, which run real brokers and clients in virtual
time.

`SimulatedDisk` is the disk that forgets what was not synced. A broker takes it in place of a directory.
"""

from ._disk import SimulatedDisk

__all__ = ["SimulatedDisk"]
