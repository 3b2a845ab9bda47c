"""The limit of file descriptors of this process, and the number that connections leave to the broker's own work."""

from __future__ import annotations

from contextlib import suppress

__all__ = ["DESCRIPTORS_KEPT_FREE", "raise_descriptor_limit"]

#: For segments of journal and audit log, locks, connections to other brokers, and files of the surrounding program.
DESCRIPTORS_KEPT_FREE = 64


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard limit. For a process that belongs to a broker.

    The soft limit is 1,024 on many systems for the sake of programs that call ``select``; a broker does not.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # some systems have a lower limit that they do not report
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
