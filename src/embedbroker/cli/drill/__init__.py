"""The drill: a broker process is killed again and again under load, and a ledger says what that did to messages."""

from ._chart import Band, Lane, Series, Stretch, chart
from ._command import drill
from ._group import Group
from ._member import Member, MemberState
from ._page import STYLE
from ._pair_files import BrokerFile, write_files
from ._plan import Ha
from ._programs import EmbeddedProgram

__all__ = [
    "STYLE",
    "Band",
    "BrokerFile",
    "EmbeddedProgram",
    "Group",
    "Ha",
    "Lane",
    "Member",
    "MemberState",
    "Series",
    "Stretch",
    "chart",
    "drill",
    "write_files",
]
