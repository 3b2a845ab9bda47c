"""docs/ARCHITECTURE.md names files, classes and functions: all of them exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_architecture import ALLOWED, SYNC, SYNC_BROKER

ROOT = Path(__file__).parents[1]
CODE = re.compile(r"`([^`\n]+)`")
DOCUMENT = re.sub(r"^```.*?^```$", "", (ROOT / "docs" / "ARCHITECTURE.md").read_text(), flags=re.MULTILINE | re.DOTALL)
SPANS = sorted(set(CODE.findall(DOCUMENT)))
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for top in ("src", "tests")
    for path in (ROOT / top).rglob("*.py")
}
# An identifier, dotted or called: `Kernel.send`, `step(input, now)`. Whatever else stands in backticks names no code.
IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*(\(.*\))?")
LAYER = re.compile(r"[bc]\.\w+")


def test_every_file_it_names_is_there() -> None:
    def is_there(name: str) -> bool:
        name = re.sub(r"^b\.", "embedbroker/", re.sub(r"^c\.", "embedclient/", name))
        return any(file.endswith(f"/{name}") or file == name for file in SOURCES)

    named = [span for span in SPANS if span.endswith(".py")]
    assert len(named) > 20
    assert [name for name in named if not is_there(name)] == []


def test_every_name_it_uses_is_in_the_source() -> None:
    known = set(re.findall(r"\w+", "\n".join(text for file, text in SOURCES.items() if file.startswith("src/"))))
    named = [
        span for span in SPANS if IDENTIFIER.fullmatch(span) and not span.endswith(".py") and not LAYER.match(span)
    ]
    assert len(named) > 50
    assert {name for name in named if not set(re.findall(r"\w+", name)) <= known} == set()


def test_the_table_of_layers_is_the_one_that_is_enforced() -> None:
    """The allowed imports, and which layers are synchronous: the same in the document and in the test of imports."""
    rows = re.findall(r"^\| ([bc]\.\w+) \|[^|]*\|([^|]*)\|([^|]*)\|$", DOCUMENT, re.MULTILINE)
    assert len(rows) == len(ALLOWED)
    names = {"`embedbroker`": "b", "`embedclient`": "c", "nothing": ""}

    def imports(text: str) -> set[str]:
        text = text.replace("every sync b. package above", SYNC_BROKER)
        return {names.get(name, name) for name in text.replace(",", " ").split()} - {""}

    assert {layer: imports(text) for layer, text, _ in rows} == {
        layer: set(allowed.split()) for layer, allowed in ALLOWED.items()
    }
    assert {layer for layer, _, driver in rows if driver.strip() == "sync"} == SYNC
