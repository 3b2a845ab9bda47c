"""Codes and flags between transaction managers and resource managers, numbered as in X/Open and JTA."""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = ["XaCode", "XaFlag"]


class XaCode(IntEnum):
    """A resource manager's answer to a transaction manager: below zero are errors, above it outcomes."""

    XA_OK = 0
    XA_RDONLY = 3
    XA_RETRY = 4
    XA_HEURMIX = 5
    XA_HEURRB = 6
    XA_HEURCOM = 7
    XA_HEURHAZ = 8
    XA_NOMIGRATE = 9
    XA_RBROLLBACK = 100
    XA_RBCOMMFAIL = 101
    XA_RBDEADLOCK = 102
    XA_RBINTEGRITY = 103
    XA_RBOTHER = 104
    XA_RBPROTO = 105
    XA_RBTIMEOUT = 106
    XA_RBTRANSIENT = 107
    XAER_ASYNC = -2
    XAER_RMERR = -3
    XAER_NOTA = -4
    XAER_INVAL = -5
    XAER_PROTO = -6
    XAER_RMFAIL = -7
    XAER_DUPID = -8
    XAER_OUTSIDE = -9

    @property
    def rolled_back(self) -> bool:
        """Return True if the code means that the branch was rolled back (XA_RB...)."""
        return XaCode.XA_RBROLLBACK <= self <= XaCode.XA_RBTRANSIENT


class XaFlag(IntFlag):
    """The flags of `start`, `end` and `recover`. `TMONEPHASE` is here for completeness: `commit` has an argument."""

    TMNOFLAGS = 0
    TMJOIN = 0x00200000
    TMENDRSCAN = 0x00800000
    TMSTARTRSCAN = 0x01000000
    TMSUSPEND = 0x02000000
    TMSUCCESS = 0x04000000
    TMRESUME = 0x08000000
    TMFAIL = 0x20000000
    TMONEPHASE = 0x40000000
