"""How many file descriptors this process may have, and how many of them connections leave to the broker's own work."""

from __future__ import annotations

from contextlib import suppress

__all__ = ["DESCRIPTORS_KEPT_FREE", "raise_descriptor_limit"]

#: For segments of journal and audit log, locks, connections to other brokers, and what the program around opens.
DESCRIPTORS_KEPT_FREE = 64


def raise_descriptor_limit() -> None:
    """Allow this process as many descriptors as it may have. For a process that belongs to a broker.

    The soft limit is 1,024 on many systems for the sake of programs that call ``select``; a broker does not.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # some systems have a lower one that they do not tell of
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
