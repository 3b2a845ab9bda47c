"""`load_config`: from a file on disk to a `BrokerConfig`.

Responsible for the order of the steps, for the places a relative directory starts from, and for the destination of
warnings.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve

from embedbroker.config import BrokerConfig

from ._broker_xml import broker_config
from ._configuration_file import ConfigurationFile
from ._document import read_document
from ._findings import Findings
from ._names_check import check_names
from ._rest import warn_about_rest
from ._stamp import Stamp, stamp_of

__all__ = ["load_config"]

_INSTANCE = "artemis.instance"
_logger = logging.getLogger("embedbroker.configfile")


def load_config(
    path: str | os.PathLike[str],
    *,
    properties: Mapping[str, str] | None = None,
    on_warning: Callable[[str], object] | None = None,
) -> BrokerConfig:
    """Read an Artemis broker.xml.

    ``${name}`` and ``${name:default}`` in it are replaced from ``properties``, then from the environment. Relative
    directories start at the directory of the file. If that is called ``etc``, as in the directory that ``artemis
    create`` makes, they start at its parent. The property ``artemis.instance`` overrides both.

    A broker with this configuration looks at the file each ``configuration_file_refresh_period_ms`` and adopts changes.

    A request of the file that this broker does not support yet is a warning, one line for each name.

    Args:
        path: Path of the file.
        properties: Values for references in the file.
        on_warning: Receives each warning; by default they are logged to ``embedbroker.configfile``. A running broker
            that reads the file again calls it in another thread.

    Raises:
        ConfigFileError: The file is wrong; the text has a line for each error, with its path in the file.
        OSError: The file cannot be read.
        TypeError: A property is not a text.
    """
    file = Path(path)
    given = {} if properties is None else _texts(properties)
    warn = _logger.warning if on_warning is None else on_warning
    warned: set[str] = set()
    stamp = stamp_of(file)

    def load(files: dict[Path, Stamp]) -> BrokerConfig:
        config, warnings = _read(file, given, Findings(files=files))
        # Read again, a file has only its new warnings logged.
        for line in warnings:
            if line not in warned:
                warned.add(line)
                warn(line)
        return config

    config = load({})
    return evolve(config, configuration_source=ConfigurationFile(file, stamp, config, load))


def _read(file: Path, given: Mapping[str, str], findings: Findings) -> tuple[BrokerConfig, list[str]]:
    """Return the configuration of a file, and the warnings about it."""
    folder = file.absolute().parent
    instance = Path(given.get(_INSTANCE) or (folder.parent if folder.name == "etc" else folder)).absolute()
    known = {
        "artemis.instance.etc": str(folder),
        "artemis.instance.uri": instance.as_uri(),
        **given,
        _INSTANCE: str(instance),
    }
    root = read_document(file, known, os.environ, findings)
    check_names(root, findings)
    config = broker_config(root, folder, instance, known, os.environ, findings)
    findings.raise_if_wrong()
    assert config is not None, "without errors there is a configuration"
    warn_about_rest(root, findings)
    return config, findings.warnings


def _texts(properties: Mapping[Any, Any]) -> dict[str, str]:
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"properties must map names to texts, not {name!r} to {value!r}")
    return dict(properties)
