"""A broker.xml that may change while the broker runs.

Responsible for noticing a change by modification time, size and file. Does not depend on which changes a running broker
adopts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from embedbroker.config import BrokerConfig, ConfigurationWatch

from ._findings import ConfigFileError
from ._stamp import Stamp, stamp_of

__all__ = ["ConfigurationFile"]


class ConfigurationFile:
    """Read a configuration again from the file that it was loaded from. Files that it includes are not looked at.

    Args:
        path: Path of the file.
        stamp: State of the file before it was loaded.
        config: Configuration that was loaded.
        load: Loads the file again.
    """

    def __init__(self, path: Path, stamp: Stamp, config: BrokerConfig, load: Callable[[], BrokerConfig]) -> None:
        self._path = path
        self._stamp = stamp
        self._load = load
        self.config = config

    def watch(self) -> ConfigurationWatch:
        """Begin to look for changes since the file was loaded."""
        return _Watch(self._path, self._stamp, self.config, self._load)


class _Watch:
    def __init__(self, path: Path, stamp: Stamp, config: BrokerConfig, load: Callable[[], BrokerConfig]) -> None:
        self._path = path
        self._stamp = stamp
        self._load = load
        self.current = config

    def refresh(self) -> BrokerConfig | None:
        """Return the configuration if the file changed since it was last read without an error; None otherwise.

        A file with an error is read again at each call: the cause may be in another file, such as that of the users.

        Raises:
            ConfigFileError: The file is missing, cannot be read, or is wrong.
        """
        stamp = stamp_of(self._path)
        if stamp == self._stamp:
            return None
        if stamp is None:
            raise ConfigFileError((f"{self._path}: the file is missing or cannot be looked at; put it back",))
        try:
            self.current = self._load()
        except OSError as error:
            raise ConfigFileError((f"{self._path}: cannot be read: {error.strerror}",)) from None
        # That from before the file was read: a change during that is a further one.
        self._stamp = stamp
        return self.current
