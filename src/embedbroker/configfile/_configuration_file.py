"""A broker.xml that may change while the broker runs.

Responsible for noticing a change by modification time, size and file. Does not depend on which changes a running broker
adopts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from embedbroker.config import BrokerConfig, ConfigurationWatch

from ._findings import ConfigFileError
from ._stamp import Stamp, stamp_of

__all__ = ["ConfigurationFile"]


#: Loads the file; receives the state of each file that it reads.
_Load: TypeAlias = Callable[[dict[Path, Stamp]], BrokerConfig]


class ConfigurationFile:
    """Read a configuration again from the file that it was loaded from. Files that it includes are not looked at.

    Args:
        path: Path of the file.
        stamp: State of the file before it was loaded.
        config: Configuration that was loaded.
        load: Loads the file again.
    """

    def __init__(self, path: Path, stamp: Stamp, config: BrokerConfig, load: _Load) -> None:
        self._path = path
        self._stamp = stamp
        self._load = load
        self.config = config

    def watch(self) -> ConfigurationWatch:
        """Begin to look for changes since the file was loaded."""
        return _Watch(self._path, self._stamp, self.config, self._load)


class _Watch:
    def __init__(self, path: Path, stamp: Stamp, config: BrokerConfig, load: _Load) -> None:
        self._path = path
        self._stamp = stamp
        self._load = load
        self.current = config
        # Why the file was refused, and the state of each file that was read for that.
        self._refusal = ""
        self._refused: dict[Path, Stamp] = {}

    def refresh(self, check: Callable[[BrokerConfig], None]) -> BrokerConfig | None:
        """Return the configuration if the file changed since it was last read without an error; None otherwise.

        A file that was refused is read again when it changes, or another file that was read with it, such as that of
        the users. Until then the error stays the same.

        Raises:
            ConfigFileError: The file is missing, cannot be read, or is wrong.
        """
        stamp = stamp_of(self._path)
        if stamp == self._stamp:
            return None
        if stamp is None:
            raise ConfigFileError((f"{self._path}: the file is missing or cannot be looked at; put it back",))
        if not self._refused or any(stamp_of(path) != known for path, known in self._refused.items()):
            return self._read(stamp, check)
        raise ConfigFileError((self._refusal,))

    def _read(self, stamp: Stamp, check: Callable[[BrokerConfig], None]) -> BrokerConfig:
        files: dict[Path, Stamp] = {}
        try:
            config = self._load(files)
            check(config)
        except OSError as error:
            raise ConfigFileError((f"{self._path}: cannot be read: {error.strerror}",)) from None
        except ValueError as error:
            self._refusal, self._refused = str(error), files
            raise ConfigFileError((self._refusal,)) from error
        self.current, self._refused = config, {}
        # That from before the file was read: a change during that is a further one.
        self._stamp = stamp
        return config
