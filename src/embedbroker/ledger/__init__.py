"""The delivery ledger: what was sent, confirmed, delivered and acknowledged, and what that says about the broker.

It is told facts by whoever drives clients (a simulation, a drill, a fixture, a pipeline) and judges them. It refuses
to know brokers, clients, clocks and files: message keys, names and times come in as plain values.
"""

from ._ledger import Ledger
from ._verdict import FAULTS, Finding, Kill, Tally, Timeline, TimelineBucket, Verdict

__all__ = ["FAULTS", "Finding", "Kill", "Ledger", "Tally", "Timeline", "TimelineBucket", "Verdict"]
