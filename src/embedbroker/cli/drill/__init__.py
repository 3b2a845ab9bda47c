"""The drill: kill a broker process repeatedly under load, and report from a ledger what that did to messages."""

from ._command import drill
from ._group import Group
from ._member import Member, MemberState
from ._pair_files import BrokerFile, write_files
from ._plan import Ha
from ._programs import EmbeddedProgram

__all__ = [
    "BrokerFile",
    "EmbeddedProgram",
    "Group",
    "Ha",
    "Member",
    "MemberState",
    "drill",
    "write_files",
]
