"""The drill: a broker process is killed again and again under load, and a ledger says what that did to messages."""

from ._command import drill

__all__ = ["drill"]
