"""The filters of configured queues, read before anything starts.

Responsible for refusing one that is no selector: its queue would be missing, and messages with it. Refuses to know what
a selector may say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedbroker.kernel import InvalidSelector, SelectorCache

if TYPE_CHECKING:
    from embedbroker.config import BrokerConfig

__all__ = ["check_filters"]


def check_filters(config: BrokerConfig) -> None:
    """Look at the filter of each queue.

    Raises:
        ValueError: one is no selector; the text names address and queue, and the place in the filter.
    """
    selectors = SelectorCache()
    for name, address in config.addresses.items():
        for queue, wanted in {**(address.anycast or {}), **(address.multicast or {})}.items():
            try:
                selectors.find(wanted.filter)
            except InvalidSelector as error:
                raise ValueError(f"addresses: address {name!r}, queue {queue!r}: filter: {error}") from None
