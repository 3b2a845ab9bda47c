"""The configuration file of a running broker: a change is adopted, and what needs a restart is named.

Responsible for the period, for the parts that a program did not give itself, and for one log line about each change.
Does not depend on the format of the file.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio
from attrs import fields
from trio.lowlevel import enable_ki_protection

from embedbroker.config import BrokerConfig, ConfigurationSource
from embedbroker.node import check_filters

from ._threads import Threads

if TYPE_CHECKING:
    from ._host import Host

__all__ = ["FollowedConfiguration", "reloaded_parts"]

# The parts that a running broker adopts, in the order of Artemis.
_RELOADED = ("security_settings", "address_settings", "diverts", "addresses")
# Users have files, which their source reads.
_OF_SOURCES = ("users", "guest", "user_source", "configuration_source")


def reloaded_parts(config: BrokerConfig) -> dict[str, Mapping[str, Any]]:
    """Return the parts of a configuration that a running broker adopts, by name."""
    return {
        "security_settings": config.permissions,
        "address_settings": config.address_settings,
        "diverts": config.diverts,
        "addresses": config.addresses,
    }


class FollowedConfiguration:
    """Follow the configuration file of one life of a broker.

    A value that the program gave in place of that of the file stays.

    Args:
        source: Reads the file.
        config: Configuration of the broker.
        host: Host of the broker, which adopts changes.
        logger: Receives one line about each change, and about each reason for which the file cannot be used.
    """

    def __init__(self, source: ConfigurationSource, config: BrokerConfig, host: Host, logger: logging.Logger) -> None:
        self._watch = source.watch()
        self._followed = [name for name in _RELOADED if getattr(config, name) == getattr(source.config, name)]
        self._host = host
        self._logger = logger
        # Why the file cannot be used now; empty if it can.
        self._problem = ""
        # Management may request a look during another one.
        self._one_at_a_time = trio.Lock()
        # Not those of the disk: a file in a folder that hangs must not delay records.
        self._threads = Threads(1, logger.warning)

    @enable_ki_protection
    async def run(self, period_s: float) -> None:
        """Look at the file once the broker serves clients, and then at this period."""
        await self._host.ready.wait()
        while not self._host.stopped.is_set():
            await self.look()
            await trio.sleep(period_s)

    async def look(self) -> str | None:
        """Adopt the configuration if its file changed. One that cannot be used changes nothing: return the reason."""
        async with self._one_at_a_time:
            return await self._look()

    async def _look(self) -> str | None:
        before = self._watch.current
        try:
            config = await self._threads.run(self._watch.refresh, check_filters, abandon_on_cancel=True)
        except ValueError as error:
            # Once for each reason.
            if str(error) != self._problem:
                self._problem = str(error)
                reasons = "; ".join(self._problem.splitlines())
                self._logger.error("the configuration is not changed, its file cannot be used: %s", reasons)
            return str(error)
        self._problem = ""
        if config is not None and not self._host.stopped.is_set():
            await self._adopt(before, config)
        return None

    async def _adopt(self, before: BrokerConfig, config: BrokerConfig) -> None:
        parts = {name: part for name, part in reloaded_parts(config).items() if name in self._followed}
        answer = await self._host.reload(**parts)
        if answer is None:
            return
        self._logger.info("the configuration is read again: %s", ", ".join(parts) or "the program gave all its parts")
        if answer[1] is not None:
            self._logger.error("the changed configuration is not adopted as a whole: %s", answer[1])
        kept = _changes_that_need_a_restart(before, config)
        if kept:
            self._logger.warning("changes of the configuration that need a restart: %s", ", ".join(kept))


def _changes_that_need_a_restart(before: BrokerConfig, after: BrokerConfig) -> list[str]:
    """Return the names of changed values that a running broker does not adopt."""
    names = [each.name for each in fields(BrokerConfig) if each.name not in (*_RELOADED, *_OF_SOURCES)]
    return [name for name in names if getattr(before, name) != getattr(after, name)]
