"""What a program can name: everything that public signatures speak of is exported."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import embedbroker
import embedclient
from embedclient import _client, agent, errors, model

OURS = {
    name
    for package in (model, agent, errors, _client, embedclient)
    for name in package.__all__
    if name[0].isupper() and not name.isupper()
}
# What sending and receiving do to a message. They are no part of the API and left out of its documentation.
WITHIN = {
    "encoded",
    "on_acknowledge",
    "received",
    "stored",
    "stored_for_writing",
    "untouched_body",
    "was_sent",
    "body_stream",
}


def annotations_of(public: type) -> Iterator[tuple[str, str]]:
    """Where, and the text, of every annotation that a user of a class meets."""
    for attribute, text in getattr(public, "__annotations__", {}).items():
        if not attribute.startswith("_"):
            yield f"{public.__name__}.{attribute}", _text(text)
    for name, member in vars(public).items():
        if name.startswith("_") or name in WITHIN:
            continue
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if inspect.isfunction(function):
            for parameter, text in function.__annotations__.items():
                yield f"{public.__name__}.{name}({parameter})", _text(text)


def _text(annotation: object) -> str:
    """Modules without postponed annotations keep classes; anything else shows itself as it was written."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def names_in(text: str) -> set[str]:
    """The identifiers of an annotation, those inside quoted parts too."""
    found = set()
    for node in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= names_in(node.value)
    return found


@pytest.mark.parametrize("name", sorted(set(embedclient.__all__) - {"errors"}))
def test_public_signatures_speak_of_exported_names_only(name: str) -> None:
    public = getattr(embedclient, name)
    if not isinstance(public, type):
        return
    exported = {*embedclient.__all__, *errors.__all__, "JMSMessage"}
    missing = {
        f"{word} in {where}" for where, text in annotations_of(public) for word in names_in(text) & OURS - exported
    }
    assert missing == set()


@pytest.mark.parametrize("package", [embedbroker, embedclient])
def test_every_public_name_can_be_had_and_is_listed(package: object) -> None:
    names: list[str] = package.__all__  # type: ignore[attr-defined]  # a module of ours
    assert names == sorted(names, key=lambda name: (name.islower(), name))
    assert all(getattr(package, name) is not None for name in names)


def test_every_public_name_of_the_client_is_in_the_documentation() -> None:
    pages = Path(__file__).parents[2] / "docs" / "api"
    text = "".join(page.read_text() for page in pages.glob("*.md"))
    missing = {name for name in embedclient.__all__ if not re.search(rf"embedclient\.{name}\b", text)}
    assert missing - set(errors.__all__) == set()  # the module of errors is documented as a whole
