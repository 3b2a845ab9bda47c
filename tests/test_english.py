"""Plain English: words that stand for a missing subject or a metaphor, counted per package; the counts may only shrink.

The component or the value is the subject of a sentence, and the verb states what it does. See CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BANNED = re.compile(
    r"\b((?i:who|whoever|whom|nobody|somebody|everybody|anybody|says|said|tells|told|hears|heard|asks|knows"
    r"|in vain|so often|its word|refuses to know|of its own|as it is)|is none)\b"
)

# What each package still has, in docstrings, comments and texts; the guide's pages by themselves. A package that has
# none has no entry.
LEFT: dict[str, int] = {
}


def texts_of(source: str) -> Iterator[str]:
    """Comments, docstrings and other strings of a module that read as text."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        # A single word is a name or a key.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.value


def prose_of(page: str) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^(```+|~~~+).*?^\1", "", page, flags=re.DOTALL | re.MULTILINE))


def package_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def count_of(texts: Iterator[str]) -> int:
    return sum(len(BANNED.findall(text)) for text in texts)


def pages() -> Iterator[Path]:
    for top in ("docs",):
        yield from (ROOT / top).rglob("*.md")
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md")


def found() -> Counter[str]:
    counts: Counter[str] = Counter()
    for path in (ROOT / "src").rglob("*.py"):
        counts[package_of(path)] += count_of(texts_of(path.read_text()))
    for top in ("benchmarks", "docs", "examples", "tools"):
        for path in (ROOT / top).rglob("*.py"):
            counts[path.relative_to(ROOT).as_posix()] += count_of(texts_of(path.read_text()))
    for path in pages():
        counts[path.relative_to(ROOT).as_posix()] += count_of(iter([prose_of(path.read_text())]))
    return +counts


def test_texts_have_a_component_as_their_subject() -> None:
    counts = found()
    more = {name: (count, LEFT.get(name, 0)) for name, count in counts.items() if count > LEFT.get(name, 0)}
    assert more == {}, "banned words (found, allowed): see BANNED, and write the component as the subject"


def test_the_counts_of_what_is_left_are_not_out_of_date() -> None:
    counts = found()
    assert {name: (counts[name], left) for name, left in LEFT.items() if counts[name] < left} == {}, "lower them"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Whoever asks first gets it; nobody else.", 3),
        ("The broker returns the first free port.", 0),
        ("`who` is code", 1),
    ],
)
def test_what_is_counted(text: str, count: int) -> None:
    assert count_of(iter([text])) == count
