"""The filters of configured queues and the passwords of users, checked before anything starts.

Responsible for refusing a filter that is not a selector: its queue would be missing, and messages with it. Also
responsible for refusing a password that no client could give. Does not depend on the grammar of either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedbroker.kernel import InvalidSelector, SelectorCache

if TYPE_CHECKING:
    from embedbroker.config import BrokerConfig

__all__ = ["check_filters", "check_passwords"]


def check_filters(config: BrokerConfig) -> None:
    """Check the filter of each queue, each divert and each bridge.

    Raises:
        ValueError: a filter is not a selector; the text names its owner, and the place in the filter.
    """
    selectors = SelectorCache()
    for name, divert in config.diverts.items():
        try:
            selectors.find(divert.filter)
        except InvalidSelector as error:
            raise ValueError(f"diverts: divert {name!r}: filter: {error}") from None
    for bridge in config.bridges:
        try:
            selectors.find(bridge.filter)
        except InvalidSelector as error:
            raise ValueError(f"bridges: bridge {bridge.name!r}: filter: {error}") from None
    for name, address in config.addresses.items():
        for queue, wanted in {**(address.anycast or {}), **(address.multicast or {})}.items():
            try:
                selectors.find(wanted.filter)
            except InvalidSelector as error:
                raise ValueError(f"addresses: address {name!r}, queue {queue!r}: filter: {error}") from None


def check_passwords(config: BrokerConfig) -> None:
    """Check the password of each user.

    Raises:
        ValueError: a password is ``ENC(...)`` without a hash in it; the text names the user.
    """
    for user in config.users:
        # Few configurations have users.
        from embedbroker.security import InvalidHash, StoredPassword

        try:
            if user.password is not None:
                StoredPassword(user.password)
        except InvalidHash as error:
            raise ValueError(f"users: the password of user {user.name!r}: {error}") from None
