"""What this broker does as a client of another one: bridges move messages of a queue, a scale-down moves everything.

A configured bridge moves them to an address there, and one of a cluster connection to queues of a member.
"""

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

from ._bridge import Bridge
from ._bridged_message import BridgedMessage
from ._bridges import Bridges

if TYPE_CHECKING:
    from ._member_bridge import STORE_AND_FORWARD_PREFIX, MemberBridge
    from ._member_bridges import MemberBridges
    from ._scale_down import ScaleDown, ScaleDownSettings, ScaleDownState
    from ._ways import Ways

__all__ = [
    "STORE_AND_FORWARD_PREFIX",
    "Bridge",
    "BridgedMessage",
    "Bridges",
    "MemberBridge",
    "MemberBridges",
    "ScaleDown",
    "ScaleDownSettings",
    "ScaleDownState",
    "Ways",
]

__getattr__ = lazy_names(
    __name__,
    {
        "._member_bridge": "STORE_AND_FORWARD_PREFIX MemberBridge",
        "._member_bridges": "MemberBridges",
        "._scale_down": "ScaleDown ScaleDownSettings ScaleDownState",
        "._ways": "Ways",
    },
)
