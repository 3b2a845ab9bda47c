"""The delivery ledger: sends, confirmations, deliveries and acknowledgements, and the verdict on the broker.

A driver of clients (a simulation, a drill, a fixture, a pipeline) records facts, and the ledger judges them. It does
not depend on brokers, clients, clocks or files: message keys, names and times are plain values.
"""

from ._ledger import Ledger
from ._verdict import FAULTS, Finding, Kill, Tally, Timeline, TimelineBucket, Verdict

__all__ = ["FAULTS", "Finding", "Kill", "Ledger", "Tally", "Timeline", "TimelineBucket", "Verdict"]
