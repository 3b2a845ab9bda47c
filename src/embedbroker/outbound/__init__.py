"""What this broker does as a client of another one: bridges move messages of a queue, a scale-down moves everything."""

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

from ._bridge import Bridge
from ._bridged_message import BridgedMessage
from ._bridges import Bridges

if TYPE_CHECKING:
    from ._scale_down import ScaleDown, ScaleDownSettings, ScaleDownState

__all__ = ["Bridge", "BridgedMessage", "Bridges", "ScaleDown", "ScaleDownSettings", "ScaleDownState"]

__getattr__ = lazy_names(__name__, {"._scale_down": "ScaleDown ScaleDownSettings ScaleDownState"})
