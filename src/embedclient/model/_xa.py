"""Outcomes of XA requests, by the numbers that X/Open gave them."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["XaCode"]


class XaCode(IntEnum):
    """What a resource manager answers to a transaction manager: below zero are errors, above it outcomes."""

    XA_OK = 0
    XA_RDONLY = 3
    XA_RETRY = 4
    XA_HEURRB = 6
    XA_HEURCOM = 7
    XA_RBROLLBACK = 100
    XA_RBTIMEOUT = 106
    XAER_RMERR = -3
    XAER_NOTA = -4
    XAER_INVAL = -5
    XAER_PROTO = -6
    XAER_RMFAIL = -7
    XAER_DUPID = -8
