"""The API reference has every public name: what a package lists in `__all__` stands on a page of docs/api."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

API = Path(__file__).parents[1] / "docs" / "api"
PACKAGES = [
    "embedbroker",
    "embedbroker.ledger",
    "embedbroker.pytest_plugin",
    "embedbroker.testing",
    "embedclient",
    "embedclient.asyncio",
    "embedclient.blocking",
    "embedclient.errors",
]
DIRECTIVE = re.compile(r"^\.\. (?:auto(?:class|exception|function)|py:data):: ([\w.]+)$", re.MULTILINE)
WHOLE_MODULE = re.compile(r"^\.\. automodule:: ([\w.]+)\n(?:   :.*\n)*?   :members:$", re.MULTILINE)


def resolved(dotted: str) -> object:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def documented() -> dict[str, object]:
    """What the pages have, by its full name."""
    text = "\n".join(page.read_text() for page in sorted(API.glob("*.md")))
    names = DIRECTIVE.findall(text)
    for module in WHOLE_MODULE.findall(text):
        names += [f"{module}.{name}" for name in importlib.import_module(module).__all__]
    return {name: resolved(name) for name in names}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_stands_on_a_page(package: str) -> None:
    module = importlib.import_module(package)
    shown = documented()
    # A class may be documented under the name of the package it lives in.
    classes = [found for found in shown.values() if inspect.isclass(found)]
    objects = {name: getattr(module, name) for name in module.__all__}
    missing = {name for name, value in objects.items() if f"{package}.{name}" not in shown and value not in classes}
    assert missing - {"errors"} == set()  # a module, with a separate page


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_class_and_function_says_what_it_is(package: str) -> None:
    module = importlib.import_module(package)
    objects = {name: getattr(module, name) for name in module.__all__}
    silent = [
        name
        for name, value in objects.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and not inspect.getdoc(value)
    ]
    assert silent == []
