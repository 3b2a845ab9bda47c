"""Directories to which the brokers of a user's files write: empty before a drill, and cleared after it.

Responsible for keeping everything that was there before. Does not depend on what brokers write.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from embedbroker import BrokerConfig

from .._failure import WrongInput

__all__ = ["Directory", "directories_of", "foreign_directories", "with_properties"]

#: Artemis has a directory for each kind of file. A directory that the file does not name lies in the drill's instance.
_FOREIGN = ("journal-directory", "bindings-directory", "paging-directory", "large-messages-directory")


@frozen
class Directory:
    """One directory, and the names that were in it before the drill."""

    path: Path
    before: frozenset[str]

    def clear(self) -> None:
        """Remove what was added since."""
        if not self.path.is_dir():
            return
        for path in self.path.iterdir():
            if path.name not in self.before:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def directories_of(file: Path, config: BrokerConfig) -> list[Directory]:
    """Return the directories of a broker of this project: journal, large messages, locks, folder of its lock manager.

    Raises:
        WrongInput: a directory is not empty.
    """
    places = dict.fromkeys(
        filter(None, (config.data_directory, config.large_messages_directory, config.node_manager_lock_directory))
    )
    found = [_empty(file, Path(place)) for place in places]
    manager = getattr(config.ha_policy, "lock_manager", None)
    folder = None if manager is None else manager.properties.get("locks-folder")
    # The folder may hold locks of other brokers.
    return found if folder is None else [*found, Directory(Path(folder), _names_in(file, Path(folder)))]


def foreign_directories(file: Path, properties: Mapping[str, str]) -> list[Directory]:
    """Return the directories of a real Artemis broker: all that its file names.

    Raises:
        WrongInput: a directory is not empty, or a path depends on the place of the instance, which the drill makes.
    """
    text = with_properties(file.read_text(encoding="utf-8"), properties)
    found = []
    for name in _FOREIGN:
        place = re.search(rf"<{name}>\s*(.*?)\s*</{name}>", text, re.DOTALL)
        if place is None or not os.path.isabs(place[1]):
            raise WrongInput(f"{file}: its {name} has to be an absolute path, for --peer artemis makes new instances")
        found.append(_empty(file, Path(place[1])))
    return found


def with_properties(text: str, properties: Mapping[str, str]) -> str:
    """Return a file's text with the values that were given for ``${name}`` and ``${name:default}``."""

    def value(reference: re.Match[str]) -> str:
        return properties.get(reference[1].strip(), reference[0])

    return re.sub(r"\$\{([^}:]*)(:[^}]*)?\}", value, text)


def _empty(file: Path, place: Path) -> Directory:
    names = _names_in(file, place)
    if names:
        raise WrongInput(f"{file}: {place} is not empty, it has {min(names)!r}; a drill begins with an empty journal")
    return Directory(place, names)


def _names_in(file: Path, place: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(place))
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise WrongInput(f"{file}: cannot look into {place}: {error.strerror}") from error
