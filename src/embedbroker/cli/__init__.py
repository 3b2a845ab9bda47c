"""The command line: `embedbroker COMMAND`, or `python -m embedbroker COMMAND`.

Responsible for its entry point only. Its dependencies come with the extra `cli`; without it one line reports that.
"""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]

_LIBRARIES = {"click", "rich"}
_CANNOT_RUN = 2


def main() -> None:
    """Run the command that the process was started with, and end the process with its exit code."""
    try:
        from ._commands import commands
    except ModuleNotFoundError as error:
        if error.name not in _LIBRARIES:
            raise
        print(
            f"embedbroker: {error.name} is missing; install the extra: pip install 'embedbroker[cli]'", file=sys.stderr
        )
        sys.exit(_CANNOT_RUN)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    commands(prog_name="embedbroker")
