"""Reads a recorded scenario as a list of things that happen, in order.

Responsible for the format of ``tests/vectors``. Refuses to decode frames.
"""

from __future__ import annotations

import json
from pathlib import Path

from attrs import frozen

__all__ = ["Line", "read"]


@frozen
class Line:
    """One line of the file that the node or its peers have to do with."""

    connection: int
    at_s: float
    from_client: bool
    kind: str  # frame, handshake, open, close, mark
    data: bytes = b""
    lost: bool = False
    text: str = ""


def read(path: Path, server: str = "server") -> list[Line]:
    """The lines of one file that matter to one broker in it: marks, and the connections that it accepted."""
    lines: list[Line] = []
    # What was opened before the recording began has no known opener here.
    accepted: set[int] = set()
    for text in path.read_text().splitlines():
        line = json.loads(text)
        connection, at_s = line.get("conn"), line.get("t", 0) / 1000
        if line.get("event") == "open" and line.get("to", server) == server:
            accepted.add(connection)
        if "mark" in line:
            lines.append(Line(0, at_s, True, "mark", text=line["mark"]))
        elif connection not in accepted or line.get("trimmed"):
            continue
        elif line.get("event"):
            by_server = line["event"] == "close" and line.get("by") == server
            lines.append(Line(connection, at_s, not by_server, line["event"]))
        elif line.get("raw"):
            lines.append(Line(connection, at_s, True, "handshake", bytes.fromhex(line["hex"])))
        elif "hex" in line:
            from_client = line["from"] != server
            data, lost = bytes.fromhex(line["hex"]), bool(line.get("lost"))
            lines.append(Line(connection, at_s, from_client, "frame", data, lost))
    return lines
