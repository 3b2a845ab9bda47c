"""The filters of configured queues, checked before anything starts.

Responsible for refusing one that is not a selector: its queue would be missing, and messages with it. Does not depend
on the grammar of selectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedbroker.kernel import InvalidSelector, SelectorCache

if TYPE_CHECKING:
    from embedbroker.config import BrokerConfig

__all__ = ["check_filters"]


def check_filters(config: BrokerConfig) -> None:
    """Check the filter of each queue.

    Raises:
        ValueError: a filter is not a selector; the text names address and queue, and the place in the filter.
    """
    selectors = SelectorCache()
    for name, address in config.addresses.items():
        for queue, wanted in {**(address.anycast or {}), **(address.multicast or {})}.items():
            try:
                selectors.find(wanted.filter)
            except InvalidSelector as error:
                raise ValueError(f"addresses: address {name!r}, queue {queue!r}: filter: {error}") from None
