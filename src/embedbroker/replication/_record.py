"""The record of a replicating broker, in one small file beside its journal.

Responsible for the text of that file. Does not write it: that is disk work like any other.

The file has the name and the content of a lock store's record (``node.state``). So a broker keeps its node id when it
gets a backup. A store that finds it takes it for a copy, which it is: of what another policy wrote.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

__all__ = ["NEW_NODE_RECORD_FILE", "NODE_RECORD_FILE", "DamagedRecord", "ReplicaRecord", "ScaleDownMark"]

NODE_RECORD_FILE = "node.state"
NEW_NODE_RECORD_FILE = "node.state.new"


class DamagedRecord(Exception):
    """The file has another content; the text gives the operator the remedy."""


class ScaleDownMark(Enum):
    """How far a backup is that took over to move everything to another broker."""

    UNDER_WAY = "under way"
    DONE = "done"


@frozen
class ReplicaRecord:
    """The node and the journal of the data here, and which other broker may have it.

    ``node_id`` and ``journal_identity`` are None as long as it was neither active nor in sync.

    ``epoch`` is Artemis' activation sequence. It counts how many times a broker of that node began to confirm what no
    other copy has. A copy has the epoch of the broker start that it was in sync with.

    ``in_sync``: the files are that broker's journal, up to its end or up to where this one left it.

    ``gave_way``: it was active, and let a primary take over.

    ``last_batch`` is a batch that its own journal had on disk while it was active: a healthy one never ends before it.
    None for a new copy.

    ``newest_segment`` is the generation of a segment of which a copy had batches on disk: a whole one never ends
    before it. None for a broker that was active since.

    ``scale_down`` is set by a backup that takes over to move everything to another broker.

    Where votes decide, and ``quorum`` is not 0: ``quorum`` is the largest number of brokers that were active at the
    same time, as far as was seen with this data. ``partner`` is the connector of the only other broker that may have
    gone on from there, in the form of votes; None without such a broker.
    """

    node_id: str | None = None
    journal_identity: int | None = None
    epoch: int = 0
    in_sync: bool = False
    gave_way: bool = False
    partner: str | None = None
    quorum: int = 0
    last_batch: int | None = None
    newest_segment: int | None = None
    scale_down: ScaleDownMark | None = None

    @property
    def is_only_one(self) -> bool:
        """Return True if no other broker can have gone on from this data."""
        return self.in_sync and self.quorum > 0 and self.partner is None

    def text(self) -> bytes:
        """Return the content of the file."""
        journal = "none" if self.journal_identity is None else f"{self.journal_identity:x}"
        state = "failing back" if self.gave_way else "active" if self.in_sync else "not started"
        end = f"last batch: {self.last_batch}\n" if self.last_batch is not None else ""
        if self.newest_segment is not None:
            end += f"newest segment: {self.newest_segment}\n"
        if self.scale_down is not None:
            end += f"scale-down: {self.scale_down.value}\n"
        voting = f"quorum: {self.quorum}\npartner: {_escaped(self.partner or '')}\n" if self.quorum else ""
        return (
            f"state: {state}\nnode: {self.node_id or ''}\njournal: {journal}\nfile: 0\n"
            f"activation: {self.epoch}\nin sync: {'yes' if self.in_sync else 'no'}\n{end}{voting}"
        ).encode()

    @classmethod
    def read(cls, text: bytes) -> ReplicaRecord:
        """Return the record of a file.

        Raises:
            DamagedRecord: The text cannot be understood.
        """
        lines = dict(line.split(": ", 1) for line in text.decode("utf-8", "replace").splitlines() if ": " in line)
        try:
            journal = lines["journal"]
            epoch = int(lines.get("activation", "0"))
            # Written by a lock store: the journal beside it is the node's.
            in_sync = lines.get("in sync", "yes") == "yes"
            return cls(
                lines["node"] or None,
                int(journal, 16) if journal != "none" else None,
                epoch,
                in_sync,
                lines["state"] == "failing back",
                _plain(lines.get("partner", "")) or None,
                int(lines.get("quorum", "0")),
                int(lines["last batch"]) if "last batch" in lines else None,
                int(lines["newest segment"]) if "newest segment" in lines else None,
                ScaleDownMark(lines["scale-down"]) if "scale-down" in lines else None,
            )
        except (KeyError, ValueError):
            raise DamagedRecord(
                f"{NODE_RECORD_FILE} is damaged: remove it, and the journal beside it becomes that of a new node"
            ) from None


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _plain(text: str) -> str:
    """Return an escaped text as it was.

    Raises:
        ValueError: It was not written by `_escaped`.
    """
    return text.encode("ascii").decode("unicode_escape")
