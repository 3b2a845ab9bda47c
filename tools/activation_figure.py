"""The figure of a replicating broker's stages in docs/ARCHITECTURE.md, drawn from the table `TRANSITIONS`.

Responsible for the text of the figure, and for replacing it in the document: `python -m tools.activation_figure`.
"""

from __future__ import annotations

from pathlib import Path

from embedbroker.ha.replication._stages import TRANSITIONS, Event, Stage

DOCUMENT = Path(__file__).parents[1] / "docs" / "ARCHITECTURE.md"
BEGIN, END = "```mermaid\nstateDiagram-v2\n", "```\n"


def figure() -> str:
    """Return the figure: an edge per pair of stages, with the events that lead from one to the other.

    Every stage may end. The edges for that are left out, but for the one from LEAVING.
    """
    lines = [f"    [*] --> {Stage.NEW.name}"]
    for stage, row in TRANSITIONS.items():
        edges: dict[Stage, list[Event]] = {}
        for event, following in row.items():
            if following is not Stage.OVER or event is Event.HANDED_OVER:
                edges.setdefault(following, []).append(event)
        for following, events in edges.items():
            text = ", ".join(event.value for event in events)
            lines.append(f"    {stage.name} --> {following.name}: {text}")
    return BEGIN + "\n".join([*lines, f"    {Stage.OVER.name} --> [*]"]) + "\n" + END


def drawn(text: str) -> str:
    """Return the text of a document with its figure replaced by the present one."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END, 1)
    return before + figure() + after


if __name__ == "__main__":
    DOCUMENT.write_text(drawn(DOCUMENT.read_text()))
