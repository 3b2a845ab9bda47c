"""TLS over strings of bytes: contexts made of key stores, and the state machine of one connection.

Responsible for certificates, versions, suites and the texts of failures. Reads files when a context is made; waits for
nothing, and moves no bytes to a peer.
"""

from __future__ import annotations

from ._connection import PLAIN_BYTES_ALERT, STALLED, TLSConnection, TLSError
from ._contexts import AcceptorTLS, TLSStoreError, connector_tls, log_as
from ._stores import read_key_store, read_trust_store

__all__ = [
    "PLAIN_BYTES_ALERT",
    "STALLED",
    "AcceptorTLS",
    "TLSConnection",
    "TLSError",
    "TLSStoreError",
    "connector_tls",
    "log_as",
    "read_key_store",
    "read_trust_store",
]
