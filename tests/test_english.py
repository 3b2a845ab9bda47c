"""Plain English: words that stand for a missing subject or a metaphor must not occur in texts of the project.

The component or the value is the subject of a sentence, and the verb states what it does. See CONTRIBUTING.md. Names in
the source follow the same rule. Of tests only comments and docstrings are searched: their other strings are input.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BANNED = re.compile(
    r"\b((?i:who|whoever|whom|nobody|somebody|everybody|anybody|says|said|tells|told|hears|heard|asks|knows"
    r"|in vain|so often|its word|refuses to know|of its own|as it is)|is none)\b"
)

BANNED_IN_NAMES = re.compile(
    r"who|whoever|whom|nobody|somebody|everybody|anybody|says?|said|tells?|told|hears?|heard|asks?|asked|asking"
    r"|speaks?|spoken|knows"
)
# Names of others, and a public one.
NAMES_ALLOWED = {"tell": "of files", "knows": "of `embedbroker.Ledger`"}


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Comments, docstrings and other strings of a module that read as text, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        # A single word is a name or a key.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def comments_and_docstrings_of(source: str) -> Iterator[tuple[int, str]]:
    """Comments and docstrings of a module, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        for each in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield each.lineno, each.value.value


def banned_names_in(source: str) -> Iterator[tuple[int, str]]:
    """Names of the code with a part that does not belong there, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string not in NAMES_ALLOWED:
            parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", token.string).lower().split("_")
            if any(BANNED_IN_NAMES.fullmatch(part) for part in parts):
                yield token.start[0], token.string


def prose_of(page: str) -> Iterator[tuple[int, str]]:
    """The lines of a page without its code."""
    in_code = ""
    for number, line in enumerate(page.splitlines(), 1):
        fence = re.match(r"(```+|~~~+)", line)
        if fence is not None:
            in_code = "" if in_code == fence[1] else in_code or fence[1]
        elif not in_code:
            yield number, re.sub(r"`[^`\n]*`", "", line)


def may_have_findings(source: str) -> bool:
    """False if a module has no such word at all, wherever a text of several literals is broken."""
    return BANNED.search(re.sub(r"[\"']\s*\n\s*\w?[\"']", "", source)) is not None


def findings_in(texts: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    return [(line, match[0]) for line, text in texts for match in BANNED.finditer(text)]


def modules() -> Iterator[Path]:
    for top in ("benchmarks", "docs", "examples", "src", "tools"):
        yield from (ROOT / top).rglob("*.py")


def modules_of_tests() -> Iterator[Path]:
    yield from (ROOT / "tests").rglob("*.py")


def pages() -> Iterator[Path]:
    for top in ("docs", "newsfragments"):
        yield from (ROOT / top).rglob("*.md")
    yield from ROOT.glob("*.md")


def test_texts_have_a_component_as_their_subject() -> None:
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {word}"
        for paths, texts in (
            (modules(), texts_of),
            (modules_of_tests(), comments_and_docstrings_of),
            (pages(), prose_of),
        )
        for path in paths
        if may_have_findings(source := path.read_text())
        for line, word in findings_in(texts(source))
    ]
    assert found == [], "see BANNED, and write the component as the subject"


def test_names_are_those_of_the_field() -> None:
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {name}"
        for path in (ROOT / "src").rglob("*.py")
        for line, name in banned_names_in(path.read_text())
    ]
    assert found == [], "write send, request, receive, report, notify, ..."


def test_which_names_are_found() -> None:
    source = "def ask_all(told, asked_s, Heard): return task + flask.say + knows  # tell"
    assert [name for _, name in banned_names_in(source)] == ["ask_all", "told", "asked_s", "Heard", "say"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Whoever asks first gets it; nobody else.", ["Whoever", "asks", "nobody"]),
        ("The broker returns the first free port.", []),
        ("`who` is code", []),
        ("```\nwho\n```\nIt knows.", ["knows"]),
    ],
)
def test_what_is_found(text: str, words: list[str]) -> None:
    assert [word for _, word in findings_in(prose_of(text))] == words
