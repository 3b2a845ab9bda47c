"""The other plugins that run async tests.

Responsible for whether one is there. Imports pytest only.
"""

from __future__ import annotations

import pytest

__all__ = ["has_plugin"]

#: The other plugins that run async tests: by their loop, what they are called when they are loaded, and by ``-p``.
_PLUGINS = {
    "asyncio": ("asyncio", "pytest_asyncio.plugin", "pytest_asyncio"),
    "trio": ("trio", "pytest_trio.plugin", "pytest_trio"),
    "anyio": ("anyio", "anyio.pytest_plugin"),
}


def has_plugin(config: pytest.Config, name: str) -> bool:
    """Return True if a plugin for async tests is loaded."""
    return any(config.pluginmanager.hasplugin(each) for each in _PLUGINS[name])
